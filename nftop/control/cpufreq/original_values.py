"""What a policy was before nftop's own changes of it, from the history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nftop.control.history import kept
from nftop.control.journal_entry import Entry
from nftop.model.change import Cell, Change, Kind, State

_LIMITS: tuple[Kind, ...] = ("min_khz", "max_khz")


def before(history: Iterable[Entry], cells: Iterable[Cell], state: State) -> Mapping[Cell, str]:
    """What one policy's cells were before the newest change of its limits that still stands.

    A change that leads back to where the one before it came from takes that off: so who pins,
    pins otherwise and releases twice is where he began. What has changed only governor or EPP since
    is taken back with it. Without limits where no change of them stands; empty where nothing does,
    where one of these cells is not as the change of it left it, or where that did not pin.
    """
    stacks = _standing(history, cells)
    found: dict[Cell, str] = {}
    while not any(cell.kind in _LIMITS for cell in found):
        newest = max((stack[-1][0] for stack in stacks.values() if stack), default=None)
        if newest is None:
            break
        last = [stack.pop()[1] for stack in stacks.values() if stack and stack[-1][0] == newest]
        now = {**state, **found}
        if any(now.get(item.cell) != item.new for item in last):
            return {}
        limits = {now.get(cell) for cell in stacks if cell.kind in _LIMITS}
        if len(limits) > 1 and any(entry.cell.kind in _LIMITS for entry in last):
            return {}  # it did not pin: it was a release, and that is not taken back by another
        found |= {item.cell: item.old for item in last if item.old is not None}
    return found


def _standing(
    history: Iterable[Entry], cells: Iterable[Cell]
) -> Mapping[Cell, list[tuple[int, Change]]]:
    """Of each cell the changes that stand, the oldest first, and their numbers."""
    stacks = {cell: list[tuple[int, Change]]() for cell in cells}
    for entry in kept(history):
        for change in entry.changes:
            stack = stacks.get(change.cell)
            if stack is None:
                continue
            top = stack[-1][1] if stack else None
            if top is not None and top.old == change.new and top.new == change.old:
                stack.pop()
            else:
                if top is not None and top.new != change.old:
                    stack.clear()  # somebody else came between
                stack.append((entry.number, change))
    return stacks
