"""A recorded experiment on screen: the curve grows as the replay plays."""

from __future__ import annotations

from nftop.session.replay import Replay
from nftop.store.history.events import EventHistory
from nftop.store.history.rings import TickHistory
from nftop.ui.app import NftopApp
from nftop.ui.options import Options
from nftop.ui.screens.experiment import ExperimentScreen
from tests.store.history.test_experiments import steps
from tests.store.reading.test_scan import Bytes
from tests.ui.feeds import StepFeed
from tests.ui.harness import Running
from tests.ui.test_recordings import Still, session, shows, shows_tick


async def test_t_shows_the_curve_up_to_the_tick_and_it_grows() -> None:
    events, details = EventHistory(), steps(accelerated=True)
    feed = Replay(Bytes(session().data), clock=Still(), on_frame=TickHistory().append)
    options = Options(no_gate="a recording can't be changed", events=events)
    app = NftopApp(feed, TickHistory(), options=options)
    async with app.run_test(size=(120, 36)) as pilot:
        run = Running(app, pilot, StepFeed())
        await shows(run, "REPLAY")
        await run.press("space")
        assert feed.position is not None
        begin_ns = feed.position.first_ns
        for at, detail in enumerate(details):
            events.mark("", begin_ns + (at + 5) * 1_000_000_000, kind="experiment", detail=detail)
        await run.press("T")
        assert "no experiment" in run.text
        await run.press("S", *"+10s", "enter")
        await shows_tick(run, feed, 10)
        await run.press("T")
        assert isinstance(app.screen, ExperimentScreen)
        assert "5 visits so far" in run.text and "ACCELERATED" in run.text
        assert "y start" not in run.text
        await run.press("right", "right")
        await shows(run, "7 visits so far")
        await run.press("y", "e", "n")
        assert isinstance(app.screen, ExperimentScreen)
        for _ in range(len(details)):
            await run.press("right")
        await shows(run, "restored")
        assert "recommended" in run.text
        await run.press("escape")
        assert "REPLAY" in run.text
