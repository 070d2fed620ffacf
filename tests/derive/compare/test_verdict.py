"""What a change of cache classes did: from frames before and after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nftop.derive.cache.changes import groups_in, together
from nftop.derive.compare.metric import DIFFERS, LEAST_SAMPLES, compared, moved, percent, steady
from nftop.derive.compare.settling import LEAST_S, MOST_S, SPAN_S, UNMETERED_S, Term
from nftop.derive.compare.verdict import NO_SAMPLE, Verdict, verdict_of
from nftop.model.frame import Frame
from nftop.model.ids import Cpu
from nftop.model.metrics.catalogue import cpu_metric
from nftop.model.metrics.nf import NF_METRICS
from nftop.model.rdt.rdt import ROOT, ResctrlTable
from nftop.model.reading import Missing, Reason
from nftop.render.cache.page import verdict_lines as card_lines
from nftop.store.history.history import TickHistory
from tests.frames import SECOND_NS, START_NS, with_cells
from tests.rdt import MIB, group, in_cache
from tests.story import Story, part, word

CHEAPER, SAME = 0.85, 1.0
WHY = Missing(Reason.SOURCE, "here is what to do")


def cost(ratio: float, changed_at: int = 60, **after: float) -> Callable[..., Any]:
    """Of `fwd`: all it costs a packet is `ratio` of what it was, and `after` is added to that."""

    def shown(tick: int) -> Mapping[str, Mapping[str, float]]:
        by = ratio if tick >= changed_at else 1.0
        now = {"cpp": 376.0 * by, "busy_cpp": 281.5 * by}
        return {"fwd": {**now, **(after if tick >= changed_at else {})}}

    return shown


# The words, from two samples


@given(st.integers(0, 10_000), st.floats(-0.5, 1.0))
@settings(max_examples=60)
def test_the_word_follows_the_metrics_good_direction(seed: int, ratio: float) -> None:
    random = np.random.default_rng(seed)
    before = 100 + random.standard_normal(60)
    after = 100 * (1 + ratio) + random.standard_normal(60)
    low, high = (compared(cpu_metric(name), before, after, WHY, over=True)
                 for name in ("cpp", "ipc"))  # fmt: skip
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


def test_no_difference_is_said_only_where_one_would_have_been_seen() -> None:
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
        ("packets_per_s", 20e6, 13e6), ("drop_packets_per_s", 0.1e6, 7.7e6)
    ):  # fmt: skip
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


def test_two_cycles_are_not_asked_for_where_there_are_more() -> None:
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
        earlier = np.concatenate([
            random.normal(100, 1, random.integers(60, 120)),
            random.normal(20, 1, random.integers(40, 100)),
            random.normal(100, 1, 120),
        ])  # fmt: skip
        after = random.normal(102, 1, 120)
        before = steady(earlier[-120:])
        words.append(compared(cpp, before, after, WHY, over=True, earlier=earlier).word)
    assert words.count("worse") >= 28


def test_noise_that_is_looked_at_every_tick_is_hardly_ever_a_difference() -> None:
    """Noise that persists as a first-order autoregression, and no change: as the legend claims."""
    random, cpp, wrong = np.random.default_rng(1), cpu_metric("cpp"), 0
    for _ in range(100):
        noise = random.standard_normal(2 * SPAN_S) * np.sqrt(1 - 0.95**2)
        for at in range(1, len(noise)):
            noise[at] += 0.95 * noise[at - 1]
        values = 100 + 5 * noise
        before, after = steady(values[:SPAN_S]), values[SPAN_S:]
        looks = (compared(cpp, before, after[:count], WHY, over=count == SPAN_S)
                 for count in range(LEAST_SAMPLES, SPAN_S + 1, 5))  # fmt: skip
        wrong += any(look.word in ("better", "worse") for look in looks)
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
        (2e-4, "+0+%"),
        (-2e-4, "-0+%"),
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


@given(st.integers(0, 100), st.integers(0, 1000))
def test_noise_is_kept_nearly_always(count: int, seed: int) -> None:
    values = np.random.default_rng(seed).standard_normal(count)
    kept = steady(values)
    assert kept.tolist() == values[count - len(kept) :].tolist()
    assert len(kept) >= min(count, 15)
    assert steady(np.full(count, 7.0)).sum() >= 7.0 * (count - LEAST_SAMPLES)


# The verdict, from frames


@pytest.fixture(scope="module")
def cheaper() -> Verdict:
    return Story(shown=cost(CHEAPER)).verdict(150)


def test_a_class_that_got_more_cache_costs_less_a_packet(cheaper: Verdict) -> None:
    found = part(cheaper, "fwd")
    assert (found.word, found.groups, found.changed) == ("better", ("vpp",), True)
    assert found.why.startswith("CPP -1") and "bCPP -1" in found.why
    assert word(cheaper, "fwd", "packets_per_s").startswith("no difference")
    assert word(cheaper, "fwd", "llc_misses_per_packet").startswith("no number: no counter was")
    assert word(cheaper, "vpp", "occupancy_bytes", "class") == "more"
    row = next(row for row in found.rows if row.metric.id == "cpp")
    assert row.before == pytest.approx(376, rel=0.01)
    assert row.change_ratio == pytest.approx(CHEAPER - 1, abs=0.01)
    assert row.n_before == 57 and 60 < row.n_after < 85
    assert not isinstance(row.spread_before, Missing) and 1 < row.spread_before < 6


def test_what_overlaps_stands_behind_what_was_changed(cheaper: Verdict) -> None:
    names = [(item.kind, item.name, item.changed) for item in cheaper.parts]
    assert names == [("class", "vpp", True), ("nf", "fwd", True),
                     ("class", "ovs", False), ("nf", "vpp", False)]  # fmt: skip
    assert part(cheaper, "vpp").word == "no difference"
    assert word(cheaper, "vpp", "cpp").startswith("inconclusive"), "it is not busy all the time"
    assert ROOT not in [item.name for item in cheaper.parts], "it has no way in common with them"


def test_the_time_in_which_occupancy_settles_is_left_out(cheaper: Verdict) -> None:
    slow = Story(shown=cost(CHEAPER), settle_s=6.0).verdict(150)
    assert LEAST_S < cheaper.left_out_s < slow.left_out_s < MOST_S
    assert cheaper.settled and not cheaper.over
    early = Story(shown=cost(CHEAPER)).verdict(66)
    assert not early.settled and early.left_out_s == pytest.approx(6, abs=0.2)
    assert part(early, "fwd").word == "settling"
    assert [row.n_after for item in early.parts for row in item.rows if row.n_after] == []


def test_it_becomes_final(cheaper: Verdict) -> None:
    story = Story(shown=cost(CHEAPER))
    later, last = story.verdict(230), story.verdict(300)
    assert later.over and not cheaper.over
    assert later.parts == last.parts
    row = next(row for row in part(last, "fwd").rows if row.metric.id == "cpp")
    assert SPAN_S - 2 <= row.n_after <= SPAN_S


@pytest.mark.parametrize("seed", range(4))
def test_noise_alone_is_no_difference(seed: int) -> None:
    verdict = Story(seed=seed, noise=0.03, full=frozenset({"fwd", "vpp"})).verdict(150)
    for name in ("fwd", "vpp"):
        assert part(verdict, name).word == "no difference"


def test_a_neighbour_that_came_shortly_before_is_what_was_there() -> None:
    """It cost a fifth since 40 s before the change, which gives that back."""

    def shown(tick: int) -> Mapping[str, Mapping[str, float]]:
        return {"fwd": {"cpp": 376.0 * (1.2 if 60 <= tick < 100 else 1.0)}}

    verdict = Story(shown=shown, changed_at=100).verdict(180)
    assert word(verdict, "fwd", "cpp") == "better"
    assert part(verdict, "fwd").rows[1].change_ratio == pytest.approx(1 / 1.2 - 1, abs=0.01)


@pytest.mark.parametrize("ratio", [0.7, 1.4])
def test_where_the_load_moved_nothing_is_said_of_a_packets_cost(ratio: float) -> None:
    shown = cost(CHEAPER, rx_packets_per_s=14.892e6 * ratio)
    verdict = Story(shown=shown, full=frozenset()).verdict(150)
    found = part(verdict, "fwd")
    assert found.word == "inconclusive"
    assert found.why == f"load moved {found.why.split()[-1]}"
    assert float(found.why.split()[-1].rstrip("%")) == pytest.approx(100 * (ratio - 1), abs=1.0)
    assert {row.word for row in found.rows if row.n_after} == {"inconclusive"}


def test_a_core_that_is_busy_all_the_time_takes_what_it_can() -> None:
    shown = cost(CHEAPER, rx_packets_per_s=14.892e6 / CHEAPER)
    found = part(Story(shown=shown).verdict(150), "fwd")
    assert found.word == "better" and "Mpps +17" in found.why


@pytest.mark.parametrize("more", [1.2e6, -1.2e6])
def test_drops_follow_the_load_where_cores_are_full(more: float) -> None:
    """They forward as many as before; what is offered beyond that, more or less, is dropped."""

    def shown(tick: int) -> Mapping[str, Mapping[str, float]]:
        return {"fwd": {"drop_packets_per_s": 2e6 + (more if tick >= 60 else 0.0)}}

    verdict = Story(shown=shown).verdict(150)
    assert word(verdict, "fwd", "drop_packets_per_s").startswith("inconclusive: load moved")
    assert word(verdict, "fwd", "packets_per_s").startswith("no difference")
    assert part(verdict, "fwd").word == "no difference"


def test_drops_are_offered_too() -> None:
    """Before, a tenth was dropped; after, none is: the load is what it was."""

    def shown(tick: int) -> Mapping[str, Mapping[str, float]]:
        rx, drop = (9e6, 1e6) if tick < 60 else (10e6, 0.0)
        by = 1.0 if tick < 60 else CHEAPER
        now = {"rx_packets_per_s": rx, "drop_packets_per_s": drop, "cpp": 376.0 * by}
        return {"fwd": now, "vpp": now}

    def untold(each: Frame) -> Frame:
        """`vpp`, which has one core, says nothing; `fwd` has two that were busy before."""
        full = {"fwd": each.monotonic_ns < START_NS + 60 * SECOND_NS, "vpp": None}
        return replace(each, nfs=tuple(replace(nf, saturated=full[nf.name]) for nf in each.nfs))

    frames, history = [untold(item) for item in Story(shown=shown).frames(150)], TickHistory()
    for frame in frames:
        history.append(frame)
    verdict = verdict_of(history.window(frames[-1]), START_NS + 60 * SECOND_NS, ("vpp", "ovs"))
    for name in ("fwd", "vpp"):
        assert word(verdict, name, "packets_per_s") == "better"
        assert word(verdict, name, "drop_packets_per_s") == "better"
        assert word(verdict, name, "cpp") == "better", "at most so much after, and that is less"
        assert part(verdict, name).word == "better"


def test_empty_polls_are_no_cost_of_a_packet() -> None:
    verdict = Story(shown=cost(CHEAPER), full=frozenset()).verdict(150)
    assert word(verdict, "fwd", "cpp").startswith("inconclusive: empty polls are in it")
    assert word(verdict, "fwd", "ipc").startswith("inconclusive: empty polls")
    assert word(verdict, "fwd", "busy_cpp") == "better"
    assert part(verdict, "fwd").word == "better"


def test_a_cost_that_empty_polls_may_be_in_is_a_bound() -> None:
    found = Story(full=frozenset({"fwd"})).verdict(100)
    bounds = {row.metric.id: row.bounds for row in part(found, "vpp").rows}
    assert bounds["cpp"] == (True, True)
    assert bounds["busy_cpp"] == bounds["packets_per_s"] == (False, False)
    assert {row.bounds for row in part(found, "fwd").rows} == {(False, False)}
    drawn = [line.text for line in card_lines(found, 120)]
    assert any(item.startswith(" CPP ") and item.count("<") == 2 for item in drawn)


def test_a_core_that_drops_once_is_not_known_to_be_busy_all_the_time() -> None:
    def shown(tick: int) -> Mapping[str, Mapping[str, float]]:
        drops = 2e6 if tick in (50, 80) else 0.0
        return {"vpp": {"rx_packets_per_s": 10e6, "drop_packets_per_s": drops}}

    def untold(each: Frame) -> Frame:
        return replace(each, nfs=tuple(replace(nf, saturated=None) for nf in each.nfs))

    frames, history = [untold(item) for item in Story(shown=shown).frames(100)], TickHistory()
    for frame in frames:
        history.append(frame)
    found = verdict_of(history.window(frames[-1]), START_NS + 60 * SECOND_NS, ("vpp", "ovs"))
    rows = {row.metric.id: row for row in part(found, "vpp").rows}
    assert rows["cpp"].bounds == (True, True)
    assert "it is not known whether its cores are busy" in rows["cpp"].why


def test_a_network_function_that_tells_too_little_says_why() -> None:
    def silent(each: Frame) -> Frame:
        bare = {"cpp": WHY, "busy_cpp": WHY}
        return replace(
            each,
            nfs=tuple(replace(nf, saturated=None, cpp_clock=None,
                              readings={**nf.readings, **bare}) for nf in each.nfs),
        )  # fmt: skip

    story = Story()
    frames, history = [silent(item) for item in story.frames(150)], TickHistory()
    for frame in frames:
        history.append(frame)
    verdict = verdict_of(history.window(frames[-1]), frames[60].monotonic_ns, ("vpp",))
    assert word(verdict, "fwd", "cpp") == f"no number: {WHY.message}"
    assert part(verdict, "fwd").word == "no difference", "of its packets"
    assert word(verdict, "fwd", "ipc").startswith("inconclusive: it is not known whether")


def test_too_few_samples_before() -> None:
    verdict = Story(changed_at=8, shown=cost(CHEAPER, 8)).verdict(80)
    assert part(verdict, "fwd").word == "too few samples"


def test_misses_by_packet_where_every_core_tells() -> None:
    story = Story(shown=cost(CHEAPER))
    last = None
    again = Story()
    for tick, frame in enumerate(story.frames(200), start=1):
        # Counted in every third tick, and held in between.
        misses = 4.0 + (tick // 3) % 7 / 100 - (1.0 if tick >= 60 else 0.0)
        last = with_cells(frame, "llc_misses_per_packet", {1: misses, 2: misses})
        again.history.append(last)
    assert last is not None
    verdict = verdict_of(again.history.window(last), START_NS + 60 * SECOND_NS, ("vpp",))
    row = next(row for row in part(verdict, "fwd").rows if row.metric.id == "llc_misses_per_packet")
    assert row.word == "better"
    assert row.n_before == 15 and row.n_after < 50, "what is held is not counted again"
    assert row.change_ratio == pytest.approx(-0.25, abs=0.01)


# Which change


def again(at: int, bits: int) -> Callable[[int, ResctrlTable], ResctrlTable]:
    """OVS' mask too, from a tick on."""

    def tables(tick: int, each: ResctrlTable) -> ResctrlTable:
        if tick < at:
            return each
        groups = tuple(
            replace(own, caches=(in_cache(0, bits, 3 * MIB, 0), *own.caches[1:]))
            if own.name == "ovs" else own
            for own in each.groups
        )  # fmt: skip
        return replace(each, groups=groups)

    return tables


