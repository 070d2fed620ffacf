"""A frame: everything that is shown of one tick. The same when live, replayed and simulated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from nftop.model.baseline import Baselines
from nftop.model.change import Noticed
from nftop.model.column import Column
from nftop.model.ids import Cpu, L3Domain, Package
from nftop.model.incident import Incident
from nftop.model.nf.netdev import InterfaceRow
from nftop.model.nf.parts import NOT_REPORTED, NfNode, NfPort, NfQueue, NfThread
from nftop.model.owner import Owner
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import CacheDomain, L2Mask, Limits, MbaUnit
from nftop.model.reading import Missing, Reading, Reason
from nftop.model.sample import ProcessFacts
from nftop.model.sst import NOT_READ, CpufreqTable, CpuSetting
from nftop.model.struct import dataclass, field
from nftop.model.topology import Host, Topology


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that holds for one subject. It states numbers, never causes.

    Attributes:
        rule: id of the rule; `nftop explain RULE` has its limit, source and conditions.
        metric: catalogue id of its metric.
        where: `cpu 12`, `cpu 12,56` (one core), `nf vpp`, `package 0`, `class vpp, L3 0` (untrusted
            text: names of groups and network functions).
        text: numbers of the last tick beyond the limit, then the current ones if they no longer are
            (untrusted text).
        since_ns: wall time of the first tick beyond the limit.
        is_note: nothing is wrong; it explains a misleading number.
        is_ending: it is not beyond its limit at this tick, or without a value.
        is_muted: the operator muted its rule for it.
    """

    rule: str
    metric: str
    where: str
    text: str
    since_ns: int
    is_note: bool = False
    is_ending: bool = False
    is_muted: bool = False


SCHEMA = "nftop.frame/1"

_NO_COVERAGE = Missing(Reason.SOURCE)

# `_by_run`: cycles of that clock, divided by run time between the threads of a CPU; an estimate.
Clock: TypeAlias = Literal["core", "tsc", "nf", "core_by_run", "tsc_by_run", "nf_by_run"]
BY_RUN: Mapping[Clock, Clock] = {"core": "core_by_run", "tsc": "tsc_by_run", "nf": "nf_by_run"}
# What `cpp` is counted in, for a panel.
CLOCK_TEXTS: Mapping[str, str] = {
    "core": "core cycles",
    "tsc": "cycles of the time stamp counter, not of the core",
    "nf": "cycles of the NF's own clock, not of the core",
    "core_by_run": "core cycles, of shared CPUs the share that its threads ran (RUN)",
    "tsc_by_run": "cycles of the time stamp counter, the share that its threads ran (RUN)",
    "nf_by_run": "cycles of the NF's own clock, the share that its threads ran (RUN)",
}
Direction: TypeAlias = Literal["rx", "tx"]


def base_clock(clock: str | None) -> str | None:
    """The clock without `_by_run`: cycles of the same clock can be compared and added."""
    return None if clock is None else clock.removesuffix("_by_run")


@dataclass(frozen=True, slots=True)
class SourceState:
    """State of one source.

    Attributes:
        reason: PRESENT if it works.
        detail: what is missing all the same; "" for nothing.
        age_s: age of its reading at the tick; None if it never gave one.
        late_s: seconds before the tick that a late reading began, so its greatest age; else 0.
    """

    reason: Reason
    detail: str
    age_s: float | None
    took_s: float | None
    late_s: float = 0.0


@dataclass(frozen=True, slots=True)
class CacheClass:
    """A resctrl group: its name (untrusted text) and the hardware's class, if known.

    `of`: it is the CPU's own, or that of a task that polls there, which takes precedence.
    """

    name: str
    clos: int | None
    of: Literal["cpu", "task"] = "cpu"


