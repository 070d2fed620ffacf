"""The history: directories that nftop created, and proposals that undo kept changes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType

from nftop.control.backend import KERNEL_ASSIGNED
from nftop.control.journal_entry import Entry
from nftop.control.rdt_limits import Rules
from nftop.control.revert import KnownChange, changes_between, numbers_of, revert_target
from nftop.control.wording import displaced_messages, left_alone, offline_sentences
from nftop.model.change import DIRECTORIES, Cell, Change, Outcome, Proposal, State
from nftop.model.rdt.rdt import MASK_LINES, ROOT, split_path
from nftop.model.struct import replace

_MOST_NUMBERS = 6
_AGAIN = "undo it once more when that is online again"
_INCOMPLETE: frozenset[Outcome | None] = frozenset({"partial", "overwritten"})


def kept(history: Iterable[Entry]) -> tuple[Entry, ...]:
    """Changes that were kept and not reverted, the oldest first."""
    return tuple(entry for entry in _last(history) if entry.outcome == "kept")


def remainders(history: Iterable[Entry]) -> tuple[Entry, ...]:
    """Changes that were not kept and not reverted completely, the oldest first.

    Each is reduced to cells that were offline when it was reverted. A change that undoes others has
    no remainder: those others stand, and can be undone again.
    """
    return tuple(
        replace(entry, changes=tuple(row for row in entry.changes if row.cell in entry.offline))
        for entry in _last(history)
        if entry.outcome in _INCOMPLETE and entry.offline and not entry.undoes
    )


def revertible(history: Iterable[Entry]) -> tuple[Entry, ...]:
    """Kept changes and `remainders`, the oldest first."""
    entries = tuple(history)
    return tuple(sorted((*kept(entries), *remainders(entries)), key=lambda entry: entry.number))


def with_targets(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """Entries except those that undo a change which is not among them.

    If a damaged entry was deleted by hand, its undo must not be undone: the state before it is what
    the deleted change had written.
    """
    entries = tuple(entries)
    numbers = {entry.number for entry in entries}
    return tuple(entry for entry in entries if numbers.issuperset(entry.undoes))


def in_effect(history: Iterable[Entry]) -> tuple[Entry, ...]:
    """Changes of `revertible` that no later kept change reverted completely, the oldest first."""
    entries = revertible(history)
    undone = {number for entry in entries for number in set(entry.undoes) - set(entry.leaves)}
    return tuple(entry for entry in entries if entry.number not in undone and not entry.undoes)


def undone_by(history: Iterable[Entry]) -> Mapping[int, tuple[int, bool]]:
    """By number of a change the last kept change that undid it, and whether only in part."""
    return {
        number: (entry.number, number in entry.leaves)
        for entry in kept(history)
        for number in entry.undoes
    }


def tried(history: Iterable[Entry]) -> frozenset[int]:
    """Numbers of changes that were undone in part, as reported to the operator."""
    entries = tuple(history)
    left = {number for entry in kept(entries) for number in entry.leaves}
    return frozenset(left | {entry.number for entry in remainders(entries)})


def is_newest(numbers: Sequence[int], history: Iterable[Entry], identity: str) -> bool:
    """Whether `numbers` is exactly the newest change in effect on this host.

    `history` is that of all backends. Changes of every backend count that were made since the boot
    of `identity`, also those of an earlier mount of resctrl.
    """
    boot = identity.split()[:1]
    entries = in_effect(entry for entry in history if entry.identity.split()[:1] == boot)
    return bool(entries) and tuple(numbers) == (entries[-1].number,)


def unverified(entries: Iterable[Entry]) -> tuple[str, ...]:
    numbers = sorted(entry.number for entry in entries if not entry.verified)
    if not numbers:
        return ()
    shown = ", ".join(map(str, numbers[:_MOST_NUMBERS]))
    more = f" and {len(numbers) - _MOST_NUMBERS} more" * (len(numbers) > _MOST_NUMBERS)
    what = f"change {shown}{more}: written without a checksum by an earlier nftop"
    return (f"unverified: {what}, so what was there before can't be checked",)


def with_undoing(entry: Entry, history: Iterable[Entry]) -> tuple[Entry, ...]:
    """A change, and the later changes that undid part of it.

    The latter without their directories: only those that existed before the change count.
    """
    cells = {change.cell for change in entry.changes}
    undone = [item for item in kept(history) if entry.number in item.undoes]
    return entry, *(
        replace(item, base={}, changes=tuple(row for row in item.changes if row.cell in cells))
        for item in undone
    )


def waiting(entries: Iterable[Entry], history: Iterable[Entry]) -> tuple[Cell, ...]:
    """Cells whose CPU or cache was offline when these changes, or an undo of them, were reverted.

    Such an undo was not kept, and is in `history` only.
    """
    entries = tuple(entries)
    numbers = {entry.number for entry in entries}
    unkept = (
        entry
        for entry in _last(history)
        if entry.outcome in _INCOMPLETE and numbers & set(entry.undoes)
    )
    return tuple(sorted({cell for entry in (*entries, *unkept) for cell in entry.offline}))


def initial_values(cells: Iterable[Cell], rules: Rules) -> Mapping[Cell, str]:
    """Values of CPUs and caches that come online: the root group, all ways, no limit.

    Source: `resctrl_online_cpu` and `domain_setup_ctrlval`, Linux 6.1 to 7.2.
    """
    values: dict[Cell, str] = {}
    for cell in cells:
        if cell.kind == "cpu":
            values[cell] = ROOT
        elif cell.kind in ("schemata", "io_cbm") and cell.name in rules.masks:
            values[cell] = f"{(1 << rules.masks[cell.name].ways) - 1:x}"
        elif cell.kind == "schemata" and cell.name not in MASK_LINES and rules.limit is not None:
            values[cell] = str(rules.limit.most)
    return values


def newest(history: Iterable[Entry]) -> Mapping[Cell, str | None]:
    """Last number of every directory that nftop created or removed; None once removed.

    A reverted change counts by the directories that its revert created again or left.
    """
    numbers: dict[Cell, str | None] = {}
    for entry in _last(history):
        for change in entry.changes:
            left = entry.outcome in ("overwritten", "partial")
            is_new = left and change.old is None and change.new != KERNEL_ASSIGNED
            if change.cell.kind in DIRECTORIES and (entry.outcome == "kept" or is_new):
                numbers[change.cell] = change.new
        numbers |= {
            cell: number for cell, number in entry.remade.items() if number != KERNEL_ASSIGNED
        }
    return numbers


def reversal(
    state: State,
    entries: Iterable[Entry],
    history: Sequence[Entry],
    judge: Callable[[State, State, Sequence[Change]], Proposal],
    initial: Mapping[Cell, str] = MappingProxyType({}),
) -> Proposal:
    """Proposal that undoes these kept changes, which are given oldest first.

    Cells that these changes have restored themselves are left as they are.

    Args:
        state: the present one, as `Backend.reach` reads it.
        entries: to undo.
        history: the whole one, to recognize directories that were removed and created again.
        judge: returns the proposal for changes from one state to another.
        initial: values that the kernel gives cells when they are online again (`waiting`).
    """
    entries = tuple(entries)
    first, last = _ends(change for entry in entries for change in entry.changes)
    numbers = newest(history)
    ours = {
        cell: numbers.get(cell, value) if cell.kind in DIRECTORIES else value
        for cell, value in last.items()
    }
    values = {cell: frozenset((first[cell], value)) for cell, value in ours.items()}
    # A directory that was created again counts by its last number only.
    remade = [(cell, value) for cell, value in numbers.items() if value is not None]
    known = numbers_of(*(entry.base.items() for entry in entries))
    way = revert_target(state, KnownChange(values, first, {**known, **numbers_of(remade)}, initial))
    fallen = {
        cell: _heir(where, way.target)
        for cell, where in state.items()
        if cell.kind == "task" and cell not in values
    }
    target = {**way.target, **fallen}
    proposal = judge(state, target, changes_between(state, target))
    cells = {*way.foreign, *way.displaced, *way.offline}
    waits = (_AGAIN,) * bool(way.offline)
    return replace(
        proposal,
        unmet=(
            *left_alone(way.foreign, state),
            *displaced_messages(way.displaced, target),
            *offline_sentences(way.offline, first),
            *waits,
        ),
        offline=way.offline,
        leaves=tuple(
            entry.number
            for entry in entries
            if not entry.undoes and cells & {change.cell for change in entry.changes}
        ),
    )


def _last(history: Iterable[Entry]) -> list[Entry]:
    """Every change by its last line: a kept change may have been reverted later."""
    return [entry for _, entry in sorted({entry.number: entry for entry in history}.items())]


def _ends(changes: Iterable[Change]) -> tuple[Mapping[Cell, str | None], Mapping[Cell, str | None]]:
    """Value of each cell before the first and after the last of some changes.

    Cells with the same value are in neither, nor are directories that exist before and after. What
    others have removed between two changes can't be restored.
    """
    first: dict[Cell, str | None] = {}
    last: dict[Cell, str | None] = {}
    for change in changes:
        cell = change.cell
        if change.old is None and last.get(cell) is not None:
            first[cell] = None
        old, last[cell] = first.setdefault(cell, change.old), change.new
        both = cell.kind in DIRECTORIES and old is not None and change.new is not None
        if both or old == change.new:
            del first[cell], last[cell]
    return first, last


def _heir(where: str, target: State) -> str:
    """Group of a thread after its directory may have been removed."""
    group, monitor = split_path(where)
    if group != ROOT and Cell("group", group) not in target:
        return ROOT
    return where if not monitor or Cell("monitor", group, monitor) in target else group
