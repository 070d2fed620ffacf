"""The screen's tick beside a sensor server that misbehaves: frames shown of those due, lateness."""

from __future__ import annotations

import asyncio
import time

from nftop.derive.fold import FoldState
from nftop.model.pcm import PcmTable
from nftop.session.live import Live
from nftop.sources.pcm.source import PcmSource, PcmTopologySource, topology_of
from nftop.sources.runtime.http_client import Address
from nftop.store.history.rings import TickHistory
from nftop.ui.messages import FrameReady
from tests.bench.drawing import CountedNftop
from tests.bench.report import Reached
from tests.bench.terminal import settled
from tests.peers.pcm_server import pcm_server
from tests.samples import HOST

_TICK_S, _DUE, _SIZE = 0.1, 40, (120, 36)
_BEHAVIOURS = ("well", "slow", "hang", "drip", "endless", "close", "invalid")


class Timed(CountedNftop):
    """Notes when a tick's frame was on the screen: CLOCK_MONOTONIC of the tick, and of that."""

    def __init__(self, feed: Live) -> None:
        super().__init__(feed, TickHistory())
        self.ticks: list[tuple[int, int]] = []

    def on_frame_ready(self, message: FrameReady) -> None:
        # It bubbles here from the main screen, once that has made its lines of it.
        self.ticks.append((message.frame.monotonic_ns, time.monotonic_ns()))


def main() -> list[Reached]:
    """Print a line for each way to misbehave; what was reached of the worst."""
    FrameReady.bubble = True  # to `Timed`; nftop's own application needs none
    print(f"the Power screen at {1 / _TICK_S:g} Hz while a sensor server misbehaves")
    print(f"{'':<12}{'frames':>8}{'of due':>8}{'p99 late':>10}")
    worst, least = 0.0, 1.0
    for behaviour in _BEHAVIOURS:
        ticks = asyncio.run(_watched(behaviour))
        late = _late_ticks(ticks)
        share = min(1.0, len(ticks) / _DUE)
        p99 = late[min(len(late) - 1, int(len(late) * 0.99))]
        print(f"{behaviour:<12}{len(ticks):>8}{share:>8.0%}{p99:>8.0%} of a tick")
        worst, least = max(worst, p99), min(least, share)
    print()
    return [
        Reached("frames shown beside a failing server", ">= 95 % of due", least, 0.95, least=True),
        Reached("p99 lateness beside a failing server", "<= half a tick", worst, 0.5, "ticks"),
    ]


def _late_ticks(ticks: list[tuple[int, int]]) -> list[float]:
    """How long after its time each frame was drawn, in ticks, ascending."""
    first = ticks[0][0]
    return sorted(
        (drawn - first) / 1e9 / _TICK_S - round((taken - first) / 1e9 / _TICK_S)
        for taken, drawn in ticks
    )


async def _watched(behaviour: str) -> list[tuple[int, int]]:
    """The ticks of a screen whose server misbehaves from the second request on."""
    with pcm_server() as peer:
        pcm = PcmSource(Address("127.0.0.1", peer.port))
        first = pcm.read()
        assert isinstance(first, PcmTable), first
        feed = Live(
            (pcm, PcmTopologySource(pcm)),
            FoldState(HOST, topology_of(first)),
            _TICK_S,
            on_pollers=lambda _pollers, _topology: None,
        )
        peer.behaviour = behaviour
        app = Timed(feed)
        running = asyncio.create_task(app.run_async(size=_SIZE))
        await settled(app)
        app.simulate_key("7")
        await asyncio.sleep(1.0)  # past the pause after the first request
        app.ticks.clear()
        await asyncio.sleep(_TICK_S * _DUE)
        ticks = list(app.ticks)
        app.exit()
        peer.released.set()
        await running
    return ticks
