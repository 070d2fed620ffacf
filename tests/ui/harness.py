"""The application on a screen that is not there, and what can be read off it."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rich.style import Style
from textual.pilot import Pilot

from nftop.model.frame import Frame
from nftop.render.base.line import Tone
from nftop.store.history.rings import TickHistory
from nftop.ui.app import NftopApp
from nftop.ui.options import Options
from nftop.ui.theme import tone_styles
from nftop.ui.widgets.lines import Footer, Lines
from tests.ui.feeds import StepFeed

PATIENCE_S = 180.0


@dataclass
class Running:
    """A running application: its feed, its keys, its screen."""

    app: NftopApp
    pilot: Pilot[None]
    feed: StepFeed

    @property
    def text(self) -> str:
        """The screen, a line a row, without trailing blanks."""
        return "\n".join("".join(text for text, _ in row).rstrip() for row in self.rows)

    @property
    def footer(self) -> str:
        """The last row of the screen: a message, a prompt, or the keys."""
        return self.text.split("\n")[-1]

    @property
    def rows(self) -> list[list[tuple[str, Style]]]:
        """The screen as pieces of text with their styles."""
        strips = self.app.screen._compositor.render_strips()
        return [[(item.text, item.style or Style.null()) for item in strip] for strip in strips]

    def has_ground(self, style: Style, tone: Tone) -> bool:
        """Whether text of this style is on the ground of a tone."""
        wanted = tone_styles(self.app.theme)[tone]
        if wanted.bgcolor is None:
            return bool(style.reverse)
        return style.bgcolor == wanted.bgcolor

    async def press(self, *keys: str) -> str:
        await self.pilot.press(*keys)
        await self.pilot.pause()
        return self.text

    async def resize(self, size: tuple[int, int]) -> str:
        """Another size of the terminal; the screen, once all of it is drawn in that."""
        await self.pilot.resize_terminal(*size)
        await self.until(
            lambda: self.app.screen.size == size and self.text.count("\n") == size[1] - 1
        )
        return self.text

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for what a thread of the application does."""
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, self.text
            await self.pilot.pause(0.01)
        await self.pilot.pause()

    async def give(self, *frames: Frame | Exception) -> str:
        """Put frames in and wait until the screen has them."""
        wanted = self.feed.handled + sum(isinstance(item, Frame) for item in frames)
        for frame in frames:
            self.feed.put(frame)
        await self.settle(wanted)
        return self.text

    async def settle(self, handled: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while self.feed.handled < handled and time.monotonic() < deadline:
            await self.pilot.pause(0.01)
        assert self.feed.handled >= handled, "the application takes no frames"
        for _ in range(3):
            await self.pilot.pause()


# Columns and rows from which a screen has its footer and no message that it is too small.
SMALLEST = (40, 8)


def assert_fits(run: Running, *texts: str, selected: str | None = None) -> None:
    """The screen fills the terminal and nothing is cut off; from `SMALLEST` on it has its content.

    Lines are compared with the width of their widget before that crops them. `texts`: shown.
    `selected`: begin of the one selected row, without blanks; None: not checked.
    """
    width, height = run.app.size
    rows = run.text.split("\n")
    assert len(rows) == height
    assert (width, height) == (1, 1) or run.text.strip()
    if width < SMALLEST[0] or height < SMALLEST[1]:
        return
    for widget in run.app.screen.query(Lines):
        if widget.display:
            assert [line.text for line in widget.lines if line.width > widget.size.width] == []
            assert widget.region.bottom <= height
    footer = run.app.screen.query_one(Footer)
    assert footer.display and footer.region.bottom == height
    assert rows[-1] == footer.lines[0].text.rstrip() != ""
    for text in texts:
        assert text in run.text
    if selected is not None:
        (marked,) = selected_rows(run)
        assert marked.lstrip().startswith(selected), marked


def selected_rows(run: Running) -> list[str]:
    """Text of the rows on the ground of the selection, without the blank at the edge."""
    return [
        "".join(text for text, _ in row)[1:]
        for row in run.rows
        if row and run.has_ground(row[0][1], Tone.SELECTION)
    ]


@asynccontextmanager
async def running(
    *frames: Frame,
    size: tuple[int, int] = (80, 24),
    options: Options | None = None,
    sort: str = "",
) -> AsyncIterator[Running]:
    """The application after it has shown these frames; `sort`: another order than the default."""
    feed = StepFeed(*frames)
    app = NftopApp(feed, TickHistory(), options=options)
    if sort:
        app._main._session.change_view(sort=sort)
    async with app.run_test(size=size) as pilot:
        run = Running(app, pilot, feed)
        await run.settle(len(frames))
        yield run
    assert feed.stopped
