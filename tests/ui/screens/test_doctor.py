"""The doctor's page: examined in a thread, again by `r`, and without a host a sentence."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from nftop.model.check import Check
from nftop.model.reading import Reason
from nftop.ui.options import Options
from nftop.ui.screens.doctor import DoctorScreen
from tests.frames import frame
from tests.ui.harness import running


class Examiner:
    """Counts how often the host is examined; answers once `free` is set."""

    def __init__(self) -> None:
        self.times = 0
        self.free = threading.Event()
        self.thread: threading.Thread | None = None

    def __call__(self) -> tuple[Sequence[Check], str]:
        self.times += 1
        self.thread = threading.current_thread()
        assert self.free.wait(60)
        if self.times == 3:
            raise ValueError("no such host")
        return (Check(f"perf {self.times}", Reason.PRESENT, "counts"),), ""


async def test_the_host_is_examined_in_a_thread_and_again_on_request() -> None:
    examiner = Examiner()
    async with running(frame(8), options=Options(examine=examiner)) as run:
        assert "examining the host" in await run.press("f9")
        await run.press("r", "r")
        assert examiner.times == 1, "one examination at a time"
        examiner.free.set()
        await run.until(lambda: "✔ perf 1" in run.text)
        assert examiner.thread is not threading.main_thread()
        await run.press("r")
        await run.until(lambda: "✔ perf 2" in run.text)
        await run.press("r")
        await run.until(lambda: "cannot examine the host: no such host" in run.text)
        assert "✔ perf 2" in run.text, "the last report stays"
        await run.press("f9")
        assert not isinstance(run.app.screen, DoctorScreen)


async def test_a_replay_has_no_doctor() -> None:
    async with running(frame(8)) as run:
        assert "no doctor here" in await run.press("f9")
