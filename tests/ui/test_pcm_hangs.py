"""The screen beside a sensor server that hangs: it goes on, and numbers come back after."""

from __future__ import annotations

import time
from collections.abc import Callable

from textual.pilot import Pilot

from nftop.derive.fold import FoldState
from nftop.model.frame import Frame
from nftop.model.missing import Missing, Reason
from nftop.model.pcm import PcmTable
from nftop.session.live import Live
from nftop.sources.pcm.source import PcmTopologySource, topology_of
from nftop.store.history.rings import TickHistory
from nftop.ui.app import NftopApp
from tests.peers.pcm_server import pcm_server
from tests.samples import HOST
from tests.sources.pcm.test_source import source
from tests.ui.harness import PATIENCE_S


class Kept(TickHistory):
    """A history that also knows the frames themselves."""

    def __init__(self) -> None:
        super().__init__()
        self.frames: list[Frame] = []

    def append(self, frame: Frame) -> None:
        super().append(frame)
        self.frames.append(frame)


async def test_frames_and_keys_go_on_while_the_server_hangs() -> None:
    with pcm_server() as peer:
        pcm = source(peer)
        first = pcm.read()
        assert isinstance(first, PcmTable)
        peer.behaviour = "hang"
        live = Live(
            (pcm, PcmTopologySource(pcm)),
            FoldState(HOST, topology_of(first)),
            0.1,
            on_pollers=lambda _pollers, _topology: None,
        )
        kept = Kept()
        app = NftopApp(live, kept)
        async with app.run_test(size=(100, 30)) as pilot:
            assert peer.reached.acquire(timeout=PATIENCE_S)
            begun = len(kept.frames)
            await until(pilot, lambda: len(kept.frames) >= begun + 10)
            await pilot.press("7")
            await until(pilot, lambda: "[7 Power]" in shown(app))
            begun = len(kept.frames)
            await until(pilot, lambda: len(kept.frames) >= begun + 5)
            assert not peer.released.is_set()
            assert peer.requested == ["GET /persecond/1"] * 2, "one request is under way"
            for frame in kept.frames:
                why = frame.packages[0].readings["power_w"]
                assert isinstance(why, Missing)
                assert why.reason in (Reason.WARMING, Reason.STALE)
            assert "PKG.W" in shown(app) and "143" not in shown(app)
            peer.behaviour = "well"
            peer.released.set()
            await until(pilot, lambda: " 143 " in shown(app))


def shown(app: NftopApp) -> str:
    strips = app.screen._compositor.render_strips()
    return "\n".join("".join(item.text for item in strip) for strip in strips)


async def until(pilot: Pilot[None], holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < deadline, "it does not come to that"
        await pilot.pause(0.01)
