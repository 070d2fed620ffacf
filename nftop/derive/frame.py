"""The frame of a tick, from the outputs of all stages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nftop.derive.absence import after_absence
from nftop.derive.cache.changes import CHANGES
from nftop.derive.cache.table import CACHE, disturbed
from nftop.derive.compare.baseline import BaselineState, step_baselines
from nftop.derive.cpu.counters import COUNTERS
from nftop.derive.cpu.frequencies import FREQUENCIES
from nftop.derive.cpu.table import CYCLES
from nftop.derive.cpu.time import CPU_TIMES
from nftop.derive.fold_stage import FoldStage, FoldTick, stateless
from nftop.derive.nf.cores import NfHostContext, with_cores
from nftop.derive.nf.netdev import NETDEV, kernel_row, with_kernel_details
from nftop.derive.nf.rates import NfRates
from nftop.derive.nf.row import nf_row
from nftop.derive.occupants import NFS, OWN_TIMES, POLLERS, unread
from nftop.derive.package.devices import DEVICES, with_users
from nftop.derive.package.relative import class_memory, package_loads, per_packet, utilisation
from nftop.derive.pcm.fold import SERVER
from nftop.derive.threads import THREADS, by_process
from nftop.derive.topdown.tma import FOCUS
from nftop.model.frame import CounterCost, CpuTable, Frame, NfRow, PackageRow, SelfCost, SourceState
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.nf.queue_map import QueueMap
from nftop.model.sample import ProcessFacts, Sample, SelfUse, SourceReading, ThreadTable
from nftop.model.struct import replace

# A reading that began this many ticks before the sample belongs to an earlier tick.
_LATE_TICKS = 0.1


def _nf_rows(tick: FoldTick) -> tuple[NfRow, ...]:
    topology, times, kernel = tick.topology, tick.output(CPU_TIMES), tick.output(NETDEV)
    rates, cycles, pollers = tick.output(COUNTERS), tick.output(CYCLES), tick.output(POLLERS)
    host = NfHostContext(
        tick.output(SERVER).cpus, tick.output(CACHE), by_process(tick.output(THREADS))
    )
    own = tick.output(OWN_TIMES)
    of_cores = rates.core_cycles, rates.rate("instructions")
    return (
        *(
            with_cores(
                nf_row(nf, topology, cycles, of_cores, pollers, of_all_nfs=own, times=times),
                nf,
                host,
            )
            for nf in tick.output(NFS)
        ),
        *(
            with_kernel_details(row, kernel, topology, times)
            for row in kernel_row(kernel, topology, cycles, times)
        ),
    )


def _packages(tick: FoldTick) -> tuple[PackageRow, ...]:
    shown = tick.output(SERVER)
    nfs: tuple[NfRow, ...] = tick.output(NF_ROWS)
    loads = package_loads(nfs, tick.output(NETDEV).interfaces, shown.cpus, tick.topology)
    memory = class_memory(tick.output(CACHE).groups, shown.cpus, tick.topology)
    rows = (
        per_packet(row, replace(loads[row.package], memory=memory[row.package]))
        for row in shown.packages
    )
    return tuple(utilisation(row, tick.topology, tick.host.uarch) for row in rows)


def _compare(
    state: BaselineState, tick: FoldTick
) -> tuple[BaselineState, tuple[BaselineState, CpuTable, tuple[NfRow, ...]]]:
    rows = tick.output(SERVER).cpus, tick.output(NF_ROWS)
    state, cpus, nfs = step_baselines(state, *rows, tick.sample.readings, tick.sample.wall_ns)
    return state, (state, cpus, nfs)


def _frame(tick: FoldTick) -> Frame:
    sample, previous = tick.sample, tick.previous
    classes, shown, kernel = tick.output(CACHE), tick.output(SERVER), tick.output(NETDEV)
    baseline, cpus, nfs = tick.output(BASELINES)
    forwarding = {
        tick.topology.cpus[row].cpu
        for row, poller in tick.output(POLLERS).items()
        if poller.forwards
    }
    remarks = {
        "dpdk": _unmatched(tick.queue_map, tick.output(NFS)),
        "resctrl": disturbed(classes, forwarding),
        "pcm": shown.remark,
    }
    elapsed_ns = None if previous is None else sample.monotonic_ns - previous.monotonic_ns
    return Frame(
        wall_ns=sample.wall_ns,
        monotonic_ns=sample.monotonic_ns,
        interval_s=None if elapsed_ns is None else elapsed_ns / 1e9,
        host=tick.host,
        topology=tick.topology,
        sources=_source_states(
            sample, remarks, unread(sample, tick.output(NFS), tick.output(THREADS))
        ),
        cpus=cpus,
        nfs=nfs,
        packages=tick.output(RELATIVE),
        groups=classes.groups,
        domains=classes.domains,
        own=tick.output(OWN_COST),
        limits=classes.limits,
        noticed=tick.output(CHANGES),
        focus=tick.output(FOCUS),
        accelerators=shown.accelerators,
        disagreement=shown.disagreement,
        baselines=baseline.kept,
        frequencies=tick.output(FREQUENCIES).table,
        interfaces=kernel.interfaces,
        devices=with_users(tick.output(DEVICES), tick.output(NF_ROWS)),
        processes=_processes(sample.readings.get("processes")),
    )


def _processes(reading: SourceReading[ThreadTable] | None) -> tuple[ProcessFacts, ...]:
    if reading is None or isinstance(reading.value, Missing):
        return ()
    return reading.value.facts


def _unmatched(queue_map: QueueMap, nfs: Sequence[NfRates]) -> str:
    """Remark on the source `dpdk` if the operator's map names an unknown prefix; else ""."""
    known = {nf.prefix for nf in nfs}
    odd = [prefix for prefix in queue_map if prefix not in known]
    return f"--queue-map names {', '.join(odd)}, and no application has that prefix" if odd else ""


