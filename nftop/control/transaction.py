"""A change from its preview to the host and, if need be, back: the protocol.

Lock, compare with what the preview saw, write down what is about to be done, do it step by step,
read it back. What was done can be taken back from what was written down alone, after a crash at
any point, that of taking it back included: before its first write the way back is written down as
well, and is then gone to its end.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from nftop.control.entry import Entry, completed
from nftop.control.journal import Journal, now
from nftop.control.judge import forbidden, judged
from nftop.control.resctrl import Host, LockedError, RefusedError
from nftop.control.rules import Rules
from nftop.control.steps import after, steps, touched
from nftop.control.takeback import Made, changes_between, is_birth, is_end, numbers_of, way_back
from nftop.control.words import differences, left_alone
from nftop.model.action import Cell, Change, Outcome, Proposal, Receipt, State, difference, parts
from nftop.model.rdt import ROOT

# resctrl's lock is a courtesy of programs that are done in milliseconds.
LOCK_S = 2.0
# How long the guard tries to take a change back.
REVERT_LOCK_S = 60.0
_CUT_OFF = "an earlier change was cut off: `nftop recover` takes it back"
_REMOUNTED = "resctrl was mounted anew since, which undid it"
_REBOOTED = "this host was booted since, which undid it"


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

    Raises:
        OSError: the host or the journal can't be read, or not written before anything was done.
    """
    if proposal.refusals or not proposal.changes:
        return Receipt("refused", proposal.refusals or ("there is nothing to change",)), None
    if journal.pending() is not None:
        return Receipt("refused", (_CUT_OFF,)), None
    try:
        with host.lock(LOCK_S):
            receipt, entry = _apply(host, journal, proposal, asked)
    except LockedError as error:
        return Receipt("locked", (f"nothing was written: {error}",)), None
    if entry is not None:
        try:
            journal.begin(entry)  # with the numbers of what was made
        except OSError as error:
            return _not_written(host, journal, entry, error), None
    return receipt, entry


def keep(host: Host, journal: Journal, entry: Entry) -> Receipt:
    """It stays: from now on it is history. Taken back if that can't be written."""
    try:
        journal.record(entry, "kept")
    except OSError as error:
        return _not_written(host, journal, entry, error)
    said = ("it is done",) if entry.undoes else ("`nftop undo` takes it back",)
    return Receipt("kept", said + _forget(journal), entry.changes, entry.number)


def revert(
    host: Host,
    journal: Journal,
    entry: Entry,
    *,
    why: tuple[str, ...] = (),
    outcome: Outcome = "reverted",
) -> Receipt:
    """Take it back; `why` and `outcome` where that is because something failed."""
    try:
        if entry.identity != host.identity:
            return _close(journal, entry, "reverted", (*why, _REMOUNTED))
        with host.lock(LOCK_S):
            return _take_back(host, journal, entry, why, outcome)
    except (LockedError, OSError) as error:
        said = f"it could not be taken back: {error}; `nftop recover` does it"
        return Receipt("failed", (*why, said), entry.changes, entry.number)


def recover(
    host: Host | None, journal: Journal, *, unseen: str = "", boot: str = ""
) -> Receipt | None:
    """Take back what a crash left under way; None where nothing is. The journal is held.

    `host` None: no resctrl can be seen from here, `unseen` says why. Only a boot since then is
    known to have undone it: from another root or mount namespace it may be as it was.
    """
    entry = journal.pending()
    if entry is None:
        return None
    known, damaged = journal.known()
    done = completed(entry, known)
    if done is not None:
        outcome = done.outcome or "failed"
        head = f"change {entry.number} was {outcome} when it was cut off: it is complete"
        said = (head, *damaged, *_forget(journal))
        return Receipt(outcome, said, done.changes, entry.number)
    head = f"change {entry.number} ({entry.command or 'no command'}) was cut off"
    if host is None:
        if boot and entry.identity.split()[:1] != [boot]:
            return _close(journal, entry, "reverted", (head, *damaged, _REBOOTED))
        why = f"resctrl can't be seen from here, so it is left as it is: {unseen}"
        return Receipt("failed", (head, *damaged, why), entry.changes, entry.number)
    return revert(host, journal, entry, why=(head, *damaged))


def reversal(
    state: State, entries: Iterable[Entry], history: Iterable[Entry], rules: Rules, command: str
) -> Proposal:
    """What takes these kept changes back, the oldest first.

    Args:
        state: now, with the threads that they moved or that are in groups they made.
        entries: to take back.
        history: all there is, to know a directory that was removed and made again meanwhile.
        rules: of the host.
        command: of the proposal.
    """
    first: dict[Cell, str | None] = {}
    last: dict[Cell, str | None] = {}
    for entry in entries:
        for change in entry.changes:
            first.setdefault(change.cell, change.old)
            last[change.cell] = change.new
    known = [entry.base.items() for entry in entries]
    newest = {change.cell: change.new for entry in history for change in entry.changes}
    ours = {cell: newest[cell] if cell.kind in ("group", "monitor") else value
            for cell, value in last.items()}  # fmt: skip
    values = {cell: frozenset((first[cell], value)) for cell, value in ours.items()}
    # A directory that was there before it was made again counts by its last number only.
    made_anew = [(cell, value) for cell, value in newest.items() if value is not None]
    numbers = {**numbers_of(*known), **numbers_of(made_anew)}
    target, foreign = way_back(state, Made(values, first, numbers))
    fallen = {
        cell: _heir(where, target)
        for cell, where in state.items()
        if cell.kind == "task" and cell not in values
    }
    target = {**target, **fallen}
    found = judged(state, target, changes_between(state, target), rules, command)
    return replace(found, warnings=(*left_alone(foreign), *found.warnings))


