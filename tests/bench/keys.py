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
from tests.bench.report import Reached, median
from tests.bench.scenes import shaken
from tests.bench.terminal import Counted, settled
from tests.ui.feeds import StepFeed

_KEYS, _SIZE, _TICK_S, _PAIRS = 100, (120, 36), 0.1, 3


class Blank(Counted):
    """One word that changes with every key."""

    def compose(self) -> ComposeResult:
        yield Static("-")

    def on_key(self, event: events.Key) -> None:
        self.query_one(Static).update(f"{time.monotonic_ns()}")


def main() -> list[Reached]:
    """Print the times; what was reached of the target for keys."""
    frames = shaken(512, 30)
    print("from a key to its paint, 512 rows at 10 Hz; a paint for a tick may come first")
    print("ms of the process' CPU time, which no other program lengthens, and of the clock")
    print(f"{'':<16}{'CPU p50':>8}{'CPU p95':>8}{'p50':>7}{'p95':>7}")
    ratios = []
    for _ in range(_PAIRS):
        feed = StepFeed(frames[0])
        ours = _delays(CountedNftop(feed, TickHistory()), partial(_ten_a_second, feed, frames))
        blank = _delays(Blank(), lambda: asyncio.sleep(3600))
        for name, (cpu_ms, wall_ms) in (("nftop", ours), ("blank Textual", blank)):
            pieces = [_piece(times, at) for times in (cpu_ms, wall_ms) for at in (0.5, 0.95)]
            print(f"{name:<16}{pieces[0]:>8.1f}{pieces[1]:>8.1f}{pieces[2]:>7.1f}{pieces[3]:>7.1f}")
        ratios.append(_piece(ours[0], 0.95) / _piece(blank[0], 0.95))
    print()
    return [Reached("key to paint p95 against a blank app", "<= 1.5", median(ratios), 1.5)]


def _delays(
    app: Counted, load: Callable[[], Coroutine[None, None, None]]
) -> tuple[list[float], list[float]]:
    """Milliseconds of CPU time and of the clock from each key to its paint, in ascending order."""
    cpu_ms, wall_ms = zip(*asyncio.run(_pressed(app, load)), strict=True)
    return sorted(cpu_ms), sorted(wall_ms)


async def _pressed(
    app: Counted, load: Callable[[], Coroutine[None, None, None]]
) -> list[tuple[float, float]]:
    running = asyncio.create_task(app.run_async(size=_SIZE))
    await settled(app)
    other = asyncio.create_task(load())
    chance = random.Random(1)
    delays = []
    for at in range(_KEYS):
        await asyncio.sleep(0.04 + 0.1 * chance.random())
        app.drawn.clear()
        cpu_s, began = time.process_time(), time.perf_counter()
        key = "j" if at % 6 < 3 else "k"
        app.driver.process_message(events.Key(key, key))
        await asyncio.wait_for(app.drawn.wait(), 10)
        delays.append(((app.drawn_cpu_s - cpu_s) * 1e3, (app.drawn_at - began) * 1e3))
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
