"""Readings of frames, reduced to what is typical and the most."""

from __future__ import annotations

import math
from dataclasses import replace as changed

import pytest

from nftop.control.resctrl.footprint import FootprintRequest
from nftop.derive.experiment.footprint import FootprintCollector, reading_of
from nftop.model.frame import Frame
from nftop.model.missing import Missing, Reason
from nftop.model.struct import replace
from tests.control.resctrl.test_footprint import noisy, planned

S = 1_000_000_000
PLAN = planned(FootprintRequest(watch=("vpp",)))
(VPP,) = PLAN.subjects
MIB = float(1 << 20)


def with_used(second: int, used: float | Missing) -> Frame:
    """A frame of that second in which vpp's class holds so many bytes."""
    frame, _ = noisy()
    groups = tuple(
        replace(
            row,
            caches=tuple(
                replace(cache, readings={**cache.readings, "occupancy_bytes": used})
                for cache in row.caches
            ),
        )
        if row.name == "vpp"
        else row
        for row in frame.groups
    )
    return replace(frame, groups=groups, monotonic_ns=second * S)


def measured(*used: float | Missing, since_s: int = 0) -> FootprintCollector:
    collector = FootprintCollector(PLAN)
    for second, value in enumerate(used):
        collector.see(with_used(second, value))
    collector.end_visit(PLAN.together, since_s * S)
    return collector


def test_median_and_maximum_of_the_readings_since_it_settled() -> None:
    values: list[float | Missing] = [
        9 * MIB,
        4 * MIB,
        5 * MIB,
        4 * MIB,
        Missing(Reason.HARDWARE, "none"),
    ]
    [row] = measured(*values, since_s=1).footprint().rows
    assert row.together is not None
    assert (row.together.typical_bytes, row.together.most_bytes) == (4 * MIB, 5 * MIB)
    assert row.together.readings == 3
    assert row.together.bits == 0x1E0
    assert row.together.capacity_bytes == pytest.approx(4 * 2_883_584)


@pytest.mark.parametrize(("last", "still"), [(4.5, True), (8.0, False)])
def test_whether_it_still_rose(last: float, still: bool) -> None:
    """The cache has 55 MiB: 2 % are 1.1."""
    [row] = measured(*[4 * MIB] * 4, *[last * MIB] * 4).footprint().rows
    assert row.together is not None
    assert row.together.still is still


def test_without_readings_numbers_are_absent() -> None:
    [row] = measured(*[Missing(Reason.HARDWARE, "none")] * 3).footprint().rows
    assert row.together is not None
    assert math.isnan(row.together.most_bytes)
    assert not row.together.still
    [row] = FootprintCollector(PLAN).footprint().rows
    assert row.together is None


def test_a_monitoring_group_that_is_absent_is_unknown() -> None:
    frame, _ = noisy()
    gone = changed(VPP, counter="new monitor", monitors=(("switch", "nftop.x"),))
    assert math.isnan(reading_of(frame, gone).used_bytes)
