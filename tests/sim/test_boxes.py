"""Boxes outside the cores: their shares make up what their package does, whatever is asked."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.sim import scenario
from nftop.sim.model import Model, model_of
from nftop.sim.uncore import (
    OF_PACKAGE_INDEX,
    box_counts,
    box_factors,
    box_weights,
    boxes,
    package_counts,
    pmus,
    weighted,
)
from nftop.sim.workloads import INDEX, QUANTITIES
from nftop.uarch import table
from nftop.uarch.table import PmuTerms

S = 1_000_000_000
UARCHES = ("BDX", "CLX", "EMR", "HSX", "ICX", "SKX", "SPR")
WEIGHTS = st.lists(st.integers(0, 7), min_size=1, max_size=9).filter(any)
CLOCKS = {OF_PACKAGE_INDEX["uncore_clocks"], OF_PACKAGE_INDEX["memory_clocks"]}
SHARED = [column for column in range(len(OF_PACKAGE_INDEX)) if column not in CLOCKS]


def model(cpus: int = 88, weights: tuple[int, ...] = ()) -> Model:
    own = dataclasses.replace(scenario.load("default"), channel_weights=weights)
    return model_of(own, cpus)


@given(st.integers(0, 2**50), st.integers(0, 2**40), WEIGHTS)
def test_shares_sum_to_the_whole_and_never_go_back(
    total: int, more: int, weights: list[int]
) -> None:
    totals = np.array([[total], [total + more]], dtype=np.uint64)
    before, after = weighted(totals, weights)
    assert (int(before.sum()), int(after.sum())) == (total, total + more)
    assert (after >= before).all()
    fair = total * np.array(weights) / sum(weights)
    assert np.abs(before[:, 0].astype(float) - fair).max() <= max(weights) + total * 1e-12


@pytest.mark.parametrize("uarch", UARCHES)
@pytest.mark.parametrize("cpus", [2, 7, 88])
def test_boxes_make_up_their_package(uarch: str, cpus: int) -> None:
    host = model(cpus)
    t_ns = 9 * S + 7
    whole = package_counts(host, t_ns)
    of_cpus = host.counts(t_ns)
    for row, package in enumerate(host.layout.topology.packages):
        mine = [info.cpu for info in host.layout.topology.cpus if info.package == package]
        assert (whole[row, : len(QUANTITIES)] == of_cpus[mine].sum(axis=0)).all()
    for pmu in pmus(uarch):
        counts = box_counts(host, t_ns, pmu, uarch)
        assert counts.shape[1] == len(boxes(host, pmu, uarch))
        assert (counts.sum(axis=1)[:, SHARED] == whole[:, SHARED]).all()
        for clock in CLOCKS:
            assert (counts[:, :, clock] == whole[:, None, clock]).all()


@pytest.mark.parametrize("uarch", UARCHES)
def test_every_event_of_the_tables_is_answered(uarch: str) -> None:
    host = model()
    known = table.load(uarch)
    unknown = {
        name
        for unit in known.uncore
        for name, event in unit.events.items()
        if box_factors(event, uarch) is None or not boxes(host, unit.pmu, uarch)
    }
    assert unknown == set()


def test_a_package_sends_what_the_other_receives() -> None:
    counts = package_counts(model(), 9 * S)
    sent, received = (
        counts[:, OF_PACKAGE_INDEX[f"link_lines_{way}"]].tolist() for way in ("sent", "received")
    )
    assert sent == received[::-1]
    assert sent[0] != sent[1]
    alone = package_counts(model(cpus=2), 9 * S)
    assert alone.shape[0] == 1
    assert alone[0, INDEX["remote_reads"]] > 0
    assert alone[0, OF_PACKAGE_INDEX["link_lines_sent"]] == 0


def test_a_scenario_weighs_memory_channels() -> None:
    host = model(weights=(3, 2))
    reads = box_counts(host, 60 * S, "uncore_imc", "SKX")[0, :, INDEX["cas_reads"]].astype(float)
    assert reads / reads[-1] == pytest.approx([3, 2, 1, 1, 1, 1], rel=1e-6)
    # A place without a channel takes none of the weights.
    assert box_weights(host, "uncore_imc", "ICX") == (3, 2, 0, 1, 1, 0, 1, 1, 0, 1, 1, 0)
    assert set(box_weights(host, "uncore_cha", "SKX")) == {1}


def test_numbers_of_boxes_may_have_gaps() -> None:
    assert boxes(model(), "uncore_imc", "BDX") == (0, 1, 4, 5)
    assert boxes(model(), "uncore_cha", "SKX") == tuple(range(22))
    with pytest.raises(KeyError):
        boxes(model(), "uncore_cbox", "SKX")
    with pytest.raises(KeyError):
        pmus("ATOM")


@pytest.mark.parametrize(
    ("terms", "counted"),
    [
        ("event=0x4,umask=0x3", {"cas_reads": 1}),
        ("umask=3,event=4,thresh=0", {"cas_reads": 1}),
        ("event=0", {"memory_clocks": 1}),
        ("event=0x4,umask=0x3,edge", None),
        ("event=0x4", None),
    ],
)
def test_events_by_their_terms(terms: str, counted: dict[str, int] | None) -> None:
    assert box_factors(PmuTerms("uncore_imc", terms), "SKX") == counted
    assert box_factors(PmuTerms("uncore_edc", terms), "SKX") is None


def test_a_doorbell_is_rung_twice_a_burst() -> None:
    counts = package_counts(model(), 60 * S).astype(float)
    writes, packets = counts[:, INDEX["mmio_writes"]], counts[:, INDEX["packets"]]
    assert writes / packets == pytest.approx([2 / 32] * 2, rel=1e-6)
