"""What nftop's counters cost a polling core, as strace sees it: one read a tick."""

from __future__ import annotations

import shutil

import pytest

from tests.bench.lab_reads import CPUS, nftop_calls
from tests.lab import machine
from tests.lab.tests.labs import needs_lab

pytestmark = [
    needs_lab,
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace is missing"),
]
FRAMES = 3


@pytest.mark.parametrize(("model", "level"), [*((name, 1) for name in machine.names()), ("spr", 2)])
def test_one_read_and_no_ioctl_per_core_and_tick(model: str, level: int) -> None:
    calls = nftop_calls(model, level, FRAMES)
    # One more tick comes before the first frame, and each group is started once.
    assert calls.reads == CPUS * (FRAMES + 1)
    assert calls.controls == CPUS
