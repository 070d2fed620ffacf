"""Screen Timeline: graphs of totals, lanes of incidents, list of events, then and now, hours."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nftop.model.change import Noticed, OwnChange
from nftop.model.clock import NS_PER_S, clock_of, clock_width
from nftop.model.frame import Frame
from nftop.model.incident import Incident, Severity
from nftop.model.metrics.metric import Unit
from nftop.model.missing import Missing, Reason, number_or
from nftop.model.number_text import counted
from nftop.model.struct import dataclass, field, replace
from nftop.model.timeline import EventState, Strip, TimelineEvent, TimeSeries
from nftop.render.base import format as fmt
from nftop.render.base.format import duration_text
from nftop.render.base.graph import area_rows, line_rows, scale_top
from nftop.render.base.line import BLANK, Click, ClickScale, Line, Span, Tone, crop, line, selected
from nftop.render.base.table import rule_line
from nftop.render.base.text import cells as text_cells
from nftop.render.base.text import fit
from nftop.render.frame.changes import author, texts
from nftop.render.incidents.line import (
    GLYPHS,
    TONES,
    culprit_name,
    culprit_text,
    harm_text,
    title_text,
)
from nftop.render.timeline.axis import (
    CURSOR,
    Cells,
    TimeAxis,
    axis_cells,
    glyph_of,
    plain_glyphs,
    put_events,
)
from nftop.render.timeline.strip import drops_span

MARKS: tuple[tuple[str, str], ...] = (
    ("● ▲ i", "incident: packets are lost, degraded, or only information"),
    ("◆", "change of cache classes"),
    ("⚑", "marker of the operator"),
    ("━", "from begin to end of an incident"),
    ("┄", "replay: incidents of this time are not read yet, or not all of them"),
    ("≥", "some network functions tell no drops: a lower bound"),
)
_LEFT, _RIGHT = 17, 8  # cells beside graphs and lanes
_NARROW = 70
_LEAST_LIST = 3  # rows of the list, its header aside
_MOST_LANES = 4
_MOST_NFS = 6
_HOURS_LINES, _THEN_HEAD = 3, 2


@dataclass(frozen=True, slots=True)
class TimelineData:
    """What the screen shows.

    Attributes:
        strip: drops and events of the window, and the moment shown.
        sent: packets per second. memory: bytes per second.
        hours: drops and events of everything that is kept.
        events: those of the list, newest first.
        kept: how much of the past can be gone back to, in words.
        then: the frame of the moment shown; None at now. now: the newest frame.
        own_changes: changes by this nftop.
        first: index of the first row in view. selected: index of the selected event.
    """

    strip: Strip
    sent: TimeSeries
    memory: TimeSeries
    hours: Strip
    events: Sequence[TimelineEvent]
    kept: str
    now: Frame
    then: Frame | None = None
    own_changes: Sequence[OwnChange] = ()
    first: int = 0
    selected: int = 0


@dataclass(frozen=True, slots=True)
class _Room:
    """Lines of each section."""

    drops: int = 0
    sent: int = 0
    memory: int = 0
    lanes: int = 0
    axis: int = 0
    rows: int = 0
    then: int = 0
    hours: int = 0
    gaps: int = 0
    lanes_of: tuple[TimelineEvent, ...] = field(default_factory=tuple)


def list_rows(data: TimelineData, height: int) -> int:
    """Rows of the list of events in so many lines of the screen."""
    return _share_out(data, height).rows


def timeline_lines(data: TimelineData, width: int, height: int, *, ascii_only: bool) -> list[Line]:
    """The screen's lines, at most `height`, below header and tabs."""
    room = _share_out(data, height)
    left = _LEFT if width >= _NARROW else 6
    right = _RIGHT if width >= _NARROW else 0
    axis = TimeAxis(
        data.strip.first_ns, data.strip.last_ns, max(8, width - left - right), data.strip.whole
    )
    draw = _Graphs(data.strip, axis, left, right, ascii_only)
    lines = [
        *draw.area("drop/s", Unit.PER_S, data.strip.drops, room.drops),
        *draw.line("sent Mpps", Unit.PACKETS_PER_S, data.sent, room.sent),
        *draw.area("mem GB/s", Unit.BYTES_PER_S, data.memory, room.memory),
        *draw.lanes(room.lanes_of),
        *draw.axis_line(room.axis),
    ]
    scale = ClickScale(left, axis.cells, axis.first_ns, axis.last_ns)
    lines = [replace(item, click=item.click or Click("moment", scale=scale)) for item in lines]
    lines += [*_gap(room.gaps), *_list(data, width, room.rows)]
    if room.then and data.then is not None:
        lines += [*_gap(room.gaps), *_then_and_now(data.then, data.now, width, room.then)]
    if room.hours:
        lines += [*_gap(room.gaps), *_hours(data, width, ascii_only=ascii_only)]
    shown = (crop(item, width) for item in lines[:height])
    return [_plain(item) for item in shown] if ascii_only else list(shown)


