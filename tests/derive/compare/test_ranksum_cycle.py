"""Cycles are seen by their autocorrelation over long lags, and noise and steps are none."""

from __future__ import annotations

import numpy as np
import pytest

from nftop.derive.compare.ranksum import LEAST_SAMPLES, cycle_samples
from nftop.model.column import Floats
from tests.derive.compare.test_ranksum_power import autoregression


def sine(random: np.random.Generator, n: int, period: float, deviations: float) -> Floats:
    phase = random.uniform(0, 2 * np.pi)
    wave = deviations * np.sin(2 * np.pi * np.arange(n) / period + phase)
    return np.asarray(wave + random.standard_normal(n))


@pytest.mark.parametrize("deviations", [0.5, 1.0, 2.0, 10.0])
@pytest.mark.parametrize(("n", "period"), [(600, 300), (600, 200), (450, 300), (240, 60)])
def test_a_sine_is_a_cycle_of_its_period(n: int, period: int, deviations: float) -> None:
    random = np.random.default_rng(1)
    result = [cycle_samples(sine(random, n, period, deviations)) for _ in range(60)]
    seen = np.array([item for item in result if item is not None])
    # A clean one needs more of it: it persists as drift does.
    assert len(seen) >= (55 if 1.0 <= deviations <= 2.0 else 35)
    assert np.all(np.abs(seen / period - 1) < 0.25)


@pytest.mark.parametrize("deviations", [2.0, 10.0])
@pytest.mark.parametrize("period", [4, 5, 8, 10, 12, 15])
def test_a_short_cycle_is_not_taken_for_a_multiple_of_it(period: int, deviations: float) -> None:
    random = np.random.default_rng(4)
    result = [cycle_samples(sine(random, 300, period, deviations)) for _ in range(30)]
    seen = np.array([item for item in result if item is not None])
    assert len(seen) >= 28 and np.all(np.abs(seen - period) <= 1)


@pytest.mark.parametrize("persistence", [0.0, 0.3, 0.6, 0.9, 0.95, 0.98])
@pytest.mark.parametrize("n", [60, 240, 600])
def test_noise_is_no_cycle(n: int, persistence: float) -> None:
    random = np.random.default_rng(2)
    result = [cycle_samples(autoregression(random, persistence, n)) for _ in range(200)]
    assert sum(item is not None for item in result) <= 9


def test_a_step_is_no_cycle_nor_are_constants_nor_few_samples() -> None:
    random, result = np.random.default_rng(3), []
    for _ in range(100):
        values = random.standard_normal(300)
        values[int(300 * random.uniform(0.1, 0.9)) :] += 5
        result.append(cycle_samples(values))
    assert sum(item is not None for item in result) <= 3
    assert cycle_samples(np.ones(300)) is None
    assert cycle_samples(np.tile([0.0, 1.0], 20)[: LEAST_SAMPLES - 1]) is None


def levels(random: np.random.Generator, *lasts: int, on: bool) -> Floats:
    """A load that is switched on or off after so many samples each."""
    runs = []
    for samples in lasts:
        runs.append(random.normal(100 if on else 20, 1, samples))
        on = not on
    return np.concatenate(runs)


def test_a_load_that_was_switched_on_and_off_is_no_cycle() -> None:
    """As often as three times, for times between half and twice as long as others."""
    random = np.random.default_rng(5)

    def samples(least: int = 40, most: int = 100) -> int:
        return int(random.integers(least, most))

    for _ in range(60):
        brief, last = samples(10, 30), samples(60, 130)
        for lasts, on in (
            ((samples(100, 140), 120), False),
            ((samples(60, 120), samples(), last), True),
            ((samples(60, 200), brief, last), True),
            ((samples(), samples(), samples(), last), False),
            ((samples(), samples(), samples(), samples(), last), True),
        ):
            assert cycle_samples(levels(random, *lasts, on=on)) is None, (lasts, on)


def test_a_load_that_is_switched_on_and_off_again_and_again_is_a_cycle() -> None:
    random = np.random.default_rng(6)
    for samples, times in ((30, 12), (50, 8), (15, 16)):
        result = cycle_samples(levels(random, *[samples] * times, on=True))
        assert result is not None and abs(result / (2 * samples) - 1) < 0.1
