"""Last-level cache and memory traffic of a network function, by the monitoring groups it has.

A thread in a monitoring group is counted there on every CPU; one in no group, or in the root group,
is counted where its CPU is (resctrl.rst, "Resource monitoring rules").
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nftop.derive.nf.rates import NfCore
from nftop.derive.threads import ThreadRate
from nftop.model.change import group_path
from nftop.model.frame import GroupRow, MonitorRow
from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reading, Reason, total
from nftop.model.nf.parts import NO_MONITOR
from nftop.model.struct import dataclass, field

_OTHERS = Missing(
    Reason.UNDEFINED, "its monitoring group counts others too: make one of its threads alone"
)
_SOME = Missing(Reason.UNDEFINED, "some of its threads are in no monitoring group: M takes all")
_NOTHING = Missing(Reason.HARDWARE, "its monitoring group is not metered here")
OCCUPANCY, LOCAL, REMOTE = (
    "occupancy_bytes", "memory_local_bytes_per_s", "memory_remote_bytes_per_s",
)  # fmt: skip
MONITORED = (OCCUPANCY, LOCAL, REMOTE)
_NONE: dict[str, Reading] = dict.fromkeys(MONITORED, NO_MONITOR)


@dataclass(frozen=True, slots=True)
class MonitoredThread:
    """A polling thread and its monitoring group.

    Attributes:
        tid: None if unknown.
        path: of its monitoring group (`model.change.group_path`), "" for none.
        readings: by the names of `MONITORED`, of the thread alone.
    """

    tid: int | None = None
    path: str = ""
    readings: dict[str, Reading] = field(default_factory=lambda: dict(_NONE))


def monitored(
    pid: int, cores: Sequence[NfCore], threads: Iterable[ThreadRate], groups: Iterable[GroupRow]
) -> tuple[dict[str, Reading], tuple[MonitoredThread, ...]]:
    """Readings of a network function by `MONITORED`, and of the thread of each core.

    A group's counters are a thread's, or the NF's, if nothing else is in the group.
    """
    own = [rate for rate in threads if rate.thread.pid == pid]
    tids = frozenset(rate.thread.tid for rate in own)
    cpus = frozenset(core.cpu for core in cores)
    every = tuple(groups)
    of_tid = {
        tid: (group_path(group.name, monitor.name), monitor)
        for group in every
        for monitor in group.monitors
        for tid in monitor.tids
    }
    of_cpu = {
        cpu: (group_path(group.name, monitor.name), monitor)
        for group in every
        for monitor in group.monitors
        for cpu in monitor.cpus
    }
    counted: list[tuple[int | None, str, MonitorRow | None]] = []
    for core in cores:
        tid = _tid_of(core, own)
        hit = (of_tid.get(tid) if tid is not None else None) or of_cpu.get(core.cpu)
        counted.append((tid, *hit) if hit is not None else (tid, "", None))
    rows = tuple(
        MonitoredThread(tid, path, _readings(monitor, frozenset({tid}), frozenset({core.cpu})))
        for core, (tid, path, monitor) in zip(cores, counted, strict=True)
    )
    monitors = {path: monitor for _, path, monitor in counted if monitor is not None}
    if not monitors:
        return dict(_NONE), rows
    if any(monitor is None for _, _, monitor in counted):
        return dict.fromkeys(MONITORED, _SOME), rows
    parts = [_readings(monitor, tids, cpus) for monitor in monitors.values()]
    return {name: total(item[name] for item in parts) for name in MONITORED}, rows


def _tid_of(core: NfCore, own: Sequence[ThreadRate]) -> int | None:
    """The thread of a core: the one pinned there, by its name if there are more."""
    here = [rate.thread for rate in own if rate.cpu == core.cpu]
    named = [row for row in here if core.thread in (row.comm, row.label)]
    chosen = named or here
    return chosen[0].tid if len(chosen) == 1 else None


def _readings(
    monitor: MonitorRow | None, tids: frozenset[int | None], cpus: frozenset[Cpu]
) -> dict[str, Reading]:
    """Counters of a monitoring group that has nothing but these threads and CPUs."""
    if monitor is None:
        return dict(_NONE)
    if not tids.issuperset(monitor.tids) or not cpus.issuperset(monitor.cpus):
        return dict.fromkeys(MONITORED, _OTHERS)
    caches = monitor.readings.values()
    used, moved, near = (
        total((cache[name] for cache in caches), _NOTHING)
        for name in ("occupancy_bytes", "mbm_total_bytes_per_s", "mbm_local_bytes_per_s")
    )
    far: Reading
    if isinstance(moved, Missing):
        far = moved
    elif isinstance(near, Missing):
        far = near
    else:
        far = max(moved - near, 0.0)
    return {OCCUPANCY: used, LOCAL: near, REMOTE: far}
