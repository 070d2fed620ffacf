"""How a change that is under way is taken back: what is planned, and what is done of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from nftop.control.backend import KERNELS, AnyPart, RefusedError, after, touched
from nftop.control.journal_entry import Entry
from nftop.control.resctrl.operations import UNBORN
from nftop.control.revert_plan import Made, changes_between, numbers_of, way_back
from nftop.control.wording import homeless, left_alone, offline_sentences
from nftop.model.change import DIRECTORIES, Cell, State
from nftop.model.error_text import describe_error


@dataclass(frozen=True, slots=True)
class Back:
    """The way back from a state: what is to be written down before, and what is to be then.

    `is_overwritten`: somebody else has changed something of it since.
    """

    entry: Entry
    target: State
    is_overwritten: bool = False


def plan_back(host: AnyPart, entry: Entry, unseen: tuple[str, ...] = ()) -> Back:
    """From the state that is found; nothing is written. Raises OSError.

    `unseen`: sentences on what was written and can't be read, so that nothing here leads back.
    """
    found = host.read(entry.base)
    planned = host.steps(entry.base, entry.back if entry.reverting else entry.changes)
    values = _known(entry, touched(entry.base, planned))
    goal = after(entry.base, planned) if entry.reverting else entry.base
    known = numbers_of(
        entry.base.items(),
        [(change.cell, change.new) for change in entry.changes],
        entry.remade.items(),
    )
    going = [cell.group for cell in values if cell.kind == "group" and goal.get(cell) is None]
    inside = host.inside(going)
    strangers = [where for name, where in inside.items() if Cell("task", "", name) not in values]
    made = Made(values, {cell: goal.get(cell) for cell in values}, known)
    way = way_back(found, made, strangers)
    back = changes_between(found, way.target)
    # The numbers of those that were made before a crash are known only now.
    remade = {cell: number or found.get(cell, UNBORN) for cell, number in entry.remade.items()
              if number or cell not in way.foreign}  # fmt: skip
    earlier = entry.left if entry.reverting else unseen  # else it is what it leaves of earlier ones
    others = (*left_alone(way.foreign, found), *homeless(way.homeless, way.target))
    left = (*earlier, *others, *offline_sentences(way.offline, goal))
    before = entry.offline if entry.reverting else ()  # of what is left of earlier ones otherwise
    written = replace(
        entry,
        base=found,
        back=back,
        left=tuple(dict.fromkeys(left)),
        reverting=True,
        offline=tuple(sorted({*before, *way.offline})),
        remade={**remade, **{item.cell: UNBORN for item in back if item.new == UNBORN}},
    )
    return Back(written, way.target, bool(others or (earlier and not before)))


def _known(
    entry: Entry, values: Mapping[Cell, frozenset[str | None]]
) -> Mapping[Cell, frozenset[str | None]]:
    """What each cell was meanwhile; once it was read back nothing is the kernel's to give."""
    if not entry.done or entry.reverting:
        return values
    return {
        cell: every if cell.kind in DIRECTORIES else every - {KERNELS}
        for cell, every in values.items()
    }


def go_back(host: AnyPart, way: Back) -> State | str:
    """Do it, locked: the state that is read then, or what failed."""
    try:
        for step in host.steps(way.entry.base, way.entry.back):
            host.do(step)
        return host.read_back(way.target)
    except (RefusedError, OSError) as error:
        return describe_error(error)


def with_numbers(entry: Entry, reads: State) -> Entry:
    """As it is to be in the history: with the numbers of the directories it made again."""
    numbers = {cell: number or reads.get(cell, UNBORN) for cell, number in entry.remade.items()}
    return replace(entry, remade=numbers)