@dataclass(frozen=True, slots=True)
class CpuTable:
    """One row per CPU shown, in `topology.cpus` order; each tuple and column has n rows.

    Attributes:
        topology: the CPUs shown; the frame's own has them all.
        online: which CPUs were online at this tick.
        thread: name of the NF thread or poller on it (untrusted text); None where there is none.
        nf, nf_pid: name and process of the NF it works for, None where there is none.
        direction: whether its packets are those received or those sent; None without an NF.
        cpp_clock: what counted the cycles of `cpp` (see `Clock`); None without a CPP.
        saturated: whether it was busy all the time, so that CPP is the cost of a packet; None
            where the NF does not tell.
        attribution: how packets were put on this CPU, in words; "" where none were.
        group: the resctrl group whose class counts on it: of the pollers' own where they are in
            one, else of the CPU's, which every other task has that is in none; or why that is
            unknown.
        settings: what is set for its frequency, and which of SST-BF's kinds it is.
        columns: by metric id of the catalogue, scope `cpu`; every such metric is there. In a frame
            a `Block`.
        origins: by metric id, for each row the source of its number where that is not the metric's
            first choice, else None; metrics of which no row has such a number are absent.
        shared: by CPU, why the instructions, misses and slots counted there are not those of its
            network functions alone; CPUs where they are, or where nothing polls, are absent.
    """

    topology: Topology
    online: tuple[bool, ...]
    thread: tuple[str | None, ...]
    nf: tuple[str | None, ...]
    nf_pid: tuple[int | None, ...]
    direction: tuple[Direction | None, ...]
    cpp_clock: tuple[Clock | None, ...]
    saturated: tuple[bool | None, ...]
    attribution: tuple[str, ...]
    group: tuple[CacheClass | Missing, ...]
    settings: tuple[CpuSetting, ...]
    columns: Mapping[str, Column]
    origins: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    shared: Mapping[Cpu, Missing] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.topology.cpus)


@dataclass(frozen=True, slots=True)
class NfRow:
    """One network function.

    Attributes:
        key: identity over ticks: pid and start time, or the socket's path before those are known.
        name: what the operator calls it (untrusted text): program and, if it is not the default,
            EAL prefix.
        kind: `dpdk`, `ovs`, `vpp`, `kernel`.
        cpus: the CPUs whose threads poll for it.
        direction: whether its CPP divides by packets received or, where it only sends, sent.
        cpp_clock: where the cycles of its CPP came from; None without a CPP.
        saturated: whether all its polling cores were busy all the time; None where it does not
            tell.
        interval_s: the NF's own clock between its last two readings; None before the second. 0
            where a frame before had them already, as where the NF is late: rate x interval, summed
            over frames, is what it counted.
        attribution: how its packets were put on CPUs, in words.
        problem: why its counters are not current; None when they are.
        readings: by metric id of the catalogue, scope `nf`; every such metric is there.
        threads: those that poll for it. ports, queues, nodes: as far as it tells, else why not.
        classes: the cache classes that count on its CPUs, each once.
        sharers: who else is in them, in words; "" for nobody.
        owner: user whose socket tells its numbers; None if there is no socket, or it is not known.
        shared: why the instructions, misses and slots counted on its CPUs are not its alone; None
            where they are.
    """

    key: str
    name: str
    kind: str
    pid: int
    cpus: tuple[Cpu, ...]
    direction: Direction
    cpp_clock: Clock | None
    saturated: bool | None
    interval_s: float | None
    attribution: str
    problem: Missing | None
    readings: Mapping[str, Reading]
    threads: tuple[NfThread, ...] = ()
    ports: tuple[NfPort, ...] | Missing = NOT_REPORTED
    queues: tuple[NfQueue, ...] | Missing = NOT_REPORTED
    nodes: tuple[NfNode, ...] | Missing = NOT_REPORTED
    classes: tuple[CacheClass, ...] = ()
    sharers: str = ""
    owner: Owner | None = None
    shared: Missing | None = None


@dataclass(frozen=True, slots=True)
class BoxTraffic:
    """Traffic of one box of a package: a memory channel, or a link to another package.

    `number` is the kernel's, as in `uncore_imc_3`.
    """

    number: int
    in_bytes_per_s: Reading
    out_bytes_per_s: Reading


