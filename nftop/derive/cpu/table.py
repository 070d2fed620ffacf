"""The table of CPUs: counters, kernel times, NF rates and hyper-thread siblings by row."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from nftop.derive.cache.table import CACHE, effective_classes
from nftop.derive.cpu.counters import AWAITING_TURN, COUNTERS, CounterRates, tsc_hz
from nftop.derive.cpu.frequencies import FREQUENCIES
from nftop.derive.cpu.time import TICKS, online_rows
from nftop.derive.occupants import (
    NFS,
    POLLERS,
    Cycles,
    Occupant,
    OwnTime,
    own_clock,
    own_cycles,
    own_times,
    saturated,
    unattached,
)
from nftop.derive.stage import FoldStage, FoldTick, TopologyChange, stateless
from nftop.derive.threads import THREADS, ThreadRate
from nftop.model.column import (
    Bools,
    Column,
    Floats,
    column,
    first_of,
    from_readings,
    missing,
    product,
    ratio,
    where,
    withhold,
)
from nftop.model.frame import CacheClass, Clock, CpuTable
from nftop.model.metrics.catalogue import CPU_METRICS
from nftop.model.nf.kinds import NF_KINDS
from nftop.model.reading import Missing, Reading, Reason, total
from nftop.model.sst import CpuSetting
from nftop.model.struct import dataclass
from nftop.model.topology import Topology

_EVENT = "llc_misses"


@dataclass(frozen=True, slots=True)
class MissState:
    """State of the last turn.

    Attributes:
        per_packet: float64 (rows,), misses per packet in the tick of the turn; NaN if unknown.
        occupants: by row, the owner of these packets.
        rates: the last rates seen.
    """

    per_packet: Floats | None = None
    occupants: tuple[object, ...] = ()
    rates: CounterRates | None = None


def step_misses(
    state: MissState, rates: CounterRates, packets: Column, occupants: Sequence[object]
) -> tuple[MissState, Column]:
    """Misses per packet, rows as in the topology; `packets` per second are those of `occupants`.

    Between turns the ratio of the last turn is held, since the present packets are not those that
    missed. WARMING if another owner polled then.
    """
    now = ratio(rates.rate_by_cycles(_EVENT), packets)
    ages = rates.ages.get(_EVENT)
    if ages is None or not np.isfinite(ages).any():
        return MissState(), now
    turning: Bools = np.isfinite(ages)
    held = state.per_packet
    if held is None or len(held) != len(occupants):
        held = np.full(len(occupants), np.nan)
    else:
        stayed = [old == new for old, new in zip(state.occupants, occupants, strict=True)]
        held = np.where(stayed, held, np.nan)
    take = ages == 0
    if rates is state.rates:  # and so the packets may be of a later tick
        take &= ~np.isfinite(held)
    held = np.where(take, now.values, held)
    kept = where(np.isfinite(held), column(held), missing(len(held), AWAITING_TURN))
    return MissState(held, tuple(occupants), rates), where(turning & now.present, kept, now)


_ALONE = Missing(Reason.UNDEFINED, "its core runs no other hyper-thread")
_OF_SIBLING = "its hyper-thread sibling: "


def sibling_columns(
    busy_ratio: Column, rates: CounterRates, topology: Topology
) -> Mapping[str, Column]:
    """The metrics of `SIBLING_METRICS`, rows as in the topology.

    UNDEFINED if a core runs one thread only. If a thread of the core has no number, its reason.
    """
    others = topology.sibling_rows
    alone: Bools = np.all(others < 0, axis=1)
    if alone.all():
        nobody = missing(len(alone), _ALONE)
        return dict.fromkeys(("sibling_busy_ratio", "sibling_ipc", "core_ipc"), nobody)
    instructions, cycles = rates.rate("instructions"), rates.core_cycles
    threads = np.column_stack([np.arange(len(alone)), others])
    count = (threads >= 0).sum(axis=1)
    # Each thread counts the clocks of the whole core, at a time of its own: their mean.
    any_thread = _over(threads, rates.rate("cycles_any"), np.add)
    any_thread = Column(
        any_thread.values / count, any_thread.reasons, any_thread.details, any_thread.by_reason
    )
    # Where neither is counted, it is the cycles that are missed.
    clocks = where(any_thread.present, any_thread, _over(threads, cycles, np.maximum))
    columns = {
        "sibling_busy_ratio": _over(others, busy_ratio, np.maximum),
        "sibling_ipc": ratio(_over(others, instructions, np.add), _over(others, cycles, np.add)),
        "core_ipc": ratio(_over(threads, instructions, np.add), clocks),
    }
    return {name: withhold(item, alone, _ALONE) for name, item in columns.items()}


def _over(threads: NDArray[np.intp], of: Column, fold: np.ufunc) -> Column:
    """`of` folded over the rows in each row of `threads`, -1 for none, or the first reason."""
    some = threads >= 0
    values = fold.reduce(np.where(some, of.values[threads], 0.0), axis=1)
    absent = some & ~of.present[threads]
    source = threads[np.arange(len(threads)), absent.argmax(axis=1)]
    gone = absent.any(axis=1)
    details: dict[int, str] = {}
    if of.details:
        rows = np.flatnonzero(gone).tolist()
        details = {
            row: _sibling_message(of.details[at], own=at == row)
            for row, at in zip(rows, source[rows].tolist(), strict=True)
            if at in of.details
        }
    reasons = np.where(gone, of.reasons[source], np.uint8(Reason.PRESENT))
    return Column(np.where(gone, np.nan, values), reasons, details, of.by_reason)


def _sibling_message(sentence: str, *, own: bool) -> str:
    return sentence if own else f"{_OF_SIBLING}{sentence}"


NO_NF = Missing(Reason.UNDEFINED, "no network function polls on this CPU")
_SHARED_BUSY = Missing(
    Reason.SOURCE, "several poll on this CPU, and the busy time of one is the other's waiting"
)
_UNKNOWN_BUSY = Missing(
    Reason.SOURCE, "only the program itself knows; the kernel sees a poller as always busy"
)
_NOT_YET = Missing(Reason.WARMING, "not known yet whether anything polls on this CPU")


def count_cycles(rates: CounterRates, pollers: Mapping[int, Occupant]) -> Cycles:
    """Core cycles if counted, else the TSC's, else those counted by the NF."""
    core, tsc = rates.core_cycles, rates.rate("tsc")
    rows = len(core)
    everywhere = tsc_hz(rates)
    if not isinstance(everywhere, Missing):  # a CPU that is not read takes it from the others
        elsewhere = column(np.full(rows, everywhere))
        tsc = where(rates.coverage.present, tsc, first_of(tsc, elsewhere))
    own = from_readings(
        {row: _nf_cycles(poller) for row, poller in pollers.items() if poller.cores},
        rows,
        Missing(Reason.SOURCE),
    )
    clock = np.full(rows, None, dtype=object)
    clock[own.present] = "nf"
    clock[tsc.present] = "tsc"
    clock[core.present] = "core"
    return Cycles(first_of(first_of(core, tsc), own), tuple(clock), tsc)


