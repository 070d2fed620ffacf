"""The course of an experiment: when it writes, settles, measures, repeats and ends."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from nftop.derive.compare.window import CLOCKS, NF_KEPT
from nftop.derive.experiment.engine import (
    ExperimentState,
    NfObservation,
    Observation,
    advance,
    drop_limit,
    ended,
    left_s,
    order_of,
    without_drops,
    written,
)
from nftop.model.change import Proposal
from nftop.model.experiment import Experiment, HarmLimits, Setting
from nftop.model.frame import Clock
from nftop.model.ids import L3Domain
from nftop.model.struct import replace
from tests.frames import nic_drops

S = 1_000_000_000
L3 = L3Domain(0)
PLAN = Experiment(
    kind="sweep",
    group="tenant",
    settings=tuple(Setting(f"{n} ways", (), n) for n in (1, 2, 3)),
    watch={"nf": "vpp"},
    own=frozenset(),
    caches=(L3,),
    classes=("tenant",),
    proposal=Proposal({}, ()),
    rounds_most=3,
)


def reading(at_s: float, *, drops: float = 0.0, busy: float = 200.0) -> NfObservation:
    values = dict.fromkeys(NF_KEPT, math.nan) | {
        "packets_per_s": 1e7,
        "offered_packets_per_s": 1e7 + drops,
        **nic_drops(drops),
        "cpp": busy,
        "busy_cpp": busy,
        "saturated": 1.0,
    }
    row = tuple(values[name] for name in NF_KEPT if name != "new")
    return NfObservation(row, (at_s - 1) * S, new=True)


@dataclass
class Run:
    """Observations a second apart; `busy` and `drops` are the network function's now."""

    plan: Experiment = PLAN
    at_s: int = 1
    busy: float = 200.0
    drops: float = 0.0
    used: float = 1e6
    metered: bool = True
    sizes: Mapping[tuple[str, L3Domain], float] = field(
        default_factory=lambda: {("tenant", L3): 55e6}
    )
    state: ExperimentState = field(default_factory=ExperimentState)
    writes: list[tuple[int, int]] = field(default_factory=list)

    def tick(self, **nfs: NfObservation) -> object:
        """One observation; a setting that is to be tried is written at once."""
        self.at_s += 1
        seen = Observation(
            self.at_s * S,
            nfs or {"nf": reading(self.at_s, drops=self.drops, busy=self.busy)},
            {("tenant", L3): self.used} if self.metered else {},
            self.sizes,
        )
        self.state, command = advance(self.state, self.plan, seen)
        if isinstance(command, int):
            self.writes.append((self.at_s, command))
            self.state = written(self.state, self.at_s * S)
        return command

    @property
    def phase(self) -> str:
        return self.state.phase

    def until_writes(self, count: int) -> None:
        while len(self.writes) < count and self.at_s < 2000:
            self.tick()
        assert len(self.writes) == count

    def to_the_end(self) -> None:
        while self.state.ended is None and self.at_s < 5000:
            self.tick()


def test_nothing_is_written_before_the_baseline_is_measured() -> None:
    run = Run()
    run.until_writes(1)
    assert run.writes[0][0] >= PLAN.timing.measure_s
    assert run.state.visits[0].setting == -1
    assert run.state.visits[0].nfs["nf"].busy_cpp == 200.0


def test_every_setting_is_visited_in_every_round_and_then_it_is_clear() -> None:
    run = Run()
    run.to_the_end()
    assert run.state.ended == "clear"
    visits = [(visit.round, visit.setting) for visit in run.state.visits[1:]]
    assert sorted(visits) == [(r, n) for r in (1, 2) for n in (0, 1, 2)]
    assert [number for number, _ in visits] == [1, 1, 1, 2, 2, 2]


def test_a_visit_is_as_long_as_its_settling_and_its_measuring() -> None:
    run = Run()
    run.until_writes(3)
    for (begin, _), (end, _) in pairwise(run.writes):
        timing = PLAN.timing
        assert timing.settle_least_s + timing.measure_s <= end - begin
        assert end - begin <= timing.settle_least_s + timing.measure_s + 4


@pytest.mark.parametrize(
    ("saturated", "clock", "bound"),
    [(1.0, "core", False), (0.0, "core", True), (math.nan, "core", True), (0.0, "tsc", False)],
)
def test_cycles_below_saturation_are_an_upper_bound(
    saturated: float, clock: Clock, bound: bool
) -> None:
    row = dict(zip(NF_KEPT, reading(3).values, strict=False)) | {
        "saturated": saturated,
        "clock": float(CLOCKS.index(clock)),
    }
    one = NfObservation(tuple(row.values()), 2 * S, new=True)
    assert one.cpp_is_bound is bound
    assert not replace(one, values=(math.nan,) * len(row)).cpp_is_bound


