"""`record` and `replay`: write a session to a file and play it back."""

from __future__ import annotations

import argparse
import contextlib
import os
import stat
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path

from nftop.cli.commands.live import batch, has_screen, screen, style_of, wants_batch
from nftop.cli.compose.baselines import open_book
from nftop.cli.compose.hosts import open_requested
from nftop.cli.compose.recorders import default_path, default_sink, header_of, wrong_file
from nftop.cli.config import ConfigError, open_rules
from nftop.cli.signals import stopping
from nftop.derive.findings.registry import rule_called
from nftop.export.finding_log import MOST_PER_MINUTE, FindingLog, open_log
from nftop.export.output import FAILURE, OK, USAGE, fail, put, warn
from nftop.model.frame import Finding, Focus, Frame
from nftop.model.number_text import counted
from nftop.model.recording_loss import RecordingLoss
from nftop.model.sample import Sample
from nftop.model.struct import replace
from nftop.render.base.text import printable
from nftop.render.frame.header import missing, recorded
from nftop.session.feed import FeedError
from nftop.session.finding_recorder import FindingRecorder, RecordingTrigger
from nftop.session.focus_target import FocusFrames, target_of
from nftop.session.markers import all_markers
from nftop.session.reader import NoMomentError
from nftop.session.replay import Replay
from nftop.session.survey import RecordingSurvey, events_of
from nftop.store.folders import caller, check_creatable, open_file
from nftop.store.history.events import EventHistory
from nftop.store.history.flight import FlightRecorder
from nftop.store.history.rings import TickHistory
from nftop.store.reading.bytes import LITTLE, MUCH, FileBytes, PipeBytes, Readable
from nftop.store.recording.recorder import PAST_NS, Recorder, Recording
from nftop.store.recording.sink import (
    FileRotation,
    FileSink,
    Keep,
    Sink,
    StreamSink,
    remove_oldest,
    timed,
)
from nftop.store.user.rules import RulesFile

BAD_RECORDING = 4
# Recordings of findings: how many are kept, and time after the last finding, by default.
_KEPT, _AFTER_NS = 20, 300_000_000_000
_SEGMENT_NS = 60_000_000_000  # what is in memory begins at a seek point
_TERMINAL = "/dev/tty"
_NO_GATE = "a recording can't be changed"


def record(options: argparse.Namespace) -> int:
    """Record this host, or the simulated one, until the end."""
    wrong = _wrong_output(options)
    if wrong:
        return fail(wrong, USAGE)
    try:
        here = open_requested(options)
        book = open_book(options, here.host)
        rules = open_rules().settings
        target = target_of(
            options.focus, here.topology, shown=options.cpu_list, quiet=options.quiet_cpus
        )
    except ValueError as error:
        return fail(str(error), USAGE)
    if wrong := _unwritable(here.host.name, options):
        return fail(wrong, FAILURE)
    flight = _flight(options)
    recorder = Recorder(header_of(here, options, book.begun), flight=flight)
    log = open_log(options.log, here.host.name)
    on_finding = recorder.record_finding
    triggered = None
    if options.on is None:
        recorder.start(_sink(here.host.name, options))
    else:
        triggered = _finding_recorder(here.host.name, options, recorder)
        on_finding = triggered.on_finding

    def begun(finding: Finding, wall_ns: int, monotonic_ns: int) -> None:
        on_finding(finding, wall_ns, monotonic_ns)
        if log is not None:
            log.put(finding, wall_ns, monotonic_ns)

    def taken(sample: Sample) -> None:
        recorder.take(sample, feed.state if flight is not None else None)

    feed = here.feed(
        interval_s=options.interval_s,
        cpus=options.cpu_list,
        queue_map=options.queue_map,
        baselines=book.begun,
        rules=rules,
        on_sample=taken,
        on_finding=begun,
    )
    focused = FocusFrames(feed, target, Focus(), lambda text: warn(f"nftop: {printable(text)}"))
    with stopping(feed.stop) as ended:
        try:
            _run(focused, recorder, options.duration, triggered)
        finally:
            done = (triggered or recorder).close()
            _report_log(log)
    if triggered is not None:
        count, incomplete = triggered.count, triggered.incomplete
        lacking = f", {incomplete} incomplete" if incomplete else ""
        warn(f"nftop: {counted(count, 'recording')} of findings{lacking}")
        # An interruption does not hide it, as with a single recording.
        return FAILURE if incomplete else 128 + ended[0] if ended else OK
    code = _exit_code(done, recorder.broken, ended)
    return FAILURE if code == OK and focused.is_absent() else code


