"""A change as single operations on resctrl, in an order whose every state is valid.

Each is one system call whose effect on the state is known beforehand (`backend.after`): a process
that dies between two of them leaves one of the expected states.

Kernel facts, `fs/resctrl` of Linux 7.2, the same in 6.1: writing a control group's CPUs gives what
it loses to the root group, takes what it gains out of every other group and that one's monitoring
groups, and clears the CPUs of all its own monitoring groups; writing a monitoring group's takes
them out of its siblings; a thread written to a control group's tasks leaves its monitoring group,
and can be written to a monitoring group's only while it is in the control group; removing a group
gives its CPUs and tasks to the control group it belongs to, or to the root group.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

from nftop.control.backend import KERNEL_ASSIGNED, advance, goal
from nftop.model.change import Cell, Change, State
from nftop.model.ids import format_cpu_list
from nftop.model.rdt.rdt import (
    EXCLUSIVE,
    MB,
    ROOT,
    SHAREABLE,
    cache_of_line,
    group_path,
    split_path,
)
from nftop.model.struct import dataclass, field

Operation: TypeAlias = Literal["mkdir", "rmdir", "schemata", "cpus", "task", "io_alloc", "io_cbm"]
# Values of an `io_alloc` cell, and files of a folder of info by operation. Writing 1 takes the
# highest class of the cache and gives I/O every way that no exclusive group has; writing 0 gives it
# back, and the kernel shows no mask any more (`fs/resctrl/ctrlmondata.c`, Linux 6.19).
ENABLED, DISABLED = "enabled", "disabled"
IO_FILES: Mapping[Operation, str] = {"io_alloc": "io_alloc", "io_cbm": "io_alloc_cbm"}


@dataclass(frozen=True, slots=True)
class ResctrlStep:
    """One operation.

    Attributes:
        monitor: a monitoring group of `group`; "" for the control group itself.
        values: for `schemata`, `io_alloc` and `io_cbm`, values to write by cell.
        cpus: for `cpus`, all CPUs of the group.
        task: for `task`, its cell.
    """

    operation: Operation
    group: str
    monitor: str = ""
    values: Mapping[Cell, str] = field(default_factory=dict)
    cpus: frozenset[int] = frozenset()
    task: Cell | None = None

    @property
    def text(self) -> str:
        """Text to write; "" if none."""
        if self.operation == "cpus":
            return f"{format_cpu_list(self.cpus)}\n"
        if self.task is not None:
            return f"{self.task.name.partition('@')[0]}\n"
        if self.operation == "io_alloc":
            return f"{int(ENABLED in self.values.values())}\n"
        if self.operation == "io_cbm":
            masks = sorted((cell.number, value) for cell, value in self.values.items())
            return ";".join(f"{domain}={value}" for domain, value in masks) + "\n"
        lines: dict[str, list[str]] = {}
        for cell, value in sorted(self.values.items()):
            lines.setdefault(cell.name, []).append(f"{cell.number}={value}")
        return "".join(f"{name}:{';'.join(line)}\n" for name, line in lines.items())

    @property
    def info_folder(self) -> str:
        """Folder below `info` of the ways of I/O (`L3`, with CDP `L3DATA`); "" for others."""
        return next(iter(self.values)).name if self.operation in IO_FILES else ""

    @property
    def info_file(self) -> str:
        """File of the ways of I/O that is written, below the mount; "" for other operations."""
        file = IO_FILES.get(self.operation, "")
        return f"info/{self.info_folder}/{file}" if file else ""

    def delta(self, state: State) -> Mapping[Cell, str | None]:
        return _delta(state, self)


def steps(state: State, changes: Iterable[Change]) -> tuple[ResctrlStep, ...]:
    """Operations for `changes` of `state`.

    First groups are created, then masks are set, those that shrink before those that grow, so that
    a class is ready before it gets CPUs; then CPUs are moved, directly from group to group, and
    returned to the monitoring groups that this clears; then threads are moved; then groups are
    removed. The ways of I/O come last, but are switched off first: their class may be needed by a
    group that is created, or be that of one that is removed.
    """
    target = goal(state, changes)
    delta: list[ResctrlStep] = []
    now = dict(state)
    for planned in (_io_off, _created, _schemata, _cpus, _monitored, _tasks, _removed, _io_on):
        for step in planned(dict(now), target):
            delta.append(step)
            advance(now, step.delta(now))
    return tuple(delta)


def cpus_in(state: State, group: str, monitor: str | None = None) -> frozenset[int]:
    """CPUs of a control group, or of one of its monitoring groups."""
    return frozenset(
        cell.number
        for cell, where in state.items()
        if cell.kind == "cpu"
        and (
            split_path(where)[0] == group
            if monitor is None
            else where == group_path(group, monitor)
        )
    )


def monitors_of(state: State, group: str) -> tuple[str, ...]:
    return tuple(cell.name for cell in state if cell.kind == "monitor" and cell.group == group)


def is_mask(cell: Cell) -> bool:
    """Whether a cell is a mask of ways, in hexadecimal."""
    return cell.kind == "schemata" and cell.name != MB


def rivals(cell: Cell, other: Cell) -> bool:
    """Whether two masks are of one cache and different groups; code and data share a cache."""
    return (
        (cell.kind, cell.number, cache_of_line(cell.name))
        == (other.kind, other.number, cache_of_line(other.name))
        and cell.group != other.group
        and cell.kind == "schemata"
    )


def by_cache(state: State) -> Mapping[tuple[str, int], Sequence[Cell]]:
    """Every mask by its cache (`L3`, 0), sorted: rivals are among those of one."""
    rows: dict[tuple[str, int], list[Cell]] = defaultdict(list)
    for cell in sorted(filter(is_mask, state)):
        rows[cache_of_line(cell.name), cell.number].append(cell)
    return rows


def _delta(state: State, step: ResctrlStep) -> Mapping[Cell, str | None]:
    here = group_path(step.group, step.monitor)
    if step.operation == "mkdir" and step.monitor:
        return {Cell("monitor", step.group, step.monitor): KERNEL_ASSIGNED}
    if step.operation == "mkdir":
        return {Cell("group", step.group): KERNEL_ASSIGNED, Cell("mode", step.group): SHAREABLE}
    if step.operation == "rmdir":
        return _left(state, step)
    if step.operation == "cpus":
        heir = step.group if step.monitor else ROOT
        delta: dict[Cell, str | None] = {}
        for cell, where in state.items():
            if cell.kind == "cpu" and cell.number in step.cpus:
                delta[cell] = here
            elif cell.kind == "cpu" and _within(where, step):
                delta[cell] = heir
        return delta
    if step.operation == "io_alloc":
        return _io_delta(state, step)
    return dict(step.values) if step.task is None else {step.task: here}


def _io_delta(state: State, step: ResctrlStep) -> Mapping[Cell, str | None]:
    """The ways of I/O are switched: the kernel chooses their masks, or shows none any more."""
    delta: dict[Cell, str | None] = dict(step.values)
    folder = step.info_folder
    if ENABLED in step.values.values():
        return delta | {io_cell(folder, l3): KERNEL_ASSIGNED for l3 in domains_of(state, folder)}
    return delta | {cell: None for cell in state if cell.kind == "io_cbm"}


def io_cell(line: str, l3: int | None = None) -> Cell:
    """The cell of the switch of the ways of I/O, or of their mask in a cache."""
    return Cell("io_alloc", "", line) if l3 is None else Cell("io_cbm", "", line, l3)


def io_switch(state: State) -> Cell | None:
    """The cell of the switch of the ways of I/O; None if they can't be set."""
    return next((cell for cell in state if cell.kind == "io_alloc"), None)


