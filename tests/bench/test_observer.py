"""The statistics of `make observer`."""

from __future__ import annotations

import numpy as np
import pytest

from tests.bench.observer import Block, holm, median_interval, report, sign_flip_p


def test_p_is_that_of_all_sign_changes() -> None:
    # Of the eight ways to sign three numbers, two are as far from zero as all of one sign.
    assert sign_flip_p(np.array([1.0, 1.0, 1.0]), 40_000) == pytest.approx(2 / 8, abs=0.01)
    # |1 - 1| / 2 is as near to zero as can be: every way is as far.
    assert sign_flip_p(np.array([1.0, -1.0]), 1000) == 1.0


def test_an_effect_of_every_pair_is_seen_and_noise_is_not() -> None:
    noise = np.random.default_rng(3).normal(0, 0.01, 40)
    assert sign_flip_p(noise - 0.02, 5000) < 0.001
    assert sign_flip_p(noise - noise.mean(), 5000) > 0.9


def test_the_interval_contains_the_median() -> None:
    values = np.random.default_rng(5).normal(0.5, 0.1, 60)
    low, high = median_interval(values, 5000)
    assert low < np.median(values) < high
    assert 0.01 < high - low < 0.2


def test_p_of_several_tests_are_those_of_holm() -> None:
    assert holm({"a": 0.04, "b": 0.01, "c": 0.03}) == {"b": 0.03, "c": 0.06, "a": 0.06}
    assert holm({"a": 0.6, "b": 0.9}) == {"a": 1.0, "b": 1.0}


def test_the_report_reports_what_monitors_cost(capsys: pytest.CaptureFixture[str]) -> None:
    seen = {
        "nothing": Block(100e6, 250.0, 2.0),
        "nftop, 1 Hz": Block(99e6, 255.0, 3.0),
        "htop": Block(100e6, 251.0, 2.0),
    }
    report([seen] * 20)
    lines = {line[2:20].strip(): line[20:].split() for line in capsys.readouterr().out.splitlines()}
    assert lines["nothing"] == ["250.0", "2.0"]
    wanted = ["-1.00", "%", "-1.00", "to", "-1.00", "%", "0.000", "255.0", "3.0"]
    assert lines["nftop, 1 Hz"] == wanted
    assert lines["htop"][-3:] == ["1.000", "251.0", "2.0"]
    assert "btop" not in lines