def _base(host: str, options: argparse.Namespace) -> Path:
    """Path of recordings of findings, without the time in their names."""
    return default_path(host) if options.output is None else Path(options.output).absolute()


def _unwritable(host: str, options: argparse.Namespace) -> str:
    """Why no recording of a finding can be made where they are to be; "" otherwise."""
    if options.on is not None:
        try:
            check_creatable(_base(host, options))
        except OSError as error:
            return f"{printable(str(error.filename))}: {error.strerror}"
    return ""


def _finding_recorder(
    host: str, options: argparse.Namespace, recorder: Recorder
) -> FindingRecorder:
    """Recordings of findings, each a file with the finding's time in its name.

    Their stem is their own, so that --keep removes no other recording of the folder.
    """
    owner, written, reported = caller(os.environ), list[Path](), ""
    plain = _base(host, options)
    base = plain.with_name(f"{plain.stem}-finding{plain.suffix}")
    keep = Keep(_KEPT if options.keep is None else options.keep, options.keep_size)

    def new_sink(wall_ns: int) -> Sink:
        written.append(timed(base, wall_ns))
        return FileSink(written[-1], owner=owner)

    def ended(done: Recording, findings: int, goes_on: bool) -> None:  # noqa: FBT001 - a callback
        nonlocal reported
        if not done.ticks:
            why = done.problem or "nothing was recorded"
            if why != reported:  # once, however many findings there are
                reported = why
                warn(f"nftop: {printable(done.name)}: {why}; the next finding tries again")
            return
        reported = ""
        text = recorded(done.name, done.ticks, done.size)
        lost = "".join(
            f"; {why}" for why in (done.problem, missing(done.lost) * bool(done.lost)) if why
        )
        more = "; findings go on" if goes_on else ""
        # Without rules incidents begin recordings.
        count = counted(findings, "finding" if options.on else "incident")
        warn(f"nftop: {text}; {count}, {done.before_s:.0f} s before the first{lost}{more}")
        with contextlib.suppress(OSError):
            # A disk that does not answer would not answer this either.
            for gone in () if done.over else remove_oldest(base, keep, written):
                warn(f"nftop: {printable(str(gone))}: removed, one of the oldest (--keep)")
        del written[:-1]

    trigger = RecordingTrigger(options.on, _before_ns(options), options.after or _AFTER_NS)
    return FindingRecorder(recorder, trigger, new_sink, ended)


def _before_ns(options: argparse.Namespace) -> int:
    return options.before or PAST_NS


def _flight(options: argparse.Namespace) -> FlightRecorder | None:
    is_on, span_ns = options.on is not None, _before_ns(options) + _SEGMENT_NS
    return FlightRecorder(longest_ns=span_ns) if is_on else None


def _report_log(log: FindingLog | None) -> None:
    if log is None:
        return
    if log.left_out:
        why = f": {log.problem}" if log.problem else f", more than {MOST_PER_MINUTE} a minute"
        warn(f"nftop: not logged: {counted(log.left_out, 'finding')}{printable(why)}")
    log.close()


def _wrong_output(options: argparse.Namespace) -> str:
    """Why options of the output are invalid; "" if they are not."""
    rotates = options.rotate_size is not None or options.rotate_time is not None
    keeps = options.keep is not None or options.keep_size is not None
    wrong = {
        "--exec is refused: nftop runs no programs; a service can watch its --log journal": (
            options.program is not None
        ),
        "--before and --after go with --on finding": options.on is None
        and (options.before is not None or options.after is not None),
        "--rotate-size and --rotate-time go with -o FILE": rotates and options.output is None,
        "--on begins a file for each finding: not with --rotate-size or --rotate-time": rotates
        and options.on is not None,
        "--keep and --keep-size go with --rotate-size, --rotate-time or --on": keeps
        and not rotates
        and options.on is None,
    }
    first = next((text for text, is_wrong in wrong.items() if is_wrong), "")
    if first or options.output is None:
        return first or _wrong_rules(options)
    if options.output == "-":
        return _wrong_stream(options, rotates=rotates)
    return _wrong_rules(options) or wrong_file(
        options.output, rotates=rotates or options.on is not None
    )


