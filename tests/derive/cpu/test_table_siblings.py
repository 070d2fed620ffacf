"""What hyper-thread siblings do, beside each CPU."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.derive.cpu.counters import CounterRates
from nftop.derive.cpu.table import sibling_columns
from nftop.model.column import Column, column, from_readings, missing
from nftop.model.ids import Cpu
from nftop.model.metrics.cpu import SIBLING_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.topology import Topology
from tests.samples import topology

NOT_COUNTED = Missing(Reason.SOURCE, "no counter group here counts it")


def rates(rows: int, **events: Column) -> CounterRates:
    return CounterRates(events, events, {}, column(np.ones(rows)), NOT_COUNTED)


def readings(
    where: Topology, busy: Column, row: int, **events: Column
) -> tuple[Reading, Reading, Reading]:
    columns = sibling_columns(busy, rates(len(where.cpus), **events), where)
    assert columns.keys() == {metric.id for metric in SIBLING_METRICS}
    busy_ratio, ipc, of_core = (columns[metric.id][row] for metric in SIBLING_METRICS)
    return busy_ratio, ipc, of_core


def four(*values: float) -> Column:
    return column(np.array(values))


TWO_CORES = topology(4)  # CPUs 0 and 2 are one core, 1 and 3 the other
BUSY = four(0.1, 0.2, 0.91, 0.4)


def test_a_core_does_what_its_threads_do_in_the_cycles_of_the_busier() -> None:
    events = {"instructions": four(300, 10, 900, 10), "cycles": four(200, 10, 600, 10)}
    assert [info.siblings for info in TWO_CORES.cpus[:3:2]] == [(Cpu(2),), (Cpu(0),)]
    assert readings(TWO_CORES, BUSY, 0, **events) == (0.91, 1.5, 2.0)
    assert readings(TWO_CORES, BUSY, 2, **events) == (0.1, 1.5, 2.0)


def test_clocks_of_the_core_are_taken_where_they_are_counted() -> None:
    # Threads that run in turn: the core was unhalted for longer than either.
    any_thread = four(800, 20, 800, 20)
    events = {"instructions": four(300, 10, 900, 10), "cycles": four(200, 10, 600, 10)}
    assert readings(TWO_CORES, BUSY, 0, cycles_any=any_thread, **events)[2] == 1.5


def test_a_thread_without_a_number_leaves_none_and_reports_why() -> None:
    quiet = Missing(Reason.SOURCE, "listed in --quiet-cpus")
    cycles = from_readings({0: 200.0, 1: 1.0, 3: 1.0}, 4, quiet)
    instructions = from_readings({0: 300.0, 1: 1.0, 2: quiet, 3: 1.0}, 4, NOT_COUNTED)
    result = readings(TWO_CORES, BUSY, 0, cycles=cycles, instructions=instructions)
    of_sibling = Missing(Reason.SOURCE, "its hyper-thread sibling: listed in --quiet-cpus")
    assert result == (0.91, of_sibling, of_sibling)
    result = readings(TWO_CORES, BUSY, 2, cycles=cycles, instructions=instructions)
    assert result == (0.1, 1.5, quiet)
    assert readings(TWO_CORES, BUSY, 0)[1] == NOT_COUNTED


def test_a_core_that_sleeps_is_idle() -> None:
    nothing = {"instructions": four(0, 0, 0, 0), "cycles": four(0, 0, 0, 0)}
    _, ipc, of_core = readings(TWO_CORES, BUSY, 0, **nothing)
    assert isinstance(ipc, Missing) and ipc.reason is Reason.IDLE
    assert isinstance(of_core, Missing) and of_core.reason is Reason.IDLE


@pytest.mark.parametrize("smt", [False, True])
def test_undefined_where_a_core_runs_one_thread(smt: bool, snapshot: SnapshotAssertion) -> None:
    where = topology(4, smt=smt)
    if smt:  # the sibling of CPU 0 was taken offline
        alone = replace(where.cpus[0], siblings=())
        where = replace(where, cpus=(alone, *where.cpus[1:]))
    ones = four(1, 1, 1, 1)
    for reading in readings(where, BUSY, 0, instructions=ones, cycles=ones):
        assert isinstance(reading, Missing) and reading.reason is Reason.UNDEFINED
    of_core = readings(where, BUSY, 1, instructions=ones, cycles=ones)[1]
    if smt:
        assert of_core == 1.0
    else:
        assert isinstance(of_core, Missing) and of_core.reason is Reason.UNDEFINED
        assert of_core.message == snapshot


@given(st.lists(st.tuples(*[st.floats(1.0, 1e10)] * 3), min_size=4, max_size=4))
def test_of_four_threads_all_others_are_the_siblings(
    threads: list[tuple[float, float, float]],
) -> None:
    cpus = topology(4).cpus
    where = Topology(
        tuple(
            replace(
                info, core=cpus[0].core, siblings=tuple(Cpu(c) for c in range(4) if c != info.cpu)
            )
            for info in cpus
        )
    )
    busy, instructions, cycles = (column(np.array(thread)) for thread in zip(*threads, strict=True))
    for row in range(4):
        others = [thread for at, thread in enumerate(threads) if at != row]
        result = readings(where, busy, row, instructions=instructions, cycles=cycles)
        assert result[0] == max(other[0] for other in others)
        assert result[1:] == pytest.approx(
            (
                sum(other[1] for other in others) / sum(item[2] for item in others),
                sum(item[1] for item in threads) / max(entry[2] for entry in threads),
            )
        )


def test_no_columns_for_no_cpus() -> None:
    empty = missing(0, NOT_COUNTED)
    result = sibling_columns(empty, rates(0), Topology(()))
    assert [len(value) for value in result.values()] == [0, 0, 0]
