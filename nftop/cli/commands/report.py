"""`nftop report`, and the report that key H writes."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import time
from collections.abc import Callable
from pathlib import Path

from nftop.cli.cuts import BAD_RECORDING, ending_on_signal, open_cut
from nftop.export.output import FAILURE, OK, USAGE, fail, put, warn
from nftop.export.report.content import report_blocks
from nftop.export.report.pages import html_report, markdown_report
from nftop.render.base.text import printable
from nftop.render.frame.header import recorded
from nftop.session.interval import NamedInterval, opened
from nftop.session.reader import NoMomentError, NoRecordingError
from nftop.session.report_data import collect
from nftop.store.folders import open_file, write_new
from nftop.store.recording.sink import exists

_MOST_DOCTOR = 1 << 20
_FORMS = {".html": "html", ".htm": "html", ".md": "md"}


def report(options: argparse.Namespace) -> int:
    try:
        form, doctor = _form(options), _doctor_text(options.doctor)
    except ValueError as error:
        return fail(str(error), USAGE)
    except OSError as error:
        return fail(f"{printable(options.doctor)}: {error.strerror}", FAILURE)
    cut = open_cut(options.file)
    if isinstance(cut, int):
        return cut
    ended: list[int] = []
    try:
        with ending_on_signal(ended, cut):
            data = collect(cut)
    except InterruptedError:
        return 128 + ended[0]
    finally:
        cut.data.close()
    if data is None:
        return fail(f"{printable(cut.file)}: no tick is in that interval", BAD_RECORDING)
    blocks = report_blocks(data, _command_line(options), doctor)
    for _, loss in cut.losses:
        warn(f"nftop: {loss.sentence}")
    if cut.unfinished:
        warn(f"nftop: {cut.unfinished}")
    text = html_report(blocks) if form == "html" else markdown_report(blocks)
    code = _put(options.output, text)
    if code == OK:
        name = "standard output" if options.output == "-" else options.output
        count = sum(item.kind == "incident" for item in data.events)
        warn(f"nftop: {recorded(name, data.ticks, len(text.encode()))}; incidents: {count}")
    return BAD_RECORDING if code == OK and cut.damaged else code


def _command_line(options: argparse.Namespace) -> str:
    """The command that makes this report again."""
    words = ["nftop", "report", options.file]
    words += ["--doctor", options.doctor] if options.doctor is not None else []
    words += ["--format", options.form] if options.form is not None else []
    return shlex.join([*words, "-o", options.output])


def _form(options: argparse.Namespace) -> str:
    """`html` or `md`. Raises ValueError: the file exists, or its name does not say which."""
    if options.output == "-":
        return options.form or "md"
    path = Path(options.output)
    form: str | None = options.form or _FORMS.get(path.suffix.lower())
    if form is None:
        raise ValueError(
            f"{printable(options.output)}: a report is .html or .md; --format html or --format md "
            "for another name"
        )
    if exists(path.absolute()):
        raise ValueError(f"{printable(options.output)} exists, and no report is written over")
    return form


def _doctor_text(name: str | None) -> str:
    """Text of a file with the output of doctor. Raises OSError."""
    if name is None:
        return ""
    with os.fdopen(open_file(Path(name)), encoding="utf-8", errors="replace") as file:
        return file.read(_MOST_DOCTOR)


def _put(output: str, text: str) -> int:
    """Write a report to a new file or to standard output; returns the exit code."""
    if output == "-":
        put(sys.stdout, text)
        return OK
    try:
        write_new(Path(output).absolute(), text)
    except OSError as error:
        return fail(f"{printable(output)}: {error.strerror}", FAILURE)
    return OK


def write_report(recording: str, doctor: str) -> str:
    """Write the report of a recording into its folder, as HTML; returns a message.

    It takes a quarter of a CPU, since the session goes on meanwhile.
    """
    path = Path(recording).with_suffix(".html")
    try:
        cut = opened(NamedInterval(recording))
        try:
            data = collect(cut, _quarter())
        finally:
            cut.data.close()
        if data is None:
            return f"{recording}: no tick is in it"
        blocks = report_blocks(data, "key H", doctor)
        write_new(path, html_report(blocks))
    except OSError as error:
        return f"{path}: {error.strerror}"
    except (NoRecordingError, NoMomentError) as error:
        return f"{recording}: {error}"
    return f"report: {path}"


def _quarter() -> Callable[[], None]:
    """A pause that is three times as long as the CPU time of this thread since the last one."""
    last_s = time.thread_time()

    def pause() -> None:
        nonlocal last_s
        time.sleep(3 * max(0.0, time.thread_time() - last_s))
        last_s = time.thread_time()

    return pause