def test_moving_occupancy_is_waited_for() -> None:
    run = Run()
    run.until_writes(1)
    for _ in range(30):
        run.used += 3e6
        run.tick()
    assert run.phase == "settling"
    for _ in range(6):
        run.tick()
    assert run.phase == "measuring"
    assert run.state.since_ns >= run.writes[0][0] * S + 30 * S


def test_occupancy_that_never_settles_is_waited_for_a_minute() -> None:
    run = Run()
    run.until_writes(1)
    while run.phase == "settling":
        run.used *= 1.5
        run.tick()
    assert run.at_s - run.writes[0][0] == PLAN.timing.settle_most_s


def test_without_monitors_it_waits_longer() -> None:
    run = Run(metered=False)
    run.until_writes(1)
    while run.phase == "settling":
        run.tick()
    assert run.at_s - run.writes[0][0] == PLAN.timing.unmetered_s


def test_losses_that_still_fall_are_waited_for() -> None:
    run = Run(drops=1e5)
    run.until_writes(1)
    for _ in range(20):
        run.drops *= 0.8
        run.tick()
    assert run.phase == "settling"
    run.drops = 0.0
    for _ in range(6):
        run.tick()
    assert run.phase == "measuring"


def test_drops_beyond_the_limit_end_it_at_the_second_reading() -> None:
    run = Run()
    run.until_writes(1)
    run.drops = drop_limit(PLAN, run.state.visits[0]) * 1.01
    assert run.tick() is None
    assert run.tick() == "finish"
    assert run.state.ended == "drops"


def test_one_reading_beyond_a_limit_ends_nothing() -> None:
    run = Run()
    run.until_writes(1)
    for _ in range(10):
        run.drops = 1e7
        run.tick()
        run.drops = 0.0
        run.tick()
    assert run.state.ended is None


def test_cost_beyond_the_limit_ends_it() -> None:
    run = Run()
    run.until_writes(2)
    run.busy = 200.0 * (1 + PLAN.limits.cpp_ratio) + 1
    run.tick()
    assert run.tick() == "finish"
    assert run.state.ended == "cost"


def quiet(at_s: float, packets: float) -> NfObservation:
    """A reading without counters of drops."""
    values = dict.fromkeys(NF_KEPT, math.nan) | {"packets_per_s": packets, "saturated": 0.0}
    row = tuple(values[name] for name in NF_KEPT if name != "new")
    return NfObservation(row, (at_s - 1) * S, new=True)


def test_readings_beyond_a_limit_count_by_network_function() -> None:
    """Two network functions that exceed it in turn, one reading each: nothing lasts."""
    run = Run(replace(PLAN, watch={"a": "vpp", "b": "ovs"}))

    def tick(a: float, b: float) -> object:
        at_s = run.at_s + 1
        return run.tick(a=reading(at_s, busy=a), b=reading(at_s, busy=b))

    while len(run.writes) < 1:
        tick(200.0, 200.0)
    tick(200.0, 200.0)
    for _ in range(6):
        tick(300.0, 200.0)
        tick(200.0, 300.0)
    assert run.state.ended is None
    assert tick(200.0, 300.0) == "finish"
    end = run.state
    assert (end.ended, end.detail.split()[0]) == ("cost", "ovs")


def test_a_slow_one_counts_its_own_readings_only() -> None:
    """Each reading is repeated by four frames: they are one."""
    run = Run(replace(PLAN, watch={"a": "vpp", "b": "ovs"}))
    while len(run.writes) < 1:
        run.tick(a=reading(run.at_s + 1), b=reading(run.at_s + 1))
    harmful = reading(run.at_s + 2, busy=300.0)
    for n in range(5):
        at_s = run.at_s + 1
        run.tick(a=reading(at_s), b=replace(harmful, new=n == 1))
    assert run.state.harmful == {"a": 0, "b": 1}
    assert run.state.ended is None


def test_a_reading_that_began_before_the_write_is_not_of_this_setting() -> None:
    run = Run()
    run.until_writes(1)
    for _ in range(5):
        late = replace(reading(0, busy=300.0), begin_ns=run.writes[0][0] * S - 1)
        run.tick(nf=late)
    assert (run.state.ended, dict(run.state.harmful)) == (None, {})


def test_drops_of_all_count_together_but_not_for_one_without_any() -> None:
    run = Run(replace(PLAN, watch={"a": "vpp", "b": "ovs", "c": "fwd"}))
    while len(run.writes) < 1:
        run.tick(**{key: reading(run.at_s + 1) for key in "abc"})
    run.tick(**{key: reading(run.at_s + 1) for key in "abc"})
    limit = drop_limit(run.plan, run.state.visits[0])
    for _ in range(2):
        at_s = run.at_s + 1
        run.tick(
            a=reading(at_s, drops=limit * 0.6), b=reading(at_s, drops=limit * 0.6), c=reading(at_s)
        )
    assert run.state.ended == "drops"
    assert run.state.harmful.get("c", 0) == 0


