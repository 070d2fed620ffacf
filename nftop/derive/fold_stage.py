"""Stages of the fold: each has a name, a typed state that lasts from tick to tick, and an output.

A stage is declared beside its code and reads the sample and the outputs of stages before it;
`fold.STAGES` has the order.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import IntEnum
from typing import Generic, Protocol, TypeVar, cast

from nftop.model.column import Column
from nftop.model.nf.queue_map import QueueMap
from nftop.model.rule_settings import NO_SETTINGS, RuleSettings
from nftop.model.sample import Sample
from nftop.model.struct import dataclass, field
from nftop.model.topology import Host, Topology
from nftop.uarch.table import Uarch

S = TypeVar("S")
Out = TypeVar("Out")


class TopologyChange(IntEnum):
    """What a new topology changed; each value includes those below it."""

    ENTRIES = 1  # facts of CPUs, as when one goes offline; rows and packages are the same
    PACKAGES = 2  # packages too
    ROWS = 3  # rows: row N is another CPU now


@dataclass(frozen=True, slots=True)
class FoldTick:
    """One sample on its way through the stages.

    Attributes:
        uarch: table of the CPU, or None.
        queue_map: the operator's.
        sample: with STALE in place of readings that are too old.
        previous: sample of the previous tick, or None.
        change: change of the topology since then, or None.
        rules: the operator's settings of rules.
    """

    host: Host
    topology: Topology
    uarch: Uarch | None
    queue_map: QueueMap
    sample: Sample
    previous: Sample | None = None
    change: TopologyChange | None = None
    rules: RuleSettings = NO_SETTINGS
    outputs: dict[str, object] = field(default_factory=dict)
    columns: dict[str, Column] = field(default_factory=dict)

    @property
    def pace_s(self) -> float:
        """The requested interval in seconds."""
        return self.sample.interval_ns / 1e9

    def output(self, stage: FoldStage[S, Out]) -> Out:
        """Output of a stage that ran before.

        Raises:
            KeyError: the stage has not run in this tick.
        """
        return cast("Out", self.outputs[stage.name])


class AnyStage(Protocol):
    """A stage with any types of state and output."""

    @property
    def name(self) -> str: ...

    @property
    def lasting(self) -> bool: ...

    def advance(self, states: Mapping[str, object], tick: FoldTick) -> object:
        """Run the stage; returns its new state."""


@dataclass(frozen=True, slots=True)
class FoldStage(Generic[S, Out]):
    """One stage.

    Attributes:
        initial: state before the first tick.
        run: (state, tick) -> (new state, output).
        reset_on: least change of the topology after which the state begins anew; None: never.
        trim: what of the state remains valid for other rows; None: all.
        columns: columns by metric id that an output adds to the table of CPUs.
        lasting: its state covers minutes, which the warm-up of a jump in time does not restore.
    """

    name: str
    initial: Callable[[], S]
    run: Callable[[S, FoldTick], tuple[S, Out]]
    reset_on: TopologyChange | None = None
    trim: Callable[[S], S] | None = None
    columns: Callable[[Out], Mapping[str, Column]] | None = None
    lasting: bool = False

    def state(self, states: Mapping[str, object]) -> S:
        return cast("S", states[self.name]) if self.name in states else self.initial()

    def advance(self, states: Mapping[str, object], tick: FoldTick) -> object:
        """Run the stage; returns its new state."""
        state = self.state(states)
        if tick.change is not None:
            if self.reset_on is not None and tick.change >= self.reset_on:
                state = self.initial()
            elif self.trim is not None and tick.change is TopologyChange.ROWS:
                state = self.trim(state)
        state, output = self.run(state, tick)
        tick.outputs[self.name] = output
        if self.columns is not None:
            tick.columns.update(self.columns(output))
        return state


def stateless(name: str, run: Callable[[FoldTick], Out]) -> FoldStage[None, Out]:
    """A stage without state."""
    return FoldStage(name, lambda: None, lambda _, tick: (None, run(tick)))