def _plain(whole: Line) -> Line:
    spans = (Span(plain_glyphs(text), tone, click) for text, tone, click in whole.spans)
    return Line(tuple(spans), whole.fill, whole.click)


def event_text(
    event: TimelineEvent,
    own_changes: Sequence[OwnChange] = (),
    room: int = 1 << 20,
    ways: Mapping[str, int] | None = None,
) -> str:
    """What happened, in one line (possibly long, untrusted), of an incident in `room` cells.

    `ways`: of `texts`.
    """
    if event.kind == "incident" and event.incident is not None:
        return _incident_text(event.incident, room)
    if event.kind == "change":
        if not event.changes:
            return f"change: {event.text}"
        noticed = Noticed(event.since_ns, event.at_ns, event.begin_ns, event.changes)
        what = ", ".join(texts(event.changes, ways or {}))
        return f"change {author(noticed, own_changes)}: {what}"
    if event.kind == "marker":
        return f"marker {event.text}".rstrip()
    return event.text


def _incident_text(incident: Incident, room: int) -> str:
    """Culprit, what it does, victims; first without facts of the culprit, then with one victim."""
    culprit = "" if incident.culprit is None else incident.culprit.key
    others = [item for item in incident.victims if not culprit or item.party.key != culprit]
    victims = [f"{item.party.name} {harm_text(item)}".rstrip() for item in others]
    rest = f" +{counted(len(victims) - 1, 'NF')}" if len(victims) > 1 else ""
    title = title_text(incident) if incident.culprit is not None else incident.title
    text = ""
    for named in (victims, [f"{victims[0]}{rest}"] if victims else []):
        for most in (2, 1, 0):
            head = "" if incident.culprit is None else f"{culprit_text(incident, most)} "
            text = f"{head}{title}" + (f" → {', '.join(named)}" if named else "")
            if text_cells(text) <= room:
                return text
    if not victims or incident.culprit is None:
        return text
    return f"{culprit_name(incident)} → {victims[0]}{rest}"


def _gap(count: int) -> list[Line]:
    return [BLANK] * count


def _share_out(data: TimelineData, height: int) -> _Room:
    """Lines of the sections: list and graph of drops first, then what fits."""
    height = max(0, height)
    incidents = [item for item in data.strip.events if item.kind == "incident"]
    harmful = [item for item in incidents if item.severity > Severity.INFO]
    lanes = tuple(
        sorted(harmful or incidents, key=lambda item: (-item.severity, -item.begin_ns))[
            : _MOST_LANES if harmful else 2
        ]
    )
    header = 1 if height >= 4 else 0
    left = height - header
    rows = min(left, max(1, min(_LEAST_LIST, len(data.events))))
    left -= rows
    sizes = dict.fromkeys(("axis", "drops", "lanes", "sent", "memory", "then", "hours"), 0)

    def take(name: str, lines: int, least: int = 1) -> None:
        nonlocal left
        got = min(lines, left)
        if got >= least:
            sizes[name] += got
            left -= got

    take("axis", 1)
    take("drops", 2)
    take("lanes", len(lanes))
    take("sent", 2, 2)
    if data.then is not None:
        wanted = _THEN_HEAD + min(_MOST_NFS, len(data.then.nfs))
        take("then", wanted, min(wanted, _THEN_HEAD + 2))
    take("memory", 2, 2)
    take("hours", _HOURS_LINES, _HOURS_LINES)
    gaps = 1 if left >= 8 else 0
    left -= gaps * (1 + (sizes["then"] > 0) + (sizes["hours"] > 0))
    # The rest: rows that the list needs, then taller graphs.
    more = min(left, max(0, len(data.events) - rows))
    rows, left = rows + more, left - more
    while left > 0:
        for name in ("drops", "sent", "memory"):
            if left and sizes[name]:
                sizes[name] += 1
                left -= 1
        if not any(sizes[name] for name in ("drops", "sent", "memory")) or sizes["drops"] > 12:
            break
    return _Room(**sizes, rows=rows, gaps=gaps, lanes_of=lanes[: sizes["lanes"]])


