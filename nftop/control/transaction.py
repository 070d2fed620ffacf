"""A change from its preview to the host and, if need be, back: the protocol.

Compare with what the preview saw, write down what is about to be done, lock, compare once more, do
it step by step, read it back. What was done can be taken back from what was written down alone,
after a crash at any point, that of taking it back included: before its first write the way back is
written down as well, and is then gone to its end.

Nothing is written down while the part's lock is held: for resctrl's others wait for 100 ms, and a
disk may need more. There is one exception (`_take_back`).
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from nftop.control import execute
from nftop.control.backend import AnyPart, LockedError
from nftop.control.history import unverified
from nftop.control.journal import Journal, hinted, next_number, now
from nftop.control.journal_entry import DamagedError, Entry, completed
from nftop.control.preconditions import LOCK_S, UnwrittenError, compared, locked, seen
from nftop.control.revert import Back, go_back, plan_back, with_numbers
from nftop.control.revert_plan import differing
from nftop.control.verify import Since, changed_since
from nftop.control.wording import differences
from nftop.model.change import Outcome, Proposal, Receipt
from nftop.model.error_text import describe_error

# How long the guard tries to take a change back.
REVERT_LOCK_S = 60.0
# How often the way back is planned anew since somebody has changed something before the lock.
_PLANS = 3
_REBOOTED = "this host was booted since, which undid it"


@dataclass(frozen=True, slots=True)
class Asked:
    """Who asked for a change: the operator, and numbers of earlier changes it takes back."""

    operator: str
    undoes: tuple[int, ...] = ()


def apply(
    host: AnyPart, journal: Journal, proposal: Proposal, asked: Asked
) -> tuple[Receipt, Entry | None]:
    """Do it; the journal is held by the caller. The entry is under way until `keep` or `revert`.

    Anything that fails is taken back before this returns, and then there is no entry.

    Raises:
        OSError: the host or the journal can't be read, or not written, before anything was done;
            where something is written down by then, `recover` closes it.
    """
    try:
        base = compared(host, journal, proposal, asked.undoes)
    except UnwrittenError as end:
        return end.receipt, None
    entry = Entry(
        number=next_number(journal),
        time=now(),
        identity=host.identity,
        operator=asked.operator,
        command="; ".join(proposal.commands),
        changes=tuple(
            change
            for change in proposal.changes
            if change.cell.kind != "task" or change.cell in base
        ),
        undoes=asked.undoes,
        leaves=proposal.leaves,
        left=proposal.unmet,
        offline=proposal.offline,
        base=base,
    )
    journal.begin(entry)
    try:
        with locked(host):
            seen(host, proposal)
            done = execute.done(host, entry)
    except UnwrittenError as end:
        return replace(end.receipt, sentences=(*end.receipt.sentences, *_forget(journal))), None
    if isinstance(done, Receipt):
        why, outcome, unseen = done.sentences, done.outcome, done.unmet
        entry = replace(entry, changes=done.changes)
        return revert(
            host, journal, entry,
            why=why, outcome=outcome, unseen=unseen, lock_s=REVERT_LOCK_S,
        ), None  # fmt: skip
    entry = replace(entry, changes=done, done=True)
    try:
        journal.begin(entry)  # with the numbers of what was made
    except OSError as error:
        return _not_written(host, journal, entry, error), None
    return Receipt("applied", ("read back as it should be",), done, entry.number), entry


def keep(host: AnyPart, journal: Journal, entry: Entry) -> Receipt:
    """It stays: from now on it is history. Taken back if that can't be written."""
    try:
        journal.record(entry, "kept")
    except OSError as error:
        return _not_written(host, journal, entry, error)
    since = changed_since(host, entry)
    said = (*_ended(journal, entry, since), *_forget(journal))
    return Receipt("kept", said, entry.changes, entry.number, since.sentences)


def _ended(journal: Journal, entry: Entry, since: Since) -> Iterator[str]:
    """What to say of one that is kept."""
    if since.sentences:
        part = "nothing of it is" if since.gone else "not all of it is"
        yield f"but {part} as it was asked for any more"
        yield from since.sentences
    if entry.left:
        yield "but not all is taken back"
        yield from entry.left
    what = "the rest" if since.sentences else "it"
    hint = hinted(journal, f"`nftop undo` takes {what} back")
    if hint and not entry.undoes and not since.gone:
        yield hint
    elif not since.sentences and not entry.left:
        yield _undone(entry.undoes, "taken back") if entry.undoes else "it is done"


def _undone(numbers: Sequence[int], state: str) -> str:
    """`change 2 is taken back`, `changes 1, 2 are taken back`."""
    named = ", ".join(map(str, sorted(numbers)))
    return f"changes {named} are {state}" if len(numbers) > 1 else f"change {named} is {state}"


