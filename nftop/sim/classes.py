"""The simulated host's resctrl at one time: its cells and hardware numbers.

Operations are validated elsewhere: `numbered` takes the state after a valid operation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from nftop.model.change import Cell, State
from nftop.model.ids import Cpu
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import MB, ROOT, SHAREABLE, IoWays, Limits, group_path, split_path
from nftop.model.struct import dataclass
from nftop.sim.layout import Layout
from nftop.sim.model import Model
from nftop.sim.payloads import thread_table
from nftop.sim.scenario import ScenarioGroup

ALL_PERCENT = 100
L3 = "L3"
ENABLED, DISABLED = "enabled", "disabled"
_FIRST_INODE = 2


@dataclass(frozen=True, slots=True)
class SimulatedClasses:
    """All directories of resctrl.

    Attributes:
        state: all cells, including every thread's, initially in `ROOT`.
        clos: the hardware's class by control group, 0 for the root group.
        rmids: the hardware's monitor by group path (`model.change.group_path`).
        next_inode: of the next directory.
        ways: of each last-level cache. limits: of the processor.
        on_cpu: by CPU, the threads pinned to it that poll or compute, `TID@STARTTIME`.
        io_bits: ways of I/O as CPUID reports them, and as they are until io_alloc sets others.
    """

    state: State
    clos: Mapping[str, int]
    rmids: Mapping[str, int]
    next_inode: int
    on_cpu: Mapping[int, str]
    ways: int
    limits: Limits
    io_bits: int

    @property
    def io_alloc(self) -> bool | None:
        """Whether io_alloc is on; None: not offered."""
        value = self.state.get(Cell("io_alloc", "", L3))
        return None if value is None else value == ENABLED

    def io(self, l3: int) -> IoWays:
        """Ways of a cache that devices write into."""
        bits = self.state.get(Cell("io_cbm", "", L3, l3))
        if bits is None:
            return IoWays(Cbm(self.io_bits, self.ways), "cpuid")
        return IoWays(Cbm(int(bits, 16), self.ways), "io_alloc")

    @property
    def groups(self) -> tuple[str, ...]:
        """The control groups, by class."""
        return tuple(sorted(self.clos, key=lambda group: self.clos[group]))

    @property
    def paths(self) -> tuple[str, ...]:
        """All monitored groups: each control group, followed by its monitoring groups."""
        return tuple(
            where
            for group in self.groups
            for where in (group, *(group_path(group, monitor) for monitor in self.monitors(group)))
        )

    def monitors(self, group: str) -> tuple[str, ...]:
        """The monitoring groups of a control group, by name."""
        matches = (c.name for c in self.state if c.kind == "monitor" and c.group == group)
        return tuple(sorted(matches))

    def mask(self, group: str, l3: int) -> Cbm:
        """Ways of a cache that a control group may fill."""
        return Cbm(int(self.state[Cell("schemata", group, L3, l3)], 16), self.ways)

    def mba_percent(self, group: str, l3: int) -> int | None:
        """Its limit on memory bandwidth; None without MBA."""
        value = self.state.get(Cell("schemata", group, MB, l3))
        return None if value is None else int(value)

    def inode(self, where: str) -> int:
        if where == ROOT:
            return _FIRST_INODE
        group, monitor = split_path(where)
        cell = Cell("monitor", group, monitor) if monitor else Cell("group", group)
        return int(self.state[cell])

    def cpus(self, where: str) -> tuple[Cpu, ...]:
        """The `cpus` file of a group; a control group's includes its monitoring groups' CPUs."""
        group, monitor = split_path(where)
        matches = (
            Cpu(cell.number)
            for cell, at in self.state.items()
            if cell.kind == "cpu" and _is_in(at, group, monitor)
        )
        return tuple(sorted(matches))

    def tasks(self, where: str) -> tuple[int, ...]:
        """Threads in a group; none for the root group. A control group's include its monitors'."""
        if where == ROOT:
            return ()
        group, monitor = split_path(where)
        matches = (
            int(cell.name.partition("@")[0])
            for cell, at in self.state.items()
            if cell.kind == "task" and _is_in(at, group, monitor)
        )
        return tuple(sorted(matches))

    def runs(self) -> Mapping[int, str]:
        """By CPU the group whose class and monitor are in effect: its thread's, else its own."""
        matches = {c.number: where for c, where in self.state.items() if c.kind == "cpu"}
        for cpu, thread in self.on_cpu.items():
            own = self.state[Cell("task", "", thread)]
            if own != ROOT:
                matches[cpu] = own
        return matches


