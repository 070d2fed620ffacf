"""Counter groups that take turns: each sees its share, and together they see it all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.derive.cpu.counters import NEVER_RAN, CounterRates, CounterState, step_counters
from nftop.model.missing import Missing, Reason
from nftop.model.sample import CounterTable, SourceReading
from tests.samples import S, topology

TWO = topology(2, smt=False)
CLOCKS = ("cycles", "instructions", "tsc")


@dataclass(frozen=True)
class Turn:
    """One group: what it counted, the same on every CPU, and how long it ran."""

    counts: Mapping[str, int]
    ran_ns: int


def table(
    turns: Sequence[Turn],
    *,
    enabled_ns: int,
    cpus: Sequence[int] = (0, 1),
    absent: Mapping[tuple[int, int, str], Missing] | None = None,
) -> CounterTable:
    """The turns as columns; `absent` by CPU, group and event."""
    keys = [(group, event) for group, turn in enumerate(turns) for event in turn.counts]
    reasons = np.zeros((len(cpus), len(keys)), np.uint8)
    details: dict[str, dict[int, str]] = {}
    for (cpu, group, event), why in (absent or {}).items():
        reasons[cpus.index(cpu), keys.index((group, event))] = why.reason
        details.setdefault(event, {})[int(why.reason)] = why.detail
    row = [turns[group].counts[event] for group, event in keys]
    return CounterTable(
        cpus=np.array(cpus, np.int32),
        events=tuple(event for _, event in keys),
        group=np.array([group for group, _ in keys], np.int32),
        values=np.where(reasons > 0, 0, np.array([row] * len(cpus), np.uint64)).astype(np.uint64),
        reasons=reasons,
        enabled_ns=np.full((len(cpus), len(turns)), enabled_ns, np.uint64),
        running_ns=np.array([[turn.ran_ns for turn in turns]] * len(cpus), np.uint64),
        details=details,
    )


def nothing(turns: Sequence[Turn]) -> list[Turn]:
    return [Turn(dict.fromkeys(turn.counts, 0), 0) for turn in turns]


def between(before: CounterTable, after: CounterTable) -> CounterRates:
    state, _ = step_counters(CounterState(), SourceReading(before, S, 1), TWO)
    return step_counters(state, SourceReading(after, 2 * S, 1), TWO)[1]


def rated(turns: Sequence[Turn], *, enabled_ns: int) -> CounterRates:
    """The rates when the groups counted this since they were opened."""
    start = table(nothing(turns), enabled_ns=0)
    return between(start, table(turns, enabled_ns=enabled_ns))


def number(rates: CounterRates, event: str, cpu: int = 0) -> float:
    reading = rates.rate(event)[cpu]
    assert isinstance(reading, float), f"{event}: {reading}"
    return reading


def why(rates: CounterRates, event: str, cpu: int = 0) -> Missing:
    reading = rates.rate(event)[cpu]
    assert isinstance(reading, Missing), f"{event}: {reading}"
    assert rates.rate_by_cycles(event)[cpu] == reading
    return reading


splits = st.lists(st.integers(1, 10**9), min_size=1, max_size=5)
per_ns = st.integers(0, 8)


@given(ran_ns=splits, clocks=st.tuples(per_ns, per_ns, per_ns), own=st.lists(per_ns, min_size=5))
def test_any_split_of_the_interval_gives_constant_rates_back(
    ran_ns: list[int], clocks: tuple[int, int, int], own: list[int]
) -> None:
    whole_ns = sum(ran_ns)
    turns = [
        Turn(
            {
                **{name: item * ran for name, item in zip(CLOCKS, clocks, strict=True)},
                f"own_{group}": own[group] * ran,
            },
            ran,
        )
        for group, ran in enumerate(ran_ns)
    ]
    rates = rated(turns, enabled_ns=whole_ns)
    for name, clock in zip(CLOCKS, clocks, strict=True):
        assert number(rates, name) == pytest.approx(clock * S, rel=1e-12)
        assert rates.rate_by_cycles(name)[0] == number(rates, name)
        assert rates.share(name)[0] == 1.0
    for group, ran in enumerate(ran_ns):
        name = f"own_{group}"
        assert number(rates, name) == pytest.approx(own[group] * S, rel=1e-12)
        assert rates.rate_by_cycles(name)[0] == pytest.approx(own[group] * S, rel=1e-12)
        assert rates.share(name)[0] == pytest.approx(ran / whole_ns, rel=1e-12)
    assert rates.coverage[0] == 1.0


@given(
    seen=st.lists(st.tuples(st.integers(1, 10**9), st.integers(1, 10**9)), min_size=2, max_size=5),
    per_cycle=st.integers(0, 4),
)
def test_an_event_keeps_its_proportion_to_the_cycles_of_its_own_group(
    seen: list[tuple[int, int]], per_cycle: int
) -> None:
    """The groups saw different moments: the core was slower, or slept, in some of them."""
    turns = [
        Turn({"cycles": cycles, f"own_{group}": per_cycle * cycles}, ran)
        for group, (ran, cycles) in enumerate(seen)
    ]
    rates = rated(turns, enabled_ns=sum(ran for ran, _ in seen))
    cycles_per_s = sum(cycles for _, cycles in seen) / sum(ran for ran, _ in seen) * S
    assert number(rates, "cycles") == pytest.approx(cycles_per_s, rel=1e-12)
    for group in range(len(seen)):
        own = rates.rate_by_cycles(f"own_{group}")[0]
        assert own == pytest.approx(per_cycle * cycles_per_s, rel=1e-12)


def test_a_group_that_saw_no_cycle_of_the_cpu_is_rated_by_time() -> None:
    rates = rated(
        [Turn({"cycles": 500, "a": 7}, S // 2), Turn({"cycles": 0, "b": 3}, S // 2)], enabled_ns=S
    )
    assert rates.rate_by_cycles("a")[0] == pytest.approx(7 / 500 * 500)
    assert rates.rate_by_cycles("b")[0] == number(rates, "b") == 6.0


def test_aperf_is_the_clock_of_a_group_that_counts_no_cycles() -> None:
    turns = [Turn({"aperf": 100, "a": 50}, S // 4), Turn({"aperf": 900, "b": 90}, 3 * S // 4)]
    rates = rated(turns, enabled_ns=S)
    assert rates.core_cycles[0] == 1000.0
    assert rates.rate_by_cycles("a")[0] == pytest.approx(500.0)
    assert rates.rate_by_cycles("b")[0] == pytest.approx(100.0)


def three(seconds: int, *, last_ran: bool = True) -> list[Turn]:
    """Three groups of a third each, after so many times three seconds."""
    ran = seconds * S
    return [
        Turn({"cycles": 1000 * seconds, f"own_{group}": 10 * seconds}, ran)
        if group < 2 or last_ran
        else Turn({"cycles": 1000, f"own_{group}": 10}, S)
        for group in range(3)
    ]


def test_a_group_that_never_ran_takes_only_its_own_events_along() -> None:
    rates = between(
        table(three(1), enabled_ns=3 * S), table(three(2, last_ran=False), enabled_ns=6 * S)
    )
    assert why(rates, "own_2") == NEVER_RAN
    assert rates.share("own_2")[0] == NEVER_RAN
    assert number(rates, "cycles") == 1000.0
    assert number(rates, "own_0") == rates.rate_by_cycles("own_0")[0] == 10.0
    assert rates.coverage[0] == rates.share("cycles")[0] == pytest.approx(2 / 3)


def test_a_group_that_stepped_back_takes_only_its_own_events_along() -> None:
    after = table(three(2), enabled_ns=6 * S)
    again = after.events.index("own_1")
    after.values[0, again] = 3  # less than the 10 before
    rates = between(table(three(1), enabled_ns=3 * S), after)
    assert why(rates, "own_1").reason is Reason.RESET
    assert number(rates, "own_1", cpu=1) == number(rates, "own_0") == number(rates, "own_2") == 10.0
    assert number(rates, "cycles") == 1000.0
    assert rates.coverage[0] == pytest.approx(2 / 3)
    assert rates.coverage[1] == 1.0


def test_time_that_steps_back_is_a_reset_too() -> None:
    for clock in ("enabled_ns", "running_ns"):
        after = table(three(2), enabled_ns=6 * S)
        getattr(after, clock)[0, 2] = 1
        rates = between(table(three(1), enabled_ns=3 * S), after)
        assert why(rates, "own_2").reason is Reason.RESET
        assert number(rates, "own_0") == 10.0


def test_warming_comes_first() -> None:
    _, first = step_counters(
        CounterState(), SourceReading(table(nothing(three(1)), enabled_ns=0), S, 1), TWO
    )
    # Other groups than before: what they counted can't be compared.
    regrouped = between(table(three(1)[:2], enabled_ns=S), table(three(2), enabled_ns=2 * S))
    moved = table(three(2), enabled_ns=6 * S)
    moved.group[:] = moved.group[::-1].copy()
    for rates in (first, regrouped, between(table(three(1), enabled_ns=3 * S), moved)):
        for event in ("cycles", "own_0", "own_2"):
            assert why(rates, event).reason is Reason.WARMING
        warming = rates.coverage[0]
        assert isinstance(warming, Missing) and warming.reason is Reason.WARMING


def test_an_event_absent_in_one_group_is_counted_by_the_others(snapshot: SnapshotAssertion) -> None:
    turns = three(2)
    full = Missing(Reason.HARDWARE, "no counter left")
    absent = {(0, 1, "cycles"): full}
    after = table(turns, enabled_ns=6 * S, absent=absent)
    rates = between(table(three(1), enabled_ns=3 * S, absent=absent), after)
    assert after.gaps == ""
    assert number(rates, "cycles") == 1000.0
    assert rates.share("cycles")[0] == rates.coverage[0] == pytest.approx(2 / 3)
    # Without cycles of its own there is only time to go by.
    assert rates.rate_by_cycles("own_1")[0] == number(rates, "own_1") == 10.0
    everywhere = {(0, group, "cycles"): full for group in range(3)}
    gone = table(turns, enabled_ns=6 * S, absent=everywhere)
    assert gone.gaps == snapshot
    lacking = between(table(three(1), enabled_ns=3 * S, absent=everywhere), gone)
    assert why(lacking, "cycles") == full
    assert number(lacking, "cycles", cpu=1) == 1000.0


def test_a_counter_taken_and_a_group_that_never_ran_are_two_sentences() -> None:
    taken = Missing(Reason.TAKEN, "the NMI watchdog holds a counter")
    absent = {(0, 2, "own_2"): taken}
    rates = between(
        table(three(1), enabled_ns=3 * S, absent=absent),
        table(three(2, last_ran=False), enabled_ns=6 * S, absent=absent),
    )
    assert why(rates, "own_2", cpu=0) == taken
    assert why(rates, "own_2", cpu=1) == NEVER_RAN