def _wrong_stream(options: argparse.Namespace, *, rotates: bool) -> str:
    """As `_wrong_output`, for standard output."""
    if rotates or options.on is not None:
        return "standard output is one recording: -o FILE"
    if sys.stdout.isatty():
        return "a recording is nothing for a terminal: -o FILE, or a pipe behind -o -"
    return ""


def _wrong_rules(options: argparse.Namespace) -> str:
    unknown = sorted(name for name in options.on or () if rule_called(name) is None)
    return f"no rule is called {printable(', '.join(unknown))} (nftop explain --all)" * bool(
        unknown
    )


def _sink(host: str, options: argparse.Namespace) -> Sink:
    if options.output == "-":
        return StreamSink(sys.stdout.fileno())
    if options.output is None:
        return default_sink(host)
    keep = Keep(options.keep, options.keep_size)
    rotation = FileRotation(options.rotate_size, options.rotate_time, keep)
    return FileSink(Path(options.output).absolute(), owner=caller(os.environ), rotation=rotation)


def _run(
    focused: FocusFrames,
    recorder: Recorder,
    duration_ns: int | None,
    triggered: FindingRecorder | None,
) -> None:
    """Record until the time is over, a signal arrives, or nothing more can be written."""
    began_ns: int | None = None
    problem = ""
    with closing(focused.frames()) as frames:
        for frame in frames:
            began_ns = frame.monotonic_ns if began_ns is None else began_ns
            now = recorder.recording
            if triggered is not None:
                triggered.on_frame(frame)
            elif recorder.broken is not None:
                return
            if now is not None and now.problem != problem:
                problem = now.problem
                message = problem or "goes on"
                warn(f"nftop: {printable(now.name)}: {message}; {missing(now.lost)}")
            gone_ns = frame.monotonic_ns - began_ns
            # Each tick covers the time before it, so the last one is included.
            if duration_ns is not None and gone_ns >= duration_ns:
                return


def _exit_code(done: Recording | None, broken: OSError | None, ended: list[int]) -> int:
    if isinstance(broken, BrokenPipeError):
        kept = "" if done is None else f" after {counted(done.ticks, 'tick')}"
        return fail(f"the reader closed standard output{kept}", FAILURE)
    if done is None:
        return fail("nothing was recorded", FAILURE)
    name = printable(done.name)
    if broken is not None:
        lost = missing(done.lost) if done.ticks else "nothing was recorded"
        return fail(f"{name}: {done.problem}; {lost}", FAILURE)
    warn(f"nftop: {recorded(done.name, done.ticks, done.size)}")
    if done.lost or done.problem:
        why = f"{done.problem}; " if done.problem else ""
        return fail(f"{name}: {why}{missing(done.lost)}", FAILURE)
    return 128 + ended[0] if ended else OK


def _list(options: argparse.Namespace) -> int:
    """Print every marker of a recording in a line: time, kind, text."""
    news = threading.Event()
    try:
        data = _open(options.file, news, keys=False)
    except OSError as error:
        return fail(f"{printable(options.file)}: {error.strerror}", FAILURE)
    code = OK
    with closing(data):
        feed = Replay(data, follow=False)
        try:
            if not data.piped:
                feed.open()
            for marker in all_markers(data, news):
                if isinstance(marker, RecordingLoss):
                    warn(f"nftop: {marker.sentence}")
                    code = BAD_RECORDING if marker.damage else code
                else:
                    begin_ns = marker.detail.get("since_ns") if marker.kind == "finding" else None
                    since = ""  # of the file, so it may be anything
                    if isinstance(begin_ns, int) and 0 < begin_ns <= marker.wall_ns:
                        since = f", since {_second(begin_ns)}"
                    put(
                        sys.stdout,
                        f"{_second(marker.wall_ns)} {marker.kind:<8}"
                        f"{printable(marker.text)}{since}".rstrip()
                        + "\n",
                    )
        except FeedError as error:
            return fail(f"{printable(options.file)}: {error}", BAD_RECORDING)
    return code