def cpu_table(
    topology: Topology,
    *,
    online: tuple[bool, ...],
    rates: CounterRates,
    cycles: Cycles,
    ready: Mapping[str, Column],
    group: tuple[CacheClass | Missing, ...],
    settings: tuple[CpuSetting, ...],
    pollers: Mapping[int, Occupant],
    undecided: Collection[int],
    unattached: Callable[[ThreadRate], Missing],
    misses: MissState,
) -> tuple[MissState, CpuTable]:
    """One row per CPU, and what `misses` of the next tick are.

    Args:
        topology: gives the rows.
        online: which of them run.
        rates: of the counter groups.
        cycles: of `count_cycles`.
        ready: columns that are taken as they are: `time.METRICS`, top-down, frequencies; and
            `time.TICKS`, which is no metric.
        group: the resctrl group of each.
        settings: what is set for the frequency of each.
        pollers: who polls where.
        undecided: rows where a thread may poll, which the next reading will tell.
        unattached: why the packets of a poller are unknown to which no NF source is attached.
        misses: as the tick before left them.
    """
    rows = len(topology.cpus)
    polled = np.zeros(rows, dtype=np.bool_)
    polled[list(pollers)] = True
    nobody: dict[int, Reading] = dict.fromkeys(undecided, _NOT_YET)
    no_nf = from_readings(nobody, rows, NO_NF)
    packets = from_readings(nobody | _packets(pollers, unattached), rows, NO_NF)
    received = from_readings(
        nobody | {row: _received(poller, packets[row]) for row, poller in pollers.items()},
        rows,
        NO_NF,
    )
    forwards = np.zeros(rows, dtype=np.bool_)
    forwards[[row for row, poller in pollers.items() if poller.forwards]] = True
    own = own_times(pollers, ready)
    clock = [own_clock(cycles.clock[row], own.get(row)) for row in range(rows)]
    busy = from_readings({row: _busy(poller) for row, poller in pollers.items()}, rows, NO_NF)
    of_cycles = from_readings(
        {row: _busy(poller, clock[row]) for row, poller in pollers.items()}, rows, NO_NF
    )
    shared = {row: why for row, poller in pollers.items() if (why := poller.shared(own[row]))}
    taken = from_readings(
        {
            row: poller.uncounted(own[row])
            or own_cycles(cycles.per_s[row], cycles.clock[row], own[row])
            for row, poller in pollers.items()
        },
        rows,
        NO_NF,
    )
    # Instructions and misses of what else ran there can't be told from the NFs' own.
    own_packets = from_readings(
        nobody
        | {
            row: poller.uncounted(own[row]) or shared.get(row) or packets[row]
            for row, poller in pollers.items()
        },
        rows,
        NO_NF,
    )
    poller = [pollers.get(row) for row in range(rows)]
    misses, per_packet = step_misses(
        misses, rates, own_packets, [item.nf if item else None for item in poller]
    )
    cpp = where(polled, ratio(taken, packets), no_nf)
    columns = {
        "busy_ratio": where(forwards, busy, ready["cpu_time_ratio"]),
        "packets_per_s": packets,
        "rx_packets_per_s": received,
        "cpp": cpp,
        "busy_cpp": where(polled, product(cpp, of_cycles), no_nf),
        "ipp": where(polled, ratio(rates.rate("instructions"), own_packets), no_nf),
        "llc_misses_per_packet": where(polled, per_packet, no_nf),
        "run_ratio": from_readings(nobody | _shares(pollers, "run_ratio", min), rows, NO_NF),
        "wait_ratio": from_readings(nobody | _shares(pollers, "wait_ratio", max), rows, NO_NF),
        **{metric.id: metric.compute(rates) for metric in CPU_METRICS if metric.compute},
        **{name: item for name, item in ready.items() if name != TICKS},
    }
    columns |= sibling_columns(columns["busy_ratio"], rates, topology)
    return misses, CpuTable(
        topology=topology,
        online=online,
        thread=tuple(entry.thread if entry else None for entry in poller),
        nf=tuple(entry.nf[0] if entry and entry.nf else None for entry in poller),
        nf_pid=tuple(element.nf[1] if element and element.nf else None for element in poller),
        direction=tuple(
            element.cores[0][0].direction if element and element.cores else None
            for element in poller
        ),
        cpp_clock=tuple(
            candidate if has_cpp else None
            for candidate, has_cpp in zip(clock, cpp.present, strict=True)
        ),
        saturated=tuple(
            _saturated(candidate, own[row]) if candidate else None
            for row, candidate in enumerate(poller)
        ),
        attribution=tuple(_attribution(one) for one in poller),
        group=group,
        settings=settings,
        columns=columns,
        shared={topology.cpus[row].cpu: why for row, why in shared.items()},
    )


