"""Coverage and findings where formulas have alternatives: PERF_METRICS or general counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from nftop.derive.cpu.counters import CounterState, step_counters
from nftop.derive.topdown.tma import ShareState, tma_columns
from nftop.model.column import Column
from nftop.model.metrics.metric import ESTIMATE_BELOW
from nftop.model.missing import Missing, Reason
from nftop.model.sample import CounterTable, SourceReading
from nftop.model.topology import Topology
from nftop.sim import payloads
from nftop.sim.events import factors_of
from nftop.uarch import table
from nftop.uarch.events import EventSpec
from nftop.uarch.formula import compile_formula
from tests.samples import S, topology
from tests.sim.hosts import Frozen, value
from tests.uarch.counters import core_encoding, on_core

ICX = table.load("ICX").with_smt(on=True)
MACHINE = topology(2)
# Counts of one thread in a second, which has half of its core's slots.
METRICS: Mapping[str, int] = {
    "cycles": 1000,
    "ref_cycles": 1000,
    "tsc": 1000,
    "topdown_slots": 2500,
    "perf_metrics_retiring": 1000,
    "perf_metrics_bad_speculation": 250,
    "perf_metrics_frontend_bound": 1000,
    "perf_metrics_backend_bound": 250,
    "int_misc_uop_dropping": 0,
    "int_misc_clears_count": 10,
}
# Ten per cent of the time each.
STAND_IN: Mapping[str, int] = {"cycles": 1000, "uops_retired_slots": 1000}
BY_SLOTS: Mapping[str, int] = {
    "cycles": 1000,
    "distributed_cycles": 500,
    "undelivered_slots": 1000,
    "backend_bound_slots": 250,
    "uops_retired_slots": 1000,
}


def top_down(
    *groups: tuple[Mapping[str, int], float],
    lacking: Mapping[int, frozenset[str]] | None = None,
    uarch: table.Uarch = ICX,
    machine: Topology = MACHINE,
    turns: int = 0,
) -> Mapping[str, Column]:
    """Top-down of one core from the counts of its groups and the share of time each ran.

    `lacking`: by CPU, events that it does not count.
    """
    keys = [(at, event) for at, (counts, _) in enumerate(groups) for event in counts]
    absent = [[event in (lacking or {}).get(cpu, ()) for _, event in keys] for cpu in (0, 1)]

    def at(second: int) -> SourceReading[CounterTable]:
        row = [int(groups[group][0][event] * groups[group][1]) * second for group, event in keys]
        return SourceReading(
            CounterTable(
                cpus=np.arange(2, dtype=np.int32),
                events=tuple(event for _, event in keys),
                group=np.array([group for group, _ in keys], np.int32),
                values=np.where(absent, 0, np.array([row, row])).astype(np.uint64),
                reasons=np.where(absent, np.uint8(Reason.HARDWARE), np.uint8(0)),
                enabled_ns=np.full((2, len(groups)), S * second, np.uint64),
                turns=turns,
                running_ns=np.array(
                    [[int(S * share) * second for _, share in groups]] * 2, np.uint64
                ),
            ),
            S * second,
            1,
        )

    state, _ = step_counters(CounterState(), at(1), machine)
    _, rates = step_counters(state, at(2), machine)
    return tma_columns(ShareState(), uarch, rates, machine)[1]


def test_level_1_by_perf_metrics_has_the_coverage_of_their_group() -> None:
    """Its stand-in for retiring is counted too, in a turn of level 2."""
    got = top_down((METRICS, 0.9), (STAND_IN, 0.1))
    assert got["tma.frontend_bound"][0] == pytest.approx(0.4)
    assert got["tma.retiring"][0] == pytest.approx(0.4)
    assert got["tma.coverage"][0] == 0.9


def test_level_1_by_general_counters_has_theirs() -> None:
    clears = {"cycles": 1000, "int_misc_uop_dropping": 0, "int_misc_clears_count": 10}
    got = top_down((BY_SLOTS, 0.5), (clears, 0.25))
    assert got["tma.retiring"][0] == pytest.approx(0.4)
    assert got["tma.coverage"][0] == 0.25


def test_every_core_has_the_coverage_of_its_own_alternative() -> None:
    """One thread without PERF_METRICS: their core is left with the general counters."""
    both = dict.fromkeys((0, 1), frozenset[str]())
    whole = top_down((METRICS, 0.8), (BY_SLOTS, 0.2), lacking=both)
    assert whole["tma.coverage"][0] == 0.8
    metrics = frozenset(name for name in METRICS if name.startswith("perf_metrics_"))
    without = top_down((METRICS, 0.8), (BY_SLOTS, 0.2), lacking={1: metrics})
    assert without["tma.coverage"][0] == without["tma.coverage"][1] == 0.2


def test_level_1_by_perf_metrics_is_not_taken_for_a_turn_s() -> None:
    """Shares of PERF_METRICS that contradict the slots are an error, not a change of the load."""
    wrong = {**METRICS, "topdown_slots": 5000}
    got = top_down((wrong, 0.9), (STAND_IN, 0.1))
    for node in ("frontend_bound", "bad_speculation", "backend_bound", "retiring"):
        why = got[f"tma.{node}"][0]
        assert isinstance(why, Missing) and why.reason is Reason.ERROR, node


@pytest.mark.parametrize(
    ("mispredicted", "reason"),
    [(1200, Reason.PRESENT), (1000, Reason.PRESENT), (300, Reason.UNDEFINED)],
)
def test_components_of_a_turn_that_fall_short_of_their_whole_saw_another_moment(
    mispredicted: int, reason: Reason
) -> None:
    """Sierra Forest's mispredicts and clears are all there is of bad speculation."""
    level_1 = {
        "cycles": 1000,
        "ref_cycles": 1000,
        "tsc": 1000,
        "topdown_fe_bound_all_p": 600,
        "topdown_bad_speculation_all_p": 1800,
        "topdown_be_bound_all_p": 1200,
        "topdown_retiring_all_p": 2400,
    }
    level_2 = {
        "cycles": 1000,
        "topdown_fe_bound_frontend_latency": 300,
        "topdown_fe_bound_frontend_bandwidth": 300,
        "topdown_bad_speculation_mispredict": mispredicted,
        "topdown_bad_speculation_machine_clears": 600,
        "topdown_be_bound_alloc_restrictions": 300,
    }
    got = top_down(
        (level_1, 0.9),
        (level_2, 0.1),
        uarch=table.load("SRF"),
        machine=topology(2, smt=False),
        turns=1,
    )
    assert got["tma.bad_speculation"][0] == pytest.approx(0.3)
    for node in ("branch_mispredicts", "machine_clears"):
        reading = got[f"tma.{node}"][0]
        shown = reading.reason if isinstance(reading, Missing) else Reason.PRESENT
        assert shown is reason, node
    assert got["tma.core_bound"][0] == pytest.approx(0.05)


