"""The NFs screen: keys, sizes, and what goes along to the other screens."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.compare.baseline import keep
from nftop.derive.fold import comparing
from nftop.model.frame import Frame, SourceState
from nftop.model.missing import Reason
from nftop.model.nf.kinds import NF_ADDRESSES, NF_KINDS, NF_SOURCES
from nftop.ui.options import Options
from tests.command import lines_with
from tests.frames import all_missing, bare, frame, hostile, ticks
from tests.sim.hosts import Frozen, S
from tests.ui.harness import Running, assert_fits, running

HOST = tuple(ticks(lambda tick: frame(16, tick, packages=2, tma=True), 4))


@lru_cache(maxsize=1)
def demo() -> tuple[Frame, ...]:
    """The simulated host, compared with a baseline in the last frame."""
    host = Frozen(traffic=False)
    frames = [host.tick(S) for _ in range(8)]
    host.state = comparing(host.state, keep(host.state.baseline))
    return (*frames, host.tick(S))


def rows(run: Running) -> list[str]:
    """The lines of the table."""
    lines = run.text.split("\n")
    head = next(at for at, line in enumerate(lines) if line.startswith(" NF") and "Mpps in" in line)
    end = next(at for at, line in enumerate(lines) if line.startswith((" ──", " --")))
    return [line for line in lines[head + 1 : end] if line.strip()]


def title(run: Running) -> str:
    return next(line for line in run.text.split("\n") if line.startswith((" ──", " --")))


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 50), (40, 8)])
async def test_screen(size: tuple[int, int], snapshot: SnapshotAssertion) -> None:
    first, *others = demo()
    async with running(first, size=size) as run:
        # The row that is first then stays selected, wherever the order moves it.
        await run.press("2")
        assert await run.give(*others) == snapshot


async def test_opened(snapshot: SnapshotAssertion) -> None:
    async with running(*demo(), size=(80, 40)) as run:
        assert await run.press("2", "G", "enter") == snapshot


@pytest.mark.parametrize("size", [(1, 1), (20, 5), (39, 30), (300, 9), (60, 14)])
@pytest.mark.parametrize(
    ("make", "first", "last"),
    [
        (all_missing, "fwd", "vpp"),
        (hostile, "漢字", "[red]x[/] ?[2J"),
        (lambda: HOST[0], "vpp", "fwd"),
    ],
)
async def test_any_size_shows_what_fits(
    size: tuple[int, int], make: Callable[[], Frame], first: str, last: str
) -> None:
    async with running(make(), size=size) as run:
        await run.press("2")
        assert_fits(run, selected=first)
        for keys in (("j", "G"), ("enter",), ("pagedown", "G"), ("w",)):
            await run.press(*keys)
            assert_fits(run, selected=last)
        await run.press("x")
        assert_fits(run, f"{last} at ")


@pytest.mark.parametrize("size", [(1, 1), (20, 5), (39, 30), (300, 9), (60, 14)])
async def test_any_size_without_a_network_function_shows_the_reason(size: tuple[int, int]) -> None:
    async with running(bare(), size=size) as run:
        for keys in (("2",), ("j", "G"), ("enter",), ("pagedown", "G"), ("w",), ("x",)):
            await run.press(*keys)
            assert_fits(run, "no network function", selected=None)


async def test_without_any_it_reports_why() -> None:
    async with running(bare(), size=(80, 24)) as run:
        text = await run.press("2", "enter", "x", "w", "j", "greater_than_sign")
        assert "no network function" in " ".join(text.split())
        assert "DPDK runtime directory" in " ".join(text.split())


async def test_without_any_it_names_the_sources_that_have_not_answered() -> None:
    late = SourceState(
        Reason.PRESENT, "no answer in time: its numbers are up to 1.2 s old", 1.2, 0.1
    )
    for name, address in NF_ADDRESSES.items():
        async with running(replace(bare(), sources={name: late}), size=(80, 24)) as run:
            text = " ".join((await run.press("2")).split())
            assert f"{name} ({address}): {late.detail}" in text


def test_every_source_of_network_functions_has_an_address() -> None:
    kinds = {NF_SOURCES.get(kind, kind) for kind in (*NF_KINDS.values(), "kernel")}
    assert kinds == set(NF_ADDRESSES)


async def test_the_cursor_moves_and_its_cpu_goes_along() -> None:
    async with running(*HOST, size=(120, 36), sort="cpu") as run:
        await run.press("2")
        assert "fwd · dpdk 4242 · cpus 1-2" in title(run)
        # What drops packets comes first.
        assert "vpp · dpdk 5151 · cpus 3" in (await run.press("k"), title(run))[1]
        assert " cpu 3 vpp_wk_0" in await run.press("1")
        await run.press("g", "2")
        assert "fwd" in title(run), "what was selected there is selected here"
        await run.press("k", "k", "k")
        assert "vpp" in title(run)
        await run.press("slash", *"dpdk-worker2", "enter")
        assert "fwd" in title(run)
        text = await run.press("slash", *"nobody", "enter")
        assert "not found: nobody" in text


async def test_enter_opens_one_and_enter_or_escape_leads_back() -> None:
    async with running(*demo(), size=(80, 24)) as run:
        await run.press("2")
        assert len(rows(run)) == 5 and "more lines: Enter shows all" in run.text
        for leave in ("enter", "escape"):
            text = await run.press("enter")
            assert len(rows(run)) == 1 and "lines 1-" in text
            text = await run.press("pagedown", "pagedown", "pagedown")
            assert "PAPERS" in text
            first = title_or_none(run)
            await run.press("j")
            assert len(rows(run)) == 1 and title(run) != first, "the next, from its top"
            assert "[2 NFs]" in await run.press(leave)
            assert len(rows(run)) == 5
            await run.press("k")
        assert "[1 Cores]" in await run.press("escape")


def title_or_none(run: Running) -> str:
    return next((line for line in run.text.split("\n") if line.startswith(" ──")), "")


async def test_sort_filter_and_pause_carry_over(snapshot: SnapshotAssertion) -> None:
    async with running(*demo(), size=(200, 50)) as run:
        await run.press("2")
        for _ in range(20):
            await run.press("greater_than_sign")
            if "sort vs.base" in run.text:
                break
        assert "sort vs.base" in run.text
        order = [row.split()[0] for row in rows(run)]
        await run.press("I")
        assert [row.split()[0] for row in rows(run)] == order[::-1]
        assert "sort vs.base" in await run.press("1"), "the table of CPUs has it too"
        await run.press("backslash", *"l3fwd", "enter", "space", "2")
        assert "PAUSED" in run.text and "filter l3fwd" in run.text
        assert {row.split()[0].split("/")[1] for row in rows(run)} == {"l3fwd"}
        await run.press("backslash", *[*["backspace"] * 5, *"zzz"], "enter")
        assert lines_with(run.text, "matches") == snapshot


async def test_its_program_is_chosen_and_kept_per_nf(snapshot: SnapshotAssertion) -> None:
    async with running(*demo(), size=(200, 60)) as run:
        text = await run.press("2", "G")
        assert "PAPERS  any workload" in text
        assert "PAPERS  VPP L2 Patch Cross-Connect" in await run.press("w")
        assert run.footer == snapshot
        assert "PAPERS  any workload" in await run.press("g")
        assert "PAPERS  DPDK-Testpmd L2 Loop" in await run.press("w")
        assert "PAPERS  VPP L2 Patch Cross-Connect" in await run.press("G")
        assert "PAPERS  any workload" in await run.press("w", "w", "w")


async def test_a_baseline_is_ordered_and_forgotten(snapshot: SnapshotAssertion) -> None:
    async with running(*HOST, size=(120, 36)) as run:
        await run.press("2", "b")
        assert run.footer == snapshot
        assert "baseline forgotten" in await run.press("B")
        await run.press("1", "b")
        assert run.feed.keeps == [True, False, True]


async def test_vs_base_is_a_column_as_soon_as_a_baseline_exists() -> None:
    async with running(*demo()[:-1], size=(120, 36)) as run:
        assert "vs.base" not in "\n".join(run.text.split("\n")[4:20])
        await run.give(demo()[-1])
        assert "vs.base" in run.text
        assert "BASELINE" in await run.press("2")


async def test_explain() -> None:
    async with running(*demo(), size=(120, 60)) as run:
        text = await run.press("2", "x")
        assert "Mpps in" in text and "IMBAL" in text and "max(packets_per_s" in text
        assert "[2 NFs]" in await run.press("escape")


async def test_ascii_and_no_colour() -> None:
    for options in (Options(color=False), Options(ascii_only=True, color=False)):
        async with running(*demo(), size=(120, 36), options=options) as run:
            text = await run.press("2")
            assert text.isascii() if options.ascii_only else not text.isascii()
            styles = [style for row in run.rows for _, style in row]
            assert all(style.color is None or style.color.is_default for style in styles)
