"""What a policy was before nftop's own changes of it, from the history."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nftop.control.entry import Entry
from nftop.control.past import kept
from nftop.model.action import Cell, Change, State


def before(history: Iterable[Entry], cells: Iterable[Cell], state: State) -> Mapping[Cell, str]:
    """What the newest change of these cells that still stands had found, by the cells it changed.

    A change that leads back to where the one before it came from takes that off: so who pins,
    pins otherwise and releases twice is where he began. Empty where nothing stands, or where one
    of these cells is not as that change left it.
    """
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
    newest = max((stack[-1][0] for stack in stacks.values() if stack), default=None)
    last = [stack[-1][1] for stack in stacks.values() if stack and stack[-1][0] == newest]
    if any(state.get(each.cell) != each.new for each in last):
        return {}
    return {each.cell: each.old for each in last if each.old is not None}