def test_the_change_before_and_the_one_after_bound_the_samples() -> None:
    story = Story(shown=cost(CHEAPER), tables=again(120, 0x300))
    frame = story.last(200)
    window = story.history.window(frame)
    first, second = together(frame.noticed)
    old = verdict_of(window, first.at_ns, groups_in(first.changes))
    new = verdict_of(window, second.at_ns, groups_in(second.changes))
    [before, after] = [part(item, "fwd").rows[1] for item in (old, new)]
    assert old.over and before.n_after < 60
    assert 30 <= after.n_before <= before.n_after, "whole steps of what is of one level"
    assert before.word == "better" and after.word == "no difference"
    assert new.groups == ("ovs",)


def at_tick(tick: int) -> int:
    """CLOCK_MONOTONIC of a tick, ns."""
    return START_NS + tick * SECOND_NS


def test_the_time_of_taking_it_back_ends_the_samples() -> None:
    """Taken back 40 s after it, and no reading shows that: all later ticks are as after it."""
    story = Story(shown=cost(CHEAPER))
    frame = story.last(200)
    window = story.history.window(frame)
    term = Term(taken_back_ns=at_tick(100))
    ended = verdict_of(window, at_tick(60), ("vpp",), term)
    [row] = [row for row in part(ended, "fwd").rows if row.metric.id == "packets_per_s"]
    assert ended.over and ended.settled
    assert ended.taken_back_s == 40
    assert ended.span_s == pytest.approx(40 - ended.left_out_s, abs=1)
    assert row.n_after == int(ended.span_s)
    earlier = verdict_of(story.history.window(story.last(110)), at_tick(60), ("vpp",), term)
    assert [item.word for item in earlier.parts] == [item.word for item in ended.parts]
    stands = verdict_of(window, at_tick(60), ("vpp",))
    assert stands.taken_back_s is None and stands.span_s == SPAN_S