@pytest.mark.parametrize("sizes", [{("tenant", L3): 55e6}, {}])
def test_an_unknown_cache_size_is_no_zero(sizes: dict[tuple[str, L3Domain], float]) -> None:
    """Its visits wait as long as those without monitoring, and say why."""
    run = Run(sizes=sizes)
    run.until_writes(2)
    visit = run.state.visits[1]
    assert visit.settling == ("still" if sizes else "no_size")
    waited_s = (visit.settled_ns - visit.written_ns) / S
    assert (waited_s == PLAN.timing.unmetered_s) == (not sizes)


def test_how_a_visit_settled_is_kept() -> None:
    run = Run(metered=False)
    run.until_writes(2)
    assert run.state.visits[1].settling == "unmetered"
    moving = Run()
    moving.until_writes(1)
    while moving.phase == "settling":
        moving.used *= 1.5
        moving.tick()
    moving.until_writes(2)
    assert moving.state.visits[1].settling == "moving"


def test_the_time_left_never_jumps_within_the_first_rounds() -> None:
    run = Run()
    left = list[float]()
    while run.state.ended is None:
        run.tick()
        left.append(left_s(run.state, PLAN))
    steps = [a - b for a, b in pairwise(left[:-1])]
    assert max(map(abs, steps)) < 15  # half a visit
    assert left[0] == pytest.approx(len(left), rel=0.3)


def test_a_limit_that_was_given_is_the_limit() -> None:
    run = Run(replace(PLAN, limits=HarmLimits(drop_packets_per_s=50.0)))
    run.until_writes(1)
    run.drops = 60.0
    run.tick()
    assert run.tick() == "finish"
    assert run.state.ended == "drops"


def test_the_default_limit_is_a_share_of_what_is_offered_above_the_baseline() -> None:
    run = Run(drops=1e5)
    run.until_writes(1)
    assert drop_limit(PLAN, run.state.visits[0]) == pytest.approx(1e5 + 0.05 * (1e7 + 1e5))


def test_a_network_function_that_ended_ends_it() -> None:
    run = Run()
    run.until_writes(1)
    assert run.tick(other=reading(5)) == "finish"
    assert (run.state.ended, run.state.detail) == ("gone", "vpp")


def test_one_that_gives_no_new_numbers_ends_it() -> None:
    run = Run()
    run.until_writes(1)
    begin_s = run.at_s
    while run.tick(nf=replace(reading(run.at_s + 1), new=False)) != "finish":
        assert run.at_s - begin_s < 30
    assert run.state.ended == "silent"


def test_a_few_seconds_without_new_numbers_end_nothing() -> None:
    run = Run()
    run.until_writes(1)
    for _ in range(20):
        for _ in range(5):
            run.tick(nf=replace(reading(run.at_s + 1), new=False))
        run.tick()
    assert run.state.ended is None


def test_after_the_end_nothing_is_to_be_done() -> None:
    run = Run()
    run.until_writes(1)
    run.state = ended(run.state, "stopped")
    assert [run.tick() for _ in range(3)] == [None] * 3
    assert ended(run.state, "guard").ended == "stopped"


def test_it_shrinks_to_nothing() -> None:
    run, left = Run(), []
    while run.state.ended is None:
        run.tick()
        left.append(left_s(run.state, PLAN))
    assert left[-1] == 0
    assert max(left) == left[0] >= 6 * (PLAN.timing.settle_least_s + PLAN.timing.measure_s)


@pytest.mark.parametrize("seed", range(20))
def test_an_order_is_never_monotonic_and_never_begins_where_the_last_ended(seed: int) -> None:
    last = -1
    for number in range(1, 5):
        order = order_of(range(8), seed, number, last)
        assert sorted(order) == list(range(8))
        assert len({a < b for a, b in pairwise(order)}) == 2
        assert order[0] != last
        last = order[-1]


def test_packets_that_fall_end_it_where_drops_are_not_counted() -> None:
    run = Run()
    while not run.writes:
        run.tick(nf=quiet(run.at_s + 1, 1e7))
    assert without_drops(run.state.visits[0]) == ("nf",)
    run.tick(nf=quiet(run.at_s + 1, 9.6e6))
    run.tick(nf=quiet(run.at_s + 1, 9.4e6))
    assert run.state.ended is None
    run.tick(nf=quiet(run.at_s + 1, 9.4e6))
    assert run.state.ended == "drops"