def _heir(where: str, target: State) -> str:
    """Where a thread is when its directory may have gone."""
    group, monitor = parts(where)
    if group != ROOT and Cell("group", group) not in target:
        return ROOT
    return where if not monitor or Cell("monitor", group, monitor) in target else group


def _apply(
    host: Host, journal: Journal, proposal: Proposal, asked: Asked
) -> tuple[Receipt, Entry | None]:
    threads = _threads(proposal.base)
    base = host.state(threads)
    moved = [each for each in difference(proposal.base, base) if not is_end(each)]
    moved += _joined(host, proposal)
    if moved:
        head = "somebody changed resctrl since the preview; nothing was written"
        return Receipt("conflict", (head, *differences(moved, "in the preview", "now"))), None
    refusals = tuple(dict.fromkeys(forbidden(base, proposal.changes)))
    if refusals:
        return Receipt("refused", refusals), None
    entry = Entry(
        number=journal.next_number(),
        time=now(),
        identity=host.identity,
        operator=asked.operator,
        command=proposal.command,
        changes=tuple(
            each for each in proposal.changes if each.cell.kind != "task" or each.cell in base
        ),
        undoes=asked.undoes,
        base=base,
    )
    journal.begin(entry)
    planned = steps(base, entry.changes)
    try:
        for step in planned:
            host.do(step)
        found = host.state(threads)
    except (RefusedError, OSError) as error:
        return _take_back(host, journal, entry, (str(error),), "refused"), None
    foreseen = after(base, planned)
    differing = difference(foreseen, found)
    wrong = [each for each in differing if not is_birth(each) and not is_end(each)]
    if wrong:
        said = differences(wrong, "was asked for", "is what resctrl reads")
        return _take_back(host, journal, entry, said, "differs"), None
    done = tuple(each for each in difference(base, found) if not is_end(each))
    said = ("read back as it should be",)
    return Receipt("applied", said, done, entry.number), replace(entry, changes=done)


def _joined(host: Host, proposal: Proposal) -> list[Change]:
    """Threads that came since the preview into a directory that is to go.

    They would fall out of it with the rest and be in no way back.
    """
    gone = [each.cell for each in proposal.changes
            if each.cell.kind in ("group", "monitor") and each.new is None]  # fmt: skip
    going = {(cell.group, cell.name) for cell in gone}
    inside = host.tasks({cell.group for cell in gone}, ())
    return [
        Change(cell, None, where)
        for name, where in sorted(inside.items())
        if (cell := Cell("task", "", name)) not in proposal.base
        and going & {parts(where), (parts(where)[0], "")}
    ]


def _take_back(
    host: Host, journal: Journal, entry: Entry, why: tuple[str, ...], outcome: Outcome
) -> Receipt:
    """Every cell that is as this change made it becomes what it was; then it is history."""
    threads = _threads(entry.base)
    found = host.state(threads)
    planned = steps(entry.base, entry.back if entry.reverting else entry.changes)
    values = touched(entry.base, planned)
    goal = after(entry.base, planned) if entry.reverting else entry.base
    made = Made(
        values,
        {cell: goal.get(cell) for cell in values},
        numbers_of(entry.base.items(), [(each.cell, each.new) for each in entry.changes]),
    )
    going = [cell.group for cell in values if cell.kind == "group" and goal.get(cell) is None]
    others = host.tasks(going, ())
    strangers = [where for name, where in others.items() if Cell("task", "", name) not in values]
    target, foreign = way_back(found, made, strangers)
    entry = replace(
        entry,
        base=found,
        back=changes_between(found, target),
        left=tuple(dict.fromkeys((*entry.left, *left_alone(foreign)))),
        reverting=True,
    )
    with contextlib.suppress(OSError):
        # On a full disk the way back is gone all the same: what is written down leads back too.
        journal.begin(entry)
    try:
        for step in steps(found, entry.back):
            host.do(step)
        reads = host.state(threads)
    except (RefusedError, OSError) as error:
        said = f"taking it back failed: {error}; `nftop recover` tries again"
        return Receipt("failed", (*why, said), entry.changes, entry.number)
    differing = difference(target, reads)
    wrong = [each for each in differing if not is_birth(each) and not is_end(each)]
    if wrong or entry.left:
        rest = differences(wrong, "is what it was", "is what resctrl reads")
        return _close(journal, entry, "foreign", (*why, *entry.left, *rest, "the rest is undone"))
    return _close(journal, entry, outcome, (*why, "everything is as it was before"))


def _close(journal: Journal, entry: Entry, outcome: Outcome, said: tuple[str, ...]) -> Receipt:
    """It is history; on a full disk it is only forgotten, since nothing is left to be done."""
    try:
        journal.record(entry, outcome)
    except OSError as error:
        said = (*said, f"the history lacks it: {error}")
    return Receipt(outcome, said + _forget(journal), (), entry.number)


def _forget(journal: Journal) -> tuple[str, ...]:
    try:
        journal.forget()
    except OSError as error:
        return (f"`nftop recover` will close it once more: {error}",)
    return ()


def _threads(state: State) -> list[Cell]:
    return [cell for cell in state if cell.kind == "task"]


def _not_written(host: Host, journal: Journal, entry: Entry, error: OSError) -> Receipt:
    why = (f"the journal can't be written: {error}",)
    return revert(host, journal, entry, why=why, outcome="refused")


def waiting(limit_s: float, attempt: Callable[[], Receipt]) -> Receipt:
    """`attempt` again and again until it does not fail, or the time is up."""
    deadline = time.monotonic() + limit_s
    receipt = attempt()
    while receipt.outcome == "failed" and time.monotonic() < deadline:
        time.sleep(0.2)
        receipt = attempt()
    return receipt
