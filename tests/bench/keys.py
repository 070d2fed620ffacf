"""From a key to the paint it causes, at ten ticks a second, beside a Textual app with one word."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial

from textual import events
from textual.app import ComposeResult
from textual.widgets import Static

from nftop.model.frame import Frame
from nftop.store.history.rings import TickHistory
from tests.bench.drawing import CountedNftop
from tests.bench.report import Reached
from tests.bench.scenes import shaken
from tests.bench.terminal import Counted, settled
from tests.ui.feeds import StepFeed

_KEYS, _SIZE, _TICK_S = 60, (120, 36), 0.1


class Blank(Counted):
    """One word that changes with every key."""

    def compose(self) -> ComposeResult:
        yield Static("-")

    def on_key(self, event: events.Key) -> None:
        self.query_one(Static).update(f"{time.monotonic_ns()}")


def main() -> list[Reached]:
    """Print the times; what was reached of the target for keys."""
    frames = shaken(512, 30)
    feed = StepFeed(frames[0])
    ours = _delays_ms(CountedNftop(feed, TickHistory()), partial(_ten_a_second, feed, frames))
    blank = _delays_ms(Blank(), lambda: asyncio.sleep(3600))
    print("from a key to its paint, ms, 512 rows at 10 Hz; a paint for a tick may come first")
    print(f"{'':<16}{'p50':>7}{'p95':>7}")
    for name, delays in (("nftop", ours), ("blank Textual", blank)):
        print(f"{name:<16}{_piece(delays, 0.5):>7.1f}{_piece(delays, 0.95):>7.1f}")
    print()
    ratio = _piece(ours, 0.95) / _piece(blank, 0.95)
    return [Reached("key to paint p95 against a blank app", "<= 1.5", ratio, 1.5)]


def _delays_ms(app: Counted, load: Callable[[], Coroutine[None, None, None]]) -> list[float]:
    return sorted(asyncio.run(_pressed(app, load)))


async def _pressed(app: Counted, load: Callable[[], Coroutine[None, None, None]]) -> list[float]:
    running = asyncio.create_task(app.run_async(size=_SIZE))
    await settled(app)
    other = asyncio.create_task(load())
    chance = random.Random(1)
    delays = []
    for at in range(_KEYS):
        await asyncio.sleep(0.04 + 0.1 * chance.random())
        app.drawn.clear()
        began = time.perf_counter()
        key = "j" if at % 6 < 3 else "k"
        app.driver.process_message(events.Key(key, key))
        await asyncio.wait_for(app.drawn.wait(), 10)
        delays.append((time.perf_counter() - began) * 1e3)
    other.cancel()
    with suppress(asyncio.CancelledError):
        await other
    app.exit()
    await running
    return delays


async def _ten_a_second(feed: StepFeed, frames: list[Frame]) -> None:
    while True:
        for frame in frames:
            feed.put(frame)
            await asyncio.sleep(_TICK_S)


def _piece(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
