"""What `nftop doctor` says of changes of classes."""

from __future__ import annotations

from nftop.control.entry import DamagedError
from nftop.control.journal import Journal
from nftop.model.reading import Reason
from nftop.sources.base import Check

_NAME = "changes"


def check(journal: Journal) -> Check:
    """Whether a change of classes is under way, or was left so by a crash."""
    try:
        unfinished, holder = journal.unfinished(), journal.holder()
        count = len(journal.history())
    except PermissionError:
        why = "the journal of changes is root's: whether one was cut off is not known"
        return Check(_NAME, Reason.PERMISSION, why, "sudo nftop doctor")
    except (DamagedError, OSError) as error:
        return Check(_NAME, Reason.ERROR, str(error))
    if unfinished:
        fix = "" if holder else "sudo nftop recover"
        return Check(_NAME, Reason.TAKEN if holder else Reason.ERROR, unfinished, fix)
    done = f"{count} in the history" if count else "none was ever made by nftop"
    return Check(_NAME, Reason.PRESENT, f"no change of cache classes is under way; {done}")