def revert(
    host: AnyPart,
    journal: Journal,
    entry: Entry,
    *,
    why: tuple[str, ...] = (),
    outcome: Outcome = "reverted",
    unseen: tuple[str, ...] = (),
    lock_s: float = LOCK_S,
) -> Receipt:
    """Take it back; `why`, `outcome` and `unseen` (`plan_back`) where something failed."""
    try:
        if entry.identity != host.identity:
            booted = entry.identity.split()[:1] != host.identity.split()[:1]
            undone = _REBOOTED if booted else host.renewed
            gone = entry if entry.reverting else replace(entry, left=())
            return _close(journal, gone, "reverted", (*why, undone))
        entry = _written(journal, entry)
        plan = partial(plan_back, host, entry, unseen)
        return _take_back(host, journal, entry, plan, why=why, outcome=outcome, lock_s=lock_s)
    except (LockedError, OSError) as error:
        hint = hinted(journal, "; `nftop recover` does it")
        said = f"it could not be taken back: {describe_error(error)}{hint}"
        return Receipt("failed", (*why, said), entry.changes, entry.number)


def recover(
    host: AnyPart | None, journal: Journal, *, unseen: str = "", boot: str = ""
) -> Receipt | None:
    """Take back what a crash left under way; None where nothing is. The journal is held.

    `host` None: what it is about can't be seen from here, `unseen` says why. Only a boot since then
    is known to have undone it: from another root or mount namespace it may be as it was.
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
    damaged = (*unverified([entry]), *damaged)
    if host is None:
        if boot and entry.identity.split()[:1] != [boot]:
            return _close(journal, entry, "reverted", (head, *damaged, _REBOOTED))
        why = f"what it is about can't be seen from here, so it is left as it is: {unseen}"
        return Receipt("failed", (head, *damaged, why), entry.changes, entry.number)
    return revert(host, journal, entry, why=(head, *damaged))


def _take_back(
    host: AnyPart,
    journal: Journal,
    entry: Entry,
    plan: Callable[[], Back],
    *,
    why: tuple[str, ...],
    outcome: Outcome,
    lock_s: float,
) -> Receipt:
    """Every cell that is as this change made it becomes what it was; then it is history.

    The way back is planned and written down before the lock is taken. Where somebody has changed
    something until then it is planned anew, at last under the lock, which is then held over a
    write to the disk: somebody who always comes between is not to be waited for for ever.
    """
    for _ in range(_PLANS):
        way = plan()
        _begin(journal, way.entry)
        with host.lock(lock_s):
            same = plan() == way
            reads = go_back(host, way) if same else {}
        if same:
            break
    else:
        with host.lock(lock_s):
            way = plan()
            _begin(journal, way.entry)
            reads = go_back(host, way)
    if isinstance(reads, str):
        hint = hinted(journal, "; `nftop recover` tries again")
        failed = f"taking it back failed: {reads}{hint}"
        return Receipt("failed", (*why, failed), entry.changes, entry.number)
    done = with_numbers(way.entry, reads)
    wrong = differing(way.target, reads)
    if wrong or done.left:
        rest = differences(wrong, "is what it was", "is what is read back")
        some = bool(done.back) or entry.reverting
        end = "the rest is undone" if some else "nothing else of it was on the host"
        unmet: Outcome = "overwritten" if wrong or way.is_overwritten else "partial"
        later = _later(journal, done)
        return _close(journal, done, unmet, (*why, *done.left, *rest, end, *later))
    none = () if done.back or entry.reverting else ("nothing of it was on the host",)
    ends = ["everything is as it was before"]
    if done.undoes:
        hint = hinted(journal, ": `nftop undo` does it")
        ends.append(f"{_undone(done.undoes, 'not taken back')}{hint}")
    return _close(journal, done, outcome, (*why, *none, *ends))


def _later(journal: Journal, entry: Entry) -> Iterator[str]:
    """How to take back what was offline, if `history.remainders` will have it."""
    hint = hinted(journal, "`nftop undo` takes back what is offline once it is online again")
    if hint and entry.offline and not entry.undoes:
        yield hint


def _begin(journal: Journal, entry: Entry) -> None:
    with contextlib.suppress(OSError):
        # On a full disk the way back is gone all the same: what is written down leads back too.
        journal.begin(entry)


def _written(journal: Journal, entry: Entry) -> Entry:
    """The change as it is written down, if taking it back was begun before."""
    with contextlib.suppress(OSError, DamagedError):
        pending = journal.pending()
        if pending is not None and pending.number == entry.number and pending.reverting:
            return pending
    return entry


def _close(journal: Journal, entry: Entry, outcome: Outcome, said: tuple[str, ...]) -> Receipt:
    """It is history; on a full disk it is only forgotten, since nothing is left to be done."""
    try:
        journal.record(entry, outcome)
    except OSError as error:
        said = (*said, f"the history lacks it: {describe_error(error)}")
    return Receipt(outcome, said + _forget(journal), (), entry.number)


def _forget(journal: Journal) -> tuple[str, ...]:
    try:
        journal.forget()
    except OSError as error:
        head = hinted(journal, "`nftop recover` will close it once more")
        return (f"{head or 'it is not closed'}: {describe_error(error)}",)
    return ()


def _not_written(host: AnyPart, journal: Journal, entry: Entry, error: OSError) -> Receipt:
    why = (f"the journal can't be written: {describe_error(error)}",)
    return revert(host, journal, entry, why=why, outcome="refused")


def waiting(limit_s: float, attempt: Callable[[], Receipt]) -> Receipt:
    """`attempt` again and again until it does not fail, or the time is up."""
    deadline = time.monotonic() + limit_s
    receipt = attempt()
    while receipt.outcome == "failed" and time.monotonic() < deadline:
        time.sleep(0.2)
        receipt = attempt()
    return receipt
