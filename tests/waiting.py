"""Waiting for what another thread or process does."""

from __future__ import annotations

import time
from collections.abc import Callable

LONGEST_S = 180.0  # for a machine that is very busy; nothing waits that long but a test that fails


def until(holds: Callable[[], bool]) -> None:
    """However long it takes: what else runs decides how soon somebody gets a CPU."""
    end = time.monotonic() + LONGEST_S
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)
