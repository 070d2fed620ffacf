"""`make film`: the demo's noisy neighbour, found and fixed, as an asciinema cast and as an SVG.

Keys and a stepped clock only, so the same code gives the same film. The cast (`asciinema play`) is
in asciicast format 2; its markers are the captions.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

from rich.console import Console

from nftop.control.simulated import simulated_gates
from nftop.ui.options import Options
from screenshots.animation import animate
from tests.sim.hosts import Frozen, S
from tests.ui.harness import Running, running

FOLDER = Path(__file__).parent
TITLE = "nftop demo --scenario noisy"
SIZE = (110, 36)
# The neighbour starts at second 60; the film begins shortly before.
BEFORE_S = 54
TICK_S = 0.45


@dataclass(slots=True)
class Cast:
    """A cast in the making: `events` are (seconds, code, data), `now_s` is the film's time."""

    size: tuple[int, int]
    now_s: float = 0.0
    events: list[tuple[float, str, str]] = field(default_factory=list)

    def caption(self, text: str) -> None:
        self.events.append((self.now_s, "m", text))

    def show(self, run: Running, hold_s: float) -> None:
        """Keep the present screen for so long."""
        console = Console(
            width=self.size[0],
            height=self.size[1],
            file=io.StringIO(),
            force_terminal=True,
            color_system="truecolor",
            legacy_windows=False,
        )
        app = run.app
        below = app._background_screens
        update = app.screen._compositor.render_update(full=True, screen_stack=below)
        console.print(update, end="")
        assert isinstance(console.file, io.StringIO)
        self.events.append((self.now_s, "o", f"\x1b[H{console.file.getvalue()}"))
        self.now_s += hold_s

    def lines(self) -> Iterator[str]:
        """The file, asciicast format 2; its last event keeps the last screen for its time."""
        width, height = self.size
        yield json.dumps({"version": 2, "width": width, "height": height, "title": TITLE})
        for at_s, code, data in (*self.events, (self.now_s, "o", "")):
            yield json.dumps([round(at_s, 3), code, data], ensure_ascii=False)


async def film() -> Cast:
    """The demo from the last healthy seconds to the kept change."""
    cast = Cast(SIZE)
    host = Frozen("noisy")
    options = Options(gate=simulated_gates(host.simulated.world), rw=True, theme="dark")
    frames = [host.tick(S) for _ in range(BEFORE_S)]
    # The change's own time is the simulated host's, too.
    clock = SimpleNamespace(monotonic=lambda: host.now_ns / 1e9, monotonic_ns=lambda: host.now_ns)
    with patch("nftop.ui.change_control.time", clock):
        async with running(*frames, size=SIZE, options=options) as run:
            await _find(run, host, cast)
            await _fix(run, host, cast)
    return cast


async def _find(run: Running, host: Frozen, cast: Cast) -> None:
    cast.caption("Four network functions forward at their usual cost.")
    await _ticks(run, host, cast, 6)
    cast.caption("A virtual machine starts to stream through the cache: packets are lost.")
    await _ticks(run, host, cast, 7)
    await run.give(*[host.tick(S) for _ in range(20)])
    cast.show(run, 2.0)
    cast.caption("Tab: the culprit, its victims, what it costs, the evidence, and a remedy.")
    await run.press("tab")
    cast.show(run, 5.0)


async def _fix(run: Running, host: Frozen, cast: Cast) -> None:
    cast.caption("e: the remedy as a draft of the cache classes, checked as it is edited.")
    await run.press("e")
    await run.until(lambda: "DRAFT" in run.text)
    cast.show(run, 4.0)
    cast.caption("Enter: every write with its old and new value. Nothing has been changed yet.")
    await run.press("enter")
    await run.until(lambda: "y applies it" in run.text)
    cast.show(run, 4.0)
    cast.caption("y: applied. It is taken back by itself unless it is kept.")
    await run.press("y")
    await run.until(lambda: "IS NOT KEPT" in run.text)
    await run.press("escape", "escape")
    cast.show(run, 1.0)
    for _ in range(8):
        await _ticks(run, host, cast, 1)
        await run.give(host.tick(S), host.tick(S))
    cast.caption("K: kept. No packet is lost, and cycles per packet are as usual.")
    await run.press("K")
    await run.until(lambda: "IS NOT KEPT" not in run.text)
    await _ticks(run, host, cast, 3)
    await run.give(*[host.tick(S) for _ in range(70)])
    cast.show(run, 5.0)


async def _ticks(run: Running, host: Frozen, cast: Cast, count: int) -> None:
    for _ in range(count):
        await run.give(host.tick(S))
        cast.show(run, TICK_S)


def main(cast_file: Path, svg_file: Path) -> int:
    """Write the cast, and the SVG that is made of it."""
    cast_file.parent.mkdir(parents=True, exist_ok=True)
    lines = list(asyncio.run(film()).lines())
    cast_file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    svg_file.write_text(animate(lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2])))
