"""Threads added up to cores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.model.column import Column, column, from_readings, missing
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.topology import Topology
from nftop.uarch.topdown import sum_siblings
from tests.samples import topology

COUNTS = st.floats(0, 1e12)


def readings(component: Column) -> list[Reading]:
    return [component[row] for row in range(len(component))]


@given(st.integers(1, 8), st.data())
def test_every_thread_shows_the_sum_of_its_core(cores: int, data: st.DataObject) -> None:
    host = topology(2 * cores)
    values = data.draw(st.lists(COUNTS, min_size=2 * cores, max_size=2 * cores))
    summed = sum_siblings({"cycles": column(np.array(values))}, host)
    for info in host.cpus:
        mine, other = values[info.cpu], values[info.siblings[0]]
        row = host.row_of[info.cpu]
        assert summed["cycles"][row] == pytest.approx(mine + other)
        assert summed["busiest_cycles"][row] == max(mine, other)
        assert summed["threads"][row] == 2.0


def test_without_hyper_threading_nothing_is_added() -> None:
    summed = sum_siblings({"aperf": column(np.array([1.0, 2.0]))}, topology(2, smt=False))
    assert summed["aperf"].values.tolist() == [1.0, 2.0]
    assert summed["busiest_aperf"].values.tolist() == [1.0, 2.0]
    assert summed["threads"].values.tolist() == [1.0, 1.0]


def test_only_clocks_have_a_busiest() -> None:
    summed = sum_siblings({"instructions": column(np.array([1.0, 2.0]))}, topology(2))
    assert set(summed) == {"instructions", "threads"}


def test_a_core_that_lacks_one_thread_has_no_sum_and_reports_which_lacks(
    snapshot: SnapshotAssertion,
) -> None:
    quiet = Missing(Reason.SOURCE, "left alone as asked")
    rows: dict[int, Reading] = {0: 1.0, 1: 5.0, 2: quiet, 3: 6.0}
    component = from_readings(rows, 4, Missing(Reason.UNDEFINED))
    for name in ("cycles", "busiest_cycles"):
        got = sum_siblings({"cycles": component}, topology(4))[name]
        assert isinstance(got[0], Missing) and got[0].reason is Reason.SOURCE
        assert got[0].message == snapshot
        assert got[2] == quiet
        assert got[1] == got[3] == (11.0 if name == "cycles" else 6.0)
        assert np.isnan(got.values[[0, 2]]).all()


def test_reasons_of_whole_columns_stay_as_they_are() -> None:
    why = Missing(Reason.PERMISSION, "needs CAP_PERFMON")
    summed = sum_siblings({"cycles": missing(4, why)}, topology(4))
    assert readings(summed["cycles"]) == [why] * 4


def with_offline(host: Topology, cpu: int) -> Topology:
    cpus = list(host.cpus)
    cpus[cpu] = replace(cpus[cpu], online=False, core=None, siblings=())
    return replace(host, cpus=tuple(cpus))


def test_a_core_with_an_offline_thread_is_the_one_that_is_left() -> None:
    offline = Missing(Reason.UNDEFINED, "the CPU is offline")
    component = from_readings({0: 1.0, 1: 5.0, 3: 6.0}, 4, offline)
    summed = sum_siblings({"cycles": component}, with_offline(topology(4), 2))
    assert readings(summed["cycles"]) == [1.0, 11.0, offline, 11.0]
    assert readings(summed["threads"]) == [1.0, 2.0, offline, 2.0]


def test_no_cpu_is_no_row() -> None:
    summed = sum_siblings({"cycles": column(np.array([]))}, Topology(()))
    assert [len(component) for component in summed.values()] == [0, 0, 0]
