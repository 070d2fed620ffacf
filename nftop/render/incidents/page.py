"""Page of one incident: culprit, victims, price, evidence, and what would mend it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nftop.derive.findings.engine import LEAST_TICKS
from nftop.derive.findings.registry import all_rules
from nftop.derive.findings.rule import si
from nftop.model.clock import NS_PER_S, clock_of
from nftop.model.frame import Frame
from nftop.model.ids import format_cpu_list
from nftop.model.incident import (
    EvidenceLink,
    Incident,
    Party,
    Severity,
    Uncounted,
    Victim,
    VictimTrace,
)
from nftop.model.metrics.catalogue import METRICS
from nftop.model.metrics.metric import Unit
from nftop.model.missing import Missing, Reading, number_or
from nftop.model.rdt.rdt import class_name
from nftop.model.remedy import Remedy
from nftop.model.struct import dataclass, field
from nftop.model.usual import NEAR, NEW_NORMAL_AFTER_S
from nftop.render.base import format as fmt
from nftop.render.base.format import duration_text, since_text
from nftop.render.base.graph import line_rows
from nftop.render.base.line import BLANK, Line, Span, Tone, crop, flow, line, paragraph
from nftop.render.base.table import rule_line
from nftop.render.base.text import cells, fit, printable
from nftop.render.cache.way_cells import draft_rows, styles_of
from nftop.render.incidents.line import (
    GLYPHS,
    TONES,
    change_text,
    container_text,
    cost_label,
    culprit_name,
    culprit_text,
    harm_text,
    price_text,
    title_text,
)
from nftop.render.timeline.axis import Cells, TimeAxis

_TWO_COLUMNS_FROM = 100
_LEFT_SHARE = 0.62
_GRAPH_ROWS = 7
_STEPS = {"change": ("◆", Tone.ACCENT), "cause": ("●", Tone.BAD), "effect": ("↓", Tone.WARN)}
_KINDS = {
    "process": "process", "class": "cache class", "nf": "network function", "cpu": "CPU",
    "device": "devices", "package": "socket", "host": "host",
}  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class VictimTrend:
    """Throughput of the first victim over time.

    Attributes:
        values: float32 (points,), packets per second, oldest first; NaN where unknown.
        span_s: from the first to the last.
        first_ns: wall time of the first.
        sent: what it sent; else what it received.
        onset: the onset, on a time axis of its own, before these values; None if it is in them.
    """

    name: str
    values: NDArray[np.float32]
    span_s: float
    first_ns: int
    sent: bool = True
    onset: VictimTrend | None = None


@dataclass(frozen=True, slots=True)
class IncidentView:
    """What the page draws.

    Attributes:
        number, total: position of the incident among those shown, from 1.
        trend: points for `trend_points`; None if there are none.
        class_before: occupancy and traffic of the culprit's class before it, by metric.
        swept: another width that a sweep of this session found for the draft's class; "" if none.
    """

    frame: Frame
    incident: Incident
    remedy: Remedy
    number: int = 1
    total: int = 1
    trend: VictimTrend | None = None
    class_before: Mapping[str, float] = field(default_factory=dict)
    ascii_only: bool = False
    swept: str = ""


def trend_points(width: int) -> int:
    """Values of the graph on a page of this width: two a cell."""
    graph = width - int(width * _LEFT_SHARE) - 9 if width >= _TWO_COLUMNS_FROM else width - 10
    return 2 * max(graph, 4)


# Share of the graph that has the onset, if the rest has another time axis.
_ONSET_SHARE = 1 / 3


def trend_of_trace(name: str, trace: VictimTrace, points: int) -> VictimTrend:
    """The onset, and what followed until the end of a trace, for `trend_points`."""
    onset = np.array([np.nan if item is None else item for item in trace.onset], np.float32)
    since = np.array([np.nan if item is None else item for item in trace.since], np.float32)
    onset_s = len(onset) * trace.onset_step_s
    if not len(since):
        values = _resampled(onset, points)
        return VictimTrend(name, values, onset_s, trace.first_ns, trace.sent)
    room = 2 * int(points * _ONSET_SHARE / 2)
    head = VictimTrend(name, _resampled(onset, room), onset_s, trace.first_ns, trace.sent)
    rest = _resampled(since, points - room - 2)  # a cell separates them
    first_ns = trace.first_ns + round(onset_s * 1e9)
    return VictimTrend(name, rest, len(since) * trace.step_s, first_ns, trace.sent, head)


def _resampled(values: NDArray[np.float32], points: int) -> NDArray[np.float32]:
    """Means of so many equal spans; values are repeated where there are fewer."""
    edges = np.arange(points + 1) * len(values) / points
    first = edges[:-1].astype(np.intp)
    after = np.maximum(np.ceil(edges[1:]).astype(np.intp), first + 1)
    spans = (values[low:high] for low, high in zip(first, after, strict=True))
    known = (span[np.isfinite(span)] for span in spans)
    return np.array([span.mean() if len(span) else np.nan for span in known], np.float32)


def incident_page_lines(view: IncidentView, width: int, height: int | None = None) -> list[Line]:
    """The whole page; without its first blank lines where it has more than `height` with them."""
    lines = [_title(view, width), BLANK]
    left_width = int(width * _LEFT_SHARE) if width >= _TWO_COLUMNS_FROM else width
    left = [*_culprit(view, left_width), *_victims(view, left_width), *_price(view, left_width)]
    graph = _graph(view, width)
    if width >= _TWO_COLUMNS_FROM and graph:
        lines += _side_by_side(left, graph, left_width, width)
    else:
        lines += [*left, *graph]
    lines += [BLANK, *_evidence(view, width), BLANK, *_remedy(view, width)]
    blanks = [at for at, item in enumerate(lines) if item is BLANK]
    over = 0 if height is None else len(lines) - height
    for at in reversed(blanks[: max(0, over)]):
        del lines[at]
    return lines


def no_incident_lines(frame: Frame | None, width: int) -> list[Line]:
    """The page without any incident: what is dropped meanwhile, and when its cause may be known."""
    nfs = () if frame is None else frame.nfs
    drops = [(nf.name, number_or(nf.readings["drop_packets_per_s"], 0.0)) for nf in nfs]
    texts = [f"{printable(name)} drops {si(rate)}/s." for name, rate in drops if rate > 0]
    if not texts:
        return [BLANK, *paragraph("No incident so far.", width, lead=line("  "))]
    longest_s = max(rule.at_least_s for rule in all_rules() if not rule.is_note)
    head = f"No incident yet: {si(sum(rate for _, rate in drops))} drop/s, cause not known."
    when = f"A rule holds after up to {longest_s:g} s and {LEAST_TICKS} ticks beyond its limit."
    return [
        BLANK,
        *(row for text in (head, *texts, when) for row in paragraph(text, width, lead=line("  "))),
    ]


def absent_incident_lines(frame: Frame, incident: Incident, width: int) -> list[Line]:
    """The page of an incident that a frame has not, with the reason.

    `incident`: as another frame has it.
    """
    here, begin = clock_of(frame.wall_ns), clock_of(incident.since_ns)
    why = f"At {here} this incident is not known."
    if frame.wall_ns < incident.since_ns:
        ago = duration_text((incident.since_ns - frame.wall_ns) / NS_PER_S)
        why = f"At {here} it had not begun: it begins at {begin}, {ago} later."
    others = len(frame.past_incidents) + len(frame.incidents)
    keys = "Right and Shift-Right go forward; Esc returns to now."
    more = f"n: the other incident{'s' * (others != 1)} of that moment, {others}."
    head = f"{culprit_text(incident)} {title_text(incident)}"
    lead = line(" ", Span(GLYPHS[incident.severity], Tone.MUTED), " ")
    return [
        *paragraph(head, width - 1, lead=lead),
        BLANK,
        *paragraph(f"{why} {keys}{f' {more}' if others else ''}", width - 1, lead=line("   ")),
    ]


def _title(view: IncidentView, width: int) -> Line:
    incident = view.incident
    tone = TONES[incident.severity]
    lasted = duration_text(incident.lasted_s(view.frame.monotonic_ns)) + "+" * incident.is_bound
    state = "open" if incident.until_ns is None else f"ended {clock_of(incident.until_ns)}"
    marks = [
        name
        for name, is_so in (("muted", incident.muted), ("seen", incident.acknowledged))
        if is_so
    ]
    facts = ", ".join((lasted, state, *marks))
    tail = f"  {since_text(incident)}  {facts}  {view.number} of {view.total} "
    head = f"{culprit_name(incident)} {title_text(incident)}"
    badge = GLYPHS[incident.severity]
    if width >= _TWO_COLUMNS_FROM:
        badge = f" {badge} INCIDENT "
        if incident.severity is Severity.BAD and incident.until_ns is None:
            tone = Tone.BADGE
    room = width - cells(tail) - cells(badge) - 2
    return crop(
        line(
            " ",
            Span(badge, tone),
            " ",
            Span(fit(head, max(room, 8)), Tone.STRONG),
            Span(tail, Tone.MUTED),
        ),
        width,
    )


def _rule(title: str, width: int, right: str = "") -> Line:
    return line(" ", rule_line(title, right, width - 2))


def _culprit(view: IncidentView, width: int) -> Iterator[Line]:
    incident = view.incident
    yield _rule("CULPRIT", width)
    culprit = incident.culprit
    if culprit is None:
        yield crop(line(" not known"), width)
        return
    known = culprit_text(incident)
    mark = _class_mark(view, culprit)
    yield crop(line(" ", mark, Span(known, Tone.STRONG)), width)
    shown = (known, f"class {culprit_name(incident)}")
    facts = [] if culprit.kind == "process" else [_KINDS[culprit.kind]]
    facts += [fact for fact in _party_facts(culprit) if not any(fact in text for text in shown)]
    facts += _class_facts(view)
    if facts:
        yield from paragraph(", ".join(facts), width - 1, lead=line("   "), tone=Tone.MUTED)
    if incident.basis:
        how = "most likely" if incident.likely else "known by"
        how = "not narrowed down" if culprit.kind == "device" else how
        yield crop(line("   ", Span(f"{how}: {incident.basis}", Tone.MUTED)), width)


def _class_mark(view: IncidentView, party: Party) -> Span:
    """The hue of its cache class; blank without one."""
    styles = {class_name(name): style for name, style in styles_of(view.frame.groups).items()}
    style = styles.get(party.group)
    return Span("  ", Tone.PLAIN) if style is None else Span("■ ", style.hue)


def _party_facts(party: Party) -> list[str]:
    return [
        *([f"pid {party.pid}"] if party.pid is not None else []),
        *([f"user {party.user}"] if party.user else []),
        *([container_text(party)] if party.container else []),
        *([f"cpu {format_cpu_list(party.cpus)}"] if party.cpus else []),
        *([f"class {party.group}"] if party.group else []),
    ]


def _class_facts(view: IncidentView) -> Iterator[str]:
    """Occupancy and traffic of the culprit's class in its cache."""
    incident = view.incident
    if incident.until_ns is not None:
        return  # those of the frame are not its own any more
    for group in view.frame.groups:
        for cache in group.caches:
            if group.name != incident.group or cache.l3 != incident.l3:
                continue
            used, capacity = (cache.readings[f"{name}_bytes"] for name in ("occupancy", "capacity"))
            if not isinstance(used, Missing) and not isinstance(capacity, Missing):
                was = _was(view, "occupancy_bytes", used, Unit.BYTES)
                yield f"{used / 2**20:.1f}/{capacity / 2**20:.1f} MiB{was}"
            traffic = cache.readings["mbm_total_bytes_per_s"]
            if not isinstance(traffic, Missing):
                was = _was(view, "mbm_total_bytes_per_s", traffic, Unit.BYTES_PER_S)
                yield f"{fmt.worded(traffic, Unit.BYTES_PER_S)}{was}"


