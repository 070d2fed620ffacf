"""Top-down by formulas that came with the counters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.derive.fold import FoldState
from nftop.model.frame import Frame
from nftop.model.metrics.tma import TMA_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.sample import CounterTable
from nftop.uarch.table import load
from tests.samples import EVENTS, HOST, S, counters, fold, sample, topology

FORMULAS = {"tma.retiring": "kernel_good / kernel_all", "tma.frontend_bound": "1 - kernel_good / 9"}
NAMES = (*EVENTS, "kernel_good", "kernel_all")


def table(second: int, good: float, everything: float, ref_cycles: float = 2e9) -> CounterTable:
    """Counts a second of CPU 0; CPU 1 is like it but for twice of all."""
    row = [2e9, 3e9, ref_cycles, 2e9, 5, good, everything]
    rows = {cpu: [int(item * second * (cpu + 1)) for item in row] for cpu in range(2)}
    return replace(counters(rows, enabled_ns=second * S, events=NAMES), formulas=FORMULAS)


def frame(*tables: CounterTable, uarch: str = "generic") -> Frame:
    start = FoldState(HOST, topology(2, smt=False), load(uarch))
    return fold(start, *(sample(at * S, perf=item) for at, item in enumerate(tables, 1)))[-1]


def shown(metric: str, *tables: CounterTable, uarch: str = "generic") -> Reading:
    return frame(*tables, uarch=uarch).cpus.columns[f"tma.{metric}"][0]


def reason(reading: Reading) -> Reason:
    assert isinstance(reading, Missing), reading
    return reading.reason


@pytest.mark.parametrize("uarch", ["generic", "SKX"])
def test_they_go_before_the_cpu_s_own_table(uarch: str) -> None:
    tables = (table(1, 3, 4), table(2, 3, 4))
    assert shown("retiring", *tables, uarch=uarch) == pytest.approx(0.75)
    assert shown("coverage", *tables, uarch=uarch) == 1.0
    deeper = shown("memory_bound", *tables, uarch=uarch)
    assert reason(deeper) is Reason.SOURCE


@given(good=st.integers(0, 10**9), everything=st.integers(0, 10**9))
def test_shares_are_in_0_to_1_or_missing_with_a_reason(good: int, everything: int) -> None:
    for row in (0, 1):
        columns = frame(table(1, good, everything), table(2, good, everything)).cpus.columns
        share = columns["tma.retiring"][row]
        if everything == 0:
            assert reason(share) is Reason.IDLE
        elif good > everything * 1.006 or 1 - good * (row + 1) / 9 < -0.006:
            assert reason(share) is Reason.ERROR
        elif not isinstance(share, Missing):
            assert 0.0 <= share <= 1.0


def test_counts_that_contradict_one_another_take_every_share_of_the_row() -> None:
    tables = (table(1, 5, 4), table(2, 5, 4))
    assert reason(shown("retiring", *tables)) is Reason.ERROR
    assert reason(shown("frontend_bound", *tables)) is Reason.ERROR
    assert reason(shown("coverage", *tables)) is Reason.ERROR


def test_a_cpu_that_slept_has_none() -> None:
    tables = [table(at, 3, 4, ref_cycles=0.04 * 2e9) for at in (1, 2)]
    assert reason(shown("retiring", *tables)) is Reason.IDLE
    assert shown("retiring", *(table(at, 3, 4, ref_cycles=0.06 * 2e9) for at in (1, 2))) == 0.75


def test_the_first_reading_has_none_yet() -> None:
    assert reason(shown("retiring", table(1, 3, 4))) is Reason.WARMING


def test_what_the_source_reports_of_a_metric_is_reported() -> None:
    texts: Mapping[str, Mapping[int, str]] = {"tma.bad_speculation": {int(Reason.HARDWARE): "no."}}
    tables = [replace(table(at, 3, 4), details=texts) for at in (1, 2)]
    assert shown("bad_speculation", *tables) == Missing(Reason.HARDWARE, "no.")
    assert shown("retiring", *tables) == 0.75


def test_an_event_that_is_absent_gives_its_reason() -> None:
    tables = []
    for at in (1, 2):
        whole = table(at, 3, 4)
        reasons = whole.reasons.copy()
        reasons[:, NAMES.index("kernel_all")] = Reason.TAKEN
        details = {"kernel_all": {int(Reason.TAKEN): "pcm has it"}}
        tables.append(replace(whole, reasons=reasons, details=details))
    assert shown("retiring", *tables) == Missing(Reason.TAKEN, "pcm has it")


def test_a_text_that_is_no_formula_costs_its_own_metric_only() -> None:
    formulas = {**FORMULAS, "tma.frontend_bound": "__import__('os')"}
    odd = [replace(table(at, 3, 4), formulas=formulas) for at in (1, 2)]
    assert shown("retiring", *odd) == pytest.approx(0.75)
    unreadable = shown("frontend_bound", *odd)
    assert reason(unreadable) is Reason.ERROR
    assert isinstance(unreadable, Missing) and "can't be read" in unreadable.message
    assert shown("coverage", *odd) == 1.0


@pytest.mark.parametrize("uarch", ["generic", "SKX"])
def test_without_a_reading_every_share_has_its_reason(uarch: str) -> None:
    """Also after one that had formulas of its own."""
    denied = Missing(Reason.PERMISSION, "perf_event_paranoid is 4")
    start = FoldState(HOST, topology(2, smt=False), load(uarch))
    samples = [sample(at * S, perf=table(at, 3, 4)) for at in (1, 2)]
    for given_before in ([], samples):
        last = fold(start, *given_before, sample(3 * S, perf=denied))[-1]
        for metric in TMA_METRICS:
            assert last.cpus.columns[metric.id][0] == denied
