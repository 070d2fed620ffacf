"""What a sensor server's documents mean: units, reasons, pace, and whose CPUs they are of."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.derive.fold import FoldState
from nftop.derive.package.power import UNREAD
from nftop.derive.pcm.values import without_sentinels
from nftop.model.frame import Frame
from nftop.model.ids import Cpu, Package
from nftop.model.metrics.catalogue import ALL_PACKAGE_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.pcm import PCIE_EVENTS, PcmTable
from nftop.model.sample import Sample
from nftop.model.topology import Topology
from nftop.sources.pcm.document import parse_json, parse_text, table_of
from nftop.sources.pcm.source import topology_of
from tests.peers.pcm_server import captures
from tests.samples import HOST, S, counters, fold, sample

NAMES = [
    "icx_2026-06_msr",
    "skx_2026-06",
    "skx_202302",
    "icx_2026-06_perf",
    "skx_2026-06_perf",
]


def raw(name: str) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(captures()[f"{name}_persecond1.json"])
    return document


def table(name: str = NAMES[0], *, root: bool = False) -> PcmTable:
    body = captures()[f"{name}_{'root' if root else 'persecond1'}.json"]
    return table_of(parse_json(body), since_start=root)


def nudged(one: PcmTable, second: float) -> PcmTable:
    """The document of another second: no two are the same to the cycle."""
    of_cpus = one.of_cpus.copy()
    of_cpus[:, 3] += second
    return replace(one, of_cpus=of_cpus)


def frames(tables: Sequence[PcmTable | Missing], *, here: Topology | None = None) -> list[Frame]:
    """A frame a second."""
    first = next(item for item in tables if isinstance(item, PcmTable))
    start = FoldState(HOST, here or topology_of(first))
    return fold(start, *(sample(at * S, pcm=item) for at, item in enumerate(tables, start=1)))


def of_cpu(frame: Frame, metric: str, row: int = 0) -> Reading:
    return frame.cpus.columns[metric][row]


def of_package(frame: Frame, metric: str, row: int = 0) -> Reading:
    return frame.packages[row].readings[metric]


def reason(reading: Reading) -> Reason:
    assert isinstance(reading, Missing), reading
    return reading.reason


@pytest.mark.parametrize("name", NAMES)
def test_every_captured_second_gives_what_is_in_the_file(name: str) -> None:
    (frame,) = frames([table(name)])
    document = raw(name)
    seconds = document["Interval us"] / 1e6
    for location, socket in enumerate(document["Sockets"]):
        uncore = socket["Uncore"]["Uncore Counters"]
        expected = {
            "memory.read_bytes_per_s": uncore["DRAM Reads"] / seconds,
            "memory.write_bytes_per_s": uncore["DRAM Writes"] / seconds,
            "power_w": uncore["Package Joules Consumed"] / seconds,
            "dram_power_w": uncore["DRAM Joules Consumed"] / seconds,
            "c0_ratio": uncore["CStateResidency[0]"],
            "c2_ratio": uncore["CStateResidency[2]"],
            "c3_ratio": uncore["CStateResidency[3]"],
            "c6_ratio": uncore["CStateResidency[6]"],
        }
        links = document["QPI/UPI Links"][f"QPI Counters Socket {location}"]
        incoming = [value for key, value in links.items() if key.startswith("Incoming")]
        outgoing = [value for key, value in links.items() if key.startswith("Outgoing")]
        expected["upi.received_bytes_per_s"] = sum(incoming) / seconds
        expected["upi.outgoing_bytes_per_s"] = sum(outgoing) / seconds
        boxes = [box.in_bytes_per_s for box in frame.packages[location].links]
        assert boxes == pytest.approx([item / seconds for item in incoming])
        if "Uncore Frequency Die 0" in uncore:
            expected["uncore_frequency_hz"] = uncore["Uncore Frequency Die 0"]
            share = uncore["Local Memory Request Ratio"] / 100
            expected["memory.local_ratio"] = min(share, 1.0)
        headrooms = []
        for core in socket["Cores"]:
            for thread in core["Threads"]:
                check_cpu(frame, thread, seconds)
                headrooms.append(thread["Energy Counters"]["Thermal Headroom"])
        expected["thermal_headroom_c"] = min(headrooms)
        for metric, value in expected.items():
            assert of_package(frame, metric, location) == pytest.approx(value), metric
            assert frame.packages[location].origins[metric] == "pcm"


def check_cpu(frame: Frame, thread: dict[str, Any], seconds: float) -> None:
    row, counts, energy = thread["OS ID"], thread["Core Counters"], thread["Energy Counters"]
    cycles, reference = counts["Clock Unhalted Thread"], counts["Clock Unhalted Ref"]
    computed = cycles / reference * counts["Invariant TSC"] / seconds
    expected = {
        "ipc": counts["Instructions Retired Any"] / cycles,
        "frequency_hz": counts.get("Core Frequency", computed),
        "c0_ratio": energy["CStateResidency[0]"],
        "c1_ratio": energy["CStateResidency[1]"],
        "c3_ratio": energy["CStateResidency[3]"],
        "c6_ratio": energy["CStateResidency[6]"],
        "thermal_headroom_c": energy["Thermal Headroom"],
        "llc_occupancy_bytes": counts["L3 Cache Occupancy"] * 1024,
        "smi_per_s": counts["SMI Count"] / seconds,
    }
    for cache, field in (("L2", "l2_hit_ratio"), ("L3", "l3_hit_ratio")):
        hits, misses = counts[f"{cache} Cache Hits"], counts[f"{cache} Cache Misses"]
        expected[field] = hits / (hits + misses)
    for metric, value in expected.items():
        assert of_cpu(frame, metric, row) == pytest.approx(value), metric
        assert frame.cpus.origins[metric][row] == "pcm"


def test_bandwidth_of_a_cpu_is_in_mib_and_none_where_rdt_is_blocked() -> None:
    (icx,), (skx,) = frames([table("icx_2026-06_msr")]), frames([table("skx_2026-06")])
    assert of_cpu(icx, "memory_local_bytes_per_s") == pytest.approx(117 * 2**20 / 1.000026)
    assert of_cpu(icx, "memory_remote_bytes_per_s") == pytest.approx(26 * 2**20 / 1.000026)
    for metric in ("memory_local_bytes_per_s", "memory_remote_bytes_per_s"):
        absent = of_cpu(skx, metric)
        assert reason(absent) is Reason.SOURCE
        assert isinstance(absent, Missing) and "PCM_NO_RDT" in absent.message


@pytest.mark.parametrize(
    ("name", "level_1", "level_2"),
    [
        ("icx_2026-06_msr", None, Reason.HARDWARE),
        ("skx_2026-06", Reason.HARDWARE, Reason.HARDWARE),
        ("skx_202302", Reason.SOURCE, Reason.SOURCE),
    ],
)
def test_topdown_that_the_platform_does_not_have_is_a_reason(
    name: str, level_1: Reason | None, level_2: Reason
) -> None:
    (frame,) = frames([table(name)])
    for row in range(16):
        first = of_cpu(frame, "tma.retiring", row)
        assert (
            first == pytest.approx(0.38, abs=0.02)
            if level_1 is None
            else (reason(first) is level_1)
        )
        assert reason(of_cpu(frame, "tma.memory_bound", row)) is level_2


def test_averages_of_totals_are_not_of_now_and_totals_need_two() -> None:
    one = table(root=True)
    of_cpus, of_packages = one.of_cpus.copy(), one.of_packages.copy()
    of_cpus[:, :9] += table().of_cpus[:, :9]
    of_packages[:, :6] += table().of_packages[:, :6]
    later = replace(
        one,
        interval_us=one.interval_us + 1_000_026,
        of_cpus=of_cpus,
        of_packages=of_packages,
        of_links=one.of_links + table().of_links,
    )
    first, second = frames([one, later])
    assert reason(of_cpu(first, "ipc")) is Reason.WARMING
    assert reason(of_package(first, "power_w")) is Reason.WARMING
    (alone,) = frames([table()])
    for metric in ("power_w", "memory.read_bytes_per_s", "upi.received_bytes_per_s"):
        both = (of_package(second, metric), of_package(alone, metric))
        assert both[0] == pytest.approx(both[1], rel=1e-6)
    assert of_cpu(second, "ipc") == pytest.approx(of_cpu(alone, "ipc"))
    for frame in (first, second):
        assert reason(of_cpu(frame, "c0_ratio")) is Reason.SOURCE
        assert reason(of_cpu(frame, "tma.retiring")) is Reason.SOURCE
        assert reason(of_package(frame, "uncore_frequency_hz")) is Reason.SOURCE
        assert of_cpu(frame, "thermal_headroom_c") == 40.0


def test_totals_that_step_back_are_a_restart_and_come_back() -> None:
    one = table(root=True)

    def at(second: int, start: float) -> PcmTable:
        grown = (one.of_packages - start * one.of_packages) + second * table().of_packages
        return replace(
            one,
            interval_us=one.interval_us + second * 1_000_000,
            of_packages=grown,
            of_cpus=one.of_cpus * (1 - start) + second * table().of_cpus,
        )

    seen = frames([at(1, 0), at(2, 0), at(3, 1), at(4, 1)])
    reasons = [r if isinstance(r := of_package(f, "power_w"), float) else r.reason for f in seen]
    assert reasons[0] is Reason.WARMING and reasons[2] is Reason.RESET
    assert reasons[1::2] == pytest.approx([143.491] * 2)


@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (-17.0, Reason.ERROR),
        (np.nan, Reason.SOURCE),
        (np.inf, Reason.ERROR),
        (-2147483648.0, Reason.HARDWARE),
        (-2147483548.0, Reason.HARDWARE),
        (18446744073709551615.0, Reason.HARDWARE),
        (18446744073709000000.0, Reason.RESET),
    ],
)
def test_numbers_that_can_not_be_are_reasons_and_others_stay(
    spoil: float, expected: Reason
) -> None:
    one = table()
    of_cpus, of_packages = one.of_cpus.copy(), one.of_packages.copy()
    of_cpus[3, :] = spoil
    of_packages[1, :] = spoil
    spoilt = replace(one, of_cpus=of_cpus, of_packages=of_packages)
    _, bad, good = frames([one, spoilt, nudged(one, 1)])
    for metric in ("ipc", "l3_hit_ratio", "thermal_headroom_c", "c0_ratio", "tma.retiring"):
        absent = of_cpu(bad, metric, 3)
        assert isinstance(absent, Missing), metric
        assert isinstance(of_cpu(bad, metric, 2), float)
        assert isinstance(of_cpu(good, metric, 3), float)
    assert reason(of_cpu(bad, "thermal_headroom_c", 3)) is expected
    assert reason(of_package(bad, "power_w", 1)) is expected
    assert isinstance(of_package(bad, "power_w", 0), float)
    assert isinstance(of_package(good, "power_w", 1), float)


@given(st.lists(st.floats() | st.sampled_from([0.0, -(2.0**31), 2.0**64]), max_size=6))
def test_whatever_is_reported_is_a_number_or_a_reason(values: list[float]) -> None:
    column = without_sentinels(np.array(values, dtype=np.float64))
    for index, value in enumerate(values):
        reading = column[index]
        if isinstance(reading, Missing):
            assert reading.message
        else:
            assert reading == value and 0 <= value < 2**63
    assert not (column.present.any() and np.all(column.values[column.present] == 0))


def growing(cadence_s: int, step: float, seconds: int, *, event: str = "itom") -> list[PcmTable]:
    """A second apart: totals of requests that go on by `step` every `cadence_s`."""
    one = table()
    index = PCIE_EVENTS.index(event)
    tables = []
    for second in range(seconds):
        pcie = one.pcie.copy()
        pcie[:, index] += step * (second // cadence_s)
        tables.append(replace(nudged(one, second), pcie=pcie))
    return tables


def numbers(seen: Sequence[Frame], metric: str) -> list[float]:
    readings = [of_package(frame, metric) for frame in seen]
    return [reading for reading in readings if not isinstance(reading, Missing)]


def test_requests_of_a_server_that_rests_are_of_the_second_it_counts() -> None:
    """3 M in each sample of a second, every third second: 3 M/s, not 1 M/s."""
    seen = frames(growing(3, 3e6, 24))
    assert reason(of_package(seen[5], "pcie.itom.total_per_s")) is Reason.WARMING
    result = numbers(seen, "pcie.itom.total_per_s")
    assert len(result) >= 10 and result == pytest.approx([3e6] * len(result))
    assert numbers(seen, "pcie.write_bytes_per_s")[-1] == pytest.approx(64 * 3e6)
    assert "pcie.itom.total_per_s" in seen[-1].packages[0].estimates
    assert reason(of_package(seen[-1], "pcie.itom.hit_per_s")) is Reason.SOURCE
    assert reason(of_package(seen[-1], "pcie.rfo.total_per_s")) is Reason.SOURCE


def test_requests_are_of_the_seconds_counted_however_late_the_steps_are_seen() -> None:
    """Its rests take longer than 2 s and answers come when they come: that is no part of it."""
    start, state = topology_of(table()), 0
    seen, at_ns = [], 0
    documents = growing(1, 3e6, 7)
    for second in range(24):
        at_ns += (1_150_000_000, 900_000_000)[second % 2]
        state += second in (3, 6, 10, 13, 16, 20, 23)
        pcie = documents[min(state, 6)].pcie
        seen.append(sample(at_ns, pcm=replace(nudged(table(), second), pcie=pcie)))
    result = numbers(fold(FoldState(HOST, start), *seen), "pcie.itom.total_per_s")
    assert len(result) >= 5 and result == pytest.approx([3e6] * len(result), abs=1)


@pytest.mark.parametrize("seen_at", [(2, 5, 7), (2, 4, 7), (3, 5, 8), (2, 6, 8)])
def test_three_steps_that_are_seen_too_close_give_no_number_yet(seen_at: tuple[int, ...]) -> None:
    """Steps every 3.02 s, polls once a second: two times between them may look like 5 s."""
    start, documents = topology_of(table()), growing(1, 3e6, 12)
    steps_s = [seen_at[-1] - 0.01 + 3.02 * count for count in range(1, 8)]
    created_s = [*seen_at, *steps_s]
    seen = []
    for second in range(1, 26):
        state = sum(at_s <= second for at_s in created_s)
        pcie = documents[state].pcie
        seen.append(sample(second * S, pcm=replace(nudged(table(), second), pcie=pcie)))
    readings = [
        of_package(frame, "pcie.itom.total_per_s") for frame in fold(FoldState(HOST, start), *seen)
    ]
    third = readings[seen_at[-1] - 1]
    assert isinstance(third, Missing) and third.reason is Reason.WARMING
    result = [reading for reading in readings if not isinstance(reading, Missing)]
    assert len(result) >= 8 and result == pytest.approx([3e6] * len(result))


def test_requests_at_a_pace_that_may_miss_steps_are_reported_as_unknown() -> None:
    documents = growing(1, 3e6, 8)
    slow = [sample(5 * at * S, pcm=document) for at, document in enumerate(documents, start=1)]
    for frame in fold(FoldState(HOST, topology_of(table())), *slow)[2:]:
        why = of_package(frame, "pcie.itom.total_per_s")
        assert isinstance(why, Missing) and "1 s" in why.message


def test_requests_right_behind_a_gap_are_to_come() -> None:
    documents = growing(1, 3e6, 30)
    times = [second * S for second in range(1, 31) if not 12 <= second < 22]
    seen = [sample(at_ns, pcm=documents[at_ns // S - 1]) for at_ns in times]
    reports = fold(FoldState(HOST, topology_of(table())), *seen)
    result = [of_package(frame, "pcie.itom.total_per_s") for frame in reports]
    behind = times.index(22 * S)
    assert result[behind - 1] == result[-1] == pytest.approx(3e6)
    assert [reason(item) for item in result[behind : behind + 2]] == [Reason.WARMING] * 2


@pytest.mark.parametrize("cadence_s", [1, 2])
def test_requests_of_a_server_that_does_not_rest_are_of_all_time(cadence_s: int) -> None:
    result = numbers(frames(growing(cadence_s, 3e6 * cadence_s, 20)), "pcie.itom.total_per_s")
    assert len(result) >= 10 and result == pytest.approx([3e6] * len(result))


def test_requests_that_end_are_none_and_begin_again() -> None:
    still = growing(1, 1e6, 6)
    after = [replace(nudged(still[-1], 50 + s), pcie=still[-1].pcie) for s in range(14)]
    again = [
        replace(nudged(still[-1], 90 + s), pcie=still[-1].pcie + 1e6 * (s + 1)) for s in range(5)
    ]
    seen = frames([*still, *after, *again])
    readings = [of_package(frame, "pcie.itom.total_per_s") for frame in seen]
    assert readings[5] == pytest.approx(1e6) and readings[19] == 0.0
    assert reason(readings[20]) is Reason.WARMING
    assert readings[-1] == pytest.approx(1e6)


def test_requests_restart_with_the_server_and_are_absent_where_it_counts_none() -> None:
    before, after = growing(1, 1e6, 6), growing(1, 2e6, 6)
    fresh = [replace(nudged(item, 60), pcie=item.pcie - table().pcie + 1) for item in after]
    seen = frames([*before, *fresh])
    assert reason(of_package(seen[6], "pcie.itom.total_per_s")) is Reason.RESET
    assert numbers(seen[7:], "pcie.itom.total_per_s") == pytest.approx([2e6] * 3)
    (old,) = frames([table("skx_202302")])
    absent = of_package(old, "pcie.itom.total_per_s")
    assert isinstance(absent, Missing) and "March 2026" in absent.message
    none = frames([replace(table(), pcie=table().pcie * 0)])[0]
    assert reason(of_package(none, "pcie.itom.total_per_s")) is Reason.HARDWARE


def test_sockets_that_are_swapped_are_no_requests() -> None:
    """Rows that become another socket's would jump by the difference of the two."""
    one = table()
    tables = growing(1, 1e6, 8)
    swapped = [replace(item, packages=1 - one.packages) for item in tables]
    seen = frames([*tables, *swapped])
    readings = [of_package(frame, "pcie.itom.total_per_s") for frame in seen]
    rates = [reading for reading in readings if isinstance(reading, float)]
    assert isinstance(readings[8], Missing)
    assert rates == pytest.approx([1e6] * len(rates)) and isinstance(readings[-1], float)
    (shown,) = frames([replace(one, packages=1 - one.packages)], here=topology_of(one))
    assert of_package(shown, "power_w", 1) == of_package(frames([one])[0], "power_w", 0)