@dataclass(frozen=True, slots=True)
class PackageRow:
    """One package: its memory and what devices ask of it.

    Attributes:
        readings: by metric id of the catalogue, scope `package`; every such metric is there.
        estimates: the ids of those whose counters were on the hardware too little of the time: see
            `metric.ESTIMATE_BELOW`.
        channels: memory by channel, bytes read and written per second; empty where none is counted.
        links: UPI or QPI by link, bytes received and sent per second; empty where none is counted.
        origins: by metric id, the source of its number where that is not the metric's first choice;
            by `links`, that of links.
        sampled_s: by metric id, the age of numbers that are counted now and then, in seconds.
    """

    package: Package
    readings: Mapping[str, Reading]
    estimates: frozenset[str] = frozenset()
    channels: tuple[BoxTraffic, ...] = ()
    links: tuple[BoxTraffic, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict)
    sampled_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Accelerator:
    """An accelerator of the host (DSA, IAA, QAT), named as by pcm-sensor-server.

    Attributes:
        name: untrusted text.
        per_s: counts per second by counter (untrusted text).
    """

    name: str
    per_s: Mapping[str, Reading]


@dataclass(frozen=True, slots=True)
class GroupCacheRow:
    """One cache class in one last-level cache.

    Attributes:
        cbm: its mask, or why it has none; with CDP that of data.
        code: with CDP the mask of code; None without.
        mba: its limit on memory bandwidth in the group's unit, or why it has none.
        readings: by metric id of the catalogue, scope `group`; every such metric is there.
        metered_at_ns: CLOCK_MONOTONIC when its counters were read; 0 where none was.
    """

    l3: L3Domain
    cbm: Cbm | Missing
    code: Cbm | None
    mba: Reading
    readings: Mapping[str, Reading]
    metered_at_ns: int = 0


