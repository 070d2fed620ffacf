"""Formulas and events in words."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.uarch.event_names import EventNames
from nftop.uarch.events import Encoding, PmuTerms
from nftop.uarch.explain import definition, perf_name
from tests.uarch.vectors import UARCHES, loaded


def test_a_formula_with_its_terms_and_events(snapshot: SnapshotAssertion) -> None:
    reported = dict(definition(loaded("SKX"), "tma.frontend_bound", smt=True))
    assert reported["tma.frontend_bound"] == "idq_uops_not_delivered_core / slots"
    assert reported["slots"] == "slots_per_cycle * core_cycles"
    assert reported["slots_per_cycle"] == "4"
    assert reported["threads"] == snapshot
    assert "largest" in reported["busiest_cycles"]
    event = "IDQ_UOPS_NOT_DELIVERED.CORE cpu/event=0x9c,umask=0x1/"
    assert reported["idq_uops_not_delivered_core"] == event
    assert "cycles_any" not in dict(definition(loaded("SKX"), "tma.frontend_bound", smt=False))


def test_another_metric_is_only_named_and_unknown_ones_are_absent() -> None:
    reported = dict(definition(loaded("SKX"), "tma.light_operations", smt=False))
    assert reported == {"tma.light_operations": "retiring - heavy_operations"}
    assert definition(loaded("SKX"), "mmio.combined_write_per_s", smt=True) == ()
    assert definition(loaded("generic"), "tma.retiring", smt=True) == ()


@pytest.mark.parametrize("uarch", UARCHES)
def test_every_formula_is_explained_to_the_last_event(uarch: str) -> None:
    table = loaded(uarch)
    assert table.topdown
    nodes = table.topdown.nodes
    for metric in (*table.traffic, *table.probes, *(f"tma.{name}" for name in nodes)):
        reported = definition(table, metric, smt=True)
        assert reported[0][0] == metric
        assert len(dict(reported)) == len(reported)
        if metric in table.traffic:
            assert any("uncore_" in text for _, text in reported), metric


def test_events_as_perf_takes_them() -> None:
    assert perf_name(Encoding(4, 0x010053C)) == "cpu/event=0x3c,umask=0x5/"
    both = Encoding(4, 0x5 << 24 | 1 << 23 | 1 << 18 | 0x1B7, config1=0x10)
    terms = "event=0xb7,umask=0x1,edge=0x1,inv=0x1,cmask=0x5,offcore_rsp=0x10,name=A.B"
    assert perf_name(both, "A.B") == f"cpu/{terms}/"
    assert perf_name(Encoding(1, 3)) == "software/config=0x3/"
    assert perf_name(PmuTerms("cpu", "slots"), "A.B") == "slots"
    assert perf_name(PmuTerms("cpu", "event=0x3c,any=1"), "A") == "cpu/event=0x3c,any=1,name=A/"


@pytest.mark.parametrize("uarch", UARCHES)
def test_an_explained_event_resolves_to_that_event(uarch: str) -> None:
    table = loaded(uarch)
    names = EventNames(table)
    for event, spec in table.events.items():
        if isinstance(spec, PmuTerms) and spec.pmu != "cpu":
            continue
        if isinstance(spec, Encoding) and (spec.pmu_type != 4 or spec.config1):
            continue
        result = names.find(perf_name(spec))
        assert result and table.events[result.event] == spec, event
