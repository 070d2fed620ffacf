"""The page of all counters (`o`), live, waiting, and of every kind of network function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.frame import Frame, NfRow
from nftop.model.missing import Missing, Reason
from nftop.model.nf.components import NO_PORT_LOSSES
from tests.frames import all_missing, bare, hostile
from tests.sim.hosts import Frozen, S
from tests.ui.harness import Running, assert_fits, running


@lru_cache(maxsize=1)
def demo() -> tuple[Frame, ...]:
    """VPP drops with errors; in the last two frames all counters of DPDK's ports are kept."""
    host = Frozen("noisy", traffic=False)
    frames = [host.tick(S) for _ in range(3)]
    for source in host.simulated.sources:
        if source.name == "dpdk":
            source.everything(wanted=True)  # type: ignore[attr-defined]
    return (*frames, host.tick(S), host.tick(S))


def only(frame: Frame, wanted: str, **changes: Any) -> Frame:
    """The frame with one network function of this kind."""
    nf = next(nf for nf in frame.nfs if nf.kind == wanted)
    return replace(frame, nfs=(replace(nf, **changes),))


def row(run: Running, name: str) -> list[str]:
    """Words of the first line that begins with a counter's name."""
    return next(
        line.split() for line in run.text.split("\n") if line.strip().strip("│ ").startswith(name)
    )


def shown(nf: NfRow, port: str, name: str) -> int:
    return next(item.count for item in nf.xstats if (item.port, item.name) == (port, name))


async def test_vpp_shows_errors_and_nodes_at_once(snapshot: SnapshotAssertion) -> None:
    frame = only(demo()[-1], "vpp")
    async with running(frame, size=(100, 36)) as run:
        await run.press("2")
        text = await run.press("o")
        assert run.feed.focus.counters
        assert text == snapshot
        (nf,) = frame.nfs
        drops = row(run, "bad_checksum")
        count = shown(nf, "ip4-input", "bad_checksum")
        assert f"{count:,}" in drops and "drop" in drops
        assert "drop" not in row(run, "echo_replies_sent")
        vectors = next(item for item in nf.xstats if item.name == "vectors")
        assert row(run, "vectors")[-1] == f"{vectors.per_s / 1e6:.1f}M~"  # type: ignore[operator]
        head = text.index("NODE ")
        assert text.index("~: VPP") < head, "what marks them is above them"
        await run.press("o")
        assert not run.feed.focus.counters


async def test_dpdk_s_counters_come_with_the_next_tick(snapshot: SnapshotAssertion) -> None:
    waits, comes = demo()[2], demo()[-1]
    async with running(only(waits, "dpdk"), size=(100, 36)) as run:
        await run.press("2")
        assert "next tick" in " ".join((await run.press("o")).split())
        assert run.feed.focus.counters
        text = await run.give(only(comes, "dpdk"))
        assert "next tick" not in text
        assert text == snapshot
        (nf,) = only(comes, "dpdk").nfs
        item = nf.xstats[0]
        assert f"{item.count:,}" in row(run, item.name)


async def test_counters_of_a_vpp_without_any_are_reasons_and_no_wait() -> None:
    why = Missing(Reason.SOURCE, "its stats segment has no error counters")
    off = Missing(Reason.SOURCE, "VPP counts nothing per node unless told to")
    (nf,) = only(demo()[-1], "vpp").nfs
    frame = only(
        demo()[-1], "vpp", xstats=(), nodes=off, readings={**nf.readings, "error_drops_per_s": why}
    )
    async with running(frame, size=(100, 30)) as run:
        await run.press("2")
        text = " ".join((await run.press("o")).split())
        assert why.message in text and off.message in text
        assert "next tick" not in text


async def test_an_nf_without_counters_waits_for_none() -> None:
    """As an OVS without DPDK, or the kernel."""
    (nf,) = only(demo()[-1], "ovs").nfs
    readings = {**nf.readings, "rx_errors_per_s": NO_PORT_LOSSES}
    frame = only(demo()[-1], "ovs", xstats=(), readings=readings)
    async with running(frame, size=(100, 30)) as run:
        await run.press("2")
        text = " ".join((await run.press("o")).split())
        assert "no such counters" in text and "next tick" not in text


async def test_a_problem_is_what_the_page_reports() -> None:
    why = Missing(Reason.STALE, "its stats segment stays locked")
    async with running(only(demo()[-1], "vpp", problem=why), size=(100, 30)) as run:
        await run.press("2")
        assert why.message in " ".join((await run.press("o")).split())


async def test_it_follows_the_frames_and_scrolls() -> None:
    first, second = (only(frame, "vpp") for frame in demo()[-2:])
    async with running(first, size=(100, 20)) as run:
        await run.press("2", "o")
        before = row(run, "bad_checksum")
        await run.give(second)
        assert row(run, "bad_checksum") != before
        assert "interface-tx" not in run.text
        assert "interface-tx" in await run.press("G")


@pytest.mark.parametrize("size", [(1, 1), (20, 5), (39, 30), (300, 9)])
@pytest.mark.parametrize(
    ("make", "title"),
    [
        (all_missing, "fwd · dpdk 4242"),
        (bare, "no network function"),
        (hostile, "漢字のスレッド名前 · dpdk 5151"),
        (lambda: demo()[-1], "vpp · vpp 5000"),
    ],
)
async def test_any_size_shows_what_fits(
    size: tuple[int, int], make: Callable[[], Frame], title: str
) -> None:
    async with running(make(), size=size) as run:
        await run.press("2", "o")
        assert_fits(run, title)