def test_a_change_that_is_taken_back_before_it_settled_has_no_verdict() -> None:
    story = Story(shown=cost(CHEAPER))
    window = story.history.window(story.last(200))
    ended = verdict_of(window, at_tick(60), ("vpp",), Term(taken_back_ns=at_tick(62)))
    assert ended.over and not ended.settled
    assert {row.n_after for item in ended.parts for row in item.rows} == {0}


def test_the_window_is_as_long_as_the_guard_waits() -> None:
    story = Story(shown=cost(CHEAPER))
    window = story.history.window(story.last(80))
    waits = verdict_of(window, at_tick(60), ("vpp",), Term(until_ns=at_tick(120)))
    assert not waits.over and waits.span_s == pytest.approx(60 - waits.left_out_s, abs=1)
    drawn = "\n".join(line.text for line in card_lines(waits, 200))
    assert f"up to {waits.span_s:.0f} s" in drawn and str(SPAN_S) not in drawn
    kept = verdict_of(window, at_tick(60), ("vpp",))
    assert f"up to {SPAN_S} s" in card_lines(kept, 200)[0].text


def test_changes_that_did_not_settle_are_judged_as_one() -> None:
    story = Story(shown=cost(CHEAPER), tables=again(66, 0x300))
    frame = story.last(150)
    window = story.history.window(frame)
    assert len(together(frame.noticed)) == 2
    found = verdict_of(window, together(frame.noticed)[-1].at_ns, ("ovs",))
    assert len(found.noticed) == 2 and "judged as one" in found.notes[0]
    assert set(found.groups) == {"ovs", "vpp"}
    assert part(found, "fwd").word == "better"
    first = verdict_of(window, together(frame.noticed)[0].at_ns, ("vpp",))
    assert first.over and not first.settled
    assert part(first, "fwd").word == "too few samples"


