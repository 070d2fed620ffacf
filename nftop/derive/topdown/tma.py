"""Top-down of all CPUs, by the formulas of `uarch` or of the kernel (perf metrics)."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nftop.derive.absence import after_absence
from nftop.derive.cpu.counters import COUNTERS, CounterRates, CounterState, step_counters
from nftop.derive.fold_stage import FoldStage, FoldTick, TopologyChange
from nftop.model.column import (
    Block,
    Bools,
    Column,
    Floats,
    column,
    has_reason,
    missing,
    ratio,
    where,
    withhold,
)
from nftop.model.frame import CoreDetail, TmaNode
from nftop.model.ids import Cpu
from nftop.model.metrics.nodes import NODE_METRICS
from nftop.model.metrics.probes import CORE_METRICS
from nftop.model.metrics.tma import TMA_COVERAGE, TMA_LEVEL_2_COVERAGE, TMA_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.sample import CounterTable, SourceReading
from nftop.model.struct import dataclass, field, replace
from nftop.model.topology import Topology
from nftop.uarch.focus import evaluate_focus
from nftop.uarch.formula import ALL_ROWS, Formula, compile_formula
from nftop.uarch.grammar import FormulaError
from nftop.uarch.sections import Topdown
from nftop.uarch.table import Uarch
from nftop.uarch.topdown import (
    CLOCKS,
    PREFIX,
    RATIO_TOLERANCE,
    NodeFamily,
    Settle,
    Usage,
    consistent,
    evaluate,
    events_read,
    sum_siblings,
)

# Even within a tick the main group sees nine tenths and the turn the last one. What does not fit
# for that is put back to the bound, as long as it can't be off by more than this for it.
MOMENTS_TOLERANCE = 0.10
MOMENTS = Missing(
    Reason.UNDEFINED,
    "its counter groups saw different moments of a load that changes; their next turns may tell",
)

_DRILLED_LEVEL = 2
_NOWHERE: Bools = np.zeros((), np.bool_)


@dataclass(frozen=True, slots=True)
class Division:
    """Division of a whole into parts; each array of shape (rows,).

    Attributes:
        shares: by part, 0..1 of the whole; NaN if unknown.
        spread: ticks between its oldest and its newest count.
        since: ticks since then.
    """

    shares: Mapping[str, Floats]
    spread: Floats
    since: Floats


@dataclass(frozen=True, slots=True)
class ShareState:
    """State of one tick.

    Attributes:
        divisions: by the first of their parts.
        cpus: of the rows.
        rates: from which they were computed.
        usage: by node with a value in this tick, the events it was computed from.
    """

    divisions: dict[str, Division] = field(default_factory=dict)
    cpus: tuple[Cpu, ...] = ()
    rates: CounterRates | None = None
    usage: dict[str, Usage] = field(default_factory=dict)


def settling(
    before: ShareState,
    rates: CounterRates,
    topdown: Topdown,
    topology: Topology,
    *,
    rows: slice = slice(None),
) -> tuple[Settle, ShareState]:
    """How to settle one tick's top-down of these rows, and the next state.

    The state is complete when `topdown.evaluate` has settled every node.

    Parts whose events are counted in every tick must be `consistent`. Others come from different
    moments: if they exceed their whole (or 0..1, for shares of cycles) by more than
    `MOMENTS_TOLERANCE`, and the whole is larger than that, they are UNDEFINED; else they are put
    back to the bound.
    """
    cpus = tuple(info.cpu for info in topology.cpus[rows])
    known = before if before.cpus == cpus else ShareState()
    after = ShareState({}, cpus, rates)
    ticks = 0 if rates is known.rates else 1  # a reading seen before is no tick

    def settle(nodes: Mapping[str, Column], family: NodeFamily) -> Mapping[str, Column]:
        first, whole = next(iter(nodes)), family.whole
        after.usage.update(family.usage)
        # The whole has been settled, whenever it was counted.
        settled_events = {} if whole is None else after.usage.get(topdown.parent[first], {})
        ages = _ages(rates.ages, family.usage.values(), settled_events)
        if not ages:
            return consistent(nodes, family)
        newest, oldest = (
            _of_cores(choose, choose.reduce(ages, axis=0), topology)[rows]
            for choose in (np.fmin, np.fmax)
        )
        turning: Bools = np.isfinite(newest)
        if not turning.any():
            return consistent(nodes, family)
        if whole is None:
            settled = _bounded(nodes, family)
        else:
            held = known.divisions.get(first) or _unknown(nodes, len(cpus))
            held = replace(held, since=held.since + ticks)
            after.divisions[first] = _division(nodes, family, held, newest, oldest)
            settled = _divided(nodes, whole, after.divisions[first])
        if turning.all():
            return settled
        steady = consistent(nodes, family)
        return {name: where(turning, settled[name], steady[name]) for name in nodes}

    return settle, after


def _ages(ages: Mapping[str, Floats], usages: Iterable[Usage], settled: Usage) -> list[Floats]:
    """Ages of the events in use, float64 (rows,), NaN if not used or already settled."""
    used: dict[str, Bools] = {}
    for usage in usages:
        for event in usage.keys() & ages.keys():
            before = used.get(event, _NOWHERE)
            used[event] = before | (usage[event] & ~settled.get(event, _NOWHERE))
    return [np.where(used[event], ages[event], np.nan) for event in sorted(used)]


def _unknown(nodes: Mapping[str, Column], rows: int) -> Division:
    nothing = np.full(rows, np.nan)
    return Division(dict.fromkeys(nodes, nothing), np.full(rows, np.inf), np.zeros(rows))


def _division(
    nodes: Mapping[str, Column], family: NodeFamily, held: Division, newest: Floats, oldest: Floats
) -> Division:
    """The division from this tick on: the new one if all its counts have had their turn."""
    known: Bools = np.all([column.present for column in nodes.values()], axis=0)
    # Of groups that have their turns one after the other the last one's is the time to divide.
    turn = known & (newest == 0) & ((oldest <= held.spread) | (held.since > oldest))
    of = np.ones_like(newest) if family.whole is None else family.whole.values
    fitting, misfit = _fitting(nodes, of, complete=family.complete)
    sound = (misfit <= MOMENTS_TOLERANCE) & (of >= RATIO_TOLERANCE)
    size = np.where(sound, of, np.nan)
    return Division(
        {name: np.where(turn, fitting[name] / size, held.shares[name]) for name in nodes},
        np.where(turn, oldest, held.spread),
        np.where(turn, 0.0, held.since),
    )


def _divided(nodes: Mapping[str, Column], whole: Column, division: Division) -> dict[str, Column]:
    """The parts of the present whole by the held division."""
    fitting, _ = _fitting(nodes, whole.values, complete=False)
    small = whole.values <= MOMENTS_TOLERANCE
    settled = {}
    for name, counted in nodes.items():
        share = division.shares[name]
        held: Bools = np.isfinite(share)
        settled[name] = _with_values(
            counted, np.where(held, share * whole.values, fitting[name]), held | small
        )
    return settled


def _bounded(nodes: Mapping[str, Column], family: NodeFamily) -> dict[str, Column]:
    """The parts of all slots or cycles, put back to the bound if they exceed it by little."""
    rows = len(next(iter(nodes.values())))
    fitting, misfit = _fitting(nodes, np.ones(rows), complete=family.complete)
    clear = misfit <= MOMENTS_TOLERANCE
    return {name: _with_values(counted, fitting[name], clear) for name, counted in nodes.items()}


def _fitting(
    nodes: Mapping[str, Column], whole: Floats, *, complete: bool
) -> tuple[dict[str, Floats], Floats]:
    """Parts scaled to fit their whole, none negative, and by how much they did not fit."""
    values = np.array([np.where(column.present, column.values, 0.0) for column in nodes.values()])
    positive = np.clip(values, 0.0, None)
    total = positive.sum(axis=0)
    too_much: Bools = total > whole
    scale = np.where(too_much, whole, 1.0) / np.where(too_much, total, 1.0)
    known: Bools = np.all([column.present for column in nodes.values()], axis=0)
    lacking = np.where(known, whole - total, 0.0) if complete else 0.0
    misfit = np.maximum.reduce([-values.min(axis=0), total - whole, lacking * np.ones_like(whole)])
    return dict(zip(nodes, np.minimum(positive * scale, whole), strict=True)), misfit


def _with_values(column: Column, values: Floats, clear: Bools) -> Column:
    """The part with these values, MOMENTS where they are not clear."""
    now = np.where(column.present, values, np.nan)
    result = Column(now, column.reasons, column.details, column.by_reason)
    return withhold(result, ~clear & column.present, MOMENTS)


def _of_cores(choose: np.ufunc, values: Floats, topology: Topology) -> Floats:
    """Shape of `values`, (..., rows): `choose` over each core's threads, on all their rows."""
    order, begins, core_of = topology.by_core
    chosen: Floats = choose.reduceat(values[..., order], begins, axis=-1)
    return chosen[..., core_of]


