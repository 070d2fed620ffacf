"""What drawing a tick costs: nftop's screen, nftop's table alone, and a DataTable of the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from textual.app import ComposeResult
from textual.screen import Screen

from nftop import ui
from nftop.model.frame import Frame
from nftop.model.struct import replace
from nftop.render.cores.columns import columns_for
from nftop.render.cores.rows import CpuView, Cursor, arrange
from nftop.store.history.rings import TickHistory
from nftop.ui.app import NftopApp
from nftop.ui.screens.registry import screens
from nftop.ui.widgets.lines import CpuTableView, LineScreen
from tests.bench.report import Reached, median
from tests.bench.scenes import shaken
from tests.bench.terminal import Cost, Counted, ticking
from tests.bench.yardstick import table_ticks
from tests.ui.feeds import StepFeed

SIZES = ((120, 36), (200, 50))
FEW, MANY = 64, 512
# Textual looks for it beside the file of the class.
_STYLESHEET = str(Path(ui.__file__).with_name("nftop.tcss"))


class CountedNftop(Counted, NftopApp):
    """nftop on the counting driver."""

    CSS_PATH = _STYLESHEET


class TableAlone(Counted):
    """nftop's table, filling the screen."""

    CSS_PATH = _STYLESHEET

    def compose(self) -> ComposeResult:
        yield CpuTableView()

    def get_default_screen(self) -> Screen[None]:
        return LineScreen()

    def draw(self, frame: Frame) -> None:
        width, height = self.size
        view = CpuView(folded=False)
        screen = self.screen
        assert isinstance(screen, LineScreen)
        with screen.at_once():
            self.query_one(CpuTableView).show_rows(
                frame.cpus,
                view,
                arrange(frame.cpus, view),
                columns=columns_for(width, frame.cpus),
                cursor=Cursor(),
                height=height,
            )


class _Scenes(NamedTuple):
    """Frames of few CPUs, of many with as many network functions, and of a whole large host."""

    few: list[Frame]
    many: list[Frame]
    whole: list[Frame]


def screen_ticks(frames: Sequence[Frame], size: tuple[int, int], number: str = "1") -> Cost:
    """A tick of nftop's screen: the history it keeps and the drawing, not the making of frames."""
    feed = StepFeed()
    app = CountedNftop(feed, TickHistory())
    ticks = [partial(feed.put, frame) for frame in frames]

    async def show() -> None:
        app.simulate_key(number)

    return asyncio.run(ticking(app, ticks, size=size, prepare=show))


def alone_ticks(frames: Sequence[Frame], size: tuple[int, int]) -> Cost:
    """The same of the table alone."""
    app = TableAlone()
    ticks = [partial(app.call_later, app.draw, frame) for frame in frames]
    return asyncio.run(ticking(app, ticks, size=size))


def main() -> list[Reached]:
    """Print the tables; what was reached of the targets for drawing."""
    everything = {cpus: shaken(cpus, 60) for cpus in (FEW, MANY)}
    ratios, costs = _by_cpus(everything)
    _by_screen(everything[MANY])
    yardsticks = _other_datatable(everything[MANY])
    return [
        Reached("drawing 512 CPUs at 120x36", "<= 2.5 ms (1.0)", costs[MANY] * 1e3, 2.5, "ms"),
        Reached("drawing 512 rows against 64", "<= 1.15", max(ratios), 1.15),
        *yardsticks,
    ]


def _by_cpus(everything: dict[int, list[Frame]]) -> tuple[list[float], dict[int, float]]:
    """Ratios of CPUs alone, MANY against FEW, and seconds of a whole host by its CPUs.

    A host of MANY CPUs has more network functions too, whose rows cost more than those of CPUs.
    """
    scenes = _Scenes(
        everything[FEW],
        [
            replace(frame, nfs=frame.nfs[: len(everything[FEW][0].nfs)])
            for frame in everything[MANY]
        ],
        everything[MANY],
    )
    print("a tick of the screen with every value changing, by CPUs in the same window")
    print(
        f"{'window':>8}{'ms, 64':>9}{'ms, 512':>9}{'ratio':>7}{'ms, more NFs':>14}"
        f"{'bytes, 64':>11}{'bytes, 512':>11}"
    )
    ratios: list[float] = []
    at_small: dict[int, float] = {}
    for size in SIZES:
        # Alternately, so that what else the machine does is in all.
        runs = [[screen_ticks(frames, size) for frames in scenes] for _ in range(5)]
        few, many, whole = (median([run[at].cpu_s for run in runs]) for at in range(3))
        ratios.append(median([run[1].cpu_s / run[0].cpu_s for run in runs]))
        window = f"{size[0]}x{size[1]}"
        print(
            f"{window:>8}{few * 1e3:>9.2f}{many * 1e3:>9.2f}{ratios[-1]:>7.2f}{whole * 1e3:>14.2f}"
            f"{runs[0][0].sent:>11.0f}{runs[0][1].sent:>11.0f}"
        )
        at_small = at_small or {FEW: few, MANY: whole}
    print()
    return ratios, at_small


def _by_screen(frames: Sequence[Frame]) -> None:
    size = SIZES[0]
    print(f"a tick of each screen in {size[0]}x{size[1]}, {MANY} CPUs")
    runs = [[screen_ticks(frames, size, row.keys[0]) for row in screens()] for _ in range(3)]
    for at, row in enumerate(screens()):
        cost = median([run[at].cpu_s for run in runs])
        print(f"{row.title:>12}{cost * 1e3:>8.2f} ms{runs[0][at].sent:>8.0f} bytes")
    print()


def _other_datatable(everything: list[Frame]) -> list[Reached]:
    size = SIZES[0]
    print(f"the same table in {size[0]}x{size[1]}, {MANY} rows: nftop's against a DataTable's")
    print(f"{'changing':>9}{'':>14}{'ms':>8}{'bytes':>8}{'ms, DataTable':>15}{'bytes':>8}")
    reached = []
    for share, frames, most in ((1.0, everything, 0.35), (0.02, shaken(MANY, 60, 0.02), 0.1)):
        pairs = [(alone_ticks(frames, size), table_ticks(frames[:9], size, 2)) for _ in range(2)]
        ours, theirs = (
            Cost(*(median([getattr(pair[at], what) for pair in pairs]) for what in Cost.__slots__))
            for at in (0, 1)
        )
        for name, cost in (("table alone", ours), ("whole screen", screen_ticks(frames, size))):
            print(
                f"{share:>9.0%}{name:>14}{cost.cpu_s * 1e3:>8.2f}{cost.sent:>8.0f}"
                f"{theirs.cpu_s * 1e3:>15.1f}{theirs.sent:>8.0f}"
            )
        # The whole screen shows a third of the rows that the DataTable does: no fair comparison.
        if share == 1.0:
            cheaper = theirs.cpu_s / ours.cpu_s
            what = "drawing the table, against DataTable"
            reached.append(Reached(what, ">= 45 times less", cheaper, 45, least=True))
        fewer = ours.sent / theirs.sent
        what = f"bytes of the table, {share:.0%} changing"
        reached.append(Reached(what, f"<= {most:g} of DataTable's", fewer, most))
    print()
    return reached
