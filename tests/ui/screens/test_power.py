"""The Power screen: keys and sizes."""

from __future__ import annotations

from functools import partial

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.ui.options import Options
from tests.command import lines_with
from tests.power import captured, serverless, simulated, two_kinds
from tests.ui.harness import Running, assert_fits
from tests.ui.harness import running as running_by

# The rows of these tests are in the order of CPUs.
running = partial(running_by, sort="cpu")


def body(run: Running) -> list[str]:
    """The rows of the table of CPUs."""
    lines = run.text.split("\n")
    head = next(
        at
        for at, line in enumerate(lines)
        if "CPU" in line and "HEADROOM" in line[20:] and "C0" in line and "PC0" not in line
    )
    return [line for line in lines[head + 1 :] if line[:6].strip().isdecimal()]


@pytest.mark.parametrize("size", [(80, 24), (200, 50), (40, 8)])
async def test_screen(size: tuple[int, int], snapshot: SnapshotAssertion) -> None:
    async with running(*simulated(), size=size) as run:
        assert await run.press("7") == snapshot


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_screen_of_another_host(size: tuple[int, int], snapshot: SnapshotAssertion) -> None:
    async with running(*captured(), size=size) as run:
        assert await run.press("7") == snapshot


@pytest.mark.parametrize("size", [(80, 24), (200, 50)])
async def test_screen_of_two_kinds_of_cores(
    size: tuple[int, int], snapshot: SnapshotAssertion
) -> None:
    async with running(*two_kinds(), size=size) as run:
        assert await run.press("7") == snapshot


async def test_rows_sort_by_kind_and_limits() -> None:
    async with running(*two_kinds(), size=(120, 36)) as run:
        await run.press("7")
        for _ in range(8):
            if "sort SST" in run.text:
                break
            await run.press("greater_than_sign")
        rows = [line.split() for line in body(run)]
        assert "sort SST" in run.text
        kinds = ["H" if "H" in row else "L" for row in rows]
        assert kinds == sorted(kinds) and set(kinds) == {"H", "L"}
        await run.press("greater_than_sign", "greater_than_sign", "greater_than_sign")
        assert "sort MIN-MAX" in run.text


@pytest.mark.parametrize("size", [(1, 1), (20, 5), (39, 30), (300, 9), (60, 14)])
async def test_any_size_shows_what_fits(size: tuple[int, int]) -> None:
    async with running(serverless(), size=size) as run:
        await run.press("7", "G")
        assert_fits(run, "THREAD", selected="15")
        await run.press("pageup")
        assert_fits(run, "THREAD", selected="12")


async def test_rows_sort_by_its_columns_and_stay_sorted_on_the_other_screens() -> None:
    async with running(*captured(), size=(120, 42)) as run:
        await run.press("7")
        for _ in range(12):
            if "sort C6" in run.text:
                break
            await run.press("greater_than_sign")
        assert "sort C6" in run.text
        falling = [float(line.split()[9].rstrip("%")) for line in body(run)]
        assert falling == sorted(falling, reverse=True) and len(set(falling)) > 8
        await run.press("I")
        assert [float(line.split()[9].rstrip("%")) for line in body(run)] == falling[::-1]
        assert "sort C6" in await run.press("1")
        assert "C6" in await run.press("x"), "what it is sorted by is explained"


async def test_a_filter_keeps_the_rows_it_names() -> None:
    async with running(*captured(), size=(120, 42)) as run:
        await run.press("7", "backslash", *"3,12", "enter")
        assert [line.split()[0] for line in body(run)] == ["3", "12"]
        assert len(body(run)) == 2
        await run.press("escape")
        assert len(body(run)) == 16


async def test_without_a_server_it_reports_how_to_start_one(snapshot: SnapshotAssertion) -> None:
    async with running(serverless(), size=(80, 24)) as run:
        text = " ".join((await run.press("7")).split())
        assert lines_with(run.text, "pcm-sensor-server listens") == snapshot
        assert "PCM_NO_RDT=1 pcm-sensor-server" in text
        assert len(body(run)) >= 3


async def test_explain_and_enter() -> None:
    async with running(*captured(), size=(120, 36)) as run:
        assert "PKG.W (power_w)" in await run.press("7", "x")
        assert "[6 Topdown]" in await run.press("escape", "enter")


async def test_ascii_and_no_colour() -> None:
    async with running(*simulated(), size=(120, 36)) as run:
        plain = await run.press("7")
    for options in (Options(color=False), Options(ascii_only=True, color=False)):
        async with running(*simulated(), size=(120, 36), options=options) as run:
            text = await run.press("7")
            assert text.isascii() if options.ascii_only else text == plain
            styles = [style for row in run.rows for _, style in row]
            assert all(style.color is None or style.color.is_default for style in styles)
