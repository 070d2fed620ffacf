"""Cache classes: allocation, occupancy and memory traffic of each resctrl group."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from nftop.derive.absence import after_absence
from nftop.derive.fold_stage import FoldStage
from nftop.derive.threads import ThreadRate
from nftop.model.frame import (
    CacheClass,
    Clock,
    Frame,
    GroupCacheRow,
    GroupRow,
    MonitorRow,
    NfRow,
    base_clock,
)
from nftop.model.ids import Cpu, L3Domain, format_cpu_list
from nftop.model.metrics.group import GROUP_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.rdt.rdt import (
    ROOT,
    CacheDomain,
    Event,
    GroupCache,
    Limits,
    MbaUnit,
    Metered,
    ResctrlGroup,
    ResctrlTable,
    owner_of,
)
from nftop.model.sample import SourceReading
from nftop.model.struct import dataclass, field, replace
from nftop.model.topology import Topology

_UNREAD = Missing(Reason.SOURCE, "no source of this session reads resctrl")
_NO_GROUP = Missing(Reason.UNDEFINED, "no resctrl group has this CPU: is it offline?")
_FIRST = Missing(Reason.WARMING, "its first reading: a rate needs two")
_RECREATED = Missing(
    Reason.WARMING, "the group was removed and made anew: a rate needs two readings"
)
_STEPPED_BACK = Missing(Reason.RESET, "the group's counter restarted")
_NUMBER = re.compile(r"([0-9]{1,18})")
_RATES: Mapping[str, Event] = {
    "mbm_total_bytes_per_s": "mbm_total_bytes",
    "mbm_local_bytes_per_s": "mbm_local_bytes",
}


@dataclass(frozen=True, slots=True)
class ClassTables:
    """Cache classes of one tick.

    Attributes:
        groups, domains, limits: as in `Frame`.
        of_cpus: for each CPU of the topology the group whose `cpus` file has it.
        of_tasks: group of every thread that is not in the root group.
    """

    groups: tuple[GroupRow, ...]
    domains: tuple[CacheDomain, ...]
    of_cpus: tuple[CacheClass | Missing, ...]
    of_tasks: Mapping[int, CacheClass] = field(default_factory=dict)
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class CacheState:
    table: ResctrlTable | None = None
    read_at_ns: int = 0
    rows: tuple[GroupRow, ...] = ()
    of_tasks: Mapping[int, CacheClass] = field(default_factory=dict)


def classes_reading(
    readings: Mapping[str, SourceReading[ResctrlTable]],
) -> SourceReading[ResctrlTable] | None:
    """Reading of the source of classes: through MSRs only if resctrl is not available."""
    own, other = readings.get("resctrl"), readings.get("pqos")
    if other is None or (own is not None and not isinstance(own.value, Missing)):
        return own
    return other


def step_cache(
    state: CacheState, reading: SourceReading[ResctrlTable] | None, topology: Topology
) -> tuple[CacheState, ClassTables]:
    """Fold one reading of resctrl in: a row for every control group, the root group first.

    A reading seen before keeps its rows. One that is too old keeps the groups without values.
    """
    if reading is None:
        return CacheState(), _nothing(topology, _UNREAD)
    if isinstance(reading.value, Missing):
        why = reading.value
        state = after_absence(state, CacheState(), why)
        if state.table is None:
            return state, _nothing(topology, why)
        rows = tuple(_without_values(row, why) for row in state.rows)
        known = replace(_nothing(topology, why), groups=rows, domains=state.table.domains)
        return state, replace(known, limits=state.table.limits)
    table = reading.value
    if state.table is None or reading.read_at_ns != state.read_at_ns:
        elapsed_s = (reading.read_at_ns - state.read_at_ns) / 1e9
        rows = _rows(state, table, elapsed_s, reading.read_at_ns)
        state = CacheState(table, reading.read_at_ns, rows, _of_tasks(table))
    of_cpus = _of_cpus(table, topology)
    return state, ClassTables(state.rows, table.domains, of_cpus, state.of_tasks, table.limits)


def rate(before: int | Missing | None, after: int | Missing, elapsed_s: float) -> Reading:
    """Rate per second of a cumulative count, or a reason; `before` None: not counted before."""
    if isinstance(after, Missing):
        return after
    if before is None or isinstance(before, Missing) or elapsed_s <= 0:
        return _FIRST
    return (after - before) / elapsed_s if after >= before else _STEPPED_BACK


def _rows(
    state: CacheState, after: ResctrlTable, elapsed_s: float, read_at_ns: int
) -> tuple[GroupRow, ...]:
    known = {} if state.table is None else {group.name: group for group in state.table.groups}
    previous = {row.name: row for row in state.rows}
    domains = {domain.l3: domain for domain in after.domains}
    ordered = sorted(after.groups, key=_order)
    rows = []
    for group in ordered:
        before = known.get(group.name)
        if before is not None and before.inode != group.inode:
            before, none = None, _RECREATED
        else:
            none = _FIRST
        since = _Since(before, previous.get(group.name), elapsed_s, none, read_at_ns)
        rows.append(_row(since, group, after.mba_unit, domains))
    return tuple(rows)


@dataclass(frozen=True, slots=True)
class _Since:
    """The previous state of a group, to rate its counters.

    Attributes:
        group: as it was; None if it is new or was recreated. row: its row.
        elapsed_s: since then. none: reason for rates without it.
        read_at_ns: time of the current reading.
    """

    group: ResctrlGroup | None
    row: GroupRow | None
    elapsed_s: float
    none: Missing
    read_at_ns: int


def _order(group: ResctrlGroup) -> tuple[bool, bool, int, list[tuple[int, str]]]:
    """The root group, then by class, then those of unknown class by name: COS2 before COS10."""
    runs = _NUMBER.split(group.name)
    name = [(int(word) if word.isdecimal() else -1, word) for word in runs]
    return group.name != ROOT, group.clos is None, group.clos or 0, name


def _row(
    since: _Since, after: ResctrlGroup, mba_unit: MbaUnit, domains: Mapping[L3Domain, CacheDomain]
) -> GroupRow:
    old = {} if since.group is None else {cache.l3: cache for cache in since.group.caches}
    previous = {} if since.row is None else {cache.l3: cache.readings for cache in since.row.caches}
    caches = []
    for cache in after.caches:
        ways = cache.ways
        capacity = ways if isinstance(ways, Missing) else domains[cache.l3].capacity_bytes(ways)
        metered = _metered(since, old.get(cache.l3), cache, previous.get(cache.l3))
        mba: Reading = cache.mba
        readings = {"capacity_bytes": capacity, **metered}
        read_at_ns = cache.read_at_ns or since.read_at_ns
        caches.append(GroupCacheRow(cache.l3, cache.cbm, cache.code, mba, readings, read_at_ns))
    return GroupRow(
        name=after.name,
        clos=after.clos,
        cpus=after.cpus,
        mode=after.mode,
        mba_unit=mba_unit,
        caches=tuple(caches),
        rmid=after.rmid,
        owner=after.owner,
        tasks=len(after.tasks),
        l2=after.l2,
        monitors=_monitor_rows(since, after),
    )


def _monitor_rows(since: _Since, after: ResctrlGroup) -> tuple[MonitorRow, ...]:
    known = {} if since.group is None else {item.name: item for item in since.group.monitors}
    previous = (
        {} if since.row is None else {item.name: item.readings for item in since.row.monitors}
    )
    rows = []
    for monitor in after.monitors:
        old = known.get(monitor.name)
        anew = old is not None and old.inode != monitor.inode
        counted = {} if old is None or anew else {cache.l3: cache for cache in old.caches}
        own = replace(since, none=_RECREATED) if anew else since
        readings = {
            cache.l3: _metered(
                own, counted.get(cache.l3), cache, previous.get(monitor.name, {}).get(cache.l3)
            )
            for cache in monitor.caches
        }
        rows.append(
            MonitorRow(
                monitor.name,
                monitor.rmid,
                monitor.cpus,
                owner_of(monitor.name),
                readings,
                monitor.tasks,
            )
        )
    return tuple(rows)


def _metered(
    since: _Since,
    before: GroupCache | Metered | None,
    after: GroupCache | Metered,
    previous: Mapping[str, Reading] | None,
) -> dict[str, Reading]:
    """Counters of a group in one cache, each by its own time; unread counters keep `previous`."""
    elapsed_s = since.elapsed_s
    if before is not None and before.read_at_ns and after.read_at_ns:
        elapsed_s = (after.read_at_ns - before.read_at_ns) / 1e9
        if elapsed_s == 0 and previous is not None:
            return {name: previous[name] for name in ("occupancy_bytes", *_RATES)}
    readings: dict[str, Reading] = {"occupancy_bytes": after.values["llc_occupancy"]}
    for metric, event in _RATES.items():
        old = None if before is None else before.values[event]
        per_s = rate(old, after.values[event], elapsed_s)
        readings[metric] = since.none if per_s is _FIRST else per_s
    return readings


def _of_tasks(table: ResctrlTable) -> Mapping[int, CacheClass]:
    result: dict[int, CacheClass] = {}
    for group in table.groups:
        if group.name != ROOT:
            result |= dict.fromkeys(group.tasks, CacheClass(group.name, group.clos, "task"))
    return result


def _of_cpus(table: ResctrlTable, topology: Topology) -> tuple[CacheClass | Missing, ...]:
    # While a CPU moves, two files may have it: one of them is the root group's.
    result: dict[int, CacheClass] = {}
    for group in sorted(table.groups, key=_order):
        result |= dict.fromkeys(group.cpus, CacheClass(group.name, group.clos))
    return tuple(result.get(info.cpu, _NO_GROUP) for info in topology.cpus)


def _without_values(row: GroupRow, why: Missing) -> GroupRow:
    readings = {metric.id: why for metric in GROUP_METRICS}
    caches = tuple(GroupCacheRow(cache.l3, why, None, why, readings) for cache in row.caches)
    return replace(row, caches=caches)


def _nothing(topology: Topology, why: Missing) -> ClassTables:
    return ClassTables((), (), (why,) * len(topology.cpus))


def effective_classes(
    classes: ClassTables, threads: Sequence[ThreadRate], topology: Topology
) -> tuple[CacheClass | Missing, ...]:
    """Effective class of each CPU of the topology: of its poller, else the CPU's own.

    A task in a group other than the root has that class on every CPU, one in the root group the
    CPU's: resctrl.rst, "Resource allocation rules".
    """
    result: dict[int, dict[str, CacheClass]] = {}
    for rate in threads:
        row = topology.row_of.get(rate.cpu) if rate.cpu is not None else None
        if row is not None and rate.polls:
            cpus_own = classes.of_cpus[row]
            own = classes.of_tasks.get(rate.thread.tid, cpus_own)
            if not isinstance(cpus_own, Missing) and not isinstance(own, Missing):
                result.setdefault(row, {})[own.name] = own
    rows = list(classes.of_cpus)
    for row, several in result.items():
        rows[row] = _one_of(list(several.values()))
    return tuple(rows)


def disturbed(classes: ClassTables, polling: Collection[Cpu]) -> str:
    """Warning if the kernel reads counters on a CPU that an NF polls on; else ""."""
    cpus = [
        domain.read_on
        for domain in classes.domains
        if domain.read_on is not None and domain.read_on in polling
    ]
    if not cpus:
        return ""
    listed = format_cpu_list(cpus)
    return f"the kernel reads counters on polling CPU {listed}; --quiet-cpus {listed} stops that"


def _one_of(classes: list[CacheClass]) -> CacheClass | Missing:
    if len(classes) == 1:
        return classes[0]
    names = ", ".join(clos.name for clos in classes)
    return Missing(Reason.UNDEFINED, f"what polls here is in several classes: {names}")


CACHE: FoldStage[CacheState, ClassTables] = FoldStage(
    "cache",
    CacheState,
    lambda state, tick: step_cache(state, classes_reading(tick.sample.readings), tick.topology),
)


_MIXED = Missing(Reason.SOURCE, "cycles are counted by different clocks here and do not add up")
_IN_VAIN = Missing(Reason.UNDEFINED, "a core without packets polls here, whose cycles are unknown")
_NO_PACKETS = Missing(Reason.IDLE, "no packets here, so none that costs anything")


@dataclass(frozen=True, slots=True)
class Cost:
    """CPP of some CPUs.

    Attributes:
        cpp: cycles per packet, or why it is unknown.
        clock: what counted the cycles; None without a number.
        saturated: whether all these cores were busy all the time, so that it includes no empty
            polls; None if unknown for some.
    """

    cpp: Reading
    clock: Clock | None = None
    saturated: bool | None = None


@dataclass(frozen=True, slots=True)
class _Share:
    cpp: Reading
    packets_per_s: Reading
    clock: Clock | None
    saturated: bool | None


def cost_of(frame: Frame, rows: Sequence[int]) -> Cost:
    """Sum of cycles / sum of packets of network functions that poll on these rows of `frame.cpus`.

    A network function with all its cores among them counts as a whole, cores without packets
    included; of others each core here counts. Without packets it is left out; with packets but
    without CPP there is no sum.
    """
    here = {frame.cpus.topology.cpus[row].cpu for row in rows}
    whole = [nf for nf in frame.nfs if nf.cpus and here.issuperset(nf.cpus)]
    covered = {cpu for nf in whole for cpu in nf.cpus}
    rest = [row for row in rows if frame.cpus.topology.cpus[row].cpu not in covered]
    return _summed([*map(_of_nf, whole), *_of_cores(frame, rest)])


def _of_nf(nf: NfRow) -> _Share:
    packets = nf.readings["rx_packets_per_s" if nf.direction == "rx" else "tx_packets_per_s"]
    return _Share(nf.readings["cpp"], packets, nf.cpp_clock, nf.saturated)


def _of_cores(frame: Frame, rows: Collection[int]) -> Iterator[_Share]:
    """Shares of the cores of partly included network functions that have packets."""
    cpus = frame.cpus
    packets = {row: cpus.columns["packets_per_s"][row] for row in rows}
    forwards = {cpus.nf_pid[row] for row, item in packets.items() if item != 0}
    for row, packet in packets.items():
        if cpus.nf[row] is not None and cpus.nf_pid[row] in forwards:
            # Empty polls of a core without packets are a cost of the others' packets.
            weight = _IN_VAIN if packet == 0 else packet
            yield _Share(cpus.columns["cpp"][row], weight, cpus.cpp_clock[row], cpus.saturated[row])


def _summed(shares: Sequence[_Share]) -> Cost:
    cycles_per_s = packets_per_s = 0.0
    counted = [share for share in shares if share.packets_per_s != 0]
    for item in counted:
        if isinstance(item.packets_per_s, Missing):
            return Cost(item.packets_per_s)
        if isinstance(item.cpp, Missing):
            return Cost(item.cpp)
        cycles_per_s += item.cpp * item.packets_per_s
        packets_per_s += item.packets_per_s
    if not packets_per_s:
        return Cost(_NO_PACKETS)
    clocks = {entry.clock for entry in counted}
    if len(set(map(base_clock, clocks))) > 1:
        return Cost(_MIXED)
    clock = next(
        (element for element in clocks if element != base_clock(element)), next(iter(clocks))
    )
    states = {entry.saturated for entry in counted}
    full = False if False in states else None if None in states else True
    return Cost(cycles_per_s / packets_per_s, clock, full)
