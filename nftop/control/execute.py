"""What is done of a change: step by step, and what is read back, or what failed."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import replace

from nftop.control.backend import AnyPart, RefusedError, Step, after, touched
from nftop.control.journal_entry import Entry
from nftop.control.revert_plan import differing, is_end
from nftop.control.wording import differences
from nftop.model.change import Change, Receipt, difference
from nftop.model.error_text import describe_error

_AS_BEFORE = "is what is read, as before: something else holds it there"


def done(host: AnyPart, entry: Entry) -> tuple[Change, ...] | Receipt:
    """What is different once it is done, or why that is not what was asked for; locked.

    The latter is a receipt with `changes` as they are to be taken back, and as `unmet` sentences
    on what is written and can't be seen, so that nothing leads back from it.
    """
    steps: list[Step] = []
    try:
        for step in host.steps(entry.base, entry.changes):
            host.do(step)
            steps.append(step)
        foreseen = after(entry.base, steps)
        found = host.read_back(foreseen)
    except (RefusedError, OSError) as error:
        return _failed(host, entry, steps, error)
    wrong = differing(foreseen, found)
    if wrong:
        said = differences(wrong, "was asked for", "is what is read back")
        changes = host.became(entry.changes, found)
        return Receipt("differs", said, changes, unmet=_unseen(entry, changes))
    return tuple(item for item in difference(entry.base, found) if not is_end(item))


def _failed(host: AnyPart, entry: Entry, steps: Sequence[Step], error: Exception) -> Receipt:
    """Once what was done until then is in effect: before that, nothing is seen to be undone."""
    why, changes = (describe_error(error),), entry.changes
    with contextlib.suppress(OSError):
        found = host.read_back(after(entry.base, steps))
        written = touched(entry.base, steps).keys()
        became = {change.cell: change for change in host.became(entry.changes, found)}
        changes = tuple(
            became[change.cell] if change.cell in written else change for change in entry.changes
        )
    return Receipt("refused", why, changes, unmet=_unseen(entry, changes))


def _unseen(entry: Entry, changes: Iterable[Change]) -> tuple[str, ...]:
    """What was written and is read as it was before, since something else holds it there."""
    as_before = {change.cell: change.old for change in changes if change.old == change.new}
    rows = [replace(change, old=change.new, new=as_before[change.cell])
            for change in entry.changes if change.cell in as_before]  # fmt: skip
    return differences(rows, "was written and stays asked for", _AS_BEFORE)