@dataclass(frozen=True, slots=True)
class _Graphs:
    """Graphs on one axis, with labels at both sides."""

    strip: Strip
    axis: TimeAxis
    left: int
    right: int
    ascii_only: bool

    def area(self, name: str, unit: Unit, series: TimeSeries, rows: int) -> list[Line]:
        """A filled graph from 0."""
        values = self.axis.worst(series, 2 * self.axis.cells)
        return self._graph(name, unit, series, values, rows, low=0.0)

    def line(self, name: str, unit: Unit, series: TimeSeries, rows: int) -> list[Line]:
        """A line on a scale that need not begin at 0."""
        values = self.axis.mean(series, 2 * self.axis.cells)
        return self._graph(name, unit, series, values, rows, low=None)

    def _graph(
        self,
        name: str,
        unit: Unit,
        series: TimeSeries,
        values: NDArray[np.float32],
        rows: int,
        *,
        low: float | None,
    ) -> list[Line]:
        if not rows:
            return []
        if not np.isfinite(values).any():
            why = self.strip.unknown if name == "drop/s" else None
            text = "no number" if why is None else f"{why.reason.mark} {why.message}"
            return [line(Span(f" {name:<10} {text}", Tone.MUTED)), *_gap(rows - 1)]
        if low is None:
            bottom, top = value_range(values)
            drawn = line_rows(values, bottom, top, rows)
        else:
            bottom, top = 0.0, scale_top(values, unit)
            drawn = area_rows(values, top, rows)
        loss = name == "drop/s"
        lines = []
        for index, text in enumerate(drawn):
            cells = Cells(text, Tone.FAINT if loss else Tone.AREA)
            above = drawn[index - 1] if index and low is not None else ""
            if loss:
                losing = np.flatnonzero(np.fmax(values[0::2], values[1::2]) > 0).tolist()
                cells.tint_area(losing, above, Tone.BAD, Tone.BAD_DIM)
            elif above:
                cells.tint_area(range(len(text)), above, Tone.AREA, Tone.ACCENT_DIM)
            if self.strip.cursor_ns is not None:
                cells.put(self.axis.cell(self.strip.cursor_ns), CURSOR, Tone.ACCENT)
            scale = top if index == 0 else bottom if index == rows - 1 else None
            label = "" if scale is None else fmt.number(scale, unit, 5)
            now = self._at_moment(series, unit) if index == 0 else ""
            lines.append(
                line(
                    self._label(name if index == 0 else "", label),
                    cells.line(ascii_only=self.ascii_only),
                    self._value(now, drops_span(self.strip).tone if loss else Tone.MUTED),
                )
            )
        return lines

    def lanes(self, events: Sequence[TimelineEvent]) -> list[Line]:
        """A row for each incident, from its begin to its end."""
        lines = []
        for event in events:
            cells = Cells(" " * self.axis.cells, Tone.MUTED)
            put_events(cells, self.axis, (event,), self.strip.scanned_ns)
            first = self.axis.cell(event.begin_ns)
            known_ns = self.strip.scanned_ns or self.axis.last_ns
            last = self.axis.cell(known_ns if event.end_ns is None else event.end_ns)
            after, before = self.axis.cells - last - 2, first - 1
            room = after if after >= max(before, 12) else before
            text = f" {event_text(event, room=room - 1)}"
            if after >= max(before, 12):
                cells.put(last + 1, fit(text, min(text_cells(text), after)), Tone.MUTED)
            elif before >= 12:
                shown = fit(text[1:], min(text_cells(text) - 1, before))
                cells.put(first - 1 - text_cells(shown), shown, Tone.MUTED)
            if self.strip.cursor_ns is not None:
                cells.put(self.axis.cell(self.strip.cursor_ns), CURSOR, Tone.ACCENT)
            glyph = GLYPHS[event.severity]
            name = event.key if event.incident is None else _subject(event)
            shown = f" {glyph} {fit(name, self.left - 4)} "
            lines.append(
                line(
                    Span(shown[: self.left], TONES[event.severity]),
                    cells.line(ascii_only=self.ascii_only),
                )
            )
        return lines

    def axis_line(self, rows: int) -> list[Line]:
        """The axis with the marks of all events."""
        if not rows:
            return []
        marks = [item for item in self.strip.events if item.kind != "incident"]
        cells = axis_cells(self.axis, marks, self.strip.cursor_ns, self.strip.scanned_ns)
        end = "end" if self.strip.whole else "now"
        start = clock_of(self.axis.first_ns) if self.strip.whole else ""
        return [
            line(
                self._label(start, ""),
                cells.line(ascii_only=self.ascii_only),
                self._value(end),
            )
        ]

    def _at_moment(self, series: TimeSeries, unit: Unit) -> str:
        if series is self.strip.drops:
            return drops_span(self.strip).text
        at_ns = self.strip.last_ns if self.strip.cursor_ns is None else self.strip.cursor_ns
        value, _ = series.at(at_ns)
        return "-" if math.isnan(value) else fmt.number(value, unit, 6)

    def _label(self, name: str, scale: str) -> Span:
        if self.left < _LEFT:
            return Span(f"{(scale or name)[: self.left - 1]:>{self.left - 1}} ", Tone.MUTED)
        return Span(f" {name:<10}{scale:>5} "[: self.left], Tone.MUTED)

    def _value(self, text: str, tone: Tone = Tone.MUTED) -> Span:
        if not self.right:
            return Span("", Tone.MUTED)
        return Span(f"{text:>{self.right - 1}} ", tone)


