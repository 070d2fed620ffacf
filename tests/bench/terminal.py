"""A terminal that only counts what is written to it, and ways to drive an application on it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from textual.app import App
from textual.drivers.headless_driver import HeadlessDriver

from nftop.ui.theme import VARIABLES


class CountingDriver(HeadlessDriver):
    """Takes what is written, as a terminal does, and counts it."""

    written = 0

    def __init__(
        self,
        app: App[Any],
        *,
        debug: bool = False,
        mouse: bool = True,
        size: tuple[int, int] | None = None,
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        if isinstance(app, Counted):
            app.driver = self

    @property
    def is_headless(self) -> bool:
        return False  # so that Textual makes the bytes

    def write(self, data: str) -> None:
        type(self).written += len(data.encode())


class Counted(App[None]):
    """Mixed into an application: draws on the counting driver and notes when it has drawn.

    Attributes:
        drawn: set by the first paint since it was cleared.
        drawn_at, drawn_cpu_s: wall and CPU time of that paint.
    """

    driver: CountingDriver

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.driver_class = CountingDriver  # an application may have chosen its own
        self.drawn = asyncio.Event()
        self.drawn_at = self.drawn_cpu_s = 0.0

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return dict(VARIABLES)

    def post_display_hook(self) -> None:
        if not self.drawn.is_set():
            self.drawn_at, self.drawn_cpu_s = time.perf_counter(), time.process_time()
        self.drawn.set()


@dataclass(frozen=True, slots=True)
class Cost:
    """CPU seconds and bytes of one tick."""

    cpu_s: float
    sent: float


async def ticking(
    app: Counted,
    ticks: Sequence[Callable[[], object]],
    *,
    size: tuple[int, int],
    warm: int = 10,
    prepare: Callable[[], Awaitable[object]] | None = None,
) -> Cost:
    """What a tick costs from what it does to the last byte, the first `warm` ones left out."""
    running = asyncio.create_task(app.run_async(size=size))
    await settled(app)
    if prepare is not None:
        await prepare()
    began, sent = 0.0, 0
    for at, tick in enumerate(ticks):
        if at == warm:
            began, sent = time.process_time(), CountingDriver.written
        app.drawn.clear()
        tick()
        # Where nothing on screen changes nothing is drawn.
        given_up = asyncio.get_running_loop().call_later(0.1, app.drawn.set)
        await app.drawn.wait()
        given_up.cancel()
    cost = time.process_time() - began
    sent = CountingDriver.written - sent
    app.exit()
    await running
    return Cost(cost / (len(ticks) - warm), sent / (len(ticks) - warm))


async def settled(app: Counted) -> None:
    """Wait until it runs and has drawn its first screen."""
    for _ in range(20):
        await asyncio.sleep(0.02)
    await asyncio.wait_for(app.drawn.wait(), 30)
