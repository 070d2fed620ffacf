"""A change from its preview to the host and, if need be, back: the protocol.

Lock, compare with what the preview saw, write down what is about to be done, do it step by step,
read it back. What was done can be taken back from what was written down alone, after a crash at
any point: each cell is then as it was, or one of the values it was given in between, or somebody
else's, which is left alone and named.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from nftop.control.journal import Entry, Journal, now
from nftop.control.plan import difference
from nftop.control.resctrl import Host, LockedError, RefusedError
from nftop.control.steps import UNBORN, states, steps, touched
from nftop.model.action import Cell, Change, Outcome, Proposal, Receipt, State

# resctrl's lock is a courtesy of programs that are done in milliseconds.
LOCK_S = 2.0
_DIRECTORIES = ("group", "monitor")
_MOST_NAMED = 6


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asked for a change: the operator, and numbers of earlier changes it takes back."""

    operator: str
    undoes: tuple[int, ...] = ()


def apply(
    host: Host, journal: Journal, proposal: Proposal, asked: Asked
) -> tuple[Receipt, Entry | None]:
    """Do it; the journal is held by the caller. The entry is under way until `keep` or `revert`.

    Anything that fails is taken back before this returns, and then there is no entry.
    """
    if proposal.refusals or not proposal.changes:
        return Receipt("refused", proposal.refusals or ("there is nothing to change",)), None
    if journal.pending() is not None:
        why = "an earlier change was cut off: `nftop recover` takes it back"
        return Receipt("refused", (why,)), None
    try:
        with host.lock(LOCK_S):
            return _apply(host, journal, proposal, asked)
    except LockedError as error:
        return Receipt("locked", (f"nothing was written: {error}",)), None


def keep(journal: Journal, entry: Entry) -> Receipt:
    """It stays: from now on it is history."""
    journal.end(entry, "kept")
    return Receipt("kept", ("it is kept; `nftop undo` takes it back",), entry.changes, entry.number)


def revert(host: Host, journal: Journal, entry: Entry) -> Receipt:
    """Take it back."""
    try:
        with host.lock(LOCK_S):
            return _take_back(host, journal, entry, ())
    except LockedError as error:
        why = f"it could not be taken back: {error}; `nftop recover` does it"
        return Receipt("failed", (why,), entry.changes, entry.number)


def recover(host: Host, journal: Journal) -> Receipt | None:
    """Take back what a crash left under way; None where nothing is. The journal is held."""
    entry = journal.pending()
    if entry is None:
        return None
    done = next((each for each in journal.history() if each.number == entry.number), None)
    if done is not None and done.outcome is not None:
        journal.forget()
        return Receipt(done.outcome, (f"change {entry.number} was {done.outcome}",), done.changes)
    if entry.identity != host.identity:
        journal.end(entry, "reverted")
        why = "resctrl was mounted anew since, which undid it"
        return Receipt("reverted", (f"change {entry.number}: {why}",), (), entry.number)
    return revert(host, journal, entry)


def reversal(
    state: State, entries: Iterable[Entry], history: Iterable[Entry], command: str
) -> Proposal:
    """What takes these changes back, the oldest first; what others changed since is left alone.

    `history`: all there is, to know a directory that was removed and made again meanwhile.
    """
    first: dict[Cell, str | None] = {}
    last: dict[Cell, str | None] = {}
    for entry in entries:
        for change in entry.changes:
            first.setdefault(change.cell, change.old)
            last[change.cell] = change.new
    for entry in history:
        last |= {each.cell: each.new for each in entry.changes
                 if each.cell.kind in _DIRECTORIES and each.cell in last}  # fmt: skip
    target, foreign = dict(state), []
    for cell, old in first.items():
        now_there = state.get(cell)
        if now_there == old or (cell.kind == "task" and now_there is None):
            continue
        if now_there != last[cell]:
            foreign.append(cell)
        elif old is None:
            del target[cell]
        else:
            target[cell] = old
    for cell in foreign:
        # A group in which somebody else has changed something is not removed under him.
        own = Cell("group", cell.group)
        if own in state:
            target[own] = state[own]
    changes = tuple(_born(change) for change in difference(state, target))
    left = tuple(f"{describe(cell)} was changed by somebody else since: left alone"
                 for cell in foreign)  # fmt: skip
    return Proposal(state, changes, warnings=left, command=command)


def describe(cell: Cell) -> str:
    """A cell in words."""
    words = {
        "group": f"group {cell.group}",
        "schemata": f"{cell.name} {cell.domain} of {cell.group}",
        "cpus": f"the CPUs of {cell.group}",
        "monitor": f"monitoring group {cell.group}:{cell.name}",
        "monitor_cpus": f"the CPUs of monitoring group {cell.group}:{cell.name}",
        "task": f"the group of thread {cell.name.partition('@')[0]}",
    }
    return words[cell.kind]