def _was(view: IncidentView, metric: str, now: float, unit: Unit) -> str:
    """A value of the culprit's class before the incident, if it is another."""
    before = view.class_before.get(metric)
    if before is None or abs(now - before) <= NEAR * now:
        return ""
    return f" (was {fmt.number(before, unit, 6)})"


def _victims(view: IncidentView, width: int) -> Iterator[Line]:
    victims = view.incident.victims
    if not victims:
        return
    yield _rule("VICTIMS", width, f"before → {_when(view.incident)}")
    labels = {cost_label(item): None for item in victims}
    own_label = len(labels) > 1  # each row then has its own
    cost_width = 19 + 5 * own_label
    room = width - 33 - cost_width
    called = [item.party.name for item in victims]
    name_width = max(12, min(max(map(cells, called)), room))
    head = f"{'Mpps':>18} {' or '.join(labels):>{cost_width}} {'DROP/s':>9}"
    yield crop(line(" " * (name_width + 4), Span(head, Tone.MUTED)), width)
    for item, name in zip(victims, called, strict=True):
        mark = _class_mark(view, item.party)
        shown = Span(fit(name, name_width), Tone.STRONG)
        yield crop(line(" ", mark, shown, *_victim(item, own_label=own_label)), width)
    if text := _usual_text(view):
        yield from paragraph(text, width - 1, lead=line("   "), tone=Tone.MUTED)