# Those that every core is counted for all the time, and the share of it that each was; the
# catalogue's metrics are theirs.
_COVERAGE_OF = {1: TMA_COVERAGE, 2: TMA_LEVEL_2_COVERAGE}
# A core that ran for less than this share of the time did next to nothing.
ASLEEP_RATIO = 0.05
ASLEEP = Missing(Reason.IDLE, "the core slept for more than 95 % of the time")
# These reasons, and too few counts, are reported rather than `ASLEEP`.
BEFORE_ASLEEP = (Reason.SOURCE, Reason.HARDWARE, Reason.WARMING, Reason.RESET, Reason.TAKEN)
_TURNED_ON = Missing(
    Reason.SOURCE,
    "hyper-threading was turned on after nftop had chosen what to count: start nftop anew",
)


def tma_columns(
    state: ShareState, uarch: Uarch | None, rates: CounterRates, topology: Topology
) -> tuple[ShareState, Mapping[str, Column]]:
    """All `tma.` metrics, ratios 0..1, rows as in the topology; SOURCE without a table.

    The threads of a core share its slots and numbers. Below level 1 parts of different turns are
    divided by `settling`.
    """
    rows = len(topology.cpus)
    if uarch is None or uarch.topdown is None:
        name = "generic" if uarch is None else uarch.name
        why = Missing(Reason.SOURCE, f"nftop has no top-down table for this CPU ({name})")
        return ShareState(), {metric.id: missing(rows, why) for metric in TMA_METRICS}
    smt = counted_with_smt(uarch.topdown, rates.per_s.keys(), topology)
    of_cores = counts_of_cores(uarch, rates, topology)
    settle, after = settling(state, rates, uarch.topdown, topology)
    nodes = evaluate(uarch, of_cores, smt=smt, levels=max(_COVERAGE_OF), settle=settle)
    twice = of_cores["threads"].values > 1
    if not smt and twice.any():
        nodes = {name: withhold(node, twice, _TURNED_ON) for name, node in nodes.items()}
    unknown = Missing(Reason.HARDWARE, f"not a node of {uarch.name}'s table")
    columns = {
        metric.id: nodes[metric.id] if metric.id in nodes else missing(rows, unknown)
        for metric in TMA_METRICS
    }
    columns = _of_busy_cores(columns, rates, topology)
    for level, coverage in _COVERAGE_OF.items():
        names = [name for name, depth in uarch.topdown.level.items() if depth == level]
        present = np.array([nodes[PREFIX + name].present for name in names])
        shares = core_shares([after.usage[name] for name in names], rates, topology)
        share = np.fmin.reduce(np.where(present, shares, np.nan))
        shown = [
            columns[tma_metric.id] for tma_metric in TMA_METRICS if tma_metric.coverage == coverage
        ]
        columns[coverage] = _coverage(share, shown)
    return after, columns


