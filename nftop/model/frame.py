"""A frame: everything shown of one tick, equal in live, replayed and simulated sessions."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from nftop.model.baseline import Baselines
from nftop.model.change import Noticed
from nftop.model.column import Column
from nftop.model.ids import Cpu, L3Domain, Package
from nftop.model.incident import Incident
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.nf.components import (
    NOT_REPORTED,
    ONLY_OVS,
    NfDrop,
    NfFlowTables,
    NfNode,
    NfPort,
    NfQueue,
    NfThread,
    NfXstat,
)
from nftop.model.nf.kinds import DPDK_PROGRAM
from nftop.model.nf.netdev import InterfaceRow
from nftop.model.owner import Owner
from nftop.model.pcie import RootPort
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import CacheDomain, L2Mask, Limits, MbaUnit
from nftop.model.recording_loss import RecordingLoss
from nftop.model.rule_settings import base_name
from nftop.model.sample import ProcessFacts
from nftop.model.sst import NOT_READ, CpufreqTable, CpuSetting
from nftop.model.struct import dataclass, field
from nftop.model.subject import Subject
from nftop.model.topology import Host, Topology
from nftop.model.usual import Usual


@dataclass(frozen=True, slots=True)
class Finding:
    """A rule that holds for one subject. It states numbers, never causes.

    Attributes:
        rule: id of the rule; `nftop explain RULE` has its limit, source and conditions.
        metric: catalogue id of its metric.
        text: numbers of the last tick beyond the limit, then `current` (untrusted text).
        brief: the begin of `text`, without limit and names (untrusted text).
        current: that it is no longer beyond its limit, with its number if it has one; else "".
        since_ns: wall time of the first tick beyond the limit. began_ns: CLOCK_MONOTONIC of it, by
            which ages are computed.
        is_bound: it may have begun before `since_ns`, with which a replay began after a jump.
        read_from_ns: wall time from which on it was read, if it may have begun before; else 0.
        is_note: nothing is wrong; it explains a misleading number.
        is_ending: it is not beyond its limit at this tick, or without a value.
        is_muted: the operator muted its rule for it.
        clear: number at or within which it ends, by the operator's limit if that is set.
        is_again: another one began before the replay's jump, which its incident may continue.
        excess: its number by its limit at this tick, above 1 beyond it; 0 without one.
    """

    rule: str
    metric: str
    subject: Subject
    text: str
    since_ns: int
    is_note: bool = False
    is_ending: bool = False
    is_muted: bool = False
    began_ns: int = 0
    brief: str = ""
    current: str = ""
    is_bound: bool = False
    read_from_ns: int = 0
    clear: float = math.inf
    is_again: bool = False
    excess: float = 0.0

    @property
    def where(self) -> str:
        return self.subject.where


SCHEMA = "nftop.frame/1"

_NO_STACKS = Missing(
    Reason.SOURCE,
    "no source of this session counts traffic by device (IIO: Skylake and later Xeons)",
)
_NO_DEVICES = Missing(Reason.UNDEFINED, "no network device is behind a PCIe root port")
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
        detail: what is missing although it works, or why it does not work; "" if nothing.
        age_s: age of its reading at the tick; None if there was none.
        took_s: duration of the read.
        late_s: seconds from the begin of a late reading to the tick; else 0.
    """

    reason: Reason
    detail: str
    age_s: float | None
    took_s: float | None
    late_s: float = 0.0


@dataclass(frozen=True, slots=True)
class CacheClass:
    """A resctrl group: name (untrusted text) and the hardware's class, if known.

    `of`: the CPU's own class, or that of a task polling there, which takes precedence.
    """

    name: str
    clos: int | None
    of: Literal["cpu", "task"] = "cpu"