def test_a_formula_reports_what_it_used() -> None:
    formula = compile_formula("first(a / b, c) + (d if a < b else e)")
    one, gone = column_of(1.0, 1.0), column_of(1.0, np.nan)
    columns = {"a": one, "b": column_of(2.0, 1.0), "c": one, "d": one, "e": one}
    _, used = formula.with_usage(columns, 2)
    shown = {name: np.broadcast_to(rows, 2).tolist() for name, rows in used.items()}
    assert shown == {
        "a": [True, True],
        "b": [True, True],
        "c": [False, False],
        "d": [True, False],
        "e": [False, True],
    }
    _, used = formula.with_usage({**columns, "b": column_of(2.0, 0.0)}, 2)
    assert np.broadcast_to(used["c"], 2).tolist() == [False, True], "a division by zero"
    _, used = compile_formula("first(a, c)").with_usage({"a": gone, "c": one}, 2)
    assert np.broadcast_to(used["c"], 2).tolist() == [False, True]


def column_of(*values: float) -> Column:
    numbers = np.array(values)
    gone = np.isnan(numbers)
    return Column(numbers, np.where(gone, np.uint8(Reason.SOURCE), np.uint8(0)))


@pytest.mark.parametrize("uarch", ["ICX", "SPR"])
@pytest.mark.parametrize(
    ("scenario", "rule"),
    [("frontend", "frontend-bound"), ("speculation", "bad-speculation")],
)
def test_findings_of_level_1_fire(
    uarch: str, scenario: str, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From 20 s to 40 s of the scenario; with coverage of level 1 no estimate."""
    skx, known = table.load("SKX"), table.load(uarch)
    known = replace(known, uncore=skx.uncore, traffic=skx.traffic)

    def load(_name: str) -> table.Uarch:
        return known

    def counted(event: EventSpec, _uarch: str) -> Mapping[str, float] | None:
        return factors_of(core_encoding(event) if on_core(event) else event, uarch)

    monkeypatch.setattr(table, "load", load)
    monkeypatch.setattr(payloads, "factors_of", counted)
    host = Frozen(scenario, 44)
    host.tick(0)
    frames = [host.tick(S) for _ in range(35)]
    fired = [rule in {result.rule for result in frame.findings} for frame in frames]
    assert not any(fired[:20])
    assert fired[30]
    last = frames[30]
    where = next(result.where for result in last.findings if result.rule == rule)
    cpu = int(where.removeprefix("cpu ").partition(",")[0])
    assert value(last, "tma.coverage", cpu) == pytest.approx(0.9 if uarch == "ICX" else 1.0)
    assert value(last, "tma.coverage", cpu) > ESTIMATE_BELOW
