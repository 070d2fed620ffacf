"""The class editor on a screen: the application with the editor open, and what is in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from nftop.control.resctrl.draft import Draft, mask
from nftop.model.change import Cell
from nftop.render.editor.model import MaskRow
from nftop.ui.editor_model import EditorModel
from nftop.ui.options import Options
from nftop.ui.screens.confirm import ConfirmScreen
from nftop.ui.screens.editor import EditorScreen
from tests.ui.gates import MemoryGate, frame_at
from tests.ui.harness import Running, running

VPP = Cell("schemata", "vpp", "L3", 0)


@asynccontextmanager
async def edited(
    gate: MemoryGate,
    *keys: str,
    size: tuple[int, int] = (80, 24),
    rw: bool = True,
    **options: object,
) -> AsyncIterator[Running]:
    """The application with the editor up and these keys pressed; VPP is selected."""
    drawn = Options(gate=gate, rw=rw, **options)  # type: ignore[arg-type]
    shown = frame_at(gate.host.state(), simulated=True)
    async with running(shown, size=size, options=drawn) as run:
        await run.press("e")
        await run.until(lambda: is_drafting(run))
        select(run, "vpp")
        for key in keys:
            await run.press(key)
        yield run


async def apply(run: Running, gate: MemoryGate) -> None:
    """Preview and confirm what is drafted, and wait for its receipt."""
    before = len(gate.pending)
    await run.press("enter")
    await run.until(lambda: is_planned(run))
    await run.press("y")
    await run.until(lambda: len(gate.pending) > before and phase(run) != "applying")


def model(run: Running) -> EditorModel:
    screen = run.app.screen
    assert isinstance(screen, EditorScreen) and screen._model is not None
    return screen._model


def draft(run: Running) -> Draft:
    return model(run).draft


def select(run: Running, group: str) -> None:
    """Select a class, whichever the screen below began with, and the highest way of its mask."""
    now = model(run)
    at = now.selection
    bits = mask(now.draft, group, at.line, at.domain) or 1
    now.pick(MaskRow(group, at.line), bits.bit_length() - 1, toggle=False)
    screen = run.app.screen
    assert isinstance(screen, EditorScreen)
    screen.paint()


def drafted(run: Running, group: str = "vpp", l3: int = 0, line: str = "L3") -> str:
    """Mask of a class in the draft, in hexadecimal."""
    return draft(run).target[Cell("schemata", group, line, l3)]


def commands(run: Running) -> tuple[str, ...]:
    return draft(run).plan.commands if draft(run).changed else ()


def is_drafting(run: Running) -> bool:
    screen = run.app.screen
    return isinstance(screen, EditorScreen) and screen._model is not None and "DRAFT" in run.text


def is_planned(run: Running) -> bool:
    screen = run.app.screen
    return isinstance(screen, ConfirmScreen) and screen._planned is not None and screen._seen > 0


def phase(run: Running) -> str:
    return run.app.changes.state.phase


async def settle(run: Running) -> None:
    await run.until(lambda: phase(run) == "none")
    await run.pilot.pause()


def row(run: Running, name: str) -> str:
    return next(line for line in run.text.split("\n") if f"■ {name} " in line)
