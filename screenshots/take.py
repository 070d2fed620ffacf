"""`make screenshots`: the demo's screen, as it is after so many seconds. Nothing is drawn by hand.

The simulated host's clock is stepped, not waited for, so the same code gives the same pictures.
"""

from __future__ import annotations

import asyncio
import sys
from dataclasses import dataclass
from pathlib import Path

from nftop.derive.compare.baseline import keep
from nftop.derive.fold import comparing
from nftop.model.ids import Cpu
from nftop.sources.base import Focusing
from nftop.ui.options import Options
from nftop.ui.theme import ThemeChoice
from screenshots.animation import still
from screenshots.tuning import tune
from tests.sim.hosts import Frozen, S
from tests.ui.harness import running

FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Shot:
    """A picture: which scenario, after how long, how large, and which keys have been pressed.

    `looked_at` is the CPU whose core is counted further meanwhile, as the screen asks for.
    `kept_at` is the second at which a baseline was kept, None: none. `theme` as `--theme`.
    """

    name: str
    scenario: str
    seconds: int
    size: tuple[int, int]
    keys: tuple[str, ...] = ()
    looked_at: Cpu | None = None
    kept_at: int | None = None
    theme: ThemeChoice = "dark"


SHOTS = (
    Shot("cores", "default", 200, (120, 36)),
    Shot("noisy", "noisy", 200, (180, 48), ("down",) * 4),
    Shot("small", "noisy", 200, (80, 24)),
    Shot("light", "noisy", 140, (120, 36), theme="light"),
    Shot("healthy", "healthy", 140, (120, 36)),
    Shot("incident", "noisy", 140, (120, 36), ("tab",)),
    Shot("timeline", "noisy", 140, (120, 36), ("5",)),
    Shot("explain", "default", 20, (120, 36), ("x",)),
    Shot("topdown", "noisy", 60, (120, 48), ("6", "slash", "3", "enter"), Cpu(3)),
    Shot("groups", "default", 60, (200, 16), ("6", "t")),
    Shot("traffic", "noisy", 290, (120, 44), ("4",)),
    Shot("nfs", "noisy", 200, (120, 44), ("2",), kept_at=50),
    Shot("power", "noisy", 200, (120, 36), ("7",)),
)


async def take(shot: Shot) -> None:
    """Show the host's frames to the application, press the keys, keep the screen."""
    host = Frozen(shot.scenario)
    for source in host.simulated.sources:
        if isinstance(source, Focusing):
            source.focus(shot.looked_at)
    frames = []
    for second in range(shot.seconds):
        if second == shot.kept_at:
            host.state = comparing(host.state, keep(host.state.baseline))
        frames.append(host.tick(S))
    async with running(*frames, size=shot.size, options=Options(theme=shot.theme)) as run:
        await run.press(*shot.keys)
        picture = still(run.rows, f"nftop demo --scenario {shot.scenario}")
    (FOLDER / f"{shot.name}.svg").write_text(picture, encoding="utf-8")


def main() -> int:
    """Take every picture that docs/ shows."""
    for shot in SHOTS:
        asyncio.run(take(shot))
    asyncio.run(tune(FOLDER))
    return 0


if __name__ == "__main__":
    sys.exit(main())
