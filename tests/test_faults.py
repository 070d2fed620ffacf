"""A fault of a source, or of two at once, costs their own numbers and nothing else."""

from __future__ import annotations

import random

import pytest

from nftop.model.missing import Reason
from nftop.model.sources import kinds
from tests import faults
from tests.faults import ALONE, FAULTS, combinations, judge, payloads, run_honest

# `make faults` plays every pair, which takes some minutes.
PAIRS = 24


def test_every_source_has_every_fault_and_every_pair() -> None:
    every = list(combinations())
    assert {name for item in every for name in item} == {kind.id for kind in kinds()} - ALONE
    assert {fault for item in every for fault in item.values()} == set(FAULTS)
    singles = [item for item in every if len(item) == 1]
    pairs = {frozenset(item) for item in every if len(item) == 2}
    assert len(singles) > 50 and len(every) > 1500
    assert len(pairs) == len(payloads()) * (len(payloads()) - 1) // 2


@pytest.mark.parametrize("fault", FAULTS)
def test_one_fault_at_a_time_of_the_sources_of_network_functions(fault: faults.Fault) -> None:
    for name in ("dpdk", "pcm"):
        judge({name: fault})


def test_faults_in_pairs() -> None:
    """Other ones each time; one that fails is named, for `python -m tests.faults`."""
    pairs = [item for item in combinations() if len(item) == 2]
    for item in random.SystemRandom().sample(pairs, PAIRS):
        try:
            judge(item)
        except Exception as error:
            raise AssertionError(f"{item}: {error}") from error


def test_a_fault_is_seen() -> None:
    """What `judge` compares differs by the fault."""
    honest = run_honest()
    frames = faults.run({"dpdk": "killed", "pcm": "hung"})
    states = [frames[faults.LAST].sources[name] for name in ("dpdk", "pcm")]
    assert states[0].reason is Reason.ERROR
    assert states[1].age_s is not None and states[1].age_s >= 2
    assert honest[faults.LAST].sources["dpdk"].reason is Reason.PRESENT
    assert len(frames[faults.LAST].nfs) < len(honest[faults.LAST].nfs)
    assert len(frames[-1].nfs) == len(honest[-1].nfs)
