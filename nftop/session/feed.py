"""What the screens and the batch output consume, whatever stands behind it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol

from nftop.model.frame import Frame
from nftop.model.looking import Looking


class Feed(Protocol):
    """A stream of frames with a pace."""

    @property
    def interval_s(self) -> float:
        """Seconds between frames."""

    def set_interval(self, seconds: float) -> None:
        """Change the pace, of the present tick too. Safe from any thread."""

    def look_at(self, looking: Looking) -> None:
        """From the next tick on count what is looked at, and of the rest nothing more.

        Safe from any thread. It changes nothing where no counter is read, or not there.
        """

    def frames(self) -> Generator[Frame, None, None]:
        """Every frame in order; blocks between ticks and ends after `stop`.

        Who leaves before the end closes it: what closing a source raises is then heard.
        """

    def stop(self) -> None:
        """End `frames` soon, even while it blocks. Safe from any thread and signal handlers."""
