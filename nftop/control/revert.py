"""The plan of a revert: which cells are still as a change made them, and their former values.

A cell that is neither as it was nor as the change had it at some time is another program's: it is
left alone, and so is every directory that contains something of others. CPUs and threads whose
group is gone move to the root group, as the kernel does when a group is removed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from nftop.control.backend import KERNEL_ASSIGNED
from nftop.model.change import DIRECTORIES, POLICY_KINDS, Cell, Change, State, difference
from nftop.model.rdt.rdt import ROOT, split_path
from nftop.model.struct import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class KnownChange:
    """What is known of a change.

    Attributes:
        values: all values that each cell had before and during it; None: absent.
        goal: the value to restore for each of these cells.
        numbers: known numbers of directories that it created or found.
        initial: values that the kernel gives cells that were offline when they return.
    """

    values: Mapping[Cell, frozenset[str | None]]
    goal: Mapping[Cell, str | None]
    numbers: Mapping[Cell, frozenset[str]]
    initial: Mapping[Cell, str] = field(default_factory=dict)

    def creation_interrupted(self, cell: Cell) -> bool:
        """Whether a crash interrupted the creation of a directory.

        Its number and first masks are then unknown: any count as this change's.
        """
        return KERNEL_ASSIGNED in self.values.get(cell, ()) and cell not in self.numbers


@dataclass(frozen=True, slots=True)
class RevertTarget:
    """Result of planning a revert.

    Attributes:
        target: the state to restore.
        foreign: cells that others have changed; `target` has their present values.
        displaced: by CPU or thread its former group, which is gone or another by now.
        offline: cells that can't be restored while their CPU or cache is offline.
    """

    target: State
    foreign: tuple[Cell, ...]
    displaced: Mapping[Cell, str]
    offline: tuple[Cell, ...] = ()


def offline_in(state: State, cells: Iterable[Cell]) -> frozenset[Cell]:
    """The cells that a state lacks because their CPU, cache or power domain is offline.

    The kernel shows no line of schemata for a domain without an online CPU. An online CPU is in
    some group, and its frequency policy has values.
    """
    shown = {(cell.name, cell.number) for cell in state if cell.kind == "schemata"}
    lines = {name for name, _ in shown}
    policies = {(cell.name, cell.number) for cell in state if cell.kind in POLICY_KINDS}

    def is_offline(cell: Cell) -> bool:
        if cell.kind == "schemata":
            has_group = cell.group == ROOT or Cell("group", cell.group) in state
            return has_group and cell.name in lines and (cell.name, cell.number) not in shown
        if cell.kind == "io_cbm":  # none is shown while they are not set
            is_set = state.get(Cell("io_alloc", "", cell.name)) == "enabled"
            return is_set and cell.name in lines and (cell.name, cell.number) not in shown
        if cell.kind in POLICY_KINDS:
            return (cell.name, cell.number) not in policies
        return cell.kind in ("cpu", "bf", "cp_class")

    return frozenset(cell for cell in cells if cell not in state and is_offline(cell))


def numbers_of(*sources: Iterable[tuple[Cell, str | None]]) -> Mapping[Cell, frozenset[str]]:
    numbers: dict[Cell, set[str]] = {}
    for cell, value in (row for rows in sources for row in rows):
        if cell.kind in DIRECTORIES and value not in (None, KERNEL_ASSIGNED):
            numbers.setdefault(cell, set()).add(str(value))
    return {cell: frozenset(item) for cell, item in numbers.items()}


def revert_target(state: State, change: KnownChange, crowded: Collection[str] = ()) -> RevertTarget:
    """From a state to what was before a change, as far as possible.

    `crowded`: groups with threads that are no cells of `state`.
    """
    offline = offline_in(state, change.values)
    foreign = {cell for cell in change.values.keys() - offline if _foreign(cell, state, change)}
    target = dict(state)
    for cell in change.values.keys() - foreign - offline:
        goal = change.goal.get(cell)
        if cell.kind == "task" and cell not in state:
            continue  # it has ended
        if goal is not None:
            known = cell.kind in DIRECTORIES and cell in state
            target[cell] = state[cell] if known else goal
    foreign |= _lost(target, state, change) | _io_reverted(target, foreign)
    displaced = _displaced(target, state, change, foreign)
    gone = [cell for cell in change.values.keys() - foreign if change.goal.get(cell) is None]
    held = {split_path(where) for where in crowded}
    for kind in ("monitor", "group"):
        for cell in [cell for cell in gone if cell.kind == kind and cell in target]:
            if _in_use(cell, target, foreign, held):
                foreign.add(cell)
            else:
                _drop(target, cell)
    waits = tuple(sorted(cell for cell in offline if _waits(cell, target, change)))
    return RevertTarget(target, tuple(sorted(foreign)), displaced, waits)


def _io_reverted(target: dict[Cell, str], foreign: Collection[Cell]) -> set[Cell]:
    """The switch of the ways of I/O, if others have set them since; corrects `target`.

    Switching them off loses their masks, so that is not done with masks of others. Switched off,
    there are no masks.
    """
    switch = next((cell for cell in target if cell.kind == "io_alloc"), None)
    masks = [cell for cell in target if cell.kind == "io_cbm"]
    if switch is None or target[switch] == "enabled":
        return set()
    if any(cell.kind == "io_cbm" and cell in target for cell in foreign):
        target[switch] = "enabled"
        return {switch}
    for cell in masks:
        del target[cell]
    return set()


def changes_between(state: State, target: State) -> tuple[Change, ...]:
    """Changes to make; a directory that is created again gets another number."""
    return tuple(
        replace(item, new=KERNEL_ASSIGNED)
        if item.cell.kind in DIRECTORIES and item.new is not None
        else item
        for item in difference(state, target)
    )


def is_birth(change: Change) -> bool:
    """Whether only a value that the kernel chooses differs, such as a directory's number."""
    given = change.cell.kind in DIRECTORIES or change.old == KERNEL_ASSIGNED
    return given and change.old is not None and change.new is not None


