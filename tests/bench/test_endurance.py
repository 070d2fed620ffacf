"""What `make endurance` computes of its measurements."""

from __future__ import annotations

import os
import time

import pytest

from tests.bench.endurance import Held, growth_mib_per_h, held_by, lost_ticks, report

MIB = 1 << 20


def rows(mib_per_min: float, descriptors: int = 0) -> list[Held]:
    """Ten minutes; the first half grows by 30 MiB, and does not count."""
    return [
        Held(60.0 * n, int((100 + min(n, 5) * 6 + n * mib_per_min) * MIB), 20 + n * descriptors, 8)
        for n in range(11)
    ]


def test_growth_is_that_of_the_second_half() -> None:
    assert growth_mib_per_h(rows(0.5)) == pytest.approx(30.0, rel=1e-6)
    assert growth_mib_per_h(rows(0.0)) == pytest.approx(0.0, abs=1e-6)


def test_ticks_at_another_pace_before_the_recording_are_not_lost() -> None:
    times_s = [0.0, 1.0, 2.0, 2.1, 2.2, 2.3, 2.6, 2.7]
    lost = lost_ticks([int(item * 1e9) for item in times_s], 3, 0.1)
    assert (lost.ticks, lost.skipped, lost.dropped) == (6, 2, 3)


def test_what_grows_or_is_dropped_fails() -> None:
    none_lost, lost = lost_ticks([0, 10**8], 0, 0.1), lost_ticks([0, 10**8], 1, 0.1)
    assert report(rows(0.1), none_lost)
    assert not report(rows(0.5), none_lost)
    assert not report(rows(0.1, descriptors=1), none_lost)
    assert not report(rows(0.1), lost)


def test_a_process_is_measured() -> None:
    before = time.monotonic()
    held = held_by(os.getpid())
    assert before <= held.at_s <= time.monotonic()
    assert held.resident_bytes > 10 * MIB and held.descriptors >= 3 and held.threads >= 1