def test_a_change_that_was_not_noticed_yet_is_judged_by_its_time() -> None:
    story = Story(shown=cost(CHEAPER))
    frame = replace(story.last(150), noticed=())
    found = verdict_of(story.history.window(frame), START_NS + 60 * SECOND_NS, ("vpp",))
    assert found.noticed == () and part(found, "fwd").word == "better"


def test_where_occupancy_is_not_metered_a_fixed_time_is_left_out() -> None:
    def unmetered(_: int, each: ResctrlTable) -> ResctrlTable:
        return replace(each, groups=tuple(
            replace(own, caches=tuple(
                replace(one, values={**one.values, "llc_occupancy": WHY}) for one in own.caches))
            for own in each.groups))  # fmt: skip

    found = Story(shown=cost(CHEAPER), tables=unmetered).verdict(150)
    assert found.left_out_s == UNMETERED_S
    assert found.notes == ("occupancy is not metered here",)
    assert word(found, "vpp", "occupancy_bytes", "class") == f"no number: {WHY.message}"
    assert part(found, "fwd").word == "better"


def test_occupancy_that_never_stands_still_is_said() -> None:
    def restless(tick: int, each: ResctrlTable) -> ResctrlTable:
        used = tick % 3 * 9 * MIB if tick >= 60 else 9 * MIB
        return replace(each, groups=tuple(
            replace(own, caches=tuple(
                replace(one, values={**one.values, "llc_occupancy": used}) for one in own.caches))
            for own in each.groups))  # fmt: skip

    found = Story(shown=cost(CHEAPER), tables=restless).verdict(150)
    assert found.settled and found.left_out_s == MOST_S
    assert found.notes == (f"occupancy still moves {MOST_S} s after the change",)


