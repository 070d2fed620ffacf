"""Header of a screen: host, mode, sources, own cost."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache

from nftop.model.frame import Frame, SelfCost, SourceState
from nftop.model.ids import format_cpu_list
from nftop.model.metrics.metric import Unit
from nftop.model.reading import Missing, Reason
from nftop.model.replay_position import Position
from nftop.model.sources import always_shown
from nftop.model.struct import dataclass
from nftop.model.topology import Host, Topology
from nftop.render.base import format as fmt
from nftop.render.base.line import Line, Span, Tone, crop, flow, line, paragraph
from nftop.render.base.text import printable
from nftop.render.frame.changes import clock_of
from nftop.render.frame.footer import Tabs
from nftop.render.timeline.axis import age_text


def banner_lines(position: Position, width: int, now_ns: int | None = None) -> list[Line]:
    """Banner of a replay, or of the past of a live session; remarks below it.

    `now_ns`: wall time of the newest live frame; None: it is a replay.
    """
    if now_ns is None:
        text = " REPLAY  " + "  ".join(
            filter(None, (_time(position), _progress(position), _how(position)))
        )
        loud = line(Span(f"{text:<{width}}", Tone.PAST))
    else:
        loud = _past_line(position, now_ns, width)
    remarks = [
        row
        for sentence in _remarks(position)
        for row in paragraph(sentence, width, lead=line(Span("> ", Tone.ACCENT)), tone=Tone.PLAIN)
    ]
    return [crop(loud, width), *remarks]


def _past_line(position: Position, now_ns: int, width: int) -> Line:
    """`2m00s AGO`, the time, and the key that returns to now."""
    age = age_text((now_ns - position.at_ns) / 1e9)
    going = "" if position.paused else f"  {position.speed:g}x"
    end = "End now ▶ "
    text = f"  ◀ {age} AGO   {clock_of(position.at_ns)}{going}   every screen shows this moment"
    room = width - len(end)
    if len(text) >= room:
        text = f" ◀ {age} AGO {clock_of(position.at_ns)}"
    text = f"{text:<{room}}{end}" if len(text) < room else f"{text:<{width}}"
    return line(Span(text, Tone.PAST))


def _time(position: Position) -> str:
    return datetime.fromtimestamp(position.at_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def _progress(position: Position) -> str:
    whole_ns = position.last_ns - position.first_ns
    if whole_ns <= 0:
        return ""
    gone_ns = min(max(position.at_ns - position.first_ns, 0), whole_ns)
    share = int(100 * gone_ns / whole_ns)
    return f"{span(gone_ns / 1e9)} of {span(whole_ns / 1e9)} ({share} %)"


def _how(position: Position) -> str:
    if position.ended:
        return "END"
    if position.waiting:
        return "at the end, following"
    speed = f"{position.speed:g}x"
    return f"PAUSED {speed}" if position.paused else speed


def _remarks(position: Position) -> list[str]:
    remarks = [printable(position.remark)] if position.remark else []
    if position.warmed is not None and position.warmed < _WARM_TICKS:
        remarks.append(f"after a jump: numbers are based on {position.warmed} earlier ticks")
    return remarks


# Ticks after which a jump has no effect.
_WARM_TICKS = 60


def span(seconds: float) -> str:
    """`12:31`, `1:02:03`, `3d 01:02:03`."""
    whole = int(seconds)
    days, hours = divmod(whole // 3600, 24)
    clock = f"{whole // 60 % 60:02d}:{whole % 60:02d}"
    if days:
        return f"{days}d {hours:02d}:{clock}"
    return f"{hours}:{clock}" if hours else clock


WIDE = 80  # cells from which the CPU model has its place
_GAP = "   "


@dataclass(frozen=True, slots=True)
class ViewStatus:
    """State of the session, for the header.

    Attributes:
        mode: `LIVE`, `STOPPED`, `PAUSED at ...`, ...
        interval_s: of the feed; None: not shown.
        problem: why there are no new frames; "": there are.
        recording: state of the recording; "": none.
        position: the moment shown, of a recording or of the past; None: now.
        now_ns: wall time of the newest live frame; None: a replay, or there is no frame yet.
        notice: of the newest frame; "": none.
        tabs: the line of screens below; None: not shown.
        unlocked: the host can be changed.
    """

    mode: str = "LIVE"
    interval_s: float | None = None
    problem: str = ""
    tabs: Tabs | None = None
    notice: str = ""
    unlocked: bool = False
    recording: str = ""
    position: Position | None = None
    now_ns: int | None = None


def header_lines(frame: Frame, status: ViewStatus, width: int) -> list[Line]:
    """Identity, mode, sources and own cost; then alerts."""
    groups = (
        _identity(frame.host, size_of(frame.topology), status, width),
        tuple(
            _source(name, state.reason, partial=bool(state.detail), age=_age(state))
            for name, state in frame.sources.items()
            if always_shown(name) or state.reason is not Reason.PRESENT or state.detail
        ),
        (line(Span(own_cost(frame.own), Tone.DIM)),) if _is_measured(frame.own) else (),
    )
    banner = [] if status.position is None else banner_lines(status.position, width, status.now_ns)
    lines = [*banner, *_grouped(groups, width)]
    return [*lines, *alert_lines(frame.own.warning, status.notice, status.problem, width=width)]


@lru_cache(maxsize=8)  # seldom changes
def _grouped(groups: tuple[tuple[Line, ...], ...], width: int) -> tuple[Line, ...]:
    """Groups of items side by side where they fit, else on new lines."""
    lines: list[Line] = []
    for items in filter(None, groups):
        block = line(*_spaced(items))
        joined = line(lines[-1], _GAP, block) if lines else block
        if lines and joined.width <= width:
            lines[-1] = joined
        else:
            lines += flow(items, width)
    return tuple(lines)


def alert_lines(*sentences: str, width: int) -> list[Line]:
    """Each non-empty sentence on its own lines after a `!`."""
    lead = line(Span("! ", Tone.BAD))
    return [
        row
        for sentence in sentences
        if sentence
        for row in paragraph(sentence, width, lead=lead, tone=Tone.BAD)
    ]


def waiting_lines(status: ViewStatus, width: int) -> list[Line]:
    """Screen before the first frame."""
    first = line(Span("nftop", Tone.TITLE), "  waiting for the first tick")
    return [crop(first, width), *alert_lines(status.problem, width=width)]


def _spaced(items: Iterable[Line]) -> Iterable[Line | str]:
    for index, item in enumerate(items):
        if index:
            yield " "
        yield item


@lru_cache(maxsize=8)
def _identity(host: Host, size: str, status: ViewStatus, width: int) -> tuple[Line, ...]:
    model = f"{short_model(host.model)}  " if width >= WIDE else ""
    pace = f" {status.interval_s:g}s" if status.interval_s is not None else ""
    # Anything but LIVE must be conspicuous.
    mode = Tone.PLAIN if status.mode == "LIVE" else Tone.BADGE
    mode = Tone.ACCENT if status.now_ns is not None else mode
    return (
        *badge_lines(host),
        line(Span("nftop", Tone.TITLE), " ", Span(host.name, Tone.TITLE)),
        line(Span(f" {model}{size} ", Tone.DIM)),
        line(Span(f"{status.mode}{pace}", mode)),
        *((line(" ", Span(status.recording, Tone.BADGE)),) if status.recording else ()),
        line(" ", _lock(unlocked=status.unlocked)),
    )


def _lock(*, unlocked: bool) -> Span:
    return Span("READ-WRITE", Tone.ACCENT) if unlocked else Span("READ-ONLY", Tone.DIM)


def badge_lines(host: Host) -> list[Line]:
    """Badge of a host that is not a real local one; on every screen."""
    return [line(Span(f" {host.badge} ", Tone.BADGE))] if host.badge else []


def time_of_day(frame: Frame) -> str:
    """Time of the frame in UTC: `12:41:07Z`."""
    return clock_of(frame.wall_ns)


def size_of(topology: Topology) -> str:
    """Packages, physical cores, logical CPUs: `2P 64C/128T`."""
    return f"{len(topology.packages)}P {topology.core_count}C/{len(topology.cpus)}T"


@lru_cache(maxsize=8)
def short_model(model: str) -> str:
    """CPU model without trademarks, `CPU` and clock."""
    bare = re.sub(r"\((R|TM)\)|@.*$|\b(CPU|Processor|Intel|AMD)\b", " ", model, flags=re.IGNORECASE)
    return " ".join(bare.split()) or model


@lru_cache(maxsize=64)
def _source(name: str, reason: Reason, *, partial: bool, age: str) -> Line:
    if reason is not Reason.PRESENT:
        return line(Span(name, Tone.DIM), Span(reason.mark, Tone.MISSING))
    return line(name, Span(f"~{age}" if partial else "+", Tone.ACCENT))


def _age(state: SourceState) -> str:
    """Age of its numbers if they are not of this tick: `1.2s`."""
    return f"{state.late_s:.1f}s" if state.late_s else ""


def _is_measured(own: SelfCost) -> bool:
    """Whether own cost was measured."""
    readings = (own.cpu_ratio, own.counters.reads)
    return any(not isinstance(r, Missing) or r.reason is not Reason.SOURCE for r in readings)


def own_cost(own: SelfCost) -> str:
    """`self 0.6% on cpu 0, 64 reads`."""
    reads = own.counters.reads
    count = reads.reason.mark if isinstance(reads, Missing) else f"{reads:.0f}"
    cpus = f" on cpu {format_cpu_list(own.affinity)}" if own.affinity else ""
    return f"self {fmt.cell(own.cpu_ratio, Unit.RATIO, 5):>4}{cpus}, {count} reads"


def where(top: int, height: int, rows: int) -> str:
    """Rows shown, for the footer."""
    return f"{top + 1}-{min(rows, top + height)}/{rows}" if rows else "no rows"


def recording_text(
    seconds: float, lost: int, problem: str, *, over: bool, before_s: float = 0.0
) -> str:
    """`REC 2:31 (+10:00 before)`, or why it is not written.

    `over`: it has failed. `before_s`: seconds recorded from before its start.
    """
    if problem:
        return f"REC {'FAILED' if over else 'PAUSED'}: {printable(problem)}, {_lost(lost)}"
    before = f" (+{span(before_s)} before)" if before_s >= 1 else ""
    return f"REC {span(max(seconds - before_s, 0))}{before}" + (f" ({_lost(lost)})" if lost else "")


def _lost(ticks: int) -> str:
    return f"{ticks} tick{'' if ticks == 1 else 's'} lost"


def missing(ticks: int) -> str:
    """Ticks missing from a recording."""
    return "1 tick is not in it" if ticks == 1 else f"{ticks} ticks are not in it"


def recorded(name: str, ticks: int, size: int) -> str:
    """Contents of a finished recording; `size` in bytes."""
    return f"{ticks} tick{'' if ticks == 1 else 's'}, {size / 1e6:.1f} MB in {printable(name)}"
