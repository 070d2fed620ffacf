"""Page of an experiment: the plan before it, then the curve as it grows, and the recommendation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from nftop.derive.experiment.curve import reference_of
from nftop.derive.experiment.engine import ExperimentState, drop_limit
from nftop.model.clock import NS_PER_S
from nftop.model.experiment import Curve, Estimate, Experiment, SettingResult
from nftop.model.rdt.rdt import class_name
from nftop.model.struct import dataclass, field
from nftop.render.base.format import duration_text
from nftop.render.base.graph import Scale, scale_of
from nftop.render.base.line import BLANK, Line, Span, Tone, crop, line, paragraph
from nftop.render.base.table import rule_line
from nftop.render.base.text import cells, fit, printable, truncate
from nftop.render.experiment.text import (
    WORST,
    count_text,
    cpp_text,
    effect_text,
    end_text,
    group_text,
    left_text,
    mpps_text,
    orders,
    plain_text,
    plan_text,
    recommended_text,
    tolerated_text,
)

GraphMetric: TypeAlias = Literal["packets", "cpp"]
# Lines of a graph, its title and axis included.
_LEAST_GRAPH, _ROOMY_GRAPH, _MOST_GRAPH = 7, 9, 15
# Two graphs are side by side from this width on.
_TWO_GRAPHS = 100
_LABEL = 7  # cells of an axis
_MIB, _GB = 2**20, 1e9
_DOTS = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_TITLES: Mapping[GraphMetric, str] = {"packets": "Mpps", "cpp": "CPP"}
_TONES = {
    "nothing": Tone.GOOD,
    "gains": Tone.GOOD,
    "costs": Tone.WARN,
    "drops": Tone.BAD,
    "undecided": Tone.MUTED,
    "unmeasured": Tone.MISSING,
}
_MARKS = {"nothing": "✔", "gains": "✔", "costs": "▲", "drops": "●"}
_MOST_NAME = 12


@dataclass(frozen=True, slots=True)
class CourseFacts:
    """What the page of a running or finished experiment shows.

    Attributes:
        curve: of the visits so far.
        outcome: of the revert, with its sentences; "" while it runs.
        chosen: number of the network function in the graphs, of `shown_order`.
        command: that sets the recommended mask; "" without one.
        badges: of a host that is not a real local one.
        ending: the guard restores.
        recorded: it is a recording's, up to the tick that is shown.
    """

    plan: Experiment
    state: ExperimentState
    curve: Curve
    outcome: str = ""
    sentences: tuple[str, ...] = ()
    chosen: int = 0
    command: str = ""
    badges: Sequence[Line] = field(default_factory=tuple)
    ending: bool = False
    recorded: bool = False


def plan_lines(
    plan: Experiment,
    ways: Mapping[str, int],
    width: int,
    badges: Sequence[Line] = (),
    *,
    obstacle: str = "",
    note: str = "",
) -> tuple[list[Line], int]:
    """What will be done, and the number of lines up to the last mask.

    `ways`: of the caches, by line of schemata. `obstacle`: why it can't start; "" if it can.
    `note`: on the host that it runs on.
    """
    start = (": ", Span("y", Tone.ACCENT), " starts it") if not obstacle else ()
    title = Span("Experiment: what will be done", Tone.STRONG)
    head = [crop(line(*_badged(badges), title, *start), width)]
    head += paragraph(obstacle, width, tone=Tone.WARN) if obstacle else []
    head += paragraph(note, width, tone=Tone.ACCENT) if note else []
    texts = plan_text(plan, ways, width)
    lines = []
    masks = 0
    for at, text in enumerate(texts):
        if text.startswith("  "):
            masks = at + 1
        label, colon, rest = text.partition(":")
        if colon and not text.startswith(" ") and label in _LABELS:
            lines.append(line(Span(label + colon, Tone.MUTED), rest))
        else:
            lines.append(line(Span(text, Tone.STRONG if at == 0 else Tone.PLAIN)))
    return [*head, *lines], len(head) + masks


_LABELS = (
    "masks that will be written",
    "order",
    "duration",
    "ends at once and restores",
    "also restores",
)


def course_lines(facts: CourseFacts, width: int, height: int) -> list[Line]:
    """The experiment as it runs, or its result: state, order, graphs, table, recommendation."""
    head, table, end = _head(facts, width), _table(facts, width), _end(facts, width)
    room = height - len(head) - len(table) - len(end)
    # Blank lines only where the graphs are high enough.
    gap = [BLANK] * (room >= _ROOMY_GRAPH + 3)
    room = max(_LEAST_GRAPH, min(room - 3 * len(gap), _MOST_GRAPH))
    return [*head, *gap, *_graphs(facts, width, room), *gap, *table, *gap, *end]


def shown_order(plan: Experiment, curve: Curve) -> list[str]:
    """Keys of the watched network functions, those with the worst effects first."""
    ranks = {
        key: max([WORST.index(item.nfs[key].effect) for item in curve.results], default=0)
        for key in plan.watch
    }
    return sorted(plan.watch, key=lambda key: -ranks[key])


def _badged(badges: Sequence[Line]) -> list[Line | str]:
    return [item for badge in badges for item in (badge, " ")]


def _head(facts: CourseFacts, width: int) -> list[Line]:
    plan, state = facts.plan, facts.state
    ways = [setting.ways for setting in plan.settings]
    watched = ", ".join(printable(name) for name in plan.watch.values())
    title = line(
        *_badged(facts.badges),
        Span("EXPERIMENT", Tone.STRONG),
        f"  sweep of {group_text(plan)}, {ways[0]}-{ways[-1]} ways, watching {watched}",
    )
    lines = [crop(title, width), *_state_lines(facts, width)]
    if state.visits and not facts.outcome and not facts.recorded:
        text = (
            f"ends it: more than {count_text(drop_limit(plan, state.visits[0]))} drops/s, "
            f"CPP above {plan.limits.cpp_ratio:+.0%}; "
        )
        lines.append(
            crop(line(Span(text, Tone.MUTED), Span("Esc", Tone.ACCENT), " ends it now"), width)
        )
    return lines


def _state_lines(facts: CourseFacts, width: int) -> list[Line]:
    plan, state = facts.plan, facts.state
    if facts.outcome:
        spent = duration_text(
            (state.visits[-1].end_ns - state.visits[0].written_ns) / NS_PER_S
            if state.visits
            else 0.0
        )
        good = facts.outcome == "reverted"
        restored = "restored, read back" if good else f"{facts.outcome}: not known to be restored"
        visits = sum(bool(visit.round) for visit in state.visits)
        return [
            crop(
                line(
                    Span(f"{end_text(state)}", Tone.STRONG),
                    f"  {visits} visits, {spent}  ",
                    Span(f"{'✔' if good else '●'} {restored}", Tone.GOOD if good else Tone.BAD),
                ),
                width,
            )
        ]
    if facts.recorded:
        text = f"recorded: {len(state.visits)} visits so far, round {state.round}"
        return [line(Span(text, Tone.STRONG))]
    if facts.ending:
        return [line(Span("ending: the guard restores the masks of before", Tone.WARN))]
    if state.phase == "baseline":
        what = f"baseline: measuring before the first mask is written, {_spent(state)}"
    else:
        label = plan.settings[state.setting].label
        what = f"round {state.round}  {label}  {state.phase}  {_spent(state)}"
    left = left_text(state, plan)
    return [
        crop(line(Span(what, Tone.STRONG), f"  {left}" if left else ""), width),
        crop(_order_line(facts), width),
    ]


def _spent(state: ExperimentState) -> str:
    if not state.samples:
        return ""
    return duration_text((state.samples[-1].at_ns - state.since_ns) / NS_PER_S)


def _order_line(facts: CourseFacts) -> Line:
    """The order of this round: what is done, what is next."""
    plan, state = facts.plan, facts.state
    if state.round:
        done = [visit.setting for visit in state.visits if visit.round == state.round]
        widths = [str(plan.settings[at].ways) for at in done]
        spans = [Span(f"{' '.join(widths)} " if widths else "", Tone.MUTED)]
        if len(done) < len(done) + 1 and state.phase != "ended":
            spans.append(Span(str(plan.settings[state.setting].ways), Tone.ACCENT))
        queue = " ".join(str(plan.settings[at].ways) for at in state.queue)
        spans.append(Span(f" {queue}" if queue else "", Tone.PLAIN))
        later = orders(plan)[state.round :]
    else:
        spans, later = [Span("", Tone.PLAIN)], orders(plan)
    rest = "".join(f" │ {' '.join(order)}" for order in later)
    return line(Span("order  ", Tone.MUTED), *spans, Span(rest, Tone.MUTED))


class _CurvePoint(NamedTuple):
    """A setting in a graph: its place on the axis, and its estimate in the graph's unit."""

    at: int
    estimate: Estimate
    tone: Tone


