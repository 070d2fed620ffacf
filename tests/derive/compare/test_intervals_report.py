"""What two intervals come to: load, idle polls, clocks, and who is in one of them alone."""

from __future__ import annotations

from array import array
from collections.abc import Mapping

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.compare.comparability import LOSSES
from nftop.derive.compare.intervals import CLASS_COMPARED, PACKAGE_COMPARED, Entity, Interval
from nftop.derive.compare.intervals_report import EntityReport, comparison
from nftop.derive.compare.metric import Compared
from nftop.derive.compare.window import CLOCKS
from nftop.model.missing import Missing, Reason
from nftop.render.pages.compare import comparison_text

NF = Entity("nf", "vpp", "vpp")
PACKAGE = Entity("package", "0")


def interval(
    values: Mapping[str, float],
    *,
    seed: int,
    value: Entity = NF,
    keys: tuple[str, ...] = ("one",),
    noise_ratio: float = 0.002,
    tsc_hz: float = 2.2e9,
) -> Interval:
    """60 samples of one thing, each with this noise."""
    random = np.random.default_rng(seed)
    results = Interval()
    results._tsc_hz.append(tsc_hz)
    series = results._series(value)
    series.keys = dict.fromkeys(keys)
    for _ in range(60):
        noise = 1 + noise_ratio * random.standard_normal()
        exact = ("saturated", "clock")
        series.add({name: v if name in exact else v * noise for name, v in values.items()})
    return results


def nf(mpps: float, cpp: float, *, saturated: float, **more: float) -> dict[str, float]:
    packets = mpps * 1e6
    return {
        "packets_per_s": packets,
        "offered_packets_per_s": packets,
        "drop_packets_per_s": 0.0,
        "cpp": cpp,
        "busy_cpp": cpp * 0.5,
        "ipp": 300.0,
        "ipc": 300.0 / cpp,
        "saturated": saturated,
        "clock": 0.0,
    } | more


def only(a: Interval, b: Interval) -> tuple[EntityReport, dict[str, Compared]]:
    (component,) = comparison(a, b).reports
    return component, {row.result.metric.id: row.result for row in component.rows}


def test_where_cores_are_busy_all_the_time_cycles_are_compared() -> None:
    component, rows = only(
        interval(nf(10, 200, saturated=1), seed=1), interval(nf(12, 166, saturated=1), seed=2)
    )
    assert {rows[name].word for name in ("packets_per_s", "cpp", "busy_cpp", "ipc")} == {"better"}
    assert rows["ipp"].word == "no difference"
    assert (
        component.word == "better" and "CPP -17." in component.why and "Mpps +20." in component.why
    )
    assert rows["cpp"].change_ratio == pytest.approx(-0.17, abs=0.01)


def test_losses_decide_where_packets_and_cycles_are_the_same() -> None:
    """Errors of graph nodes may be of a policy: more are worse, fewer are no merit."""
    none = nf(10, 200, saturated=1, **dict.fromkeys(LOSSES, 0.0))
    for lost in ("drop_packets_per_s", "ovs.lost_upcalls_per_s", "error_drops_per_s"):
        loses = none | {lost: 3900.0}
        component, rows = only(interval(none, seed=1), interval(loses, seed=2))
        assert (rows[lost].word, rows["cpp"].word, component.word) == (
            "worse",
            "no difference",
            "worse",
        )
        component, rows = only(interval(loses, seed=1), interval(none, seed=2))
        errors = lost == "error_drops_per_s"
        words = ("less", "no difference") if errors else ("better", "better")
        assert (rows[lost].word, component.word) == words
        # Under another load they are those of other packets.
        moved = nf(12, 200, saturated=0) | {lost: 4900.0}
        rows = only(interval(loses | {"saturated": 0.0}, seed=1), interval(moved, seed=2))[1]
        assert rows[lost].code == "load_moved" or rows[lost].word == "more"
    rows = only(interval(none, seed=1), interval(none, seed=2))[1]
    assert rows.keys().isdisjoint(LOSSES), "it has none"
    assert rows["drop_packets_per_s"].word == "no difference"


