"""What the header says of a recording that is under way."""

from __future__ import annotations

from nftop.render.base.text import printable
from nftop.render.frame.replay import span


def recording_text(
    seconds: float, lost: int, problem: str, *, over: bool, before_s: float = 0.0
) -> str:
    """`REC 2:31 (+10:00 before)`, or what keeps it from being written.

    `over`: that is for good. `before_s`: of `seconds`, those before it was begun.
    """
    if problem:
        return f"REC {'FAILED' if over else 'PAUSED'}: {printable(problem)}, {_lost(lost)}"
    before = f" (+{span(before_s)} before)" if before_s >= 1 else ""
    return f"REC {span(max(seconds - before_s, 0))}{before}" + (f" ({_lost(lost)})" if lost else "")


def _lost(ticks: int) -> str:
    return f"{ticks} tick{'' if ticks == 1 else 's'} lost"


def missing(ticks: int) -> str:
    """How many are not in a recording."""
    return "1 tick is not in it" if ticks == 1 else f"{ticks} ticks are not in it"


def recorded(name: str, ticks: int, size: int) -> str:
    """What is in a recording that has ended; `size` in bytes."""
    return f"{ticks} tick{'' if ticks == 1 else 's'}, {size / 1e6:.1f} MB in {printable(name)}"
