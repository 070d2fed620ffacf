"""`make screenshots`: nftop on this host, live, beside a real testpmd. Nothing is drawn by hand."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from nftop.commands import OpenHost, open_host
from nftop.store.history import History
from nftop.ui.app import NftopApp
from tests.real.testpmd import running_testpmd

FOLDER = Path(__file__).parent
SECONDS = 40.0


async def take(here: OpenHost, name: str, width: int, height: int) -> None:
    """Run the application headless for a while, and keep its last screen."""
    app = NftopApp(here.feed(interval_s=1.0), History())
    async with app.run_test(size=(width, height)) as pilot:
        await asyncio.sleep(SECONDS)
        await pilot.pause()
        (FOLDER / name).write_text(app.export_screenshot(title="nftop"), encoding="utf-8")


def main() -> int:
    """Take every picture the README shows."""
    with running_testpmd("edge") as testpmd:
        testpmd.command("start")
        asyncio.run(take(open_host(), "cores.svg", 110, 28))
    return 0


if __name__ == "__main__":
    sys.exit(main())
