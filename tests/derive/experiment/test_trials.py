"""Recommendations against the truth of the simulated host; `make experiments` does it 200 times."""

from __future__ import annotations

import math

import pytest

from nftop.derive.experiment.engine import duration_s
from nftop.model.struct import replace
from tests.derive.experiment.trials import Noise, pair, trial, words_of

RUNS, NULL_RUNS = range(1000, 1016), range(1000, 1030)


def test_the_recommendation_is_the_best_setting_and_loses_no_packets() -> None:
    right = 0
    for seed in RUNS:
        run = trial(seed)
        curve = run.run()
        assert run.false_words(curve) == 0, seed
        assert curve.recommended is None or not run.drops_more(curve.recommended), seed
        right += curve.recommended == run.best()
    assert right >= len(RUNS) - 2


def test_no_word_of_an_effect_without_one() -> None:
    false = 0
    for seed in NULL_RUNS:
        run = trial(seed, null=True)
        false += run.false_words(run.run()) > 0
    assert false == 0


def test_a_trial_has_no_word_of_an_effect_without_one() -> None:
    words = [words_of(pair(seed, null=True)) for seed in NULL_RUNS]
    assert sum(item.false for item in words) == 0
    assert sum(item.same for item in words) > 0.9 * sum(item.small for item in words)


def test_a_trial_finds_large_differences_of_the_right_sign() -> None:
    words = [words_of(pair(seed)) for seed in RUNS]
    large = sum(item.large for item in words)
    assert large > 10
    assert sum(item.known for item in words) >= 0.9 * large
    assert sum(item.false for item in words) == 0


def test_a_trial_has_all_its_rounds() -> None:
    run = pair(1003, rounds=4)
    run.run()
    assert run.state.ended == "rounds"
    visits = [(visit.round, visit.setting) for visit in run.state.visits[1:]]
    assert sorted(visits) == [(r, n) for r in (1, 2, 3, 4) for n in (0, 1)]
    assert (
        len(
            {
                order
                for r in (1, 2, 3, 4)
                for order in [tuple(n for number, n in visits if number == r)]
            }
        )
        == 2
    )


def test_the_same_seed_is_the_same_experiment() -> None:
    one, other = trial(3), trial(3)
    assert one.run() == other.run()
    assert one.state.visits == other.state.visits


def test_it_takes_as_long_as_was_shown_if_two_rounds_are_clear() -> None:
    run = trial(1000)
    run.noise = Noise(sd=0.0002, persistence=0.0)
    run.run()
    shown = duration_s(run.plan, run.plan.rounds_least)
    assert run.state.ended == "clear"
    assert run.seconds == pytest.approx(shown, rel=0.4)


def test_noise_makes_it_repeat_and_never_past_the_last_round() -> None:
    run = trial(1000)
    run.plan = replace(run.plan, rounds_most=3)
    run.noise = Noise(sd=0.05, persistence=0.9)
    run.run()
    assert run.state.ended == "rounds"
    assert max(visit.round for visit in run.state.visits) == 3


def test_drift_of_the_capacity_is_no_effect() -> None:
    run = trial(7, null=True)
    run.noise = Noise(sd=0.001, persistence=0.3, drift=0.2)
    curve = run.run()
    assert run.false_words(curve) == 0
    assert all(
        math.isfinite(nf.packets_per_s.half) for item in curve.results for nf in item.nfs.values()
    )