def _source_states(
    sample: Sample, remarks: Mapping[str, str], closed: Mapping[str, Missing]
) -> Mapping[str, SourceState]:
    states = {}
    for name, reading in sample.readings.items():
        age_s = max((sample.monotonic_ns - reading.read_at_ns) / 1e9, 0.0)
        late_s = _late_s(reading, sample)
        if isinstance(reading.value, Missing):
            reason, detail = reading.value.reason, reading.value.message
        else:
            why = closed.get(name)
            reason = Reason.PRESENT if why is None else why.reason
            first = "" if why is None else why.message
            old = f"no answer in time: its numbers are up to {late_s:.1f} s old" if late_s else ""
            detail = "; ".join(
                filter(None, (first, old, reading.value.gaps, remarks.get(name, "")))
            )
        states[name] = SourceState(reason, detail, age_s, reading.took_ns / 1e9, late_s)
    return states


def _late_s(reading: SourceReading[object], sample: Sample) -> float:
    """Seconds before the tick that a late reading began; else 0."""
    began_ns = reading.read_at_ns - reading.took_ns // 2  # `read_at_ns` is the middle
    ahead_ns = sample.monotonic_ns - began_ns
    return ahead_ns / 1e9 if ahead_ns > _LATE_TICKS * sample.interval_ns else 0.0


def _known_use(
    before: SourceReading[SelfUse] | None, after: SourceReading[SelfUse] | None
) -> SourceReading[SelfUse] | None:
    if after is None or not isinstance(after.value, Missing):
        return after
    return after_absence(before, None, after.value)


def _own_cost(
    before: SourceReading[SelfUse] | None, after: SourceReading[SelfUse] | None
) -> SelfCost:
    now = Missing(Reason.SOURCE) if after is None else after.value
    if after is None or isinstance(now, Missing):
        why = now if isinstance(now, Missing) else Missing(Reason.SOURCE)
        return SelfCost(why, (), CounterCost(why, why), "")
    if before is None or isinstance(before.value, Missing):
        why = Missing(Reason.WARMING)
        return SelfCost(why, now.affinity, CounterCost(why, why), now.warning)
    elapsed_ns = after.read_at_ns - before.read_at_ns
    cpu_ratio: Reading = Missing(Reason.WARMING)
    if elapsed_ns > 0:
        cpu_ratio = (now.cpu_ns - before.value.cpu_ns) / elapsed_ns
    grown = {
        name: (use.reads - old.reads, use.interrupts - old.interrupts)
        for name, use in now.counters.items()
        if (old := before.value.counters.get(name)) is not None
    }
    by_source = {name: CounterCost(*map(float, item)) for name, item in grown.items()}
    together = CounterCost(*(float(sum(value[end] for value in grown.values())) for end in (0, 1)))
    return SelfCost(cpu_ratio, now.affinity, together, now.warning, by_source)


def _own(
    state: SourceReading[SelfUse] | None, tick: FoldTick
) -> tuple[SourceReading[SelfUse] | None, SelfCost]:
    reading = tick.sample.readings.get("self")
    return _known_use(state, reading), _own_cost(state, reading)


OWN_COST: FoldStage[SourceReading[SelfUse] | None, SelfCost] = FoldStage(
    "own_cost", lambda: None, _own
)
NF_ROWS = stateless("nf_rows", _nf_rows)
RELATIVE = stateless("relative", _packages)
BASELINES = FoldStage("baselines", BaselineState, _compare, lasting=True)
FRAME = stateless("frame", _frame)
