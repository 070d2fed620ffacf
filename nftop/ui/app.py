"""The application: takes frames from a feed and shows them, until told to stop."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import ClassVar

from textual.app import App
from textual.binding import Binding, BindingType
from textual.filter import LineFilter, Monochrome, NoColor
from textual.worker import Worker, WorkerState

from nftop.session.feed import Feed
from nftop.store.history import History
from nftop.ui.messages import FeedEnded, FrameReady
from nftop.ui.options import Options
from nftop.ui.screens.main import MainScreen

_NO_COLOR = NoColor()


class NftopApp(App[None]):
    """Args of `__init__`.

    feed: where frames come from; consumed in a thread and stopped when the application ends.
    history: every frame goes there first, those the screen is too slow for included.
    options: how to draw.
    """

    CSS_PATH = "nftop.tcss"
    TITLE = "nftop"
    ENABLE_COMMAND_PALETTE = False
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "quit", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
    ]

    def __init__(self, feed: Feed, history: History, *, options: Options | None = None) -> None:
        self._options = options or Options()
        super().__init__()
        # The terminal's own palette: right on dark and light backgrounds alike.
        self.theme = "ansi-dark"
        self._feed = feed
        self._history = history
        self._loop: asyncio.AbstractEventLoop | None = None
        self._main = MainScreen(feed, history, self._options)

    def on_mount(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.push_screen(self._main)
        self.run_worker(self._consume, name="feed", thread=True, exit_on_error=False)

    def leave(self, code: int) -> None:
        """End with this exit code soon. Safe from any thread and from signal handlers."""
        self._feed.stop()
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self.exit, None, code)

    def on_unmount(self) -> None:
        self._feed.stop()

    def get_line_filters(self) -> Sequence[LineFilter]:
        # Textual heeds an empty NO_COLOR too, and no option; ours are settled in `Options`.
        filters = super().get_line_filters()
        kept = [each for each in filters if not isinstance(each, (NoColor, Monochrome))]
        return kept if self._options.color else [*kept, _NO_COLOR]

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        error = event.worker.error
        if event.state is WorkerState.SUCCESS:
            self._main.post_message(FeedEnded())
        elif event.state is WorkerState.ERROR and error is not None:
            said = f"{type(error).__name__}: {error}".removesuffix(": ")
            self._main.post_message(FeedEnded(f"nftop's own fault, no more frames: {said}"))

    def _consume(self) -> None:
        for frame in self._feed.frames():
            self._history.append(frame)
            self._main.post_message(FrameReady(frame))
