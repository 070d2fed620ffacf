"""What the editor of screen 7 offers where intel-speed-select tells of SST-BF and SST-CP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.control.cpufreq.policies import choices
from nftop.control.gate import BackendGate, HostGate
from nftop.control.simulated import MemoryJournal, ThreadGuardedChange
from nftop.control.speed_select.backend import ISST
from nftop.model.frame import Frame
from nftop.model.ids import Package
from nftop.model.missing import Missing
from nftop.model.sst import SstPackage, SstState
from nftop.ui.options import Options
from tests.command import lines_with
from tests.control.sst_trees import in_memory
from tests.isst.hosts import component, make_tool
from tests.samples import S
from tests.sim.hosts import Frozen
from tests.ui.harness import running

PACKAGE = SstPackage(
    Package(0),
    0,
    0,
    bf=False,
    tf=None,
    cp=True,
    bf_supported=True,
    tf_supported=False,
    cp_supported=True,
    bf_high=(),
    bf_high_hz=None,
    bf_low_hz=None,
)


def reported(frame: Frame, *packages: SstPackage) -> Frame:
    """The frame of a host whose tool tells of these."""
    assert not isinstance(frame.frequencies, Missing)
    sst = SstState(packages, {}, frame.monotonic_ns)
    return replace(frame, frequencies=replace(frame.frequencies, sst=sst))


@pytest.fixture
def frame() -> Frame:
    result = Frozen("sst-bf", cpus=8, now_ns=time.monotonic_ns() - 10 * S)
    result.tick(S)
    return result.tick(S)


@pytest.fixture
def location() -> Iterator[Path]:
    with in_memory() as folder:
        yield folder


def keys(frame: Frame) -> set[str]:
    every = {choice.key for choice in choices(frame, 1, "nftop")}
    return {key for key in every if key.startswith(("sst-bf", "class"))}


def test_only_what_the_platform_has_is_offered(frame: Frame) -> None:
    classes = {f"class-{number}" for number in range(4)}
    assert keys(frame) == set()
    assert keys(reported(frame, PACKAGE)) == {"sst-bf-on", *classes}
    assert keys(reported(frame, replace(PACKAGE, bf=True))) == {"sst-bf-off", *classes}
    assert keys(reported(frame, replace(PACKAGE, bf=None))) == classes
    assert keys(reported(frame, replace(PACKAGE, bf=None, bf_supported=False))) == classes
    cascade_lake = replace(PACKAGE, bf=True, cp=False, cp_supported=False)
    assert keys(reported(frame, cascade_lake)) == set()
    assert keys(reported(frame, replace(PACKAGE, package=Package(3)))) == set()
    by_key = {
        choice.key: choice.command for choice in choices(reported(frame, PACKAGE), 1, "nftop")
    }
    assert by_key["sst-bf-on"] == "nftop sst bf on --package 0"


async def test_it_is_previewed_applied_and_taken_back(
    frame: Frame, location: Path, snapshot: SnapshotAssertion
) -> None:
    tool = make_tool(location)
    gate = BackendGate(component(location, tool), MemoryJournal(), ThreadGuardedChange, "nftop")
    options = Options(gate=HostGate({ISST: gate}, {}), rw=True, color=False)
    both = reported(frame, PACKAGE, replace(PACKAGE, package=Package(1)))
    async with running(both, size=(110, 40), options=options, sort="cpu") as run:
        await run.press("7", "j", "e", "G")
        for _ in range(20):
            if "▸ SST-BF on for package 1" in run.text:
                break
            await run.press("k")
        assert lines_with(run.text, "▸") == snapshot
        await run.press("enter")
        await run.until(lambda: "y applies it" in run.text)
        assert "SST-BF of package 1 at level 0" in run.text and "off → on" in run.text
        assert "(high priority)" in run.text and "2700 MHz then" in run.text
        assert "nftop sst bf on --package 1" in run.text
        await run.press("y")
        await run.until(lambda: "IS NOT KEPT" in run.text)
        assert tool.state.domains[1].bf and not tool.state.domains[0].bf
        await run.press("u")
        await run.until(lambda: not tool.state.domains[1].bf)