@dataclass(frozen=True, slots=True)
class CpuTable:
    """One row per CPU shown, in the order of `topology.cpus`; each tuple and column has n rows.

    Attributes:
        topology: the CPUs shown; `Frame.topology` has all.
        online: whether the CPU was online at this tick.
        thread: name of the NF thread or poller on it (untrusted text), or None.
        nf, nf_pid: name and process of that thread's NF, or None.
        direction: whether received or sent packets are counted; None without an NF.
        cpp_clock: clock of the cycles in `cpp`; None without a CPP.
        saturated: whether it was busy all the time, so that CPP is the cost of a packet; None if
            unknown.
        attribution: how packets were assigned to this CPU, a text; "" without packets.
        group: resctrl group in effect: the pollers' own, else that of the CPU; or why it is
            unknown.
        settings: frequency settings and SST-BF priority.
        columns: by metric id, all metrics of scope `cpu`. A `Block` in a frame.
        origins: by metric id and row, the source of a number that is not from the metric's first
            choice, else None; metrics without such a number are absent.
        saturated_by: by CPU, what shows that it is saturated (`metrics.saturation`); absent for
            other CPUs.
        shared: by CPU, why its instructions, misses and slots are not those of its NFs alone;
            absent for other CPUs.
        sampled_s: by metric id, age in seconds of columns that are read now and then.
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
    saturated_by: Mapping[Cpu, tuple[str, ...]] = field(default_factory=dict)
    sampled_s: Mapping[str, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.topology.cpus)

    def sampled_of(self, row: int) -> dict[str, float]:
        """`sampled_s` of the row's own numbers: not of absent ones, nor of another source's."""
        return {
            name: age_s
            for name, age_s in self.sampled_s.items()
            if not self.columns[name].reasons[row]
            and (name not in self.origins or self.origins[name][row] is None)
        }


@dataclass(frozen=True, slots=True)
class NfRow:
    """One network function.

    Attributes:
        key: identity across ticks: pid and start time, or the socket's path until those are known.
        name: program and, unless it is the default, EAL prefix (untrusted text), as on all screens:
            `north/l3fwd` of the program dpdk-l3fwd.
        kind: `dpdk`, `ovs`, `vpp`, `kernel`.
        cpus: CPUs on which its threads poll.
        direction: whether its CPP divides by packets received or, if it only sends, sent.
        cpp_clock: clock of the cycles in its CPP; None without a CPP.
        saturated: whether all its polling cores were busy all the time; None if unknown.
        interval_s: time between its last two readings by its own clock; None before the second. 0
            if an earlier frame had these readings: the sum of rate x interval over frames is its
            count.
        attribution: how its packets were assigned to CPUs, a text.
        problem: why its counters are not current, or None.
        readings: by metric id, all metrics of scope `nf`.
        threads: its polling threads. ports, queues, nodes, flow_tables, drops: as reported, or why
            they are unknown. xstats: empty unless they are in focus.
        classes: cache classes in effect on its CPUs, each once.
        sharers: other users of these classes, a text; "" if none.
        owner: user that owns the socket its numbers come from; None if unknown or without a socket.
        shared: why the instructions, misses and slots of its CPUs are not its alone, or None.
        saturated_by: what shows that all its cores are saturated; empty unless they are.
        sampled_s: by metric id, age in seconds of numbers that are read now and then.
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
    queues: Sequence[NfQueue] | Missing = NOT_REPORTED
    nodes: Sequence[NfNode] | Missing = NOT_REPORTED
    flow_tables: Sequence[NfFlowTables] | Missing = ONLY_OVS
    drops: Sequence[NfDrop] | Missing = NOT_REPORTED
    xstats: Sequence[NfXstat] = ()
    classes: tuple[CacheClass, ...] = ()
    sharers: str = ""
    owner: Owner | None = None
    shared: Missing | None = None
    saturated_by: tuple[str, ...] = ()
    sampled_s: Mapping[str, float] = field(default_factory=dict)


