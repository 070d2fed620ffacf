"""What is to be said of a change, be it asked for or the way back: whether it can be, and how."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nftop.control.effects import effects, warnings, ways_text
from nftop.control.rules import Rules, untouchable
from nftop.control.steps import EXCLUSIVE, MB, SHAREABLE, rivals, steps
from nftop.model.action import Cell, Change, Proposal, State, parts

_LOCKED = "pseudo-locked"


def judged(
    base: State, target: State, changes: Sequence[Change], rules: Rules, command: str
) -> Proposal:
    """The proposal that these changes of `base`, which lead to `target`, are."""
    refusals = (*forbidden(base, changes), *_exclusive(target, rules, changes))
    if refusals:
        said = tuple(dict.fromkeys(refusals))
        return Proposal(base, (), refusals=said, command=command)
    return Proposal(
        base=base,
        changes=tuple(changes),
        effects=tuple(effects(base, target, rules, changes)),
        warnings=tuple(warnings(target, rules, changes)),
        command=command,
    )


def forbidden(base: State, changes: Iterable[Change]) -> Iterator[str]:
    """Groups that are not to be touched, be it for another's sake."""
    for step in steps(base, changes):
        why = untouchable(base, step.group, step.monitor)
        if why:
            yield why
    for change in changes:
        for where in (change.old, change.new):
            if change.cell.kind in ("cpu", "task") and where is not None:
                why = untouchable(base, *parts(where))
                if why:
                    yield why


def _exclusive(target: State, rules: Rules, changes: Iterable[Change]) -> Iterator[str]:
    """The kernel lets nobody share the ways of an exclusive group, nor it those of I/O."""

    def mode(cell: Cell) -> str:
        return target.get(Cell("mode", cell.group), SHAREABLE)

    for cell, new in ((each.cell, each.new) for each in changes):
        if cell.kind != "schemata" or cell.name == MB or new is None:
            continue
        bits, rule = int(new, 16), rules.masks.get(cell.name)
        if rule is not None and mode(cell) == EXCLUSIVE and bits & rule.shareable:
            yield f"{cell.group} is exclusive and can't have ways of I/O ({rule.shareable:x})"
        for other, value in target.items():
            both = int(value, 16) & bits if rivals(cell, other) else 0
            alone = {mode(cell), mode(other)} & {EXCLUSIVE} or mode(other) == _LOCKED
            if both and alone:
                yield (
                    f"{cell.name} {cell.number}={new}: ways {ways_text(both)} can't be shared "
                    f"with {other.group}, which is {mode(other)}"
                    if mode(other) != SHAREABLE
                    else f"{cell.name} {cell.number}={new}: {cell.group} is exclusive, and "
                    f"{other.group} has ways {ways_text(both)}"
                )
