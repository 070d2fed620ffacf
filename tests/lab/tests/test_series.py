"""Series of settings in a lab, two sockets: guards are killed, others write, nobody speaks.

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
_KILL_S = 20.0  # at most, on a busy machine


HOSTS = {"skx-7": ("--rdt", "l3cat,l3cdp"), "spr": ("--io-alloc",)}


@pytest.mark.parametrize(
    ("machine", "kernel"),
    [*(("skx-7", kernel) for kernel in profile.kernels()), ("spr", "7.2")],
)
@pytest.mark.parametrize("cdp", [(), ("cdp",)], ids=["", "cdp"])
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