def domains_of(state: State, line: str) -> tuple[int, ...]:
    """Caches of a line of schemata, ascending."""
    cells = (
        cell for cell in state if (cell.kind, cell.group, cell.name) == ("schemata", ROOT, line)
    )
    return tuple(sorted(cell.number for cell in cells))


def _within(where: str, step: ResctrlStep) -> bool:
    """Whether a group is the step's, or one of its monitoring groups."""
    group, monitor = split_path(where)
    return group == step.group and step.monitor in ("", monitor)


def _left(state: State, step: ResctrlStep) -> Mapping[Cell, str | None]:
    """A directory is removed; its CPUs and threads go to the parent."""
    heir = step.group if step.monitor else ROOT
    delta: dict[Cell, str | None] = {}
    for cell, where in state.items():
        if cell.kind in ("cpu", "task"):
            if _within(where, step):
                delta[cell] = heir
        elif cell.group == step.group and (
            not step.monitor or (cell.kind, cell.name) == ("monitor", step.monitor)
        ):
            delta[cell] = None
    return delta


def _io_off(state: State, target: State) -> Iterator[ResctrlStep]:
    for cell, value in target.items():
        if cell.kind == "io_alloc" and value == DISABLED and state.get(cell) != value:
            yield ResctrlStep("io_alloc", ROOT, values={cell: value})


def _io_on(state: State, target: State) -> Iterator[ResctrlStep]:
    for cell, value in target.items():
        if cell.kind == "io_alloc" and value == ENABLED and state.get(cell) != value:
            yield ResctrlStep("io_alloc", ROOT, values={cell: value})
    masks = {
        cell: value
        for cell, value in target.items()
        if cell.kind == "io_cbm" and state.get(cell) != value
    }
    if masks:
        yield ResctrlStep("io_cbm", ROOT, values=masks)


def _created(state: State, target: State) -> Iterator[ResctrlStep]:
    for kind in ("group", "monitor"):
        for cell in target:
            if cell.kind == kind and cell not in state:
                yield ResctrlStep("mkdir", cell.group, cell.name)


