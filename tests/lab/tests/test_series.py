"""Series of settings and trials in a lab: guards are killed, others write, nobody speaks.

`NFTOP_SERIES_KILLS=200` kills so often (`make lab-series`).
"""

from __future__ import annotations

import json
import os
import sys

import pytest

from tests.lab.resctrl import profile
from tests.lab.tests.labs import enter, needs_lab

pytestmark = needs_lab
KILLS = int(os.environ.get("NFTOP_SERIES_KILLS", "5"))
TRIAL_KILLS = int(os.environ.get("NFTOP_SERIES_KILLS", "3"))
_KILL_S = 20.0  # at most, on a busy machine


MATRIX = pytest.mark.matrix
HOSTS = {"skx-7": ("--rdt", "l3cat,l3cdp"), "spr": ("--io-alloc",)}


CI = {("skx-7", "6.1", ()), ("skx-7", "7.2", ("cdp",)), ("spr", "7.2", ())}
EVERY = [
    pytest.param(machine, kernel, cdp, marks=[] if (machine, kernel, cdp) in CI else [MATRIX])
    for machine, kernel in (*(("skx-7", kernel) for kernel in profile.kernels()), ("spr", "7.2"))
    for cdp in ((), ("cdp",))
]


@pytest.mark.parametrize(("machine", "kernel", "cdp"), EVERY)
def test_whatever_ends_a_series_the_classes_are_as_before(
    machine: str, kernel: str, cdp: tuple[str, ...]
) -> None:
    """Masks and a monitoring group; on the second machine ways of I/O too."""
    lab = ("--model", machine, *HOSTS[machine], "--kernel", kernel, "--cpus", "16")
    run = (sys.executable, "-m", "tests.lab.tests.inside_series", str(KILLS), *cdp)
    done = enter(*lab, "--", *run, timeout_s=300 + KILLS * _KILL_S)
    assert done.returncode == 0, done.stderr
    whole, kills, recovered, quiet, strangers = json.loads(done.stdout)
    assert whole == ["applied"] * 3 + ["refused", "reverted", "True"]
    assert kills == KILLS
    # Where the guard itself was killed, in about two of three cases.
    assert 0 < recovered <= kills
    assert quiet == ["reverted", True]
    ours, theirs = strangers
    assert ours == ["applied", "reverted", True, True, True]
    assert theirs == ["applied", "overwritten", True, True, True]


@pytest.mark.parametrize(
    ("machine", "kernel", "cdp"),
    [
        pytest.param("skx-7", "6.1", (), marks=MATRIX),
        ("skx-7", "7.2", ("cdp",)),
        ("spr", "7.2", ()),
    ],
)
def test_whatever_ends_a_trial_the_classes_are_as_before(
    machine: str, kernel: str, cdp: tuple[str, ...]
) -> None:
    """`nftop cat try` of masks; on the last machine of ways of I/O too."""
    lab = ("--model", machine, *HOSTS[machine], "--kernel", kernel, "--cpus", "24")
    run = (sys.executable, "-m", "tests.lab.tests.inside_try", str(TRIAL_KILLS), *cdp)
    done = enter(*lab, "--", *run, timeout_s=300 + TRIAL_KILLS * _KILL_S)
    assert done.returncode == 0, done.stderr
    whole, stopped, kills, recovered, strangers = json.loads(done.stdout)
    # Six visits of two configurations, then as before.
    assert [item[0] for item in whole] == [0] * (2 if machine == "spr" else 1)
    assert all(as_before for _, _, as_before in whole)
    assert stopped == [130, True]
    assert kills == TRIAL_KILLS
    # Where the guard itself was killed.
    assert 0 < recovered <= kills
    # In a class that the trial does not write, then in one that it does.
    assert strangers == [[1, True, True], [5, True, True]]
