"""The fold itself: one sample in, one frame out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nftop.derive.absence import after_absence
from nftop.derive.cache.changes import ChangeState, step_changes
from nftop.derive.cache.table import (
    CacheState,
    classes_reading,
    disturbed,
    effective_classes,
    step_cache,
)
from nftop.derive.compare.baseline import BaselineState, step_baselines
from nftop.derive.cpu.counters import CounterRates, CounterState, step_counters
from nftop.derive.cpu.frequencies import FrequencyState, step_frequencies
from nftop.derive.cpu.table import MissState, count_cycles, cpu_table, tsc_hz, undecided_rows
from nftop.derive.cpu.time import CpuTimeState, online_rows, step_cpu_times
from nftop.derive.findings.engine import FindingState, step_findings
from nftop.derive.nf.cores import Beside, with_cores
from nftop.derive.nf.netdev import (
    NetdevState,
    kernel_row,
    step_netdev,
    with_kernel_parts,
    without_rows,
)
from nftop.derive.nf.rates import NfContext, NfRates
from nftop.derive.nf.registry import NfMemory
from nftop.derive.nf.row import nf_row
from nftop.derive.nf.table import step_nfs
from nftop.derive.occupants import occupants
from nftop.derive.package.table import PackageState, step_packages
from nftop.derive.pcm.fold import ServerState, step_server
from nftop.derive.threads import ThreadRate, ThreadState, step_threads
from nftop.derive.topdown.group_ratios import ShareState
from nftop.derive.topdown.tma import (
    FocusState,
    brings_topdown,
    kernel_tma_columns,
    step_focus,
    tma_columns,
)
from nftop.model.baseline import Baselines
from nftop.model.column import Column, missing
from nftop.model.frame import CounterCost, Frame, SelfCost, SourceState
from nftop.model.ids import Cpu
from nftop.model.metrics.tma import TMA_METRICS
from nftop.model.nf.kinds import NF_KINDS
from nftop.model.nf.queue_map import QueueMap
from nftop.model.reading import Missing, Reading, Reason
from nftop.model.sample import (
    CounterTable,
    ProcessFacts,
    Sample,
    SelfUse,
    SourceReading,
    ThreadTable,
)
from nftop.model.struct import dataclass, field, replace
from nftop.model.topology import Host, Topology
from nftop.uarch.table import Uarch

# A reading older than this many ticks, and than a second, says nothing about this tick.
_STALE_TICKS = 2.5
_STALE_AT_LEAST_S = 1.0
# What was begun so long before the tick is of a tick before: of this one nothing is begun earlier.
_LATE_TICKS = 0.1


@dataclass(frozen=True, slots=True)
class State:
    """All that a frame needs besides its sample.

    `uarch` is the CPU's table, for the numbers only it explains; `queue_map` is the operator's.
    """

    host: Host
    topology: Topology
    uarch: Uarch | None = None
    queue_map: QueueMap = field(default_factory=dict)
    before: Sample | None = None
    counters: CounterState = field(default_factory=CounterState)
    cpu_times: CpuTimeState = field(default_factory=CpuTimeState)
    threads: ThreadState = field(default_factory=ThreadState)
    nfs: Mapping[str, NfMemory] = field(default_factory=dict)
    packages: PackageState = field(default_factory=PackageState)
    cache: CacheState = field(default_factory=CacheState)
    changes: ChangeState = field(default_factory=ChangeState)
    shares: ShareState = field(default_factory=ShareState)
    focus: FocusState = field(default_factory=FocusState)
    misses: MissState = field(default_factory=MissState)
    server: ServerState = field(default_factory=ServerState)
    baseline: BaselineState = field(default_factory=BaselineState)
    frequencies: FrequencyState = field(default_factory=FrequencyState)
    netdev: NetdevState = field(default_factory=NetdevState)
    findings: FindingState = field(default_factory=FindingState)
    own: SourceReading[SelfUse] | None = None


def step(state: State, sample: Sample) -> tuple[State, Frame]:
    """Fold one sample in.

    Every rate uses the clock of the source that counted, so a source that is late or slow has no
    effect on another's numbers. A reading that was rated before is not rated again.
    """
    readings = {name: _fresh(one, sample) for name, one in sample.readings.items()}
    state = _with_topology(state, readings.get("topology"))
    topology = state.topology
    counters, rates = step_counters(state.counters, readings.get("perf"), topology)
    cpu_times, times = step_cpu_times(state.cpu_times, readings.get("kernel"), topology)
    netdev, kernel = step_netdev(state.netdev, readings.get("netdev"), topology)
    threads, thread_rates = step_threads(
        state.threads,
        readings.get("processes"),
        {info.cpu for info in topology.cpus if info.nohz_full},
    )
    around = NfContext(thread_rates, state.queue_map, tsc_hz(rates))
    nf_states, nfs = step_nfs(state.nfs, readings, around)
    pollers = occupants(topology, nfs, thread_rates)
    cycles = count_cycles(rates, pollers)
    packages, package_rows = step_packages(
        state.packages, readings.get("uncore"), state.uarch, topology
    )
    told_of_classes = classes_reading(readings)
    cache, classes = step_cache(state.cache, told_of_classes, topology)
    changes = step_changes(state.changes, told_of_classes, thread_rates, sample.wall_ns)
    forwarding = {topology.cpus[row].cpu for row, who in pollers.items() if who.forwards}
    focus, looked_at = step_focus(state.focus, readings.get("perf"), state.uarch, topology)
    shares, tma = _topdown(state, readings.get("perf"), rates, topology)
    frequencies = step_frequencies(state.frequencies, readings.get("cpufreq"), topology)
    misses, counted = cpu_table(
        topology,
        online=online_rows(readings.get("kernel"), topology),
        rates=rates,
        cycles=cycles,
        ready={**times, **kernel.columns, **tma, **frequencies.columns},
        group=effective_classes(classes, thread_rates, topology),
        settings=frequencies.settings,
        pollers=pollers,
        undecided=undecided_rows(topology, thread_rates),
        unattached=lambda rate: _unattached(rate, readings, nfs),
        misses=state.misses,
    )
    server, shown = step_server(
        state.server, readings.get("pcm"), counted, package_rows, readings.keys(),
        pace_s=sample.interval_ns / 1e9,
    )  # fmt: skip
    beside = Beside(shown.cpus, classes, thread_rates)
    of_cores = rates.core_cycles, rates.rate("instructions")
    rows = (
        *(
            with_cores(nf_row(nf, topology, cycles, of_cores, pollers, times=times), nf, beside)
            for nf in nfs
        ),
        *(
            with_kernel_parts(row, kernel, topology, times)
            for row in kernel_row(kernel, topology, cycles, times)
        ),
    )
    baseline, cpus, rows = step_baselines(
        state.baseline, shown.cpus, rows, readings, sample.wall_ns
    )
    remarks = {
        "dpdk": _unmatched(state.queue_map, nfs),
        "resctrl": disturbed(classes, forwarding),
        "pcm": shown.remark,
    }
    own = readings.get("self")
    frame = Frame(
        wall_ns=sample.wall_ns,
        monotonic_ns=sample.monotonic_ns,
        interval_s=_interval_s(state.before, sample),
        host=state.host,
        topology=topology,
        sources=_source_states(readings, sample, remarks),
        cpus=cpus,
        nfs=rows,
        packages=shown.packages,
        groups=classes.groups,
        domains=classes.domains,
        own=_own_cost(state.own, own),
        limits=classes.limits,
        noticed=changes.noticed,
        focus=looked_at,
        accelerators=shown.accelerators,
        apart=shown.apart,
        baselines=baseline.kept,
        frequencies=frequencies.told,
        interfaces=kernel.interfaces,
        processes=_processes(readings.get("processes")),
    )
    crowd = {row: who.others for row, who in pollers.items()}
    findings, found = step_findings(state.findings, frame, crowd, pace_s=sample.interval_ns / 1e9)
    after = replace(
        state,
        before=sample,
        counters=counters,
        cpu_times=cpu_times,
        threads=threads,
        nfs=nf_states,
        packages=packages,
        cache=cache,
        changes=changes,
        shares=shares,
        focus=focus,
        server=server,
        baseline=baseline,
        frequencies=frequencies,
        netdev=netdev,
        misses=misses,
        findings=findings,
        own=_known_use(state.own, own),
    )
    return after, replace(frame, findings=found)


def _processes(reading: SourceReading[ThreadTable] | None) -> tuple[ProcessFacts, ...]:
    if reading is None or isinstance(reading.value, Missing):
        return ()
    return reading.value.facts


def _topdown(
    state: State,
    reading: SourceReading[CounterTable] | None,
    rates: CounterRates,
    topology: Topology,
) -> tuple[ShareState, Mapping[str, Column]]:
    """The columns of top-down, by the formulas that came with the counts where some did."""
    table = None if reading is None else reading.value
    if isinstance(table, Missing):
        why = missing(len(topology.cpus), table)
        return after_absence(state.shares, ShareState(), table), {
            metric.id: why for metric in TMA_METRICS
        }
    if table is not None and brings_topdown(table):
        return ShareState(), kernel_tma_columns(table, rates)
    return tma_columns(state.shares, state.uarch, rates, topology)


def comparing(state: State, kept: Baselines | None) -> State:
    """The state that compares with this from the next sample on; None: with nothing."""
    return replace(state, baseline=replace(state.baseline, kept=kept))


def polling_cpus(frame: Frame) -> frozenset[Cpu]:
    """The CPUs on which a network function polls in this frame.

    Not those where any other program spins: to keep off them too could leave only an NF's.
    """
    table = frame.cpus
    return frozenset(
        info.cpu for info, nf in zip(table.topology.cpus, table.nf, strict=True) if nf is not None
    )


def _with_topology(state: State, reading: SourceReading[Topology] | None) -> State:
    """The state with the newest topology; what was rated by rows starts over when rows change.

    A CPU that goes offline, or comes back, changes its own entry and its siblings', and keeps its
    row: then all others go on, and its own counters are missing in, or new to, the next tables. So
    do packages, unless it was the last CPU of one.
    """
    if reading is None or isinstance(reading.value, Missing):
        return state
    if reading.value is state.topology or reading.value == state.topology:
        return state
    old, new = state.topology, reading.value
    if [info.cpu for info in old.cpus] == [info.cpu for info in new.cpus]:
        state = replace(state, topology=new, focus=FocusState())
        if old.packages == new.packages:
            return state
        return replace(state, packages=PackageState(), server=ServerState())
    return replace(
        state,
        topology=new,
        counters=CounterState(),
        shares=ShareState(),
        focus=FocusState(),
        misses=MissState(),
        cpu_times=CpuTimeState(),
        packages=PackageState(),
        server=ServerState(),
        netdev=without_rows(state.netdev),
    )


def _interval_s(before: Sample | None, sample: Sample) -> float | None:
    return None if before is None else (sample.monotonic_ns - before.monotonic_ns) / 1e9


def _fresh(reading: SourceReading[Any], sample: Sample) -> SourceReading[Any]:
    """The reading, or STALE in its place when it is too old to speak for this tick."""
    age_s = (sample.monotonic_ns - reading.read_at_ns) / 1e9
    if age_s <= max(_STALE_TICKS * sample.interval_ns / 1e9, _STALE_AT_LEAST_S):
        return reading
    return replace(reading, value=Missing(Reason.STALE, f"has not answered for {age_s:.0f} s"))


def _unmatched(queue_map: QueueMap, nfs: Sequence[NfRates]) -> str:
    """What to say of the source `dpdk` where the operator's map names nobody; "" where it does."""
    known = {nf.prefix for nf in nfs}
    odd = [prefix for prefix in queue_map if prefix not in known]
    return f"--queue-map names {', '.join(odd)}, and no application has that prefix" if odd else ""


