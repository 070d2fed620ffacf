"""Interface of everything that delivers frames to the screens and the batch output."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Protocol, runtime_checkable

from nftop.model.frame import Focus, Frame
from nftop.model.replay_position import Position
from nftop.model.rule_settings import RuleSettings
from nftop.store.history.flight import FlightSize
from nftop.store.history.history import TickHistory


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
        """From the next tick on count what is looked at, and of the rest nothing more.

        Safe from any thread. It changes nothing where no counter is read, or not there.
        """

    def baseline(self, *, keep: bool) -> None:
        """Keep a baseline of the last ticks, or forget the one there is; from the next tick on.

        Safe from any thread.
        """

    def set_rules(self, settings: RuleSettings) -> None:
        """Use these settings of rules from the next tick on. Safe from any thread."""

    def frames(self) -> Generator[Frame, None, None]:
        """Every frame in order; blocks between ticks and ends after `stop`.

        Who leaves before the end closes it: what closing a source raises is then heard.
        """

    def stop(self) -> None:
        """End `frames` soon, even while it blocks. Safe from any thread; no signal handler."""


class TimeControl(Protocol):
    """Movement in time: in a recording, or in what a live session keeps.

    All is safe from any thread and done soon, in the thread of the frames.
    """

    @property
    def position(self) -> Position | None:
        """The moment shown; None before the first frame, and where that is now."""

    def pause(self) -> None:
        """Stand still, or go on."""

    def step(self, ticks: int) -> None:
        """So many ticks on, or back, and stand still there."""

    def shift(self, span_ns: int) -> None:
        """So long on, or back, at least one tick, and stand still there."""

    def seek(self, wall_ns: int) -> None:
        """To the tick at this time; if there is none, stay and say so."""

    def to_marker(self, step: int) -> None:
        """To the next marker (1), or to the one before (-1), and stand still there."""

    def faster(self, steps: int) -> None:
        """Twice as fast for each step, half as fast for each below 0."""


@runtime_checkable
class PastControl(TimeControl, Protocol):
    """Movement in the past of a live session, whose frames go on meanwhile.

    Attributes:
        problem: why the last request led nowhere; "" if it did not.
    """

    problem: str

    @property
    def active(self) -> bool:
        """Whether a moment of the past is shown, or is about to be."""

    @property
    def generation(self) -> int:
        """Number of the way back, another after each begin and each return to now.

        It does not change while `listen`'s function runs, which is given frames of this one only.
        """

    @property
    def history(self) -> TickHistory | None:
        """Of the frames folded since going back, for graphs; None at now."""

    @property
    def kept(self) -> FlightSize:
        """What can be gone back to."""

    def listen(self, show: Callable[[Frame | None], None]) -> None:
        """Call this with every frame of the past, in a thread of its own; None: it is now again."""

    def set_rules(self, settings: RuleSettings) -> None:
        """Use these settings of rules in the past too, from the next tick on."""

    def to_now(self) -> None:
        """Show the live frames again."""

    def close(self) -> None:
        """End the thread, if any."""


@runtime_checkable
class Player(Feed, TimeControl, Protocol):
    """A feed of what was recorded: it can stand still, go faster, and go elsewhere.

    The consumer of the frames need not remember them: a player fills the history itself, with
    those before a jump's end too.
    """
