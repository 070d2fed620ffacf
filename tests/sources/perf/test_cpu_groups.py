"""What was lost to another user of the counters comes back, and costs nothing meanwhile."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.derive.cpu.counters import CounterRates, CounterState, step_counters
from nftop.model.missing import Missing, Reason
from nftop.model.sample import CounterTable, SourceReading
from nftop.sources.perf.cpu_groups import RETRY_MAX_NS, RETRY_MIN_NS, RetryPace
from tests.samples import topology
from tests.sources.perf.test_group import (
    SECOND,
    A,
    Bench,
    ran,
    rates,
    reason,
)
from tests.sources.perf_kernel import INSTRUCTIONS, STARTED_NS, Event, FakeKernel

__all__ = ["rates"]  # a fixture that every test here needs, too
CPUS = topology(4)
TICKS = RETRY_MIN_NS // SECOND
LOST = frozenset({(0, (0, None))})


class Host:
    """A bench on whose host another program may take what a group needs, and its rates."""

    def __init__(self, root: Path, *, turns: bool = True) -> None:
        self.taken: set[Event] = set()
        self.cpus = {0, 1, 2, 3}
        self.fake = FakeKernel(root, share=self.share)
        self.bench = Bench(self.fake, turns=turns)
        self.state, self.ticks = CounterState(), 0

    def share(self, cpu: int, group: tuple[Event, ...]) -> float:
        return float(cpu not in self.cpus or not self.taken & set(group))

    def tick(self) -> tuple[CounterTable, CounterRates]:
        table = self.bench.tick()
        self.ticks += 1
        reading = SourceReading(table, self.ticks * SECOND, 1)
        self.state, result = step_counters(self.state, reading, CPUS)
        return table, result

    def ticked(self, ticks: int) -> CounterTable:
        """The last table of so many."""
        return [self.tick()[0] for _ in range(ticks)][-1]

    def until(
        self, holds: Callable[[CounterTable], bool], *, at_most: int
    ) -> tuple[int, CounterRates]:
        """Ticks until then, and the rates there; all the time cycles are known and true."""
        for number in range(1, at_most + 1):
            table, result = self.tick()
            must_have(result, cycles=3)
            if holds(table):
                return number, result
        raise AssertionError("it did not come back")


def must_have(result: CounterRates, **per_ns: int) -> None:
    """Every CPU has these rates."""
    for event, rate in per_ns.items():
        for row in range(4):
            assert result.rate(event)[row] == pytest.approx(rate * SECOND), (event, row)


def present(event: str) -> Callable[[CounterTable], bool]:
    return lambda table: all(reason(table, event, row) is Reason.PRESENT for row in range(4))


def test_a_smaller_plan_is_left_once_the_better_one_runs_again(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.taken = {INSTRUCTIONS}
    assert reason(host.ticked(3), "instructions") is Reason.TAKEN
    host.tick()
    host.taken = set()
    waited, result = host.until(present("instructions"), at_most=TICKS + 3)
    assert waited > TICKS - 5
    must_have(result, instructions=5)  # from its first tick on
    for _ in range(2):
        must_have(host.tick()[1], cycles=3, instructions=5)
    table, result = host.tick()
    must_have(result, cycles=3, instructions=5, a=2, b=7)
    assert table.gaps == ""
    assert len(host.fake.fds) == 4 * 6
    host.bench.source.close()
    assert host.fake.fds == {}


def test_the_tick_in_which_it_goes_over_is_whole(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.taken = {INSTRUCTIONS}
    host.ticked(3)
    host.taken = set()
    tables = [host.tick()[0] for _ in range(TICKS + 3)]
    over = next(at for at, table in enumerate(tables) if present("instructions")(table))
    before, switched, after = tables[over - 2 : over + 1]
    # The trial's slice is its own, and then the group goes on where the other one stopped.
    assert ran(before, switched)[0] == 900
    assert ran(switched, after)[0] == 900
    for one, two in pairwise(tables):
        passed = (two.enabled_ns - one.enabled_ns).astype(np.int64)
        assert abs(passed - SECOND).max() <= 2 * STARTED_NS
        assert (two.running_ns[:, 0] > one.running_ns[:, 0]).all()
    cycles = [int(table.values[0, 0]) for table in tables]
    assert cycles == sorted(cycles)


def test_a_turn_that_was_lost_comes_back_alone(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.taken, host.cpus = {A}, {1}
    table = host.ticked(6)
    assert reason(table, "a", row=1) is Reason.TAKEN
    assert reason(table, "a", row=0) is Reason.PRESENT
    host.taken = set()
    _, result = host.until(present("a"), at_most=TICKS + 5)
    must_have(result, a=2)
    assert len(host.fake.fds) == 4 * 6


def test_while_it_stays_taken_a_trial_is_not_seen(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.taken = {A}
    host.ticked(8)
    tables = []
    for _ in range(3 * TICKS + 10):
        table, result = host.tick()
        must_have(result, cycles=3, instructions=5, b=7)
        assert {reason(table, "a", row) for row in range(4)} == {Reason.TAKEN}
        tables.append(table)
    # Of its slices no group shown has any, and nothing of it stays.
    slices = [ran(*pair) for pair in pairwise(tables)]
    lost = [number for number, item in enumerate(slices) if sum(item) == 900]
    assert len(lost) == 2
    assert lost[1] - lost[0] == pytest.approx(2 * TICKS, abs=3)
    assert len(host.fake.fds) == 4 * 4


def test_without_turns_the_main_group_comes_back_too(tmp_path: Path) -> None:
    host = Host(tmp_path, turns=False)
    host.taken = {INSTRUCTIONS}
    for _ in range(TICKS + 5):
        host.tick()
    assert len(host.fake.fds) == 4  # tried in vain
    host.taken = set()
    assert not host.bench.source.turning
    host.until(present("instructions"), at_most=2 * TICKS + 3)
    host.tick()
    assert not host.bench.source.turning
    assert len(host.fake.fds) == 4 * 2


def test_a_shared_lock_excludes_no_reader(tmp_path: Path) -> None:
    fake = FakeKernel(tmp_path, share=lambda cpu, group: 0.5)
    bench = Bench(fake)
    bench.tick()
    opens = fake.opens
    assert [bench.tick().gaps for _ in range(2 * TICKS)][-1] == ""
    assert fake.opens == opens


def test_a_trial_that_can_t_be_opened_waits_for_the_next(tmp_path: Path) -> None:
    host = Host(tmp_path)
    host.taken = {A}
    host.ticked(8)
    host.taken = set()
    limit, host.fake.fd_limit = host.fake.fd_limit, len(host.fake.fds)
    for _ in range(TICKS):
        must_have(host.tick()[1], cycles=3, instructions=5)
    assert reason(host.tick()[0], "a") is Reason.TAKEN
    host.fake.fd_limit = limit
    host.until(present("a"), at_most=2 * TICKS + 5)


@pytest.mark.parametrize("gone", ["offline", "fails"])
def test_a_cpu_that_goes_during_its_trial_leaves_nothing_open(tmp_path: Path, gone: str) -> None:
    host = Host(tmp_path)
    host.taken, host.cpus = {A}, {2}
    host.ticked(6)
    assert len(host.fake.fds) == 4 * 6 - 2
    while len(host.fake.fds) < 4 * 6:
        host.tick()
    if gone == "offline":
        host.fake.take_offline(2)
        host.fake.write_online()
    else:
        host.fake.read_errno[2] = errno.EIO
    table = host.bench.tick()
    host.fake.read_errno.clear()
    assert all(fd.cpu != 2 for fd in host.fake.fds.values()) or gone == "fails"
    assert len(table.cpus) == (3 if gone == "offline" else 4)
    host.bench.source.close()
    assert host.fake.fds == {}


@given(st.lists(st.integers(0, 40 * SECOND), min_size=1, max_size=200))
def test_the_pace_is_never_faster_than_it_reports(steps: list[int]) -> None:
    pace, now, wait, last = RetryPace(), 0, RETRY_MIN_NS, 0
    assert not pace.is_due(0, LOST)
    for step in steps:
        now += step
        due = pace.is_due(now, LOST)
        assert due == (now - last >= wait)
        if due:
            last, wait = now, min(2 * wait, RETRY_MAX_NS)


def test_the_pace_begins_anew_when_something_has_changed() -> None:
    pace = RetryPace()
    for now in range(0, 20 * RETRY_MAX_NS, RETRY_MIN_NS):
        pace.is_due(now, LOST)
    more = LOST | {(1, (0, 2))}
    assert not pace.is_due(now, more)
    assert not pace.is_due(now + RETRY_MIN_NS - 1, more)
    assert pace.is_due(now + RETRY_MIN_NS, more)
    assert not pace.is_due(now + RETRY_MAX_NS, frozenset())


def test_an_event_that_is_absent_now_has_not_stepped_back(tmp_path: Path) -> None:
    """A plan that is gone over to may lack what the one before had."""
    host = Host(tmp_path)
    table = host.ticked(3)
    reasons, values = table.reasons.copy(), table.values.copy()
    reasons[:, 1], values[:, 1] = Reason.TAKEN, 0
    after = replace(
        table,
        reasons=reasons,
        values=values,
        enabled_ns=table.enabled_ns + SECOND,
        running_ns=table.running_ns + SECOND,
    )
    after.values[:, ::2] += np.uint64(3 * SECOND)  # each group counts cycles
    reading = SourceReading(after, (host.ticks + 1) * SECOND, 1)
    _, result = step_counters(host.state, reading, CPUS)
    assert result.rate("cycles")[0] == pytest.approx(3 * SECOND)
    lacking = result.rate("instructions")[0]
    assert isinstance(lacking, Missing) and lacking.reason is Reason.TAKEN
