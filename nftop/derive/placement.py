"""Pollers on low-priority cores (SST-BF), and the high-priority cores that are free for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nftop.model.frame import CpuTable, Frame
from nftop.model.ids import Cpu, Package
from nftop.model.sst import Priority
from nftop.model.struct import dataclass

# A CPU that the kernel saw busy for more of the time does something, if nothing that polls.
IDLE_RATIO = 0.1


@dataclass(frozen=True, slots=True)
class Misplaced:
    """The pollers of one package that sit on its low-priority cores.

    Attributes:
        pollers: their CPUs by the name of the network function, or of the thread where it is none
            (untrusted text).
        near: of idle high-priority cores of the same package each one's lowest CPU.
        far: the same of the other packages.
    """

    package: Package
    pollers: Mapping[str, tuple[Cpu, ...]]
    near: tuple[Cpu, ...]
    far: tuple[Cpu, ...]


def kinds(cpus: CpuTable) -> Mapping[Cpu, Priority]:
    """SST-BF's two kinds of cores; nothing where there is one kind only."""
    result: dict[Cpu, Priority] = {}
    for info, setting in zip(cpus.topology.cpus, cpus.settings, strict=True):
        if isinstance(setting.priority, str):
            result[info.cpu] = setting.priority
    return result


def misplaced(frame: Frame) -> tuple[Misplaced, ...]:
    """By package, ascending; packages where nothing polls on a low-priority core are absent."""
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
    """The lowest CPU of each of these cores on none of whose threads anything runs; its package."""
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
        # A CPU of which that is not known is none to move a poller to.
        idle = all(busy.present[row] and busy.values[row] <= IDLE_RATIO for row in rows)
        if idle and not polled and all(cpus.online[row] for row in rows):
            result[cpu] = info.package
    return result