def _saturated(poller: Occupant, own: OwnTime | None) -> bool | None:
    if len(poller.cores) != 1 or poller.uncounted(own) is not None:
        return None
    core = poller.cores[0][1]
    return saturated(core.busy_ratio, core.run_ratio)


def _nf_cycles(poller: Occupant) -> Reading:
    """TSC cycles counted by the NFs: each counts all time, so one is enough."""
    readings = [core.nf_cycles_per_s for _, core in poller.cores]
    numbers = [reading for reading in readings if not isinstance(reading, Missing)]
    return max(numbers) if numbers else readings[0]


def _packets(
    pollers: Mapping[int, Occupant], unattached: Callable[[ThreadRate], Missing]
) -> dict[int, Reading]:
    return {
        row: total(core.packets_per_s for _, core in poller.cores)
        if poller.cores
        else unattached(poller.strangers[0])
        for row, poller in pollers.items()
    }


def _received(poller: Occupant, packets: Reading) -> Reading:
    """Packets received, which `packets` are not if an NF only sends."""
    sends = next((nf for nf, _ in poller.cores if nf.direction == "tx"), None)
    if sends is None:
        return packets
    return Missing(Reason.UNDEFINED, f"{sends.name} only sends here: see packets_per_s")


def _busy(poller: Occupant, clock: Clock | None = "tsc") -> Reading:
    """Share of the cycles of `clock` spent on work."""
    if not poller.cores:
        return _UNKNOWN_BUSY
    return poller.cores[0][1].busy_of(clock) if len(poller.cores) == 1 else _SHARED_BUSY


