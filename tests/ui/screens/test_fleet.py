"""The fleet screen: keys, selection, hosts that are opened or not, and a feed that fails."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import SimpleQueue

import pytest
from syrupy.assertion import SnapshotAssertion
from textual.pilot import Pilot

from nftop.export.output import FAILURE
from nftop.model.fleet import FleetFrame, FleetSample
from nftop.model.missing import Missing, Reason
from nftop.session.fleet import FleetFeed
from nftop.store.user.fleet_hosts import FleetHosts
from nftop.ui.app import FleetApp
from nftop.ui.options import Options
from nftop.ui.screens.fleet import AttemptEnded, FleetContext, FleetMemory, FleetScreen
from tests.fleet import sample_of, three_hosts
from tests.ui.harness import PATIENCE_S

S = 1_000_000_000
NOW_NS = 4 * S
HOSTS = FleetHosts(Path("/home/me/.config/nftop/config.toml"), {"edge-07:9739": "root@edge-07"})


class Attempt:
    """An attempt that ends as the test wants."""

    def __init__(self, destination: str) -> None:
        self.destination = destination
        self.problem = ""
        self.ends = threading.Event()
        self.cancelled = threading.Event()

    def wait(self) -> str:
        assert self.ends.wait(PATIENCE_S)
        return "given up" if self.cancelled.is_set() else self.problem

    def cancel(self) -> None:
        self.cancelled.set()
        self.ends.set()


@dataclass
class RunningFleet:
    app: FleetApp
    pilot: Pilot[None]
    answers: SimpleQueue[FleetSample | Missing]
    attempts: list[Attempt]
    memory: FleetMemory
    feed: FleetFeed

    @property
    def text(self) -> str:
        strips = self.app.screen._compositor.render_strips()
        return "\n".join("".join(item.text for item in strip).rstrip() for strip in strips)

    @property
    def footer(self) -> str:
        return self.text.split("\n")[-1]

    async def press(self, *keys: str) -> str:
        await self.pilot.press(*keys)
        await self.pilot.pause()
        return self.text

    async def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not holds():
            assert time.monotonic() < deadline, self.text
            await self.pilot.pause(0.01)
        await self.pilot.pause()


def is_another(app: FleetApp, frame: FleetFrame | None) -> bool:
    return app._fleet.frame is not frame


@asynccontextmanager
async def fleet(
    *answers: FleetSample | Missing,
    size: tuple[int, int] = (80, 24),
    hosts: FleetHosts = HOSTS,
    options: Options | None = None,
    memory: FleetMemory | None = None,
) -> AsyncIterator[RunningFleet]:
    """The application after it has shown these answers."""
    queue: SimpleQueue[FleetSample | Missing] = SimpleQueue()
    attempts: list[Attempt] = []

    def open_remote(destination: str) -> Attempt:
        attempts.append(Attempt(destination))
        return attempts[-1]

    memory = memory or FleetMemory()
    feed = FleetFeed(queue.get, 10.0)
    app = FleetApp(
        feed,
        FleetContext("prom:9090", hosts, open_remote, memory, lambda: NOW_NS),
        options or Options(),
    )
    async with app.run_test(size=size) as pilot:
        run = RunningFleet(app, pilot, queue, attempts, memory, feed)
        for answer in answers:
            before = app._fleet.frame
            queue.put(answer)
            feed.refresh()
            await run.until(partial(is_another, app, before))
        yield run
    queue.put(Missing(Reason.SOURCE))  # the feed's thread ends with it


def three(**pages: str | None) -> FleetSample:
    return sample_of({**three_hosts(), **pages}, monotonic_ns=2 * S)


def selected(run: RunningFleet) -> str:
    row = run.app._fleet._selected
    assert row is not None
    return f"{row.host.name} {row.nf.name if row.nf else '-'}"


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
async def test_screen(size: tuple[int, int], snapshot: SnapshotAssertion) -> None:
    async with fleet(three(), size=size) as run:
        assert run.text == snapshot


@pytest.mark.parametrize("size", [(1, 1), (20, 5), (40, 8), (39, 30), (300, 9), (60, 14)])
@pytest.mark.parametrize("ascii_only", [False, True])
async def test_every_size(size: tuple[int, int], ascii_only: bool) -> None:
    async with fleet(three(), size=size, options=Options(ascii_only=ascii_only)) as run:
        for key in ("j", "x", "escape", "F", "escape", "question_mark", "escape", "s", "escape"):
            await run.press(key)
        assert not ascii_only or run.text.isascii()


async def test_before_the_first_answer_and_without_any() -> None:
    async with fleet() as run:
        assert "waiting for prom:9090" in run.text
        assert "no row" in await run.press("enter")
        run.answers.put(Missing(Reason.SOURCE, "no Prometheus listens at prom:9090"))
        await run.until(lambda: "no Prometheus listens" in run.text)
        assert "no answer yet" in run.text


async def test_a_failure_keeps_the_rows() -> None:
    async with fleet(three()) as run:
        rows = run.app._fleet._rows
        run.answers.put(Missing(Reason.STALE, "the server does not answer in time"))
        run.feed.refresh()
        await run.until(lambda: "does not answer in time" in run.text)
        assert run.app._fleet._rows == rows


async def test_the_selection_stays_with_its_row() -> None:
    async with fleet(three()) as run:
        await run.press("j", "j")
        row = selected(run)
        run.answers.put(three(**{"edge-08:9739": None}))
        run.feed.refresh()
        await run.until(lambda: "1 down" in run.text)
        assert selected(run) == row
        await run.press("G")
        assert run.app._fleet._at == len(run.app._fleet._rows) - 1
        await run.press("g")
        assert run.app._fleet._at == 0


async def test_find_filter_and_order() -> None:
    async with fleet(three()) as run:
        await run.press("slash", *"core-1", "enter")
        assert selected(run).startswith("core-1")
        await run.press("n", "n")
        assert selected(run).startswith("core-1")
        await run.press("backslash", *"07", "enter")
        assert {row.host.name for row in run.app._fleet._rows} == {"edge-07"}
        assert "filter 07" in run.text
        await run.press("escape")
        assert len(run.app._fleet._rows) == 12
        await run.press("greater_than_sign")
        assert run.memory.order.sort == "host"
        await run.press("I")
        assert run.memory.order.inverted
        await run.press("s", "G", "enter")
        assert run.memory.order.sort == "class"


async def test_tab_goes_from_host_to_host() -> None:
    async with fleet(three()) as run:
        await run.press("G", "tab")
        first = selected(run)
        await run.press("tab")
        assert {first.split()[0], selected(run).split()[0]} == {"edge-07", "edge-08"}
    async with fleet(sample_of({})) as run:
        assert "no incident" in await run.press("tab")


async def test_tab_passes_hosts_that_the_filter_hides() -> None:
    async with fleet(three()) as run:
        await run.press("backslash", *"edge-07", "enter", "tab")
        first = selected(run)
        assert first.startswith("edge-07") and "hides" not in run.footer
        await run.press("tab")
        assert selected(run) == first
        await run.press("backslash", *["backspace"] * 7, *"core-1", "enter")
        assert "the filter hides" in (await run.press("tab")).split("\n")[-1]


async def test_pause_holds_the_frame() -> None:
    async with fleet(three()) as run:
        await run.press("space")
        run.answers.put(three(**{"edge-08:9739": None}))
        run.feed.refresh()
        await run.until(lambda: run.app._fleet._newest is not run.app._fleet._frozen)
        assert "PAUSED" in run.text and "1 down" not in run.text
        assert "1 down" in await run.press("space")


async def test_a_host_without_a_mapping_is_never_connected() -> None:
    async with fleet(three()) as run:
        await run.press("slash", *"core-1", "enter", "enter")
        assert '"core-1:9739" = "HOST"' in run.text
        assert "/home/me/.config/nftop/config.toml" in run.text.replace("\n", "")
        assert not run.attempts
        await run.press("C")
        assert run.app.clipboard == '[fleet.hosts]\n"core-1:9739" = "HOST"'
        await run.press("escape")
        assert not run.attempts


@pytest.mark.parametrize(
    "instance",
    [
        "-oProxyCommand=reboot",
        "$(reboot)",
        "a;reboot",
        "\x1b[2J",
        "\u202eevil",
        "[bold]x[/]",
        "a\nb",
    ],
)
async def test_hostile_targets_stay_text(instance: str) -> None:
    page = three_hosts()["core-1:9739"]
    async with fleet(sample_of({instance: page, "b": page})) as run:
        for key in ("G", "enter", "escape", "g", "enter", "escape", "x", "escape", "F"):
            await run.press(key)
            assert run.text.replace("\n", "").isprintable()
        assert not run.attempts


async def test_enter_gives_ssh_the_operators_word_and_leaves() -> None:
    memory = FleetMemory()
    async with fleet(three(), memory=memory) as run:
        await run.press("slash", *"edge-07", "enter", "enter")
        (attempt,) = run.attempts
        assert attempt.destination == "root@edge-07"
        assert "opening edge-07" in run.footer and "no data yet" not in run.footer
        screen = run.app.screen
        assert isinstance(screen, FleetScreen)
        screen._opened_ns -= 16 * 10**9
        await run.press("enter")
        assert "no data yet" in run.footer
        assert len(run.attempts) == 1
        attempt.ends.set()
        await run.until(lambda: run.app.opened is not None)
        assert run.app.opened is not None
        assert run.app.opened.attempt is attempt
    memory.message = "back from edge-07"
    async with fleet(three(), memory=memory) as run:
        assert "back from edge-07" in run.footer
        assert selected(run).startswith("edge-07")


async def test_why_a_host_can_not_be_opened_is_a_sentence() -> None:
    async with fleet(three()) as run:
        await run.press("slash", *"edge-07", "enter", "enter")
        run.attempts[0].problem = "Permission denied (publickey)."
        run.attempts[0].ends.set()
        await run.until(lambda: "edge-07: Permission denied" in run.footer)
        await run.press("enter", "escape")
        assert run.attempts[1].cancelled.is_set()
        assert "not opened" in run.footer
        await run.press("enter")
    assert run.attempts[2].cancelled.is_set(), "leaving gives up"


async def test_an_attempt_that_fails_by_itself_has_an_end() -> None:
    async with fleet(three()) as run:
        await run.press("slash", *"edge-07", "enter")

        def fails(_: Attempt) -> str:
            raise RuntimeError("own")

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Attempt, "wait", fails)
            await run.press("enter")
            await run.until(lambda: "edge-07: nftop's own fault" in run.footer)
        assert run.attempts[0].cancelled.is_set()
        await run.press("enter")
        assert len(run.attempts) == 2, "another attempt is possible"


async def test_a_host_that_opens_after_it_was_given_up_is_left() -> None:
    async with fleet(three()) as run:
        await run.press("slash", *"edge-07", "enter", "enter")
        opened = run.app._fleet._attempt
        assert opened is not None
        run.app._fleet._attempt = None
        run.app._fleet.post_message(AttemptEnded(opened, ""))
        await run.until(run.attempts[0].cancelled.is_set)
        assert run.app.opened is None


async def test_clicks() -> None:
    async with fleet(three(), size=(120, 36)) as run:
        lines = run.text.split("\n")
        head = next(at for at, text in enumerate(lines) if text.startswith("HOST"))
        await run.pilot.click(offset=(2, head + 3))
        assert run.app._fleet._at == 2
        await run.pilot.click(offset=(lines[head].index("CPP"), head))
        await run.pilot.pause()
        assert run.memory.order.sort == "cpp"
        await run.pilot.click(offset=(10, 1))
        await run.pilot.pause()
        assert selected(run).startswith("edge-07")


async def test_keys_without_a_meaning_and_the_palette() -> None:
    async with fleet(three()) as run:
        assert "does nothing here" in await run.press("1")
        await run.press("colon", *"findings of", "enter")
        await run.until(lambda: "findings of all hosts" in run.text)
        await run.press("escape", "d", *"1", "enter")
        assert "2 to 3600 seconds" in run.footer
        await run.press("ctrl+u", *"30", "enter")
        assert run.feed.interval_s == 30.0


@pytest.mark.parametrize("is_quit", [False, True])
async def test_a_fault_of_the_screen_is_a_failure(*, is_quit: bool) -> None:
    async with fleet(three()) as run:
        run.app.panic("a fault of the thread that reads the terminal")
        if is_quit:  # by a key read after the fault, before the end
            run.app.exit()
    assert run.app.return_code == FAILURE


async def test_a_stop_before_the_consumer_runs_ends_the_screen() -> None:
    feed = FleetFeed(three, 10.0)
    app = FleetApp(feed, FleetContext("prom:9090", HOSTS, Attempt, FleetMemory()), Options())
    feed.stop()
    assert next(app._frames, None) is None
