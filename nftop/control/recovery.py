"""Reverts a change on the host, at once or after a crash.

The plan of a revert is journalled before its first write, so that the journal alone suffices to
complete it. The journal is not written while the backend's lock is held, as in `transaction`; the
one exception is in `_take_back`.
"""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial

from nftop.control.backend import (
    KERNEL_ASSIGNED,
    AnyBackend,
    LockedError,
    RefusedError,
    after,
    touched,
)
from nftop.control.change_history import unverified
from nftop.control.journal import Journal, hinted
from nftop.control.journal_damage import DamagedJournalError
from nftop.control.journal_entry import Entry, completed
from nftop.control.revert import KnownChange, changes_between, differing, numbers_of, revert_target
from nftop.control.wording import differences, displaced_messages, left_alone, offline_sentences
from nftop.model.change import DIRECTORIES, Cell, Outcome, ReasonCode, Receipt, State
from nftop.model.error_text import describe_error
from nftop.model.struct import dataclass, replace

LOCK_S = 2.0  # programs hold a lock such as resctrl's for milliseconds
_PLANS = 3  # how often a revert is planned again because of changes by others before the lock
_REQUESTED = Receipt("reverted", ())
RESTORED = "everything is as it was before"
_REBOOTED = "this host was booted since, which undid it"


@dataclass(frozen=True, slots=True)
class RevertPlan:
    """A planned revert: the entry to journal before it, and the target state.

    `is_overwritten`: others have changed some of its cells since.
    """

    entry: Entry
    target: State
    is_overwritten: bool = False


def plan_revert(host: AnyBackend, entry: Entry, unreadable: tuple[str, ...] = ()) -> RevertPlan:
    """Plan a revert from the present state; nothing is written. Raises OSError.

    `unreadable`: messages on values that were written and can't be read, so can't be reverted.
    """
    state = host.read(entry.base)
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
    tasks_inside = [where for name, where in inside.items() if Cell("task", "", name) not in values]
    known_change = KnownChange(values, {cell: goal.get(cell) for cell in values}, known)
    restored = revert_target(state, known_change, tasks_inside)
    back = changes_between(state, restored.target)
    # Numbers of directories that were created before a crash are known only now.
    remade = {
        cell: number or state.get(cell, KERNEL_ASSIGNED)
        for cell, number in entry.remade.items()
        if number or cell not in restored.foreign
    }
    earlier = entry.left if entry.reverting else unreadable  # else `left` is about earlier changes
    others = (
        *left_alone(restored.foreign, state),
        *displaced_messages(restored.displaced, restored.target),
    )
    left = (*earlier, *others, *offline_sentences(restored.offline, goal))
    before = entry.offline if entry.reverting else ()  # else `offline` is about earlier changes
    written = replace(
        entry,
        base=state,
        back=back,
        left=tuple(dict.fromkeys(left)),
        reverting=True,
        offline=tuple(sorted({*before, *restored.offline})),
        remade={
            **remade,
            **{item.cell: KERNEL_ASSIGNED for item in back if item.new == KERNEL_ASSIGNED},
        },
    )
    return RevertPlan(written, restored.target, bool(others or (earlier and not before)))


def _known(
    entry: Entry, values: Mapping[Cell, frozenset[str | None]]
) -> Mapping[Cell, frozenset[str | None]]:
    """Values that each cell had; once read back, none is unknown.

    A series has several changes of a cell (`series`): any of their values may be there.
    """
    if not entry.reverting:
        values = _of_series(entry, values)
    if not entry.done or entry.reverting:
        return values
    return {
        cell: every if cell.kind in DIRECTORIES else every - {KERNEL_ASSIGNED}
        for cell, every in values.items()
    }


def _of_series(
    entry: Entry, values: Mapping[Cell, frozenset[str | None]]
) -> Mapping[Cell, frozenset[str | None]]:
    counts = Counter(change.cell for change in entry.changes)
    several: dict[Cell, set[str | None]] = {}
    for change in entry.changes:
        if counts[change.cell] > 1:
            before = {entry.base.get(change.cell), *values.get(change.cell, ())}
            several.setdefault(change.cell, before).update((change.old, change.new))
    return {**values, **{cell: frozenset(item) for cell, item in several.items()}}


