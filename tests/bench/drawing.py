"""What drawing a tick costs."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path

from nftop import ui
from nftop.model.frame import Frame
from nftop.store.history import History
from nftop.ui.app import NftopApp
from tests.bench.terminal import Cost, Counted, ticking
from tests.ui.feeds import StepFeed


class CountedNftop(Counted, NftopApp):
    """nftop on the counting driver."""

    # Textual looks beside the file of the class.
    CSS_PATH = str(Path(ui.__file__).with_name("nftop.tcss"))


def drawn(frames: list[Frame], size: tuple[int, int]) -> Cost:
    """A tick of nftop's screen: the history it keeps and the drawing, not the making of frames."""
    feed = StepFeed()
    app = CountedNftop(feed, History())
    return asyncio.run(ticking(app, [partial(feed.put, each) for each in frames], size=size))
