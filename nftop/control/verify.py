"""What became of a change between its making and its being kept."""

from __future__ import annotations

from dataclasses import dataclass

from nftop.control.backend import AnyPart
from nftop.control.journal_entry import Entry
from nftop.control.revert_plan import is_end, offline_in
from nftop.control.wording import differences, offline_now
from nftop.model.change import Change
from nftop.model.error_text import describe_error


@dataclass(frozen=True, slots=True)
class Since:
    """Attributes.

    sentences: for what is not as it was read back any more, or why that is not known.
    gone: nothing of it is as it was.
    """

    sentences: tuple[str, ...]
    gone: bool


def changed_since(host: AnyPart, entry: Entry) -> Since:
    """What of a change has become another since it was read back.

    Without the part's lock: who holds that is changing something, which is what is looked for.
    """
    try:
        now = host.read([change.cell for change in entry.changes])
    except OSError as error:
        return Since(
            (f"whether it is still as it was made can't be read: {describe_error(error)}",),
            gone=False,
        )
    changes = [Change(change.cell, change.new, now.get(change.cell)) for change in entry.changes]
    other = [change for change in changes if change.old != change.new and not is_end(change)]
    unchanged = [change for change in changes if not is_end(change) and change not in other]
    offline = offline_in(now, [change.cell for change in other])
    changed = [change for change in other if change.cell not in offline]
    words = ("was asked for", "now, changed by somebody else since")
    sentences = (*differences(changed, *words), *offline_now(offline))
    return Since(sentences, bool(other) and not unchanged)
