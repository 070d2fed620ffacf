"""The rank-sum test: its rates in noise, and what it finds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.derive.compare.ranksum import LIKELY_Z, deviation, shift
from nftop.model.column import Floats
from nftop.model.median import median

Noise = Callable[[np.random.Generator, int], Floats]


def persisting(ratio: float) -> Noise:
    """A first-order autoregression."""

    def noise(random: np.random.Generator, n: int) -> Floats:
        values = random.standard_normal(n + 50)
        for at in range(1, n + 50):
            values[at] += ratio * values[at - 1]
        return values[50:]

    return noise


NOISES: dict[str, tuple[Noise, float, float]] = {
    # What it is, and at most which share may look likely and sure to be a shift.
    "normal": (lambda random, n: random.standard_normal(n), 0.02, 0.001),
    "with wild ticks": (lambda random, n: random.standard_cauchy(n), 0.02, 0.001),
    "coarse": (lambda random, n: random.integers(0, 3, n).astype(float), 0.02, 0.001),
    "persisting": (persisting(0.5), 0.04, 0.001),
}


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize(("n", "m"), [(10, 10), (60, 12), (60, 60)])
def test_noise_is_no_shift_but_for_the_stated_rate(name: str, n: int, m: int) -> None:
    noise, likely, sure = NOISES[name]
    random = np.random.default_rng(7)
    result = []
    for _ in range(1500):
        values = noise(random, n + m)
        result.append(shift(values[:n], values[n:]))
    assert np.mean([abs(item.z) >= LIKELY_Z or item.clear for item in result]) <= likely
    assert np.mean([item.significant or item.clear for item in result]) <= sure


def runs(random: np.random.Generator, ratio: float, count: int, n: int) -> Floats:
    """float64 (count, n): first-order autoregressions that have been going on for long."""
    steps = random.standard_normal((count, n + 300))
    for at in range(1, n + 300):
        steps[:, at] += ratio * steps[:, at - 1]
    return steps[:, 300:]


def test_noise_that_persists_is_a_shift_in_less_than_one_of_a_thousand_cases() -> None:
    """What docs/recording.md and the legends say, of samples as few and as many as there may be."""
    random = np.random.default_rng(11)
    reports, count = {}, 1500
    for ratio in (0.0, 0.3, 0.5, 0.7, 0.9, 0.95, 0.98):
        for n, m in ((20, 20), (60, 20), (60, 60)):
            element = runs(random, ratio, count, n + m)
            reports[ratio, n, m] = sum(shift(row[:n], row[n:]).significant for row in element)
    print("sure by chance, of", count, reports)
    assert sum(reports.values()) / (len(reports) * count) < 0.0005
    assert max(reports.values()) / count < 0.0025, "which 4 of 1500 would be"
    independent = sum(result for (ratio, _, _), result in reports.items() if not ratio)
    assert independent <= 1


@pytest.mark.parametrize(("n", "m", "least"), [(20, 20, 0.85), (30, 30, 0.97), (60, 20, 0.97)])
def test_a_shift_of_six_deviations_is_detected(n: int, m: int, least: float) -> None:
    random = np.random.default_rng(2)
    result = []
    for _ in range(300):
        before, after = random.standard_normal(n), random.standard_normal(m) + 6.0
        one = shift(before, after)
        assert shift(after, before).z == pytest.approx(-one.z)
        result.append(one.z > LIKELY_Z and (one.significant or one.clear))
    assert np.mean(result) >= least


def test_a_small_shift_is_detected_with_samples_enough() -> None:
    random = np.random.default_rng(3)
    result = [
        shift(random.standard_normal(60), random.standard_normal(60) + 1.2).significant
        for _ in range(200)
    ]
    assert np.mean(result) > 0.9


def test_the_variance_is_that_of_all_ways_to_share_out_the_ranks() -> None:
    """Against the definition: every order of seven values, three of them before."""
    values = [1.0, 2.0, 2.0, 4.0, 5.0, 6.0, 7.0]
    ranks = {1.0: 1.0, 2.0: 2.5, 4.0: 4.0, 5.0: 5.0, 6.0: 6.0, 7.0: 7.0}
    sums = [sum(ranks[value] for value in order[3:]) for order in permutations(values)]
    spread = float(np.std(sums))
    # Falling and rising in turns, so that nothing persists.
    before, after = np.array([2.0, 1.0, 2.0]), np.array([6.0, 4.0, 7.0, 5.0])
    above = sum(ranks[value] for value in after) - float(np.mean(sums))
    assert shift(before, after).z == pytest.approx((above - 0.5) / spread)


@given(st.lists(st.floats(-1e9, 1e9), max_size=30), st.lists(st.floats(-1e9, 1e9), max_size=30))
def test_any_two_samples_give_a_number(before: list[float], after: list[float]) -> None:
    result = shift(np.array(before), np.array(after))
    assert np.isfinite(result.z)
    if not before or not after or len({*before, *after}) == 1:
        assert (result.z, result.significant, result.clear) == (0.0, False, False)


def test_clear_is_further_than_either_is_wide() -> None:
    few = np.array([1.0, 2.0, 3.0])
    assert shift(few, few + 4.1).clear
    assert not shift(few, few + 3.9).clear
    assert shift(few + 4.1, few).clear
    assert shift(np.array([1.0] * 9), np.array([2.0] * 9)).clear
    wild = np.array([1.0] * 39 + [2.0])
    assert shift(wild, np.array([2.0] * 9)).clear, "but for a wild one of twenty"
    assert not shift(np.array([1.0] * 17 + [2.0] * 3), np.array([2.0] * 9)).clear


def test_noise_that_persists_weighs_less() -> None:
    slow = np.sin(np.arange(60) / 10)
    fast = slow[np.random.default_rng(1).permutation(60)]
    assert abs(shift(slow, slow + 0.8).z) < abs(shift(fast, fast + 0.8).z) / 2


def test_middle_and_deviation() -> None:
    values = np.array([1.0, 2.0, 3.0, 100.0])
    assert median(values) == 2.5
    assert deviation(values) == 1.0
