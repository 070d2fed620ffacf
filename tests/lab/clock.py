"""The lab's clock: nanoseconds since the model's start. It runs, stands still, or is stepped."""

from __future__ import annotations

import time
from collections.abc import Callable

_S = 1_000_000_000


class Clock:
    """A clock that starts at `at_ns`. Time that it stood still is never made up for."""

    def __init__(
        self,
        *,
        at_ns: int = 0,
        running: bool = True,
        source_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`source_ns` is what it runs by."""
        if at_ns < 0:
            raise ValueError("the model starts at 0 s; there is nothing before that")
        self._source_ns = source_ns
        self._offset_ns = at_ns
        self._since_ns = source_ns() if running else None

    @property
    def running(self) -> bool:
        return self._since_ns is not None

    def now_ns(self) -> int:
        """Nanoseconds since the model's start; never less than before."""
        ran_ns = 0 if self._since_ns is None else self._source_ns() - self._since_ns
        return self._offset_ns + ran_ns

    def freeze(self) -> None:
        """Stand still from now on."""
        self._offset_ns = self.now_ns()
        self._since_ns = None

    def run(self) -> None:
        """Run on from where it stands."""
        if self._since_ns is None:
            self._since_ns = self._source_ns()

    def step(self, by_ns: int) -> None:
        """Go on by so much at once; ValueError if that is backwards."""
        if by_ns < 0:
            raise ValueError("no counter of a real host goes back, so this clock does not")
        self._offset_ns += by_ns


def command(clock: Clock, text: str) -> None:
    """Do what a line written to the clock's file says: `freeze`, `run` or `step SECONDS`.

    Raises:
        ValueError: it says anything else.
    """
    match text.split():
        case ["freeze"]:
            clock.freeze()
        case ["run"]:
            clock.run()
        case ["step", seconds]:
            clock.step(nanoseconds(seconds))
        case _:
            raise ValueError(f"{text!r} is none of freeze, run and step SECONDS")


def nanoseconds(seconds: str) -> int:
    """Seconds, as `2.5`, in nanoseconds; ValueError if it is no number, negative or endless."""
    value = float(seconds) * _S
    if not 0 <= value < 2**63:
        raise ValueError(f"{seconds} is no time")
    return round(value)