def of_programs(cpus: tuple[int, ...], ticks: int) -> Verdict:
    """On a class without network functions: its mask in L3 0 shrinks, and CPU 4's IPC falls.

    CPU 4 is beside that cache, CPU 6 beside the other one: its IPC rises.
    """

    def tables(tick: int, each: ResctrlTable) -> ResctrlTable:
        mine = group("vm", 3, cpus, in_cache(0, 0x00F if tick < 60 else 0x003), in_cache(1, 0x00F))
        groups = (
            replace(own, cpus=tuple(cpu for cpu in own.cpus if cpu not in cpus))
            for own in each.groups
        )
        return replace(each, groups=(*groups, mine))

    story = Story(tables=tables, changed_at=999)
    made = []
    for tick, frame in enumerate(story.frames(ticks), start=1):
        noise, step = tick % 5 / 100, 0.3 if tick >= 60 else 0.0
        busy = with_cells(frame, "cpu_time_ratio", {4: 1.0, 6: 1.0})
        made.append(with_cells(busy, "ipc", {4: 1.0 + noise - step, 6: 2.0 + noise + step}))
    again = Story()
    for item in made:
        again.history.append(item)
    last = together(made[-1].noticed)[-1]
    return verdict_of(again.history.window(made[-1]), last.at_ns, groups_in(last.changes))


