"""Counters that another program took and gave back: top-down returns without a restart."""

from __future__ import annotations

import json
import sys

import pytest

from nftop.sources.perf.cpu_groups import RETRY_MIN_NS
from tests.lab.tests.labs import enter, needs_lab

pytestmark = needs_lab
POLLER = 1
S = 1_000_000_000


@pytest.mark.parametrize("watchdog", ["off", "on"])
def test_top_down_is_back_once_the_counters_are(watchdog: str) -> None:
    """With the watchdog the best plan stays out of reach, and the next best is gone back to."""
    lab = ("--model", "skx-4", "--cpus", "8", "--no-resctrl", "--freeze", "60")
    run = (sys.executable, "-m", "tests.lab.tests.inside_trials", str(POLLER))
    done = enter(*lab, "--watchdog", watchdog, "--", *run)
    assert done.returncode == 0, done.stderr
    reported = json.loads(done.stdout)
    assert reported["after"] == pytest.approx(reported["before"], abs=0.01)
    assert reported["went"] <= 4
    # A turn or two more: of the plans the best has the first.
    assert 20 <= reported["back"] <= RETRY_MIN_NS // S + 6
    assert reported["lacking"] == 0
    assert reported["turns"] == 3
    assert ("NMI watchdog" in reported["gaps"]) is (watchdog == "on")


@pytest.mark.parametrize(
    ("machine", "uarch", "level_1", "level_2"),
    [
        # Nine tenths of a tick, and two turns with every other last tenth.
        ("icx", "ICX", 0.9, 0.05),
        # One group has it all.
        ("spr", "SPR", 1.0, 1.0),
    ],
)
def test_coverage_is_of_the_counters_that_top_down_used(
    machine: str, uarch: str, level_1: float, level_2: float
) -> None:
    """PERF_METRICS count all the time; the general counters that could stand in do not."""
    lab = ("--model", machine, "--cpus", "8", "--no-resctrl", "--freeze", "60")
    run = (sys.executable, "-m", "tests.lab.tests.inside_coverage", uarch, str(POLLER))
    done = enter(*lab, "--", *run)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown.pop("coverage") == pytest.approx(level_1, abs=1e-3)
    assert shown.pop("level_2_coverage") == pytest.approx(level_2, abs=1e-3)
    assert sum(shown.values()) == pytest.approx(1.0, abs=0.02)


# With the NMI watchdog on its fixed counter, cycles take a general one.
@pytest.mark.parametrize(("machine", "uarch", "kept"), [("icx", "ICX", 5), ("spr", "SPR", 6)])
def test_level_1_survives_pinned_counters_of_another_program(
    machine: str, uarch: str, kept: int
) -> None:
    lab = ("--model", machine, "--cpus", "8", "--no-resctrl", "--watchdog", "on")
    competitor = ("--competitor", f"pinned {kept}")
    run = (sys.executable, "-m", "tests.lab.tests.inside_coverage", uarch, str(POLLER))
    counted = []
    for others in ((), competitor):
        done = enter(*lab, *others, "--freeze", "60", "--", *run)
        assert done.returncode == 0, done.stderr
        counted.append(json.loads(done.stdout))
    alone, adjacent = counted
    for node in ("frontend_bound", "bad_speculation", "backend_bound", "retiring"):
        assert adjacent[node] == pytest.approx(alone[node], abs=0.01), node
    assert adjacent["coverage"] >= 0.9
    done = enter(*lab, *competitor, "--", sys.executable, "-m", "nftop", "doctor", "--json")
    checks = {load["name"]: load for load in json.loads(done.stdout)["checks"]}
    assert f"{8 - kept} of 8 general counters" in checks["perf counters"]["text"]
    taken = [check for name, check in checks.items() if name.startswith("perf ")]
    assert not any("nmi_watchdog" in (item["fix"] or "") for item in taken), taken
