"""Every bound is of a field that there is, and lets through what hosts have."""

from __future__ import annotations

import math

import numpy as np
import pytest

from nftop.model.rdt.masks import MAX_WAYS, Cbm
from nftop.model.sample_bounds import BOUNDS, MAX_CPUS, BoundsError, check, check_all
from nftop.model.topology import Topology
from nftop.store.format.schema import classes, described
from tests.hostile import honest

_OF_HEADERS = {"CoreBaseline", "NfBaseline", "Baselines"}


def test_every_bound_is_of_an_existing_field() -> None:
    for record, bounds in BOUNDS.items():
        if record in _OF_HEADERS:
            continue
        assert record in classes(), record
        names = {name for name, _ in described()[record]}
        assert bounds.keys() <= names, bounds.keys() - names
        assert all(bound.source and bound.least <= bound.most for bound in bounds.values())


def test_every_list_of_records_and_cpus_has_a_bound() -> None:
    for record, shapes in described().items():
        for name, shape in shapes:
            listed = isinstance(shape, tuple) and shape[0] == "list"
            if listed and isinstance(shape[1], tuple) and shape[1][0] == "record":
                bound = BOUNDS.get(record, {}).get(name)
                assert bound is not None and bound.max_length, f"{record}.{name}"


@pytest.mark.parametrize("cpus", [2, 88, 512])
def test_what_the_simulated_host_gives_is_within_them(cpus: int) -> None:
    header, samples = honest(2, cpus)
    check_all(header.topology)
    for sample in samples:
        for reading in sample.readings.values():
            check_all(reading.value)


@pytest.mark.parametrize("number", [-1, 1 << 14, math.nan, math.inf, -math.inf, 1e300])
def test_a_number_beyond_its_bound_names_the_field(number: float) -> None:
    for value in (number, (0, number), [number, 1], {0: number}):
        with pytest.raises(BoundsError, match=r"CpuInfo\.cpu"):
            check("CpuInfo", "cpu", [3, value])
    with pytest.raises(BoundsError, match=r"CpuTimes\.cpus"):
        check("CpuTimes", "cpus", [np.array([0.0, number])])
    check("CpuInfo", "cpu", [0, 8191, None, (), np.array([], "i4"), "text"])
    check("CpuInfo", "no_such_field", [number])


def test_a_list_longer_than_its_bound_names_the_field() -> None:
    _, samples = honest(1)
    (info, *_) = (
        reading.value.cpus
        for reading in samples[0].readings.values()
        if isinstance(reading.value, Topology)
    )
    check_all(Topology(info[:1] * MAX_CPUS))
    with pytest.raises(BoundsError, match=r"Topology\.cpus"):
        check_all(Topology(info[:1] * (MAX_CPUS + 1)))


def test_a_mask_has_no_more_ways_than_a_register_has_bits() -> None:
    assert Cbm((1 << MAX_WAYS) - 1, MAX_WAYS).ways == MAX_WAYS
    for width in (0, MAX_WAYS + 1, 10**9):
        with pytest.raises(ValueError, match="is no mask"):
            Cbm(1, width)
