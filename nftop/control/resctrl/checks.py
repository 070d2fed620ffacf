"""What is to be said of a change, be it asked for or the way back: whether it can be, and how."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from nftop.control.resctrl.effects import effects, of_masks, warnings, ways_text
from nftop.control.resctrl.operations import EXCLUSIVE, MB, SHAREABLE, by_cache, rivals, steps
from nftop.control.rules import Rules, untouchable
from nftop.model.change import Cell, Change, Proposal, State, parts

_LOCKED = "pseudo-locked"


def judged(
    base: State,
    target: State,
    changes: Sequence[Change],
    rules: Rules,
    commands: tuple[str, ...],
) -> Proposal:
    """The proposal that these changes of `base`, which lead to `target`, are."""
    refusals = (*forbidden(base, changes), *_exclusive(target, rules, changes))
    if refusals:
        said = tuple(dict.fromkeys(refusals))
        return Proposal(base, (), refusals=said, commands=commands)
    shared = tuple(of_masks(base, target, rules, changes))
    return Proposal(
        base=base,
        changes=tuple(changes),
        effects=(*(said for _, said in shared), *effects(target, changes)),
        warnings=tuple(warnings(target, rules, changes)),
        commands=commands,
        of_masks=shared,
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

    caches = by_cache(target)
    for cell, new in ((change.cell, change.new) for change in changes):
        if cell.kind != "schemata" or cell.name == MB or new is None:
            continue
        bits, rule = int(new, 16), rules.masks.get(cell.name)
        if rule is not None and mode(cell) == EXCLUSIVE and bits & rule.shareable:
            yield f"{cell.group} is exclusive and can't have ways of I/O ({rule.shareable:x})"
        for other in caches[cell.name[:2], cell.number]:
            both = int(target[other], 16) & bits if rivals(cell, other) else 0
            if not both:
                continue
            alone = {mode(cell), mode(other)} & {EXCLUSIVE} or mode(other) == _LOCKED
            if alone:
                yield (
                    f"{cell.name} {cell.number}={new}: {ways_text(both)} can't be shared "
                    f"with {other.group}, which is {mode(other)}"
                    if mode(other) != SHAREABLE
                    else f"{cell.name} {cell.number}={new}: {cell.group} is exclusive, and "
                    f"{other.group} has {ways_text(both)}"
                )
