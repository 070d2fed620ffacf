"""Another program that wants the counters: its events, opened as such a program would.

none            it has ended
pinned K        K general counters of every CPU are its own
groups N K      on every CPU N groups of K general counters take turns with everybody's
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

from tests.lab.perf.attr import Attr
from tests.lab.perf.context import Context, Member
from tests.lab.perf.events import RAW, Event
from tests.lab.perf.pmu import Pmu

# Below the numbers of the events that programs open.
_NUMBERS = itertools.count(-1, -1)


@dataclass(frozen=True, slots=True)
class Demand:
    """What it wants of every CPU: groups, and general counters for each."""

    groups: int = 0
    counters: int = 0
    pinned: bool = False

    def __str__(self) -> str:
        if not self.groups:
            return "none"
        return f"pinned {self.counters}" if self.pinned else f"groups {self.groups} {self.counters}"


def parse(text: str, pmu: Pmu) -> Demand:
    """What a line says; ValueError where it makes no sense on this PMU."""
    match text.split():
        case ["none"]:
            return Demand()
        case ["pinned", counters]:
            demand = Demand(1, int(counters), pinned=True)
        case ["groups", groups, counters]:
            demand = Demand(int(groups), int(counters))
        case _:
            raise ValueError(f"{text!r} is none of none, pinned K and groups N K")
    most = pmu.general.bit_count()
    if not (0 < demand.counters <= most and demand.groups > 0):
        raise ValueError(f"{text!r}: this PMU has {most} general counters")
    return demand


def enter(context: Context, demand: Demand) -> list[Member]:
    """Open its events among those of a CPU: the leaders."""
    leaders = []
    for _ in range(demand.groups):
        members = [
            _member(context.pmu.general, pinned=demand.pinned) for _ in range(demand.counters)
        ]
        leader, *others = members
        context.add(leader, None)
        for other in others:
            context.add(other, leader)
        leaders.append(leader)
    return leaders


def leave(context: Context, leader: Member) -> None:
    """Close the events of a group."""
    for item in reversed(leader.group):
        context.remove(item)


def _member(mask: int, *, pinned: bool) -> Member:
    event = Event(config=None, mask=mask, weights=None)
    bits = frozenset({"pinned"} if pinned else ())
    return Member(next(_NUMBERS), event, Attr(RAW, 0, 0, 0, 0, 0, 0, bits), on=True)
