"""State of a source after it gave no reading."""

from __future__ import annotations

from typing import TypeVar

from nftop.model.missing import Missing, Reason

T = TypeVar("T")


def after_absence(known: T, nothing: T, why: Missing) -> T:
    """`known` if the source is only late (STALE), else `nothing`.

    A late source goes on counting: its next reading is rated across the gap. A source that failed
    may be a different one later.
    """
    return known if why.reason is Reason.STALE else nothing