def differing(foreseen: State, state: State) -> list[Change]:
    """Unexpected differences: neither values that the kernel chooses nor threads that ended."""
    changes = difference(foreseen, state)
    return [change for change in changes if not is_birth(change) and not is_end(change)]


def is_end(change: Change) -> bool:
    return change.cell.kind == "task" and change.new is None


def _waits(cell: Cell, target: State, change: KnownChange) -> bool:
    """Whether an offline cell has to be restored once online: the kernel does not do it."""
    goal = change.goal.get(cell)
    if goal is None or (cell.kind == "cpu" and goal == ROOT):
        return False
    return cell.kind != "schemata" or cell.group == ROOT or Cell("group", cell.group) in target


def _foreign(cell: Cell, state: State, change: KnownChange) -> bool:
    value = state.get(cell)
    if value is not None and value == change.initial.get(cell):
        return False
    if cell.kind in DIRECTORIES:
        ours = change.values[cell] | change.numbers.get(cell, frozenset())
        return value not in ours and not (value is not None and change.creation_interrupted(cell))
    if cell.kind == "task" and value is None:
        return False
    if cell.kind in ("cpu", "task"):
        elsewhere = value is not None and _replaced(*split_path(value), state, change)
        return elsewhere or value not in change.values[cell]
    if _replaced(cell.group, "", state, change):
        return True
    given = (
        change.creation_interrupted(Cell("group", cell.group))
        or KERNEL_ASSIGNED in change.values[cell]
    )
    born = given and value is not None
    return value not in change.values[cell] and not born


def _replaced(group: str, monitor: str, state: State, change: KnownChange) -> bool:
    """Whether a directory was removed and created again by others."""
    cells = [Cell("group", group)] + [Cell("monitor", group, monitor)] * bool(monitor)
    return any(
        cell in state and cell in change.numbers and state[cell] not in change.numbers[cell]
        for cell in cells
    )


def _lost(target: dict[Cell, str], state: State, change: KnownChange) -> set[Cell]:
    """Masks and monitoring groups that can't be restored: their group was removed."""
    lost = {
        cell
        for cell in change.values
        if cell in target
        and cell.kind in ("monitor", "mode", "schemata")
        and cell.group != ROOT
        and Cell("group", cell.group) not in target
    }
    for cell in lost:
        if cell in state:
            target[cell] = state[cell]
        else:
            del target[cell]
    return lost


def _displaced(
    target: dict[Cell, str], state: State, change: KnownChange, foreign: Collection[Cell]
) -> Mapping[Cell, str]:
    """CPUs and threads whose group is gone, with that group; sets their new group in `target`.

    That is the control group if only the monitoring group is gone, else the root group.
    """
    displaced = {}
    for cell in change.values.keys() - set(foreign):
        if cell.kind not in ("cpu", "task") or cell not in target:
            continue
        where = target[cell]
        group, monitor = split_path(where)
        if group != ROOT and (
            Cell("group", group) not in target or _replaced(group, "", state, change)
        ):
            target[cell] = ROOT
        elif monitor and (
            Cell("monitor", group, monitor) not in target
            or _replaced(group, monitor, state, change)
        ):
            target[cell] = group
        if target[cell] != where:
            displaced[cell] = where
    return dict(sorted(displaced.items()))


def _in_use(
    cell: Cell, target: State, foreign: Collection[Cell], held: Collection[tuple[str, str]]
) -> bool:
    """Whether a directory to be removed contains something of others."""
    inside = [
        key
        for key, value in target.items()
        if (key.kind in ("cpu", "task") and _within(cell, *split_path(value)))
        or (key.kind == "monitor" and cell.kind == "group" and key.group == cell.group)
    ]
    foreign_inside = [
        item
        for item in foreign
        if item.kind not in ("cpu", "task")
        and item != cell
        and item.group == cell.group
        and (cell.kind == "group" or item.name == cell.name)
    ]
    return bool(inside or foreign_inside or any(_within(cell, *item) for item in held))


def _within(cell: Cell, group: str, monitor: str) -> bool:
    return cell.group == group and cell.name in ("", monitor)


def _drop(target: dict[Cell, str], cell: Cell) -> None:
    for item in [entry for entry in target if entry.group == cell.group]:
        if item == cell or (cell.kind == "group" and item.kind not in ("cpu", "task")):
            del target[item]
