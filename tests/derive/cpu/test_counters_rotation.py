"""Groups that take turns tick by tick: between its turns an event keeps what it had."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.derive.cpu.counters import (
    AWAITING_TURN,
    NEVER_RAN,
    CounterRates,
    CounterState,
    step_counters,
)
from nftop.model.missing import Missing, Reason
from nftop.model.sample import CounterTable, SourceReading
from tests.samples import S, topology

TWO = topology(2, smt=False)
CLOCKS = ("cycles", "instructions")
PER_NS = {"cycles": 3, "instructions": 5}


@dataclass
class Rotation:
    """Two CPUs, a main group and `turns` more: each counts cycles, instructions and one of its own.

    `per_ns` is what its own event counts; CPU 1 counts as CPU 0 does.
    """

    per_ns: Sequence[int]
    state: CounterState = field(default_factory=CounterState)
    now_ns: int = S
    enabled: list[int] = field(default_factory=lambda: [0, 0])
    inspected_at: int = 0  # how many groups take turns on CPU 0, if somebody looks at it

    def __post_init__(self) -> None:
        groups = len(self.per_ns)
        self.ran = np.zeros((2, groups), np.uint64)
        self.events = tuple(clock for g in range(groups) for clock in (*CLOCKS, f"own_{g}"))
        self.counted = np.zeros((2, 3 * groups), np.uint64)
        self.reasons = np.zeros((2, 3 * groups), np.uint8)

    def tick(self, turn: int | None, *, main_ns: int = 900, turn_ns: int = 100) -> CounterRates:
        """An interval in which the main group ran, and then this one."""
        slices = [(0, main_ns)] + ([(turn, turn_ns)] if turn is not None else [])
        for group, ran_ns in slices:
            self.ran[:, group] += np.uint64(ran_ns)
            rates = (*PER_NS.values(), self.per_ns[group])
            self.counted[:, 3 * group : 3 * group + 3] += np.array(rates, np.uint64) * np.uint64(
                ran_ns
            )
            self.enabled = [item + ran_ns for item in self.enabled]
        return self.read()

    def read(self) -> CounterRates:
        self.now_ns += S
        groups = len(self.per_ns)
        table = CounterTable(
            cpus=np.array([0, 1], np.int32),
            events=self.events,
            group=np.repeat(np.arange(groups, dtype=np.int32), 3),
            values=np.where(self.reasons > 0, 0, self.counted).astype(np.uint64),
            reasons=self.reasons.copy(),
            enabled_ns=np.repeat(np.array(self.enabled, np.uint64)[:, None], groups, 1),
            running_ns=self.ran.copy(),
            turns=groups - 1,
        )
        if self.inspected_at:
            mine = replace(table, cpus=table.cpus[:1], turns=self.inspected_at)
            table = replace(table, focus=mine)
        self.state, rates = step_counters(self.state, SourceReading(table, self.now_ns, 1), TWO)
        return rates


def started(*per_ns: int) -> Rotation:
    rotation = Rotation(per_ns)
    rotation.read()
    return rotation


def why(rates: CounterRates, event: str, cpu: int = 0) -> Missing:
    reading = rates.rate(event)[cpu]
    assert isinstance(reading, Missing), reading
    assert rates.rate_by_cycles(event)[cpu] == rates.share(event)[cpu] == reading
    return reading


slices = st.integers(1, 10**9)


@given(
    per_ns=st.lists(st.integers(0, 9), min_size=1, max_size=5),
    ticks=st.lists(st.tuples(st.integers(0, 4), slices, slices), min_size=1, max_size=30),
)
def test_constant_rates_come_back_through_any_rotation(
    per_ns: list[int], ticks: list[tuple[int, int, int]]
) -> None:
    rotation = started(*per_ns)
    turns = len(per_ns) - 1
    last: dict[int, int] = {}
    for number, (turn, main_ns, turn_ns) in enumerate(ticks):
        ran = turn if 0 < turn <= turns else None
        rates = rotation.tick(ran, main_ns=main_ns, turn_ns=turn_ns)
        last[0] = number
        if ran is not None:
            last[ran] = number
        for name, item in PER_NS.items():
            assert rates.rate(name)[0] == pytest.approx(item * S, rel=1e-12)
            assert rates.share(name)[0] == rates.coverage[0] == 1.0
        for group, entry in enumerate(per_ns):
            name = f"own_{group}"
            if group in last and number - last[group] <= (turns + 2 if turns else 0):
                assert rates.rate(name)[0] == pytest.approx(entry * S, rel=1e-12)
                assert rates.rate_by_cycles(name)[1] == pytest.approx(entry * S, rel=1e-9)
            else:
                late = Reason.STALE if group in last else Reason.TAKEN
                never = group not in last and number < turns + 2
                assert why(rates, name).reason is (Reason.WARMING if never else late)


def test_a_group_s_last_turn_speaks_until_the_next() -> None:
    rotation = started(1, 2, 4)
    first = rotation.tick(1)
    assert why(first, "own_2") == AWAITING_TURN
    assert first.rate("own_1")[0] == pytest.approx(2 * S)
    second = rotation.tick(2)
    assert second.rate("own_1")[0] == pytest.approx(2 * S)
    assert second.rate("own_2")[0] == pytest.approx(4 * S)
    rotation.per_ns = (1, 3, 4)
    assert rotation.tick(1).rate("own_1")[0] == pytest.approx(3 * S)


def test_coverage_is_of_the_time_from_one_turn_to_the_next() -> None:
    rotation = started(1, 2, 4)
    rates = [rotation.tick(turn) for turn in (1, 2, 1, 2)][-1]
    # A tenth of every second tick; the main group has nine tenths of all.
    assert rates.share("own_1")[0] == rates.share("own_2")[0] == pytest.approx(0.05)
    assert rates.share("own_0")[0] == pytest.approx(0.9)
    assert rates.share("cycles")[0] == rates.coverage[0] == 1.0
    # Another tool has half of its counters' time.
    half = rotation.tick(1, turn_ns=100)
    rotation.enabled = [item + 1000 for item in rotation.enabled]
    half = rotation.tick(2)
    assert half.share("cycles")[0] == half.coverage[0] == pytest.approx(0.5)
    assert half.share("own_2")[0] == pytest.approx(100 / 3000)


def test_a_ratio_to_cycles_follows_the_cycles_of_now() -> None:
    """Held counts are in proportion to the cycles that their group saw then."""
    rotation = started(0, 6)
    rates = rotation.tick(1)
    assert rates.rate_by_cycles("own_1")[0] == pytest.approx(6 * S)
    # The core is now half as fast: half of the cycles, and half of what goes with them.
    rotation.ran[:, 0] += np.uint64(2000)
    rotation.counted[:, :3] += np.array([3000, 5000, 0], np.uint64)
    rotation.enabled = [item + 2000 for item in rotation.enabled]
    later = rotation.read()
    assert later.rate("cycles")[0] == pytest.approx(1.5 * S)
    assert later.rate("own_1")[0] == pytest.approx(6 * S)
    assert later.rate_by_cycles("own_1")[0] == pytest.approx(3 * S)


def test_what_the_first_group_counts_is_never_held() -> None:
    """It runs in every tick, unless somebody else has its counters."""
    rotation = started(1, 2)
    rotation.tick(1)
    rotation.enabled = [item + 1000 for item in rotation.enabled]
    nothing = rotation.read()
    for event in ("cycles", "instructions", "own_0"):
        assert why(nothing, event) == NEVER_RAN
    assert nothing.coverage[0] == 0.0
    assert nothing.rate("own_1")[0] == pytest.approx(2 * S)


@pytest.mark.parametrize("reset", ["count", "running", "enabled"])
def test_what_stepped_back_forgets_its_last_turn(reset: str) -> None:
    rotation = started(1, 2, 4)
    for turn in (1, 2):
        rotation.tick(turn)
    if reset == "count":
        rotation.counted[0, 5] = 3
    elif reset == "running":
        rotation.ran[0, 1] = 3
    else:
        rotation.enabled[0] = 3
    rates = rotation.tick(2) if reset != "enabled" else rotation.read()
    assert why(rates, "own_1").reason is Reason.RESET
    assert rates.rate("own_1")[1] == pytest.approx(2 * S)
    again = rotation.tick(2)
    assert why(again, "own_1") == AWAITING_TURN
    assert rotation.tick(1).rate("own_1")[0] == pytest.approx(2 * S)


def test_a_turn_that_another_program_keeps_off_is_taken_in_the_end() -> None:
    rotation = started(1, 2, 4)
    result = [rotation.tick(1) for _ in range(6)]
    assert [why(rates, "own_2").reason for rates in result] == [Reason.WARMING] * 4 + [
        Reason.TAKEN
    ] * 2
    assert why(result[-1], "own_2") == NEVER_RAN


def test_a_turn_that_was_given_up_reports_why_at_once() -> None:
    rotation = started(1, 2)
    rotation.tick(1)
    rotation.reasons[0, 3:] = Reason.TAKEN
    rotation.ran[0, 1] = 0
    rates = rotation.tick(1)
    assert why(rates, "own_1").reason is Reason.TAKEN
    assert rates.rate("own_1")[1] == pytest.approx(2 * S)
    assert rates.rate("cycles")[0] == pytest.approx(3 * S)


def test_an_event_s_reason_is_that_of_the_group_that_counts_it() -> None:
    """It stands in the main group's columns too, of a plan that is not in use here."""
    rotation = Rotation((1, 2))
    rotation.events = (*CLOCKS, "own_1", *CLOCKS, "own_1")
    rotation.reasons[:, 2] = Reason.SOURCE
    rotation.read()
    assert why(rotation.tick(None), "own_1") == AWAITING_TURN
    assert rotation.tick(1).rate("own_1")[0] == pytest.approx(2 * S)