def counts_of_cores(uarch: Uarch, rates: CounterRates, topology: Topology) -> dict[str, Column]:
    """Counts per second of every core by event, for `topdown.evaluate`.

    Events of groups that took turns are scaled by cycles: count / cycles seen by its group x cycles
    of the CPU. Events of the whole core are scaled by time, since they go on while the CPU's own
    thread is halted.
    """
    alone = not any(info.siblings for info in topology.cpus)
    of_core = frozenset[str]() if alone else uarch.of_core
    events = {*uarch.main_events, *(event for event in rates.per_s if event in uarch.events)}
    counts = {
        event: rates.rate(event) if event in of_core else rates.rate_by_cycles(event)
        for event in events
    }
    return sum_siblings(counts, topology)


def _of_busy_cores(
    columns: Mapping[str, Column], rates: CounterRates, topology: Topology
) -> dict[str, Column]:
    """The columns, IDLE if both threads of a core slept most of the time."""
    asleep = asleep_rows(rates, topology)
    if not asleep.any():
        return dict(columns)
    block = Block.of(columns)
    return dict(block.withheld(asleep & ~has_reason(block.reasons, BEFORE_ASLEEP), ASLEEP))


def asleep_rows(rates: CounterRates, topology: Topology) -> Bools:
    """bool (rows,): both threads of the row's core slept most of the time."""
    unhalted = ratio(rates.rate("ref_cycles"), rates.rate("tsc")).values
    return (_of_cores(np.fmax, unhalted, topology) < ASLEEP_RATIO) & np.isfinite(unhalted)


