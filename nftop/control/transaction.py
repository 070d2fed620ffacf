"""A change, step by step: compare with the preview, journal, lock, compare again, write, read back.

The journal alone suffices to revert a change after a crash at any point. It is not written while
the backend's lock is held: other programs wait 100 ms for resctrl's, and a disk may need longer.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from nftop.control.backend import (
    AbsentError,
    AnyBackend,
    BackendStep,
    LockedError,
    RefusedError,
    after,
    touched,
)
from nftop.control.change_history import is_newest
from nftop.control.journal import BusyError, Journal, hinted, next_number, now
from nftop.control.journal_damage import DamagedJournalError
from nftop.control.journal_entry import Entry, Requester
from nftop.control.recovery import LOCK_S, forget, recover, retry, revert, undone_text
from nftop.control.revert import differing, is_end, offline_in
from nftop.control.wording import differences, offline_now
from nftop.model.change import (
    Cell,
    Change,
    Outcome,
    Proposal,
    ReasonCode,
    Receipt,
    Refusal,
    State,
    difference,
)
from nftop.model.error_text import describe_error
from nftop.model.rdt.rdt import split_path
from nftop.model.struct import replace

_OTHER = "{} are others than in the preview, of another boot, mount or host: nothing was written"
_CUT_OFF = "an earlier change was cut off"
_NOT_NEWEST = (
    "change {} is not the newest change any more: another was kept, or this one was undone, since "
    "the preview; nothing was written"
)
_AS_BEFORE = "is what is read, as before: something else holds it there"
REVERT_LOCK_S = 60.0  # how long the guard tries to revert a change


class UnwrittenError(Exception):
    """The change is not possible, and nothing was written."""

    def __init__(self, outcome: Outcome, code: ReasonCode, *sentences: str) -> None:
        super().__init__(outcome)
        self.receipt = Receipt(outcome, sentences, code=code)


@contextlib.contextmanager
def locked(host: AnyBackend) -> Iterator[None]:
    """Hold the backend's lock. Raises UnwrittenError if another program holds it too long."""
    try:
        with host.lock(LOCK_S):
            yield
    except LockedError as error:
        why = f"nothing was written: {error}"
        raise UnwrittenError("locked", ReasonCode.LOCK_HELD, why) from None


def compared(
    host: AnyBackend, journal: Journal, proposal: Proposal, undoes: Sequence[int] = ()
) -> State:
    """The state, if a proposal is possible in it; `undoes`: changes that it reverts.

    Another program may be in the middle of a change, so an obstacle counts only if it is still
    there under the lock. Raises UnwrittenError.
    """
    if proposal.refusals:
        raise _unwritten(proposal.refusals)
    if not proposal.changes:
        nothing = "there is nothing to change"
        raise UnwrittenError("refused", ReasonCode.NOTHING_TO_CHANGE, nothing)
    if proposal.identity != host.identity:
        raise UnwrittenError("conflict", ReasonCode.OTHER_HOST, _OTHER.format(host.subject))
    if journal.pending() is not None:
        hint = hinted(journal, ": `nftop recover` takes it back")
        raise UnwrittenError("refused", ReasonCode.CHANGE_PENDING, f"{_CUT_OFF}{hint}")
    if proposal.final and not is_newest(undoes, journal.history(), host.identity):
        named = ", ".join(map(str, undoes))
        raise UnwrittenError("conflict", ReasonCode.NOT_NEWEST, _NOT_NEWEST.format(named))
    with contextlib.suppress(UnwrittenError):
        return check_unchanged(host, proposal)
    with locked(host):
        return check_unchanged(host, proposal)


def check_unchanged(host: AnyBackend, proposal: Proposal) -> State:
    """State of the host now. Raises UnwrittenError if it is not that of the preview any more."""
    base = host.read(proposal.base)
    moved = [item for item in difference(proposal.base, base) if not is_end(item)]
    moved += _joined(host, proposal)
    if moved:
        head = f"{host.subject} are not as they were in the preview: nothing was written"
        rows = differences(moved, "in the preview", "now")
        raise UnwrittenError("conflict", ReasonCode.HOST_CHANGED, head, *rows)
    refusals = tuple(dict.fromkeys(host.forbidden(base, proposal.changes)))
    if refusals:
        raise _unwritten(refusals)
    return base


def _unwritten(refusals: Sequence[Refusal]) -> UnwrittenError:
    sentences = (refusal.sentence for refusal in refusals)
    return UnwrittenError("refused", refusals[0].code, *sentences)