def test_a_cpu_that_comes_back_starts_anew() -> None:
    rotation = started(1, 2)
    rotation.tick(1)
    before = rotation.state.table
    assert before is not None
    table = CounterTable(
        before.cpus[:1],
        before.events,
        before.group,
        before.values[:1],
        before.reasons[:1],
        before.enabled_ns[:1] + np.uint64(1000),
        before.running_ns[:1],
        turns=1,
    )
    state, away = step_counters(rotation.state, SourceReading(table, rotation.now_ns + 1, 1), TWO)
    assert why(away, "own_1", cpu=1).reason is Reason.UNDEFINED
    rotation.state = state
    assert why(rotation.tick(None), "own_1", cpu=1).reason is Reason.WARMING
    back = rotation.tick(None)
    assert why(back, "own_1", cpu=1) == AWAITING_TURN
    assert back.rate("cycles")[1] == pytest.approx(3 * S)


def test_the_core_that_is_observed_has_a_longer_round_than_the_others() -> None:
    """CPU 0 has turns of its own beside these, so that each of these comes later."""
    rotation = started(1, 2)
    rotation.tick(1)
    rotation.inspected_at = 9
    result = [rotation.tick(None) for _ in range(12)]
    held = [[isinstance(rates.rate("own_1")[cpu], float) for rates in result] for cpu in (0, 1)]
    assert held == [[True] * 11 + [False], [True] * 3 + [False] * 9]