def counted_with_smt(topdown: Topdown, counted: Collection[str], topology: Topology) -> bool:
    """Whether the counted events are those for hyper-threading, which may change while nftop runs.

    If they do not show it, whether the host has it now.
    """
    with_it, without = (
        frozenset[str]().union(*events_read(topdown.terms(smt=smt)).values())
        for smt in (True, False)
    )
    on, off = (not only.isdisjoint(counted) for only in (with_it - without, without - with_it))
    return on if on != off else any(info.siblings for info in topology.cpus)


def tma_of_counts(uarch: Uarch, counts: Mapping[str, Reading], *, smt: bool) -> dict[str, Reading]:
    """Every node of a table by its name, ratios 0..1, from one count per event of the table.

    Counts are of physical cores, however many, over the same time. An event that is not in
    `counts` is missing with SOURCE and its vendor's name. Empty for a table without top-down.
    """
    columns = {}
    for event in uarch.events:
        vendor = uarch.vendor_names.get(event, event)
        count = counts.get(event, Missing(Reason.SOURCE, f"{vendor} was not counted"))
        if isinstance(count, Missing):
            columns[event] = missing(1, count)
        else:
            columns[event] = column(np.array([count]))
    nodes = evaluate(uarch, columns, smt=smt)
    return {name.removeprefix(PREFIX): node[0] for name, node in nodes.items()}


def core_shares(
    usages: Sequence[Usage], rates: CounterRates, topology: Topology
) -> NDArray[np.float64]:
    """float64 (usages, rows): least share of time in which a usage's event was counted.

    NaN if none was counted. Cycles count as the better of their clocks, since an event is scaled by
    the cycles of its own group, whichever clock counted them.
    """
    shares = np.full((len(usages), len(topology.cpus)), np.nan)
    counted = dict(rates.shares)
    clocks = counted.keys() & CLOCKS
    if clocks:
        clock: Floats = np.fmax.reduce([counted[name] for name in clocks])
        counted |= dict.fromkeys(clocks, clock)
    for at, usage in enumerate(usages):
        used = [(counted[event], usage[event]) for event in counted.keys() & usage.keys()]
        always = [share for share, rows in used if rows is ALL_ROWS]
        chosen = [np.where(rows, share, np.nan) for share, rows in used if rows is not ALL_ROWS]
        if used:
            shares[at] = np.fmin.reduce([*always, *chosen])
    return _of_cores(np.fmin, shares, topology)


def _coverage(share: Floats, shown: Sequence[Column]) -> Column:
    """`share` if some node has a number, else the first node's reasons."""
    some = np.any([node.present for node in shown], axis=0)
    values = np.where(some, share, np.nan)
    why = shown[0]
    reasons = np.where(some, np.uint8(Reason.PRESENT), why.reasons)
    return Column(values, reasons, why.details, why.by_reason)


_CONTRADICT = Missing(Reason.ERROR, "its counts contradict each other: the share is not in 0..1")
_ASLEEP = Missing(Reason.IDLE, "the CPU slept for more than 95 % of the time")
_DEEPER = Missing(Reason.SOURCE, "only level 1 is counted by the kernel's own formulas")


def brings_topdown(table: CounterTable) -> bool:
    """Whether the table has formulas of top-down metrics, or reasons for having none."""
    return any(
        metric.id in item for metric in TMA_METRICS for item in (table.formulas, table.details)
    )