def test_other_losses_are_judged_per_packet() -> None:
    old, new, worse = (
        nf(mpps, 2000 / mpps, saturated=1, offered_packets_per_s=12e6, error_drops_per_s=lost)
        for mpps, lost in ((10, 4000), (12, 4800), (12, 9000))
    )
    for one, two, words in (
        (old, new, ("more", "better")),
        (new, old, ("less", "worse")),
        (old, worse, ("worse", "inconclusive")),
    ):
        component, rows = only(interval(one, seed=1), interval(two, seed=2))
        assert (rows["error_drops_per_s"].word, component.word) == words


def test_losses_in_few_samples_are_stated() -> None:
    a, b = (interval(nf(10, 200, saturated=1), seed=seed) for seed in (1, 2))
    assert only(a, b)[0].notes == ()
    b.entities[NF].values["drop_packets_per_s"][:29] = array("d", [5e4] * 29)
    component, rows = only(a, b)
    assert rows["drop_packets_per_s"].after == 0
    assert component.notes == (
        "drop/s B: losses in fewer than half of the samples, so that the median is 0",
    )


def test_where_the_load_moved_cycles_are_inconclusive() -> None:
    component, rows = only(
        interval(nf(10, 200, saturated=0), seed=1), interval(nf(12, 166, saturated=0), seed=2)
    )
    assert {rows[name].word for name in ("cpp", "busy_cpp", "ipp", "ipc")} == {"inconclusive"}
    assert rows["cpp"].why.startswith("load moved +") and component.why == rows["cpp"].why
    # More packets are no merit: more were offered.
    assert (rows["packets_per_s"].word, component.word) == ("more", "inconclusive")
    assert rows["llc_misses_per_packet"].word == "no number"


def test_with_idle_polls_only_the_cost_of_work_is_compared(snapshot: SnapshotAssertion) -> None:
    component, rows = only(
        interval(nf(10, 200, saturated=0), seed=1),
        interval(nf(10, 200, saturated=0, busy_cpp=120), seed=2),
    )
    assert (rows["cpp"].word, rows["busy_cpp"].word) == ("inconclusive", "worse")
    assert rows["cpp"].why == snapshot
    assert component.word == "worse"
    unknown = nf(10, 200, saturated=np.nan)
    _, rows = only(interval(unknown, seed=1), interval(unknown, seed=2))
    assert rows["cpp"].why == snapshot
    # Nor where a sample now and then says so.
    now_and_then = interval(nf(10, 220, saturated=np.nan), seed=2)
    reports = now_and_then.entities[NF].of("saturated")
    reports[::50] = 1.0
    now_and_then.entities[NF].values["saturated"] = array("d", reports)
    _, rows = only(interval(unknown, seed=1), now_and_then)
    assert rows["cpp"].why == snapshot


def test_a_bound_reports_in_one_direction() -> None:
    free, full = nf(10, 200, saturated=0), nf(10, 220, saturated=1)
    _, rows = only(interval(free, seed=1), interval(full, seed=2))
    assert rows["cpp"].word == "worse" and rows["ipc"].word == "inconclusive"
    busy, idle = nf(10, 200, saturated=1), nf(10, 220, saturated=0)
    _, rows = only(interval(busy, seed=1), interval(idle, seed=2))
    assert rows["cpp"].word == "inconclusive"


def test_a_cost_with_empty_polls_is_marked_as_a_bound_on_its_side() -> None:
    first, second = (interval(nf(10, 200, saturated=full), seed=1) for full in (0, 1))
    _, rows = only(first, second)
    assert {name: row.bounds for name, row in rows.items() if True in row.bounds} == {
        "cpp": (True, False),
        "ipp": (True, False),
    }
    [shown] = [
        line
        for line in comparison_text(comparison(first, second), ()).splitlines()
        if line.startswith("  CPP ")
    ]
    assert "<200" in shown and shown.count("<") == 1


def test_cycles_of_two_clocks_are_not_compared(snapshot: SnapshotAssertion) -> None:
    tsc = nf(10, 200, saturated=1, clock=1.0)
    _, rows = only(interval(tsc, seed=1), interval(nf(10, 100, saturated=1), seed=2))
    assert (rows["cpp"].word, rows["cpp"].why) == snapshot
    a, b = interval(nf(10, 200, saturated=1), seed=1), interval(nf(10, 200, saturated=1), seed=2)
    a.entities[NF].add(tsc)
    component, rows = only(a, b)
    assert rows["cpp"].n_before == 60 and rows["packets_per_s"].n_before == 61
    assert component.notes == snapshot


