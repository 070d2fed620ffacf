"""Position in a recording."""

from __future__ import annotations

from typing import NamedTuple

# Speeds of a replay; 1 is as recorded.
SLOWEST, FASTEST = 1 / 16, 1024.0


class Position(NamedTuple):
    """Position of a replay.

    Attributes:
        at_ns: wall time requested, or of the tick shown.
        first_ns, last_ns: wall time of the first and last tick, if known.
        number: of the tick shown, from 0.
        speed: 1 is as recorded.
        waiting: at the end, waiting for more. ended: at the end, and no more will come.
        warmed: ticks before this one, since the last jump, that its numbers rest on; None: all.
        remark: a marker just passed, or data lost here; else "".
        remote: another host's live recording.
    """

    at_ns: int
    first_ns: int
    last_ns: int
    number: int
    speed: float = 1.0
    paused: bool = False
    waiting: bool = False
    ended: bool = False
    warmed: int | None = None
    remark: str = ""
    remote: bool = False
