"""The default command: frames of a host, on the screen or on standard output."""

from __future__ import annotations

import argparse
import gc
import io
import os
import shutil
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from nftop.cli import first_frame
from nftop.cli.compose.baselines import Book, open_book
from nftop.cli.compose.hosts import OpenHost, open_requested
from nftop.cli.config import open_rules
from nftop.cli.signals import leaving_on_signal, stopping
from nftop.export.output import FAILURE, OK, USAGE, OutputError, fail, warn
from nftop.model.baseline import Baselines
from nftop.model.check import Check
from nftop.model.error_text import describe_error
from nftop.model.perf_tool import PerfTool
from nftop.model.struct import replace
from nftop.render.base.text import printable, wide_cells
from nftop.render.frame.header import recorded
from nftop.session.feed import Feed, FeedError
from nftop.session.focus_target import FocusTarget, target_of
from nftop.store.user.chosen_columns import columns_file
from nftop.store.user.config_dir import folder_of, read_profiles

# Threads of a screen at most: one per source, Textual's, the feed's and the terminal's.
_SCREEN_THREADS = 25
_SPARE = 3  # descriptors: an import takes one or two at a time, sources one in between
_DOCTOR_WIDTH = 120  # of its output in a report

if TYPE_CHECKING:
    from nftop.control.profile.profile import Listing
    from nftop.model.sample import Sample
    from nftop.store.history.rings import TickHistory
    from nftop.store.user.rules import RulesFile
    from nftop.ui.options import Options


def live(options: argparse.Namespace) -> int:
    """The default command: the screen, or frames on standard output without a terminal."""
    try:
        here = open_requested(options)
        book = open_book(options, here.host)
        rules = open_rules(for_session=here.host.simulated)
        target = _target(options, here)
    except ValueError as error:
        return fail(str(error), USAGE)
    if rules.problem:
        warn(f"nftop: {rules.problem}")
    session = {
        "interval_s": options.interval_s,
        "cpus": options.cpu_list,
        "rules": rules.settings,
        "queue_map": options.queue_map,
        "baselines": book.begun,
    }
    if wants_batch(options):
        return batch(here.feed(**session), options, target)
    if not has_screen():
        warn("nftop: no terminal here, so frames as text (--batch)")
        return batch(here.feed(**session), options, target)
    return _live_screen(here, session, book, rules, options)


def _target(options: argparse.Namespace, here: OpenHost) -> FocusTarget | None:
    """Target of --focus. Raises ValueError for an unknown CPU, or if no output would show it."""
    if options.focus is None:
        return None
    if options.form in ("csv", "monitors"):
        raise ValueError("--focus: CSV has a row per CPU only; --json has the core's tree")
    if has_screen() and not wants_batch(options):
        raise ValueError("--focus goes with --batch, --json, record and serve; here use key 6")
    return target_of(options.focus, here.topology, shown=options.cpu_list, quiet=options.quiet_cpus)


def _live_screen(
    here: OpenHost,
    session: dict[str, Any],
    book: Book,
    rules: RulesFile,
    options: argparse.Namespace,
) -> int:
    from nftop.cli.compose.recorders import default_sink, header_of  # noqa: PLC0415
    from nftop.session.timeline import LivePast  # noqa: PLC0415
    from nftop.store.history.flight import FlightRecorder  # noqa: PLC0415
    from nftop.store.history.rings import TickHistory  # noqa: PLC0415
    from nftop.store.recording.recorder import Recorder  # noqa: PLC0415

    flight = FlightRecorder()
    recorder = Recorder(header_of(here, options, book.begun), flight=flight)

    def kept(baselines: Baselines | None, wall_ns: int, monotonic_ns: int) -> None:
        recorder.kept(baselines, wall_ns, monotonic_ns)
        book.keep(baselines)

    def taken(sample: Sample) -> None:
        recorder.take(sample, feed.state)

    # `soon_s`: the first numbers appear before a long interval is over.
    feed = here.feed(
        **session, soon_s=1.0, on_sample=taken, on_finding=recorder.record_finding, on_baseline=kept
    )
    try:
        drawn = options_of(here, options)
        past = LivePast(flight, drawn.events)
        drawn = replace(
            drawn,
            recorder=recorder,
            new_sink=partial(default_sink, here.host.name),
            report=partial(_report, options),
            past=past,
            rules=rules,
            examine=partial(_examine, options),
            perf_tool=None if here.host.simulated or here.host.remote else _perf_tool,
        )
        if here.gate is not None:

            def acted(text: str, classes: bool) -> None:  # noqa: FBT001 - as the gate reports it
                recorder.acted(text, classes=classes)
                here.on_change()

            drawn = replace(drawn, gate=replace(here.gate, report=acted))
        return screen(feed, TickHistory(), drawn)
    finally:
        done = recorder.close()
        if done is not None:
            problem = f"; {done.problem}" if done.problem else ""
            warn(f"nftop: {recorded(done.name, done.ticks, done.size)}{problem}")
        if book.close():
            warn(f"nftop: the baseline was not kept: {book.problem}")


def _examine(options: argparse.Namespace) -> tuple[Sequence[Check], str]:
    """The checks for the doctor's page, as `nftop doctor` has them."""
    from nftop.cli.commands.doctor import caveat_of, examine_host  # noqa: PLC0415 - on request

    checks, host = examine_host(options)
    return checks, caveat_of(host)


def _perf_tool() -> PerfTool:
    from nftop.sources.perf.probe import read_tool  # noqa: PLC0415 - on request

    return read_tool()