def perform_revert(host: AnyBackend, plan: RevertPlan) -> State | str:
    """Perform the revert under the lock; the state read back, or an error message."""
    try:
        for step in host.steps(plan.entry.base, plan.entry.back):
            host.do(step)
        return host.read_back(plan.target)
    except (RefusedError, OSError) as error:
        return describe_error(error)


def with_numbers(entry: Entry, reads: State) -> Entry:
    """The entry for the history, with the numbers of directories that were created again."""
    numbers = {
        cell: number or reads.get(cell, KERNEL_ASSIGNED) for cell, number in entry.remade.items()
    }
    return replace(entry, remade=numbers)


def revert(
    host: AnyBackend,
    journal: Journal,
    entry: Entry,
    cause: Receipt = _REQUESTED,
    *,
    lock_s: float = LOCK_S,
) -> Receipt:
    """Revert a change; `cause`: of what failed before, with `unmet` as in `plan_revert`."""
    try:
        if entry.identity != host.identity:
            booted = entry.identity.split()[:1] != host.identity.split()[:1]
            undone = _REBOOTED if booted else host.renewed
            gone = entry if entry.reverting else replace(entry, left=())
            rebooted = Receipt("reverted", (*cause.sentences, undone), code=ReasonCode.REBOOTED)
            return _close(journal, gone, rebooted)
        entry = _written(journal, entry)
        make_plan = partial(plan_revert, host, entry, cause.unmet)
        return _take_back(host, journal, entry, make_plan, cause, lock_s=lock_s)
    except (LockedError, OSError) as error:
        hint = hinted(journal, "; `nftop recover` does it")
        messages = f"it could not be taken back: {describe_error(error)}{hint}"
        return _failed(entry, (*cause.sentences, messages), ReasonCode.REVERT_FAILED)


def recover(
    host: AnyBackend | None, journal: Journal, *, unreachable_reason: str = "", boot: str = ""
) -> Receipt | None:
    """Revert what a crash left pending; None if nothing is. The caller holds the journal.

    `host` None: the backend is not accessible from here, for `unreachable_reason`. Then only a
    boot is known to have undone it: another root or mount namespace may see the change.
    """
    entry = journal.pending()
    if entry is None:
        return None
    known, damaged = journal.known()
    done = completed(entry, known)
    if done is not None:
        outcome = done.outcome or "failed"
        head = f"change {entry.number} was {outcome} when it was cut off: it is complete"
        messages = (head, *damaged, *forget(journal))
        return Receipt(outcome, messages, done.changes, entry.number, code=ReasonCode.CUT_OFF)
    head = f"change {entry.number} ({entry.command or 'no command'}) was cut off"
    damaged = (*unverified([entry]), *damaged)
    if host is None:
        if boot and entry.identity.split()[:1] != [boot]:
            messages = (head, *damaged, _REBOOTED)
            return _close(journal, entry, Receipt("reverted", messages, code=ReasonCode.REBOOTED))
        why = f"the backend can't be opened, so the change is left in place: {unreachable_reason}"
        return _failed(entry, (head, *damaged, why), ReasonCode.BACKEND_ABSENT)
    cause = Receipt("reverted", (head, *damaged), code=ReasonCode.CUT_OFF)
    return revert(host, journal, entry, cause)


def _failed(entry: Entry, sentences: tuple[str, ...], code: ReasonCode) -> Receipt:
    return Receipt("failed", sentences, entry.changes, entry.number, code=code)


