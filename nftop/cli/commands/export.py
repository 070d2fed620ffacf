"""`compare`, `export` and `report`: evaluate recordings."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import signal
import sys
import threading
from contextlib import AbstractContextManager, closing
from pathlib import Path

from nftop.cli.signals import handling
from nftop.derive.compare.intervals_report import comparison
from nftop.derive.compare.metric import SAMPLES_NEEDED
from nftop.derive.experiment.curve import curve_of
from nftop.export.json.compare import comparison_json
from nftop.export.output import FAILURE, OK, USAGE, fail, put, say
from nftop.export.report.content import report_blocks
from nftop.export.report.pages import html_report, markdown_report
from nftop.export.tables.outputs import Outputs, OutputsError
from nftop.export.tables.tables import TABLES
from nftop.render.base.text import printable
from nftop.render.experiment.text import group_text, result_text, trial_text
from nftop.render.pages.compare import comparison_text, interval_line
from nftop.session.compare import notes, side
from nftop.session.interval import Cut, named, opened, ticks
from nftop.session.markers import all_markers
from nftop.session.reader import NoMomentError, NoRecordingError
from nftop.session.report import collect
from nftop.store.folders import caller, open_file, write_new
from nftop.store.format.records import Marker
from nftop.store.history.experiments import RecordedExperiment, with_step

BAD_RECORDING = 4
_MOST_DOCTOR = 1 << 20
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def compare(options: argparse.Namespace) -> int:
    if options.b is None:
        return _compared_rounds(options)
    cuts: list[Cut] = []
    try:
        for text in (options.a, options.b):
            cut = _opened(text)
            if isinstance(cut, int):
                return cut
            cuts.append(cut)
        a, b = cuts
        same = (a.began_ns, a.host) == (b.began_ns, b.host)
        # A tick at the border is part of the former interval; it only starts the latter.
        if same and a.from_ns < b.to_ns and b.from_ns < a.to_ns:
            return fail("A and B overlap: what is in both can't differ", USAGE)
        for name, cut in zip("AB", cuts, strict=True):
            _say_if_short(name, cut)
        return _compared(a, b, json=options.form == "json")
    finally:
        for cut in cuts:
            cut.data.close()


def _compared_rounds(options: argparse.Namespace) -> int:
    """The settings of a recorded experiment, compared by its visits and rounds."""
    if options.form == "json":
        return fail("--json: give two intervals; the JSON of an experiment is that of cat sweep",
                    USAGE)  # fmt: skip
    cut = _opened(options.a)
    if isinstance(cut, int):
        return cut
    known: RecordedExperiment | None = None
    with closing(cut.data):
        for marker in all_markers(cut.data, threading.Event()):
            if isinstance(marker, Marker) and marker.wall_ns <= cut.to_ns:
                known = with_step(known, marker.detail)
    if known is None:
        return fail(f"{printable(options.a)} has no experiment: give two intervals", USAGE)
    width = shutil.get_terminal_size().columns
    rounds = max((visit.round for visit in known.visits), default=0)
    ended = "not ended" if known.ended is None else f"ended ({known.ended}), {known.outcome}"
    head = f"experiment of {group_text(known.plan)}: {rounds} rounds, {ended}"
    texts = (
        trial_text(known.plan, known.visits, width)
        if known.plan.kind == "try"
        else result_text(known.plan, curve_of(known.plan, known.visits), width)
    )
    lines = [printable(head), *texts]
    put(sys.stdout, "\n".join(lines) + "\n")
    return OK


def _say_if_short(name: str, cut: Cut) -> None:
    """Report before reading that an interval is too short to detect a difference."""
    samples = cut.expected_samples
    if samples is not None and samples < SAMPLES_NEEDED:
        say(
            f"nftop: {name} has {samples} samples at most, and a difference needs "
            f"{SAMPLES_NEEDED}, more where noise persists: {SAMPLES_NEEDED - samples} more"
        )


def _compared(a: Cut, b: Cut, *, json: bool) -> int:
    ended: list[int] = []
    try:
        with _ending(ended, a, b):
            both = side(a, b), side(b, a)
    except InterruptedError:
        return 128 + ended[0]
    report = comparison(both[0].interval, both[1].interval, (both[0].context, both[1].context))
    if json:
        put(sys.stdout, comparison_json(*both, report, notes(*both)).decode() + "\n")
    else:
        lines = [
            interval_line(name, item.file, item.host, item.interval, simulated=item.simulated)
            for name, item in zip("AB", both, strict=True)
        ]
        put(sys.stdout, "\n".join(lines) + "\n" + comparison_text(report, notes(*both)))
    return BAD_RECORDING if a.damaged or b.damaged else OK


def export(options: argparse.Namespace) -> int:
    if options.table is not None and options.table not in TABLES:
        known = ", ".join(TABLES)
        return fail(f"no table is called {printable(options.table)!r}; there is {known}", USAGE)
    if options.output == "-" and (options.table is None or options.form == "parquet"):
        return fail("only one table, and none of Parquet, goes to standard output", USAGE)
    cut = _opened(options.file)
    if isinstance(cut, int):
        return cut
    names = tuple(TABLES) if options.table is None else (options.table,)
    path = None if options.output == "-" else Path(options.output).absolute()
    try:
        outputs = Outputs(
            path, options.form, names,
            folder=options.table is None, owner=caller(os.environ), host=cut.host,
        )  # fmt: skip
        return _exported(cut, outputs)
    except OutputsError as error:
        return fail(printable(str(error)), FAILURE)
    finally:
        cut.data.close()


def _exported(cut: Cut, outputs: Outputs) -> int:
    ended: list[int] = []
    done = False
    try:
        with _ending(ended, cut):
            for shown in ticks(cut, outputs.marker):
                outputs.tick(shown.number, shown.frame)
            outputs.losses(cut.losses)
            rows = outputs.close()
            done = True
    except InterruptedError:
        return 128 + ended[0]
    finally:
        if not done:
            outputs.discard()
    for _, loss in cut.losses:
        say(f"nftop: {loss.sentence}")
    if cut.unfinished:
        say(f"nftop: {cut.unfinished}")
    for name, count in rows.items():
        say(f"nftop: {count} rows in {printable(name)}")
    return BAD_RECORDING if cut.damaged else OK


def report(options: argparse.Namespace) -> int:
    form = options.form or ("html" if Path(options.output).suffix in (".html", ".htm") else "md")
    doctor = ""
    if options.doctor is not None:
        try:
            with os.fdopen(
                open_file(Path(options.doctor)), encoding="utf-8", errors="replace"
            ) as file:
                doctor = file.read(_MOST_DOCTOR)
        except OSError as error:
            return fail(f"{printable(options.doctor)}: {error.strerror}", FAILURE)
    cut = _opened(options.file)
    if isinstance(cut, int):
        return cut
    ended: list[int] = []
    try:
        with _ending(ended, cut):
            data = collect(cut)
    except InterruptedError:
        return 128 + ended[0]
    finally:
        cut.data.close()
    if data is None:
        return fail(f"{printable(cut.file)}: no tick is in that interval", BAD_RECORDING)
    blocks = report_blocks(data, f"nftop report {shlex.quote(options.file)}", doctor)
    text = html_report(blocks) if form == "html" else markdown_report(blocks)
    for _, loss in cut.losses:
        say(f"nftop: {loss.sentence}")
    if cut.unfinished:
        say(f"nftop: {cut.unfinished}")
    if options.output == "-":
        put(sys.stdout, text)
    else:
        try:
            write_new(Path(options.output).absolute(), text)
        except OSError as error:
            return fail(f"{printable(options.output)}: {error.strerror}", FAILURE)
    return BAD_RECORDING if cut.damaged else OK


def _ending(ended: list[int], *cuts: Cut) -> AbstractContextManager[None]:
    """Signals stop the reading, and are appended to `ended`."""

    def end(number: int) -> None:
        ended.append(number)
        for cut in cuts:
            cut.data.stop()

    return handling(_SIGNALS, end)


def _opened(text: str) -> Cut | int:
    """The interval; without one, print why and return the exit code."""
    name = named(text)
    try:
        return opened(name)
    except NoRecordingError as error:
        return fail(f"{printable(name.file)}: {printable(str(error))}", BAD_RECORDING)
    except NoMomentError as error:
        return fail(f"{printable(name.file)}: {printable(str(error))}", USAGE)
    except OSError as error:
        return fail(f"{printable(name.file)}: {error.strerror}", FAILURE)