def is_named(nf: NfRow, name: str) -> bool:
    """Whether an option's `name` means this NF: its name, a component of it, its program or kind.

    `north/l3fwd` is `north`, `l3fwd`, `dpdk-l3fwd` and `dpdk`. An unprivileged user chooses the
    prefix of an NF, so that one has its whole name only.
    """
    if name == nf.name or (nf.owner is not None and not nf.owner.privileged):
        return name == nf.name
    elements = base_name(nf.name).split("/")
    return name in (*elements, DPDK_PROGRAM + elements[-1], nf.kind)


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
    """One package: memory, device requests and links.

    Attributes:
        readings: by metric id, all metrics of scope `package`.
        estimates: ids of metrics whose counters ran for less than `metric.ESTIMATE_BELOW` of the
            time.
        channels: bytes read and written per second by memory channel; empty if not counted.
        links: bytes received and sent per second by UPI or QPI link; empty if not counted.
        origins: by metric id, the source of a number that is not from the metric's first choice; by
            `links`, that of the links.
        sampled_s: by metric id, age in seconds of numbers that are counted now and then.
    """

    package: Package
    readings: Mapping[str, Reading]
    estimates: frozenset[str] = frozenset()
    channels: tuple[BoxTraffic, ...] = ()
    links: tuple[BoxTraffic, ...] = ()
    origins: Mapping[str, str] = field(default_factory=dict)
    sampled_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A PCIe root port, and the network devices behind it.

    Attributes:
        port: the root port, with its devices and where it is counted.
        nfs: network functions that have one of the devices as a port (untrusted text).
        readings: by metric id, all metrics of scope `device`.
        estimates: ids of metrics whose counters ran for less than `metric.ESTIMATE_BELOW` of the
            time.
    """

    port: RootPort
    nfs: tuple[str, ...]
    readings: Mapping[str, Reading]
    estimates: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        """Interfaces of the devices; the address of a device that has none (untrusted text)."""
        return ", ".join(
            name for item in self.port.devices for name in item.interfaces or (item.address,)
        )


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
        cbm: mask (with CDP the mask for data), or why there is none.
        code: with CDP the mask for code, else None.
        mba: memory bandwidth limit in the group's unit, or why there is none.
        readings: by metric id, all metrics of scope `group`.
        metered_at_ns: CLOCK_MONOTONIC when its counters were read; 0 if they were not.
    """

    l3: L3Domain
    cbm: Cbm | Missing
    code: Cbm | None
    mba: Reading
    readings: Mapping[str, Reading]
    metered_at_ns: int = 0


@dataclass(frozen=True, slots=True)
class MonitorRow:
    """A monitoring group: part of a cache class with counters of its own.

    Attributes:
        name: directory name (untrusted text). rmid: the hardware's monitor, if known.
        owner: program that its name belongs to; None if unknown.
        readings: by cache and metric id, scope `group` without `capacity_bytes`.
        tids: threads in it, ascending.
    """

    name: str
    rmid: int | None
    cpus: tuple[Cpu, ...]
    owner: str | None
    readings: Mapping[L3Domain, Mapping[str, Reading]]
    tids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class GroupRow:
    """One resctrl control group: a cache class.

    Attributes:
        name: directory name (untrusted text), `rdt.ROOT` for the root group.
        clos, rmid: the hardware's class and monitor; None if the kernel does not show them.
        cpus: its CPUs as last read.
        mode: `shareable`, `exclusive`, ...: whether other masks may overlap its mask.
        caches: one row per last-level cache, ascending.
        owner: program that its name belongs to; None if unknown.
        tasks: number of threads in it; 0 for the root group.
        l2: masks of second-level caches; empty if those can't be allocated.
        monitors: monitoring groups; the group's own readings include theirs.
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
        of: issue slots or cycles, of which `reading` is a ratio 0..1.
        beyond: it and all its ancestors exceed their thresholds.
        coverage: smallest share of time in which one of its events was counted, or why unknown.
    """

    name: str
    parent: str | None
    level: int
    of: Literal["slots", "cycles"]
    reading: Reading
    beyond: bool
    coverage: Reading = _NO_COVERAGE


@dataclass(frozen=True, slots=True)
class CoreDetail:
    """Counts of one physical core while the operator selects it.

    Attributes:
        cpus: its threads.
        tree: top-down nodes of levels 1 to 4, each after its parent.
        readings: by metric id, all metrics of scope `core`.
        coverage: by metric id of the probes, as `TmaNode.coverage`.
    """

    cpus: tuple[Cpu, ...]
    tree: tuple[TmaNode, ...]
    readings: Mapping[str, Reading]
    coverage: Mapping[str, Reading]


@dataclass(frozen=True, slots=True)
class CounterCost:
    """Cost of counting since the previous tick.

    Attributes:
        reads: of counters or of groups read together.
        interrupts: of CPUs, to read, start or stop counters.
    """

    reads: Reading
    interrupts: Reading