def _shares(
    pollers: Mapping[int, Occupant], share: str, worst: Callable[[Iterable[float]], float]
) -> dict[int, Reading]:
    """The worst share of the NFs' own threads, else of the first other poller."""
    readings: dict[int, Reading] = {}
    for row, poller in pollers.items():
        sources = [core for _, core in poller.cores] or poller.strangers
        shares: list[Reading] = [getattr(source, share) for source in sources]
        numbers = [item for item in shares if not isinstance(item, Missing)]
        readings[row] = worst(numbers) if numbers else shares[0]
    return readings


def _attribution(poller: Occupant | None) -> str:
    if poller is None:
        return ""
    attributions = dict.fromkeys(f"{nf.name}: {nf.attribution}" for nf, _ in poller.cores)
    # Who else is there is the first question where a poller waits.
    names = [f"{core.thread} of {nf.name}" for nf, core in poller.cores]
    names += [f"{rate.thread.label} (pid {rate.thread.pid})" for rate in poller.strangers]
    do = "poll" if all(rate.thread.role in NF_KINDS for rate in poller.strangers) else "never sleep"
    together = f"{len(names)} {do} here: {', '.join(names)}" if len(names) > 1 else ""
    return "; ".join(filter(None, (*attributions, together)))


def undecided_rows(topology: Topology, threads: Sequence[ThreadRate]) -> frozenset[int]:
    """Rows with a bound thread that may or may not poll."""
    bound = (rate.cpu for rate in threads if rate.polls is None)
    return frozenset(
        topology.row_of[cpu] for cpu in bound if cpu is not None and cpu in topology.row_of
    )


def _run(state: MissState, tick: FoldTick) -> tuple[MissState, CpuTable]:
    readings, threads, nfs = tick.sample.readings, tick.output(THREADS), tick.output(NFS)
    return cpu_table(
        tick.topology,
        online=online_rows(readings.get("kernel"), tick.topology),
        rates=tick.output(COUNTERS),
        cycles=tick.output(CYCLES),
        ready=tick.columns,
        group=effective_classes(tick.output(CACHE), threads, tick.topology),
        settings=tick.output(FREQUENCIES).settings,
        pollers=tick.output(POLLERS),
        undecided=undecided_rows(tick.topology, threads),
        unattached=lambda rate: unattached(rate, tick.sample, nfs),
        misses=state,
    )


CYCLES = stateless("cycles", lambda tick: count_cycles(tick.output(COUNTERS), tick.output(POLLERS)))
CPUS = FoldStage("cpus", MissState, _run, reset_on=TopologyChange.ROWS)