def _when(incident: Incident) -> str:
    """The time that its numbers are of: now, or its worst tick if it ended."""
    if incident.until_ns is None:
        return "now"
    price = incident.worst
    cost = [price.drops_per_s, price.lost_packets_per_s]
    if any(not isinstance(item, Missing) and item > 0 for item in cost):
        return f"at its worst, {clock_of(incident.worst_ns)}"
    return f"last, until {clock_of(incident.until_ns)}"


def _usual_text(view: IncidentView) -> str:
    """What its values are to vs.10m; "" where it has no part in that."""
    incident = view.incident
    if incident.until_ns is not None or incident.severity is Severity.INFO:
        return ""
    renewed_ns = incident.since_ns + round(NEW_NORMAL_AFTER_S * 1e9)
    at = clock_of(renewed_ns)
    if incident.lasted_s(view.frame.monotonic_ns) >= NEW_NORMAL_AFTER_S:
        return f"the new normal of vs.10m since {at}, as it lasts"
    return f"left out of vs.10m; the new normal if it lasts until {at}"


def _victim(victim: Victim, *, own_label: bool) -> tuple[Span | str, ...]:
    """Numbers of a victim; `own_label`: with the name of its cost."""
    is_rate = victim.metric.endswith("packets_per_s")
    # A victim by its cost has sent as much as before.
    same = "?" if isinstance(victim.change, Missing) else "unchanged"
    rates = _pair(victim.before, victim.now, Unit.PACKETS_PER_S)
    sent = (rates, harm_text(victim)) if is_rate else (same, "")
    costs = _pair(victim.cpp_before, victim.cpp_now, Unit.CYCLES, victim.bounds)
    costs = f"{cost_label(victim):<4} {costs:>13}" if own_label else f"{costs:>13}"
    cost = _ratio(victim.cpp_before, victim.cpp_now)
    drops = victim.drops_per_s
    dropped = "-" if isinstance(drops, Missing) else si(drops)
    loses = not isinstance(drops, Missing) and drops > 0
    return (
        f" {sent[0]:>13} ",
        Span(f"{sent[1]:>4}", Tone.BAD if loses else Tone.PLAIN),
        f" {costs} ",
        Span(f"{cost:>5}", Tone.WARN),
        Span(f" {dropped:>9}", Tone.BAD if loses else Tone.PLAIN),
    )


