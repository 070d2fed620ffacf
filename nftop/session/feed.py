"""Interface of everything that delivers frames to the screens and the batch output."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Protocol, runtime_checkable

from nftop.model.frame import Focus, Frame
from nftop.model.replay_position import Position
from nftop.model.rule_settings import RuleSettings
from nftop.store.history.flight import FlightSize
from nftop.store.history.rings import TickHistory


class FeedError(Exception):
    """There are no frames, or no more of them, for a reason that is not nftop's fault: the text."""


class Feed(Protocol):
    """A stream of frames with a pace."""

    @property
    def interval_s(self) -> float:
        """Seconds between frames."""

    def set_interval(self, seconds: float) -> None:
        """Change the pace, of the present tick too. Safe from any thread."""

    def set_focus(self, focus: Focus) -> None:
        """Select what is counted only on demand, from the next tick on.

        Safe from any thread. A feed without counters ignores it.
        """

    def baseline(self, *, keep: bool) -> None:
        """Keep a baseline of the last ticks, or drop the present one, from the next tick on.

        Safe from any thread.
        """

    def set_rules(self, settings: RuleSettings) -> None:
        """Use these settings of rules from the next tick on. Safe from any thread."""

    def frames(self) -> Generator[Frame, None, None]:
        """Every frame in order; blocks between ticks and ends after `stop`.

        A consumer that stops early must close it, which raises errors of closing sources.
        """

    def stop(self) -> None:
        """End `frames` soon, even while it blocks. Safe from any thread, not in signal handlers."""


class TimeControl(Protocol):
    """Movement in time: in a recording, or in the past that a live session keeps.

    Methods are safe from any thread; the thread of the frames executes them soon.
    """

    @property
    def position(self) -> Position | None:
        """The moment shown; None before the first frame and while the present is shown."""

    def pause(self) -> None:
        """Pause, or continue."""

    def step(self, ticks: int) -> None:
        """Move by `ticks`, backward if negative, and pause."""

    def shift(self, span_ns: int) -> None:
        """Move by `span_ns`, backward if negative, by at least one tick, and pause."""

    def seek(self, wall_ns: int) -> None:
        """Go to the tick at this time; without one, stay and report it."""

    def to_marker(self, step: int) -> None:
        """Go to the next (1) or previous (-1) marker, and pause."""

    def faster(self, steps: int) -> None:
        """Multiply the speed by 2 ** `steps`."""


@runtime_checkable
class PastControl(TimeControl, Protocol):
    """Movement in the past of a live session, which continues in the background.

    Attributes:
        problem: why the last request failed; "" if it succeeded.
    """

    problem: str

    @property
    def active(self) -> bool:
        """Whether a moment of the past is shown, or is about to be."""

    @property
    def generation(self) -> int:
        """Number of this visit to the past; another after each begin and each return to now.

        Constant while the function given to `listen` runs, which gets frames of this visit only.
        """

    @property
    def history(self) -> TickHistory | None:
        """Of the frames folded since going back, for graphs; None at now."""

    @property
    def kept(self) -> FlightSize:
        """Extent of the samples that are kept."""

    def listen(self, show: Callable[[Frame | None], None]) -> None:
        """Call `show` with every frame of the past, in its own thread; None: the present again."""

    def set_rules(self, settings: RuleSettings) -> None:
        """Use these settings of rules in the past too, from the next tick on."""

    def to_now(self) -> None:
        """Show the live frames again."""

    def close(self) -> None:
        """End the thread, if any."""


@runtime_checkable
class Player(Feed, TimeControl, Protocol):
    """A feed of recorded frames that can pause, change speed and jump.

    It fills the history itself, with the frames of a jump's warm-up too.
    """
