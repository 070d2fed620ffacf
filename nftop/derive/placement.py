"""Pollers on low-priority cores (SST-BF), and the high-priority cores that are free for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nftop.model.frame import CpuTable, Frame
from nftop.model.ids import Cpu, Package
from nftop.model.sst import Priority
from nftop.model.struct import dataclass

# A CPU that is busy for a larger share of the time is in use, even if nothing polls there.
IDLE_RATIO = 0.1


@dataclass(frozen=True, slots=True)
class Misplaced:
    """Pollers of one package on its low-priority cores.

    Attributes:
        pollers: their CPUs by name of the network function, else of the thread (untrusted text).
        near: lowest CPU of each idle high-priority core of the same package.
        far: the same for the other packages.
    """

    package: Package
    pollers: Mapping[str, tuple[Cpu, ...]]
    near: tuple[Cpu, ...]
    far: tuple[Cpu, ...]


def kinds(cpus: CpuTable) -> Mapping[Cpu, Priority]:
    """Priority of each core with SST-BF; empty if all have the same."""
    result: dict[Cpu, Priority] = {}
    for info, setting in zip(cpus.topology.cpus, cpus.settings, strict=True):
        if isinstance(setting.priority, str):
            result[info.cpu] = setting.priority
    return result


def misplaced(frame: Frame) -> tuple[Misplaced, ...]:
    """By package, ascending; packages without pollers on low-priority cores are absent."""
    cpus = frame.cpus
    known = kinds(cpus)
    if not known:
        return ()
    result: dict[Package, dict[str, list[Cpu]]] = {}
    for row, info in enumerate(cpus.topology.cpus):
        name = cpus.nf[row] or cpus.thread[row]
        if name and info.package is not None and known.get(info.cpu) == "low":
            result.setdefault(info.package, {}).setdefault(name, []).append(info.cpu)
    idle = _idle(cpus, (cpu for cpu, kind in known.items() if kind == "high"))
    return tuple(
        Misplaced(
            package,
            {name: tuple(poller) for name, poller in pollers.items()},
            near=tuple(cpu for cpu, where in idle.items() if where == package),
            far=tuple(cpu for cpu, where in idle.items() if where != package),
        )
        for package, pollers in sorted(result.items())
    )


def _idle(cpus: CpuTable, high: Iterable[Cpu]) -> Mapping[Cpu, Package | None]:
    """Lowest CPU of each of these cores that is idle on all its threads, with its package."""
    table, busy = cpus.topology, cpus.columns["cpu_time_ratio"]
    result: dict[Cpu, Package | None] = {}
    for cpu in sorted(high):
        info = table.cpus[table.row_of[cpu]]
        if any(other in result for other in info.siblings):
            continue
        rows = [
            table.row_of[sibling] for sibling in (cpu, *info.siblings) if sibling in table.row_of
        ]
        polled = any(cpus.nf[row] or cpus.thread[row] for row in rows)
        # A CPU with unknown load is not a target.
        idle = all(busy.present[row] and busy.values[row] <= IDLE_RATIO for row in rows)
        if idle and not polled and all(cpus.online[row] for row in rows):
            result[cpu] = info.package
    return result
