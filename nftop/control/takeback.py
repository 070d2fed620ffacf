"""The way back: which cells are still as a change made them, and what they are to be again.

What is neither as it was nor as the change had it at some time is somebody else's: it is left
alone, and so is every directory in which something of others is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from nftop.control.steps import UNBORN
from nftop.model.action import Cell, Change, State, difference, parts
from nftop.model.rdt import ROOT

_DIRECTORIES = ("group", "monitor")


@dataclass(frozen=True, slots=True)
class Made:
    """What a change did, as far as it is known.

    Attributes:
        values: all that each cell was meanwhile and before; None: not there.
        goal: what each of these cells is to be again.
        numbers: of directories that are this change's or were there before it, all known ones.
    """

    values: Mapping[Cell, frozenset[str | None]]
    goal: Mapping[Cell, str | None]
    numbers: Mapping[Cell, frozenset[str]]

    def loose(self, cell: Cell) -> bool:
        """Whether a directory was being made when somebody was killed.

        Its number, and first masks, are the kernel's: both are unknown, and it is this change's
        whatever they are.
        """
        return UNBORN in self.values.get(cell, ()) and cell not in self.numbers


def numbers_of(*sources: Iterable[tuple[Cell, str | None]]) -> Mapping[Cell, frozenset[str]]:
    """The known numbers of directories among cells and their values."""
    found: dict[Cell, set[str]] = {}
    for cell, value in (row for rows in sources for row in rows):
        if cell.kind in _DIRECTORIES and value not in (None, UNBORN):
            found.setdefault(cell, set()).add(str(value))
    return {cell: frozenset(each) for cell, each in found.items()}


def way_back(
    found: State, made: Made, crowded: Collection[str] = ()
) -> tuple[State, tuple[Cell, ...]]:
    """The state to go to, and the cells that somebody else has changed.

    `crowded`: places where there are threads that are not cells of `found`.
    """
    foreign = {cell for cell in made.values if _foreign(cell, found, made)}
    target = dict(found)
    for cell in made.values.keys() - foreign:
        goal = made.goal.get(cell)
        if cell.kind == "task" and cell not in found:
            continue  # it has ended
        if goal is not None:
            known = cell.kind in _DIRECTORIES and cell in found
            target[cell] = found[cell] if known else goal
    foreign |= _unreachable(target, found, made)
    gone = [cell for cell in made.values.keys() - foreign if made.goal.get(cell) is None]
    held = {parts(where) for where in crowded}
    for kind in ("monitor", "group"):
        for cell in [cell for cell in gone if cell.kind == kind and cell in target]:
            if _in_use(cell, target, foreign, held):
                foreign.add(cell)
            else:
                _drop(target, cell)
    return target, tuple(sorted(foreign))


def changes_between(found: State, target: State) -> tuple[Change, ...]:
    """What is to be done; a directory that is to be there again will have another number."""
    return tuple(
        replace(each, new=UNBORN)
        if each.cell.kind in _DIRECTORIES and each.new is not None
        else each
        for each in difference(found, target)
    )


def is_birth(change: Change) -> bool:
    """Only the number of a directory differs, which it has from the kernel."""
    directory = change.cell.kind in _DIRECTORIES
    return directory and change.old is not None and change.new is not None


def is_end(change: Change) -> bool:
    """A thread has ended, as threads do."""
    return change.cell.kind == "task" and change.new is None


def _foreign(cell: Cell, found: State, made: Made) -> bool:
    value = found.get(cell)
    if cell.kind in _DIRECTORIES:
        ours = made.values[cell] | made.numbers.get(cell, frozenset())
        return value not in ours and not (value is not None and made.loose(cell))
    if cell.kind == "task" and value is None:
        return False
    if cell.kind in ("cpu", "task"):
        places = (value, made.goal.get(cell))
        if any(_replaced(*parts(each), found, made) for each in places if each is not None):
            return True
        return value not in made.values[cell]
    if _replaced(cell.group, "", found, made):
        return True
    born = made.loose(Cell("group", cell.group)) and value is not None
    return value not in made.values[cell] and not born


def _replaced(group: str, monitor: str, found: State, made: Made) -> bool:
    """Whether a directory is another than the one this change knew: made anew by somebody."""
    cells = [Cell("group", group)] + [Cell("monitor", group, monitor)] * bool(monitor)
    return any(
        cell in found and cell in made.numbers and found[cell] not in made.numbers[cell]
        for cell in cells
    )


def _unreachable(target: dict[Cell, str], found: State, made: Made) -> set[Cell]:
    """Cells that can't be what they were, since somebody removed the group: as they are found.

    Where only the monitoring group is gone, its control group is what can be had again.
    """

    def there(group: str) -> bool:
        return group == ROOT or Cell("group", group) in target

    lost = set()
    for cell in [cell for cell in made.values if cell in target and cell.kind != "group"]:
        moves = cell.kind in ("cpu", "task")
        group, monitor = parts(target[cell]) if moves else (cell.group, "")
        if not there(group):
            lost.add(cell)
            if cell in found:
                target[cell] = found[cell]
            else:
                del target[cell]
        elif moves and Cell("monitor", group, monitor) not in target:
            target[cell] = group
    return lost


def _in_use(
    cell: Cell,
    target: State,
    foreign: Collection[Cell],
    held: Collection[tuple[str, str]],
) -> bool:
    """Whether something of others is in a directory that would go."""
    inside = [
        each
        for each, value in target.items()
        if (each.kind in ("cpu", "task") and _within(cell, *parts(value)))
        or (each.kind == "monitor" and cell.kind == "group" and each.group == cell.group)
    ]
    spoilt = [
        each
        for each in foreign
        if each.kind not in ("cpu", "task") and each != cell and each.group == cell.group
        and (cell.kind == "group" or each.name == cell.name)
    ]  # fmt: skip
    return bool(inside or spoilt or any(_within(cell, *each) for each in held))


def _within(cell: Cell, group: str, monitor: str) -> bool:
    return cell.group == group and cell.name in ("", monitor)


def _drop(target: dict[Cell, str], cell: Cell) -> None:
    for each in [each for each in target if each.group == cell.group]:
        if each == cell or (cell.kind == "group" and each.kind not in ("cpu", "task")):
            del target[each]