def _pair(
    before: Reading, now: Reading, unit: Unit, bounds: tuple[bool, bool] = (False, False)
) -> str:
    texts = [
        fmt.cell(reading, unit, 6, bound=bound)
        for reading, bound in zip((before, now), bounds, strict=True)
    ]
    return " → ".join(texts)


def _ratio(before: Reading, now: Reading) -> str:
    if isinstance(before, Missing) or isinstance(now, Missing) or not 0 < before <= now:
        return ""
    return change_text(now / before - 1)


def _price(view: IncidentView, width: int) -> Iterator[Line]:
    incident = view.incident
    yield _rule("PRICE", width)
    price, ended = price_text(incident), incident.until_ns is not None
    worst, at = incident.worst.drops_per_s, f"at {clock_of(incident.worst_ns)}"
    tone = Tone.BAD if incident.severity is Severity.BAD and not ended else Tone.PLAIN
    spans = [Span(f"{price} {at}" if price and ended else price or _no_price(incident), tone)]
    if incident.cost:
        spans.append(Span(printable(incident.cost), tone))
    if not ended and not isinstance(worst, Missing) and worst > 0:
        spans.append(Span(f"worst {si(worst)} {at}", Tone.MUTED))
    if not isinstance(incident.dropped, Missing) and incident.dropped > 0:
        spans.append(Span(lost_text(incident, si(incident.dropped)), Tone.PLAIN))
    items = [line(span) for span in spans if span.text]
    for item in incident.uncounted:
        items += paragraph(_uncounted_text(item, ended=ended), width - 2)
    yield from (line(" ", row) for row in flow(items, width - 2, "  "))