def io_ways(ways: int) -> Cbm:
    """I/O ways by CPUID, the register's default too: the two highest."""
    return Cbm(0b11 << ways - 2, ways)


def first_classes(model: Model) -> SimulatedClasses:
    """Initial cache classes of the scenario."""
    groups, limits = model.scenario.groups, model.scenario.processor.limits
    state: dict[Cell, str] = {}
    for index, (group, cpus) in enumerate(zip(groups, _cpus(groups, model.layout), strict=True)):
        if group.name != ROOT:
            state[Cell("group", group.name)] = str(_FIRST_INODE + index)
        state[Cell("mode", group.name)] = SHAREABLE
        state |= {Cell("cpu", "", number=cpu): group_path(group.name) for cpu in cpus}
        for column, cache in enumerate(model.layout.topology.l3):
            mask = group.ways[min(column, len(group.ways) - 1)]
            state[Cell("schemata", group.name, L3, cache.id)] = f"{mask.bits:x}"
            if limits.mba_least is not None:
                state[Cell("schemata", group.name, MB, cache.id)] = str(group.mba_percent)
    if limits.io_alloc is not None:
        state[Cell("io_alloc", "", L3)] = ENABLED if limits.io_alloc else DISABLED
    working = {cpu for placed in model.layout.placed for cpu in placed.cpus}
    on_cpu = {}
    for row in thread_table(model, 0, 0).threads:
        name = f"{row.tid}@{row.start_ticks}"
        state[Cell("task", "", name)] = ROOT
        if row.allowed[0] in working:
            on_cpu[int(row.allowed[0])] = name
    return SimulatedClasses(
        state=state,
        clos={group.name: group.clos for group in groups},
        rmids={group.name: index for index, group in enumerate(groups)},
        next_inode=_FIRST_INODE + len(groups),
        on_cpu=on_cpu,
        ways=model.scenario.processor.ways,
        limits=limits,
        io_bits=io_ways(model.scenario.processor.ways).bits,
    )


def numbered(before: SimulatedClasses, state: State, l3: Iterable[int]) -> SimulatedClasses:
    """The classes after `before` with the cells of `state`.

    A directory with the number "" is new: it gets the next inode, the lowest free class and
    monitor, and all ways of the caches `l3`, as no group here is exclusive. So does I/O when it is
    switched on.
    """
    matches, inode = dict(state), before.next_inode
    caches = tuple(l3)
    for cell in [cell for cell, value in state.items() if not value]:
        if cell.kind == "io_cbm":
            matches[cell] = f"{(1 << before.ways) - 1:x}"
            continue
        matches[cell] = str(inode)
        inode += 1
        for cache in caches if cell.kind == "group" else ():
            matches[Cell("schemata", cell.group, L3, cache)] = f"{(1 << before.ways) - 1:x}"
            if before.limits.mba_least is not None:
                matches[Cell("schemata", cell.group, MB, cache)] = str(ALL_PERCENT)
    groups = [ROOT, *(cell.group for cell in matches if cell.kind == "group")]
    paths = [*groups, *(group_path(c.group, c.name) for c in matches if c.kind == "monitor")]
    return SimulatedClasses(
        state=matches,
        clos=_given(before.clos, groups),
        rmids=_given(before.rmids, paths),
        next_inode=inode,
        on_cpu=before.on_cpu,
        ways=before.ways,
        limits=before.limits,
        io_bits=before.io_bits,
    )


def _is_in(where: str, group: str, monitor: str) -> bool:
    own_group, own_monitor = split_path(where)
    return own_group == group and monitor in ("", own_monitor)


def _given(before: Mapping[str, int], names: Collection[str]) -> Mapping[str, int]:
    """Numbers of names: previous ones, or the lowest free."""
    matches = {name: before[name] for name in names if name in before}
    for name in names:
        if name not in matches:
            taken = set(matches.values())
            matches[name] = next(number for number in range(len(names)) if number not in taken)
    return matches


def _cpus(groups: tuple[ScenarioGroup, ...], layout: Layout) -> tuple[tuple[Cpu, ...], ...]:
    """CPUs of each group; the root group, the first, has the rest."""
    of_task: dict[str, list[Cpu]] = {}
    for placed in layout.placed:
        of_task.setdefault(placed.task.name, []).extend(placed.cpus)
    named = [
        tuple(sorted(cpu for task in group.tasks for cpu in of_task.get(task, ())))
        for group in groups
        if group.name != ROOT
    ]
    taken = frozenset(cpu for cpus in named for cpu in cpus)
    rest = tuple(info.cpu for info in layout.topology.cpus if info.cpu not in taken)
    return (rest, *named)