def cut(here: Topology, keep: Callable[[int], bool]) -> Topology:
    return Topology(tuple(info for info in here.cpus if keep(info.cpu)))


@pytest.mark.parametrize(
    "change",
    [
        lambda here: cut(here, lambda cpu: cpu < 15),  # the server has more
        lambda here: Topology(  # it has fewer
            (*here.cpus, replace(here.cpus[0], cpu=Cpu(16), siblings=()))
        ),
        lambda here: Topology(  # as many, but otherwise shared out
            tuple(replace(info, package=Package(int(info.cpu) % 2)) for info in here.cpus)
        ),
        lambda here: Topology(tuple(replace(info, package=Package(0)) for info in here.cpus)),
    ],
)
def test_another_hosts_numbers_are_not_shown_as_this_ones(
    change: Callable[[Topology], Topology],
) -> None:
    here = change(topology_of(table()))
    (frame,) = frames([table()], here=here)
    assert reason(of_package(frame, "power_w")) is Reason.SOURCE
    assert "not this host's" in frame.sources["pcm"].detail
    assert not frame.cpus.origins and not frame.packages[0].origins
    assert all(isinstance(reading, Missing) for reading in frame.packages[0].readings.values())


def test_a_cpu_that_is_offline_here_is_no_other_host() -> None:
    here = topology_of(table())
    off = tuple(
        replace(info, online=False, package=None, core=None) if info.cpu == 15 else info
        for info in here.cpus
    )
    (frame,) = frames([table()], here=Topology(off))
    assert isinstance(of_package(frame, "power_w"), float)