def _second(wall_ns: int) -> str:
    return f"{datetime.fromtimestamp(wall_ns // 10**9, UTC):%Y-%m-%dT%H:%M:%SZ}"


def replay(options: argparse.Namespace) -> int:
    """Show a recording, write its frames, or list its markers."""
    if options.listed:
        return _list(options)
    from_pipe = options.file == "-"
    batched = wants_batch(options) or not _can_draw(from_pipe=from_pipe)
    if batched and not wants_batch(options):
        warn("nftop: no terminal here, so frames as text (--batch)")
    news = threading.Event()
    damaged = False

    def on_loss(loss: RecordingLoss) -> None:
        nonlocal damaged
        damaged = damaged or loss.damage
        if batched:
            warn(f"nftop: {loss.sentence}")

    try:
        data = _open(options.file, news, keys=not batched)
    except OSError as error:
        return fail(f"{printable(options.file)}: {error.strerror}", FAILURE)
    feed = Replay(
        data,
        news=news,
        at=options.at,
        paced=not batched,
        follow=not batched or options.follow or data.piped,
        stays=not batched,
        on_loss=on_loss,
    )
    try:
        # A recording may be of another host: what is set on screen is for the session.
        rules = open_rules(for_session=True)
        feed.set_rules(rules.settings)
        if not data.piped:
            feed.open()
        code = batch(feed, options) if batched else _on_screen(feed, data, options, rules)
    except (NoMomentError, ConfigError) as error:
        where = "" if isinstance(error, ConfigError) else f"{printable(options.file)}: "
        return fail(f"{where}{printable(str(error))}", USAGE)
    except FeedError as error:
        return fail(f"{printable(options.file)}: {error}", BAD_RECORDING)
    if batched and feed.unfinished:
        warn(f"nftop: {feed.unfinished}")
    return BAD_RECORDING if batched and damaged and code == OK else code


@contextmanager
def _survey(data: Readable, events: EventHistory, rules: RulesFile) -> Iterator[None]:
    """Read a file's events in the background; a pipe's are known as its frames are shown."""
    if not isinstance(data, FileBytes):
        yield
        return
    survey = RecordingSurvey(data.another(), events, rules.settings)
    survey.start()
    try:
        yield
    finally:
        survey.stop()


def _on_screen(feed: Replay, data: Readable, options: argparse.Namespace, rules: RulesFile) -> int:
    """Draw until the operator quits. Raises FeedError."""
    history, events = TickHistory(), events_of(data)

    def seen(frame: Frame) -> None:
        history.append(frame)
        events.append(frame, incidents=data.piped)

    feed.on_frame(seen)
    feed.set_events(events)
    drawn = replace(style_of(options), no_gate=_NO_GATE, no_frequencies=_NO_GATE, rules=rules)
    with _survey(data, events, rules):
        code = screen(feed, history, replace(drawn, events=events))
    if feed.is_none and code == OK:
        raise FeedError("it is no recording")
    return code


def _can_draw(*, from_pipe: bool) -> bool:
    """Whether there is a terminal to draw on; with a pipe, keys come from the controlling one."""
    if not from_pipe:
        return has_screen()
    if sys.stdout is None or not sys.stdout.isatty() or os.environ.get("TERM", "dumb") == "dumb":
        return False
    try:
        os.close(os.open(_TERMINAL, os.O_RDONLY | os.O_CLOEXEC))
    except OSError:
        return False
    return True


def _open(file: str, news: threading.Event, *, keys: bool) -> Readable:
    """The recording; with `keys` standard input becomes the terminal. Raises OSError."""
    if file == "-":
        handle = os.dup(0)
        if keys:
            os.dup2(os.open(_TERMINAL, os.O_RDONLY | os.O_CLOEXEC), 0)
        about = os.fstat(handle)
    else:
        handle = open_file(Path(file), wait=True)
        about = os.fstat(handle)
    if stat.S_ISREG(about.st_mode):
        return FileBytes(handle)
    if stat.S_ISDIR(about.st_mode):
        os.close(handle)
        raise IsADirectoryError(0, "it is a folder")
    # Only a screen can go back.
    return PipeBytes(handle, MUCH if keys else LITTLE, more=news.set)
