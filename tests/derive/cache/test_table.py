"""Cache classes: rates by the source's clock, and a reason wherever there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.derive.cache.table import CacheState, rate, step_cache
from nftop.derive.cpu_filter import only_cpus
from nftop.model.frame import CacheClass, GroupRow
from nftop.model.ids import Cpu, L3Domain
from nftop.model.metrics.group import GROUP_METRICS
from nftop.model.missing import Missing, Reason
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import (
    EVENTS,
    ROOT,
    WORDS,
    Event,
    Limits,
    Metered,
    MonitoringGroup,
    ResctrlTable,
)
from nftop.model.sample import SourceReading
from tests.frames import SECOND_NS as S
from tests.frames import topology
from tests.rdt import DOMAINS, MIB, SIZE, frame_of, group, in_cache, table, values

HOST = topology(8, packages=2)
counts = st.integers(0, 2**62)


def only(*groups: GroupRow, name: str) -> GroupRow:
    return next(item for item in groups if item.name == name)


def fold(*tables: ResctrlTable | Missing) -> tuple[GroupRow, ...]:
    return frame_of(*tables).groups


@given(counts, counts, st.integers(1, 10**12))
def test_a_rate_is_what_was_counted_over_the_sources_time(
    start: int, added: int, elapsed_ns: int
) -> None:
    state, _ = step_cache(CacheState(), SourceReading(_one(start), 5, 0), HOST)
    later = SourceReading(_one(start + added), 5 + elapsed_ns, 10**9)
    _, classes = step_cache(state, later, HOST)
    readings = classes.groups[0].caches[0].readings
    assert readings["mbm_total_bytes_per_s"] == pytest.approx(added / elapsed_ns * 1e9, rel=1e-9)
    assert readings["mbm_local_bytes_per_s"] == readings["mbm_total_bytes_per_s"]


@given(counts, counts, st.floats(-1e9, 1e9))
def test_a_rate_is_never_negative(before: int, after: int, elapsed_s: float) -> None:
    got = rate(before, after, elapsed_s)
    if isinstance(got, Missing):
        assert got.reason is (Reason.RESET if elapsed_s > 0 else Reason.WARMING)
        assert elapsed_s <= 0 or after < before
    else:
        assert got >= 0


def _one(total: int) -> ResctrlTable:
    return ResctrlTable((group(ROOT, 0, (), in_cache(0, 0xFFF, 7, total)),), DOMAINS)


def test_capacity_is_the_ways_share_and_with_cdp_that_of_either_mask() -> None:
    vpp = only(*fold(table()), name="vpp")
    assert vpp.caches[0].readings["capacity_bytes"] == 16 * MIB
    cdp = in_cache(0, 0x0F0, code=Cbm(0x3C0, 12))
    split = fold(ResctrlTable((group(ROOT, 0, (), cdp),), DOMAINS))[0]
    assert split.caches[0].readings["capacity_bytes"] == 6 * SIZE / 12
    unsized = tuple(replace(domain, size_bytes=None) for domain in DOMAINS)
    unknown = fold(table(domains=unsized))[0].caches[0].readings["capacity_bytes"]
    assert isinstance(unknown, Missing) and unknown.reason is Reason.SOURCE


def test_the_root_group_is_first_and_those_of_unknown_class_last() -> None:
    groups = (*table().groups, group("b", None, ()), group("a", None, ()))
    assert [row.name for row in fold(table(groups=groups))] == [ROOT, "vpp", "ovs", "a", "b"]


def test_groups_of_unknown_class_stand_as_their_numbers_do() -> None:
    names = ("COS10", "COS2", "a10b", "a9b", "COS1", "b")
    groups = tuple(group(name, None, ()) for name in names)
    ordered = ["COS1", "COS2", "COS10", "a9b", "a10b", "b"]
    assert [row.name for row in fold(table(groups=groups))] == ordered


@given(st.lists(st.text(), unique=True))
def test_any_names_have_an_order(names: list[str]) -> None:
    groups = tuple(group(name, None, ()) for name in names if name != ROOT)
    once, again = (
        [row.name for row in fold(table(groups=item))] for item in (groups, groups[::-1])
    )
    assert once == again


def test_a_cpu_is_in_one_group_and_the_root_group_yields() -> None:
    frame = frame_of(table())
    assert frame.cpus.group[:3] == (CacheClass(ROOT, 0), CacheClass("vpp", 1), CacheClass("vpp", 1))
    torn = table(groups=(group("vpp", 1, (1,)), group(ROOT, 0, (0, 1))))
    of_cpus = frame_of(torn).cpus.group
    assert of_cpus[1] == CacheClass("vpp", 1)
    lost = of_cpus[2]
    assert isinstance(lost, Missing) and lost.reason is Reason.UNDEFINED
    assert only_cpus(frame, {1, 3}).cpus.group == (CacheClass("vpp", 1), CacheClass("ovs", 2))


MBM = "mbm_total_bytes_per_s"


def _reason(rows: tuple[GroupRow, ...], name: str = "vpp", metric: str = MBM) -> Reason:
    reading = only(*rows, name=name).caches[0].readings[metric]
    assert isinstance(reading, Missing) and reading.message
    return reading.reason


def test_no_rate_before_the_second_reading_nor_across_a_group_recreated() -> None:
    assert _reason(fold(table(10))) is Reason.WARMING
    old = table(10)
    anew = replace(
        table(20), groups=tuple(replace(item, inode=7 + at) for at, item in enumerate(old.groups))
    )
    assert _reason(fold(old, anew)) is Reason.WARMING
    mbm = only(*fold(old, anew), name="vpp").caches[0].readings[MBM]
    assert isinstance(mbm, Missing) and "made anew" in mbm.message
    born = table(20, groups=(*table(20).groups, group("new", 3, (), in_cache(0, 1))))
    rows = fold(table(10), born)
    assert _reason(rows, "new") is Reason.WARMING
    assert only(*rows, name="vpp").caches[0].readings[MBM] == 20.0


def test_counters_are_rated_by_their_own_time() -> None:
    def at(total: int, *read_at_ns: int) -> ResctrlTable:
        caches = [in_cache(l3, 0xF0, 0, total, read_at_ns=t) for l3, t in enumerate(read_at_ns)]
        return ResctrlTable((group("vpp", 1, (), *caches),), DOMAINS)

    row = only(*fold(at(0, 1 * S, 0), at(100, 3 * S, 0)), name="vpp")
    assert [cache.readings[MBM] for cache in row.caches] == [50.0, 100.0]


def test_counters_that_were_not_read_again_keep_their_rates() -> None:
    """Groups are looked at more often than counters are read; what it may fill is always new."""

    def at(total: int, read_at_ns: int, bits: int = 0xF0) -> ResctrlTable:
        vpp = in_cache(0, bits, 0, total, read_at_ns=read_at_ns)
        metered = Metered(L3Domain(0), values(MIB, total, 0), read_at_ns)
        monitor = MonitoringGroup("rx", 9, 5, (), (metered,))
        return ResctrlTable((replace(group("vpp", 1, (), vpp), monitors=(monitor,)),), DOMAINS)

    row = only(*fold(at(0, 1 * S), at(100, 2 * S), at(100, 2 * S, 0x30)), name="vpp")
    assert row.caches[0].readings[MBM] == row.monitors[0].readings[L3Domain(0)][MBM] == 100.0
    assert row.caches[0].readings["capacity_bytes"] == 8 * MIB
    row = only(*fold(at(0, 1 * S), at(0, 1 * S), at(50, 2 * S)), name="vpp")
    assert row.caches[0].readings[MBM] == 50.0
    assert _reason(fold(at(0, 1 * S), at(0, 1 * S))) is Reason.WARMING


def _monitored(own_inode: int, total: int, **changes: Any) -> ResctrlTable:
    caches = (Metered(L3Domain(0), values(MIB, total, 0)),)
    monitor = MonitoringGroup("pqos-12-0", own_inode, 5, (Cpu(1),), caches)
    vpp = replace(group("vpp", 1, (1, 2), in_cache(0, 0xF0, 0, total)), monitors=(monitor,))
    return ResctrlTable((replace(vpp, **changes),), DOMAINS)


def test_monitoring_groups_are_rated_as_their_control_groups_are() -> None:
    [row] = only(*fold(_monitored(7, 10), _monitored(7, 30)), name="vpp").monitors
    assert (row.name, row.rmid, row.cpus, row.owner) == ("pqos-12-0", 5, (1,), "pqos")
    assert row.readings == {
        0: {"occupancy_bytes": MIB, MBM: 20.0, "mbm_local_bytes_per_s": 0.0},
    }


def test_a_monitoring_group_recreated_has_no_rate_and_its_control_group_has() -> None:
    row = only(*fold(_monitored(7, 10), _monitored(8, 30)), name="vpp")
    lost = row.monitors[0].readings[L3Domain(0)][MBM]
    assert isinstance(lost, Missing) and "made anew" in lost.message
    assert row.caches[0].readings[MBM] == 20.0
    # In a control group that was made anew all is new.
    row = only(*fold(_monitored(7, 10), _monitored(7, 30, inode=1)), name="vpp")
    lost = row.monitors[0].readings[L3Domain(0)][MBM]
    assert isinstance(lost, Missing) and lost.reason is Reason.WARMING


def test_existing_groups_and_their_creators() -> None:
    limits = Limits(closids=16, rmids=176)
    groups = (group("COS1", None, ()), replace(group("x", 3, ()), tasks=(7, 8), rmid=9))
    frame = frame_of(table(groups=groups, limits=limits))
    assert frame.limits == limits
    rows = [(row.name, row.owner, row.tasks, row.rmid) for row in frame.groups]
    assert rows == [("x", None, 2, 9), ("COS1", "pqos", 0, None)]
    assert frame_of(table(limits=limits), Missing(Reason.STALE, "old")).limits == limits


def test_a_counter_that_steps_back_reports_reset() -> None:
    assert _reason(fold(table(10), table(9))) is Reason.RESET


@pytest.mark.parametrize("why", WORDS.values(), ids=WORDS)
def test_what_the_kernel_reports_instead_of_a_number_is_the_reason(why: Missing) -> None:
    def reporting(total: int, messages: Mapping[Event, int | Missing]) -> ResctrlTable:
        cache = in_cache(0, 0xF0, 0, total, values=messages)
        return ResctrlTable((group("vpp", 1, (), cache),), DOMAINS)

    fine, lost = values(1, 2, 3), dict.fromkeys(EVENTS, why)
    rows = fold(reporting(1, fine), reporting(1, lost))
    assert _reason(rows) is _reason(rows, metric="occupancy_bytes") is why.reason
    # What was lost begins anew, and one event that is lost takes no other with it.
    assert _reason(fold(reporting(1, lost), reporting(1, fine))) is Reason.WARMING
    rows = fold(reporting(1, fine), reporting(1, values(why, 9, 9)))
    assert only(*rows, name="vpp").caches[0].readings[MBM] == 7.0


def test_a_reading_seen_before_keeps_its_rows() -> None:
    state, _ = step_cache(CacheState(), SourceReading(table(0), 1 * S, 0), HOST)
    new = SourceReading(table(100), 2 * S, 0)
    state, first = step_cache(state, new, HOST)
    again, second = step_cache(state, new, HOST)
    assert again is state and second.groups is first.groups


def test_a_stale_reading_keeps_the_groups_and_the_next_is_rated_across_the_gap() -> None:
    old = Missing(Reason.STALE, "has not answered for 9 s")
    frame = frame_of(table(0), table(10), old)
    assert [row.name for row in frame.groups] == [ROOT, "vpp", "ovs"]
    for row in frame.groups:
        for cache in row.caches:
            assert cache.cbm == cache.mba == old
            assert cache.readings == {metric.id: old for metric in GROUP_METRICS}
    assert set(frame.cpus.group) == {old}
    assert only(*fold(table(0), old, table(10)), name="vpp").caches[0].readings[MBM] == 10.0


@pytest.mark.parametrize("reason", [Reason.SOURCE, Reason.ERROR, Reason.PERMISSION])
def test_without_resctrl_no_groups_and_a_reason_for_every_cpu(reason: Reason) -> None:
    why = Missing(reason, "resctrl is not mounted: mount -t resctrl resctrl /sys/fs/resctrl")
    frame = frame_of(table(10), why)
    assert frame.groups == () and frame.domains == ()
    assert frame.cpus.group == (why,) * 8
    assert _reason(fold(table(10), why, table(20))) is Reason.WARMING


def test_a_host_without_readable_resctrl() -> None:
    _, classes = step_cache(CacheState(), None, HOST)
    assert classes.groups == ()
    assert {isinstance(cpu, Missing) and cpu.reason for cpu in classes.of_cpus} == {Reason.SOURCE}


def test_gaps_are_what_no_group_has(snapshot: SnapshotAssertion) -> None:
    assert table().gaps == ""
    why = Missing(Reason.HARDWARE, "this CPU can't meter it")
    blind = tuple(
        replace(
            item,
            caches=tuple(
                replace(c, values=values(c.values["llc_occupancy"], why, why)) for c in item.caches
            ),
        )
        for item in table().groups
    )
    assert table(groups=blind).gaps == snapshot
    assert table(groups=(blind[0], *table().groups[1:])).gaps == ""