def lost_text(incident: Incident, number: str) -> str:
    """Packets lost in an incident, `number` in all, or that this is a lower bound."""
    least = "at least " if incident.is_dropped_bound else ""
    until, from_ns = "so far" if incident.until_ns is None else "in all", incident.counted_from_ns
    span = f"since {clock_of(from_ns)}, from which on they are counted" if from_ns else until
    return f"{least}{number} packets lost {span}"


def _uncounted_text(item: Uncounted, *, ended: bool) -> str:
    name = printable(item.name)
    if item.seconds is None:
        what = "dropped was" if ended else "drops is"
        return f"what {name} {what} not counted: {printable(item.why)}"
    seconds = duration_text(max(item.seconds, 1.0))
    return f"drops of {name} not counted for {seconds}: {printable(item.why)}"


def _no_price(incident: Incident) -> str:
    """Why there is no price: nothing is lost, it is not counted, or it is not this one's.

    "" if packets were lost in all, before its worst tick.
    """
    drops = [
        item.drops_per_s
        for item in incident.victims
        if not isinstance(item.drops_per_s, Missing) and item.drops_per_s > 0
    ]
    ended = incident.until_ns is not None
    if drops:
        return f"its victims drop{'ped' * ended} {si(sum(drops))}/s, not from this"
    if not isinstance(incident.dropped, Missing) and incident.dropped > 0:
        return ""
    price = incident.worst if ended else incident.price
    nothing = f"no packet {'was' if ended else 'is'} lost"
    if not isinstance(price.drops_per_s, Missing):
        return nothing
    if not incident.victims:
        return f"no network function is known to {'have been' if ended else 'be'} harmed"
    counted = [item for item in incident.victims if not isinstance(item.drops_per_s, Missing)]
    if incident.victims and len(counted) == len(incident.victims):
        return nothing
    return f"packets lost: {price.drops_per_s.message}"


