"""What holds for every test: how long one takes says nothing of what it tests."""

from __future__ import annotations

import gc
import os
import signal
import sys

from hypothesis import HealthCheck, settings

# Started in the background or by nohup they are ignored, and so they would be in what tests start.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Hypothesis fails an example that takes longer than 200 ms, as any does that the machine stops in.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

# Thousands of child processes import nftop; without cached bytecode each compiles 500 modules.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_collection_finish() -> None:
    """The 350,000 objects of the tests themselves are garbage never: a collection skips them.

    Others are collected after every 20,000 new ones instead of 700: a sixth of the CPU time of a
    test of the screen was collections.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 5, 5)
