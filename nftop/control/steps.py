"""A change as single operations on resctrl, in an order whose every state is valid.

Each is one system call, and what the kernel makes of the state by it is known beforehand
(`after`): a process that dies between two of them leaves one of the states foreseen.

Kernel facts, `fs/resctrl` of Linux 7.2, the same in 6.1: writing a control group's CPUs gives what
it loses to the root group, takes what it gains out of every other group and that one's monitoring
groups, and clears the CPUs of all its own monitoring groups; writing a monitoring group's takes
them out of its siblings; removing a control group gives its
CPUs and tasks to the root group.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from nftop.model.action import Cell, Change, State
from nftop.model.ids import format_cpu_list, parse_cpu_list
from nftop.model.rdt import ROOT

Deed: TypeAlias = Literal["mkdir", "rmdir", "schemata", "cpus", "task"]
# The number of a directory that is not there yet: the kernel gives it when it makes it.
UNBORN = ""
MB = "MB"


@dataclass(frozen=True, slots=True)
class Step:
    """One operation.

    Attributes:
        monitor: of a monitoring group below `group`; "" for the control group itself.
        text: what is written; "" where nothing is.
        sets: the cells it is done for, with their values after it; None: not there any more.
    """

    deed: Deed
    group: str
    monitor: str
    text: str
    sets: Mapping[Cell, str | None]


def steps(state: State, changes: Iterable[Change]) -> tuple[Step, ...]:
    """The operations that take `state` through `changes`.

    First what is new is made, then masks are set, those that shrink before those that grow, so
    that a class is ready before a CPU comes to it; then CPUs are moved, those monitoring groups
    mended which that cleared, and threads moved; last what is to go is removed.
    """
    wanted: dict[Cell, str | None] = {change.cell: change.new for change in changes}
    # Monitoring groups that a write of CPUs clears are to have theirs again.
    wanted = {**{cell: value for cell, value in state.items() if _stays(cell, wanted)}, **wanted}
    found: list[Step] = []
    now: State = dict(state)
    for planned in (_made, _schemata, _cpus, _monitor_cpus, _tasks, _removed):
        for step in planned(now, wanted):
            found.append(step)
            now = after(now, step)
    return tuple(found)


def _stays(cell: Cell, wanted: Mapping[Cell, str | None]) -> bool:
    """Whether it is what a monitoring group meters, of one that is not to go."""
    gone = (Cell("monitor", cell.group, cell.name), Cell("group", cell.group))
    return cell.kind == "monitor_cpus" and all(wanted.get(each, "") is not None for each in gone)


def touched(state: State, planned: Iterable[Step]) -> Mapping[Cell, frozenset[str | None]]:
    """Every cell that is different at some time meanwhile, and all it is then and before."""
    seen: dict[Cell, set[str | None]] = {}
    before = state
    for now in states(state, planned):
        for cell in {cell for cell, _ in before.items() ^ now.items()}:
            seen.setdefault(cell, {state.get(cell)}).add(now.get(cell))
        before = now
    return {cell: frozenset(values) for cell, values in seen.items()}


def states(state: State, planned: Iterable[Step]) -> Iterator[State]:
    """`state`, and what it is after each step."""
    yield state
    for step in planned:
        state = after(state, step)
        yield state


def after(state: State, step: Step) -> State:
    """What the kernel makes of a state."""
    now = dict(state)
    for cell, value in step.sets.items():
        if value is None:
            now.pop(cell, None)
        else:
            now[cell] = value
    if step.deed == "cpus" and not step.monitor:
        _take(now, step.group, cpus_of(now, Cell("cpus", step.group)), dict(state))
    if step.deed == "cpus" and step.monitor:
        _share_out(now, step.group, step.monitor)
    if step.deed == "rmdir" and not step.monitor:
        _leave(now, step.group, cpus_of(state, Cell("cpus", step.group)))
    return now


def cpus_of(state: State, cell: Cell) -> frozenset[int]:
    """The CPUs of a cell; none where it is not there."""
    return frozenset(parse_cpu_list(state.get(cell, "")))


def monitors_of(state: State, group: str) -> tuple[str, ...]:
    """The names of a group's monitoring groups."""
    return tuple(cell.name for cell in state if cell.kind == "monitor" and cell.group == group)


def _take(now: dict[Cell, str], group: str, cpus: frozenset[int], before: State) -> None:
    """A control group has these CPUs now: nobody else has them, and root what it lost."""
    lost = cpus_of(before, Cell("cpus", group)) - cpus
    for cell in [cell for cell in now if cell.kind == "cpus" and cell.group != group]:
        own = cpus_of(now, cell) - cpus | (lost if cell.group == ROOT else frozenset())
        now[cell] = format_cpu_list(own)
        _confine(now, cell.group, own)
    _confine(now, group, frozenset())