def _report(options: argparse.Namespace, recording: str, done: Callable[[str], None]) -> None:
    """Write the report of a recording beside it, with the doctor's output, in a thread."""

    def write() -> None:
        try:
            from nftop.cli.commands.report import write_report  # noqa: PLC0415 - on request
            from nftop.render.pages.doctor import doctor_lines  # noqa: PLC0415

            lines = doctor_lines(*_examine(options), _DOCTOR_WIDTH)
            text = write_report(recording, "\n".join(item.text.rstrip() for item in lines))
        except Exception as error:  # noqa: BLE001 - the boundary: a sentence, whatever it is
            text = f"no report: {describe_error(error)}"
        done(text)

    threading.Thread(target=write, name="nftop-report", daemon=True).start()


def wants_batch(options: argparse.Namespace) -> bool:
    return options.batch or options.form != "text" or options.count is not None


def batch(feed: Feed, options: argparse.Namespace, target: FocusTarget | None = None) -> int:
    """Write frames to standard output. Raises OutputError, FeedError."""
    from nftop.export.batch import run_batch  # noqa: PLC0415 - only here

    gc.enable()
    if isinstance(sys.stdout, io.TextIOWrapper) and options.form != "text":
        sys.stdout.reconfigure(encoding="utf-8")  # whatever the locale: JSON is UTF-8
    with stopping(feed.stop) as ended:
        try:
            width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
            complete = run_batch(
                feed,
                sys.stdout,
                form=options.form,
                count=options.count,
                width=width,
                target=target,
                report=lambda problem: warn(f"nftop: {printable(problem)}"),
            )
        except (OutputError, FeedError):
            raise
        except Exception as error:  # noqa: BLE001 - the boundary: a sentence, not a traceback
            return fail(describe_error(error), FAILURE)
    if ended:
        return 128 + ended[0]
    return OK if complete else FAILURE


def screen(feed: Feed, history: TickHistory, drawn: Options) -> int:
    """Draw frames until the operator quits."""
    from nftop.papers.printed import printed_tables  # noqa: PLC0415 - only for the screen
    from nftop.papers.rows import rows  # noqa: PLC0415 - likewise
    from nftop.ui.app import NftopApp  # noqa: PLC0415 - Textual is half of the start-up time

    prepare_screen()
    # Reads the table of widths: drawing opens no file, since no descriptor may be left for it.
    wide_cells("\N{FULLWIDTH LATIN SMALL LETTER A}")
    # Reserved for imports and files after the first frame: counters may use all others.
    spare = [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC) for _ in range(_SPARE)]
    release: list[Callable[[], object]] = [partial(os.close, one) for one in spare]
    app = NftopApp(feed, history, options=drawn, later=(*release, rows, printed_tables))
    first_frame.erase()
    with leaving_on_signal(app.leave, sys.stdin.fileno()):
        app.run()
    if app.exit_message:
        warn(f"nftop: {printable(app.exit_message)}")
    return app.return_code or OK


def prepare_screen() -> None:
    """Draw on standard output only. Raises RuntimeError if a screen's threads can't be started."""
    # What was imported stays. Looking through it for garbage takes 50 ms, for which a key waits.
    # Of a second screen there may be garbage of the first.
    if not gc.get_freeze_count():
        gc.freeze()
    gc.enable()
    # Textual draws on standard error: `nftop 2>log` must not draw into the log, nor libraries on
    # the screen. As on standard error, characters that can't be encoded are escaped.
    if isinstance(sys.__stdout__, io.TextIOWrapper):
        sys.__stdout__.reconfigure(errors="backslashreplace")
    sys.__stderr__ = sys.__stdout__  # type: ignore[misc]
    _require_threads(_SCREEN_THREADS)


def _require_threads(count: int) -> None:
    """Raise RuntimeError, as `Thread.start` does, if so many more threads can't be started.

    A screen without one of its threads hangs, or ends with a traceback.
    """
    release = threading.Event()
    started: list[threading.Thread] = []
    try:
        for _ in range(count):
            thread = threading.Thread(target=release.wait, name="nftop-probe", daemon=True)
            thread.start()
            started.append(thread)
    finally:
        release.set()
        for thread in started:
            thread.join()


def style_of(options: argparse.Namespace) -> Options:
    from nftop.ui.options import options_from  # noqa: PLC0415 - only for the screen

    drawn = options_from(
        os.environ, color=options.color, theme=options.theme, ascii_only=options.ascii
    )
    return replace(drawn, utc=options.utc, columns=columns_file(os.environ))


def _profiles() -> Mapping[str, Listing]:
    texts = read_profiles(folder_of(os.environ))
    if not texts:
        return {}
    from nftop.control.profile.formats import parse  # noqa: PLC0415 - only where there are some

    return {name: parse(name, text) for name, text in texts.items()}


def options_of(here: OpenHost, options: argparse.Namespace) -> Options:
    return replace(
        style_of(options),
        gate=here.gate,
        no_gate=here.no_gate,
        no_frequencies=here.no_frequencies,
        rw=options.rw or here.host.simulated,
        experiment_host=here.experiment_host,
        profiles={} if here.gate is None else _profiles(),
    )


def has_screen() -> bool:
    streams = (sys.stdin, sys.stdout)  # None where nftop was started with it closed
    here = all(stream is not None and stream.isatty() for stream in streams)
    return here and os.environ.get("TERM", "dumb") != "dumb"
