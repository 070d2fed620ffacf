"""Usual rates of a network function, and those before a time."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nftop.derive.nf.recent import RecentRates, RecentState, step_recent
from nftop.model.frame import Frame
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.usual import NEW_NORMAL_AFTER_S
from tests.frames import SECOND_NS, START_NS, frame, nic_drops

LOST = Missing(Reason.STALE)


def tick(second: float, sent: Reading, received: Reading = 20e6, drops: Reading = 0.0) -> Frame:
    base = frame(8, 0)
    readings = {
        **base.nfs[0].readings,
        "tx_packets_per_s": sent,
        "rx_packets_per_s": received,
        **nic_drops(drops),
        "cpp": 200.0,
        "busy_cpp": Missing(Reason.SOURCE),
    }
    nf = replace(base.nfs[0], key="a", readings=readings)
    return replace(base, nfs=(nf,), monotonic_ns=START_NS + int(second * SECOND_NS))


def fold(*frames: Frame, state: RecentState | None = None) -> tuple[RecentState, RecentRates]:
    state = state or RecentState()
    for item in frames:
        state = step_recent(state, item)
    return state, state.rates["a"]


def test_the_usual_rate_is_the_median_after_some_ticks() -> None:
    _, rates = fold(*(tick(second, 20e6) for second in range(7)))
    assert isinstance(rates.usual, Missing)
    _, rates = fold(*(tick(second, 20e6 + second) for second in range(9)))
    assert (rates.usual, rates.usual_arriving) == (20e6 + 4, 20e6)


def test_a_collapse_does_not_become_usual_but_a_slow_decline_does() -> None:
    state, _ = fold(*(tick(second, 20e6) for second in range(60)))
    _, rates = fold(*(tick(60 + second, 0.0) for second in range(300)), state=state)
    assert rates.usual == 20e6 and rates.unusual_since_ns == START_NS + 60 * SECOND_NS
    assert rates.now is not None and rates.now.throughput == 0.0
    _, rates = fold(*(tick(60 + step, 20e6 * 0.995**step) for step in range(400)), state=state)
    assert rates.unusual_since_ns is None
    assert isinstance(rates.usual, float) and rates.usual < 5e6


def test_a_tick_without_a_number_does_not_make_a_collapse_usual() -> None:
    state, _ = fold(*(tick(second, 20e6) for second in range(60)))
    state, _ = fold(*(tick(60 + second, 0.0) for second in range(240)), state=state)
    since_ns = START_NS + 60 * SECOND_NS
    for second in range(300, 340):
        state, rates = fold(tick(second, LOST if second % 7 == 0 else 0.0, LOST), state=state)
        assert (rates.usual, rates.unusual_since_ns) == (20e6, since_ns)
        assert isinstance(rates.before(since_ns, lambda point: point.throughput), float)
        assert rates.now is not None and not rates.now.is_usual
    _, rates = fold(tick(340, 19e6), state=state)
    assert rates.unusual_since_ns is None


def test_a_collapse_ends_with_a_higher_rate_or_is_forgotten() -> None:
    state, _ = fold(*(tick(second, 20e6) for second in range(60)))
    state, _ = fold(*(tick(60 + second, 1e6) for second in range(20)), state=state)
    _, rates = fold(tick(80, 12e6), state=state)
    assert rates.unusual_since_ns is None and rates.usual == 20e6
    late = int(NEW_NORMAL_AFTER_S) + 62
    _, rates = fold(*(tick(80 + second, 1e6) for second in range(late)), state=state)
    assert rates.usual == 1e6


def test_arriving_packets_include_those_dropped_where_they_are_counted() -> None:
    _, rates = fold(tick(0, 1.0, 2e6, 3e6))
    assert rates.now is not None and rates.now.arriving == 5e6
    _, rates = fold(tick(0, 1.0, 2e6, LOST))
    assert rates.now is not None and rates.now.arriving == 2e6


def test_ticks_without_a_number_do_not_count_and_fast_ticks_are_thinned() -> None:
    _, rates = fold(*(tick(second, LOST if second % 2 else 20e6, LOST) for second in range(20)))
    assert rates.usual == 20e6
    _, rates = fold(*(tick(number / 10, 20e6) for number in range(100)))
    assert len(rates.points) == pytest.approx(11, abs=1)


def test_before_is_the_median_of_the_minute_before() -> None:
    values = [10e6] * 30 + [20e6] * 58 + [0.0] * 5
    _, rates = fold(*(tick(second, value) for second, value in enumerate(values)))
    began_ns = START_NS + 89 * SECOND_NS
    assert rates.before(began_ns, lambda point: point.throughput) == 20e6
    early = rates.before(START_NS + SECOND_NS, lambda point: point.throughput)
    assert isinstance(early, Missing) and early.reason is Reason.WARMING


def test_a_function_that_left_is_forgotten_and_a_clock_that_went_back_resets() -> None:
    state, _ = fold(*(tick(second, 20e6) for second in range(10)))
    gone = replace(tick(30, 0.0), nfs=())
    assert "a" in step_recent(state, gone).rates
    assert "a" not in step_recent(state, replace(tick(100, 0.0), nfs=())).rates
    _, rates = fold(tick(-50, 5.0), state=state)
    assert len(rates.points) == 1