def _joined(host: AnyBackend, proposal: Proposal) -> list[Change]:
    """Threads that joined a group to be removed since the preview.

    They would leave it with the others, and no revert would know them.
    """
    gone = [
        change.cell
        for change in proposal.changes
        if change.cell.kind in ("group", "monitor") and change.new is None
    ]
    going = {(cell.group, cell.name) for cell in gone}
    inside = host.inside({cell.group for cell in gone})
    return [
        Change(cell, None, where)
        for name, where in sorted(inside.items())
        if (cell := Cell("task", "", name)) not in proposal.base
        and going & {split_path(where), (split_path(where)[0], "")}
    ]


def _perform(host: AnyBackend, entry: Entry) -> tuple[Change, ...] | Receipt:
    """The effective changes, or a receipt if they are not those requested; under the lock.

    The receipt has `changes` to be reverted, and in `unmet` messages on what was written and can't
    be read back, so that it can't be reverted.
    """
    steps: list[BackendStep] = []
    try:
        for step in host.steps(entry.base, entry.changes):
            host.do(step)
            steps.append(step)
        foreseen = after(entry.base, steps)
        state = host.read_back(foreseen)
    except (RefusedError, OSError) as error:
        return _failed(host, entry, steps, error)
    wrong = differing(foreseen, state)
    if wrong:
        messages = differences(wrong, "was asked for", "is what is read back")
        changes = host.became(entry.changes, state)
        unmet = _unseen(entry, changes)
        return Receipt("differs", messages, changes, None, unmet, ReasonCode.VALUE_DIFFERS)
    return tuple(item for item in difference(entry.base, state) if not is_end(item))


def _failed(
    host: AnyBackend, entry: Entry, steps: Sequence[BackendStep], error: Exception
) -> Receipt:
    """Receipt of a failed step, after the steps before it are in effect."""
    why, changes = (describe_error(error),), entry.changes
    with contextlib.suppress(OSError):
        state = host.read_back(after(entry.base, steps))
        written = touched(entry.base, steps).keys()
        became = {change.cell: change for change in host.became(entry.changes, state)}
        changes = tuple(
            became[change.cell] if change.cell in written else change for change in entry.changes
        )
    unmet = _unseen(entry, changes)
    return Receipt("refused", why, changes, None, unmet, ReasonCode.WRITE_REFUSED)


def _unseen(entry: Entry, changes: Iterable[Change]) -> tuple[str, ...]:
    """Messages on values that were written and read as before: another setting overrides them."""
    as_before = {change.cell: change.old for change in changes if change.old == change.new}
    rows = [
        replace(change, old=change.new, new=as_before[change.cell])
        for change in entry.changes
        if change.cell in as_before
    ]
    return differences(rows, "was written and stays asked for", _AS_BEFORE)


def changed_since(host: AnyBackend, entry: Entry) -> tuple[tuple[str, ...], bool]:
    """Messages on cells that differ from what was read back, and whether all of them do.

    Read without the lock: its holder may be making the very changes that are to be reported.
    """
    try:
        now = host.read([change.cell for change in entry.changes])
    except OSError as error:
        why = f"whether it is still as it was made can't be read: {describe_error(error)}"
        return (why,), False
    changes = [Change(change.cell, change.new, now.get(change.cell)) for change in entry.changes]
    other = [change for change in changes if change.old != change.new and not is_end(change)]
    unchanged = [change for change in changes if not is_end(change) and change not in other]
    offline = offline_in(now, [change.cell for change in other])
    changed = [change for change in other if change.cell not in offline]
    words = ("was asked for", "now, changed by somebody else since")
    sentences = (*differences(changed, *words), *offline_now(offline))
    return sentences, bool(other) and not unchanged


def apply(
    host: AnyBackend, journal: Journal, proposal: Proposal, requester: Requester
) -> tuple[Receipt, Entry | None]:
    """Make the change; the caller holds the journal. The entry is pending until `keep` or `revert`.

    A failed change is reverted before this returns, and then there is no entry. Raises OSError: the
    host or the journal can't be read, or not written; nothing was done, and `recover` closes an
    entry.
    """
    try:
        base = compared(host, journal, proposal, requester.undoes)
    except UnwrittenError as end:
        return end.receipt, None
    entry = Entry(
        number=next_number(journal),
        time=now(),
        identity=host.identity,
        operator=requester.operator,
        command="; ".join(proposal.commands),
        changes=tuple(
            change
            for change in proposal.changes
            if change.cell.kind != "task" or change.cell in base
        ),
        undoes=requester.undoes,
        leaves=proposal.leaves,
        left=proposal.unmet,
        offline=proposal.offline,
        base=base,
    )
    journal.begin(entry)
    try:
        with locked(host):
            check_unchanged(host, proposal)
            result = _perform(host, entry)
    except UnwrittenError as end:
        return replace(end.receipt, sentences=(*end.receipt.sentences, *forget(journal))), None
    if isinstance(result, Receipt):
        written = replace(entry, changes=result.changes)
        return revert(host, journal, written, result, lock_s=REVERT_LOCK_S), None
    entry = replace(entry, changes=result, done=True)
    try:
        journal.begin(entry)  # with the numbers of new directories
    except OSError as error:
        return _not_written(host, journal, entry, error), None
    return Receipt("applied", ("read back as it should be",), result, entry.number), entry


