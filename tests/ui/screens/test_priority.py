"""Edit on the Power screen: choose, preview, apply, keep, and what became of it."""

from __future__ import annotations

import time

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.control.simulated import simulated_gates
from nftop.ui.options import Options
from tests.command import lines_with
from tests.samples import S
from tests.sim.hosts import Frozen
from tests.ui.harness import running


def host() -> tuple[Frozen, Options]:
    result = Frozen("sst-bf", cpus=16, now_ns=time.monotonic_ns() - 10 * S)
    return result, Options(gate=simulated_gates(result.simulated.world), rw=True, color=False)


def limits(result: Frozen, cpu: int) -> tuple[int, int]:
    setting = result.simulated.world.now().rdt.frequencies.settings[cpu]
    return setting.min_hz // 1_000_000, setting.max_hz // 1_000_000


async def test_a_core_is_pinned_kept_judged_and_undone(snapshot: SnapshotAssertion) -> None:
    result, options = host()
    frames = [result.tick(S) for _ in range(6)]
    async with running(*frames, size=(110, 40), options=options) as run:
        assert lines_with(await run.press("7", "j", "e"), "pin the core") == snapshot
        await run.press("G")
        await run.press("k", "k")
        assert lines_with(run.text, "▸") == snapshot
        await run.press("enter")
        await run.until(lambda: "y applies it" in run.text)
        assert "--scenario sst-bf --cpus 16 sst apply --mode bf" in run.text
        before = limits(result, 1)
        await run.press("y")
        await run.until(lambda: "NOT KEPT" in run.text)
        assert limits(result, 1) == (2700, 2700)
        await run.press("K")
        await run.until(lambda: "NOT KEPT" not in run.text)
        result.now_ns = time.monotonic_ns()
        await run.give(*(result.tick(S) for _ in range(6)))
        await run.until(lambda: "LAST CHANGE" in run.text)
        cpu = next(item for item in run.text.split("\n") if item.startswith("    1 "))
        assert cpu.split()[1:4] == ["2.30", "2.70", "+17%"]
        await run.press("u")
        await run.until(lambda: "y applies it" in run.text)
        await run.press("y")
        await run.until(lambda: limits(result, 1) == before)
        await run.until(lambda: run.app.changes.state.phase == "none")
        assert run.app.changes.gate is not None
        assert run.app.changes.gate.propose_undo() is None, "nothing that stands is left"
        ended = run.app.changes.state.tuned
        assert ended is not None and ended.taken_back_ns is not None
        # What comes after it was taken back is not what the change did.
        result.now_ns = max(result.now_ns, time.monotonic_ns())
        await run.give(*(result.tick(S) for _ in range(40)))
        await run.until(lambda: "taken back after " in run.text)
        cpu = next(item for item in run.text.split("\n") if item.startswith("    1 "))
        assert cpu.split()[1:3] != ["2.30", "2.30"]


async def test_what_is_not_kept_is_taken_back() -> None:
    result, options = host()
    async with running(result.tick(S), result.tick(S), size=(80, 24), options=options) as run:
        before = [limits(result, cpu) for cpu in range(16)]
        await run.press("7", "e", "enter")
        await run.until(lambda: "y applies it" in run.text)
        await run.press("y")
        await run.until(lambda: "NOT KEPT" in run.text)
        assert [limits(result, cpu) for cpu in range(16)] != before
        await run.press("u")
        await run.until(lambda: [limits(result, cpu) for cpu in range(16)] == before)


@pytest.mark.parametrize("why", ["this host has no cpufreq"])
async def test_without_frequencies_it_reports_why(why: str, snapshot: SnapshotAssertion) -> None:
    result, options = host()
    options = Options(gate=options.gate, no_frequencies=why, rw=True)
    async with running(result.tick(S), result.tick(S), options=options) as run:
        await run.press("7", "e")
        assert run.footer == snapshot


async def test_read_only_it_previews_and_does_not_apply() -> None:
    result, options = host()
    options = Options(gate=options.gate, rw=False)
    async with running(result.tick(S), result.tick(S), size=(100, 30), options=options) as run:
        before = limits(result, 1)
        assert "read-only" in await run.press("7", "e")
        await run.press("enter")
        await run.until(lambda: "read-only: start nftop with --rw" in run.text)
        await run.press("y")
        assert limits(result, 1) == before
