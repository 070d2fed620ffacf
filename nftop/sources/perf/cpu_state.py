"""What is open on one CPU, and what reading costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nftop.sources.perf.group import Group
from nftop.sources.perf.problems import Problem


@dataclass(frozen=True, slots=True)
class Trial:
    """A group that is open to see whether it runs.

    Attributes:
        step, place: what it is, as `retry.Candidate`.
    """

    group: Group
    step: int
    place: int | None


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
        trial: what it could not count before and tries again.
        carried, carried_running_ns: to be added, modulo 2**64, to the counts of the main group and
            the time it ran, which go on where those of the main group before it stopped.
    """

    cpu: int
    step: int = 0
    left: Problem | None = None
    group: Group | None = None
    problem: Problem | None = None
    further: tuple[Group | Problem, ...] = ()
    retired_ns: int = 0
    trial: Trial | None = None
    carried: Mapping[str, int] = field(default_factory=dict)
    carried_running_ns: int = 0

    @property
    def groups(self) -> tuple[Group | None, ...]:
        """The main group and those that take turns with it; None for one that is not there.

        Its trial comes last.
        """
        further = (item if isinstance(item, Group) else None for item in self.further)
        return (self.group, *further, *((self.trial.group,) if self.trial else ()))

    @property
    def trial_part(self) -> int | None:
        """Where among `groups` its trial is."""
        return 1 + len(self.further) if self.trial else None


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
