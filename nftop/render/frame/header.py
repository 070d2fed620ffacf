"""Header of a screen: host, mode, sources, own cost."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TypeAlias

from nftop.model.clock import clock_of, date_time_of
from nftop.model.frame import Frame, SelfCost
from nftop.model.metrics.metric import Unit
from nftop.model.missing import Missing, Reason
from nftop.model.number_text import counted
from nftop.model.replay_position import Position
from nftop.model.sources import always_shown
from nftop.model.struct import dataclass
from nftop.model.timeline import Strip
from nftop.model.topology import Host, Topology
from nftop.render.base import format as fmt
from nftop.render.base.format import duration_text
from nftop.render.base.line import Line, Span, Tone, crop, line, paragraph
from nftop.render.base.table import EDGE, indented
from nftop.render.base.text import printable
from nftop.render.frame.footer import Tabs


def banner_lines(position: Position, width: int, now_ns: int | None = None) -> list[Line]:
    """Banner of a replay, or of the past of a live session; remarks below it.

    `now_ns`: wall time of the newest live frame; None: it is a replay.
    """
    if now_ns is None:
        progress = "" if position.remote else _progress(position)
        facts = (date_time_of(position.at_ns), progress, _how(position))
        text = f" {'REMOTE' if position.remote else 'REPLAY'}  {'  '.join(filter(None, facts))}"
        loud = line(Span(f"{text:<{width}}", Tone.PAST))
    else:
        loud = _past_line(position, now_ns, width)
    lead = line(Span(" > ", Tone.ACCENT))
    result = [crop(loud, width)]
    for sentence in _remarks(position):
        rows = paragraph(sentence, width, lead=lead)
        if len(rows) > _MOST_ROWS:
            rows[_MOST_ROWS - 1 :] = [crop(line(*rows[_MOST_ROWS - 1 :]), width)]
        result += rows
    return result


def _past_line(position: Position, now_ns: int, width: int) -> Line:
    """`2m00s AGO`, the time, and the key that returns to now."""
    age = duration_text((now_ns - position.at_ns) / 1e9)
    going = "" if position.paused else f"  {position.speed:.3g}x"
    end = "End now ▶ "
    text = f"  ◀ {age} AGO   {clock_of(position.at_ns)}{going}   every screen shows this moment"
    room = width - len(end)
    if len(text) >= room:
        text = f" ◀ {age} AGO {clock_of(position.at_ns)}"
    text = f"{text:<{room}}{end}" if len(text) < room else f"{text:<{width}}"
    return line(Span(text, Tone.PAST))


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
        return "LIVE" if position.remote else "at the end, following"
    speed = f"{position.speed:.3g}x"
    return f"PAUSED {speed}" if position.paused else speed


def _remarks(position: Position) -> list[str]:
    remarks = [printable(position.remark)] if position.remark else []
    if position.warmed is not None and position.warmed < _WARM_TICKS:
        remarks.append(f"after a jump: numbers are based on {position.warmed} earlier ticks")
    return remarks


# Of one remark; findings of a tick are all in one, and the header with its badge is below it.
_MOST_ROWS = 2
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
        strip: drops and events of the last minutes; None: not shown.
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
    strip: Strip | None = None


def header_lines(frame: Frame, status: ViewStatus, width: int) -> list[Line]:
    """Host, mode, sources, own cost and time in one line; a banner above, alerts below."""
    banner = [] if status.position is None else banner_lines(status.position, width, status.now_ns)
    warnings = (frame.own.warning, status.notice, status.problem)
    alerts = indented(alert_lines(*warnings, width=width - EDGE))
    return [*banner, _header_line(frame, status, width), *alerts]


def _header_line(frame: Frame, status: ViewStatus, width: int) -> Line:
    """The parts that fit: first the model and working sources are left out."""
    sources = tuple(
        (name, state.reason, bool(state.detail), f"{state.late_s:.1f}s" if state.late_s else "")
        for name, state in frame.sources.items()
        if always_shown(name) or state.reason is not Reason.PRESENT or state.detail
    )
    mode = _mode(status.mode, status.interval_s, status.recording, unlocked=status.unlocked)
    own = own_ratio(frame.own) if _is_measured(frame.own) else ""
    clock = f"{time_of_day(frame)} "
    size = size_of(frame.topology)
    before, ends = _before_clock(frame.host, size, mode, sources, own, len(clock), width)
    return line(before, clock) if ends else before


# Of a source: name, reason, whether a part is absent, age.
_SourceFacts: TypeAlias = tuple[str, Reason, bool, str]


@lru_cache(maxsize=8)  # most of it stays from tick to tick
def _before_clock(  # noqa: PLR0917 - of a cache
    of: Host,
    whole_size: str,
    mode: tuple[Line, ...],
    sources: tuple[_SourceFacts, ...],
    self_ratio: str,
    clock_cells: int,
    width: int,
) -> tuple[Line, bool]:
    """The header up to the clock, and whether there is room for the clock."""
    host = tuple(badge_lines(of))
    name = line(Span("nftop ", Tone.ACCENT), Span(of.name, Tone.STRONG))
    left = (line(" ", *_spaced((*host, name), " ")), *mode)
    size = line(Span(f"{short_model(of.model)} {whole_size}", Tone.MUTED))
    short = line(Span(whole_size, Tone.MUTED))
    whole = _sources(sources)
    faults = _sources([item for item in sources if item[1:] != (Reason.PRESENT, False, "")])
    own = line(Span("self ", Tone.MUTED), self_ratio) if self_ratio else None
    for middle, right, ends in (
        ((size,), (whole, own), True),
        ((short,), (whole, own), True),
        ((size,), (faults, own), True),
        ((), (faults, own), True),
        ((), (own,), True),
        ((), (), True),
        ((), (), False),
    ):
        start = line(*_spaced((left[0], *middle, *left[1:]), "  "))
        shown = [item for item in right if item is not None]
        end = line(*_spaced(shown, "  "), "  " if shown else "")
        if (room := width - start.width - end.width - clock_cells * ends) > 0:
            return line(start, " " * room, end), ends
    short = line(*_spaced((*left[:-1],), "  "))
    # Whether a recording is written, the middle of `mode`, is known nowhere else; the name is.
    rest = (line(" ", *_spaced(host, " ")), *mode[:-1]) if mode[1:-1] else left[:2]
    return crop(short if short.width <= width else line(*_spaced(rest, " ")), width), False


def _sources(items: Sequence[_SourceFacts]) -> Line | None:
    lines = [
        _source(name, reason, partial=partial, age=age) for name, reason, partial, age in items
    ]
    return line(*_spaced(lines, " ")) if lines else None


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
    first = line(Span("nftop", Tone.STRONG), "  waiting for the first tick")
    return [crop(first, width), *alert_lines(status.problem, width=width)]


def _spaced(items: Iterable[Line], gap: str) -> Iterable[Line | str]:
    for index, item in enumerate(items):
        if index:
            yield gap
        yield item


@lru_cache(maxsize=8)  # seldom changes
def _mode(
    mode: str, interval_s: float | None, recording: str, *, unlocked: bool
) -> tuple[Line, ...]:
    """Mode, recording and lock; anything but LIVE is conspicuous."""
    pace = f" {interval_s:g}s" if interval_s is not None else ""
    state = (
        line(Span("● ", Tone.ACCENT), Span(mode, Tone.STRONG), pace)
        if mode == "LIVE"
        else line(Span(f"{mode}{pace}", Tone.PAST if mode.startswith("○") else Tone.BADGE))
    )
    lock = line(Span("READ-WRITE", Tone.ACCENT) if unlocked else Span("READ-ONLY", Tone.MUTED))
    return (state, line(Span(recording, Tone.BADGE)), lock) if recording else (state, lock)


def badge_lines(host: Host) -> list[Line]:
    """Badge of a host that is not a real local one; on every screen."""
    return [line(Span(f" {host.badge} ", Tone.BADGE))] if host.badge else []


def time_of_day(frame: Frame) -> str:
    """Time of the frame: `12:41:07Z`."""
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
        return line(Span(name, Tone.MUTED), Span(reason.mark, Tone.MISSING))
    return line(Span(name, Tone.MUTED), Span(f"~{age}" if partial or age else "", Tone.WARN))


def _is_measured(own: SelfCost) -> bool:
    """Whether own cost was measured."""
    readings = (own.cpu_ratio, own.counters.reads)
    return any(not isinstance(r, Missing) or r.reason is not Reason.SOURCE for r in readings)


def own_ratio(own: SelfCost) -> str:
    """Share of a CPU that nftop takes."""
    return fmt.cell(own.cpu_ratio, Unit.RATIO, 5)


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
    return f"{counted(ticks, 'tick')} lost"


def missing(ticks: int) -> str:
    """Ticks missing from a recording."""
    return "1 tick is not in it" if ticks == 1 else f"{ticks} ticks are not in it"


def recorded(name: str, ticks: int, size: int) -> str:
    """Contents of a finished recording; `size` in bytes."""
    return f"{counted(ticks, 'tick')}, {size / 1e6:.1f} MB in {printable(name)}"
