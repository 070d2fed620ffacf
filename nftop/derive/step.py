"""The fold itself: one sample in, one frame out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from nftop.derive.counters import CounterState, step_counters
from nftop.derive.cpus import Cycles, Occupant, count_cycles, cpu_table, occupants
from nftop.derive.cputime import CpuTimeState, online_rows, step_cpu_times
from nftop.derive.dpdk import step_dpdk
from nftop.derive.nf import NfRates, product, quotient, total
from nftop.derive.threads import ThreadRate, ThreadState, step_threads
from nftop.model.column import Column
from nftop.model.frame import Frame, NfRow, SelfCost, SourceState
from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.queue_map import QueueMap
from nftop.model.reading import Missing, Reading, Reason
from nftop.model.sample import Sample, SelfUse, SourceReading
from nftop.model.topology import Host, Topology

# A reading older than this many ticks, and than a second, says nothing about this tick.
_STALE_TICKS = 2.5
_STALE_AT_LEAST_S = 1.0

# Sources that count packets, and the stage that rates each: (its state or None, its reading,
# the threads' rates, the operator's queue map) -> (its state, its NFs).
NF_STAGES: Mapping[str, Callable[..., tuple[Any, tuple[NfRates, ...]]]] = MappingProxyType(
    {"dpdk": step_dpdk}
)


@dataclass(frozen=True, slots=True)
class State:
    """All that a frame needs besides its sample."""

    host: Host
    topology: Topology
    queue_map: QueueMap = field(default_factory=dict)
    before: Sample | None = None
    counters: CounterState = field(default_factory=CounterState)
    cpu_times: CpuTimeState = field(default_factory=CpuTimeState)
    threads: ThreadState = field(default_factory=ThreadState)
    nfs: Mapping[str, Any] = field(default_factory=dict)
    own: SourceReading[SelfUse] | None = None


def step(state: State, sample: Sample) -> tuple[State, Frame]:
    """Fold one sample in.

    Every rate uses the clock of the source that counted, so a source that is late or slow has no
    effect on another's numbers. A reading that was rated before is not rated again.
    """
    topology = state.topology
    interval_s = _interval_s(state.before, sample)
    readings = {name: _fresh(one, sample, interval_s) for name, one in sample.readings.items()}
    counters, rates = step_counters(state.counters, readings.get("perf"), topology)
    cpu_times, times = step_cpu_times(state.cpu_times, readings.get("kernel"), topology)
    threads, thread_rates = step_threads(state.threads, readings.get("processes"))
    nf_states, nfs = _step_nfs(state, readings, thread_rates)
    pollers = occupants(topology, nfs, thread_rates)
    table = cpu_table(
        topology,
        online=online_rows(readings.get("kernel"), topology),
        rates=rates,
        times=times,
        pollers=pollers,
        unattached=_unattached([readings.get(name) for name in NF_STAGES]),
    )
    cycles = count_cycles(rates, pollers)
    own = readings.get("self")
    frame = Frame(
        wall_ns=sample.wall_ns,
        monotonic_ns=sample.monotonic_ns,
        interval_s=interval_s,
        host=state.host,
        sources=_source_states(readings, sample),
        cpus=table,
        nfs=tuple(_nf_row(nf, topology, cycles, rates.rate("instructions")) for nf in nfs),
        own=_own_cost(state.own, own, topology, pollers),
    )
    after = replace(
        state,
        before=sample,
        counters=counters,
        cpu_times=cpu_times,
        threads=threads,
        nfs=nf_states,
        own=own,
    )
    return after, frame


def polling_cpus(frame: Frame) -> frozenset[Cpu]:
    """The CPUs on which something polls in this frame."""
    table = frame.cpus
    return frozenset(
        info.cpu
        for info, thread in zip(table.topology.cpus, table.thread, strict=True)
        if thread is not None
    )


def _step_nfs(
    state: State, readings: Mapping[str, SourceReading[Any]], threads: Sequence[ThreadRate]
) -> tuple[Mapping[str, Any], tuple[NfRates, ...]]:
    states: dict[str, Any] = {}
    rates: list[NfRates] = []
    for source, stage in NF_STAGES.items():
        states[source], found = stage(
            state.nfs.get(source), readings.get(source), threads, state.queue_map
        )
        rates += found
    return states, tuple(rates)


def _interval_s(before: Sample | None, sample: Sample) -> float | None:
    return None if before is None else (sample.monotonic_ns - before.monotonic_ns) / 1e9


def _fresh(
    reading: SourceReading[Any], sample: Sample, interval_s: float | None
) -> SourceReading[Any]:
    """The reading, or STALE in its place when it is too old to speak for this tick."""
    age_s = (sample.monotonic_ns - reading.read_at_ns) / 1e9
    limit_s = max(_STALE_TICKS * (interval_s or 0.0), _STALE_AT_LEAST_S)
    if isinstance(reading.value, Missing) or age_s <= limit_s:
        return reading
    return replace(reading, value=Missing(Reason.STALE, f"has not answered for {age_s:.0f} s"))


def _source_states(
    readings: Mapping[str, SourceReading[Any]], sample: Sample
) -> Mapping[str, SourceState]:
    states = {}
    for name, reading in readings.items():
        age_s = max((sample.monotonic_ns - reading.read_at_ns) / 1e9, 0.0)
        if isinstance(reading.value, Missing):
            reason, detail = reading.value.reason, reading.value.sentence
        else:
            reason, detail = Reason.PRESENT, reading.value.gaps
        states[name] = SourceState(reason, detail, age_s, reading.took_ns / 1e9)
    return states


def _unattached(readings: Sequence[SourceReading[Any] | None]) -> Missing:
    """Why a poller's packets are unknown: an NF source that failed or may not look, else none."""
    values: list[Any] = [reading.value for reading in readings if reading is not None]
    for value in values:
        if isinstance(value, Missing):
            return value
    hidden = [text for value in values for text in value.hidden]
    if hidden:
        return Missing(Reason.PERMISSION, "; ".join(hidden))
    return Missing(Reason.SOURCE, "it polls, but no statistics of it were found")


