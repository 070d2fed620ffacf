"""What an absence leaves of what was known: the same for every source."""

from __future__ import annotations

from typing import TypeVar

from nftop.model.reading import Missing, Reason

T = TypeVar("T")


def after_absence(known: T, nothing: T, why: Missing) -> T:
    """`known` where its source is only late (STALE), `nothing` after any other absence.

    Who is late goes on counting: the next reading is rated across the gap by the source's own
    clock, which is true, if coarse. Who failed, or may not be read, may be another one after.
    """
    return known if why.reason is Reason.STALE else nothing