def _graph(view: IncidentView, width: int) -> list[Line]:
    """The first victim's throughput, with its axis; empty without values."""
    trend = view.trend
    if trend is None:
        return []
    onset = trend.onset
    values = trend.values if onset is None else np.concatenate((onset.values, trend.values))
    known = values[np.isfinite(values)] / 1e6
    if len(known) < 2:
        return []
    low, top = float(known.min()), float(known.max())
    margin = max((top - low) * 0.1, top * 0.01, 1e-6)
    low, top = max(low - margin, 0.0), top + margin
    rows = line_rows(trend.values / 1e6, low, top, _GRAPH_ROWS)
    size = len(rows[0])
    if onset is not None:
        before = line_rows(onset.values / 1e6, low, top, _GRAPH_ROWS)
        size = len(before[0])
        rows = [f"{first}┊{rest}" for first, rest in zip(before, rows, strict=True)]
    zero = "" if low == 0 else "; axis not from 0"
    unit = "sent Mpps" if trend.sent else "received Mpps"
    name = Span(f" {fit(trend.name, min(cells(trend.name), 24))}", Tone.STRONG)
    harmed = TONES[view.incident.severity]
    head = line(name, Span(f", {unit}{zero}", Tone.MUTED))
    newest = f"{known[-1]:.3g}"
    blank = " " * max(1, 7 + len(rows[0]) - head.width - len(newest))
    now = Tone.PLAIN if view.incident.until_ns is not None else harmed
    marks = {0: f"{top:.3g}", _GRAPH_ROWS - 1: f"{low:.3g}"}
    lines = [crop(line(head, blank, Span(newest, now)), width)]
    first, after = _harmed_cells(view.incident, onset or trend, size)
    lines += [
        line(
            Span(f"{marks.get(row, ''):>6}│", Tone.MUTED),
            Span(text[:first], Tone.MUTED),
            Span(text[first:after], harmed),
            Span(text[after:], Tone.MUTED),
        )
        for row, text in enumerate(rows)
    ]
    if onset is None:
        bar, ends = _graph_axis(view.incident, trend, size)
    else:
        bar, ends = _graph_axis(view.incident, onset, size, in_clock=True)
        rest = _graph_axis(view.incident, trend, len(rows[0]) - size - 1)
        bar = line(bar, Span("┊", Tone.MUTED), rest[0])
        ends = line(ends, " ", rest[1])
    return [
        *lines,
        line(Span(f"{'└':>7}", Tone.MUTED), bar),
        crop(line(" " * 7, ends), len(rows[0]) + 7),
    ]


def _harmed_cells(incident: Incident, trend: VictimTrend, room: int) -> tuple[int, int]:
    """Cells of a graph from the begin of an incident to its end; to the last while it is open."""
    last_ns = trend.first_ns + round(trend.span_s * 1e9)
    axis = TimeAxis(trend.first_ns, last_ns, room)
    first = axis.cell(max(incident.since_ns, trend.first_ns))
    until_ns = incident.until_ns
    return first, 1 << 20 if until_ns is None or until_ns > last_ns else axis.cell(until_ns)


def _graph_axis(
    incident: Incident, trend: VictimTrend, room: int, *, in_clock: bool = False
) -> tuple[Line, Line]:
    """A time axis with the incident's begin and end, and its ends as text."""
    last_ns = trend.first_ns + round(trend.span_s * 1e9)
    axis = TimeAxis(trend.first_ns, last_ns, room)
    marks = Cells("─" * room, Tone.MUTED)
    begun, ended = incident.since_ns, None
    if incident.ended_ns is not None:
        ended = begun + incident.ended_ns - incident.began_ns
    if ended is not None and trend.first_ns <= ended <= last_ns:
        marks.put(axis.cell(ended), "◀", TONES[incident.severity])
    if trend.first_ns <= begun <= last_ns:
        marks.put(axis.cell(begun), "▶", TONES[incident.severity])
    begin, end = f"-{duration_text(trend.span_s)}", "now"
    if ended is not None or in_clock:
        begin, end = clock_of(trend.first_ns), clock_of(last_ns)
    scale = Cells(" " * room, Tone.MUTED)
    scale.put(0, begin, Tone.MUTED)
    if cells(begin) + cells(end) < room:
        scale.put(room - cells(end), end, Tone.MUTED)
    label, at = clock_of(begun), axis.cell(begun) - 4
    if trend.first_ns <= begun <= last_ns and scale.free(at - 1, cells(label) + 2, " "):
        scale.put(at, label, TONES[incident.severity])
    return marks.line(ascii_only=False), scale.line(ascii_only=False)


