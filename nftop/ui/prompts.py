"""The keys that ask: what to find, what to show, how often."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from nftop.ui.screens.view import ScreenView
from nftop.ui.session_view import Watch

LEAST_DELAY_S, MOST_DELAY_S = 0.1, 3600.0


class Inquiry:
    """What is asked and what answers do; what there is to say goes to `session_view.message`.

    Attributes:
        questions: by action of a key, what to ask: about what, the label, and a text to begin with.
        answers: by what it was about, what an answer does.
    """

    def __init__(self, watch: Watch, view: Callable[[], ScreenView]) -> None:
        """`view` is the one that is up."""
        self._watch = watch
        self._view = view
        self.questions: Mapping[str, Callable[[], tuple[str, str, str] | None]] = {
            "ask_find": lambda: ("find", "find thread, NF or CPU", ""),
            "ask_filter": lambda: ("filter", "filter thread, NF or CPUs", watch.view.filter),
            "ask_delay": lambda: (
                "delay", f"seconds between ticks, now {watch.feed.interval_s:g}", "",
            ),
        }  # fmt: skip
        self.answers: Mapping[str, Callable[[str], None]] = {
            "find": self._find,
            "filter": lambda text: watch.look(filter=text),
            "delay": self._delay,
        }

    def _find(self, text: str) -> None:
        self._watch.sought = text
        self._view().again(1)

    def _delay(self, text: str) -> None:
        try:
            seconds = float(text)
        except ValueError:
            seconds = 0.0
        if LEAST_DELAY_S <= seconds <= MOST_DELAY_S:
            self._watch.feed.set_interval(seconds)
        else:
            self._watch.message = f"the delay must be {LEAST_DELAY_S:g} to {MOST_DELAY_S:g} seconds"
