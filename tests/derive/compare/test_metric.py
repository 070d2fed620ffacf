"""Words and levels from two samples of one metric."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nftop.derive.compare.metric import DIFFERS, LEAST_SAMPLES, compared, moved, percent, steady
from nftop.derive.compare.settling import SPAN_S
from nftop.derive.compare.verdict import NO_SAMPLE
from nftop.model.metrics.catalogue import cpu_metric
from nftop.model.metrics.nf import NF_METRICS
from nftop.model.missing import Missing, Reason

WHY = Missing(Reason.SOURCE, "here is what to do")


@given(st.integers(0, 10_000), st.floats(-0.5, 1.0))
@settings(max_examples=60)
def test_the_word_follows_the_metrics_good_direction(seed: int, ratio: float) -> None:
    random = np.random.default_rng(seed)
    before = 100 + random.standard_normal(60)
    after = 100 * (1 + ratio) + random.standard_normal(60)
    low, high = (
        compared(cpu_metric(name), before, after, WHY, over=True) for name in ("cpp", "ipc")
    )
    opposite = {"better": "worse", "worse": "better"}
    assert high.word == opposite.get(low.word, low.word)
    if abs(ratio) > 0.05:
        assert low.word == ("worse" if ratio > 0 else "better")
    if abs(ratio) < 0.005:
        assert low.word == "no difference", "what is less than a hundredth is of no use"
    assert low.before == pytest.approx(100, rel=0.02)
    assert low.change_ratio == pytest.approx(ratio, abs=0.02)


def test_too_few_samples_none_and_nothing() -> None:
    cpp = cpu_metric("cpp")
    few, many = np.arange(LEAST_SAMPLES - 1.0), 1000 + np.arange(float(LEAST_SAMPLES))
    assert compared(cpp, few, many, WHY, over=True).word == "too few samples"
    assert compared(cpp, many, few, WHY, over=True).word == "too few samples"
    assert compared(cpp, many, few[:0], WHY, over=True).word == "no number", "it gives none now"
    assert compared(cpp, many, few[:0], NO_SAMPLE, over=True).word == "too few samples"
    none = compared(cpp, few[:0], few[:0], WHY, over=True)
    assert (none.word, none.why, none.before) == ("no number", WHY.message, WHY)
    assert compared(cpp, few[:0], many, WHY, over=True).word == "too few samples"
    grown = compared(cpp, np.zeros(20), np.ones(20), WHY, over=False)
    assert grown.word == "worse" and isinstance(grown.change_ratio, Missing)
    assert compared(cpp, np.zeros(20), np.zeros(20), WHY, over=False).word == "no difference"


def test_no_difference_is_reported_only_where_one_would_have_been_seen() -> None:
    values = np.random.default_rng(1).standard_normal(60) + 50
    cpp = cpu_metric("cpp")
    for count, over, least in ((10, True, 23), (20, True, 23), (20, False, 29), (28, False, 29)):
        row = compared(cpp, values[:count], values[30 : 30 + count], WHY, over=over)
        assert (row.word, row.code) == ("too few samples", "few_samples")
        # More than the least number where the noise seems to persist.
        for lacking in row.lacking:
            assert lacking is not None and least - count <= lacking < least
        assert isinstance(row.detectable, Missing)
    row = compared(cpp, values[:30], values[30:], WHY, over=True)
    assert (row.word, row.code, row.lacking) == ("no difference", "", (0, 0))
    assert not isinstance(row.detectable, Missing) and 0.5 < row.detectable < 2.5
    assert row.detectable_ratio == pytest.approx(row.detectable / 50, rel=0.02)


def test_ten_samples_a_side_never_are_no_difference() -> None:
    """-35 % packets and 7.6 M drops/s, within what ten wide samples can tell."""
    random = np.random.default_rng(6)
    for metric, before, after in (
        ("packets_per_s", 20e6, 13e6),
        ("drop_packets_per_s", 0.1e6, 7.7e6),
    ):
        values = [mean + 8e6 * random.random(10) for mean in (before, after)]
        of = (
            next(nf_metric for nf_metric in NF_METRICS if nf_metric.id == metric)
            if "drop" in metric
            else None
        )
        row = compared(of or cpu_metric(metric), values[0], values[1], WHY, over=True)
        assert (row.word, row.code) == ("too few samples", "few_samples")
        assert all(item is not None and item >= 13 for item in row.lacking)


def test_a_cyclic_load_gets_no_verdict() -> None:
    """A sine of 300 s, with the history that nftop keeps: 10 minutes before the change."""
    random, cpp, wrong = np.random.default_rng(8), cpu_metric("cpp"), 0
    for _ in range(40):
        at = np.arange(735) / 300 * 2 * np.pi + random.uniform(0, 6.3)
        values = 100 + 2 * np.sin(at) + random.standard_normal(735)
        before, earlier = steady(values[480:600]), values[:600]
        for count in (20, 60, 120):
            row = compared(
                cpp, before, values[615 : 615 + count], WHY, over=count == 120, earlier=earlier
            )
            wrong += row.word in DIFFERS
            assert row.code == "cyclic"
    assert wrong == 0


def test_two_cycles_are_not_required_if_more_are_recorded() -> None:
    """A cycle of 16 samples persists, so that five of them are too few."""
    random, cpp = np.random.default_rng(11), cpu_metric("cpp")
    values = 100 + 2 * np.sin(np.arange(160) / 16 * 2 * np.pi) + random.standard_normal(160)
    row = compared(cpp, values[:80], values[80:], WHY, over=True)
    assert (row.code, "two whole cycles" in row.why) == ("cyclic", False)
    row = compared(cpp, values[:80], values[80:105], WHY, over=True)
    assert (row.code, "two whole cycles" in row.why) == ("cyclic", True)


def test_a_pause_of_the_traffic_before_a_change_is_no_cycle() -> None:
    """Switched off and on again, then two minutes of one level and a change of 2 %."""
    random, cpp, words = np.random.default_rng(9), cpu_metric("cpp"), []
    for _ in range(30):
        earlier = np.concatenate(
            [
                random.normal(100, 1, random.integers(60, 120)),
                random.normal(20, 1, random.integers(40, 100)),
                random.normal(100, 1, 120),
            ]
        )
        after = random.normal(102, 1, 120)
        before = steady(earlier[-120:])
        words.append(compared(cpp, before, after, WHY, over=True, earlier=earlier).word)
    assert words.count("worse") >= 28


def test_noise_that_is_observed_every_tick_is_hardly_ever_a_difference() -> None:
    """Noise that persists as a first-order autoregression, and no change: as the legend claims."""
    random, cpp, wrong = np.random.default_rng(1), cpu_metric("cpp"), 0
    for _ in range(100):
        noise = random.standard_normal(2 * SPAN_S) * np.sqrt(1 - 0.95**2)
        for at in range(1, len(noise)):
            noise[at] += 0.95 * noise[at - 1]
        values = 100 + 5 * noise
        before, after = steady(values[:SPAN_S]), values[SPAN_S:]
        results = (
            compared(cpp, before, after[:count], WHY, over=count == SPAN_S)
            for count in range(LEAST_SAMPLES, SPAN_S + 1, 5)
        )
        wrong += any(result.word in ("better", "worse") for result in results)
    assert wrong == 0


def test_what_moved_is_more_than_its_noise_and_a_hundredth() -> None:
    values = 100 + np.random.default_rng(1).standard_normal(30) / 10
    assert moved(values, values * 1.02) == pytest.approx(0.02)
    assert moved(values, values * 1.005) is None
    assert moved(values, values[::-1]) is None
    assert moved(values[:3], values * 2) is None


@pytest.mark.parametrize(
    ("ratio", "text"),
    [
        (0.1234, "+12.3%"),
        (-0.5, "-50.0%"),
        (-1, "-100.0%"),
        (-0.99999, "-99.9%"),
        (2e5, ">x999"),
        (8, "+800.0%"),
        (0, "0%"),
        (2e-4, "+0.02%"),
        (-4e-4, "-0.04%"),
        (-2e-5, "<0.01%"),
        (49, "x50"),
    ],
)
def test_a_change_is_written_so_that_something_is_not_nothing(ratio: float, text: str) -> None:
    assert percent(ratio) == text


def test_what_was_of_another_level_before_is_left_out() -> None:
    random = np.random.default_rng(2)
    quiet, loud = random.standard_normal(60), 9 + random.standard_normal(40)
    kept = steady(np.concatenate((quiet, loud)))
    assert 15 <= len(kept) <= 45 and (kept < 5).sum() <= 5, "but for the rest of a step"
    assert kept.tolist() == np.concatenate((quiet, loud))[-len(kept) :].tolist()


def test_a_level_that_was_left_gradually_is_left_out_where_noise_is_slow() -> None:
    """As in the demo: a rate that swings slowly, and a neighbour that fills the cache by and by."""
    since_s = np.arange(100) - 60.0
    slowed = np.where(since_s < 0, 0.0, 1 - np.exp(-since_s / 4))
    values = (210 + 21 * slowed) * (1 + 0.003 * np.sin(np.arange(100) / 20 * 2 * np.pi))
    kept = steady(values)
    assert len(kept) == 30 and kept.min() > 227


@pytest.mark.parametrize("since", [6, 10, 13, 15, 16])
def test_a_level_that_began_seconds_before_the_change_is_the_one_before_it(since: int) -> None:
    random = np.random.default_rng(4)
    quiet = 42 + 0.02 * random.standard_normal(60)
    loud = 38.2 + 0.02 * random.standard_normal(since)
    straddling = [40.1]
    kept = steady(np.concatenate((quiet, straddling, loud)))
    assert kept.tolist() == loud[-min(since, 15) :].tolist()


def test_noise_is_kept_nearly_always() -> None:
    short = 0
    for seed in range(1000):
        count = seed % 101
        values = np.random.default_rng(seed).standard_normal(count)
        kept = steady(values)
        assert kept.tolist() == values[count - len(kept) :].tolist()
        short += len(kept) < min(count, 15)
    assert short <= 10


@given(st.integers(0, 100))
def test_what_stands_still_is_kept(count: int) -> None:
    assert steady(np.full(count, 7.0)).sum() >= 7.0 * (count - LEAST_SAMPLES)
