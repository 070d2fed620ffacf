"""Counters that another program took and gave back: top-down returns without a restart."""

from __future__ import annotations

import json
import sys

import pytest

from nftop.sources.perf.trials import FIRST_NS
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
    told = json.loads(done.stdout)
    assert told["after"] == pytest.approx(told["before"], abs=0.01)
    assert told["went"] <= 4
    # A turn or two more: of the plans the best has the first.
    assert 20 <= told["back"] <= FIRST_NS // S + 6
    assert told["lacking"] == 0
    assert told["turns"] == 3
    assert ("NMI watchdog" in told["gaps"]) is (watchdog == "on")
