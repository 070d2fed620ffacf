"""What is open on one CPU, and what reading costs."""

from __future__ import annotations

from dataclasses import dataclass

from nftop.sources.perf.group import Group
from nftop.sources.perf.problems import Problem


@dataclass(frozen=True, slots=True)
class Row:
    """One CPU.

    Attributes:
        step: index of the step it counts with.
        left: why it left the step before; None in the best one.
        group: its main group; None exactly where `problem` is not.
        problem: why it counts nothing.
        further: of the step's turns, and then of what is counted while somebody looks at its core,
            each its group or why there is none.
        retired_ns: how long groups of it that are closed had been enabled.
    """

    cpu: int
    step: int = 0
    left: Problem | None = None
    group: Group | None = None
    problem: Problem | None = None
    further: tuple[Group | Problem, ...] = ()
    retired_ns: int = 0

    @property
    def groups(self) -> tuple[Group | None, ...]:
        """The main group and those that take turns with it; None for one that is not there."""
        return (self.group, *(each if isinstance(each, Group) else None for each in self.further))


@dataclass(slots=True)
class Costs:
    """What reading has cost so far.

    Attributes:
        reads: of counter groups.
        interrupts: of the CPUs that count. To read, start or stop a group takes one; to read a
            group that was stopped before takes none.
    """

    reads: int = 0
    interrupts: int = 0
