"""Order by harm: what loses packets, waits, or costs more than usual comes first.

Rows compare with what is usual for them (`Frame.usual`), without a baseline that the operator kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from functools import cache, partial
from itertools import groupby
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nftop.model.column import Floats
from nftop.model.frame import CpuTable, Frame, NfRow
from nftop.model.ids import Cpu
from nftop.model.incident import Incident, Severity
from nftop.model.metrics.cpu import WAIT_RATIO_MOST
from nftop.model.missing import Missing, Reading, Reason, number_or
from nftop.model.owner import rank
from nftop.model.struct import dataclass, field
from nftop.model.usual import NEAR, USUAL_METRICS, UsualTable
from nftop.render.base.bars import METRICS as BAR_METRICS
from nftop.render.base.graph import trend_texts
from nftop.render.base.line import Span, Tone
from nftop.render.base.table import LastResults
from nftop.render.cache.way_cells import ClassStyle, styles_of
from nftop.render.incidents.line import container_text

# Rows with this much harm or more are sick; changes up to `NEAR` of what is usual are not.
SICK = 0.5
_LOSS, _WAIT = 4.0, 1.0
_BEHIND = 0.05  # less than a step
_BLOCK = 64  # rows whose graphs are made at once
_UNKNOWN = Missing(Reason.WARMING)
_LAST = 1 << 20  # behind all CPUs


@dataclass(frozen=True, slots=True)
class TrendColumns:
    """Trends of n rows.

    Attributes:
        past: gives float32 (n, 2 x cells), oldest first, NaN for gaps; called for graphs alone.
        usual: (n,), NaN where it is unknown.
        change: (n,), of the newest value against the usual one; NaN where it is unknown.
        comparable: (n,), rows whose change is good or bad; others have a graph without a tone.
        costs: more is worse.
    """

    past: Callable[[], NDArray[np.float32]]
    usual: Floats
    change: Floats
    comparable: NDArray[np.bool_]
    costs: bool

    def graphs(self, past: NDArray[np.float32], rows: slice) -> tuple[list[str], list[list[bool]]]:
        """Text of some rows' graphs, and for each of its cells whether it is worse than usual.

        `past`: of all rows. The scale is the change against the usual value of the row.
        """
        values, usual = past[rows], self.usual[rows, None]
        change = values / usual - 1
        hot = (change if self.costs else -change) > NEAR
        hot = (hot[:, 0::2] | hot[:, 1::2]) & self.comparable[rows, None]
        # Without a usual value there is a graph on its base.
        deviation = np.where(np.isfinite(values) & np.isnan(usual), 0.0, change)
        return trend_texts(deviation, costs=self.costs), hot.tolist()


class TrendTable:
    """Trends by key of the row; those of other keys are unknown.

    Graphs are made when they are read: few of many rows are in view.
    """

    __slots__ = ("_columns", "_graphs", "_losing", "_past", "_row_of")

    def __init__(
        self, row_of: Mapping[Any, int], columns: TrendColumns, losing: Set[Any] = frozenset()
    ) -> None:
        """`row_of`: row of `columns` by key; of `losing` what is worse is bad."""
        self._row_of = row_of
        self._columns, self._losing = columns, losing
        self._past: NDArray[np.float32] | None = None
        self._graphs: dict[int, tuple[list[str], list[list[bool]]]] = {}  # by block of rows

    def change(self, key: Any) -> Reading:
        """Change of the newest value against the usual one, or why it is unknown."""
        row = self._row_of.get(key)
        return _UNKNOWN if row is None else _reading(self._columns.change.item(row))

    def usual(self, key: Any) -> Reading:
        """Usual value, as `Frame.usual` has it."""
        row = self._row_of.get(key)
        return _UNKNOWN if row is None else _reading(self._columns.usual.item(row))

    def spans(self, key: Any) -> tuple[Span, ...]:
        """A braille line, on the scale of `graph.trend_texts`."""
        row = self._row_of.get(key)
        if row is None:
            return ()
        block, at = divmod(row, _BLOCK)
        if block not in self._graphs:
            if self._past is None:
                self._past = self._columns.past()
            rows = slice(block * _BLOCK, (block + 1) * _BLOCK)
            self._graphs[block] = self._columns.graphs(self._past, rows)
        texts, is_hot = self._graphs[block]
        return _runs(texts[at], is_hot[at], Tone.BAD if key in self._losing else Tone.WARN)


_NONE = np.zeros((0, 0), np.float32)
NO_ROWS = TrendTable(
    {}, TrendColumns(lambda: _NONE, np.zeros(0), np.zeros(0), np.zeros(0, np.bool_), costs=True)
)


@dataclass(frozen=True, slots=True)
class RowTrends:
    """Histories of network functions by `NfRow.key`, and of CPUs.

    Attributes:
        rates: packets, in a number of cells.
        nf_costs, cpus: costs.
        cpu_change: float64 (n,), `TrendTable.change` of each row of `Frame.cpus`, NaN where it is
            unknown; None: of none.
    """

    rates: Callable[[int], TrendTable] = lambda _cells: NO_ROWS
    nf_costs: TrendTable = NO_ROWS
    cpus: TrendTable = NO_ROWS
    cpu_change: Floats | None = None


@dataclass(frozen=True, slots=True)
class RowFacts:
    """What rows of CPUs have beside the frame's columns.

    Attributes:
        harm: float64 (n,), see `cpu_harm`; None: not known.
        culprits: CPUs of culprits.
        losing: CPUs of network functions that drop packets.
        styles: hue and letter of each class, by its group.
        merged: by the first CPU of a culprit that is no poller, all of its CPUs: they are one row.
        names: of culprits that are no network function, by CPU: container, else process.
        before: values of victims' CPUs before their incident.
    """

    trends: RowTrends = field(default_factory=RowTrends)
    harm: Floats | None = None
    culprits: frozenset[Cpu] = frozenset()
    losing: frozenset[Cpu] = frozenset()
    merged: Mapping[Cpu, tuple[Cpu, ...]] = field(default_factory=dict)
    styles: Mapping[str, ClassStyle] = field(default_factory=dict)
    names: Mapping[Cpu, str] = field(default_factory=dict)
    before: BeforeValues = field(default_factory=dict)


# Values of each CPU by metric; only those that are known.
BeforeValues: TypeAlias = Mapping[Cpu, Mapping[str, float]]
BEFORE_METRICS = ("ipc", "llc_misses_per_packet", *BAR_METRICS)
_BEFORE_S = 60.0


def row_facts(frame: Frame, trends: RowTrends, before: BeforeValues) -> RowFacts:
    """Facts of all rows of a frame."""
    styles = styles_of(frame.groups)
    harm = cpu_harm(frame, trends)
    names = culprit_names(frame)
    losing = _losses(frame).cpus
    return RowFacts(
        trends, harm, culprits(frame), losing, styles=styles, names=names, before=before
    )


def culprit_names(frame: Frame, past: Sequence[Incident] = ()) -> dict[Cpu, str]:
    """`RowFacts.names` of a frame; with culprits of incidents that are over."""
    cpus = frame.cpus
    row_of = cpus.topology.row_of
    names: dict[Cpu, str] = {}
    for item in (*frame.incidents, *past):
        party = item.culprit
        if party is None or party.kind != "process" or item.severity is Severity.INFO:
            continue
        for cpu in party.cpus:
            if cpu in row_of and cpus.nf[row_of[cpu]] is None:
                names.setdefault(cpu, container_text(party) or party.name)
    return names


def values_before(
    cpus: Sequence[Cpu], past: Callable[[str, Sequence[Cpu], float], NDArray[np.float32]]
) -> dict[Cpu, dict[str, float]]:
    """Medians of the minute before an incident.

    `past`: by metric, CPUs and seconds; float32 (n,), NaN where it is unknown.
    """
    columns = {name: past(name, cpus, _BEFORE_S).tolist() for name in BEFORE_METRICS}
    return {
        cpu: {name: values[at] for name, values in columns.items() if np.isfinite(values[at])}
        for at, cpu in enumerate(cpus)
    }


def merged_culprits(frame: Frame) -> dict[Cpu, tuple[Cpu, ...]]:
    """`RowFacts.merged` of a frame."""
    cpus = frame.cpus
    result = {}
    for item in frame.incidents:
        if item.culprit is None or item.severity is Severity.INFO:
            continue
        rows = [cpus.topology.row_of.get(cpu) for cpu in item.culprit.cpus]
        if len(rows) > 1 and all(row is not None and cpus.nf[row] is None for row in rows):
            own = tuple(sorted(item.culprit.cpus))
            result[own[0]] = own
    return result


# History of one metric of several rows: metric, keys, points, seconds; float32 (keys, points).
RowPast: TypeAlias = Callable[[str, Sequence[Any], int, float], NDArray[np.float32]]

CPU_CELLS, NF_CELLS, FEW_CELLS = 8, 18, 10
CPU_SPAN_S, NF_SPAN_S = 300.0, 600.0


def trends_of(frame: Frame, cpu_past: RowPast, nf_past: RowPast) -> RowTrends:
    """Histories of all pollers and network functions up to this frame.

    Cost is that of work (bCPP) where the NF separates empty polls. Elsewhere it is CPP, which
    follows the load: it is compared only if the core has no time left, or while the load is near
    its usual one.
    """
    cpus, columns = frame.cpus, frame.cpus.columns
    pollers = pollers_of(cpus)
    rows = pollers.rows
    now = {name: columns[name].values[rows] for name in _COSTS}
    # What NICs drop shows full cores; lost upcalls do not.
    missing = [number_or(nf.readings["missed_packets_per_s"], 0.0) > 0 for nf in frame.nfs]
    lossy = {
        cpu for nf, misses in zip(frame.nfs, missing, strict=True) if misses for cpu in nf.cpus
    }
    # Of an NF that drops, only cores with time left are known not to be full.
    of_lossy = np.zeros(len(cpus), np.bool_)
    of_lossy[_rows(lossy, cpus.topology.row_of)] = True
    full = pollers.full | (pollers.unsure & of_lossy[rows])
    past = RowCosts(pollers.cpus, now, full)
    of_cpus = _cost_trends(cpu_past, past, (CPU_CELLS, CPU_SPAN_S), frame.usual.cpus)
    keys = tuple(nf.key for nf in frame.nfs)
    row_of = {key: row for row, key in enumerate(keys)}
    packets = [nf.readings[f"{nf.direction}_packets_per_s"] for nf in frame.nfs]
    readings = {
        name: np.array([number_or(nf.readings[name], np.nan) for nf in frame.nfs])
        for name in _COSTS[:2]
    }
    readings[_COSTS[2]] = np.array([number_or(item, np.nan) for item in packets])
    whole = np.array(
        [
            nf.saturated is True or (misses and nf.saturated is None)
            for nf, misses in zip(frame.nfs, missing, strict=True)
        ],
        np.bool_,
    )
    past = RowCosts(keys, readings, whole)
    of_nfs = _cost_trends(nf_past, past, (NF_CELLS, NF_SPAN_S), frame.usual.nfs)
    change = np.full(len(cpus), np.nan)
    change[rows] = of_cpus.change
    losses = _losses(frame)
    return RowTrends(
        cache(partial(_rate_trends, frame, nf_past)),
        TrendTable(row_of, of_nfs, losses.by_key.keys()),
        TrendTable(pollers.row_of, of_cpus, losses.cpus),
        change,
    )


@dataclass(frozen=True, slots=True)
class Pollers:
    """Rows of the CPUs that a network function polls, and these CPUs.

    `row_of`: index by CPU. `full`, `unsure`: bool (rows,), where the table says that it is
    saturated, and where it does not know.
    """

    rows: NDArray[np.intp]
    cpus: tuple[Cpu, ...]
    row_of: Mapping[Cpu, int]
    full: NDArray[np.bool_]
    unsure: NDArray[np.bool_]


def _pollers(cpus: CpuTable) -> Pollers:
    rows = [row for row, nf in enumerate(cpus.nf) if nf is not None]
    polled = tuple(cpus.topology.cpus[row].cpu for row in rows)
    return Pollers(
        np.array(rows, np.intp),
        polled,
        {cpu: at for at, cpu in enumerate(polled)},
        np.array([cpus.saturated[row] is True for row in rows], np.bool_),
        np.array([cpus.saturated[row] is None for row in rows], np.bool_),
    )


# Pollers of a table; what they depend on seldom changes from one table to the next.
pollers_of = LastResults(_pollers, lambda cpus: (cpus.topology, cpus.nf, cpus.saturated))


def _rate_trends(frame: Frame, past: RowPast, cells: int) -> TrendTable:
    """Packets of network functions in so many cells: of ten minutes, in few cells of five."""
    keys, losing = tuple(nf.key for nf in frame.nfs), _losses(frame).by_key.keys()
    span_s = NF_SPAN_S if cells > FEW_CELLS else CPU_SPAN_S
    rates = past("packets_per_s", keys, 2 * cells, span_s)
    usual = frame.usual.nfs.of("packets_per_s", keys)
    comparable = np.array([key in losing for key in keys], np.bool_)
    unknown = np.full(len(keys), np.nan)  # only the graph of a rate is shown, not its change
    columns = trend_columns(lambda: rates, usual, unknown, comparable=comparable, costs=False)
    return TrendTable({key: at for at, key in enumerate(keys)}, columns, losing)


@dataclass(frozen=True, slots=True)
class _Losses:
    """Packets lost per second by `NfRow.key`, only of those that lose any, and their CPUs."""

    by_key: Mapping[str, float]
    cpus: frozenset[Cpu]


def _losses_of(frame: Frame) -> _Losses:
    losing = [(nf, drops) for nf in frame.nfs if (drops := drops_of(nf))]
    return _Losses(
        {nf.key: drops for nf, drops in losing},
        frozenset(cpu for nf, _ in losing for cpu in nf.cpus),
    )


_losses = LastResults(_losses_of)


_COSTS = USUAL_METRICS


class RowCosts(NamedTuple):
    """Keys of rows, their costs and packets now, and which rows have no time left."""

    keys: Sequence[Any]
    now: Mapping[str, Floats]
    full: NDArray[np.bool_]


def _cost_trends(
    past: RowPast, costs: RowCosts, size: tuple[int, float], usual: UsualTable
) -> TrendColumns:
    """Trends of costs; `size`: cells, and their seconds."""
    (keys, now, full), (cells, span_s) = costs, size
    of_cpp, of_work, of_packets = usual.all_of(keys)  # of USUAL_METRICS
    pure = np.isfinite(now["busy_cpp"])
    moved = np.abs(now["packets_per_s"] / of_packets - 1)
    comparable = pure | full | (moved <= NEAR)

    def history(metric: str) -> NDArray[np.float32]:
        return past(metric, keys, 2 * cells, span_s)

    def values() -> NDArray[np.float32]:
        # On most hosts all pollers or none separate empty polls.
        if pure.all():
            return history("busy_cpp")
        cpp = history("cpp")
        return np.where(pure[:, None], history("busy_cpp"), cpp) if pure.any() else cpp

    newest = np.where(pure, now["busy_cpp"], now["cpp"])
    base = np.where(pure, of_work, of_cpp)
    return trend_columns(values, base, newest, comparable=comparable, costs=True)


def trend_columns(
    past: Callable[[], NDArray[np.float32]],
    usual: Floats,
    newest: Floats,
    *,
    comparable: NDArray[np.bool_],
    costs: bool,
) -> TrendColumns:
    """Trends of rows: as `TrendColumns`; `newest` is compared with the usual value."""
    usual = np.where(usual > 0, usual, np.nan)  # of 0 there is no change
    change = np.where(comparable, newest / usual - 1, np.nan)
    return TrendColumns(past, usual, change, comparable, costs)


def _reading(value: float) -> Reading:
    return _UNKNOWN if math.isnan(value) else value


def _runs(text: str, hot: list[bool], tone: Tone) -> tuple[Span, ...]:
    if text and True not in hot:
        return (Span(text, Tone.MUTED),)
    spans = []
    at = 0
    for is_hot, group in groupby(hot):
        size = len(list(group))
        spans.append(Span(text[at : at + size], tone if is_hot else Tone.MUTED))
        at += size
    return tuple(spans)


def rate_cell(trends: RowTrends, nf: NfRow, cells: int) -> tuple[Span, ...]:
    """History of the packets of a network function in `cells` cells, and a blank."""
    spans = trends.rates(cells).spans(nf.key) or (Span(" " * cells, Tone.PLAIN),)
    return (*spans, Span(" ", Tone.PLAIN))


def change_tone(change: Reading, *, costs: bool, loses: bool = False) -> Tone:
    """Tone of a change: bad where packets are lost, warn beyond what is near, else muted."""
    if isinstance(change, Missing):
        return Tone.MISSING
    worse = change if costs else -change
    if worse <= NEAR:
        return Tone.MUTED
    return Tone.BAD if loses else Tone.WARN


def drops_of(nf: NfRow) -> float:
    """Packets that it loses per second; 0 if unknown."""
    return max(number_or(nf.readings["drop_packets_per_s"], 0.0), 0.0)


def harm_of(
    drops_per_s: float,
    *,
    gone: bool = False,
    change: Reading = _UNKNOWN,
    waits: bool = False,
    worst: Severity | None = None,
) -> float:
    """How much is wrong with a network function.

    Args:
        drops_per_s: packets that it loses.
        gone: its counters are not current.
        change: of its cost against the usual one.
        waits: one of its threads waits too long for its CPU.
        worst: of the incidents that it is a victim of.
    """
    score = 0.0
    if drops_per_s:
        score += _LOSS + min(math.log10(drops_per_s + 1) / 10, 0.9)
    score += _WAIT * (gone + waits) + _excess(change)
    return score if worst is None else score + _of(worst)


def _ranked_nfs(frame: Frame, trends: RowTrends) -> list[tuple[NfRow, float]]:
    """Network functions with their harm, the worst first; unprivileged users' come last.

    Equal ones are in the order of their first CPU.

    From `SICK` on one is sick.
    """
    infos, waits = frame.cpus.topology.cpus, frame.cpus.columns["wait_ratio"].values
    waiting = {infos[row].cpu for row in np.flatnonzero(waits > WAIT_RATIO_MOST).tolist()}
    worst: dict[str, Severity] = {}
    for item in frame.incidents:
        for victim in item.victims:
            key = victim.party.key
            worst[key] = max(worst.get(key, item.severity), item.severity)
    lost = _losses(frame).by_key
    scored = [
        (
            nf,
            harm_of(
                lost.get(nf.key, 0.0),
                gone=nf.problem is not None,
                change=trends.nf_costs.change(nf.key),
                waits=not waiting.isdisjoint(nf.cpus),
                worst=worst.get(nf.key),
            ),
        )
        for nf in frame.nfs
    ]
    return sorted(
        scored,
        key=lambda item: (
            rank(item[0].owner),
            -round(item[1], 1),
            min(item[0].cpus, default=_LAST),
        ),
    )


nfs_by_harm = LastResults(_ranked_nfs)  # of the table of functions, and of the cache that is shown


def cpu_harm(frame: Frame, trends: RowTrends) -> Floats:
    """float64 (n,): harm of each row of `frame.cpus`, in steps that noise does not cross often.

    Culprits come after their worst victims.
    """
    cpus = frame.cpus
    row_of: Mapping[int, int] = cpus.topology.row_of
    score = np.zeros(len(cpus))
    lost = _losses(frame).by_key
    for nf in frame.nfs:
        if nf.key in lost:
            rows = _rows(nf.cpus, row_of)
            score[rows] += _LOSS + min(np.log10(lost[nf.key] + 1) / 10, 0.9)
    waits = cpus.columns["wait_ratio"].values
    score += np.where(waits > WAIT_RATIO_MOST, _WAIT + waits, 0.0)
    if trends.cpu_change is not None:
        change = trends.cpu_change  # NaN is not above a limit
        score += np.where(change > NEAR, SICK + np.minimum(change, 1.0), 0.0)
    of_incidents = np.zeros(len(cpus))
    for item in frame.incidents:
        for victim in item.victims:
            rows = _rows(victim.party.cpus, row_of)
            of_incidents[rows] = np.maximum(of_incidents[rows], _of(item.severity))
    score += of_incidents
    score = np.round(score, 1)
    for item in frame.incidents:
        if item.culprit is not None and item.severity > Severity.INFO:
            rows = _rows(item.culprit.cpus, row_of)
            own = [row for victim in item.victims for row in _rows(victim.party.cpus, row_of)]
            worst = float(score[own].max(initial=SICK))
            score[rows] = np.maximum(score[rows], max(worst - _BEHIND, SICK))
    return score


def culprits(frame: Frame) -> frozenset[Cpu]:
    """CPUs of the culprits of incidents that harm, without those of their own victims.

    A culprit that runs on its victim's CPU has no row of its own: that row is the victim's.
    """
    result = set[Cpu]()
    for item in frame.incidents:
        if item.severity > Severity.INFO and item.culprit is not None:
            harmed = {cpu for victim in item.victims for cpu in victim.party.cpus}
            result |= {cpu for cpu in item.culprit.cpus if cpu not in harmed}
    return frozenset(result)


def hidden_culprits(frame: Frame, shown: Sequence[int], room: int) -> tuple[int, ...]:
    """A row of each culprit of which none is among the first `room` of `shown`, the worst first."""
    row_of, named = frame.cpus.topology.row_of, culprits(frame)
    result: list[int] = []
    for item in frame.incidents:
        if item.culprit is None or item.severity is Severity.INFO:
            continue
        own = set(_rows((cpu for cpu in item.culprit.cpus if cpu in named), row_of))
        at = next((at for at, row in enumerate(shown) if row in own), 0)
        if at >= room and shown[at] not in result:
            result.append(shown[at])
    return tuple(result)


def _rows(cpus: Iterable[Cpu], row_of: Mapping[int, int]) -> list[int]:
    return [row_of[cpu] for cpu in cpus if cpu in row_of]


def _of(severity: Severity) -> float:
    return {Severity.INFO: 0.0, Severity.WARN: 1.0, Severity.BAD: 2.0}[severity]


def _excess(change: Reading) -> float:
    """Harm of a change for the worse beyond what is near."""
    if isinstance(change, Missing) or change <= NEAR:
        return 0.0
    return SICK + min(change, 1.0)
