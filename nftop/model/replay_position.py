"""Where in a recording one is."""

from __future__ import annotations

from typing import NamedTuple


class Position(NamedTuple):
    """Attributes.

    at_ns: the wall clock that was asked for, or of the tick that is shown.
    first_ns, last_ns: of the recording's first and last tick, as far as they are known.
    number: of the tick that is shown, from 0 on.
    speed: 1 is as fast as it was recorded.
    paused: it stands still until it is told to go on.
    waiting: there was nothing more, and what comes is shown as it comes. ended: there will be
        nothing more.
    warmed: after a jump, how many ticks before this one its numbers rest on; None: on all there
        were.
    remark: a marker just passed, or what is lost here; "" for neither.
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
