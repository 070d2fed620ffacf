"""The rank-sum test: its rates in noise, and what it finds."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.derive.ranksum import LIKELY_Z, SURE_Z, deviation, median, shift
from nftop.model.column import Floats

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
    "persisting": (persisting(0.5), 0.05, 0.004),
}


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize(("n", "m"), [(10, 10), (60, 12), (60, 60)])
def test_noise_is_no_shift_but_for_the_stated_rate(name: str, n: int, m: int) -> None:
    noise, likely, sure = NOISES[name]
    random = np.random.default_rng(7)
    found = []
    for _ in range(1500):
        values = noise(random, n + m)
        found.append(shift(values[:n], values[n:]))
    assert np.mean([abs(each.z) >= LIKELY_Z or each.apart for each in found]) <= likely
    assert np.mean([abs(each.z) >= SURE_Z or each.apart for each in found]) <= sure


@given(st.integers(12, 60), st.integers(12, 60), st.integers(0, 1000))
def test_a_shift_of_three_deviations_is_found(n: int, m: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    before, after = random.standard_normal(n), random.standard_normal(m) + 6.0
    found = shift(before, after)
    assert found.z > LIKELY_Z
    assert found.z >= SURE_Z or found.apart or min(n, m) < 20
    assert shift(after, before).z == pytest.approx(-found.z)


def test_a_small_shift_is_found_with_samples_enough() -> None:
    random = np.random.default_rng(3)
    found = [
        shift(random.standard_normal(60), random.standard_normal(60) + 1.2).z > SURE_Z
        for _ in range(200)
    ]
    assert np.mean(found) > 0.9


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
    found = shift(np.array(before), np.array(after))
    assert np.isfinite(found.z)
    if not before or not after or len({*before, *after}) == 1:
        assert (found.z, found.apart) == (0.0, False)


def test_apart_is_further_than_either_is_wide() -> None:
    few = np.array([1.0, 2.0, 3.0])
    assert shift(few, few + 4.1).apart
    assert not shift(few, few + 3.9).apart
    assert shift(few + 4.1, few).apart
    assert shift(np.array([1.0] * 9), np.array([2.0] * 9)).apart
    wild = np.array([1.0] * 39 + [2.0])
    assert shift(wild, np.array([2.0] * 9)).apart, "but for a wild one of twenty"
    assert not shift(np.array([1.0] * 17 + [2.0] * 3), np.array([2.0] * 9)).apart


def test_noise_that_persists_weighs_less() -> None:
    slow = np.sin(np.arange(60) / 10)
    fast = slow[np.random.default_rng(1).permutation(60)]
    assert abs(shift(slow, slow + 0.8).z) < abs(shift(fast, fast + 0.8).z) / 2


def test_middle_and_deviation() -> None:
    values = np.array([1.0, 2.0, 3.0, 100.0])
    assert median(values) == 2.5
    assert deviation(values) == 1.0