def test_a_server_that_stands_still_is_too_old() -> None:
    one = table()
    seen = frames([one] * 9 + [replace(one) for _ in range(5)])
    # The same object is the same reading; equal ones are a server that has stopped to sample.
    last = of_package(seen[-1], "power_w")
    assert isinstance(of_package(seen[8], "power_w"), float)
    assert reason(last) is Reason.STALE and "stand still" in seen[-1].sources["pcm"].detail
    again = frames([*(replace(one) for _ in range(14)), nudged(one, 1)])
    assert reason(of_package(again[-2], "power_w")) is Reason.STALE
    assert isinstance(of_package(again[-1], "power_w"), float)


def test_every_metric_has_a_number_or_a_reason_with_and_without_a_server() -> None:
    ids = {metric.id for metric in ALL_PACKAGE_METRICS}
    (with_one,) = frames([table()])
    alone = fold(FoldState(HOST, topology_of(table())), sample(S), sample(2 * S))
    gone = Missing(Reason.SOURCE, "no pcm-sensor-server listens at 127.0.0.1:9738")
    (absent,) = fold(FoldState(HOST, topology_of(table())), sample(S, pcm=gone))
    for frame in (with_one, *alone, absent):
        assert all(row.readings.keys() == ids for row in frame.packages)
    assert of_package(absent, "thermal_headroom_c") == gone == of_cpu(absent, "smi_per_s")
    assert "reads none here" in str(of_package(alone[1], "thermal_headroom_c"))
    # Without either source it is the kernel's counters that are missing.
    assert of_package(absent, "power_w") == of_package(alone[1], "power_w") == UNREAD