def keep(host: AnyBackend, journal: Journal, entry: Entry) -> Receipt:
    """Keep the change: record it in the history, or revert it if that can't be written."""
    try:
        journal.record(entry, "kept")
    except OSError as error:
        return _not_written(host, journal, entry, error)
    since, is_gone = changed_since(host, entry)
    messages = (*_ended(journal, entry, since, is_gone=is_gone), *forget(journal))
    return Receipt("kept", messages, entry.changes, entry.number, since)


def _ended(
    journal: Journal, entry: Entry, since: tuple[str, ...], *, is_gone: bool
) -> Iterator[str]:
    if since:
        amount = "nothing of it is" if is_gone else "not all of it is"
        yield f"but {amount} as it was asked for any more"
        yield from since
    if entry.left:
        yield "but not all is taken back"
        yield from entry.left
    what = "the rest" if since else "it"
    hint = hinted(journal, f"`nftop undo` takes {what} back")
    if hint and not entry.undoes and not is_gone:
        yield hint
    elif not since and not entry.left:
        yield undone_text(entry.undoes, "taken back") if entry.undoes else "it is done"


def _not_written(host: AnyBackend, journal: Journal, entry: Entry, error: OSError) -> Receipt:
    why = (f"the journal can't be written: {describe_error(error)}",)
    cause = Receipt("refused", why, code=ReasonCode.JOURNAL_UNAVAILABLE)
    return revert(host, journal, entry, cause)


def serve(
    host: AnyBackend,
    journal: Journal,
    proposal: Proposal,
    requester: Requester,
    keep_within_s: float | None,
    *,
    answer: Callable[[Receipt | None], None],
    kept: Callable[[float], bool],
) -> None:
    """Make a change, and revert it unless it is kept; the caller holds the journal.

    Args:
        host: the backend.
        journal: of its changes.
        proposal: to be applied.
        requester: of the change.
        keep_within_s: None: it is kept at once.
        answer: receives the receipt and, if it was applied, the final one.
        kept: waits at most so many seconds; returns whether to keep the change.

    Raises OSError, DamagedJournalError: the journal can't be read; nothing was done.
    """
    journal.pending()  # raises before any write if the journal can't be read
    try:
        receipt, entry = apply(host, journal, proposal, requester)
    except Exception as error:  # noqa: BLE001 - nothing may be left half done
        message = f"nothing was written: {describe_error(error)}"
        nothing = Receipt("refused", (message,), code=ReasonCode.ERROR)
        answer(after_error(host, journal, error, nothing))
        return
    answer(receipt)
    if entry is None:
        return
    try:
        if keep_within_s is None or kept(keep_within_s):
            end = keep(host, journal, entry)
        else:
            end = retry(REVERT_LOCK_S, partial(revert, host, journal, entry))
    except Exception as error:  # noqa: BLE001 - it was written: report it
        end = unknown(journal, error)
    answer(end)


def after_error(
    host: AnyBackend, journal: Journal, error: Exception, unrecorded: Receipt
) -> Receipt:
    """Receipt after an unexpected error, once the change is reverted by the journal.

    `unrecorded`: the receipt if the journal has no pending change.
    """
    try:
        return recover(host, journal) or unrecorded
    except Exception as second:  # noqa: BLE001 - report both errors
        return unknown(journal, error, second)


def refused(error: Exception) -> Receipt:
    """Receipt of a request that failed before anything was written."""
    code = {
        AbsentError: ReasonCode.BACKEND_ABSENT,
        BusyError: ReasonCode.JOURNAL_UNAVAILABLE,
        DamagedJournalError: ReasonCode.JOURNAL_UNAVAILABLE,
    }.get(type(error), ReasonCode.ERROR)
    return Receipt("refused", (describe_error(error),), code=code)


def unknown(journal: Journal, *errors: Exception) -> Receipt:
    """Receipt of a change of which is not known how much was written."""
    hint = hinted(journal, ": `nftop recover` says, and takes back what is left of it")
    sentences = (*map(describe_error, errors), f"how much of it was written is not known{hint}")
    return Receipt("failed", sentences, code=ReasonCode.EXTENT_UNKNOWN)
