"""Power, residencies and throttling from counts: rates, ages, restarts, absences, energy."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from nftop.derive.fold import FoldState
from nftop.derive.package.power import UNREAD
from nftop.export.json.frame import frame_json
from nftop.model.frame import Frame
from nftop.model.missing import Missing, Reason
from nftop.model.sample import Sample, SourceReading
from nftop.model.struct import replace
from nftop.model.topology import Host
from nftop.model.uncore import NOT_ON_POLLERS, POWER_EVENTS, UncoreTable
from nftop.sim.power import power_counts
from nftop.sources.pcm.source import topology_of
from nftop.sources.power.source import SLOW_NS
from tests.derive.pcm.test_fold import nudged
from tests.derive.pcm.test_fold import table as server_table
from tests.frames import topology
from tests.samples import S, counters, fold, sample
from tests.sim.hosts import Frozen

JOULE = 2**32
HOST = topology(8, packages=2)
STATE = FoldState(Host("edge-07", "a test's", "SKX"), HOST)


def table(rows: list[tuple[str, int, int, int, int]], reason: int = 0) -> UncoreTable:
    """Rows of event, package, box, value and clock."""
    _, packages, boxes, values, clocks = (list(item) for item in zip(*rows, strict=True))
    return UncoreTable(
        events=POWER_EVENTS,
        packages=np.array(packages, np.int32),
        boxes=np.array(boxes, np.int32),
        event=np.array([POWER_EVENTS.index(row[0]) for row in rows], np.int32),
        values=np.array(values, np.uint64),
        reasons=np.full(len(rows), reason, np.uint8),
        enabled_ns=np.array(clocks, np.uint64),
        running_ns=np.array(clocks, np.uint64),
        round_ns=SLOW_NS,
    )


def energies(values: list[int], clock_ns: int) -> UncoreTable:
    return table([("energy_pkg", at, 0, value, clock_ns) for at, value in enumerate(values)])


def frames(*tables: UncoreTable | Missing) -> list[Frame]:
    """One a second."""
    return fold(STATE, *(sample(at * S, power=item) for at, item in enumerate(tables, 1)))


def of(frame: Frame, metric: str, package: int = 0) -> Any:
    return frame.packages[package].readings[metric]


def test_energy_is_of_counts_and_power_of_the_counters_own_clock() -> None:
    seen = frames(
        energies([0, 7 * JOULE], 5 * S),
        energies([50 * JOULE, 7 * JOULE], 5 * S + S // 2),
        energies([150 * JOULE, 8 * JOULE], 6 * S + S // 2),
    )
    assert of(seen[0], "power_w").reason is of(seen[0], "energy_j").reason is Reason.WARMING
    assert [of(seen[1], "power_w", at) for at in (0, 1)] == [100.0, 0.0]
    assert [of(seen[2], "power_w", at) for at in (0, 1)] == [100.0, 1.0]
    assert [of(seen[2], "energy_j", at) for at in (0, 1)] == [150.0, 1.0]
    assert of(seen[2], "dram_power_w").reason is Reason.SOURCE
    assert not seen[2].packages[0].origins


# A register's unit, 2**-14 J, in counts; and where counters wrap: the register's 32 bits, which the
# kernel extends, and perf's 64 bits.
UNIT, REGISTER, COUNTER = 2**18, 2**50, 2**64


@pytest.mark.parametrize("end", [REGISTER, COUNTER])
def test_power_and_energy_are_exact_over_a_wrap(end: int) -> None:
    begin = end - 100 * JOULE - UNIT
    at = [begin, begin + 250 * JOULE + 3 * UNIT, begin + 251 * JOULE + 3 * UNIT]
    assert at[0] < end < at[1]
    seen = frames(
        *(energies([value % COUNTER, 7 * JOULE], second * S) for second, value in enumerate(at, 1))
    )
    assert [of(frame, "power_w") for frame in seen[1:]] == [250.0 + 3 * 2**-14, 1.0]
    assert [of(frame, "energy_j") for frame in seen[1:]] == [250.0 + 3 * 2**-14, 251.0 + 3 * 2**-14]
    assert of(seen[1], "power_w", 1) == 0.0


DAY = 86_400 * S


@pytest.mark.parametrize(
    ("grown", "elapsed_ns", "watts"),
    [
        (2**63 - 1, 20 * DAY, (2**63 - 1) / JOULE / (20 * 86_400)),
        (2**63, 20 * DAY, Reason.RESET),  # as much as a step back by that
        (2**63 - 1, 20 * DAY + 1, Reason.RESET),
        (2 * COUNTER + 50 * JOULE, 200 * DAY, Reason.RESET),  # two wraps look like 50 J
    ],
)
def test_what_may_have_wrapped_more_than_once_has_a_reason(
    grown: int, elapsed_ns: int, watts: float | Reason
) -> None:
    after = (9 + grown) % COUNTER
    seen = frames(
        energies([0, 0], 1),
        energies([9, 0], S),
        energies([after, 0], S + elapsed_ns),
        energies([(after + JOULE) % COUNTER, 0], 2 * S + elapsed_ns),
    )
    result = of(seen[2], "power_w")
    known = 9 / JOULE
    if isinstance(watts, Reason):
        assert result.reason is watts
    else:
        assert result == pytest.approx(watts, rel=1e-12)
        known += grown / JOULE
    assert of(seen[3], "power_w") == 1.0
    assert of(seen[3], "energy_j") == pytest.approx(known + 1.0, rel=1e-12)


def test_a_counter_that_steps_back_takes_one_tick_and_no_energy() -> None:
    seen = frames(
        energies([10 * JOULE, 0], 1 * S),
        energies([20 * JOULE, JOULE], 2 * S),
        energies([5 * JOULE, 2 * JOULE], 3 * S),  # as after a hotplug
        energies([6 * JOULE, 3 * JOULE], 4 * S),
    )
    assert of(seen[2], "power_w").reason is Reason.RESET
    assert of(seen[2], "power_w", 1) == 1.0
    assert of(seen[3], "power_w") == 1.0 and of(seen[3], "energy_j") == 11.0
    # Nor does a source that fails in between lose what was counted until then.
    gone = Missing(Reason.PERMISSION, "no")
    again = frames(
        energies([0, 0], S),
        energies([3 * JOULE, 0], 2 * S),
        gone,
        energies([9 * JOULE, 0], 4 * S),
        energies([10 * JOULE, 0], 5 * S),
    )
    assert of(again[2], "energy_j") == of(again[2], "throttles_per_s") == gone
    assert of(again[4], "energy_j") == 4.0


def test_hotplug_takes_no_rate_or_energy_of_the_other_cpus() -> None:
    def at(second: int, *cores: int) -> UncoreTable:
        rows = [("energy_pkg", package, 0, second * JOULE, second * S) for package in (0, 1)]
        throttled = [("core_throttles", 0, cpu, 5 * second, second * S) for cpu in cores]
        return table(rows[:1] + throttled + rows[1:])

    seen = frames(at(1, 1, 3), at(2, 1, 3), at(3, 3), at(4, 1, 3), at(5, 1, 3))
    assert [of(frame, "power_w", 1) for frame in seen[1:]] == [1.0] * 4
    assert [of(frame, "energy_j", 1) for frame in seen[1:]] == [1.0, 2.0, 3.0, 4.0]
    throttles = [frame.cpus.columns["throttles_per_s"] for frame in seen[1:]]
    assert [item[3] for item in throttles] == [5.0] * 4
    gone, new = (item[1] for item in throttles[1:3])
    assert isinstance(gone, Missing) and isinstance(new, Missing)
    assert (gone.reason, new.reason, throttles[3][1]) == (Reason.SOURCE, Reason.WARMING, 5.0)
    assert of(seen[0], "power_w").message == new.message, "no counter of these takes turns"


TSC_HZ = 10**9


def stepping(second: int, step: int, *, wakes: bool) -> Sample:
    """A sample of CPU 0, which at second `step` wakes up from C6 or falls asleep.

    C6 is read every 5 s; asleep it is in C1 for a fifth of the time.
    """
    read_s = second - second % 5
    c6 = (min(read_s, step) if wakes else max(read_s - step, 0)) * TSC_HZ * 4 // 5
    awake = (max(second - step, 0) if wakes else min(second, step)) * TSC_HZ
    rows = [("energy_pkg", 0, 0, 0, second * S), ("core_c3", 0, 0, 0, read_s * S)]
    rows.append(("core_c6", 0, 0, c6, read_s * S))
    counts = counters({0: (awake, awake, awake, second * TSC_HZ, 0)}, enabled_ns=second * S)
    return sample(second * S, perf=counts, power=table(rows))


@pytest.mark.parametrize("wakes", [True, False])
@pytest.mark.parametrize("step", [2, 5, 8, 11])
def test_c1_is_what_c0_and_c6_leave_of_the_same_interval(step: int, *, wakes: bool) -> None:
    seen = fold(STATE, *(stepping(at, step, wakes=wakes) for at in range(21)))
    states = [
        [frame.cpus.columns[f"c{state}_ratio"].values[0] for state in (0, 1, 6)] for frame in seen
    ]
    c0, c1, c6 = np.array(states).T
    assert np.isnan(c1).tolist() == [True] * 5 + [False] * 16
    for end in (5, 10, 15, 20):
        average = c0[end - 4 : end + 1].mean()
        assert average + c1[end] + c6[end] == pytest.approx(1.0)
        assert c1[end] == pytest.approx((1 - average) / 5)
        assert set(c1[end : end + 5]) == {c1[end]}, "held until the next reading"


def test_c1_needs_c0_over_the_whole_interval() -> None:
    samples = [stepping(at, 8, wakes=True) for at in range(16)]
    samples[7] = replace(
        samples[7],
        readings={
            **samples[7].readings,
            "perf": SourceReading(Missing(Reason.STALE, "late"), 7 * S, 0),
        },
    )
    c1 = [frame.cpus.columns["c1_ratio"] for frame in fold(STATE, *samples)]
    assert c1[9].present[0] and c1[15].present[0] and c1[10].reasons[0] == Reason.WARMING


def test_what_is_read_seldom_is_held_with_its_age() -> None:
    def at(second: int, slow: int, count: int) -> UncoreTable:
        rows = [("energy_pkg", package, 0, second * JOULE, second * S) for package in (0, 1)]
        rows += [
            ("package_throttles", 0, 0, count, slow * S),
            ("core_throttles", 0, 3, 0, slow * S),
        ]
        return table(rows)

    seen = frames(
        at(1, 1, 0),
        *(at(second, 1, 0) for second in (2, 3, 4, 5)),
        at(6, 6, 10),
        at(7, 6, 10),
        at(8, 6, 10),
    )
    assert of(seen[4], "throttles_per_s").reason is Reason.WARMING
    assert [of(frame, "throttles_per_s") for frame in seen[5:]] == [2.0] * 3
    assert [frame.packages[0].sampled_s.get("throttles_per_s") for frame in seen[5:]] == [
        None,
        1.0,
        2.0,
    ]
    assert seen[7].cpus.columns["throttles_per_s"][3] == 0.0
    assert seen[7].cpus.sampled_s["throttles_per_s"] == 2.0


def test_without_the_source_its_metrics_have_one_reason() -> None:
    (frame,) = fold(STATE, sample(S))
    assert of(frame, "power_w") == of(frame, "c6_ratio") == UNREAD
    assert frame.cpus.columns["c6_ratio"][0] == UNREAD


@pytest.mark.parametrize("scenario", ["default", "noisy"])
def test_the_simulated_hosts_numbers_are_those_of_its_model(scenario: str) -> None:
    host = Frozen(scenario)
    begin_ns = host.simulated.world.now().t_ns
    host.tick(0)
    seen = [host.tick(S) for _ in range(12)]
    model, last = host.simulated.model, seen[-1]
    now_ns = begin_ns + 12 * S
    first, before, now = (power_counts(model, at) for at in (begin_ns, now_ns - S, now_ns))
    for at, row in enumerate(last.packages):
        for watts, joules, event in (
            ("power_w", "energy_j", "energy_pkg"),
            ("dram_power_w", "dram_energy_j", "energy_ram"),
        ):
            second = int(now.packages[event][at] - before.packages[event][at])
            assert row.readings[watts] == pytest.approx(second / JOULE, rel=1e-9)
            total = int(now.packages[event][at] - first.packages[event][at])
            assert row.readings[joules] == pytest.approx(total / JOULE, rel=1e-9)
        shares = np.array([row.readings[f"c{state}_ratio"] for state in (0, 2, 3, 6)], float)
        assert shares.sum() == pytest.approx(1.0)
    columns = last.cpus.columns
    quiet = [cpu for cpu in range(88) if last.cpus.origins["c6_ratio"][cpu] is None]
    assert quiet
    for cpu in quiet:
        states = [columns[f"c{state}_ratio"].values[cpu] for state in (0, 1, 3, 6)]
        assert np.sum(states) == pytest.approx(1.0) and np.min(states) >= 0
        assert states[3] > 0.5
    assert 0 <= last.cpus.sampled_s.get("c6_ratio", 0.0) < SLOW_NS / 1e9


def test_only_haswell_and_broadwell_have_c3() -> None:
    for processor, has in (("gold-6230n", False), ("e5-2699v4", True)):
        host = Frozen("default", 8, processor=processor)
        host.tick(0)
        frame = host.tick(S)
        shown = frame.packages[0].readings["c3_ratio"]
        assert isinstance(shown, Missing) != has
        assert has or (isinstance(shown, Missing) and shown.reason is Reason.HARDWARE)
        column = frame.cpus.columns["c3_ratio"]
        assert has or set(column.reasons.tolist()) == {int(Reason.HARDWARE)}


def test_a_core_that_polls_has_its_reason_on_every_thread() -> None:
    host = Frozen("default", 8)
    host.tick(0)
    frame = host.tick(6 * S)
    polled = {cpu for placed in host.simulated.model.layout.placed for cpu in placed.cpus}
    counted = next(item.read() for item in host.simulated.sources if item.name == "power")
    alone = fold(
        FoldState(frame.host, frame.topology),
        sample(S, power=counted),
        sample(2 * S, power=counted),
    )[-1]
    for cpu in frame.topology.with_siblings(polled):
        why = alone.cpus.columns["c6_ratio"][cpu]
        assert isinstance(why, Missing) and why.message == NOT_ON_POLLERS, cpu


def _both(watts: float | None, joules: int | None, at: int) -> Sample:
    """A server's document of `watts` a package, and the kernel's counter, each if not None."""
    document = server_table()
    pcm: Any = Missing(Reason.SOURCE, "no server")
    if watts is not None:
        pcm = nudged(document, at)
    kernel: Any = Missing(Reason.PERMISSION, "no")
    if joules is not None:
        kernel = energies([joules * JOULE] * 2, at * S)
    return sample(at * S, pcm=pcm, power=kernel)


def test_a_sum_of_energy_goes_on_with_the_source_that_it_began_with() -> None:
    begin = FoldState(Host("edge-07", "a test's", "SKX"), topology_of(server_table()))
    seen = fold(
        begin, _both(1, 0, 1), _both(1, 7, 2), _both(1, None, 3), _both(1, 9, 4), _both(1, 12, 5)
    )
    assert of(seen[0], "energy_j").reason is Reason.WARMING, "the kernel's is about to begin"
    assert of(seen[1], "energy_j") == 7.0
    assert of(seen[2], "energy_j").reason is Reason.PERMISSION, "not the server's, of another base"
    assert of(seen[2], "power_w") > 0 and seen[2].packages[0].origins["power_w"] == "pcm"
    assert of(seen[4], "energy_j") == 10.0 and "energy_j" not in seen[4].packages[0].origins

    seen = fold(
        begin,
        _both(1, None, 1),
        _both(1, None, 2),
        _both(1, 3, 3),
        _both(1, 50, 4),
        _both(None, 90, 5),
        _both(1, 95, 6),
        _both(1, 99, 7),
    )
    watts = of(seen[1], "power_w")
    assert of(seen[1], "energy_j") == pytest.approx(watts)
    assert seen[3].packages[0].origins["energy_j"] == "pcm"
    assert of(seen[3], "energy_j") == pytest.approx(3 * watts) and of(seen[3], "power_w") == 47.0
    assert of(seen[4], "energy_j").message == "no server"
    assert of(seen[6], "energy_j") == pytest.approx(4 * watts)


def test_an_age_is_of_the_rows_own_numbers_only() -> None:
    host = Frozen("default")
    host.tick(0)
    last = [host.tick(S) for _ in range(9)][-1]
    origins = last.cpus.origins["c6_ratio"]
    assert last.cpus.sampled_s["c6_ratio"] > 0 and {"pcm", None} == set(origins)
    for row, cpu in enumerate(json.loads(frame_json(last))["cpus"]):
        own = origins[row] is None and cpu["c6_ratio"] is not None
        assert ("c6_ratio" in cpu["sampled_s"]) == own, cpu["cpu"]


def test_only_energy_may_have_wrapped_in_20_days() -> None:
    """Read 20 days and 1 ns apart, in which no counter of events comes near 2**64."""
    later_ns = 20 * 86_400 * S + 1
    rows = [
        [("energy_pkg", 0, 0, n * JOULE, 1 + at_ns), ("package_throttles", 0, 0, n, 1 + at_ns)]
        for n, at_ns in ((0, 0), (20 * 86_400 * 3, later_ns))
    ]
    last = frames(*map(table, rows))[-1]
    assert of(last, "throttles_per_s") == pytest.approx(3.0)
    assert of(last, "power_w").reason is Reason.RESET