def test_cycles_estimated_by_run_time_are_compared_with_those_of_their_clock() -> None:
    full = nf(10, 200, saturated=1)
    read = interval(full, seed=1)
    for series in read.entities.values():  # every other sample is an estimate
        clocks = series.of("clock")
        clocks[::2] = CLOCKS.index("core_by_run")
        series.values["clock"] = array("d", clocks)
    estimated = nf(10, 150, saturated=1, clock=float(CLOCKS.index("core_by_run")))
    component, rows = only(read, interval(estimated, seed=2))
    assert (rows["cpp"].n_before, rows["cpp"].n_after) == (60, 60)
    assert rows["busy_cpp"].n_before == 60
    assert (rows["cpp"].word, component.notes) == ("better", ())


def test_restarted_functions_and_unique_names(snapshot: SnapshotAssertion) -> None:
    full = nf(10, 200, saturated=1)
    a, b = interval(full, seed=1, keys=("one", "two")), interval(full, seed=2)
    b.entities[Entity("class", "x", "L3 0")] = b.entities[NF]
    results = comparison(a, b)
    assert results.reports[0].notes == snapshot
    assert (results.only_a, results.only_b) == ((), (Entity("class", "x", "L3 0"),))


def test_packages_and_classes_are_better_only_under_the_same_load() -> None:
    slow = dict.fromkeys(PACKAGE_COMPARED, 1e9) | {"pcie.ddio_hit_ratio": 0.5}
    fast = dict.fromkeys(PACKAGE_COMPARED, 1e9) | {"pcie.ddio_hit_ratio": 0.8}
    a, b = (
        interval(item, seed=seed, value=PACKAGE) for seed, item in enumerate((slow, fast), start=1)
    )
    _, rows = only(a, b)
    assert rows["pcie.ddio_hit_ratio"].word == "better"
    assert rows["memory.read_bytes_per_s"].word == "no difference"
    a.entities[NF] = interval(nf(10, 200, saturated=0), seed=3).entities[NF]
    b.entities[NF] = interval(nf(12, 166, saturated=0), seed=4).entities[NF]
    package = comparison(a, b).reports[-1]
    words = {row.result.metric.id: row.result.word for row in package.rows}
    assert package.entity == PACKAGE and words["pcie.ddio_hit_ratio"] == "more"
    used = Entity("class", "vpp", "L3 0")
    sizes = dict.fromkeys(CLASS_COMPARED, 1e6)
    _, rows = only(
        interval(sizes, seed=1, value=used),
        interval(sizes | {"occupancy_bytes": 2e6}, seed=2, value=used),
    )
    assert rows["occupancy_bytes"].word == "more"


def test_why_no_number() -> None:
    none = Missing(Reason.PERMISSION, "run as root")
    a, b = Interval(), Interval()
    for item in (a, b):
        item._series(NF).add(dict.fromkeys(nf(1, 1, saturated=1), none))
    component, rows = only(a, b)
    assert {row.word for row in rows.values()} == {"no number"} and component.word == "no number"
    assert rows["busy_cpp"].why == "run as root" and rows["packets_per_s"].before == none


def test_cycles_of_time_stamp_counters_of_two_frequencies_are_not_compared() -> None:
    """200 cycles at 2.3 GHz take as long as 183 at 2.1 GHz."""
    for clock, comparable in ((CLOCKS.index("tsc"), False), (CLOCKS.index("core"), True)):
        sides = [
            interval(nf(10, cpp, saturated=1, clock=float(clock)), seed=seed, tsc_hz=hz)
            for seed, (cpp, hz) in enumerate(((200, 2.3e9), (183, 2.1e9)))
        ]
        _, rows = only(sides[0], sides[1])
        assert (rows["cpp"].word == "better") is comparable
        assert (rows["busy_cpp"].word == "no number") is not comparable
        assert comparable or "2.30 and 2.10 GHz" in rows["cpp"].why
