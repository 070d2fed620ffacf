from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.derive.fold import FoldState
from nftop.derive.package.table import (
    HELD_AT_LEAST_NS,
    HELD_ROUNDS,
    BoxRates,
    PackageState,
    box_rates,
    matched,
    step_packages,
    sum_rates,
)
from nftop.model.column import Bools, Column
from nftop.model.frame import BoxTraffic
from nftop.model.metrics.metric import ESTIMATE_BELOW
from nftop.model.metrics.package import COUNTED_PACKAGE_METRICS
from nftop.model.missing import Missing, Reason
from nftop.model.sample import Sample, SourceReading
from nftop.model.topology import Host, Topology
from nftop.model.uncore import UncoreTable
from nftop.uarch.table import load
from tests.frames import topology
from tests.samples import S, fold, sample

SKX, ICX, BDX = load("SKX"), load("ICX"), load("BDX")
HOST = topology(8, packages=2)


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


def package_rates(
    before: UncoreTable | None, after: UncoreTable, known: BoxRates | None = None
) -> tuple[Mapping[str, Column], Mapping[str, Bools]]:
    return sum_rates(after, box_rates(before, known, after), after.packages.astype(np.int64), 2)


ZERO = reads([0] * 4, [0] * 4, 0)
counts = st.lists(st.integers(0, 2**50), min_size=4, max_size=4)
times = st.lists(st.integers(1, 10**9), min_size=4, max_size=4)


@given(counts, counts, times)
def test_every_box_is_scaled_by_its_own_clock(
    start: list[int], added: list[int], ran: list[int]
) -> None:
    before = reads(start, [5] * 4, 7)
    ended = [a + b for a, b in zip(start, added, strict=True)]
    after = reads(ended, [5 + item for item in ran], 7 + 10**9)
    rates, partly = package_rates(before, after)
    for row in (0, 1):
        mine = slice(2 * row, 2 * row + 2)
        expected = sum(n / t * 1e9 for n, t in zip(added[mine], ran[mine], strict=True))
        assert rates["cas_read"][row] == pytest.approx(expected, rel=1e-12)
        assert partly["cas_read"][row] == any(item < ESTIMATE_BELOW * 10**9 for item in ran[mine])


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (None, ZERO, Reason.WARMING),
        (reads([9] * 4, [9] * 4, 9), reads([10, 8, 10, 10], [19] * 4, 19), Reason.RESET),
        (reads([9] * 4, [9] * 4, 9), reads([9] * 4, [19, 9, 19, 19], 19), Reason.WARMING),
        (reads([9] * 4, [9] * 4, 9), reads([9] * 4, [19, 9, 19, 19], 2 * S), Reason.TAKEN),
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
    rates, _ = package_rates(before, after)
    lost = rates["cas_read"][0]
    assert isinstance(lost, Missing) and lost.reason is reason and lost.message
    assert isinstance(rates["cas_read"][1], float) is (before is not None)


def test_only_boxes_that_are_new_warm_up() -> None:
    after = reads([9] * 4, [9] * 4, 9, boxes=np.array([0, 1, 0, 2], np.int32))
    rates, _ = package_rates(ZERO, after)
    assert rates["cas_read"].reasons.tolist() == [0, Reason.WARMING]
    assert rates["cas_read"][0] == 2e9
    # Others go away or change their order, of counters, boxes and events.
    before = reads([1, 2, 3, 4], [9] * 4, 9, events=("a", "cas_read"))
    before = replace(before, event=np.array([1, 1, 1, 0], np.int32))
    after = reads(
        [13, 14, 11],
        [19] * 3,
        19,
        packages=np.array([1, 1, 0], np.int32),
        boxes=np.array([0, 1, 0], np.int32),
        event=np.zeros(3, np.int32),
        reasons=np.zeros(3, np.uint8),
        enabled_ns=np.full(3, 19, np.uint64),
    )
    known = box_rates(before, box_rates(ZERO, None, before), after)
    assert known.why.tolist() == [0, Reason.WARMING, 0]
    assert known.per_s[[0, 2]].tolist() == [1e9, 1e9]


def test_boxes_of_several_dies_are_not_mixed_up() -> None:
    """One of two equal counters is gone: which of them is not known."""
    pairs = np.array([0, 0, 1, 1], np.int32)
    before = reads([100, 1, 0, 0], [9] * 4, 9, boxes=np.zeros(4, np.int32))
    assert (
        matched(before, None, replace(before, packages=pairs[::-1]))[0].reasons.tolist() == [0] * 4
    )
    lone = reads([120, 9, 9, 9], [19] * 4, 19, boxes=np.array([0, 1, 0, 0], np.int32))
    assert box_rates(before, None, lone).why.tolist() == [Reason.WARMING] * 2 + [0] * 2


