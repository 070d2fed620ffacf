"""A host without hyper-threading: every CPU is a core."""

from __future__ import annotations

import pytest

from nftop.sim import scenario
from nftop.sim.layout import build
from nftop.sim.model import model_of
from nftop.sim.workloads import INDEX

DEFAULT = scenario.load("default")


@pytest.mark.parametrize("cpus", [3, 4, 8, 44, 88])
def test_every_cpu_has_its_core_for_itself(cpus: int) -> None:
    model = model_of(DEFAULT, cpus, smt=False)
    topology = model.layout.topology
    assert topology.core_count == len(topology.cpus) == cpus
    assert not any(info.siblings for info in topology.cpus)
    rates = model.steady[0]
    assert rates[:, INDEX["core_clocks"]] == pytest.approx(rates[:, INDEX["cycles"]])
    assert rates[:, INDEX["lone_ref_cycles"]] == pytest.approx(rates[:, INDEX["ref_cycles"]])


def test_tasks_of_two_threads_a_core_have_a_core_per_thread() -> None:
    placed = {item.name: item for item in build(DEFAULT, 88, smt=False).placed}
    south = placed["south"]
    assert south.task.ht
    assert len(south.cpus) == south.task.threads
    assert {len(value.cpus) for value in placed.values()} >= {1, 4}


def test_it_needs_a_core_that_keeps_no_house() -> None:
    with pytest.raises(ValueError, match="has 3 to 512 CPUs, not 2"):
        build(DEFAULT, 2, smt=False)
