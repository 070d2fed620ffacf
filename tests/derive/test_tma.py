"""Top-down in a frame: from the table's events to the catalogue's metrics."""

from __future__ import annotations

import pytest

from nftop.derive.counters import CounterState, step_counters
from nftop.derive.tma import tma_columns
from nftop.model.catalogue_tma import TMA_METRICS
from nftop.model.reading import Missing, Reason
from nftop.model.sample import CounterTable, SourceReading
from nftop.uarch.table import load
from tests.samples import S, counters, topology

SKX = load("SKX").with_smt(on=False)
ONE = topology(2, smt=False)
LEVEL_1 = ("frontend_bound", "bad_speculation", "backend_bound", "retiring")


def rows(**counts: int) -> dict[str, float | Missing]:
    """Level 1 of CPU 0 when these were counted within a second."""
    events = SKX.counted

    def at(second: int) -> SourceReading[CounterTable]:
        values = [counts.get(event, 0) * second for event in events]
        table = counters(dict.fromkeys((0, 1), values), enabled_ns=S * second, events=events)
        return SourceReading(table, S * second, 1)

    state, _ = step_counters(CounterState(), at(1), ONE)
    _, rates = step_counters(state, at(2), ONE)
    columns = tma_columns(SKX, rates, ONE)
    assert columns.keys() == {metric.id for metric in TMA_METRICS}
    return {node: columns[f"tma.{node}"][0] for node in LEVEL_1}


def test_level_1_is_where_the_slots_went() -> None:
    # A thousand cycles are four thousand slots: 400 not delivered, 2400 retired, 2600 issued.
    level_1 = rows(
        cycles=1000,
        idq_uops_not_delivered_core=400,
        uops_issued_any=2600,
        uops_retired_retire_slots=2400,
        int_misc_recovery_cycles=50,
    )
    assert level_1 == {
        "frontend_bound": pytest.approx(0.10),
        "bad_speculation": pytest.approx((2600 - 2400 + 4 * 50) / 4000),
        "backend_bound": pytest.approx(1 - 0.10 - (2600 + 4 * 50) / 4000),
        "retiring": pytest.approx(0.60),
    }


def test_a_core_that_slept_has_no_shares() -> None:
    for share in rows().values():
        assert isinstance(share, Missing) and share.reason is Reason.IDLE


def test_counts_that_contradict_each_other_are_no_shares() -> None:
    impossible = rows(cycles=1000, uops_retired_retire_slots=9000, uops_issued_any=9000)
    for share in impossible.values():
        assert isinstance(share, Missing) and share.reason is Reason.ERROR


def test_a_cpu_without_a_table_says_so() -> None:
    _, rates = step_counters(CounterState(), None, ONE)
    for uarch in (None, load()):
        for column in tma_columns(uarch, rates, ONE).values():
            why = column[0]
            assert isinstance(why, Missing) and "generic" in why.sentence


def test_what_perf_may_not_read_is_a_permission() -> None:
    denied = Missing(Reason.PERMISSION, "perf_event_paranoid is 2")
    _, rates = step_counters(CounterState(), SourceReading(denied, S, 1), ONE)
    assert tma_columns(SKX, rates, ONE)["tma.retiring"][0] == denied