def _subject(event: TimelineEvent) -> str:
    incident = event.incident
    if incident is None:
        return ""
    if incident.culprit is not None:
        return culprit_name(incident)
    return incident.victims[0].party.name if incident.victims else incident.title


def value_range(values: NDArray[np.float32]) -> tuple[float, float]:
    """Round ends of a scale that shows the change of the values; 0 if that is near."""
    known = values[np.isfinite(values)].astype(np.float64)
    low, high = float(known.min()), float(known.max())
    if high <= 0:
        return 0.0, 1.0
    span = max(high - low, 0.1 * high)
    power = 10.0 ** math.floor(math.log10(span / 2))
    step = next(item * power for item in (1, 2, 5, 10) if item * power * 2 >= span)
    top = math.ceil(high / step - 1e-6) * step
    bottom = max(0.0, math.floor(low / step + 1e-6) * step)
    return (0.0 if low < 0.3 * high else bottom), top


# The list of events

_LASTED, _WORST, _STATE = 9, 13, 10


def _list(data: TimelineData, width: int, rows: int) -> list[Line]:
    wide = width >= _NARROW
    widest = width >= 100
    used = 3 + clock_width() * (1 + widest) + _LASTED + (_WORST + _STATE) * wide
    what = max(4, width - used - 1)
    heads = [f"   {'BEGIN':<{clock_width()}}"]
    heads += [f"{'END':<{clock_width()}}"] if widest else []
    heads += [fit("WHAT, newest first", what), f"{'LASTED':>{_LASTED}}"]
    heads += [f"{'WORST':>{_WORST}}", f" {'STATE':<{_STATE - 1}}"] if wide else []
    header = Line((Span(fit("".join(heads), width), Tone.HEADER),), Tone.HEADER)
    if not data.events:
        return [header, line(Span("   nothing has happened yet", Tone.MUTED))][: rows + 1]
    lines = [header]
    for index in range(data.first, min(len(data.events), data.first + rows)):
        event = data.events[index]
        cells = _row(event, data, what, wide=wide, widest=widest)
        shown = line(*cells)
        click = Click("row", index)
        shown = Line(tuple(Span(text, tone, click) for text, tone, _ in shown.spans))
        lines.append(selected(shown) if index == data.selected else shown)
    return lines


def _lasted_s(event: TimelineEvent, now: Frame) -> float:
    """Seconds from its begin to its end; of an incident by CLOCK_MONOTONIC."""
    incident = event.incident
    if incident is not None and (incident.ended_ns is None) == (event.end_ns is None):
        return incident.lasted_s(now.monotonic_ns)
    last_ns = now.wall_ns if event.end_ns is None else event.end_ns
    return (last_ns - event.begin_ns) / NS_PER_S


def _row(
    event: TimelineEvent, data: TimelineData, what: int, *, wide: bool, widest: bool
) -> list[Span]:
    over = event.end_ns is not None
    tone = Tone.PLAIN if event.state in (EventState.OPEN, EventState.IN_FORCE) else Tone.MUTED
    glyph = glyph_of(event)
    end = "-" if event.end_ns is None else clock_of(event.end_ns)
    lasted = "" if event.state is EventState.MOMENT else duration_text(_lasted_s(event, data.now))
    spans = [Span(f" {glyph.text} ", glyph.tone)]
    spans.append(Span(f"{clock_of(event.begin_ns):<{clock_width()}}", Tone.MUTED))
    if widest:
        spans.append(Span(f"{end:<{clock_width()}}", Tone.MUTED))
    text = event_text(event, data.own_changes, what - 1, data.now.mask_ways)
    spans.append(Span(fit(text, what), tone))
    spans.append(Span(f"{lasted:>{_LASTED}}", tone))
    if wide:
        spans.append(Span(f"{_worst(event):>{_WORST}}", tone))
        state = event.kind if event.state is EventState.MOMENT else event.state.value
        open_tone = TONES[event.severity] if not over else Tone.MUTED
        spans.append(Span(f" {state:<{_STATE - 1}}", open_tone))
    return spans