@dataclass(frozen=True, slots=True)
class MonitorRow:
    """A monitoring group: a part of a cache class with its own counters.

    Attributes:
        name: its directory's name (untrusted text). rmid: the hardware's monitor, if known.
        owner: program that its name belongs to; None if unknown.
        readings: by cache and metric id of the catalogue, scope `group`, `capacity_bytes` aside.
    """

    name: str
    rmid: int | None
    cpus: tuple[Cpu, ...]
    owner: str | None
    readings: Mapping[L3Domain, Mapping[str, Reading]]


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One resctrl control group: a cache class.

    Attributes:
        name: its directory's name (untrusted text), `rdt.ROOT` for the root group.
        clos: the hardware's class; None where the kernel does not show it.
        cpus: the CPUs in it, as last told.
        mode: whether others may overlap its mask: `shareable`, `exclusive`, ...
        caches: one row for each last-level cache, ascending.
        rmid: the hardware's monitor; None where the kernel does not show it.
        owner: who its name says has made it; None where it says nothing.
        tasks: how many threads are in it by themselves; 0 of the root group.
        l2: its masks of second-level caches; empty where those can't be allocated.
        monitors: its monitoring groups, which its own readings include.
    """

    name: str
    clos: int | None
    cpus: tuple[Cpu, ...]
    mode: str
    mba_unit: MbaUnit
    caches: tuple[GroupCacheRow, ...]
    rmid: int | None = None
    owner: str | None = None
    tasks: int = 0
    l2: tuple[L2Mask, ...] = ()
    monitors: tuple[MonitorRow, ...] = ()


@dataclass(frozen=True, slots=True)
class TmaNode:
    """One node of the top-down tree of a core.

    Attributes:
        name: the vendor's, in snake_case; `parent` is None at level 1.
        of: what `reading`, a ratio 0..1, is a share of: issue slots or cycles.
        beyond: it is above its threshold and so is everything above it in the tree, which is when
            the method says to look into it; without a number it is not.
        coverage: of the events that it is computed from, the smallest share of the time in which
            one was counted; no number where none was or nobody says.
    """

    name: str
    parent: str | None
    level: int
    of: Literal["slots", "cycles"]
    reading: Reading
    beyond: bool
    coverage: Reading = _NO_COVERAGE


@dataclass(frozen=True, slots=True)
class CoreFocus:
    """Counts of one physical core only, while the operator selects it.

    Attributes:
        cpus: its threads.
        tree: its top-down nodes of levels 1 to 3, each after its parent.
        readings: by metric id of the catalogue, scope `core`; every such metric is present.
        coverage: as `TmaNode.coverage`, of the probes by metric id.
    """

    cpus: tuple[Cpu, ...]
    tree: tuple[TmaNode, ...]
    readings: Mapping[str, Reading]
    coverage: Mapping[str, Reading]


@dataclass(frozen=True, slots=True)
class CounterCost:
    """Cost of counting since the tick before.

    Attributes:
        reads: of counters, or of groups of them that are read together.
        interrupts: of CPUs, to read, start or stop counters.
    """

    reads: Reading
    interrupts: Reading


@dataclass(frozen=True, slots=True)
class SelfCost:
    """nftop's own footprint in this interval; see the observer-effect rules.

    Attributes:
        cpu_ratio: CPU time of all its threads by the time passed: 1 is one CPU.
        affinity: the CPUs it may run on.
        counters: what counting has cost, all sources together.
        warning: what running there may disturb, a sentence; "" when nothing.
        counters_by_source: the same of each source that counts; empty before the second tick.
    """

    cpu_ratio: Reading
    affinity: tuple[Cpu, ...]
    counters: CounterCost
    warning: str
    counters_by_source: Mapping[str, CounterCost] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lost:
    """Missing or corrupt data of a recording.

    Attributes:
        ticks: number of ticks; None if unknown.
        size_bytes: size of what can't be read.
        why: what happened, in words (possibly the recording's: untrusted text).
    """

    ticks: int | None
    size_bytes: int
    why: str


@dataclass(frozen=True, slots=True)
class Frame:
    """One tick as shown.

    Attributes:
        interval_s: monotonic time since the tick before; None on the first.
        topology: the whole host's, whatever rows `cpus` shows. packages: likewise.
        groups: cache classes; empty if the kernel has none (the source `resctrl` has the reason).
        domains: caches that the groups share. limits: number of classes and monitors.
        noticed: last changes of groups, oldest first.
        frequencies: the host's cpufreq, or why it is absent; rows of `cpus` have their share of it.
        apart: how perf and a sensor server have disagreed for some time; "" if they agree.
        findings: facts beyond a limit that have lasted, most severe first, of all CPUs.
        incidents: findings by cause, the most harmful first. past_incidents: those that ended, the
            last first; the oldest of many are left out.
        notice: message for the operator of this host; never recorded.
        interfaces: the kernel's network interfaces.
        baselines: what numbers are compared with; None if none is kept.
        lost: what a replay lacks between the tick before and this one.
        processes: those with threads on the selected CPU; empty if none is selected.
    """

    wall_ns: int
    monotonic_ns: int
    interval_s: float | None
    host: Host
    topology: Topology
    sources: Mapping[str, SourceState]
    cpus: CpuTable
    nfs: tuple[NfRow, ...]
    packages: tuple[PackageRow, ...]
    groups: tuple[GroupRow, ...]
    domains: tuple[CacheDomain, ...]
    own: SelfCost
    focus: CoreFocus | None = None
    accelerators: tuple[Accelerator, ...] = ()
    limits: Limits = field(default_factory=Limits)
    noticed: tuple[Noticed, ...] = ()
    notice: str = ""
    apart: str = ""
    frequencies: CpufreqTable | Missing = NOT_READ
    baselines: Baselines | None = None
    interfaces: tuple[InterfaceRow, ...] = ()
    findings: tuple[Finding, ...] = ()
    incidents: tuple[Incident, ...] = ()
    past_incidents: tuple[Incident, ...] = ()
    lost: tuple[Lost, ...] = ()
    processes: tuple[ProcessFacts, ...] = ()
    schema: str = SCHEMA


@dataclass(frozen=True, slots=True)
class Focus:
    """What is counted or described only while the operator looks at it.

    Attributes:
        core: a CPU of the core that is counted in more detail (`CoreFocus`); None: of no core.
        traffic: count everything that packages can count, not only the most wanted.
        processes: the CPU whose processes are described (`ProcessFacts`); None: of no CPU.
        culprits: CPUs that open incidents are about, whose processes are described.
        memory: those of them whose processes' memory by NUMA node is read.
    """

    core: Cpu | None = None
    traffic: bool = False
    processes: Cpu | None = None
    culprits: tuple[Cpu, ...] = ()
    memory: tuple[Cpu, ...] = ()

    @property
    def counts(self) -> tuple[Cpu | None, bool]:
        """What has to be counted, for which a tick comes early; descriptions can wait for one."""
        return self.core, self.traffic
