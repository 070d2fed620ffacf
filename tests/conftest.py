"""What holds for every test: how long one takes says nothing of what it tests."""

from __future__ import annotations

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
