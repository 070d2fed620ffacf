"""The application on a real terminal, with a feed of prepared frames: `python -m ... SCENE FD`.

Ticks come from the parent: a line on descriptor FD is one frame.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from threading import Thread

from nftop.leaving import leaving_when_told
from nftop.model.frame import Frame
from nftop.store.history import History
from nftop.ui.app import NftopApp
from nftop.ui.options import options_from
from tests.frames import frame, hostile
from tests.ui.feeds import StepFeed

SCENES: dict[str, Callable[[int], Frame]] = {
    "healthy": lambda tick: frame(64, tick),
    "hostile": lambda _: hostile(),
}


def main(scene: str, ticks: int) -> None:
    feed = StepFeed()

    def tick() -> None:
        for at, _ in enumerate(os.fdopen(ticks)):
            feed.put(SCENES[scene](at))

    Thread(target=tick, daemon=True).start()
    app = NftopApp(feed, History(), options=options_from(os.environ))
    with leaving_when_told(app.leave, sys.stdin.fileno()):
        app.run()
    sys.exit(app.return_code)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