@dataclass(frozen=True, slots=True)
class SelfCost:
    """nftop's own cost in this interval.

    Attributes:
        cpu_ratio: CPU time of all its threads / elapsed time; 1 is one CPU.
        affinity: CPUs it may run on.
        counters: cost of counting, all sources together.
        warning: what nftop may disturb there, a sentence; "" if nothing.
        counters_by_source: cost by source; empty before the second tick.
    """

    cpu_ratio: Reading
    affinity: tuple[Cpu, ...]
    counters: CounterCost
    warning: str
    counters_by_source: Mapping[str, CounterCost] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Frame:
    """One tick as shown.

    Attributes:
        interval_s: monotonic time since the previous tick; None on the first.
        topology, packages: of the whole host, whatever rows `cpus` shows.
        groups: cache classes; empty if there are none (`sources["resctrl"]` has the reason).
        domains: caches that the groups share. limits: maximum number of classes and monitors.
        noticed: latest changes of groups, oldest first.
        frequencies: cpufreq of the host, or why it is absent.
        disagreement: persistent disagreement of perf and a sensor server; "" if they agree.
        findings: limits exceeded for long enough, most severe first, for all CPUs.
        incidents: findings by cause, most harmful first. past_incidents: ended ones, latest first,
            without the oldest of many.
        notice: message for the operator of this host; never recorded.
        interfaces: the kernel's network interfaces.
        devices: root ports with network devices; empty if there are none or `sources["iio"]` has a
            reason.
        baselines: reference values, or None.
        lost: data that a replay lacks between the previous tick and this one.
        processes: those with threads on the selected CPU; empty if none is selected.
        usual: what costs and loads are compared with.
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
    focus: CoreDetail | None = None
    accelerators: tuple[Accelerator, ...] = ()
    limits: Limits = field(default_factory=Limits)
    noticed: tuple[Noticed, ...] = ()
    notice: str = ""
    disagreement: str = ""
    frequencies: CpufreqTable | Missing = NOT_READ
    baselines: Baselines | None = None
    interfaces: tuple[InterfaceRow, ...] = ()
    devices: tuple[DeviceRow, ...] = ()
    findings: tuple[Finding, ...] = ()
    incidents: tuple[Incident, ...] = ()
    past_incidents: tuple[Incident, ...] = ()
    lost: tuple[RecordingLoss, ...] = ()
    processes: tuple[ProcessFacts, ...] = ()
    usual: Usual = field(default_factory=Usual)
    schema: str = SCHEMA

    @property
    def no_devices(self) -> Missing | None:
        """Why there are no `devices`; None where there are."""
        state = self.sources.get("iio")
        if self.devices or state is None:
            return None if self.devices else _NO_STACKS
        if state.reason is Reason.PRESENT:
            return _NO_DEVICES
        return Missing(state.reason, state.detail)

    @property
    def elapsed_s(self) -> float:
        """`interval_s`, and 0.0 on the first tick: the seconds that its sums and ages grow by."""
        return self.interval_s or 0.0

    @property
    def mask_ways(self) -> dict[str, int]:
        """Ways of the caches that have masks, by `L3` and `L2`."""
        caches = [("L3", domain.ways) for domain in self.domains]
        caches += [("L2", mask.cbm.width) for group in self.groups[:1] for mask in group.l2]
        return {name: ways for name, ways in caches if ways}


@dataclass(frozen=True, slots=True)
class Focus:
    """What is counted or read only while the operator selects it.

    Attributes:
        core: a CPU of the core to count in detail (`CoreDetail`), or None.
        node: its largest node of level 2, below which more is counted; "" if unknown.
        traffic: count all that packages can count, not only the default groups.
        processes: the CPU whose processes are read (`ProcessFacts`), or None.
        culprits: CPUs of open incidents, whose processes are read.
        counters: keep all counters of ports (`NfXstat`).
        memory: those of them whose processes' memory by NUMA node is read.
    """

    core: Cpu | None = None
    node: str = ""
    traffic: bool = False
    processes: Cpu | None = None
    culprits: tuple[Cpu, ...] = ()
    memory: tuple[Cpu, ...] = ()
    counters: bool = False

    @property
    def counts(self) -> tuple[Cpu | None, bool]:
        """The counted part: a change of it causes an early tick."""
        return self.core, self.traffic
