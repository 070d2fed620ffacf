"""Another program on the counters, and CPUs that go: when whose events count. No mount."""

from __future__ import annotations

import pytest

from tests.lab import machine as machines
from tests.lab.perf.competitor import Demand, parse
from tests.lab.perf.pmu import load
from tests.lab.tests.events import GENERAL, MS, POLLER, Lab, S, expected, words


def test_groups_of_its_own_take_turns_with_everybody() -> None:
    lab = Lab()
    lab.tree.compete("groups 2 4")
    leader = lab.group(0xC0, *GENERAL[:2])
    alone = lab.raw(0xC0, cpu=POLLER)
    lab.now_ns = 12 * S
    # The third of three, each of which wants what no two of them can have.
    assert words(leader)[1:3] == [12 * S, 4 * S]
    # What needs no general counter fits beside one of them, and not while the other is tried first.
    assert words(alone)[2] == pytest.approx(8 * S, abs=4 * MS)
    lab.tree.compete("none")
    lab.now_ns = 24 * S
    assert words(leader)[1:3] == [24 * S, 16 * S]
    assert str(lab.tree.competitor) == "none"


def test_counters_that_it_keeps_are_nobody_else_s() -> None:
    lab = Lab()
    full, smaller = lab.group(0x3C, *GENERAL[:4]), lab.group(0x3C, *GENERAL[:3])
    lab.now_ns = S
    before = [words(item)[2] for item in (full, smaller)]
    lab.tree.compete("pinned 1")
    lab.now_ns = 2 * S
    assert words(full)[2] == before[0]
    # While the other is tried first, in vain, nobody runs.
    assert words(smaller)[2] - before[1] == S // 2


@pytest.mark.parametrize("text", ["", "pinned", "pinned 5", "pinned 0", "groups 0 1", "groups 1 x"])
def test_what_makes_no_sense_is_refused(text: str) -> None:
    pmu = load(machines.load("skx-4"))
    with pytest.raises(ValueError, match=r"counters|none of none|invalid literal"):
        parse(text, pmu)
    assert parse("pinned 4", pmu) == Demand(1, 4, pinned=True)
    assert parse(str(parse("groups 3 2", pmu)), pmu) == Demand(3, 2)


def test_its_events_end_with_their_cpu() -> None:
    lab = Lab()
    lab.tree.compete("pinned 4")
    lab.online.remove(POLLER)
    lab.tree.settle()
    lab.online.add(POLLER)
    event = lab.raw(GENERAL[0], cpu=POLLER)
    lab.now_ns = S
    assert words(event)[1:] == [S, S]
    lab.tree.compete("none")
    assert words(event)[1:] == pytest.approx([S, S], abs=1)  # a ns a read


def test_a_change_holds_from_its_own_time_on() -> None:
    lab = Lab(watchdog=True)
    leader, gone = lab.group(0x3C, *GENERAL[:4]), lab.raw(0xC0, cpu=POLLER)
    lab.now_ns = S
    lab.watchdog = False
    lab.online.remove(POLLER)
    lab.tree.settle()
    lab.now_ns = 3 * S
    assert words(leader)[1:3] == [3 * S, 2 * S]
    assert words(gone) == [expected(0xC0, POLLER, 0, S), S, S]
