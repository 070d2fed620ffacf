"""Topology of the host for a number of CPUs, and the CPUs of each task's threads."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from nftop.model.ids import Core, Cpu, L3Domain, Package
from nftop.model.peaks import usual_modules
from nftop.model.struct import dataclass, replace
from nftop.model.topology import Capacity, CpuInfo, L3Cache, NicSlot, Topology
from nftop.sim.processor import Processor
from nftop.sim.scenario import Scenario, Task

FEWEST_CPUS, FEWEST_CORES, MOST_CPUS, FULL_CPUS = 2, 3, 512, 88
# NICs of a package, and the link of each: PCI Express 3 x8, 128b/130b; an assumption.
_NICS, _SLOT_BYTES_PER_S = 4, 8e9 * 8 * 128 / 130 / 8


@dataclass(frozen=True, slots=True)
class Placed:
    """A task and the CPU of each of its threads, fewer on a small host.

    A host larger than the full one runs every task several times: `instance` 0, 1, ...
    """

    task: Task
    instance: int
    cpus: tuple[Cpu, ...]

    @property
    def name(self) -> str:
        """The task's name, with the instance if there are several."""
        return f"{self.task.name}{self.instance + 1}" if self.instance else self.task.name


@dataclass(frozen=True, slots=True)
class Layout:
    """The host and its placed tasks; other CPUs idle or run the system."""

    topology: Topology
    placed: tuple[Placed, ...]
    housekeeping: Mapping[int, Cpu]  # by package


def build(scenario: Scenario, cpus: int, *, smt: bool = True) -> Layout:
    """The scenario's host with this many CPUs; `smt`: with hyper-threading.

    CPUs are numbered as by Linux on such hosts: one thread of every core, package by package, then
    their siblings. The first core of each package runs the system; a host of one core has its
    pollers on that core's second thread.

    Raises:
        ValueError: `cpus` is not in 2..512, without hyper-threading in 3..512.
    """
    fewest = FEWEST_CPUS if smt else FEWEST_CORES
    if not fewest <= cpus <= MOST_CPUS:
        raise ValueError(f"the simulated host has {fewest} to {MOST_CPUS} CPUs, not {cpus}")
    cores = (cpus + 1) // 2 if smt else cpus
    package_of = [0 if core < (cores + 1) // 2 or cores < 2 else 1 for core in range(cores)]
    free = {
        package: [core for core in range(cores) if package_of[core] == package]
        for package in sorted(set(package_of))
    }
    house = {package: Cpu(own.pop(0)) for package, own in free.items()}
    if not any(free.values()):
        free = {0: [cores]}  # the only core's second thread
    copies = max(cpus // FULL_CPUS, 1)
    wanted = [(task, instance) for instance in range(copies) for task in scenario.tasks]
    tasks = [task if smt else replace(task, ht=False) for task, _ in wanted]
    counts = _share_out(tasks, {package: len(own) for package, own in free.items()})
    placed: list[Placed] = []
    for (task, instance), count in zip(wanted, counts, strict=True):
        if task.sibling_of:
            sibling_cpus = _siblings_of_task(placed, task, instance, cores if smt else cpus, cpus)
            placed += [Placed(task, instance, sibling_cpus)] if sibling_cpus else []
            continue
        own = free[_package(task, free)]
        granted = [own.pop(0) for _ in range(count)]
        if granted:
            placed.append(Placed(task, instance, _cpus_of(task, granted, cores, cpus)))
    isolated = {cpu for item in placed if item.task.kind != "vm" for cpu in item.cpus}
    topology = _topology(cpus, cores, package_of, isolated, scenario.processor)
    capacity = _capacity(len(topology.packages), scenario.processor.uarch)
    return Layout(replace(topology, capacity=capacity), tuple(placed), house)


def _capacity(packages: int, uarch: str) -> Capacity:
    """A module in every channel at its highest speed, and NICs in slots: assumptions."""
    channels, transfers_per_s = usual_modules(uarch)
    slots = tuple(
        NicSlot(f"0000:{16 * package + number:02x}:00", package, _SLOT_BYTES_PER_S)
        for package in range(packages)
        for number in range(_NICS)
    )
    return Capacity(channels * packages, transfers_per_s, 0.0, slots)


def _share_out(tasks: Sequence[Task], free: Mapping[int, int]) -> list[int]:
    """Cores for every task: one each in turn, up to `free` of its package and its request."""
    left = dict(free)
    counts = [0] * len(tasks)
    granted = True
    while granted:
        granted = False
        for index, task in enumerate(tasks):
            package = _package(task, left)
            has_all = counts[index] * (2 if task.ht else 1) >= task.threads
            if left[package] > 0 and not has_all and not task.sibling_of:
                left[package] -= 1
                counts[index] += 1
                granted = True
    return counts


def _package(task: Task, packages: Collection[int]) -> int:
    return task.package if task.package in packages else 0


def _cpus_of(task: Task, granted: Sequence[int], cores: int, cpus: int) -> tuple[Cpu, ...]:
    if not task.ht:
        return tuple(Cpu(core) for core in granted)
    both = [(core, core + cores) for core in granted]
    return tuple(Cpu(cpu) for pair in both for cpu in pair if cpu < cpus)


def _siblings_of_task(
    placed: Sequence[Placed], task: Task, instance: int, cores: int, cpus: int
) -> tuple[Cpu, ...]:
    hosts = (
        item for item in placed if (item.task.name, item.instance) == (task.sibling_of, instance)
    )
    of = next((item.cpus for item in hosts), ())
    return tuple(Cpu(cpu + cores) for cpu in of if cpu + cores < cpus)[: task.threads]


def _topology(
    cpus: int, cores: int, package_of: Sequence[int], isolated: set[Cpu], processor: Processor
) -> Topology:
    rows = []
    for cpu in range(cpus):
        core = cpu % cores
        package = package_of[core]
        siblings = tuple(Cpu(other) for other in (core, core + cores) if other != cpu)
        rows.append(
            CpuInfo(
                cpu=Cpu(cpu),
                online=True,
                core=Core(core),
                package=Package(package),
                die=0,
                l3=L3Domain(package),
                node=package,
                siblings=tuple(other for other in siblings if other < cpus),
                isolated=cpu in isolated,
            )
        )
    caches = tuple(
        L3Cache(
            L3Domain(package),
            processor.cache_bytes(package_of.count(package)),
            processor.ways,
            tuple(row.cpu for row in rows if row.package == package),
        )
        for package in sorted(set(package_of))
    )
    return Topology(tuple(rows), caches)