def _worst(event: TimelineEvent) -> str:
    worst = event.worst_drops_per_s
    if isinstance(worst, Missing) or not worst:
        return ""
    return f"{fmt.number(worst, Unit.PER_S, 5)} drop/s"


# Then and now

_THEN_METRICS: tuple[tuple[str, str, Unit], ...] = (
    ("Mpps", "tx_packets_per_s", Unit.PACKETS_PER_S),
    ("CPP", "cpp", Unit.CYCLES),
    ("DROP/s", "drop_packets_per_s", Unit.PER_S),
    ("IPC", "ipc", Unit.PER_CYCLE),
    ("MiB", "llc_occupancy_bytes", Unit.BYTES),
)
_NAME, _CELL = 16, 8
_GONE = Missing(Reason.UNDEFINED)


def _then_and_now(then: Frame, now: Frame, width: int, rows: int) -> list[Line]:
    """Numbers of each NF at the moment shown beside those of now."""
    count = max(1, (width - _NAME - 3) // (2 * _CELL + 2))
    metrics = _THEN_METRICS[:count]
    age = duration_text((now.wall_ns - then.wall_ns) / NS_PER_S)
    title = f"THEN {clock_of(then.wall_ns)}, {age} ago, AND NOW"
    head = f" {'NF':<{_NAME}}"
    for label, _, _ in metrics:
        head += f"  {f'{label} then':>{_CELL + 2}}{'now':>{_CELL - 2}}"
    lines = [
        line(" ", rule_line(title, "", width - 2)),
        Line((Span(fit(head, width), Tone.HEADER),), Tone.HEADER),
    ]
    newest = {nf.key: nf for nf in now.nfs}
    order = sorted(then.nfs, key=lambda nf: -number_or(nf.readings["drop_packets_per_s"], 0.0))
    for nf in order[: rows - _THEN_HEAD]:
        spans = [Span(f" {fit(nf.name, _NAME)}", Tone.PLAIN)]
        for _, metric, unit in metrics:
            was = nf.readings[metric]
            other = newest.get(nf.key)
            is_ = _GONE if other is None else other.readings[metric]
            spans.append(Span(f"  {fmt.cell(was, unit, _CELL):>{_CELL + 2}}", Tone.STRONG))
            spans.append(Span(f"{fmt.cell(is_, unit, _CELL - 2):>{_CELL - 2}}", Tone.MUTED))
        lines.append(line(*spans))
    return lines


def _hours(data: TimelineData, width: int, *, ascii_only: bool) -> list[Line]:
    """All that is kept in one line, and where the window of the graphs is."""
    span_s = (data.hours.last_ns - data.hours.first_ns) / NS_PER_S
    axis = TimeAxis(data.hours.first_ns, data.hours.last_ns, max(8, width - 2), data.hours.whole)
    cells = Cells("·" * axis.cells, Tone.FAINT)
    losses = axis.worst(data.hours.drops, axis.cells)
    for at in np.flatnonzero(losses > 0).tolist():
        cells.put(at, "▁", Tone.BAD)
    put_events(cells, axis, data.hours.events, data.hours.scanned_ns, least=Severity.WARN)
    if not data.hours.whole and data.strip.first_ns > data.hours.first_ns:
        cells.put(axis.cell(data.strip.first_ns), "▐", Tone.ACCENT)
    if data.strip.cursor_ns is not None:
        cells.put(axis.cell(data.strip.cursor_ns), CURSOR, Tone.ACCENT)
    scale = Cells(" " * axis.cells, Tone.MUTED)
    scale.put(0, clock_of(axis.first_ns), Tone.MUTED)
    scale.put(axis.cells - 3, "end" if data.hours.whole else "now", Tone.MUTED)
    for at, text in axis.labels():
        if scale.free(at - len(text) // 2, len(text), " "):
            scale.put(at - len(text) // 2, text, Tone.MUTED)
    return [
        line(" ", rule_line(duration_text(span_s), data.kept, width - 2)),
        line(" ", cells.line(ascii_only=ascii_only)),
        line(" ", scale.line(ascii_only=ascii_only)),
    ]