def _nf_row(nf: NfRates, topology: Topology, cycles: Cycles, instructions: Column) -> NfRow:
    rows = [topology.row_of[core.cpu] for core in nf.cores if core.cpu in topology.row_of]
    nobody = Missing(Reason.SOURCE, "none of its threads is known to poll")
    # With a core outside the table (--cpu-list) the sum would be a part passed off as the whole.
    if len(rows) < len(nf.cores):
        rows, nobody = [], Missing(Reason.SOURCE, "some of its cores are left out by --cpu-list")
    all_cycles = total((cycles.per_s[row] for row in rows), nobody)
    busy_cycles = total(
        (
            product(core.busy_ratio, cycles.per_s[row])
            for row, core in zip(rows, nf.cores, strict=bool(rows))
        ),
        nobody,
    )
    all_instructions = total((instructions[row] for row in rows), nobody)
    return NfRow(
        key=nf.key,
        name=nf.name,
        kind=nf.kind,
        pid=nf.pid,
        cpus=tuple(sorted(core.cpu for core in nf.cores)),
        interval_s=nf.interval_s,
        attribution=nf.attribution,
        problem=nf.problem,
        readings={
            "rx_packets_per_s": nf.rx_packets_per_s,
            "tx_packets_per_s": nf.tx_packets_per_s,
            "drop_packets_per_s": nf.drop_packets_per_s,
            "cpp": quotient(all_cycles, nf.packets_per_s),
            "busy_cpp": quotient(busy_cycles, nf.packets_per_s),
            "ipp": quotient(all_instructions, nf.packets_per_s),
        },
    )


def _own_cost(
    before: SourceReading[SelfUse] | None,
    after: SourceReading[SelfUse] | None,
    topology: Topology,
    pollers: Mapping[int, Occupant],
) -> SelfCost:
    now = Missing(Reason.SOURCE) if after is None else after.value
    if after is None or isinstance(now, Missing):
        why = now if isinstance(now, Missing) else Missing(Reason.SOURCE)
        return SelfCost(why, (), why, "")
    warning = _placement_warning(
        now.affinity, topology, [topology.cpus[row].cpu for row in pollers]
    )
    if before is None or isinstance(before.value, Missing):
        why = Missing(Reason.WARMING)
        return SelfCost(why, now.affinity, why, warning)
    elapsed_ns = after.read_at_ns - before.read_at_ns
    cpu_ratio: Reading = Missing(Reason.WARMING)
    if elapsed_ns > 0:
        cpu_ratio = (now.cpu_ns - before.value.cpu_ns) / elapsed_ns
    reads = float(now.counter_reads - before.value.counter_reads)
    return SelfCost(cpu_ratio, now.affinity, reads, warning)


def _placement_warning(affinity: Sequence[Cpu], topology: Topology, polling: Sequence[Cpu]) -> str:
    shared = set(affinity) & set(polling)
    if shared:
        return f"nftop may run on CPU {format_cpu_list(shared)}, where something polls"
    beside = set(affinity) & topology.with_siblings(polling)
    if beside:
        return f"nftop may run on CPU {format_cpu_list(beside)}, a sibling of a polling CPU"
    return ""
