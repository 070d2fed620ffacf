"""The table of CPUs: counters, kernel times, NF rates and hyper-thread siblings by row."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from nftop.derive.cache.table import CACHE, effective_classes
from nftop.derive.cpu.counters import AWAITING_TURN, COUNTERS, CounterRates, tsc_hz
from nftop.derive.cpu.frequencies import FREQUENCIES
from nftop.derive.cpu.time import TICKS, online_rows
from nftop.derive.fold_stage import FoldStage, FoldTick, TopologyChange, stateless
from nftop.derive.occupants import (
    NFS,
    OWN_TIMES,
    POLLERS,
    Cycles,
    Occupant,
    OwnTime,
    own_clock,
    own_cycles,
    unattached,
)
from nftop.derive.package.power import POWER
from nftop.derive.packet_cost import costs_per_packet
from nftop.derive.saturation import UNKNOWN, Room, Saturation, room_of, saturation_of
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
from nftop.model.frame import Clock, CpuTable
from nftop.model.metrics.catalogue import CPU_METRICS
from nftop.model.missing import Missing, Reading, Reason, total
from nftop.model.nf.kinds import NF_KINDS
from nftop.model.struct import dataclass
from nftop.model.topology import Topology

T = TypeVar("T")
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
    now = costs_per_packet(rates.rate_by_cycles(_EVENT), packets)
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
    # Each thread counts the clocks of the whole core: take their mean.
    any_thread = _over(threads, rates.rate("cycles_any"), np.add)
    any_thread = Column(
        any_thread.values / count, any_thread.reasons, any_thread.details, any_thread.by_reason
    )
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
            row: ("" if at == row else _OF_SIBLING) + of.details[at]
            for row, at in zip(rows, source[rows].tolist(), strict=True)
            if at in of.details
        }
    reasons = np.where(gone, of.reasons[source], np.uint8(Reason.PRESENT))
    return Column(np.where(gone, np.nan, values), reasons, details, of.by_reason)


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


def _run(state: MissState, tick: FoldTick) -> tuple[MissState, CpuTable]:
    topology, rates, cycles = tick.topology, tick.output(COUNTERS), tick.output(CYCLES)
    pollers, threads = tick.output(POLLERS), tick.output(THREADS)
    own = tick.output(OWN_TIMES)
    clock = list(cycles.clock)
    for row, time in own.items():
        clock[row] = own_clock(clock[row], time)
    state, columns = _poller_columns(state, tick, own, clock)
    columns |= {metric.id: metric.compute(rates) for metric in CPU_METRICS if metric.compute}
    columns |= {name: item for name, item in tick.columns.items() if name != TICKS}
    columns |= sibling_columns(columns["busy_ratio"], rates, topology)
    has_cpp = columns["cpp"].present.tolist()
    owner = {row: one.nf for row, one in pollers.items()}
    full = {row: _saturation(one, own[row]) for row, one in pollers.items()}

    def of_rows(known: Iterable[tuple[int, T]], rest: T) -> tuple[T, ...]:
        result = [rest] * len(topology.cpus)
        for row, value in known:
            result[row] = value
        return tuple(result)

    return state, CpuTable(
        topology=topology,
        online=online_rows(tick.sample.readings.get("kernel"), topology),
        thread=of_rows(((row, one.thread) for row, one in pollers.items()), None),
        nf=of_rows(((row, nf[0]) for row, nf in owner.items() if nf), None),
        nf_pid=of_rows(((row, nf[1]) for row, nf in owner.items() if nf), None),
        direction=of_rows(
            ((row, one.cores[0][0].direction) for row, one in pollers.items() if one.cores), None
        ),
        cpp_clock=tuple(label if has else None for label, has in zip(clock, has_cpp, strict=True)),
        saturated=of_rows(((row, item.verdict) for row, item in full.items()), UNKNOWN.verdict),
        attribution=of_rows(((row, _attribution(one)) for row, one in pollers.items()), ""),
        group=effective_classes(tick.output(CACHE), threads, topology),
        settings=tick.output(FREQUENCIES).settings,
        columns=columns,
        shared={
            topology.cpus[row].cpu: why
            for row, one in pollers.items()
            if (why := one.shared(own[row]))
        },
        saturated_by={
            topology.cpus[row].cpu: item.by for row, item in sorted(full.items()) if item.by
        },
        sampled_s=tick.output(POWER).sampled_s,
    )


def _poller_columns(
    state: MissState,
    tick: FoldTick,
    own: Mapping[int, OwnTime | None],
    clock: Sequence[Clock | None],
) -> tuple[MissState, dict[str, Column]]:
    """Columns of the pollers; other rows have no NF, or NOT_YET where a thread may poll."""
    pollers, rates, cycles = tick.output(POLLERS), tick.output(COUNTERS), tick.output(CYCLES)
    rows, nfs = len(tick.topology.cpus), tick.output(NFS)
    undecided = _undecided_rows(tick.topology, tick.output(THREADS))
    others: dict[int, Reading] = dict.fromkeys(undecided, _NOT_YET)
    no_nf = from_readings(others, rows, NO_NF)
    polled, forwards = np.zeros((2, rows), dtype=np.bool_)
    polled[list(pollers)] = True
    owner_of = {row: poller.nf for row, poller in pollers.items()}
    forwards[[row for row, owner in owner_of.items() if owner is not None]] = True

    def of_pollers(reading: Callable[[int, Occupant], Reading]) -> Column:
        readings = {row: reading(row, poller) for row, poller in pollers.items()}
        return from_readings(others | readings, rows, NO_NF)

    def taken(row: int, poller: Occupant) -> Reading:
        uncounted = poller.uncounted(own[row])
        return uncounted or own_cycles(cycles.per_s[row], cycles.clock[row], own[row])

    def packets_of(poller: Occupant) -> Reading:
        if not poller.cores:
            return unattached(poller.other_threads[0], tick.sample, nfs)
        return total(core.packets_per_s for _, core in poller.cores)

    packets = of_pollers(lambda _, poller: packets_of(poller))
    rooms = {row: _room(poller, own[row]) for row, poller in pollers.items()}
    # On shared CPUs instructions and misses include other threads'.
    own_packets = of_pollers(
        lambda row, poller: poller.uncounted(own[row]) or poller.shared(own[row]) or packets[row]
    )
    owners = [owner_of.get(row) for row in range(rows)]
    state, per_packet = step_misses(state, rates, own_packets, owners)
    cpp = where(polled, costs_per_packet(of_pollers(taken), packets), no_nf)
    busy = of_pollers(lambda _, poller: _busy(poller))
    of_cycles = of_pollers(lambda row, poller: _busy(poller, clock[row]))
    return state, {
        "busy_ratio": where(forwards, busy, tick.columns["cpu_time_ratio"]),
        "packets_per_s": packets,
        "rx_packets_per_s": of_pollers(lambda row, poller: _received(poller, packets[row])),
        "cpp": cpp,
        "busy_cpp": where(polled, product(cpp, of_cycles), no_nf),
        "ipp": where(polled, costs_per_packet(rates.rate("instructions"), own_packets), no_nf),
        "llc_misses_per_packet": where(polled, per_packet, no_nf),
        "missed_packets_per_s": of_pollers(lambda row, poller: _missed(poller, packets[row])),
        "vector_fill_ratio": of_pollers(lambda _, poller: _of_core(poller, "vector_fill_ratio")),
        "room_ratio": of_pollers(lambda row, _: rooms[row].ratio),
        "room_packets_per_s": of_pollers(lambda row, _: rooms[row].packets_per_s),
        "run_ratio": of_pollers(lambda _, poller: _worst(poller, "run_ratio", min)),
        "wait_ratio": of_pollers(lambda _, poller: _worst(poller, "wait_ratio", max)),
    }


_SEVERAL = Missing(Reason.SOURCE, "several network functions poll on this CPU")


def _saturation(poller: Occupant, own: OwnTime | None) -> Saturation:
    if len(poller.cores) != 1 or poller.uncounted(own) is not None:
        return UNKNOWN
    nf, core = poller.cores[0]
    return saturation_of(core, nf.direction)


def _room(poller: Occupant, own: OwnTime | None) -> Room:
    why = poller.uncounted(own)
    if why is None and len(poller.cores) == 1:
        nf, core = poller.cores[0]
        return room_of(core, nf.direction)
    why = why or (_SHARED_BUSY if poller.cores else _UNKNOWN_BUSY)
    return Room(why, why)


def _of_core(poller: Occupant, name: str) -> Reading:
    """A number of the only core of an NF that polls here."""
    if not poller.cores:
        return _UNKNOWN_BUSY
    reading: Reading = getattr(poller.cores[0][1], name)
    return reading if len(poller.cores) == 1 else _SEVERAL


def _missed(poller: Occupant, packets: Reading) -> Reading:
    """Drops of all NFs that poll here; the reason of `packets` where none is known."""
    if not poller.cores:
        return packets
    return total(core.missed_packets_per_s for _, core in poller.cores)


def _nf_cycles(poller: Occupant) -> Reading:
    """TSC cycles counted by the NFs: each counts all time, so one is enough."""
    readings = [core.nf_cycles_per_s for _, core in poller.cores]
    numbers = [reading for reading in readings if not isinstance(reading, Missing)]
    return max(numbers) if numbers else readings[0]


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


def _worst(poller: Occupant, share: str, worst: Callable[[Iterable[float]], float]) -> Reading:
    """The worst share of the NFs' own threads, else of the other pollers."""
    sources = [core for _, core in poller.cores] or poller.other_threads
    shares: list[Reading] = [getattr(source, share) for source in sources]
    numbers = [item for item in shares if not isinstance(item, Missing)]
    return worst(numbers) if numbers else shares[0]


def _attribution(poller: Occupant) -> str:
    attributions = dict.fromkeys(f"{nf.name}: {nf.attribution}" for nf, _ in poller.cores)
    # Other pollers explain why a poller waits.
    names = [f"{core.thread} of {nf.name}" for nf, core in poller.cores]
    names += [f"{rate.thread.label} (pid {rate.thread.pid})" for rate in poller.other_threads]
    do = (
        "poll"
        if all(rate.thread.role in NF_KINDS for rate in poller.other_threads)
        else "never sleep"
    )
    together = f"{len(names)} {do} here: {', '.join(names)}" if len(names) > 1 else ""
    return "; ".join(filter(None, (*attributions, together)))


def _undecided_rows(topology: Topology, threads: Sequence[ThreadRate]) -> frozenset[int]:
    """Rows with a bound thread that may or may not poll."""
    bound = (rate.cpu for rate in threads if rate.polls is None)
    return frozenset(
        topology.row_of[cpu] for cpu in bound if cpu is not None and cpu in topology.row_of
    )


CYCLES = stateless("cycles", lambda tick: count_cycles(tick.output(COUNTERS), tick.output(POLLERS)))
CPUS = FoldStage("cpus", MissState, _run, reset_on=TopologyChange.ROWS)
