"""The top-down method, probes and device traffic: a table's formulas over one tick's rates.

Counts of CPUs are first added up by physical core.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nftop.model.column import Block, Bools, Column, Floats, column, missing, where, withhold
from nftop.model.missing import Missing, Reason
from nftop.model.struct import dataclass
from nftop.model.topology import Topology
from nftop.uarch.formula import ALL_ROWS, compile_formula, has_inputs
from nftop.uarch.sections import BUSIEST, CONSTANTS, THREADS, Topdown
from nftop.uarch.table import Uarch

PREFIX = "tma."
_COMPLETE_LEVELS = 2  # levels whose parts add up to their whole
DEEPEST = 4
# How far a ratio may lie outside 0..1 and still count as 0 or 1, which a cell in whole percent
# rounds away. Counters of one group start and stop within microseconds of each other, so that a
# tick of a second leaves far less; groups that take turns leave more.
RATIO_TOLERANCE = 0.005
# How far parts may exceed their whole: the vendor corrects level 1 of PERF_METRICS, and some CPUs
# compare it with counters that differ a little.
CHILD_TOLERANCE = 0.02
# How far complete parts may fall short of their whole. With an event per part (Sierra Forest)
# nothing makes them add up, and TOPDOWN_BAD_SPECULATION.ALL_P excludes losses of rare machine
# clears ("Other nukes are not accounted for", the vendor's event files). A group with an uncounted
# part lacks far more.
DEFICIT_TOLERANCE = 0.05
# How far terms that should be equal may differ: PERF_METRICS are four numbers of 8 bits.
EQUAL_TOLERANCE = 0.05
# Why an estimate in cycles has no number: it adds up waits as if none ran beside another.
OVERLAP = Missing(
    Reason.UNDEFINED,
    "the vendor's estimate exceeds the cycles there were: it assumes that waits do not overlap, "
    "and they do here",
)
# By event, bool () or (rows,): whether a value was computed from its count.
Usage: TypeAlias = Mapping[str, Bools]


@dataclass(frozen=True, slots=True)
class NodeFamily:
    """The parts of one whole.

    Attributes:
        whole: None: all slots, or the cycles of the threads.
        usage: by part, the events its value was computed from.
        in_slots: parts share the slots of the whole, so their sum can't exceed it; shares of cycles
            overlap.
        complete: the parts add up to the whole: slots of levels 1 and 2.
    """

    whole: Column | None
    usage: Mapping[str, Usage]
    in_slots: bool
    complete: bool


# Settles the parts of one whole.
Settle: TypeAlias = Callable[[Mapping[str, Column], NodeFamily], Mapping[str, Column]]


def consistent(nodes: Mapping[str, Column], family: NodeFamily) -> Mapping[str, Column]:
    """The parts of one whole; a row is ERROR if a part is not within 0..1 and its whole.

    Or if their sum exceeds the whole, or a complete sum falls short of it. For counts of the same
    time, which contradict each other only if another program interferes.
    """
    whole = family.whole
    most = 1.0 if whole is None else np.fmin(whole.values + CHILD_TOLERANCE, 1.0)
    beyond = {name: (column.values < 0) | (column.values > most) for name, column in nodes.items()}
    bad: Bools = np.any(list(beyond.values()), axis=0)
    sentences = _sums_off(nodes, family)
    if not bad.any() and not sentences:
        return nodes
    rows = np.flatnonzero(bad)
    names, first = tuple(nodes), np.argmax(list(beyond.values()), axis=0)[rows].tolist()
    for row, at in zip(rows.tolist(), first, strict=True):
        culprit = names[at]
        value = nodes[culprit].values.item(row)
        # The whole matters only for a value within 0..1.
        but = _sum_context(whole, row) if 0 <= value <= 1 else ""
        sentences[row] = _contradiction(culprit, value, but)
    return {name: _erase(column, sentences) for name, column in nodes.items()}


def _sums_off(nodes: Mapping[str, Column], family: NodeFamily) -> dict[int, str]:
    """By row, how the sum of the parts contradicts the whole."""
    if not family.in_slots:
        return {}
    total = np.sum([column.values for column in nodes.values()], axis=0)
    of = np.ones(len(total)) if family.whole is None else family.whole.values
    off = total > of + CHILD_TOLERANCE
    if family.complete:
        off |= total < of - DEFICIT_TOLERANCE
    name = " + ".join(nodes)
    return {
        row: _contradiction(name, total[row], _sum_context(family.whole, row))
        for row in np.flatnonzero(off).tolist()
    }


def _sum_context(whole: Column | None, row: int) -> str:
    return "" if whole is None else f", but its whole as {whole.values[row]:.1%}"


def evaluate(
    uarch: Uarch,
    counts_per_s: Mapping[str, Column],
    *,
    smt: bool,
    levels: int = DEEPEST,
    settle: Settle = consistent,
) -> dict[str, Column]:
    """The top-down method down to `levels` by metric id (`tma.retiring`), ratios 0..1.

    `counts_per_s` are counts per second of physical cores by event, shape (rows,): with
    hyper-threading (`smt`) as from `sum_siblings`, with `threads` (default 2) and `busiest_...`. If
    groups took turns, scale each event by the cycles of its own group first. Empty for a table
    without top-down.

    A row has no number if an event has none (its reason), a formula divides by zero (IDLE), an
    estimate in cycles exceeds them (`OVERLAP`), or the parent has none. All parts of a whole are
    ERROR in rows in which their counts contradict each other, since any of them may be wrong:

    - one lies outside 0..1 by more than `RATIO_TOLERANCE`, or exceeds its parent by more than
      `CHILD_TOLERANCE` (the vendor's formulas hide that by bounding the rest to 0);
    - their sum exceeds the parent by more than `CHILD_TOLERANCE` or, on levels 1 and 2, falls short
      of it by more than `DEFICIT_TOLERANCE`;
    - the table's `equal` terms differ by more than `EQUAL_TOLERANCE`: then all nodes.

    Shares of cycles overlap; each is ERROR alone. A caller that knows when counts were taken may
    `settle` parts otherwise, level by level; lower levels use the result.

    Formulas: Yasin, "A Top-Down method for performance analysis and counters architecture", ISPASS
    2014, as in the vendor's table.
    """
    topdown = uarch.topdown
    if topdown is None:
        return {}
    rows = len(next(iter(counts_per_s.values()), ()))
    known = _inputs(uarch, uarch.events, counts_per_s, rows)
    known["slots_per_cycle"] = column(np.full(rows, float(topdown.slots_per_cycle)))
    known.setdefault(THREADS, column(np.full(rows, 2.0 if smt else 1.0)))
    usage: dict[str, Usage] = {}

    def compute(name: str, text: str) -> Column:
        value, used = compile_formula(text).with_usage(known, rows)
        usage[name] = _events_used(used, usage)
        return value

    for name, text in _terms_of(topdown, topdown.terms(smt=smt), levels).items():
        known[name] = compute(name, text)
    for level in range(1, levels + 1):
        for name, text in topdown.nodes.items():
            if topdown.level[name] == level:
                share = _clip(compute(name, text))
                if name in topdown.of_cycles & topdown.estimated:
                    share = withhold(share, share.values > 1, OVERLAP)
                parent = known[topdown.parent[name]] if name in topdown.parent else share
                known[name] = where(parent.present, share, parent)
        for names, family in _families(topdown, level, known, usage):
            known.update(settle({name: known[name] for name in names}, family))
        if level == 1:
            known.update(_unequal(uarch, topdown, known))
    return {PREFIX + name: known[name] for name in topdown.nodes if topdown.level[name] <= levels}


def _families(
    topdown: Topdown, level: int, known: Mapping[str, Column], usage: Mapping[str, Usage]
) -> Iterator[tuple[list[str], NodeFamily]]:
    """Nodes of a level by the whole of their slots.

    A share of cycles, or an estimate, is alone and without a whole.
    """
    families: dict[str, list[str]] = {}
    for name in topdown.nodes:
        if topdown.level[name] == level:
            alone = name in topdown.of_cycles or name in topdown.estimated
            key = name if alone else topdown.parent.get(name, "")
            families.setdefault(key, []).append(name)
    for key, names in families.items():
        in_slots = names[0] not in topdown.of_cycles | topdown.estimated
        yield (
            names,
            NodeFamily(
                known[key] if in_slots and key else None,
                {name: usage[name] for name in names},
                in_slots,
                complete=in_slots and level <= _COMPLETE_LEVELS,
            ),
        )


def computable(uarch: Uarch, events: Collection[str], *, smt: bool, levels: int = 2) -> set[str]:
    """Top-down metrics down to `levels` that can be computed from these events."""
    topdown = uarch.topdown
    if topdown is None:
        return set()
    known = {*events, *(BUSIEST + event for event in events), *CONSTANTS}
    for name, text in topdown.formulas(smt=smt).items():
        if has_inputs(text, known) and topdown.parent.get(name, name) in {*known, name}:
            known.add(name)
    return {name for name, level in topdown.level.items() if level <= levels and name in known}


def events_read(formulas: Mapping[str, str]) -> Mapping[str, frozenset[str]]:
    """By formula, the events it is computed from, directly or through earlier formulas."""
    return _events_read(tuple(formulas.items()))


@lru_cache(maxsize=32)
def _events_read(formulas: tuple[tuple[str, str], ...]) -> Mapping[str, frozenset[str]]:
    read: dict[str, frozenset[str]] = {}
    for name, text in formulas:
        names = (item.removeprefix(BUSIEST) for item in compile_formula(text).names)
        nodes = (read.get(item, frozenset({item})) for item in names if item not in CONSTANTS)
        read[name] = frozenset().union(*nodes)
    return read


def evaluate_traffic(uarch: Uarch, counts_per_s: Mapping[str, Column]) -> dict[str, Column]:
    """The table's traffic by metric id (`pcie.itom.hit_per_s`, `memory.read_bytes_per_s`).

    `counts_per_s` are counts per second by event, shape (packages,), summed over boxes. A row that
    lacks an event has its reason.
    """
    rows = len(next(iter(counts_per_s.values()), ()))
    events = [event for unit in uarch.uncore for event in unit.events]
    known = _inputs(uarch, events, counts_per_s, rows)
    return {name: compile_formula(text)(known, rows) for name, text in uarch.traffic.items()}


def evaluate_probes(uarch: Uarch, counts_per_s: Mapping[str, Column]) -> dict[str, Column]:
    """The table's probes by metric id (`load_latency_ns`), in the units of the catalogue.

    `counts_per_s` as for `evaluate`, per second and with `threads`. A row that lacks an event has
    its reason; a division by zero is IDLE.
    """
    rows = len(next(iter(counts_per_s.values()), ()))
    known = _inputs(uarch, uarch.events, counts_per_s, rows)
    for name, text in uarch.probes.items():
        known[name] = compile_formula(text)(known, rows)
    return {name: known[name] for name in uarch.probes}


def _terms_of(topdown: Topdown, terms: Mapping[str, str], levels: int) -> dict[str, str]:
    """The terms that nodes of these levels are computed from."""
    nodes = (text for name, text in topdown.nodes.items() if topdown.level[name] <= levels)
    read = {name for text in nodes for name in compile_formula(text).names} | topdown.equal.keys()
    for name, text in reversed(list(terms.items())):
        if name in read:
            read.update(compile_formula(text).names)
    return {name: text for name, text in terms.items() if name in read}


def _events_used(used: Usage, usage: Mapping[str, Usage]) -> Usage:
    """Events of a formula by the usage of its inputs, which may be earlier formulas."""
    events: dict[str, Bools] = {}
    for name, rows in used.items():
        if name in CONSTANTS or (rows is not ALL_ROWS and not rows.any()):
            continue
        inner = usage.get(name) or {name.removeprefix(BUSIEST): ALL_ROWS}
        for event, where_used in inner.items():
            both = _both(rows, where_used)
            events[event] = _either(events[event], both) if event in events else both
    return {event: rows for event, rows in events.items() if rows is ALL_ROWS or rows.any()}


def _both(one: Bools, other: Bools) -> Bools:
    """`one & other`."""
    if one is ALL_ROWS:
        return other
    return one if other is ALL_ROWS else one & other


def _either(one: Bools, other: Bools) -> Bools:
    return ALL_ROWS if one is ALL_ROWS or other is ALL_ROWS else one | other


def _inputs(
    uarch: Uarch, events: Iterable[str], counts: Mapping[str, Column], rows: int
) -> dict[str, Column]:
    """The counts, and columns for these events that are not counted."""
    absent = {
        event: missing(
            rows,
            Missing(Reason.SOURCE, f"{uarch.vendor_names.get(event, event)} is not counted here"),
        )
        for event in events
        if event not in counts
    }
    return {**absent, **counts}


def _clip(column: Column) -> Column:
    """Ratios outside 0..1 by no more than the tolerance, put back to the bound."""
    values = column.values
    near = (values >= -RATIO_TOLERANCE) & (values <= 1 + RATIO_TOLERANCE)
    clipped = np.where(near, np.clip(values, 0.0, 1.0), values)
    return Column(clipped, column.reasons, column.details, column.by_reason)


def _unequal(uarch: Uarch, topdown: Topdown, known: Mapping[str, Column]) -> dict[str, Column]:
    """Level 1, ERROR in rows where terms differ that should be equal."""
    family = {name: known[name] for name, level in topdown.level.items() if level == 1}
    sentences = {}
    for one, other in topdown.equal.items():
        ones, others = known[one].values, known[other].values
        for row in np.flatnonzero(np.abs(ones - others) > EQUAL_TOLERANCE * others).tolist():
            context = f" of {uarch.vendor_names.get(other, other)}"
            share = ones[row] / others[row] if others[row] > 0 else np.inf
            sentences[row] = _contradiction(f"the sum of the {one}", share, context)
    return {name: _erase(column, sentences) for name, column in family.items()} if sentences else {}


def _contradiction(name: str, value: float, context: str = "") -> str:
    return (
        f"{name} came out as {value:.1%}{context}, so its counts contradict each other: on a core "
        "whose hyper-threads both mostly sleep its clock is not exact; elsewhere look for another "
        "program that sets the same counters"
    )


def _erase(column: Column, sentences: Mapping[int, str]) -> Column:
    present = column.present
    rows: Sequence[int] = [row for row in sentences if present[row]]
    values, reasons = column.values.copy(), column.reasons.copy()
    values[rows], reasons[rows] = np.nan, Reason.ERROR
    details = {**column.details, **{row: sentences[row] for row in rows}}
    return Column(values, reasons, details, column.by_reason)


# Clocks: a core has as much of them as its busier thread.
CLOCKS = ("cycles", "aperf")
_OFFLINE = "the CPU is offline"


def sum_siblings(columns: Mapping[str, Column], topology: Topology) -> dict[str, Column]:
    """Each column summed over the threads of each core, rows as in the topology.

    Also `threads`, the number of online threads of the core, and for each of `CLOCKS`
    `busiest_...`, the largest count of its threads.

    If a thread of a core has no number, the core has none: the thread's row keeps its reason, its
    sibling's has the same reason and names the CPU. Offline CPUs have no core.
    """
    block, cores = Block.of(columns), topology.core_index
    present = np.equal(block.reasons, np.uint8(Reason.PRESENT))
    counts = np.where(present, block.floats, 0.0)
    lacking = sum_cores(~present, cores) > 0
    reasons, details = block.reasons.copy(), [dict(own) for own in block.details]
    for metric, row in np.argwhere(lacking & present).tolist():
        sibling = int(np.flatnonzero((cores == cores[row]) & ~present[metric])[0])
        reason = Reason(int(block.reasons[metric, sibling]))
        message = block.details[metric].get(sibling) or block.by_reason[metric].get(reason)
        reasons[metric, row] = reason
        details[metric][row] = (
            f"its hyper-thread sibling, CPU {topology.cpus[sibling].cpu}: "
            f"{message or reason.sentence}"
        )
    clocks = [name for name in CLOCKS if name in block]
    of_clocks = block.rows_of(clocks)
    most = np.zeros((len(clocks), int(cores.max(initial=-1)) + 1))
    for clock, metric in enumerate(of_clocks):
        np.maximum.at(most[clock], cores, counts[metric])
    rows = [*range(len(block)), *of_clocks]
    values = np.concatenate([sum_cores(counts, cores), most[:, cores]])
    summed = Block(
        (*block, *(BUSIEST + name for name in clocks)),
        np.where(lacking[rows], np.nan, values),
        reasons[rows],
        [details[row] for row in rows],
        [block.by_reason[row] for row in rows],
    )
    offline = Missing(Reason.UNDEFINED, _OFFLINE)
    count = np.bincount(cores)[cores].astype(np.float64)
    return {**summed, THREADS: withhold(column(count), ~topology.has_core, offline)}


def sum_cores(values: NDArray[np.generic], cores: NDArray[np.int64]) -> Floats:
    """Rows of `values`, (m, rows), summed by core and assigned to the rows of its threads."""
    width = int(cores.max(initial=-1)) + 1
    slots = np.arange(len(values))[:, None] * width + cores
    totals = np.bincount(slots.ravel(), values.ravel(), len(values) * width).astype(np.float64)
    return totals.reshape(len(values), width)[:, cores]
