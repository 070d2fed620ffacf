"""The experiment's screen on the demo: T plans, y starts, Esc ends, e drafts."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache, partial

import pytest

from nftop.cli.compose.accelerated import accelerated_host
from nftop.control.simulated import simulated_gates
from nftop.model.change import Cell, State
from nftop.model.frame import Frame
from nftop.ui.experiment_control import ExperimentView
from nftop.ui.options import Options
from nftop.ui.screens.experiment import ExperimentScreen
from tests.sim.hosts import Frozen, S
from tests.ui.editing import drafted, is_drafting, select
from tests.ui.harness import Running, running

CPUS = 24
DEMO = argparse.Namespace(
    scenario="noisy",
    simulated_cpus=CPUS,
    simulated_host="",
    host_name=None,
    queue_map={},
    interval_s=1.0,
)
TENANT = Cell("schemata", "tenant", "L3", 0)
SIZES = pytest.mark.parametrize("size", [(80, 24), (120, 36)], ids=["80x24", "120x36"])


@cache
def shown() -> tuple[Frozen, Frame]:
    host = Frozen("noisy", CPUS)
    host.tick(70 * S)
    return host, host.tick(S)


@asynccontextmanager
async def planned(
    *,
    size: tuple[int, int] = (80, 24),
    rw: bool = True,
    ways: str = "11-12",
    pause_s: float = 0.0,
) -> AsyncIterator[Running]:
    """The application with the plan of a sweep of `tenant` on screen; `pause_s`: of its clock."""
    host, frame = shown()
    world = host.simulated.world
    options = Options(
        gate=simulated_gates(world),
        rw=rw,
        experiment_host=partial(accelerated_host, DEMO, like=world, pause_s=pause_s),
    )
    async with running(frame, size=size, options=options) as run:
        await run.press("e")
        await run.until(lambda: is_drafting(run))
        select(run, "tenant")
        await run.press("T")
        await run.until(lambda: view(run).stage == "planned" or bool(view(run).why))
        assert view(run).stage == "planned", run.text
        if ways:
            await run.press("n", *ways, "enter")
            first = int(ways.split("-")[0])
            await run.until(lambda: widths(run)[:1] == [first])
        yield run


def view(run: Running) -> ExperimentView:
    return run.app.changes.experiment.view


def widths(run: Running) -> list[int]:
    plan = view(run).plan
    return [] if plan is None else [item.ways for item in plan.settings]


def classes() -> State:
    return shown()[0].simulated.world.now().rdt.classes.state


@SIZES
async def test_every_mask_is_shown_before_anything_starts(size: tuple[int, int]) -> None:
    async with planned(size=size, ways="9-12") as run:
        for mask in ("3fe00", "7fe00", "ffe00", "fff00", "000fe"):
            assert mask in run.text
        assert "ACCELERATED" in run.text and "SIMULATED" in run.text
        assert view(run).stage == "planned"
        await run.press("escape")
        assert is_drafting(run)
        assert view(run).stage == "none"


async def test_masks_below_the_screen_are_to_be_read_first() -> None:
    async with planned(ways="") as run:
        assert widths(run) == list(range(1, 21))
        await run.press("y")
        assert view(run).stage == "planned"
        await run.press("pagedown")
        await run.press("y")
        assert view(run).stage == "running"
        await run.press("escape")
        await run.until(lambda: view(run).stage == "done")


@SIZES
async def test_it_runs_offers_and_drafts(size: tuple[int, int]) -> None:
    before = classes()
    async with planned(size=size) as run:
        await run.press("w", *"vpp", "enter")
        await run.until(lambda: view(run).stage == "planned" and len(view(run).plan.watch) == 1)  # type: ignore[union-attr]
        await run.pilot.pause()
        await run.press("y")
        await run.until(lambda: len(view(run).state.visits) > 2 or view(run).stage == "done")
        await run.press("tab")
        await run.until(lambda: view(run).stage == "done")
        assert "restored" in run.text
        assert "▸" in run.text
        await run.press("e")
        await run.until(lambda: is_drafting(run))
        assert drafted(run, "tenant") == "ffe00"
    assert classes() == before  # a draft is no change


async def test_one_key_ends_it() -> None:
    async with planned(pause_s=0.2) as run:  # longer than any test waits
        await run.press("y")
        await run.until(lambda: view(run).state.phase in ("settling", "measuring"))
        await run.press("escape")
        await run.until(lambda: view(run).stage == "done")
        result = view(run).result
        assert result is not None
        assert result.receipt.outcome == "reverted"
        assert result.state.ended == "stopped"
        assert isinstance(run.app.screen, ExperimentScreen)
        await run.press("escape")
        assert is_drafting(run)


async def test_read_only_shows_the_plan_and_starts_nothing() -> None:
    async with planned(rw=False) as run:
        assert "--rw" in run.text
        await run.press("y")
        assert view(run).stage == "planned"


@pytest.mark.parametrize("text", ["8", "12-3", "x", "0-4", "3-99"])
async def test_widths_that_make_no_sense_keep_the_plan(text: str) -> None:
    async with planned() as run:
        before = view(run).plan
        await run.press("n", *text, "enter")
        assert view(run).plan is before


async def test_an_unknown_network_function_is_named() -> None:
    async with planned() as run:
        await run.press("w", *"nobody", "enter")
        await run.until(lambda: bool(view(run).why))
        assert "nobody" in run.text
        await run.press("escape")
        assert is_drafting(run)


async def test_help_and_any_size() -> None:
    async with planned(size=(40, 12)) as run:
        assert len(run.text.split("\n")) == 12
        assert "sweep" in (await run.press("question_mark")).lower() or run.text
        await run.press("escape")
        assert isinstance(run.app.screen, ExperimentScreen)