def other_perf(second: int, ratio: float) -> Sample:
    """perf counts on CPU 0 of the capture an IPC that is `ratio` times the server's."""
    one = table()
    instructions = one.of_cpu("instructions_retired_any")[0]
    cycles = one.of_cpu("clock_unhalted_thread")[0]
    of_cpus = one.of_cpus.copy()
    of_cpus[:, 2] = of_cpus[:, 3]  # nobody halts
    of_cpus[:, 3] += second
    rows = {
        0: [int(cycles * second), int(instructions * ratio * second), second * S, second * S, 0]
    }
    perf = counters(rows, enabled_ns=second * S)
    return sample(second * S, pcm=replace(one, of_cpus=of_cpus), perf=perf)


def test_perf_comes_first_and_a_difference_that_stays_is_reported() -> None:
    start = FoldState(HOST, topology_of(table()))
    seen = fold(start, *(other_perf(second, 1.1) for second in range(1, 9)))
    last = seen[-1]
    server = (
        table().of_cpu("instructions_retired_any")[0] / table().of_cpu("clock_unhalted_thread")[0]
    )
    assert of_cpu(last, "ipc", 0) == pytest.approx(1.1 * server)
    assert "ipc" not in last.cpus.origins and last.cpus.origins["c6_ratio"] == ("pcm",) * 16
    details = [frame.sources["pcm"].detail for frame in seen]
    assert not any("ipc of CPU 0" in detail for detail in details[:5])
    assert all("ipc of CPU 0" in detail and "5 %" in detail for detail in details[5:])
    assert [frame.disagreement in frame.sources["pcm"].detail for frame in seen] == [True] * 8
    assert [bool(frame.disagreement) for frame in seen] == [False] * 5 + [True] * 3
    close = fold(start, *(other_perf(second, 1.04) for second in range(1, 9)))
    assert not any("ipc" in frame.sources["pcm"].detail for frame in close)