def _apply(
    host: Host, journal: Journal, proposal: Proposal, asked: Asked
) -> tuple[Receipt, Entry | None]:
    threads = [cell for cell in proposal.base if cell.kind == "task"]
    base = host.state(threads)
    moved = difference(proposal.base, base)
    if moved:
        return Receipt("conflict", _conflict(moved)), None
    entry = Entry(
        number=journal.next_number(),
        time=now(),
        identity=host.identity,
        operator=asked.operator,
        command=proposal.command,
        changes=proposal.changes,
        undoes=asked.undoes,
        base=base,
    )
    journal.begin(entry)
    planned = steps(base, proposal.changes)
    try:
        for step in planned:
            host.do(step)
    except RefusedError as error:
        return _take_back(host, journal, entry, (str(error),)), None
    *_, foreseen = states(base, planned)
    found = host.state(threads)
    wrong = [change for change in difference(foreseen, found) if not _is_birth(change)]
    if wrong:
        said = tuple(
            f"{describe(each.cell)} reads {_shown(each.new)} and should be {_shown(each.old)}"
            for each in wrong
        )
        return _take_back(host, journal, entry, said), None
    entry = replace(entry, changes=difference(base, found))
    journal.begin(entry)  # with the inodes of what was made
    return Receipt("applied", ("read back as it should be",), entry.changes, entry.number), entry


def _take_back(host: Host, journal: Journal, entry: Entry, why: tuple[str, ...]) -> Receipt:
    """Every cell that is as this change made it becomes what it was; then it is history.

    `why`: sentences, where it is because something failed.
    """
    base = entry.base
    mine = touched(base, steps(base, entry.changes))
    threads = [cell for cell in base if cell.kind == "task"]
    found = host.state(threads)
    foreign = _foreign(entry, mine, found)
    entry = replace(entry, reverting=True)
    journal.begin(entry)
    back = [
        _born(Change(cell, found.get(cell), base.get(cell)))
        for cell in mine
        if cell not in foreign and not (cell.kind == "task" and cell not in found)
    ]
    try:
        for step in steps(found, back):
            host.do(step)
    except RefusedError as error:
        said = (*why, f"taking it back failed: {error}; `nftop recover` tries again")
        return Receipt("failed", said, difference(base, host.state(threads)), entry.number)
    left = tuple(f"{describe(cell)} was changed by somebody else: left alone" for cell in foreign)
    outcome: Outcome = "foreign" if left else "refused" if why else "reverted"
    differing = [each for each in difference(base, host.state(threads)) if each.cell in mine]
    journal.end(replace(entry, changes=tuple(differing)), outcome)
    rest = [each for each in differing if not _is_birth(each)]
    said = (*why, *left, "everything is as it was before" if not rest else "the rest is undone")
    return Receipt(outcome, said, tuple(rest), entry.number)


def _foreign(
    entry: Entry, mine: Mapping[Cell, frozenset[str | None]], found: State
) -> frozenset[Cell]:
    """The cells that are neither as they were nor as this change had them at any time.

    A directory has its number, and first masks, from the kernel: of one that was being made when
    somebody was killed, both are unknown, and it is this change's whatever they are.
    """
    directories = [each for each in entry.changes if each.cell.kind in _DIRECTORIES]
    made = {each.cell: each.new for each in directories if each.old is None}
    loose = {cell for cell, number in made.items() if number == UNBORN}
    if entry.reverting:
        loose |= {each.cell for each in directories if each.new is None}
    replaced = {
        cell.group
        for cell, number in {**entry.base, **made}.items()
        if cell.kind == "group" and found.get(cell, number) != number and cell not in loose
    }

    def other(cell: Cell) -> bool:
        value = found.get(cell)
        if cell.group in replaced:
            return True
        if value in mine[cell] or value == made.get(cell, value is None):
            return False
        return value is None or loose.isdisjoint(_directories(cell))

    foreign = {cell for cell in mine if other(cell)}
    # A directory in which somebody else has changed something is not removed under him.
    beneath = {each for cell in foreign if cell.kind != "task" for each in _directories(cell)}
    return frozenset(foreign | {cell for cell in beneath if cell in mine and cell in found})


def _directories(cell: Cell) -> tuple[Cell, Cell]:
    """The group, and the monitoring group if there is one, that a cell is in or is."""
    return Cell("group", cell.group), Cell("monitor", cell.group, cell.name)


def _born(change: Change) -> Change:
    """A directory that is to be there again will have another number."""
    directory = change.cell.kind in _DIRECTORIES
    if directory and change.old is None and change.new is not None:
        return replace(change, new=UNBORN)
    return change


def _is_birth(change: Change) -> bool:
    """Only the number of a directory differs, which it has from the kernel."""
    directory = change.cell.kind in _DIRECTORIES
    return directory and change.old is not None and change.new is not None


def _conflict(moved: tuple[Change, ...]) -> tuple[str, ...]:
    named = [
        f"{describe(each.cell)}: {_shown(each.old)} in the preview, {_shown(each.new)} now"
        for each in moved[:_MOST_NAMED]
    ]
    more = [f"and {len(moved) - _MOST_NAMED} more"] if len(moved) > _MOST_NAMED else []
    head = "somebody changed resctrl since the preview; nothing was written"
    return (head, *named, *more)


def _shown(value: str | None) -> str:
    return "not there" if value is None else value or "none"
