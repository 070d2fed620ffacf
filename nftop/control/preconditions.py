"""Whether what a proposal was planned from is still so: before anything is written."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from nftop.control.backend import AnyPart, LockedError
from nftop.control.history import is_newest
from nftop.control.journal import Journal, hinted
from nftop.control.revert_plan import is_end
from nftop.control.wording import differences
from nftop.model.change import Cell, Change, Outcome, Proposal, Receipt, State, difference, parts

# A lock such as resctrl's is a courtesy of programs that are done in milliseconds.
LOCK_S = 2.0
_OTHER = "{} are others than in the preview, of another boot, mount or host: nothing was written"
_CUT_OFF = "an earlier change was cut off"
_NOT_NEWEST = (
    "change {} is not the newest change any more: another was kept, or this one was undone, since "
    "the preview; nothing was written"
)


class UnwrittenError(Exception):
    """It can't be done, and nothing was written."""

    def __init__(self, outcome: Outcome, *sentences: str) -> None:
        super().__init__(outcome)
        self.receipt = Receipt(outcome, sentences)


@contextlib.contextmanager
def locked(host: AnyPart) -> Iterator[None]:
    """The part's lock. Raises UnwrittenError where another program has it all the time."""
    try:
        with host.lock(LOCK_S):
            yield
    except LockedError as error:
        raise UnwrittenError("locked", f"nothing was written: {error}") from None


def compared(
    host: AnyPart, journal: Journal, proposal: Proposal, undoes: Sequence[int] = ()
) -> State:
    """The state, if a proposal can be done in it; `undoes` are the changes that it takes back.

    Another program may be in the middle of its change: what seems to stand against it counts only
    if it does so under the lock. Raises UnwrittenError.
    """
    if proposal.refusals or not proposal.changes:
        raise UnwrittenError("refused", *(proposal.refusals or ("there is nothing to change",)))
    if proposal.identity != host.identity:
        raise UnwrittenError("conflict", _OTHER.format(host.subject))
    if journal.pending() is not None:
        hint = hinted(journal, ": `nftop recover` takes it back")
        raise UnwrittenError("refused", f"{_CUT_OFF}{hint}")
    if proposal.final and not is_newest(undoes, journal.history(), host.identity):
        named = ", ".join(map(str, undoes))
        raise UnwrittenError("conflict", _NOT_NEWEST.format(named))
    with contextlib.suppress(UnwrittenError):
        return seen(host, proposal)
    with locked(host):
        return seen(host, proposal)


def seen(host: AnyPart, proposal: Proposal) -> State:
    """The same of this moment. Raises UnwrittenError."""
    base = host.read(proposal.base)
    moved = [item for item in difference(proposal.base, base) if not is_end(item)]
    moved += _joined(host, proposal)
    if moved:
        head = f"{host.subject} are not as they were in the preview: nothing was written"
        raise UnwrittenError("conflict", head, *differences(moved, "in the preview", "now"))
    refusals = tuple(dict.fromkeys(host.forbidden(base, proposal.changes)))
    if refusals:
        raise UnwrittenError("refused", *refusals)
    return base


def _joined(host: AnyPart, proposal: Proposal) -> list[Change]:
    """Threads that came since the preview into a directory that is to go.

    They would fall out of it with the rest and be in no way back.
    """
    gone = [change.cell for change in proposal.changes
            if change.cell.kind in ("group", "monitor") and change.new is None]  # fmt: skip
    going = {(cell.group, cell.name) for cell in gone}
    inside = host.inside({cell.group for cell in gone})
    return [
        Change(cell, None, where)
        for name, where in sorted(inside.items())
        if (cell := Cell("task", "", name)) not in proposal.base
        and going & {parts(where), (parts(where)[0], "")}
    ]