def _graphs(facts: CourseFacts, width: int, height: int) -> list[Line]:
    """Packets per second and cycles per packet of one network function; one of them if narrow."""
    keys = shown_order(facts.plan, facts.curve)
    metrics: tuple[GraphMetric, ...] = ("packets", "cpp")
    if width >= _TWO_GRAPHS:
        key = keys[facts.chosen % len(keys)]
        half = width // 2
        left, right = (_graph(facts, key, metric, half - 1, height) for metric in metrics)
        return [
            line(one, " " * (half - one.width), other)
            for one, other in zip(left, right, strict=True)
        ]
    at = facts.chosen % (len(keys) * len(metrics))
    # Cycles first: packets are those offered while nothing is lost.
    return _graph(facts, keys[at // 2], metrics[(at + 1) % 2], width, height)


def _graph(
    facts: CourseFacts, key: str, metric: GraphMetric, width: int, height: int
) -> list[Line]:
    plan, curve = facts.plan, facts.curve
    name = truncate(plan.watch[key], _MOST_NAME)
    points = [
        _CurvePoint(item.setting, estimate, _TONES[item.nfs[key].effect])
        for item in curve.results
        if math.isfinite((estimate := _estimate(item, key, metric)).value)
    ]
    ends = [
        value
        for point in points
        for half in (0.0 if math.isnan(point.estimate.half) else point.estimate.half,)
        for value in (point.estimate.value - half, point.estimate.value + half)
    ]
    scale = scale_of(np.array(ends or [np.nan]))
    note = "95% intervals" if any(math.isfinite(p.estimate.half) for p in points) else ""
    bound = metric == "cpp" and any(item.nfs[key].cpp_is_bound for item in curve.results)
    notes = ("< may include empty polls" * bound, note, scale.note())
    title = rule_line(f"{name}, {_TITLES[metric]}", "  ".join(filter(None, notes)), width)
    columns, rows = width - _LABEL - 1, height - 3
    body = _plot(points, scale, len(plan.settings), (columns, rows), curve.recommended)
    axis = line(" " * _LABEL, Span("└" + "─" * columns, Tone.FAINT))
    marks = _axis_labels(plan, columns)
    return [crop(item, width) for item in (title, *body, axis, marks)]


def _estimate(item: SettingResult, key: str, metric: GraphMetric) -> Estimate:
    nf = item.nfs[key]
    if metric == "cpp":
        return nf.cpp
    return Estimate(nf.packets_per_s.value / 1e6, nf.packets_per_s.half / 1e6)


def _column(at: int, count: int, columns: int) -> int:
    """Column of dots of a setting."""
    return min(int((at + 0.5) / count * columns * 2), columns * 2 - 1)


class _Canvas:
    """Braille cells (rows, columns) on a scale, and the tones of cells with a point or interval."""

    def __init__(self, scale: Scale, size: tuple[int, int]) -> None:
        self._scale = scale
        columns, rows = size
        self.dots = np.zeros((rows, columns), np.int64)
        self.tones: dict[tuple[int, int], Tone] = {}
        self._most = rows * 4 - 1

    def level(self, value: float) -> int:
        """Row of dots of a value, from the top."""
        scale = self._scale
        share = (value - scale.low) / max(scale.high - scale.low, 1e-12)
        return self._most - max(0, min(self._most, round(share * self._most)))

    def put(self, x: int, y: int, tone: Tone | None = None) -> None:
        if 0 <= y <= self._most:
            self.dots[y // 4, x // 2] |= _DOTS[x % 2][y % 4]
            if tone is not None:
                self.tones[y // 4, x // 2] = tone

    def line(self, one: tuple[int, float], other: tuple[int, float]) -> None:
        """A thin line between two points."""
        (first, begin), (last, end) = one, other
        for x in range(first, last + 1, 2):
            self.put(x, self.level(begin + (x - first) / max(last - first, 1) * (end - begin)))

    def point(self, x: int, estimate: Estimate, tone: Tone) -> None:
        """A point with its interval."""
        half = 0.0 if math.isnan(estimate.half) else estimate.half
        value = estimate.value
        for y in range(self.level(value + half), self.level(value - half) + 1):
            self.put(x, y, tone)
        for dx, dy in ((0, 0), (0, 1), (1, 0), (1, 1)):
            self.put(x - x % 2 + dx, self.level(value) + dy, tone)


def _plot(
    points: Sequence[_CurvePoint],
    scale: Scale,
    count: int,
    size: tuple[int, int],
    recommended: int | None,
) -> list[Line]:
    """Points with their intervals, joined by a thin line; the recommended setting is marked."""
    columns, rows = size
    canvas, ordered = _Canvas(scale, size), sorted(points)
    spots = [_column(item.at, count, columns) for item in ordered]
    for at in range(1, len(ordered)):
        canvas.line(*((spots[item], ordered[item].estimate.value) for item in (at - 1, at)))
    for x, item in zip(spots, ordered, strict=True):
        canvas.point(x, item.estimate, item.tone)
    marked = None if recommended is None else _column(recommended, count, columns) // 2
    labels = {0: scale.high, rows - 1: scale.low}
    lines = []
    for row in range(rows):
        spans = [
            Span(
                fit(f"{labels[row]:.4g}" if row in labels else "", _LABEL - 1, right=True) + " ",
                Tone.MUTED,
            ),
            Span("┤" if row in labels else "│", Tone.FAINT),
        ]
        for column in range(columns):
            bits = int(canvas.dots[row, column])
            if bits:
                spans.append(Span(chr(0x2800 + bits), canvas.tones.get((row, column), Tone.AREA)))
            elif column == marked:
                spans.append(Span("┊", Tone.GOOD))
            else:
                spans.append(Span(" ", Tone.PLAIN))
        lines.append(line(*spans))
    return lines


def _axis_labels(plan: Experiment, columns: int) -> Line:
    """Numbers of ways below the axis; those that would touch the one before are left out."""
    text, title = "", "ways"
    for at, setting in enumerate(plan.settings):
        label = str(setting.ways)
        begin = _column(at, len(plan.settings), columns) // 2
        if begin > len(text) or not text:
            text = text.ljust(begin) + label
    room = columns - len(text) - len(title) - 1
    return line(
        " " * (_LABEL + 1),
        Span(text, Tone.MUTED),
        Span(f" {title}" if room >= 0 else "", Tone.MUTED),
    )


class _PageColumn(NamedTuple):
    """A column of the table: its heading and cells; lower ranks stay longer."""

    head: str
    texts: Sequence[str]
    rank: int


def _table(facts: CourseFacts, width: int) -> list[Line]:
    """A row for each setting; columns that do not fit are left out, the effect never."""
    plan, curve = facts.plan, facts.curve
    results: dict[int, SettingResult] = {item.setting: item for item in curve.results}
    rows = range(len(plan.settings))
    columns = _columns(facts, results)
    effects = [_effect(facts, results.get(at), at) for at in rows]
    needed = max([cells(text) for text, _ in effects] + [len("EFFECT")])
    room = width - 2 - min(needed, max(width // 3, 24)) - 1
    shown = set[int]()
    for at in sorted(range(len(columns)), key=lambda item: columns[item].rank):
        column = columns[at]
        wide = max(map(cells, (column.head, *column.texts))) + 2
        if wide > room:
            break
        room -= wide
        shown.add(at)
    kept = [column for at, column in enumerate(columns) if at in shown]
    widths = [max(map(cells, (column.head, *column.texts))) for column in kept]
    head = "".join(
        f"  {fit(column.head, size, right=True)}" for column, size in zip(kept, widths, strict=True)
    )
    lines = [
        crop(line(Span(fit(f"  {head}  EFFECT", width), Tone.HEADER), fill=Tone.HEADER), width)
    ]
    for at in rows:
        cells_ = "".join(
            f"  {fit(column.texts[at], size, right=True)}"
            for column, size in zip(kept, widths, strict=True)
        )
        chosen = at == curve.recommended
        text, tone = effects[at]
        lines.append(
            crop(
                line(
                    Span("▸ " if chosen else "  ", Tone.GOOD),
                    Span(cells_, Tone.STRONG if chosen else Tone.PLAIN),
                    "  ",
                    Span(text, tone),
                ),
                width,
            )
        )
    return lines


def _columns(facts: CourseFacts, results: Mapping[int, SettingResult]) -> list[_PageColumn]:
    plan = facts.plan
    rows = [results.get(at) for at in range(len(plan.settings))]
    keys = shown_order(plan, facts.curve)
    first = keys[facts.chosen % len(keys)]
    keys = [first, *(key for key in keys if key != first)]

    def of(text: object) -> list[str]:
        return [text(item) if item is not None else "" for item in rows]  # type: ignore[operator]

    columns = [
        _PageColumn(
            "WAYS",
            [
                str(s.ways) + "~" * bool(r is not None and r.moving)
                for s, r in zip(plan.settings, rows, strict=True)
            ],
            0,
        ),
        _PageColumn("MASK", ["/".join(map(plan.hex, s.masks.values())) for s in plan.settings], 1),
    ]
    name = class_name(plan.group)
    for rank, key in enumerate(keys):
        label = truncate(plan.watch[key], _MOST_NAME)
        columns.append(
            _PageColumn(
                f"{label} Mpps",
                of(lambda r, key=key: mpps_text(r.nfs[key].packets_per_s.value)),
                2 if not rank else 8 + rank,
            )
        )
        if not rank:
            columns += [
                _PageColumn("±", of(lambda r: mpps_text(r.nfs[keys[0]].packets_per_s.half)), 6),
                _PageColumn("CPP", of(lambda r: cpp_text(r.nfs[keys[0]])), 3),
                _PageColumn(
                    "MISS/pkt", of(lambda r: plain_text(r.nfs[keys[0]].llc_misses_per_packet, 2)), 5
                ),
            ]
    columns.append(_PageColumn("DROP/s", of(_drops), 4))
    if plan.of_io:
        hits = of(lambda r: plain_text(r.io_hit_ratio * 100, 1))
        return [*columns, _PageColumn("I/O hit %", hits, 1)]
    columns += [
        _PageColumn(
            f"{truncate(name, _MOST_NAME)} MiB",
            of(lambda r: plain_text(r.occupancy_bytes / _MIB, 1)),
            7,
        ),
        _PageColumn("GB/s", of(lambda r: plain_text(r.memory_bytes_per_s / _GB, 1)), 20),
        _PageColumn("IPC", of(lambda r: plain_text(r.ipc, 2)), 21),
    ]
    return columns


def _drops(item: SettingResult) -> str:
    """Drops of all watched together; `~` where one does not count them."""
    values = [nf.drop_packets_per_s for nf in item.nfs.values()]
    known = [value for value in values if math.isfinite(value)]
    text = count_text(sum(known) if known else math.nan)
    return text + "~" * (0 < len(known) < len(values))


def _effect(facts: CourseFacts, item: SettingResult | None, at: int) -> tuple[str, Tone]:
    plan = facts.plan
    if item is None:
        return "", Tone.MUTED
    if at == facts.curve.recommended:
        return "✔ recommended" if facts.outcome else "✔ best so far", Tone.GOOD
    mark = _MARKS.get(item.effect, " ")
    reference = all(reference_of(plan, key, range(len(plan.settings))) == at for key in plan.watch)
    text = "reference" if reference else effect_text(plan, item)
    return f"{mark} {text}", _TONES[item.effect]


def _end(facts: CourseFacts, width: int) -> list[Line]:
    """The recommendation, and the command that does it; else what is still open."""
    plan, curve, state = facts.plan, facts.curve, facts.state
    lines = []
    bad = facts.outcome not in ("", "reverted")
    for text in facts.sentences if bad else ():
        lines += paragraph(printable(text), width, tone=Tone.BAD)
    if not facts.outcome:
        least = "after two rounds it ends as soon as the answer is clear"
        return [line(Span(least, Tone.MUTED))] if state.round <= plan.rounds_least else []
    if curve.recommended is None:
        measured = state.ended in ("clear", "rounds")
        text = (
            "no mask is recommended: none is known to cost nothing"
            if measured
            else "no mask is recommended: it ended early"
        )
        return [*lines, line(Span(text, Tone.WARN))]
    text = recommended_text(plan, curve.recommended)
    lines += paragraph(text, width, lead=line(Span("▸ ", Tone.GOOD)), tone=Tone.STRONG)
    if curve.tolerated is not None and curve.tolerated != curve.recommended:
        within = f"within {plan.tolerance_ratio:.1%}: {tolerated_text(plan, curve.tolerated)}"
        lines += paragraph(within, width, lead=line("  "))
    if facts.command:
        lines += paragraph(
            facts.command, width, lead=line(Span("$ ", Tone.MUTED)), tone=Tone.STRONG
        )
    return lines
