"""Level 2 and 3 of a load that changes, from counter groups that see different moments of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nftop.derive.cpu.counters import CounterState, step_counters
from nftop.derive.topdown.tma import (
    MOMENTS,
    MOMENTS_TOLERANCE,
    FocusState,
    ShareState,
    step_focus,
    tma_columns,
)
from nftop.model.frame import CoreDetail
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.sample import CounterTable, SourceReading
from nftop.uarch.table import load
from tests.samples import S, topology

SKX = load("SKX").with_smt(on=False)
# Four counters: level 1 in the main group, and three groups that take turns.
PLAN = next(plan for plan in SKX.plans if len(plan.turns) == 3)
ONE = topology(1, smt=False)
COMPONENTS = {
    "frontend_bound": ("fetch_latency", "fetch_bandwidth"),
    "bad_speculation": ("branch_mispredicts", "machine_clears"),
    "backend_bound": ("memory_bound", "core_bound"),
    "retiring": ("heavy_operations", "light_operations"),
}
FETCH, EXECUTION, MEMORY = 1, 2, 3


@dataclass(frozen=True)
class Load:
    """What a core does: level 1 in parts of all slots (the rest retires), then the share of each
    that is its first part.
    """

    frontend: float = 0.1
    speculation: float = 0.1
    backend: float = 0.3
    first: tuple[float, float, float, float] = (0.5, 0.5, 0.5, 0.5)
    cycles: int = 3_000_000

    def counts(self) -> Mapping[str, float]:
        """Per millisecond."""
        slots = 4 * self.cycles
        retired = (1 - self.frontend - self.speculation - self.backend) * slots
        latency, mispredicted, memory, heavy = self.first
        stalls = self.backend * self.cycles
        fused = 0.1 * retired
        return {
            "cycles": self.cycles,
            "ref_cycles": self.cycles,
            "tsc": 3_000_000,
            "instructions": retired * (1 - heavy) + fused,
            "idq_uops_not_delivered_core": self.frontend * slots,
            "uops_issued_any": retired + self.speculation * slots,
            "uops_retired_retire_slots": retired,
            "idq_uops_not_delivered_cycles_0_uops_deliv_core": latency * self.frontend * slots / 4,
            "br_misp_retired_all_branches": mispredicted * 1000,
            "machine_clears_count": (1 - mispredicted) * 1000,
            "uops_retired_macro_fused": fused,
            "cycle_activity_stalls_total": stalls,
            "cycle_activity_stalls_mem_any": memory * stalls,
        }

    def level_2(self) -> dict[str, float]:
        whole = (self.frontend, self.speculation, self.backend)
        wholes = (*whole, 1 - sum(whole))
        return {
            component: ratio * share
            for components, ratio, first in zip(
                COMPONENTS.values(), wholes, self.first, strict=True
            )
            for component, share in zip(components, (first, 1 - first), strict=True)
        }


@dataclass
class Core:
    """One CPU: nine tenths of a tick for the main group, the last for one of the others."""

    groups: Sequence[Sequence[str]] = PLAN.groups
    counters: CounterState = field(default_factory=CounterState)
    shares: ShareState = field(default_factory=ShareState)
    focus: FocusState = field(default_factory=FocusState)
    now_ns: int = 0
    enabled_ns: int = 0

    def __post_init__(self) -> None:
        self.keys = [(at, name) for at, names in enumerate(self.groups) for name in names]
        self.counted = np.zeros(len(self.keys))
        self.ran_ns = np.zeros(len(self.groups), np.uint64)
        self.observe()

    def table(self) -> CounterTable:
        return CounterTable(
            cpus=np.array([0], np.int32),
            events=tuple(name for _, name in self.keys),
            group=np.array([at for at, _ in self.keys], np.int32),
            values=self.counted.astype(np.uint64)[None],
            reasons=np.zeros((1, len(self.keys)), np.uint8),
            enabled_ns=np.full((1, len(self.groups)), self.enabled_ns, np.uint64),
            running_ns=self.ran_ns[None].copy(),
            turns=len(self.groups) - 1,
        )

    def run(self, group: int, counts: Mapping[str, float], ms: int) -> None:
        for index, (at, name) in enumerate(self.keys):
            if at == group:
                self.counted[index] += counts.get(name, 0.0) * ms
        self.ran_ns[group] += np.uint64(ms * 1_000_000)
        self.enabled_ns += ms * 1_000_000

    def tick(self, main: Load, turn: int | None, then: Load | None = None) -> dict[str, Reading]:
        """The main group saw one load and this group another, or the same."""
        self.run(0, main.counts(), 900)
        if turn is not None:
            self.run(turn, (then or main).counts(), 100)
        return self.observe()

    def observe(self, *, again: bool = False) -> dict[str, Reading]:
        self.now_ns += 0 if again else S
        reading = SourceReading(self.table(), self.now_ns, 1)
        self.counters, rates = step_counters(self.counters, reading, ONE)
        self.shares, columns = tma_columns(self.shares, SKX, rates, ONE)
        return {name.removeprefix("tma."): component[0] for name, component in columns.items()}

    def observe_core(self) -> CoreDetail:
        self.now_ns += S
        table = replace(self.table(), focus=self.table())
        reading = SourceReading(table, self.now_ns, 1)
        self.focus, seen = step_focus(self.focus, reading, SKX, ONE)
        assert seen is not None
        return seen


def number(reading: Reading) -> float:
    assert isinstance(reading, float), reading
    return reading


def level_2(result: Mapping[str, Reading]) -> dict[str, Reading]:
    return {
        component: result[component]
        for components in COMPONENTS.values()
        for component in components
    }


def rounds(core: Core, what: Load, count: int) -> dict[str, Reading]:
    result: dict[str, Reading] = {}
    for _ in range(count):
        for turn in (FETCH, EXECUTION, MEMORY):
            result = core.tick(what, turn)
    return result


shares = st.floats(0, 1)
loads = st.builds(
    Load,
    frontend=st.floats(0, 0.3),
    speculation=st.floats(0, 0.3),
    backend=st.floats(0, 0.3),
    first=st.tuples(shares, shares, shares, shares),
    cycles=st.integers(300_000, 3_000_000),
)
big = st.builds(
    Load,
    frontend=st.floats(0.1, 0.3),
    speculation=st.floats(0.1, 0.3),
    backend=st.floats(0.1, 0.3),
    first=st.tuples(shares, shares, shares, shares),
    cycles=st.integers(300_000, 3_000_000),
)


@settings(max_examples=40)
@given(what=big)
def test_a_steady_load_comes_back(what: Load) -> None:
    result = level_2(rounds(Core(), what, 2))
    assert result == pytest.approx(what.level_2(), abs=1e-5)


@given(
    ticks=st.lists(
        st.tuples(loads, loads, st.sampled_from([None, 1, 2, 3])), min_size=1, max_size=12
    )
)
def test_components_fit_into_their_whole_whatever_the_load_does(
    ticks: list[tuple[Load, Load, int | None]],
) -> None:
    """The load changes from tick to tick and within them, and turns come as they may."""
    core = Core()
    for main, then, turn in ticks:
        result = core.tick(main, turn, then)
        for whole, components in COMPONENTS.items():
            readings = [result[component] for component in components]
            missing = [reading for reading in readings if isinstance(reading, Missing)]
            assert all(item.reason is not Reason.ERROR for item in missing), missing
            if not missing:
                numbers = [number(reading) for reading in readings]
                assert min(numbers) >= 0
                assert sum(numbers) == pytest.approx(number(result[whole]), abs=1e-12)


@settings(max_examples=25)
@given(before=big, after=big, at=st.integers(0, 2))
def test_a_step_of_the_load_leaves_no_hole_and_is_over_after_a_round(
    before: Load, after: Load, at: int
) -> None:
    core = Core()
    rounds(core, before, 2)
    order = [FETCH, EXECUTION, MEMORY]
    for turn in order[:at]:
        core.tick(before, turn)
    shown = core.tick(after, None)
    wholes = [number(shown[whole]) for whole in COMPONENTS]
    kept = {
        component: whole * share
        for components, whole, first in zip(COMPONENTS.values(), wholes, before.first, strict=True)
        for component, share in zip(components, (first, 1 - first), strict=True)
    }
    assert level_2(shown) == pytest.approx(kept, abs=1e-4)
    for turn in order[at:]:
        now = level_2(core.tick(after, turn))
        holes = {component for component, item in now.items() if isinstance(item, Missing)}
        # Between the two turns that tell memory from core, one of them saw the one load each.
        assert holes <= (set(COMPONENTS["backend_bound"]) if at == 2 else set()), now
    result = rounds(core, after, 1)
    assert level_2(result) == pytest.approx(after.level_2(), abs=1e-5)


def test_a_reading_seen_before_changes_nothing() -> None:
    core = Core()
    rounds(core, Load(), 2)
    result = core.tick(Load(frontend=0.3), EXECUTION)
    for _ in range(3):
        assert core.observe(again=True) == result


def test_what_is_a_little_too_much_is_put_back_to_the_whole() -> None:
    core = Core()
    rounds(core, Load(), 1)
    # In its last tenth all of the front end's slots were lost at once, more than in the tick.
    result = core.tick(Load(frontend=0.2), FETCH, Load(frontend=0.28, first=(1.0, 0.5, 0.5, 0.5)))
    assert result["fetch_latency"] == pytest.approx(0.2) == result["frontend_bound"]
    assert result["fetch_bandwidth"] == 0.0


def test_what_is_far_too_much_is_nobody_s_fault() -> None:
    core = Core()
    rounds(core, Load(), 1)
    unlike = Load(frontend=0.6, first=(1.0, 0.5, 0.5, 0.5))
    result = core.tick(Load(frontend=0.2), FETCH, unlike)
    assert result["fetch_latency"] == result["fetch_bandwidth"] == MOMENTS
    assert "program" not in MOMENTS.message
    assert isinstance(result["memory_bound"], float)
    # Until its next turn; but where next to nothing is to be divided, it does not matter how.
    assert core.tick(Load(frontend=0.2), EXECUTION)["fetch_latency"] == MOMENTS
    few = core.tick(Load(frontend=MOMENTS_TOLERANCE / 2), MEMORY)
    assert few["fetch_latency"] == few["frontend_bound"] == pytest.approx(MOMENTS_TOLERANCE / 2)
    assert core.tick(Load(frontend=0.2), FETCH)["fetch_latency"] == pytest.approx(0.1)


def test_what_is_divided_in_two_turns_waits_for_the_second() -> None:
    core = Core()
    rounds(core, Load(), 2)
    after = Load(first=(0.5, 0.5, 0.25, 0.5))
    assert core.tick(after, FETCH)["memory_bound"] == pytest.approx(0.15)
    assert core.tick(after, EXECUTION)["memory_bound"] == pytest.approx(0.15)
    assert core.tick(after, MEMORY)["memory_bound"] == pytest.approx(0.075)


def test_a_change_of_the_order_of_turns_is_followed() -> None:
    core = Core()
    rounds(core, Load(), 2)
    after = Load(first=(0.5, 0.5, 0.25, 0.5))
    result = [core.tick(after, turn) for _ in range(3) for turn in (MEMORY, FETCH, EXECUTION)]
    assert result[-1]["memory_bound"] == pytest.approx(0.075)


EVERYTHING = (*PLAN.groups, *SKX.focus_groups)


@settings(max_examples=15)
@given(
    main=st.lists(loads, min_size=1, max_size=4),
    seeds=st.lists(st.integers(0, 2**32 - 1), min_size=12, max_size=16),
)
def test_level_3_of_any_counts_is_within_its_whole(main: list[Load], seeds: list[int]) -> None:
    core = Core(EVERYTHING)
    for tick, seed in enumerate(seeds):
        this = main[tick % len(main)]
        turn = 1 + tick % (len(EVERYTHING) - 1)
        names = [name for name in EVERYTHING[turn] if name not in PLAN.events]
        few = np.random.default_rng(seed).integers(0, 2 * this.cycles, len(names))
        core.run(0, this.counts(), 900)
        core.run(turn, {**this.counts(), **dict(zip(names, few.tolist(), strict=True))}, 100)
        ratios = {node.name: node.reading for node in core.observe_core().tree}
        for name, reading in ratios.items():
            if isinstance(reading, Missing):
                assert reading.reason is not Reason.ERROR, (name, reading)
            else:
                assert 0 <= reading <= 1
        whole = ratios["heavy_operations"]
        components = [ratios["microcode_sequencer"], ratios["few_uops_instructions"]]
        if not any(isinstance(item, Missing) for item in components):
            assert sum(number(item) for item in components) == pytest.approx(
                number(whole), abs=1e-12
            )