def kernel_tma_columns(table: CounterTable, rates: CounterRates) -> Mapping[str, Column]:
    """All `tma.` metrics by `CounterTable.formulas`, ratios 0..1, rows as those of `rates`.

    They are of the logical CPU, as in `perf stat -A`, not of the physical core. If a share is
    outside 0..1 by more than RATIO_TOLERANCE, all of that row are ERROR, since any count may be
    wrong. IDLE for a CPU that slept nearly all the time, if reference cycles show it.
    """
    rows = len(rates.coverage)
    formulas, unreadable = _compiled(table.formulas)
    nodes = {metric: formula(rates.per_s, rows) for metric, formula in formulas.items()}
    nodes |= {metric: missing(rows, why) for metric, why in unreadable.items()}
    odd = np.zeros(rows, dtype=np.bool_)
    for node in nodes.values():
        # NaN is in no interval, and compares as False.
        odd |= (node.values < -RATIO_TOLERANCE) | (node.values > 1 + RATIO_TOLERANCE)
    slept = ratio(rates.rate("ref_cycles"), rates.rate("tsc")).values < ASLEEP_RATIO
    columns = {}
    for metric in (metric.id for metric in TMA_METRICS if metric.coverage):
        if metric in nodes:
            node = nodes[metric]
            ratios = np.clip(node.values, 0.0, 1.0)
            clipped = Column(ratios, node.reasons, node.details, node.by_reason)
            sound = withhold(clipped, odd & clipped.present, _CONTRADICT)
            columns[metric] = withhold(sound, slept & clipped.present, _ASLEEP)
        else:
            columns[metric] = missing(rows, _why(table, metric))
    for coverage in (metric.id for metric in TMA_METRICS if not metric.coverage):
        ids = [metric.id for metric in TMA_METRICS if metric.coverage == coverage]
        columns[coverage] = _formula_coverage(table, rates, {item: columns[item] for item in ids})
    return columns


def _compiled(texts: Mapping[str, str]) -> tuple[dict[str, Formula], dict[str, Missing]]:
    """Formulas, and reasons for invalid ones: a recording may contain any text."""
    formulas, unreadable = {}, {}
    for metric, text in texts.items():
        try:
            formulas[metric] = compile_formula(text)
        except FormulaError as error:
            unreadable[metric] = Missing(Reason.ERROR, f"its formula can't be read: {error}")
    return formulas, unreadable


def _why(table: CounterTable, metric: str) -> Missing:
    messages = table.details.get(metric, {})
    return next((Missing(Reason(reason), text) for reason, text in messages.items()), _DEEPER)


def _formula_coverage(
    table: CounterTable, rates: CounterRates, nodes: Mapping[str, Column]
) -> Column:
    """Coverage of the least counted event, else the first node's reasons."""
    rows = len(rates.coverage)
    share = np.full(rows, np.nan)
    formulas, _ = _compiled(table.formulas)
    for formula in (formula for metric, formula in formulas.items() if metric in nodes):
        for event in formula.names:
            share = np.fmin(share, rates.share(event).values)
    some: Bools = np.any([node.present for node in nodes.values()], axis=0)
    given = (nodes[metric] for metric in table.formulas if metric in nodes)
    return where(some, column(share), next(given, next(iter(nodes.values()))))


@dataclass(frozen=True, slots=True)
class FocusState:
    counters: CounterState = field(default_factory=CounterState)
    shares: ShareState = field(default_factory=ShareState)


