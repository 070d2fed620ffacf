"""Top-down in a frame: from the table's events to the catalogue's metrics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.cpu.counters import CounterRates, CounterState, step_counters
from nftop.derive.topdown.tma import ShareState, counts_of_cores, drilled_node, tma_columns
from nftop.model.column import Column, column
from nftop.model.frame import CoreDetail, TmaNode
from nftop.model.ids import Cpu
from nftop.model.metrics.tma import TMA_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.sample import CounterTable, SourceReading
from nftop.model.topology import Topology
from nftop.uarch.table import load
from tests.samples import S, counters, topology

SKX = load("SKX").with_smt(on=False)
ONE = topology(2, smt=False)
LEVEL_1 = ("frontend_bound", "bad_speculation", "backend_bound", "retiring")


def rows(**counts: int) -> dict[str, float | Missing]:
    """Level 1 of CPU 0 when these were counted within a second."""
    events = SKX.main_events

    def at(second: int) -> SourceReading[CounterTable]:
        values = [counts.get(event, 0) * second for event in events]
        table = counters(dict.fromkeys((0, 1), values), enabled_ns=S * second, events=events)
        return SourceReading(table, S * second, 1)

    state, _ = step_counters(CounterState(), at(1), ONE)
    _, rates = step_counters(state, at(2), ONE)
    columns = tma_columns(ShareState(), SKX, rates, ONE)[1]
    assert columns.keys() == {metric.id for metric in TMA_METRICS}
    shown = (*LEVEL_1, "coverage")
    return {node: columns[f"tma.{node}"][0] for node in shown}


def test_level_1_is_where_the_slots_went() -> None:
    # A thousand cycles are four thousand slots: 400 not delivered, 2400 retired, 2600 issued.
    level_1 = rows(
        cycles=1000,
        idq_uops_not_delivered_core=400,
        uops_issued_any=2600,
        uops_retired_retire_slots=2400,
        int_misc_recovery_cycles=50,
    )
    assert level_1.pop("coverage") == 1.0
    assert level_1 == {
        "frontend_bound": pytest.approx(0.10),
        "bad_speculation": pytest.approx((2600 - 2400 + 4 * 50) / 4000),
        "backend_bound": pytest.approx(1 - 0.10 - (2600 + 4 * 50) / 4000),
        "retiring": pytest.approx(0.60),
    }


def test_a_core_that_slept_has_no_shares() -> None:
    for share in rows().values():
        assert isinstance(share, Missing) and share.reason is Reason.IDLE


@pytest.mark.parametrize(("awake", "shown"), [(49, False), (51, True)])
def test_a_core_that_hardly_ran_has_none_either(awake: int, shown: bool) -> None:
    level_1 = rows(  # and no coverage, of what is not shown
        tsc=1000,
        ref_cycles=awake,
        cycles=1000,
        idq_uops_not_delivered_core=400,
        uops_issued_any=2600,
        uops_retired_retire_slots=2400,
    )
    for share in level_1.values():
        assert isinstance(share, Missing) is not shown
        assert shown or (isinstance(share, Missing) and share.reason is Reason.IDLE)


def test_counts_that_contradict_one_another_are_no_shares() -> None:
    impossible = rows(cycles=1000, uops_retired_retire_slots=9000, uops_issued_any=9000)
    for share in impossible.values():
        assert isinstance(share, Missing) and share.reason is Reason.ERROR


def test_a_cpu_without_a_table_reports_it() -> None:
    _, rates = step_counters(CounterState(), None, ONE)
    for uarch in (None, load()):
        for component in tma_columns(ShareState(), uarch, rates, ONE)[1].values():
            why = component[0]
            assert isinstance(why, Missing) and "generic" in why.message


def core(
    *seen: Mapping[str, tuple[int, int]],
    ran_ns: Sequence[int] | Sequence[Sequence[int]],
    planned: bool = True,
    machine: Topology | None = None,
) -> Mapping[str, Column]:
    """Top-down of one core whose two threads counted this in each of their groups.

    `ran_ns` by group, or by thread and group; `planned` is whether there was hyper-threading when
    the events were chosen, `machine` the host as it is now.
    """
    keys = [(group, event) for group, counts in enumerate(seen) for event in counts]

    def at(second: int) -> SourceReading[CounterTable]:
        values = [[seen[group][event][cpu] * second for group, event in keys] for cpu in (0, 1)]
        table = CounterTable(
            cpus=np.arange(2, dtype=np.int32),
            events=tuple(event for _, event in keys),
            group=np.array([group for group, _ in keys], np.int32),
            values=np.array(values, np.uint64),
            reasons=np.zeros((2, len(keys)), np.uint8),
            enabled_ns=np.full((2, len(seen)), S * second, np.uint64),
            running_ns=np.broadcast_to(np.array(ran_ns, np.uint64) * second, (2, len(seen))),
        )
        return SourceReading(table, S * second, 1)

    machine = machine or topology(2)
    state, _ = step_counters(CounterState(), at(1), machine)
    _, rates = step_counters(state, at(2), machine)
    return tma_columns(ShareState(), load("SKX").with_smt(on=planned), rates, machine)[1]


POLLER_AND_SLEEPER: Mapping[str, tuple[int, int]] = {
    "cycles": (1000, 10),
    "idq_uops_not_delivered_core": (100, 1),
    "uops_issued_any": (1300, 13),
    "uops_retired_retire_slots": (1200, 12),
    "int_misc_recovery_cycles_any": (50, 50),
}


def test_what_counts_for_the_core_is_in_no_proportion_to_a_sleeping_thread_s_cycles() -> None:
    """The sleeper woke in the other group's turn: a hundred times as many cycles as in this one."""
    got = core(POLLER_AND_SLEEPER, {"cycles": (1000, 1000)}, ran_ns=(S // 2, S // 2))
    # Two thousand cycles a second: the poller's recovery is 100 of them, whoever counted it.
    slots = 4 * 2000
    threads = 2000 + 1010  # of both: each thread's events go with its own cycles
    assert got["tma.retiring"][0] == pytest.approx(1.2 * threads / slots)
    lost = 0.1 * threads + 4 * 100
    assert got["tma.bad_speculation"][0] == pytest.approx(lost / slots)
    assert got["tma.coverage"][0] == got["tma.coverage"][1] == 0.5


def test_coverage_is_of_what_top_down_needed(snapshot: SnapshotAssertion) -> None:
    whole = core(POLLER_AND_SLEEPER, ran_ns=(S,))
    assert whole["tma.coverage"][0] == 1.0
    missing = whole["tma.memory_bound"][0]
    assert isinstance(missing, Missing)
    assert missing.message == snapshot
    unused = {"cycles": (100, 1), "llc_misses": (3, 0)}
    assert core(POLLER_AND_SLEEPER, unused, ran_ns=(S * 9 // 10, S // 10))["tma.coverage"][0] == 0.9
    lacking = whole["tma.level_2_coverage"][0]
    assert lacking == whole["tma.fetch_latency"][0]


def test_every_level_has_a_coverage_of_its_own() -> None:
    uarch = load("SKX").with_smt(on=True)
    level_2 = dict.fromkeys(("cycles", *uarch.plans[0].turns[1], *uarch.plans[0].turns[2]), (10, 1))
    seen = {**POLLER_AND_SLEEPER, "ref_cycles": (1000, 10), "tsc": (1000, 1000)}
    got = core(seen, {**level_2, "cycles": (1000, 10)}, ran_ns=(S * 9 // 10, S // 10))
    assert isinstance(got["tma.memory_bound"][0], float)
    assert got["tma.coverage"][0] == 0.9
    assert got["tma.level_2_coverage"][0] == 0.1


def test_coverage_is_of_the_thread_that_was_counted_least() -> None:
    got = core(POLLER_AND_SLEEPER, ran_ns=((S,), (S // 4,)))["tma.coverage"]
    assert got[0] == got[1] == 0.25


def test_a_turn_that_never_came_leaves_level_1() -> None:
    memory = {"cycles": (0, 0), "cycle_activity_stalls_mem_any": (0, 0)}
    got = core(POLLER_AND_SLEEPER, memory, ran_ns=(S // 2, 0))
    assert isinstance(got["tma.backend_bound"][0], float)
    assert got["tma.coverage"][0] == 0.5


def test_no_top_down_has_no_coverage_for_the_same_reason() -> None:
    _, rates = step_counters(CounterState(), None, ONE)
    why = Missing(Reason.SOURCE, "perf is not read here")
    assert tma_columns(ShareState(), SKX, rates, ONE)[1]["tma.coverage"][0] == why


def test_what_perf_may_not_read_is_a_permission() -> None:
    denied = Missing(Reason.PERMISSION, "perf_event_paranoid is 2")
    _, rates = step_counters(CounterState(), SourceReading(denied, S, 1), ONE)
    assert tma_columns(ShareState(), SKX, rates, ONE)[1]["tma.retiring"][0] == denied


def test_hyper_threading_turned_off_leaves_level_1() -> None:
    """The sibling is offline, and the events are still those that count for the whole core."""
    both = topology(2)
    alone, gone = both.cpus
    now = replace(
        both, cpus=(replace(alone, siblings=()), replace(gone, online=False, siblings=()))
    )
    got = core(POLLER_AND_SLEEPER, ran_ns=(S,), machine=now)
    assert got["tma.retiring"][0] == pytest.approx(1200 / 4000)
    assert got["tma.bad_speculation"][0] == pytest.approx((100 + 4 * 50) / 4000)


def test_hyper_threading_turned_on_reports_what_to_do() -> None:
    """The events are those of a thread that has its core to itself."""
    seen = {
        "int_misc_recovery_cycles" if name.endswith("_any") and "recovery" in name else name: counts
        for name, counts in POLLER_AND_SLEEPER.items()
    }
    got = core(seen, ran_ns=(S,), planned=False)
    for metric in ("tma.retiring", "tma.frontend_bound", "tma.memory_bound", "tma.coverage"):
        why = got[metric][0]
        assert isinstance(why, Missing) and "start nftop anew" in why.message
    alone = core(seen, ran_ns=(S,), planned=False, machine=topology(2, smt=False))
    assert alone["tma.retiring"][0] == pytest.approx(1200 / 4000)


def test_haswell_s_executed_uops_are_the_core_s_on_every_of_its_threads() -> None:
    """The sleeper was awake in the turn and sleeps now: what the core did is in the same time."""
    hsx = load("HSX").with_smt(on=True)
    by_time = {"uops_executed_cycles_ge_1": [800.0, 800.0], "uops_issued_any": [900.0, 9.0]}
    by_cycles = {"uops_executed_cycles_ge_1": [800.0, 8.0], "uops_issued_any": [900.0, 0.09]}

    def columns(of: Mapping[str, Sequence[float]]) -> dict[str, Column]:
        return {name: column(np.array(item)) for name, item in of.items()}

    nothing = Missing(Reason.SOURCE)
    rates = CounterRates(columns(by_time), columns(by_cycles), {}, column(np.ones(2)), nothing)
    result = counts_of_cores(hsx, rates, topology(2))
    assert result["uops_executed_cycles_ge_1"][0] == 1600.0
    assert result["uops_issued_any"][0] == pytest.approx(900.09)
    alone = counts_of_cores(load("HSX").with_smt(on=False), rates, topology(2, smt=False))
    assert alone["uops_executed_cycles_ge_1"][1] == 8.0


def test_components_of_useful_work_are_counted_where_it_is_notable() -> None:
    def focus(light: float, *, beyond: bool) -> CoreDetail:
        tree = (
            TmaNode("retiring", None, 1, "slots", 0.8, beyond=True),
            TmaNode("light_operations", "retiring", 2, "slots", light, beyond=beyond),
            TmaNode("backend_bound", None, 1, "slots", 0.2, beyond=False),
            TmaNode("core_bound", "backend_bound", 2, "slots", 0.1, beyond=False),
        )
        return CoreDetail((Cpu(1),), tree, {}, {})

    assert drilled_node(focus(0.75, beyond=True), "core_bound") == "light_operations"
    assert drilled_node(focus(0.55, beyond=False), "light_operations") == "core_bound"


def test_what_is_below_the_largest_node_is_counted_and_noise_changes_nothing() -> None:
    def focus(**shares: Reading) -> CoreDetail:
        tree = [TmaNode("backend_bound", None, 1, "slots", 0.9, beyond=True)]
        tree += [
            TmaNode(name, "backend_bound", 2, "slots", share, beyond=False)
            for name, share in shares.items()
        ]
        return CoreDetail((Cpu(1),), tuple(tree), {}, {})

    unknown = Missing(Reason.WARMING)
    assert drilled_node(None, "core_bound") == ""
    assert drilled_node(focus(memory_bound=unknown), "core_bound") == ""
    both = focus(memory_bound=0.3, core_bound=0.33, light_operations=0.6)
    assert drilled_node(both, "") == "core_bound"
    assert drilled_node(both, "memory_bound") == "memory_bound"
    assert drilled_node(focus(memory_bound=0.2, core_bound=0.4), "memory_bound") == "core_bound"
    assert drilled_node(focus(memory_bound=unknown, core_bound=0.1), "memory_bound") == "core_bound"