def _share_out(now: dict[Cell, str], group: str, monitor: str) -> None:
    """A CPU is in one monitoring group of its control group at most."""
    own = cpus_of(now, Cell("monitor_cpus", group, monitor))
    for name in monitors_of(now, group):
        cell = Cell("monitor_cpus", group, name)
        if name != monitor:
            now[cell] = format_cpu_list(cpus_of(now, cell) - own)


def _leave(now: dict[Cell, str], group: str, cpus: frozenset[int]) -> None:
    for cell in [cell for cell in now if cell.group == group and cell.kind != "task"]:
        del now[cell]
    for cell in [cell for cell, value in now.items() if cell.kind == "task" and value == group]:
        now[cell] = ROOT
    root = Cell("cpus", ROOT)
    now[root] = format_cpu_list(cpus_of(now, root) | cpus)


def _confine(now: dict[Cell, str], group: str, cpus: frozenset[int]) -> None:
    """Monitoring groups have CPUs of their control group only."""
    for name in monitors_of(now, group):
        cell = Cell("monitor_cpus", group, name)
        now[cell] = format_cpu_list(cpus_of(now, cell) & cpus)


def _made(state: State, wanted: Mapping[Cell, str | None]) -> Iterator[Step]:
    for cell, value in wanted.items():
        if value is None or cell in state:
            continue
        # Its masks are whatever the kernel chose until they are written.
        if cell.kind == "group":
            yield Step("mkdir", cell.group, "", "", {cell: UNBORN, Cell("cpus", cell.group): ""})
    for cell, value in wanted.items():
        if cell.kind == "monitor" and value is not None and cell not in state:
            empty = Cell("monitor_cpus", cell.group, cell.name)
            yield Step("mkdir", cell.group, cell.name, "", {cell: UNBORN, empty: ""})


def _schemata(state: State, wanted: Mapping[Cell, str | None]) -> Iterator[Step]:
    by_group: dict[str, dict[Cell, str]] = {}
    for cell, value in wanted.items():
        if cell.kind == "schemata" and value is not None and state.get(cell) != value:
            by_group.setdefault(cell.group, {})[cell] = value
    for group, values in sorted(by_group.items(), key=lambda each: _grows(state, each[1])):
        lines: dict[str, list[str]] = {}
        for cell, value in sorted(values.items()):
            lines.setdefault(cell.name, []).append(f"{cell.domain}={value}")
        text = "".join(f"{name}:{';'.join(each)}\n" for name, each in lines.items())
        yield Step("schemata", group, "", text, values)


def _grows(state: State, values: Mapping[Cell, str]) -> int:
    """0: masks lose ways only; 1: some gain. Of a group just made nothing is known."""
    masks = [(cell, int(value, 16)) for cell, value in values.items() if cell.name != MB]
    return int(any(bits & ~int(state.get(cell, "0"), 16) for cell, bits in masks))


def _cpus(state: State, wanted: Mapping[Cell, str | None]) -> Iterator[Step]:
    """A write for each group that gains, then for those that still have too many.

    The root group can't be told to lose any, and gains what others lose.
    """
    targets = {
        cell: value
        for cell, value in wanted.items()
        if cell.kind == "cpus" and cell.group != ROOT and value is not None
    }

    def gains(cell: Cell) -> bool:
        return bool(frozenset(parse_cpu_list(targets[cell])) - cpus_of(state, cell))

    now: State = state
    for cell in sorted(targets, key=lambda each: (not gains(each), each)):
        if now.get(cell, "") != targets[cell]:
            step = Step("cpus", cell.group, "", f"{targets[cell]}\n", {cell: targets[cell]})
            now = after(now, step)
            yield step


def _monitor_cpus(state: State, wanted: Mapping[Cell, str | None]) -> Iterator[Step]:
    for cell, value in wanted.items():
        if cell.kind == "monitor_cpus" and value is not None and state.get(cell) != value:
            yield Step("cpus", cell.group, cell.name, f"{value}\n", {cell: value})


def _tasks(state: State, wanted: Mapping[Cell, str | None]) -> Iterator[Step]:
    for cell, value in wanted.items():
        if cell.kind == "task" and value is not None and state.get(cell) != value:
            tid, _, _ = cell.name.partition("@")
            yield Step("task", value, "", f"{tid}\n", {cell: value})


def _removed(state: State, wanted: Mapping[Cell, str | None]) -> Iterator[Step]:
    for cell, value in wanted.items():
        if cell.kind == "monitor" and value is None and cell in state:
            own = {cell: None, Cell("monitor_cpus", cell.group, cell.name): None}
            yield Step("rmdir", cell.group, cell.name, "", own)
    for cell, value in wanted.items():
        if cell.kind == "group" and value is None and cell in state:
            yield Step("rmdir", cell.group, "", "", {cell: None})