def _source_states(
    readings: Mapping[str, SourceReading[Any]], sample: Sample, remarks: Mapping[str, str]
) -> Mapping[str, SourceState]:
    states = {}
    for name, reading in readings.items():
        age_s = max((sample.monotonic_ns - reading.read_at_ns) / 1e9, 0.0)
        late_s = _late_s(reading, sample)
        if isinstance(reading.value, Missing):
            reason, detail = reading.value.reason, reading.value.message
        else:
            reason = Reason.PRESENT
            old = f"no answer in time: its numbers are up to {late_s:.1f} s old" if late_s else ""
            detail = "; ".join(filter(None, (old, reading.value.gaps, remarks.get(name, ""))))
        states[name] = SourceState(reason, detail, age_s, reading.took_ns / 1e9, late_s)
    return states


def _late_s(reading: SourceReading[Any], sample: Sample) -> float:
    """How long before the tick a reading was begun that is not of the tick; else 0."""
    began_ns = reading.read_at_ns - reading.took_ns // 2  # `read_at_ns` is the middle
    ahead_ns = sample.monotonic_ns - began_ns
    return ahead_ns / 1e9 if ahead_ns > _LATE_TICKS * sample.interval_ns else 0.0


def _unattached(
    rate: ThreadRate, readings: Mapping[str, SourceReading[Any]], nfs: Sequence[NfRates]
) -> Missing:
    """Why nothing is known of a poller's packets: what its kind's source says, if it has one."""
    kind = NF_KINDS.get(rate.thread.role)
    reading = readings.get(kind) if kind is not None else None
    if kind is None:
        return Missing(Reason.UNDEFINED, "what polls here is no network function that nftop knows")
    if reading is None:
        return Missing(Reason.SOURCE, f"nftop does not read {kind} statistics here")
    if isinstance(reading.value, Missing):
        return reading.value
    why = _of_its_process(rate, nfs)
    if why is None and rate.thread.container is not False and reading.value.hidden:
        why = Missing(Reason.PERMISSION, "; ".join(reading.value.hidden))
    if why is not None:
        return why
    hint = "; ".join(("it polls, but no statistics of it were found", *reading.value.hidden))
    return Missing(Reason.SOURCE, hint)


def _of_its_process(rate: ThreadRate, nfs: Sequence[NfRates]) -> Missing | None:
    """Why a poller has no packets although its process is known; None where that tells nothing."""
    known = next((nf for nf in nfs if nf.pid == rate.thread.pid), None)
    if known is None or known.problem is not None:
        return None if known is None else known.problem
    if rate.thread.role == "vpp_main":
        return Missing(Reason.IDLE, f"{known.name}'s main thread: only its workers receive")
    return None


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