def test_a_reading_seen_before_keeps_its_rows_and_what_is_absent_reports_it() -> None:
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
        assert row.readings.keys() == {metric.id for metric in COUNTED_PACKAGE_METRICS}
        for item in row.readings.values():
            assert isinstance(item, Missing) and item.reason is reason and item.detail


def test_packages_that_change_between_two_reads_take_no_counter_for_taken() -> None:
    """The table is the same one, and a table has counted nothing since itself."""
    one, two = topology(8), HOST
    start = FoldState(Host("h", "c", "SKX"), one, SKX)
    reading = SourceReading(reads([100] * 4, [10**9] * 4, 10**9), 2 * S, 0)

    def at(second: int, machine: Topology, uncore: SourceReading[UncoreTable]) -> Sample:
        reports = sample(second * S, topology=machine)
        return replace(reports, readings={**reports.readings, "uncore": uncore})

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


def counted(events: Mapping[str, int], second: int, boxes: int = 2) -> UncoreTable:
    """Of each event so many counts a second, box and package; box b of package p counts more."""
    rows = [(p, b, e) for e in range(len(events)) for p in (0, 1) for b in range(boxes)]
    where = np.array(rows, np.int64)
    per_s = np.array(list(events.values()))[where[:, 2]] * (1 + where[:, 1] + 10 * where[:, 0])
    times = np.full(len(rows), second * S, np.uint64)
    return UncoreTable(
        events=tuple(events),
        packages=where[:, 0].astype(np.int32),
        boxes=where[:, 1].astype(np.int32),
        event=where[:, 2].astype(np.int32),
        values=(per_s * second).astype(np.uint64),
        reasons=np.zeros(len(rows), np.uint8),
        enabled_ns=times,
        running_ns=times,
    )


def rows_of(uarch: Any, *tables: UncoreTable) -> Any:
    state, rows = PackageState(), None
    for at, table in enumerate(tables, 1):
        state, rows = step_packages(state, SourceReading(table, at * S, 0), uarch, HOST)
    return rows


def test_channels_and_links_are_the_formulas_of_one_box() -> None:
    events = {"cas_read": 1000, "cas_write": 300, "link_data_sent": 900, "link_data_received": 90}
    first, second = rows_of(SKX, counted(events, 1), counted(events, 2))
    assert first.channels == (BoxTraffic(0, 64e3, 19.2e3), BoxTraffic(1, 128e3, 38.4e3))
    assert second.channels == (BoxTraffic(0, 704e3, 211.2e3), BoxTraffic(1, 768e3, 230.4e3))
    assert [link.number for link in first.links] == [0, 1]
    assert first.links[1].in_bytes_per_s == pytest.approx(64 / 9 * 180)
    assert first.links[1].out_bytes_per_s == pytest.approx(64 / 9 * 1800)
    total = first.readings["memory.read_bytes_per_s"]
    assert total == sum(channel.in_bytes_per_s for channel in first.channels)
    assert first.estimates == frozenset()


def test_one_channel_that_can_t_be_read_leaves_the_others() -> None:
    events = {"cas_read": 1000, "cas_write": 300}
    why = np.zeros(8, np.uint8)
    why[1] = Reason.ERROR  # cas_read of package 0's box 1
    before, after = counted(events, 1), replace(counted(events, 2), reasons=why)
    first, second = rows_of(SKX, before, after)
    good, bad = first.channels
    assert (good.in_bytes_per_s, bad.out_bytes_per_s) == (64e3, 38.4e3)
    assert isinstance(bad.in_bytes_per_s, Missing) and bad.in_bytes_per_s.reason is Reason.ERROR
    assert isinstance(first.readings["memory.read_bytes_per_s"], Missing)
    assert second.readings["memory.read_bytes_per_s"] == 704e3 + 768e3


