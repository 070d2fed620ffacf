"""Which samples count before and after a change, and when occupancy has settled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.cache.changes import groups_in, together
from nftop.derive.compare.settling import MOST_S, SPAN_S, UNMETERED_S, Term
from nftop.derive.compare.verdict import verdict_of
from nftop.model.missing import Missing, Reason
from nftop.model.rdt.rdt import ResctrlTable
from tests.frames import SECOND_NS, START_NS
from tests.rdt import MIB, in_cache
from tests.story import CHEAPER, Story, component, cost, word

WHY = Missing(Reason.SOURCE, "here is what to do")


def again(at: int, bits: int) -> Callable[[int, ResctrlTable], ResctrlTable]:
    """OVS' mask too, from a tick on."""

    def tables(tick: int, element: ResctrlTable) -> ResctrlTable:
        if tick < at:
            return element
        groups = tuple(
            replace(own, caches=(in_cache(0, bits, 3 * MIB, 0), *own.caches[1:]))
            if own.name == "ovs"
            else own
            for own in element.groups
        )
        return replace(element, groups=groups)

    return tables


def test_the_change_before_and_the_one_after_bound_the_samples() -> None:
    story = Story(shown=cost(CHEAPER), tables=again(120, 0x300))
    frame = story.last(200)
    window = story.history.window(frame)
    first, second = together(frame.noticed)
    old = verdict_of(window, first.at_ns, groups_in(first.changes))
    new = verdict_of(window, second.at_ns, groups_in(second.changes))
    [before, after] = [component(item, "fwd").rows[1] for item in (old, new)]
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
    [row] = [row for row in component(ended, "fwd").rows if row.metric.id == "packets_per_s"]
    assert ended.over and ended.settled
    assert ended.taken_back_s == 40
    assert ended.span_s == pytest.approx(40 - ended.left_out_s, abs=1)
    assert row.n_after == int(ended.span_s)
    earlier = verdict_of(story.history.window(story.last(110)), at_tick(60), ("vpp",), term)
    assert [item.word for item in earlier.sections] == [item.word for item in ended.sections]
    stands = verdict_of(window, at_tick(60), ("vpp",))
    assert stands.taken_back_s is None and stands.span_s == SPAN_S


def test_a_change_that_is_taken_back_before_it_settled_has_no_verdict() -> None:
    story = Story(shown=cost(CHEAPER))
    window = story.history.window(story.last(200))
    ended = verdict_of(window, at_tick(60), ("vpp",), Term(taken_back_ns=at_tick(62)))
    assert ended.over and not ended.settled
    assert {row.n_after for item in ended.sections for row in item.rows} == {0}


def test_the_window_is_as_long_as_the_guard_waits() -> None:
    story = Story(shown=cost(CHEAPER))
    window = story.history.window(story.last(80))
    waits = verdict_of(window, at_tick(60), ("vpp",), Term(until_ns=at_tick(120)))
    assert not waits.over and waits.span_s == pytest.approx(60 - waits.left_out_s, abs=1)
    assert waits.age_s == 20
    kept = verdict_of(window, at_tick(60), ("vpp",))
    assert kept.span_s == SPAN_S


def test_changes_that_did_not_settle_are_judged_as_one() -> None:
    story = Story(shown=cost(CHEAPER), tables=again(66, 0x300))
    frame = story.last(150)
    window = story.history.window(frame)
    assert len(together(frame.noticed)) == 2
    result = verdict_of(window, together(frame.noticed)[-1].at_ns, ("ovs",))
    assert len(result.noticed) == 2 and "judged as one" in result.notes[0]
    assert set(result.groups) == {"ovs", "vpp"}
    assert component(result, "fwd").word == "better"
    first = verdict_of(window, together(frame.noticed)[0].at_ns, ("vpp",))
    assert first.over and not first.settled
    assert component(first, "fwd").word == "too few samples"


def test_a_change_that_was_not_noticed_yet_is_judged_by_its_time() -> None:
    story = Story(shown=cost(CHEAPER))
    frame = replace(story.last(150), noticed=())
    result = verdict_of(story.history.window(frame), START_NS + 60 * SECOND_NS, ("vpp",))
    assert result.noticed == () and component(result, "fwd").word == "better"


def test_where_occupancy_is_not_metered_a_fixed_time_is_left_out(
    snapshot: SnapshotAssertion,
) -> None:
    def unmetered(_: int, element: ResctrlTable) -> ResctrlTable:
        return replace(
            element,
            groups=tuple(
                replace(
                    own,
                    caches=tuple(
                        replace(one, values={**one.values, "llc_occupancy": WHY})
                        for one in own.caches
                    ),
                )
                for own in element.groups
            ),
        )

    result = Story(shown=cost(CHEAPER), tables=unmetered).verdict(150)
    assert result.left_out_s == UNMETERED_S
    assert result.notes == snapshot
    assert word(result, "vpp", "occupancy_bytes", "class") == f"no number: {WHY.message}"
    assert component(result, "fwd").word == "better"


def test_occupancy_that_never_stands_still_is_reported(snapshot: SnapshotAssertion) -> None:
    def restless(tick: int, element: ResctrlTable) -> ResctrlTable:
        used = tick % 3 * 9 * MIB if tick >= 60 else 9 * MIB
        return replace(
            element,
            groups=tuple(
                replace(
                    own,
                    caches=tuple(
                        replace(one, values={**one.values, "llc_occupancy": used})
                        for one in own.caches
                    ),
                )
                for own in element.groups
            ),
        )

    result = Story(shown=cost(CHEAPER), tables=restless).verdict(150)
    assert result.settled and result.left_out_s == MOST_S
    assert result.notes == snapshot