def test_a_cpu_that_perf_saw_idle_has_no_ipc_of_another_second() -> None:
    one = table()
    idle = [
        sample(
            second * S,
            pcm=nudged(one, second),
            perf=counters({0: [0, 0, 0, second * S, 0]}, enabled_ns=second * S),
        )
        for second in (1, 2)
    ]
    _, frame = fold(FoldState(HOST, topology_of(one)), *idle)
    assert reason(of_cpu(frame, "ipc", 0)) is Reason.IDLE
    assert "ipc" not in frame.cpus.origins and "c6_ratio" in frame.cpus.origins
    # Of CPU 1 perf has no row: to perf it is offline, and the server's number is not shown either.
    assert reason(of_cpu(frame, "ipc", 1)) is Reason.UNDEFINED


def test_text_without_averages_computes_the_frequency_and_lacks_the_rest() -> None:
    body = captures()["icx_2026-06_msr_persecond1.prom"]
    (frame,) = frames([table_of(parse_text(body), since_start=False)])
    counts = raw("icx_2026-06_msr")["Sockets"][0]["Cores"][0]["Threads"][0]["Core Counters"]
    computed = (
        counts["Clock Unhalted Thread"]
        / counts["Clock Unhalted Ref"]
        * counts["Invariant TSC"]
        / 1.000026
    )
    assert of_cpu(frame, "frequency_hz") == pytest.approx(computed)
    assert of_cpu(frame, "c1_ratio") == 0.455
    assert reason(of_cpu(frame, "tma.retiring")) is Reason.SOURCE