def test_a_unit_without_boxes_has_neither_rows_nor_numbers() -> None:
    """The row of the box -1 only says why."""
    one = counted({"cas_read": 1, "cas_write": 1}, 1, boxes=1)
    lone = replace(
        one,
        boxes=np.full(4, -1, np.int32),
        reasons=np.full(4, Reason.HARDWARE, np.uint8),
        details={"cas_read": {int(Reason.HARDWARE): "no such unit"}},
    )
    first, _ = rows_of(SKX, lone, lone)
    assert first.channels == ()
    assert first.readings["memory.read_bytes_per_s"] == Missing(Reason.HARDWARE, "no such unit")


DEVICES = {
    "SKX": {"itom_hit": 60, "itom_miss": 20, "rfo_hit": 15, "rfo_miss": 5},
    "ICX": {
        "itom_hit": 50,
        "itom_miss": 15,
        "itomcachenear_hit": 10,
        "itomcachenear_miss": 5,
        "rfo_hit": 15,
        "rfo_miss": 5,
    },
    "BDX": {"itom_total": 80, "itom_miss": 20, "rfo_total": 20, "rfo_miss": 5},
}


@pytest.mark.parametrize("uarch", [SKX, ICX, BDX])
def test_hit_ratio_is_that_of_all_writes_of_devices(uarch: Any) -> None:
    events = DEVICES[uarch.name]
    for row in rows_of(uarch, counted(events, 1), counted(events, 2)):
        assert row.readings["pcie.ddio_hit_ratio"] == pytest.approx(0.75)
    still = counted(events, 1)
    times = still.running_ns * 2
    for row in rows_of(uarch, still, replace(still, enabled_ns=times, running_ns=times)):
        idle = row.readings["pcie.ddio_hit_ratio"]
        assert isinstance(idle, Missing) and idle.reason is Reason.IDLE


def test_more_misses_than_requests_are_no_negative_hits_and_hide_no_restart() -> None:
    """Two counters of one box are not stopped at the very same moment."""
    few = {"itom_total": 100, "itom_miss": 101, "rfo_total": 5, "rfo_miss": 0}
    row = rows_of(BDX, counted(few, 1), counted(few, 2))[0]
    assert row.readings["pcie.itom.hit_per_s"] == 0
    assert row.readings["pcie.itom.miss_per_s"] == 303
    again = replace(counted(few, 2), values=counted(few, 2).values // 4)
    for name in ("pcie.itom.hit_per_s", "pcie.itom.miss_per_s"):
        lost = rows_of(BDX, counted(few, 1), again)[0].readings[name]
        assert isinstance(lost, Missing) and lost.reason is Reason.RESET


@given(
    per_s=st.integers(1, 10**6),
    slices=st.lists(st.integers(0, 4), min_size=3, max_size=20),
)
def test_a_constant_rate_comes_out_of_any_rotation(per_s: int, slices: list[int]) -> None:
    """Box 0's group has so many ms of each tick of 10 ms; what it last counted is held."""
    before, known, enabled, ran = ZERO, None, 0, 0
    for slice_ms in slices:
        enabled, ran = enabled + 10 * 10**6, ran + slice_ms * 10**6
        after = reads([ran * per_s] * 4, [ran] * 4, enabled)
        known = box_rates(before, known, after)
        before = after
        if ran:
            assert known.per_s.tolist() == pytest.approx([per_s * 1e9] * 4, rel=1e-12)
            assert known.partly.all()
        else:
            assert set(known.why) == {Reason.WARMING}


@pytest.mark.parametrize(
    ("round_ns", "limit_ns"),
    [(0, HELD_AT_LEAST_NS), (S // 3, HELD_AT_LEAST_NS), (5 * S, HELD_ROUNDS * 5 * S)],
)
def test_a_rate_is_held_while_its_turn_may_yet_come(round_ns: int, limit_ns: int) -> None:
    before = reads([50] * 4, [10**8] * 4, 10**8)
    known = box_rates(ZERO, None, before)
    for enabled, held in ((10**8 + limit_ns, True), (10**8 + limit_ns + 1, False)):
        after = reads([50] * 4, [10**8] * 4, enabled, round_ns=round_ns)
        rates = box_rates(before, known, after)
        assert (rates.why == 0).all() == held == (rates.per_s == 500).all()
        assert held or set(rates.why) == {Reason.TAKEN}


def test_what_an_event_lacks_on_this_cpu_is_the_hardware_s() -> None:
    row = rows_of(SKX, counted({"cas_read": 1}, 1), counted({"cas_read": 1}, 2))[0]
    lost = row.readings["pcie.itomcachenear.hit_per_s"]
    assert isinstance(lost, Missing) and lost.reason is Reason.HARDWARE
    assert SKX.title in lost.message