def _side_by_side(
    left: Sequence[Line], right: Sequence[Line], left_width: int, width: int
) -> list[Line]:
    """Two columns; the shorter one is filled with blanks."""
    count = max(len(left), len(right))
    lines = []
    for row in range(count):
        head = crop(left[row], left_width) if row < len(left) else BLANK
        tail = right[row] if row < len(right) else BLANK
        lines.append(crop(line(head, " " * (left_width - head.width), tail), width))
    return lines


def _evidence(view: IncidentView, width: int) -> Iterator[Line]:
    ended = view.incident.until_ns is not None
    yield _rule("WHY IT WAS BELIEVED" if ended else "WHY IT IS BELIEVED", width)
    for item in view.incident.chain:
        yield from _link(item, width - 1, "" if ended else item.current, view.frame.wall_ns)
    checks = view.incident.ruled_out
    if checks:
        marks = {
            True: Span(" ✔ ", Tone.GOOD),
            False: Span(" ▲ ", Tone.WARN),
            None: Span(" ? ", Tone.MUTED),
        }
        items = [line(marks[item.excluded], f"{item.name} {item.text}") for item in checks]
        yield from flow([line(Span(" also checked", Tone.MUTED)), *items], width - 1)


def _link(link: EvidenceLink, width: int, current: str, now_ns: int) -> Iterator[Line]:
    glyph, tone = _STEPS[link.step]
    lead = line(" ", Span(f"{clock_of(link.wall_ns)} ", Tone.MUTED), Span(glyph, tone), " ")
    room = width - lead.width
    valued_ns = link.valued_ns
    at = f" at {clock_of(valued_ns)}" if valued_ns and valued_ns != now_ns else ""
    label = f" {source_text(link)}{at}"
    whole = (link.text + current).replace(" -> ", " → ")
    short = _NAMES.sub("", whole)
    for text in (whole, short):
        if (gap := room - cells(text) - cells(label)) >= 0:
            yield crop(line(lead, text, " " * gap, Span(label, Tone.MUTED)), width)
            return
    yield from paragraph(f"{whole} [{label.strip()}]", width, lead=lead)


# At the end of a finding: the network functions that it is about.
_NAMES = re.compile(r" \([^()]*\)$")


def source_text(link: EvidenceLink) -> str:
    """What measured it: a source, or a metric by the name that its column has."""
    return _LABELS.get(link.source, link.source)


_LABELS = {metric.id: metric.label for metric in METRICS}


def _remedy(view: IncidentView, width: int) -> Iterator[Line]:
    remedy = view.remedy
    titles = {"draft": "A DRAFT THAT WOULD MEND IT", "command": "A COMMAND THAT WOULD MEND IT"}
    yield _rule(titles.get(remedy.kind, "WHAT CAN BE DONE"), width, "nothing is applied by itself")
    yield from paragraph(remedy.advice, width - 1, lead=line(" "))
    if remedy.mask is not None:
        yield from (
            crop(row, width)
            for row in draft_rows(
                view.frame.groups, remedy.mask, {item.party.group for item in view.incident.victims}
            )
        )
    if remedy.checks:
        marks = {True: Span(" ✔ ", Tone.GOOD), False: Span(" ▲ ", Tone.WARN)}
        yield from flow([line(marks[item.good], item.text) for item in remedy.checks], width)
    for text in remedy.commands:
        yield from paragraph(text, width, lead=line(Span(" $ ", Tone.ACCENT)), tone=Tone.STRONG)
    if remedy.sweep or view.swept:
        guess = f"its width is a guess: `{remedy.sweep}` finds it (T)"
        tone = Tone.STRONG if view.swept else Tone.MUTED
        yield from paragraph(view.swept or guess, width - 1, lead=line(" "), tone=tone)
    if remedy.unproven:
        yield from paragraph(
            f"not proven: {remedy.unproven}", width - 1, lead=line(" "), tone=Tone.MUTED
        )
