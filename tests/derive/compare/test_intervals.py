"""Intervals: what counts as a sample, and that noise and drift are no difference."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.derive.compare.intervals import BLOCKS, Entity, Interval, blocks, moved_by, row_of
from nftop.derive.compare.ranksum import shift
from nftop.model.column import Floats
from nftop.model.frame import Frame
from nftop.model.metrics.catalogue import cpu_metric
from nftop.model.missing import Missing, Reason
from tests.frames import frame

WHY = Missing(Reason.IDLE, "nothing runs")
CPP = cpu_metric("cpp")
Noise = Callable[[np.random.Generator, int], Floats]


def persisting(ratio: float) -> Noise:
    def noise(random: np.random.Generator, n: int) -> Floats:
        steps = random.standard_normal(n + 200)
        return np.array(list(accumulate(steps, lambda was, step: ratio * was + step)))[200:]

    return noise


def swinging(random: np.random.Generator, n: int) -> Floats:
    at = np.arange(n) / random.uniform(20, 300) + random.uniform(0, 6)
    return np.asarray(np.sin(at) + 0.1 * random.standard_normal(n))


NOISES: dict[str, Noise] = {
    "white": lambda random, n: random.standard_normal(n),
    "persisting": persisting(0.98),
    "persisting for long": persisting(0.995),
    "a random walk": persisting(1.0),
    "slow waves": swinging,
}


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize(("n", "m"), [(60, 60), (300, 300), (1500, 120)])
def test_noise_and_drift_are_no_difference(name: str, n: int, m: int) -> None:
    random = np.random.default_rng(5)
    results = []
    for _ in range(100):
        values = NOISES[name](random, n + m)
        # So that a change of 1 % is less than the noise.
        results.append(row_of(CPP, values[:n] + 50, values[n:] + 50, WHY).result.word)
    assert sum(word in ("better", "worse") for word in results) <= 5


def test_without_blocks_drift_would_be_a_difference() -> None:
    random = np.random.default_rng(5)
    sure = 0
    for _ in range(100):
        values = NOISES["a random walk"](random, 600)
        sure += shift(values[:300], values[300:]).significant
    assert sure > 15


def test_a_step_is_detected_in_noise() -> None:
    random = np.random.default_rng(5)
    for n, m, step in ((60, 60, 3.0), (600, 600, 1.5), (1500, 120, 1.5)):
        a, b = random.standard_normal(n) + 50, random.standard_normal(m) + 50 + step
        assert row_of(CPP, a, b, WHY).result.word == "worse"
        assert row_of(CPP, b, a, WHY).result.word == "better"
        results = moved_by(a, b)
        assert results == pytest.approx(step / 50, abs=0.015)


def test_a_drift_within_an_interval_is_reported(snapshot: SnapshotAssertion) -> None:
    random = np.random.default_rng(5)
    ramp = np.linspace(0.0, 3.0, 60)
    noise = random.standard_normal((2, 60))
    results = row_of(CPP, 100 + ramp + noise[0], 102.6 + ramp + noise[1], WHY).result
    assert results.word == "inconclusive"
    assert results.why == snapshot
    results = row_of(CPP, 100 + noise[0], 101 + ramp + noise[1], WHY).result
    assert results.word == "inconclusive"
    assert results.why == snapshot
    assert row_of(CPP, 100 + ramp + noise[0], 110 + ramp + noise[1], WHY).result.word == "worse"


@given(st.integers(0, 700), st.integers(0, 700))
def test_blocks_are_as_long_on_both_sides_and_few(n: int, m: int) -> None:
    a, b = blocks(np.arange(n, dtype=float), np.arange(m, dtype=float))
    assert min(len(a), len(b)) <= BLOCKS and len(a) >= min(n, BLOCKS // 2)
    size = max(1, -(-min(n, m) // BLOCKS))
    assert (len(a), len(b)) == (n // size, m // size)
    assert np.all(np.diff(np.concatenate((a, a[-1:] + size))) == size)


def test_more_samples_are_requested_only_where_they_would_be_enough() -> None:
    """With noise that persists a little there is a verdict after two additions at most."""
    random = np.random.default_rng(7)
    obeyed = []
    for ratio in (0.0, 0.2, 0.3):
        for _ in range(30):
            a, b = (persisting(ratio)(random, 120) + 50 for _ in range(2))
            lengths, words = [18, 18], []
            for _ in range(3):
                row = row_of(CPP, a[: lengths[0]], b[: lengths[1]], WHY).result
                words.append(row.word)
                if row.code != "few_samples":
                    break
                lengths = [
                    was + (count or 0) for was, count in zip(lengths, row.lacking, strict=True)
                ]
                assert max(lengths) <= BLOCKS, "so that each is a block of its own"
            assert words[0] == "too few samples"
            obeyed.append(words[-1] != "too few samples")
    assert np.mean(obeyed) >= 0.8


@pytest.mark.parametrize("n", [60, 61, 120, 600])
def test_noise_that_persists_in_long_intervals_is_not_answered_with_a_number(n: int) -> None:
    random = np.random.default_rng(8)
    codes = []
    for _ in range(30):
        values = persisting(0.98)(random, 2 * n) + 500
        row = row_of(CPP, values[:n], values[n:], WHY).result
        codes.append(row.code)
        assert row.code != "few_samples"
        if row.code == "persistent_noise":
            assert row.lacking == (None, None)
    assert codes.count("persistent_noise") >= 10


@pytest.mark.parametrize("n", [60, 120])
def test_a_cycle_longer_than_the_intervals_is_detected_from_their_context(n: int) -> None:
    """A sine of 300 samples, of which 600 before A and behind B are known."""
    random, words = np.random.default_rng(10), []
    for _ in range(40):
        at = np.arange(1200 + 2 * n) / 300 * 2 * np.pi + random.uniform(0, 2 * np.pi)
        values = 100 + 3 * np.sin(at) + random.standard_normal(len(at))
        middle = 600 + n
        a, b = values[600:middle], values[middle : middle + n]
        row = row_of(CPP, a, b, WHY, (values[:middle], values[middle:])).result
        words.append(row.word)
        assert row.code == "cyclic"
    assert set(words) == {"inconclusive"}


def test_numbers_are_of_samples_and_words_of_blocks() -> None:
    values = np.array([1.0, 9.0, np.nan, 2.0])
    row = row_of(CPP, np.tile(values, 100), np.tile(values, 50), WHY)
    assert (row.result.n_before, row.result.n_after) == (300, 150)
    assert (row.result.before, row.result.spread_before) == (2.0, 1.0)
    assert (row.blocks_a, row.blocks_b) == (100, 50)
    empty = row_of(CPP, np.array([np.nan]), np.array([]), WHY).result
    assert (empty.word, empty.why, empty.before) == ("no number", "nothing runs", WHY)


FWD, VPP = Entity("nf", "fwd", "dpdk"), Entity("nf", "vpp", "vpp")


def aged(tick: int, age_s: float | None) -> Frame:
    """As `frame`, its DPDK applications asked so long before the tick."""
    base = frame(8, tick)
    base = replace(base, nfs=(base.nfs[0], replace(base.nfs[1], kind="vpp")))
    dpdk = replace(base.sources["dpdk"], age_s=age_s)
    return replace(base, sources={**base.sources, "dpdk": dpdk})


def test_the_first_frame_only_begins_and_the_rest_counts() -> None:
    results = Interval()
    for tick in range(1, 6):
        results.take(aged(tick, 0.1))
    assert (results.ticks, len(results.entities[FWD].of("packets_per_s"))) == (5, 4)
    readings = [nf.readings["cpp"] for tick in range(2, 6) for nf in aged(tick, 0.1).nfs[:1]]
    assert results.entities[FWD].of("cpp").tolist() == readings
    # Of a kind that is no source here all frames count.
    assert len(results.entities[VPP].of("cpp")) == 4
    assert (results.last_ns - results.first_ns) == 4_000_000_000


def test_what_is_shown_again_is_not_counted_again() -> None:
    results = Interval()
    # Asked every three seconds, first before the interval.
    for tick in range(2, 11):
        results.take(aged(tick, float((tick + 1) % 3)))
    # Read at 2, 5 and 8: the first of these counts what was before.
    assert len(results.entities[FWD].of("packets_per_s")) == 2
    silent = Interval()
    for tick in range(1, 5):
        silent.take(aged(tick, None))
    assert FWD not in silent.entities and VPP in silent.entities


def test_a_source_that_was_read_before_the_interval_counts_from_its_next_reading() -> None:
    results = Interval()
    for tick in range(4, 12):
        results.take(aged(tick, float((tick + 1) % 3)))
    # Read at 2, 5, 8 and 11: what 5 tells began at 2.
    assert len(results.entities[FWD].of("packets_per_s")) == 2


def test_a_number_counts_only_where_what_it_rests_on_is_new() -> None:
    """IPC that a sensor server tells once in three ticks, CPP of counters that came in time."""
    seen = Interval()
    for tick in range(1, 13):
        base = aged(tick, 0.1)
        rows = len(base.cpus)
        server = replace(base.sources["dpdk"], age_s=float(tick % 3))
        reports = replace(base.cpus, origins={"ipc": ("pcm",) * rows})
        late = replace(base.sources["perf"], age_s=0.0 if tick != 7 else 1.0)
        sources = {**base.sources, "pcm": server, "perf": late}
        seen.take(replace(base, cpus=reports, sources=sources))
    series = seen.entities[FWD]
    known = {name: int(np.isfinite(series.of(name)).sum()) for name in series.values}
    assert (known["packets_per_s"], known["ipc"], known["cpp"]) == (11, 3, 10)
    assert len({len(value) for value in series.values.values()}) == 1, "they stay side by side"


def test_the_kernel_s_own_packets_are_counted_by_another_source_than_its_cpu_time() -> None:
    seen = Interval()
    for tick in range(1, 10):
        base = aged(tick, 0.1)
        netdev = replace(base.sources["dpdk"], age_s=float(tick % 3))
        kernel = replace(base.nfs[0], kind="kernel")
        seen.take(replace(base, nfs=(kernel,), sources={**base.sources, "netdev": netdev}))
    assert len(seen.entities[Entity("nf", "fwd", "kernel")].of("packets_per_s")) == 2


def test_a_session_behind_another_begins_anew() -> None:
    seen = Interval()
    for tick in (*range(10, 16), *range(1, 6)):
        seen.take(aged(tick, 0.1))
    assert seen.ticks == 11
    # The first of either only begins.
    assert len(seen.entities[FWD].of("packets_per_s")) == 5 + 4


def test_two_of_one_name_are_distinguished_by_their_cpus() -> None:
    results = Interval()
    for tick in range(1, 4):
        base = aged(tick, 0.1)
        duplicate = replace(base.nfs[0], key="other", cpus=base.nfs[1].cpus)
        results.take(replace(base, nfs=(base.nfs[0], duplicate)))
    assert set(results.entities) == {
        Entity("nf", "fwd", "dpdk, CPUs 1-2"),
        Entity("nf", "fwd", "dpdk, CPUs 3"),
    }
