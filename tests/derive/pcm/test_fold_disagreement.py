"""Two sources of the same number: what is noise between their seconds, and what is not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from nftop.derive.pcm.fold import READINGS, differ, taken
from nftop.model.column import Floats

ROWS, TICKS = 500, 60
Loads = Callable[[Floats, np.random.Generator], Floats]


def share_of_alarms(
    of: Loads, *, factor: float = 1.0, lag: int = 5, pace: int = 10, ticks: int = TICKS
) -> float:
    """How many of the rows' ticks have the alarm, if the server's second ends `lag` tenths before.

    `of` makes a number for each tenth of a second, float64 (tenths, ROWS): perf tells `factor`
    times its mean over the tick, which is `pace` tenths long.
    """
    rng = np.random.default_rng(3)
    every = max(pace, 8)  # a server is not asked more often
    tenths = of(np.arange(20.0 + every * ticks)[:, None], rng) * np.ones(ROWS)
    state, alarms = None, 0
    for tick in range(1, ticks + 1):
        end = 20 + every * tick
        server = tenths[end - 10 - lag : end - lag].mean(axis=0)
        state = taken(state, factor * tenths[end - pace : end].mean(axis=0), server)
        alarms += int(differ(state, pace / 10).sum())
    return alarms / (ROWS * (ticks - READINGS + 1))


def noisy(ratio: float) -> Loads:
    """Whose seconds vary by this ratio, one standard deviation."""
    return lambda at, rng: 1 + ratio * np.sqrt(10) * rng.standard_normal((len(at), ROWS))


@pytest.mark.parametrize("lag", [2, 5, 9])
@pytest.mark.parametrize(
    "load",
    [
        noisy(0.05),
        noisy(0.1),
        noisy(0.2),
        lambda at, _: 1 + at / 20,  # half as much again each second
        lambda at, _: 1 + 10.0 * (at > 300),
        lambda at, _: 2 + np.sin(at / 10),
    ],
    ids=["5%", "10%", "20%", "ramp", "step", "wave"],
)
def test_seconds_that_do_not_coincide_are_no_difference(load: Loads, lag: int) -> None:
    # Of 28,000 trials. A third of the noisiest had one when five differences of 5 % were enough.
    assert share_of_alarms(load, lag=lag) < 1 / 5000


@pytest.mark.parametrize("pace", [1, 5, 20, 50])
def test_nor_are_ticks_of_another_length(pace: int) -> None:
    assert share_of_alarms(noisy(0.05), pace=pace, ticks=30) < 1 / 1000
    assert share_of_alarms(noisy(0.01), factor=1.25, pace=pace, ticks=30) > 0.95


def test_a_difference_that_stays_is_seen_through_the_noise() -> None:
    assert share_of_alarms(noisy(0.01), factor=1.08) > 0.95
    assert share_of_alarms(noisy(0.05), factor=1.25) > 0.95
    assert share_of_alarms(noisy(0.05), factor=0.75) > 0.95
    assert share_of_alarms(noisy(0.01), factor=1.04) == 0


def test_every_reading_counts_and_a_gap_or_new_rows_begin_anew() -> None:
    one, two = np.array([1.0, 1.0, 0.0]), np.array([2.0, 1.0, 0.0])
    state = None
    for _ in range(READINGS):
        assert state is None or not differ(state, 1.0).any()
        state = taken(state, one, two)
    assert state is not None and differ(state, 1.0).tolist() == [True, False, False]
    gap = taken(state, np.array([np.nan, 1.0, 0.0]), two)
    for _ in range(READINGS - 1):
        assert not differ(gap, 1.0).any()
        gap = taken(gap, one, two)
    assert differ(taken(gap, one, two), 1.0).tolist() == [True, False, False]
    assert not differ(taken(taken(state, one, two), one[:1], two[:1]), 1.0).any()
    # It was the larger once.
    assert not differ(taken(state, two * 9, one), 1.0).any()
