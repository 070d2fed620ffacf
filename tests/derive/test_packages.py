from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.derive.packages import PackageState, package_rates, step_packages
from nftop.derive.step import State
from nftop.model.catalogue_package import PACKAGE_METRICS
from nftop.model.ids import Package
from nftop.model.reading import Missing, Reason
from nftop.model.sample import Sample, SourceReading
from nftop.model.topology import Host, Topology
from nftop.model.uncore import UncoreTable
from nftop.uarch.table import load
from tests.frames import topology
from tests.samples import S, fold, sample

SKX = load("SKX")
HOST = topology(8, packages=2)
PACKAGES = (Package(0), Package(1))


def reads(values: list[int], running: list[int], enabled: int, **changes: Any) -> UncoreTable:
    """`cas_read` on two boxes of each of two packages."""
    table = UncoreTable(
        events=("cas_read",),
        packages=np.array([0, 0, 1, 1], np.int32),
        boxes=np.array([0, 1, 0, 1], np.int32),
        event=np.zeros(4, np.int32),
        values=np.array(values, np.uint64),
        reasons=np.zeros(4, np.uint8),
        enabled_ns=np.full(4, enabled, np.uint64),
        running_ns=np.array(running, np.uint64),
    )
    return replace(table, **changes)


ZERO = reads([0] * 4, [0] * 4, 0)
counts = st.lists(st.integers(0, 2**50), min_size=4, max_size=4)
times = st.lists(st.integers(1, 10**9), min_size=4, max_size=4)


@given(counts, counts, times)
def test_each_box_is_scaled_by_its_own_clock(
    start: list[int], added: list[int], ran: list[int]
) -> None:
    before = reads(start, [5] * 4, 7)
    ended = [a + b for a, b in zip(start, added, strict=True)]
    after = reads(ended, [5 + each for each in ran], 7 + 10**9)
    rates, partly = package_rates(before, after, PACKAGES)
    for row in (0, 1):
        mine = slice(2 * row, 2 * row + 2)
        expected = sum(n / t * 1e9 for n, t in zip(added[mine], ran[mine], strict=True))
        assert rates["cas_read"][row] == pytest.approx(expected, rel=1e-12)
        assert partly["cas_read"][row] == any(each < 10**9 for each in ran[mine])


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (None, ZERO, Reason.WARMING),
        (reads([9] * 4, [9] * 4, 9), reads([10, 8, 10, 10], [19] * 4, 19), Reason.RESET),
        (reads([9] * 4, [9] * 4, 9), reads([9] * 4, [19, 9, 19, 19], 19), Reason.TAKEN),
        (
            ZERO,
            reads([9] * 4, [9] * 4, 9, reasons=np.array([0, Reason.PERMISSION, 0, 0], np.uint8)),
            Reason.PERMISSION,
        ),
    ],
)
def test_one_box_without_a_rate_leaves_its_package_without_one(
    before: UncoreTable | None, after: UncoreTable, reason: Reason
) -> None:
    rates, _ = package_rates(before, after, PACKAGES)
    lost = rates["cas_read"][0]
    assert isinstance(lost, Missing) and lost.reason is reason and lost.sentence
    assert isinstance(rates["cas_read"][1], float) is (before is not None)


def test_other_boxes_than_before_warm_up() -> None:
    after = reads([9] * 4, [9] * 4, 9, boxes=np.array([0, 1, 0, 2], np.int32))
    rates, _ = package_rates(ZERO, after, PACKAGES)
    assert rates["cas_read"].reasons.tolist() == [Reason.WARMING] * 2


def test_a_reading_seen_before_keeps_its_rows_and_what_is_absent_says_so() -> None:
    state, _ = step_packages(PackageState(), SourceReading(ZERO, 1, 0), SKX, HOST)
    new = SourceReading(reads([100] * 4, [10**9] * 4, 10**9), 2, 0)
    state, rows = step_packages(state, new, SKX, HOST)
    assert rows[0].readings["memory.read_bytes_per_s"] == 64 * 200
    absent = rows[0].readings["pcie.itom.hit_per_s"]
    assert isinstance(absent, Missing) and absent.reason is Reason.SOURCE
    again, same = step_packages(state, new, SKX, HOST)
    assert again is state and same is rows


@pytest.mark.parametrize(
    ("reading", "uarch", "reason"),
    [
        (None, SKX, Reason.SOURCE),
        (SourceReading(ZERO, 1, 0), None, Reason.SOURCE),
        (SourceReading(Missing(Reason.STALE, "old"), 1, 0), SKX, Reason.STALE),
    ],
)
def test_every_metric_of_every_package_has_a_reason(
    reading: SourceReading[UncoreTable] | None, uarch: Any, reason: Reason
) -> None:
    _, rows = step_packages(PackageState(), reading, uarch, HOST)
    assert [row.package for row in rows] == [0, 1]
    for row in rows:
        assert row.readings.keys() == {metric.id for metric in PACKAGE_METRICS}
        for each in row.readings.values():
            assert isinstance(each, Missing) and each.reason is reason and each.detail


def test_packages_that_change_between_two_reads_take_no_counter_for_taken() -> None:
    """The table is the same one, and a table has counted nothing since itself."""
    one, two = topology(8), HOST
    start = State(Host("h", "c", "SKX"), one, SKX)
    reading = SourceReading(reads([100] * 4, [10**9] * 4, 10**9), 2 * S, 0)

    def at(second: int, machine: Topology, uncore: SourceReading[UncoreTable]) -> Sample:
        told = sample(second * S, topology=machine)
        return replace(told, readings={**told.readings, "uncore": uncore})

    frames = fold(
        start,
        at(1, one, SourceReading(ZERO, S, 0)),
        at(2, one, reading),
        at(3, two, reading),
        at(4, two, SourceReading(reads([300] * 4, [3 * 10**9] * 4, 3 * 10**9), 4 * S, 0)),
    )
    assert [len(frame.packages) for frame in frames] == [1, 1, 2, 2]
    for row in frames[2].packages:
        anew = row.readings["memory.read_bytes_per_s"]
        assert isinstance(anew, Missing) and anew.reason is Reason.WARMING
    assert frames[3].packages[1].readings["memory.read_bytes_per_s"] == 64 * 200