def _schemata(state: State, target: State) -> Iterator[ResctrlStep]:
    by_group: dict[str, dict[Cell, str]] = defaultdict(dict)
    for cell, value in target.items():
        if cell.kind == "schemata" and state.get(cell) != value:
            by_group[cell.group][cell] = value
    now = dict(state)
    while by_group:
        order = [
            (_blocked(now, item), _grows(now, item), group) for group, item in by_group.items()
        ]
        group = min(order)[-1]
        values = by_group.pop(group)
        now |= values
        yield ResctrlStep("schemata", group, values=values)


def _grows(state: State, values: Mapping[Cell, str]) -> bool:
    """Whether a mask gains ways. Masks of a new group are unknown."""
    masks = [(cell, int(value, 16)) for cell, value in values.items() if cell.name != MB]
    return any(bits & ~int(state.get(cell, "0"), 16) for cell, bits in masks)


def _blocked(state: State, values: Mapping[Cell, str]) -> bool:
    """Whether an exclusive group forbids these masks until it has changed too."""
    if EXCLUSIVE not in (value for cell, value in state.items() if cell.kind == "mode"):
        return False
    return any(
        int(value, 16) & int(state[other], 16)
        for cell, value in values.items()
        if cell.name != MB
        for other in state
        if rivals(cell, other)
        and EXCLUSIVE in (state.get(Cell("mode", item.group)) for item in (cell, other))
    )


def _cpus(state: State, target: State) -> Iterator[ResctrlStep]:
    """A write for each group that gains CPUs, then for those that still have too many.

    A group keeps its CPUs until another takes them, so that none is in the root group meanwhile;
    the root group gains what others lose, and can't be made to lose any. A removed group loses its
    CPUs with its directory, except those for a monitoring group of the root group, which have to be
    in the root group before.
    """
    wanted: dict[str, set[int]] = defaultdict(set)
    for cell, where in target.items():
        if cell.kind == "cpu" and cell in state:
            wanted[split_path(where)[0]].add(cell.number)
    groups = [cell.group for cell in state if cell.kind == "group"]
    metered = {
        cell.number
        for cell, where in target.items()
        if cell.kind == "cpu" and split_path(where)[0] == ROOT != where
    }
    now = dict(state)
    gaining = [item for item in groups if wanted[item] - cpus_in(state, item)]
    for group in gaining:
        step = ResctrlStep("cpus", group, cpus=cpus_in(now, group) - wanted[ROOT] | wanted[group])
        advance(now, step.delta(now))
        yield step
    for group in groups:
        own = cpus_in(now, group)
        rest = own & wanted[group] if Cell("group", group) in target else own - metered
        if own != rest:
            step = ResctrlStep("cpus", group, cpus=rest)
            advance(now, step.delta(now))
            yield step


def _monitored(state: State, target: State) -> Iterator[ResctrlStep]:
    now = dict(state)
    for cell in state:
        if cell.kind == "monitor" and cell in target:
            wanted = cpus_in(target, cell.group, cell.name)
            wanted &= cpus_in(now, cell.group)
            if cpus_in(now, cell.group, cell.name) != wanted:
                step = ResctrlStep("cpus", cell.group, cell.name, cpus=wanted)
                advance(now, step.delta(now))
                yield step


def _tasks(state: State, target: State) -> Iterator[ResctrlStep]:
    for cell, where in target.items():
        now = state.get(cell)
        if cell.kind != "task" or now is None or now == where:
            continue
        (group, monitor), (own, metered) = split_path(where), split_path(now)
        falls = where == ROOT and Cell("group", own) not in target and own != ROOT
        if not falls and (group != own or (metered and not monitor)):
            yield ResctrlStep("task", group, task=cell)
        if monitor:
            yield ResctrlStep("task", group, monitor, task=cell)


def _removed(state: State, target: State) -> Iterator[ResctrlStep]:
    for cell in state:
        alone = cell.kind == "monitor" and (
            cell.group == ROOT or Cell("group", cell.group) in target
        )
        if alone and cell not in target:
            yield ResctrlStep("rmdir", cell.group, cell.name)
    for cell in state:
        if cell.kind == "group" and cell not in target:
            yield ResctrlStep("rmdir", cell.group)


def shell(step: ResctrlStep, mount: str) -> str:
    if step.info_file:
        path = shlex.quote(f"{mount}/{step.info_file}")
        return f"echo '{step.text.removesuffix(chr(10))}' > {path}"
    folder = mount if step.group == ROOT else f"{mount}/{step.group}"
    if step.monitor:
        folder += f"/mon_groups/{step.monitor}"
    if step.operation in ("mkdir", "rmdir"):
        return f"{step.operation} {shlex.quote(folder)}"
    file = {"schemata": "schemata", "cpus": "cpus_list", "task": "tasks"}[step.operation]
    text = step.text.removesuffix("\n").replace("\n", "\\n")
    word = "printf" if "\\n" in text else "echo"
    end = "\\n" if word == "printf" else ""
    return f"{word} '{text}{end}' > {shlex.quote(f'{folder}/{file}')}"
