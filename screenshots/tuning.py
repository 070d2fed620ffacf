"""The noisy neighbour of the demo, tuned away step by step and back: a picture of each.

Keys and a stepped clock only: what the pictures show is what the simulated host made of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

from nftop.control.simulated import simulated_gates
from nftop.ui.options import Options
from screenshots.animation import still
from tests.sim.hosts import Frozen, S
from tests.ui.harness import Running, running

# The neighbour starts after a minute; then there is a minute to compare with. A change waits 60 s
# to be kept, so what it did is shown before that.
_BEFORE_S = 130
_AFTER_S = 55
_SIZE = (120, 50)
Save = Callable[[str, Running], None]


async def tune(folder: Path) -> None:
    """Take them all."""
    host = Frozen("noisy")
    options = Options(gate=simulated_gates(host.simulated.world), rw=True, theme="dark")
    frames = [host.tick(S) for _ in range(_BEFORE_S)]

    def save(name: str, run: Running) -> None:
        picture = still(run.rows, "nftop demo --scenario noisy")
        (folder / f"tune-{name}.svg").write_text(picture, encoding="utf-8")

    # What nftop changes itself is known by when it did: by the stepped clock, too.
    clock = SimpleNamespace(monotonic=time.monotonic, monotonic_ns=lambda: host.now_ns)
    with patch("nftop.ui.change_control.time", clock):
        async with running(*frames, size=_SIZE, options=options) as run:
            await _changed(run, host, save)


async def _changed(run: Running, host: Frozen, save: Save) -> None:
    await run.press("3", *("down",) * 3)
    save("1-noisy", run)
    await run.press("e")
    await run.until(lambda: "DRAFT" in run.text)
    await run.press(*("minus",) * 6)
    save("2-draft", run)
    await run.press("enter")
    await run.until(lambda: "y applies it" in run.text)
    save("3-preview", run)
    await _answered(run, "y", "IS NOT KEPT")
    await run.press("escape")
    await run.give(*[host.tick(S) for _ in range(_AFTER_S)])
    await run.press("v")
    save("4-verdict", run)
    await _answered(run, "K", "LIVE")
    await run.press("u")
    await run.until(lambda: "y applies it" in run.text)
    await run.press("y")  # final: nobody has to keep it
    await run.until(lambda: run.app.changes.state.phase == "none")
    await run.give(*[host.tick(S) for _ in range(_AFTER_S)])
    save("5-undone", run)


async def _answered(run: Running, key: str, seen: str) -> None:
    await run.press(key)
    await run.until(lambda: seen in run.text)
