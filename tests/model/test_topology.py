"""Rows, packages and cores of a topology as arrays."""

from __future__ import annotations

import numpy as np
import pytest

from nftop.model.ids import Core, Cpu, Package
from nftop.model.topology import CpuInfo, Topology


def cpu(number: int, core: int | None, package: int | None, *, online: bool = True) -> CpuInfo:
    return CpuInfo(
        Cpu(number),
        online,
        None if core is None else Core(core),
        None if package is None else Package(package),
        die=None,
        l3=None,
        node=None,
    )


# Rows in no order of cores or packages; CPU 9 is offline, CPU 4 has no core.
TOPOLOGY = Topology(
    (
        cpu(7, 3, 40),
        cpu(2, 1, 8),
        cpu(9, None, 8, online=False),
        cpu(4, None, None),
        cpu(3, 3, 40),
        cpu(5, 1, 8),
    )
)


def test_rows_of_cpus_that_are_not_here_are_none() -> None:
    rows = TOPOLOGY.rows_of(np.array([5, 7, 6, -1, 1 << 30]))
    assert rows.tolist() == [5, 0, -1, -1, -1]


def test_positions_of_packages_that_are_not_here_are_none() -> None:
    at = TOPOLOGY.positions_of(np.array([40, 8, 0, -1, 41, 9], np.int32))
    assert at.tolist() == [1, 0, -1, -1, -1, -1]


@pytest.mark.parametrize("numbers", [[], [0, -1, 3]])
def test_without_packages_none_has_a_position(numbers: list[int]) -> None:
    at = Topology((cpu(0, 0, None),)).positions_of(np.array(numbers, np.int64))
    assert at.tolist() == [-1] * len(numbers)


def test_rows_are_in_order_of_cores_and_know_theirs() -> None:
    order, begins, core_of = TOPOLOGY.by_core
    values = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    assert np.maximum.reduceat(values[order], begins)[core_of].tolist() == [5, 6, 3, 4, 5, 6]
    assert sorted(order.tolist()) == list(range(6))
