"""What the screens and the batch output consume, whatever stands behind it."""

from __future__ import annotations

from collections.abc import Generator
from typing import Protocol

from nftop.model.frame import Frame
from nftop.model.ids import Cpu


class Feed(Protocol):
    """A stream of frames with a pace."""

    @property
    def interval_s(self) -> float:
        """Seconds between frames."""

    def set_interval(self, seconds: float) -> None:
        """Change the pace from the next tick on. Safe from any thread."""

    def focus(self, cpu: Cpu | None) -> None:
        """Count more of this CPU's core from the next tick on, of none with None; see `CoreFocus`.

        Safe from any thread. It changes nothing where no counter is read, or that CPU's is not.
        """

    def frames(self) -> Generator[Frame, None, None]:
        """Every frame in order; blocks between ticks and ends after `stop`.

        Who leaves before the end closes it: what closing a source raises is then heard.
        """

    def stop(self) -> None:
        """End `frames` soon, even while it blocks. Safe from any thread and signal handlers."""
