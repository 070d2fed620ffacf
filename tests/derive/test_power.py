"""How many samples the rank-sum test needs, and the smallest difference it sees: simulated."""

from __future__ import annotations

import numpy as np
import pytest

from nftop.derive.compare import DIFFERS, SAMPLES_NEEDED, compared
from nftop.derive.power import lacking_samples, least_samples, power_of
from nftop.derive.ranksum import SURE_Z, shift
from nftop.model.catalogue import cpu_metric
from nftop.model.column import Floats
from nftop.model.reading import Missing, Reason

WHY = Missing(Reason.WARMING, "to come")
CPP = cpu_metric("cpp")
LIVE_Z = 5.0


def autoregression(random: np.random.Generator, persistence: float, n: int) -> Floats:
    values = random.standard_normal(n + 200)
    for at in range(1, n + 200):
        values[at] += persistence * values[at - 1]
    return values[200:]


def separated(random: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """All of one below all of the other, by less than they are wide."""
    return 100 + random.random(n), 101.02 + random.random(n)


@pytest.mark.parametrize(("least_z", "studentized"), [(SURE_Z, True), (LIVE_Z, False)])
def test_from_the_least_number_on_separated_samples_are_found(
    least_z: float, studentized: bool
) -> None:
    random, least = np.random.default_rng(1), least_samples(least_z, studentized=studentized)
    assert least == (SAMPLES_NEEDED if studentized else 29)
    found = {}
    for count in (least - 8, least, least + 5):
        shifts = [shift(*separated(random, count)) for _ in range(800)]
        found[count] = np.mean([each.sure if studentized else abs(each.z) >= least_z
                                for each in shifts])  # fmt: skip
    print("separated samples found:", found)
    assert found[least - 8] < 0.85 and found[least] > 0.93 and found[least + 5] > 0.97


def test_persistence_asks_for_more_and_one_long_side_makes_up_for_little() -> None:
    evens = [lacking_samples(0, 0, r, SURE_Z)[0] for r in (0.0, 0.3, 0.5, 0.7)]
    assert evens == [23, 36, 52, 91]
    assert lacking_samples(23, 23, 0.0, SURE_Z) == (0, 0)
    assert lacking_samples(120, 10, 0.0, SURE_Z) == (0, 0)
    before, after = lacking_samples(120, 10, 0.3, SURE_Z)
    assert before == 0 and after is not None and 0 < after < 26
    assert lacking_samples(10, 120, 0.3, SURE_Z) == (after, before)


def test_fewer_than_the_least_ever_compared_lack_what_that_lacks() -> None:
    few, many = np.arange(4.0), 100 + np.arange(120.0)
    row = compared(CPP, many, few, WHY, over=True)
    assert row.code == "few_samples" and row.lacking[1] is not None and row.lacking[1] >= 6


@pytest.mark.parametrize(("n", "m"), [(30, 30), (60, 60), (120, 60)])
@pytest.mark.parametrize("persistence", [0.0, 0.3, 0.5])
def test_the_stated_difference_is_found_in_four_of_five_cases(
    n: int, m: int, persistence: float
) -> None:
    random, hits, known = np.random.default_rng(2), 0, 0
    for _ in range(250):
        values = autoregression(random, persistence, n + m)
        power = power_of(values[:n], values[n:], SURE_Z)
        if power.detectable is not None:
            known += 1
            hits += shift(values[:n], values[n:] + power.detectable).sure
    if known >= 50:
        assert 0.8 <= hits / known <= 0.99
    assert known > 200 or persistence > 0 or n < 60


@pytest.mark.parametrize("persistence", [0.0, 0.5, 0.9])
def test_separated_samples_are_never_no_difference(persistence: float) -> None:
    """Between the first comparison and the least number it says that samples are too few."""
    random, words = np.random.default_rng(3), []
    for count in (10, 15, 20, 30):
        for _ in range(60):
            values = autoregression(random, persistence, 2 * count)
            width = max(np.ptp(values[:count]), np.ptp(values[count:]))
            after = values[count:] - values[count:].min() + values[:count].max() + width / 10
            row = compared(CPP, values[:count] + 50, after + 50, WHY, over=True)
            words.append(row.word)
    assert set(words) <= {*DIFFERS, "too few samples", "inconclusive"}


@pytest.mark.parametrize("persistence", [0.0, 0.3, 0.6, 0.9])
def test_no_difference_is_hardly_ever_called_one(persistence: float) -> None:
    random = np.random.default_rng(4)
    words = []
    for _ in range(300):
        values = 100 + 3 * autoregression(random, persistence, 120)
        words.append(compared(CPP, values[:60], values[60:], WHY, over=True).word)
    assert sum(word in DIFFERS for word in words) <= 1
