"""The application on a real terminal, with a feed of prepared frames: `python -m ... SCENE FD`.

Ticks come from the parent: a line on descriptor FD is one frame. With a third argument, `segments`,
Textual draws every line from its segments, as `widgets.strips` says it would. With `stops`, the
process gets SIGTSTP while it holds the lock of the queue to the terminal, each fiftieth time.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from queue import Queue
from threading import Thread

from textual.drivers import _writer_thread
from textual.strip import Strip

from nftop.cli.signals import leaving_on_signal
from nftop.model.frame import Frame
from nftop.render.base.line import Line
from nftop.store.history.rings import TickHistory
from nftop.ui.app import NftopApp
from nftop.ui.options import options_from
from nftop.ui.widgets import lines
from nftop.ui.widgets.lines import Ink
from tests.frames import frame, hostile
from tests.ui.feeds import StepFeed

SCENES: dict[str, Callable[[int], Frame]] = {
    "healthy": lambda tick: frame(64, tick),
    "busy": lambda tick: frame(64, tick, packages=2, simulated=True, tma=True),
    "hostile": lambda _: hostile(),
}


def of_segments(line: Line, width: int, ink: Ink) -> Strip:
    """What `LineStrip` stands for."""
    return Strip(ink.segments(line, width), width)


class StoppingQueue(Queue[str | None]):
    """Texts to the terminal; each `EVERY` of them raises SIGTSTP inside the lock."""

    EVERY = 50
    _count = 0

    def _put(self, item: str | None) -> None:
        super()._put(item)
        StoppingQueue._count += 1
        if self._count % self.EVERY == 0:
            signal.raise_signal(signal.SIGTSTP)


def main(scene: str, ticks: int, drawn_by: str = "") -> None:
    if drawn_by == "segments":
        setattr(lines, "LineStrip", of_segments)  # noqa: B010 - for this process
        # Textual alone writes to the terminal.
        setattr(lines.LineScreen, "_is_settled", lambda *_: False)  # noqa: B010 - likewise
    if drawn_by == "stops":
        setattr(_writer_thread, "Queue", StoppingQueue)  # noqa: B010 - for this process
    feed = StepFeed()

    def tick() -> None:
        for at, _ in enumerate(os.fdopen(ticks)):
            feed.put(SCENES[scene](at))

    Thread(target=tick, daemon=True).start()
    app = NftopApp(feed, TickHistory(), options=options_from(os.environ))
    with leaving_on_signal(app.leave, sys.stdin.fileno()):
        app.run()
    sys.exit(app.return_code)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