def step_focus(
    state: FocusState,
    reading: SourceReading[CounterTable] | None,
    uarch: Uarch | None,
    topology: Topology,
) -> tuple[FocusState, CoreDetail | None]:
    """Fold one perf reading in; None without counters of a selected core.

    Metrics of a group that had no turn yet are WARMING.
    """
    table = None if reading is None or isinstance(reading.value, Missing) else reading.value.focus
    if reading is None or table is None or uarch is None or not len(table.cpus):
        return FocusState(), None
    core = _only(topology, table)
    counters, rates = step_counters(state.counters, replace(reading, value=table), core)
    counts = {name: totals[0] for name, totals in counts_of_cores(uarch, rates, core).items()}
    smt = uarch.topdown is not None and counted_with_smt(uarch.topdown, rates.per_s.keys(), core)
    settle: Settle = consistent
    divided = ShareState()
    if uarch.topdown is not None:
        settle, divided = settling(state.shares, rates, uarch.topdown, core, rows=slice(1))
    tree, probes = evaluate_focus(uarch, counts, smt=smt, settle=settle)

    def coverage(usage: Usage) -> Reading:
        share = float(core_shares([usage], rates, core)[0, 0])
        return Missing(Reason.SOURCE) if math.isnan(share) else share

    if uarch.topdown is not None:
        tree = tuple(
            node
            if isinstance(node.reading, Missing)
            else replace(node, coverage=coverage(divided.usage.get(node.name, {})))
            for node in tree
        )
    if asleep_rows(rates, core).any():
        tree = tuple(_asleep(node) for node in tree)
    nodes: dict[str, Reading] = {f"{PREFIX}{node.name}": node.reading for node in tree}
    unknown = Missing(Reason.HARDWARE, f"the vendor has no formula for it on {uarch.name}")
    absent = {} if uarch.topdown is None else uarch.topdown.absent
    nodes |= {PREFIX + name: Missing(Reason.HARDWARE, why) for name, why in absent.items()}
    readings = {
        metric.id: probes.get(metric.id, nodes.get(metric.id, unknown))
        for metric in (*CORE_METRICS, *NODE_METRICS)
    }
    cpus = tuple(info.cpu for info in core.cpus)
    of_probes = events_read(uarch.probes)
    everywhere = np.ones((), np.bool_)
    shares = {
        metric.id: coverage(dict.fromkeys(of_probes.get(metric.id, ()), everywhere))
        for metric in CORE_METRICS
    }
    return FocusState(counters, divided), CoreDetail(cpus, tree, readings, shares)


# How much larger another node has to be before what is below that one is counted instead.
_DRILL_MARGIN = 0.05
# Useful work is no bottleneck: it counts only where the vendor calls it notable, which is where
# nothing else is left to mend.
_DRILLED_IF_NOTABLE = frozenset({"light_operations"})


def drilled_node(focus: CoreDetail | None, before: str) -> str:
    """The largest level-2 node of the core, below which more is counted; "" without numbers.

    It changes from `before` only to one that is larger by `_DRILL_MARGIN`, so that groups are not
    exchanged by noise.
    """
    if focus is None:
        return ""
    shares = {
        node.name: node.reading
        for node in focus.tree
        if node.level == _DRILLED_LEVEL
        and (node.beyond or node.name not in _DRILLED_IF_NOTABLE)
        and not isinstance(node.reading, Missing)
    }
    largest = max(shares, key=lambda name: shares[name], default="")
    if before in shares and shares[largest] < shares[before] + _DRILL_MARGIN:
        return before
    return largest


def _only(topology: Topology, table: CounterTable) -> Topology:
    cpus = {int(cpu) for cpu in table.cpus}
    return replace(topology, cpus=tuple(info for info in topology.cpus if info.cpu in cpus))


def _asleep(node: TmaNode) -> TmaNode:
    if isinstance(node.reading, Missing) and node.reading.reason in BEFORE_ASLEEP:
        return node
    return replace(node, reading=ASLEEP, beyond=False)


def _run(state: ShareState, tick: FoldTick) -> tuple[ShareState, Mapping[str, Column]]:
    """By the formulas that came with the counts, if any."""
    reading, rates = tick.sample.readings.get("perf"), tick.output(COUNTERS)
    table = None if reading is None else reading.value
    if isinstance(table, Missing):
        why = missing(len(tick.topology.cpus), table)
        return after_absence(state, ShareState(), table), {metric.id: why for metric in TMA_METRICS}
    if table is not None and brings_topdown(table):
        return ShareState(), kernel_tma_columns(table, rates)
    return tma_columns(state, tick.uarch, rates, tick.topology)


TOPDOWN: FoldStage[ShareState, Mapping[str, Column]] = FoldStage(
    "topdown", ShareState, _run, reset_on=TopologyChange.ROWS, columns=lambda columns: columns
)
FOCUS: FoldStage[FocusState, CoreDetail | None] = FoldStage(
    "focus",
    FocusState,
    lambda state, tick: step_focus(
        state, tick.sample.readings.get("perf"), tick.uarch, tick.topology
    ),
    reset_on=TopologyChange.ENTRIES,
)
