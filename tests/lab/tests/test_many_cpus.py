"""A change in the editor of a host whose counters take more descriptors than select(2) can name."""

from __future__ import annotations

import json
import os
import sys

import pytest

from tests.descriptors import FD_SETSIZE
from tests.lab.tests.labs import enter, needs_lab

pytestmark = needs_lab
_big = [
    pytest.mark.big,
    pytest.mark.skipif(
        not os.environ.get("NFTOP_BIG"), reason="a lab of 512 CPUs takes minutes: make lab-big"
    ),
]


@pytest.mark.parametrize(
    ("cpus", "step_s"), [(88, 180.0), pytest.param(512, 600.0, marks=_big)], ids=str
)
def test_apply_keep_and_undo_on_the_screen(cpus: int, step_s: float) -> None:
    inside = [sys.executable, "-m", "tests.lab.tests.inside_editor", str(step_s)]
    options = ["--model", "icx", "--cpus", str(cpus)]
    done = enter(*options, "--", *inside, timeout_s=4 * step_s)
    assert (done.returncode, done.stderr) == (0, "")
    seen = json.loads(done.stdout)
    assert seen.pop("descriptors") > FD_SETSIZE
    assert seen == {"changed": "7ff", "same": True, "outcomes": ["kept", "kept"], "code": 0}
