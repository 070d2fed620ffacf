"""What the monitoring groups of a network function's threads count, and why there is nothing."""

from __future__ import annotations

from collections.abc import Mapping

from nftop.derive.nf.cores import LOCAL, MONITORED, OCCUPANCY, REMOTE, monitored
from nftop.derive.nf.rates import NfCore
from nftop.derive.threads import ThreadRate
from nftop.model.frame import GroupRow, MonitorRow
from nftop.model.ids import Cpu, L3Domain
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.threads import ThreadRow

NONE = Missing(Reason.SOURCE)
COUNTED: Mapping[str, Reading] = {
    "occupancy_bytes": 100.0,
    "mbm_total_bytes_per_s": 50.0,
    "mbm_local_bytes_per_s": 30.0,
}


def thread(tid: int, cpu: int) -> ThreadRate:
    row = ThreadRow(
        7, tid, 1, f"worker{tid}", "fwd", "dpdk", 0, (Cpu(cpu),), Cpu(cpu), 0, 0, 0, 0, None, 0
    )
    return ThreadRate(row, 1.0, 0.0, True)


def core(cpu: int) -> NfCore:
    return NfCore(Cpu(cpu), "", NONE, NONE, NONE, NONE, NONE, NONE)


def group(*monitors: MonitorRow) -> GroupRow:
    return GroupRow("vpp", 1, (), "shareable", "percent", (), monitors=monitors)


def monitor(tids: tuple[int, ...] = (), cpus: tuple[int, ...] = ()) -> MonitorRow:
    readings = {L3Domain(l3): COUNTED for l3 in (0, 1)}
    return MonitorRow("nftop.m", 3, tuple(map(Cpu, cpus)), "nftop", readings, tids)


THREADS = [thread(1, 4), thread(2, 5)]
CORES = [core(4), core(5)]


def reasons(readings: Mapping[str, Reading]) -> set[Reason]:
    return {item.reason for item in readings.values() if isinstance(item, Missing)}


def test_a_group_of_its_threads_is_its_own_and_of_one_thread_the_thread_s() -> None:
    for only in (monitor((1, 2)), monitor(cpus=(4, 5)), monitor((1,), (5,))):
        whole, rows = monitored(THREADS, CORES, [group(only)])
        assert whole == {OCCUPANCY: 200.0, LOCAL: 60.0, REMOTE: 40.0}
        assert [row.path for row in rows] == ["vpp/nftop.m"] * 2
        assert all(reasons(row.readings) == {Reason.UNDEFINED} for row in rows)
    other = MonitorRow("nftop.n", 4, (), "nftop", monitor().readings, (2,))
    whole, rows = monitored(THREADS, CORES, [group(monitor((1,)), other)])
    assert whole == {OCCUPANCY: 400.0, LOCAL: 120.0, REMOTE: 80.0}
    assert [row.readings for row in rows] == [{OCCUPANCY: 200.0, LOCAL: 60.0, REMOTE: 40.0}] * 2
    assert [row.tid for row in rows] == [1, 2]


def test_a_group_with_others_or_without_some_of_its_threads_gives_no_number() -> None:
    for groups in ([], [group(monitor((1, 2, 9)))], [group(monitor((1,)))]):
        whole, _ = monitored(THREADS, CORES, groups)
        assert whole.keys() == set(MONITORED)
        assert reasons(whole) == {Reason.UNDEFINED}


def test_without_traffic_the_rest_is_present() -> None:
    lacking = {**COUNTED, "mbm_local_bytes_per_s": Missing(Reason.HARDWARE)}
    rows = MonitorRow("nftop.m", 3, (), "nftop", {L3Domain(0): lacking}, (1, 2))
    whole, _ = monitored(THREADS, CORES, [group(rows)])
    assert whole[OCCUPANCY] == 100.0
    assert reasons(whole) == {Reason.HARDWARE}
