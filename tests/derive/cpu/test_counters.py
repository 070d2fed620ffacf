from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.derive.cpu.counters import CounterRates, CounterState, step_counters, tsc_hz
from nftop.model.metrics.catalogue import cpu_metric
from nftop.model.missing import Missing, Reason
from nftop.model.sample import CounterTable, SourceReading
from tests.samples import ONLY_TSC, S, counters, topology, tsc_only

TWO = topology(2, smt=False)


def rates_of(*tables: CounterTable | Missing) -> list[CounterRates]:
    state, results = CounterState(), []
    for second, table in enumerate(tables, start=1):
        state, rates = step_counters(state, SourceReading(table, second * S, 1000), TWO)
        results.append(rates)
    return results


def reason(value: object) -> Reason:
    assert isinstance(value, Missing)
    return value.reason


def test_rates_are_per_second_of_the_groups_own_clock() -> None:
    first = counters({0: (10, 20, 10, 5, 1), 1: (0, 0, 0, 0, 0)}, enabled_ns=S)
    # Two and a half seconds of the group's clock, whatever the wall clock said.
    second = counters(
        {0: (10 + 5_000, 20 + 10_000, 10 + 4_000, 5 + 6_000, 1 + 5), 1: (0, 0, 0, 0, 0)},
        enabled_ns=S + 5 * S // 2,
    )
    warming, rated = rates_of(first, second)
    assert reason(warming.rate("cycles")[0]) is Reason.WARMING
    assert reason(warming.coverage[0]) is Reason.WARMING
    assert rated.rate("cycles")[0] == pytest.approx(2_000)
    assert rated.rate("context_switches")[0] == pytest.approx(2)
    assert rated.rate("cycles")[1] == 0.0
    assert rated.coverage[0] == 1.0
    compute = cpu_metric("frequency_hz").compute
    assert compute is not None
    assert compute(rated)[0] == pytest.approx(2_400 * 5_000 / 4_000)
    assert reason(compute(rated)[1]) is Reason.IDLE


def test_a_multiplexed_group_is_scaled_by_the_time_it_ran() -> None:
    _, rated = rates_of(
        counters({0: (0, 0, 0, 0, 0)}, enabled_ns=0, running_ns=0),
        counters({0: (250, 500, 250, 250, 0)}, enabled_ns=S, running_ns=S // 4),
    )
    assert rated.coverage[0] == 0.25
    assert rated.rate("cycles")[0] == 1_000


def test_a_group_that_never_ran_gives_no_zero() -> None:
    _, rated = rates_of(
        counters({0: (7, 7, 7, 7, 7)}, enabled_ns=S, running_ns=S),
        counters({0: (7, 7, 7, 7, 7)}, enabled_ns=2 * S, running_ns=S),
    )
    assert reason(rated.rate("cycles")[0]) is Reason.TAKEN
    assert rated.coverage[0] == 0.0


def test_a_step_back_is_a_reset_of_the_row_and_only_for_one_tick() -> None:
    tables = [
        counters({0: (count, 1, 1, 1, 1), 1: (count, 1, 1, 1, 1)}, enabled_ns=second * S)
        for second, count in ((1, 100), (2, 200))
    ]
    reopened = counters({0: (5, 0, 0, 0, 0), 1: (300, 1, 1, 1, 1)}, enabled_ns=3 * S)
    again = counters({0: (105, 9, 9, 9, 9), 1: (400, 1, 1, 1, 1)}, enabled_ns=4 * S)
    *_, reset, rated = rates_of(*tables, reopened, again)
    assert reason(reset.rate("cycles")[0]) is Reason.RESET
    assert reset.rate("cycles")[1] == 100.0
    assert rated.rate("cycles")[0] == 100.0


def test_a_group_that_ran_while_its_clock_stood_still_has_no_rate() -> None:
    *_, rated = rates_of(
        counters({0: (7, 7, 7, 7, 7), 1: (0, 0, 0, 0, 0)}, enabled_ns=S, running_ns=S // 2),
        counters({0: (9, 9, 9, 9, 9), 1: (9, 9, 9, 9, 9)}, enabled_ns=S, running_ns=S),
    )
    for event in ("cycles", "tsc"):
        assert reason(rated.rate(event)[0]) is reason(rated.share(event)[0]) is Reason.ERROR
    assert reason(rated.coverage[0]) is Reason.ERROR


def test_a_time_stamp_counter_that_stands_still_has_no_frequency() -> None:
    *_, rated = rates_of(
        counters({0: (7, 7, 7, 7, 7), 1: (0, 0, 0, 0, 0)}, enabled_ns=S),
        counters({0: (9, 9, 9, 7, 9), 1: (9, 9, 9, 0, 9)}, enabled_ns=2 * S),
    )
    assert rated.rate("tsc")[0] == 0.0
    assert reason(tsc_hz(rated)) is Reason.ERROR


def test_absent_events_and_offline_cpus_report_it() -> None:
    _, rated = rates_of(tsc_only({0: 0, 1: 0}, enabled_ns=0), tsc_only({0: 2_600}, enabled_ns=S))
    assert rated.rate("cycles")[0] == ONLY_TSC["cycles"]
    assert rated.rate("tsc")[0] == 2_600.0
    offline = rated.rate("tsc")[1]
    assert isinstance(offline, Missing) and "offline" in offline.message
    assert reason(rated.rate("llc_misses")[0]) is Reason.SOURCE


def test_a_source_that_fails_forgets_and_reports_why() -> None:
    denied = Missing(Reason.PERMISSION, "perf_event_paranoid is 2")
    _, failed, warming = rates_of(
        tsc_only({0: 0}, enabled_ns=S), denied, tsc_only({0: 10**12}, enabled_ns=9 * S)
    )
    assert failed.rate("tsc")[0] == denied
    assert failed.coverage[1] == denied
    assert reason(warming.rate("tsc")[0]) is Reason.WARMING


def test_a_reading_seen_before_keeps_its_rates() -> None:
    state = CounterState()
    state, _ = step_counters(state, SourceReading(tsc_only({0: 0}, enabled_ns=0), S, 1), TWO)
    late = SourceReading(tsc_only({0: 500}, enabled_ns=S), 2 * S, 1)
    state, first = step_counters(state, late, TWO)
    state, second = step_counters(state, late, TWO)
    assert first.rate("tsc")[0] == second.rate("tsc")[0] == 500.0


@given(
    before=st.integers(0, 2**64 - 2),
    delta=st.integers(0, 2**53),
)
def test_large_counters_lose_no_count(before: int, delta: int) -> None:
    after = min(before + delta, 2**64 - 1)
    _, rated = rates_of(tsc_only({0: before}, enabled_ns=S), tsc_only({0: after}, enabled_ns=2 * S))
    assert rated.rate("tsc")[0] == float(after - before)


@given(st.lists(st.tuples(st.integers(0, 2**64 - 1), st.integers(0, 2**62)), min_size=2))
def test_no_sequence_gives_a_negative_or_infinite_rate(points: list[tuple[int, int]]) -> None:
    tables = [tsc_only({0: tsc}, enabled_ns=enabled) for tsc, enabled in points]
    for rates in rates_of(*tables):
        column = rates.rate("tsc")
        assert np.all(column.values[column.present] >= 0)
        assert np.all(np.isfinite(column.values[column.present]))
