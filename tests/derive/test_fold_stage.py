"""Stages of the fold: typed state, reset by changes of the topology, and a stage from outside."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from nftop.derive import fold
from nftop.derive.cpu.counters import COUNTERS
from nftop.derive.fold_stage import FoldStage, FoldTick, TopologyChange
from nftop.model.column import Column, column
from tests.derive.scene import START
from tests.derive.scene import tick as sample_at
from tests.samples import HOST, topology


@dataclass(frozen=True)
class Ticks:
    count: int = 0


def run(state: Ticks, tick: FoldTick) -> tuple[Ticks, Column]:
    tick.output(COUNTERS)
    state = Ticks(state.count + 1)
    return state, column(np.full(len(tick.topology.cpus), float(state.count)))


TOY: FoldStage[Ticks, Column] = FoldStage(
    "toy", Ticks, run, reset_on=TopologyChange.PACKAGES, columns=lambda ticks: {"toy": ticks}
)


def test_registered_stage_keeps_its_state_and_adds_a_column(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fold, "STAGES", list(fold.STAGES))
    fold.register(TOY)
    state, frames = START, []
    for second in range(1, 4):
        state, frame = fold.step(state, sample_at(second))
        frames.append(frame)
    assert TOY.state(state.stages) == Ticks(3)
    assert [frame.cpus.columns["toy"][0] for frame in frames] == [1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("change", "count"),
    [(TopologyChange.ENTRIES, 8), (TopologyChange.PACKAGES, 1), (TopologyChange.ROWS, 1)],
)
def test_state_is_reset_by_changes_at_or_above_its_own(change: TopologyChange, count: int) -> None:
    tick = FoldTick(HOST, topology(2, smt=False), None, {}, sample_at(1), change=change)
    tick.outputs[COUNTERS.name] = None
    assert TOY.advance({"toy": Ticks(7)}, tick) == Ticks(count)


def test_output_of_a_stage_that_has_not_run_is_an_error() -> None:
    tick = FoldTick(HOST, topology(2, smt=False), None, {}, sample_at(1))
    with pytest.raises(KeyError):
        replace(tick).output(TOY)