ODD = st.sampled_from(
    [
        0.0,
        1.0,
        50.0,
        101.0,
        1e9,
        2.0**53,
        2.0**63,
        2.0**64,
        -1.0,
        -(2.0**31),
        100 - 2.0**31,
        np.nan,
        np.inf,
        -np.inf,
        1e300,
        5e-324,
    ]
)


@given(
    cells=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1 << 16), ODD), max_size=40),
    since_start=st.booleans(),
    micros=st.integers(1, 1 << 62),
)
def test_whatever_the_numbers_are_frames_hold_numbers_and_reasons(
    cells: list[tuple[int, int, float]], since_start: bool, micros: int
) -> None:
    one = table(root=since_start)
    arrays = [one.of_cpus.copy(), one.of_packages.copy(), one.of_links.copy(), one.pcie.copy()]
    for component, location, value in cells:
        arrays[component].flat[location % arrays[component].size] = value
    odd = replace(
        one,
        of_cpus=arrays[0],
        of_packages=arrays[1],
        of_links=arrays[2],
        pcie=arrays[3],
        interval_us=micros,
    )
    for frame in frames([one, odd, nudged(one, 1), odd]):
        for column in frame.cpus.columns.values():
            assert np.isfinite(column.values[column.present]).all()
            assert (column.values[column.present] >= 0).all()
            assert np.isnan(column.values[~column.present]).all()
        for row in frame.packages:
            boxes = [box.in_bytes_per_s for box in row.links]
            numbers = [
                reading
                for reading in (*row.readings.values(), *boxes)
                if isinstance(reading, float)
            ]
            assert np.isfinite(numbers).all() and all(number >= 0 for number in numbers)


def test_a_core_without_work_has_no_topdown_where_others_have() -> None:
    one = table()
    of_cpus = one.of_cpus.copy()
    of_cpus[5, 12:16] = 0
    (frame,) = frames([replace(one, of_cpus=of_cpus)])
    assert reason(of_cpu(frame, "tma.retiring", 5)) is Reason.IDLE
    assert isinstance(of_cpu(frame, "tma.retiring", 4), float)