@pytest.mark.parametrize(
    ("cpus", "said"),
    [((4,), "less"), ((4, 6), "less"), ((6,), "no number: no CPU at this cache")],
)
def test_a_class_without_network_functions_has_the_ipc_of_its_cpus_at_the_cache(
    cpus: tuple[int, ...], said: str
) -> None:
    found = of_programs(cpus, 150)
    assert found.groups == ("vm",)
    assert word(found, "vm", "ipc", "class") == said, "of what nobody knows the work of"
    assert (part(found, "vm", "class").word == "less") == (said == "less")


def test_what_has_no_sample_after_the_change_yet_is_settling_alone() -> None:
    found = of_programs((4,), 62)
    row = next(item for item in part(found, "vm", "class").rows if item.metric.id == "ipc")
    assert (row.word, row.why, row.n_after) == ("settling", "", 0)
    assert isinstance(row.after, Missing)
    assert row.after.reason is Reason.WARMING


def test_cpus_that_move_are_about_both_classes_and_the_cache_beside_them() -> None:
    def tables(tick: int, each: ResctrlTable) -> ResctrlTable:
        def cpus(name: str, own: tuple[Cpu, ...]) -> tuple[Cpu, ...]:
            rest = tuple(cpu for cpu in own if cpu != 5)
            return (*rest, Cpu(5)) if name == ("vpp" if tick >= 60 else ROOT) else rest

        return replace(each, groups=tuple(
            replace(own, cpus=cpus(own.name, own.cpus)) for own in each.groups))  # fmt: skip

    frame = (story := Story(tables=tables, changed_at=999)).last(150)
    last = together(frame.noticed)[-1]
    found = verdict_of(story.history.window(frame), last.at_ns, groups_in(last.changes))
    assert found.groups == (ROOT, "vpp")
    assert [item.name for item in found.parts if item.kind == "class"] == [ROOT, "vpp", "ovs"]