def _take_back(
    host: AnyBackend,
    journal: Journal,
    entry: Entry,
    make_plan: Callable[[], RevertPlan],
    cause: Receipt,
    *,
    lock_s: float,
) -> Receipt:
    """Restore every cell that is still as this change made it, and record that.

    The revert is planned and journalled before the lock is taken. If another program changes
    something in between, it is planned again, at last under the lock, which is then held during a
    write to the disk: a program that always interferes must not delay it for ever.
    """
    for _ in range(_PLANS):
        plan = make_plan()
        _begin(journal, plan.entry)
        with host.lock(lock_s):
            same = make_plan() == plan
            reads = perform_revert(host, plan) if same else {}
        if same:
            break
    else:
        with host.lock(lock_s):
            plan = make_plan()
            _begin(journal, plan.entry)
            reads = perform_revert(host, plan)
    if isinstance(reads, str):
        hint = hinted(journal, "; `nftop recover` tries again")
        failed = f"taking it back failed: {reads}{hint}"
        return _failed(entry, (*cause.sentences, failed), ReasonCode.REVERT_FAILED)
    done = with_numbers(plan.entry, reads)
    wrong = differing(plan.target, reads)
    if wrong or done.left:
        rest = differences(wrong, "is what it was", "is what is read back")
        some = bool(done.back) or entry.reverting
        end = "the rest is undone" if some else "nothing else of it was on the host"
        others = bool(wrong) or plan.is_overwritten
        unmet: Outcome = "overwritten" if others else "partial"
        code = cause.code or (ReasonCode.HOST_CHANGED if others else ReasonCode.OFFLINE)
        messages = (*cause.sentences, *done.left, *rest, end, *_later(journal, done))
        return _close(journal, done, Receipt(unmet, messages, code=code))
    none = () if done.back or entry.reverting else ("nothing of it was on the host",)
    ends = [RESTORED]
    if done.undoes:
        hint = hinted(journal, ": `nftop undo` does it")
        ends.append(f"{undone_text(done.undoes, 'not taken back')}{hint}")
    return _close(journal, done, replace(cause, sentences=(*cause.sentences, *none, *ends)))


def _later(journal: Journal, entry: Entry) -> Iterator[str]:
    """Hint on undoing what was offline, if `history.remainders` will contain it."""
    hint = hinted(journal, "`nftop undo` takes back what is offline once it is online again")
    if hint and entry.offline and not entry.undoes:
        yield hint


def _begin(journal: Journal, entry: Entry) -> None:
    with contextlib.suppress(OSError):
        # On a full disk the revert continues: the entry written before suffices for it.
        journal.begin(entry)


def _written(journal: Journal, entry: Entry) -> Entry:
    """The journalled entry if its revert was begun before."""
    with contextlib.suppress(OSError, DamagedJournalError):
        pending = journal.pending()
        if pending is not None and pending.number == entry.number and pending.reverting:
            return pending
    return entry


def _close(journal: Journal, entry: Entry, end: Receipt) -> Receipt:
    """Record the outcome; on a full disk only forget the entry, since nothing is left to do."""
    messages = end.sentences
    try:
        journal.record(entry, end.outcome)
    except OSError as error:
        messages = (*messages, f"the history lacks it: {describe_error(error)}")
    return Receipt(end.outcome, messages + forget(journal), (), entry.number, code=end.code)


def forget(journal: Journal) -> tuple[str, ...]:
    try:
        journal.forget()
    except OSError as error:
        head = hinted(journal, "`nftop recover` will close it once more")
        return (f"{head or 'it is not closed'}: {describe_error(error)}",)
    return ()


def undone_text(numbers: Sequence[int], state: str) -> str:
    """`change 2 is taken back`, `changes 1, 2 are taken back`."""
    named = ", ".join(map(str, sorted(numbers)))
    return f"changes {named} are {state}" if len(numbers) > 1 else f"change {named} is {state}"


def retry(limit_s: float, attempt: Callable[[], Receipt]) -> Receipt:
    """Repeat `attempt` until it does not fail, or the time is up."""
    deadline = time.monotonic() + limit_s
    receipt = attempt()
    while receipt.outcome == "failed" and time.monotonic() < deadline:
        time.sleep(0.2)
        receipt = attempt()
    return receipt
