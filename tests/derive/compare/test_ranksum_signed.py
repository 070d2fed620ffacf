"""Signed ranks over hosts against SciPy 1.17's numbers, their interval, and Benjamini-Hochberg."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.derive.compare.ranksum import ALPHA, adjusted, centre, least_hosts, signed_rank
from nftop.model.column import Floats

# scipy.stats.wilcoxon: method="exact"; with ties PermutationMethod over all signs, without the
# zeros; above 25 method="approx", correction=True.
SCIPY = [
    ([1, 2, 3, 4, 5, 6], 0.03125),
    ([-0.152, 0.325, 2.164, 1.159, -1.141, 0.495], 0.3125),
    ([-0.123, 0.649, -1.108, 0.742, 0.735, 2.076, 0.817, 1.011], 0.1953125),
    ([-0.993, 2.753, -1.416, 1.602, 0.17, -0.381, -0.156, -0.172, 0.88, 0.39, 1.983, -1.33],
     0.6220703125),
    ([0.497, -0.392, 1.276, -1.618, 0.156, 0.71, -0.984, 1.485, 0.679, 1.507, 1.459, -0.48, -0.298,
      0.297, 1.248, 1.351, -0.21, -0.107, -0.299, -0.084, 0.262, 0.368, 2.558, -0.006, 0.211],
     0.07547956705093384),
    ([-1, 1, -3, 4, 5, -1, 4, 0], 0.375),
    ([-1, 0, -2, 5, -3, 0, 2, 1, -3, 5, 4], 0.48828125),
    ([5, -2, 0, 0, -1, -3, 4, 3, -3, -2, 0, 5, 4], 0.2734375),
    ([-7, 10, -3, -5, 11, -8, -9, 7, -4, 4, -2, -5, -1, 1, -6, -8, 11, 5, -2, 2, 11, 5, 3, -8, -8,
      4, 4, -2, 2, 1], 0.975348036122916),
    ([8, -2, 2, 4, 6, 2, 3, 3, -9, -8, -3, -5, 10, -8, 3, -1, 9, 1, -7, -7, 7, 5, 7, 1, 2, 1, 3, 3,
      -9, 10, 2, 3, 7, -8, 4, -6, 1, 5, -5, -3, 3, 6, -9, 1, 4, -2, -8, 6, 7, -6, 8, -4, -2, -3, -5,
      -1, 1, 10, 0, 8], 0.30385093120690165),
]  # fmt: skip


@pytest.mark.parametrize(("values", "probability"), SCIPY, ids=range(len(SCIPY)))
def test_probabilities_are_scipy_s(values: list[float], probability: float) -> None:
    differences = np.array(values, dtype=np.float64)
    assert signed_rank(differences) == pytest.approx(probability, rel=1e-9)
    assert signed_rank(-differences) == pytest.approx(probability, rel=1e-9)


def test_false_discoveries_are_scipy_s() -> None:
    """scipy.stats.false_discovery_control."""
    values = np.array([0.0078125, 0.03125, 0.0078125, 0.5, 0.0546875, 1.0, 0.0001, 0.02])
    assert adjusted(values) == pytest.approx(
        [0.0208333333333, 0.05, 0.0208333333333, 0.571428571429, 0.0729166666667, 1.0, 0.0008, 0.04]
    )
    assert adjusted(np.array([])).tolist() == []


@given(st.lists(st.integers(-4, 4), min_size=1, max_size=8))
def test_a_probability_is_a_count_of_all_signs(values: list[int]) -> None:
    """Ties and zeros too, by the definition."""
    left = np.array([value for value in values if value], dtype=np.float64)
    sizes = np.abs(left)
    ranks = np.array([(sizes < size).sum() + ((sizes == size).sum() + 1) / 2 for size in sizes])
    middle = ranks.sum() / 2
    sums = [ranks[np.array(signs, dtype=bool)].sum() for signs in product((0, 1), repeat=len(left))]
    away = abs(ranks[left > 0].sum() - middle)
    share = np.mean([abs(item - middle) >= away for item in sums])
    assert signed_rank(np.array(values, dtype=np.float64)) == pytest.approx(float(share))


@pytest.mark.parametrize("count", [6, 9, 14, 25])
def test_the_interval_has_the_centres_that_the_test_does_not_refuse(count: int) -> None:
    values = np.random.default_rng(count).normal(0.3, 1.0, count)
    middle, interval = centre(values)
    assert interval is not None
    low, high = interval
    assert low < middle < high
    near = 1e-9
    inside = [signed_rank(values - at) for at in (low + near, middle, high - near)]
    outside = [signed_rank(values - at) for at in (low - near, high + near)]
    assert min(inside) > ALPHA >= max(outside)


def test_the_estimate_is_the_median_of_the_means_of_pairs() -> None:
    assert centre(np.array([1.0, 2.0, 9.0])) == (3.5, None)  # of 1, 1.5, 2, 5, 5.5, 9
    assert centre(np.arange(1.0, 6.0))[1] is None and centre(np.arange(1.0, 7.0))[1] == (1.0, 6.0)


def test_the_interval_beyond_25_hosts_is_of_the_normal_distribution() -> None:
    """26 hosts: 26 x 27 / 4 - 1.96 x sqrt(26 x 27 x 53 / 24) is 98.3: the 98th means (Lehmann).

    Of powers of 2 the means are in the order of the larger one: 91 have it up to 2^12, 75 from
    2^23 on.
    """
    values = np.exp2(np.arange(26, dtype=np.float64))
    assert centre(values)[1] == ((2.0**6 + 2.0**13) / 2, (1 + 2.0**22) / 2)
    assert centre(-values)[1] == (-(1 + 2.0**22) / 2, -(2.0**6 + 2.0**13) / 2)


def test_infinite_differences_have_ranks_and_cancel() -> None:
    inf = float("inf")
    assert signed_rank(np.array([inf] * 3 + [1.0, 2.0, 3.0])) == 2 / 2**6
    assert centre(np.array([inf, -inf, 1.0]))[0] == 0.5  # -inf, -inf, 0, 1, inf, inf
    assert centre(np.array([inf, inf, 1.0]))[0] == inf


@pytest.mark.parametrize("count", [12, 40])
def test_intervals_hold_the_centre_in_95_of_100_cases(count: int) -> None:
    random = np.random.default_rng(3)
    held = 0
    for _ in range(1000):
        _, interval = centre(random.laplace(2.0, 1.0, count))
        assert interval is not None
        held += interval[0] <= 2.0 <= interval[1]
    assert 0.93 <= held / 1000 <= 0.975


def test_the_fewest_hosts_are_those_of_the_probability() -> None:
    def smallest(hosts: int) -> float:
        return signed_rank(np.arange(1.0, hosts + 1))

    assert (least_hosts(), smallest(5), smallest(6)) == (6, 0.0625, 0.03125)
    for numbers in (1, 2, 21, 100):
        hosts = least_hosts(numbers)
        assert smallest(hosts) * numbers <= ALPHA < smallest(hosts - 1) * numbers


def test_without_an_effect_five_of_a_hundred_families_have_a_false_difference() -> None:
    """20 numbers of 12 hosts; those of a host depend on each other."""
    random = np.random.default_rng(8)

    def family(shifted: int) -> Floats:
        common = random.standard_normal((12, 1))
        values = 0.6 * common + random.standard_normal((12, 20))
        values[:, :shifted] += 3.0
        return adjusted(np.array([signed_rank(values[:, at]) for at in range(20)]))

    assert np.mean([(family(0) <= ALPHA).any() for _ in range(400)]) <= 0.08
    rates = [family(5) <= ALPHA for _ in range(200)]
    false = [rate[5:].sum() / max(1, rate.sum()) for rate in rates]
    assert np.mean(false) <= ALPHA + 0.02
    assert np.mean([rate[:5].mean() for rate in rates]) >= 0.95
