"""What holds for every test: how long one takes says nothing of what it tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Hypothesis fails an example that takes longer than 200 ms, as any does that the machine stops in.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
