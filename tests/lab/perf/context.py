"""The events of one CPU, task or box: what they have counted, given when they were on the counters.

Between two changes (an event opened, closed, switched) a context has one rota, and counts follow
from it in closed form; at a change what was counted until then is kept as a number.
Source: kernel/events/core.c of Linux 6.1.
"""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from nftop.model.column import Floats
from tests.lab.perf.attr import Attr
from tests.lab.perf.events import Event
from tests.lab.perf.schedule import METRIC, Group, Rota, agree, fits, rota, running_ns, stretches
from tests.lab.tree import failed


@dataclass(slots=True, eq=False)
class Member:
    """An open event.

    Attributes:
        number: its id.
        leader: of its group, or itself.
        siblings: of a leader, in the order they were opened.
        on: it is enabled.
        broken: in the error state: pinned, and there was no room.
        dead: its CPU went offline; it stays as it was then.
        count, enabled_ns, running_ns: until the context's last change.
        seen_at_ns: when it was switched or read last.
        still_ns: by how much its times are ahead of a clock that stood still.
    """

    number: int
    event: Event
    attr: Attr
    on: bool
    siblings: list[Member] = field(default_factory=list)
    broken: bool = False
    dead: bool = False
    count: float = 0.0
    enabled_ns: int = 0
    running_ns: int = 0
    seen_at_ns: int = -1
    still_ns: int = 0
    _leader: Member | None = None

    @property
    def leader(self) -> Member:
        return self._leader or self

    @leader.setter
    def leader(self, leader: Member) -> None:
        self._leader = None if leader is self else leader

    @property
    def group(self) -> tuple[Member, ...]:
        """The whole group, its leader first."""
        return (self.leader, *self.leader.siblings)

    @property
    def active(self) -> bool:
        """It takes part in the rota: on, and so is its leader."""
        stopped = self.dead or self.broken or self.leader.broken
        return self.on and self.leader.on and not stopped


@dataclass(frozen=True, slots=True)
class Reading:
    """An event's numbers; times in ns."""

    count: int
    enabled_ns: int
    running_ns: int


class Counters(Protocol):
    """Of a PMU: masks of its counters and the general ones, and how long a turn on them is."""

    @property
    def general(self) -> int: ...

    @property
    def available(self) -> int: ...

    @property
    def mux_ns(self) -> int: ...


@dataclass(slots=True, eq=False)
class Context:
    """The events of one CPU, one task, or one box of a package.

    Attributes:
        clock: its time in ns; a task's stands still while it does not run.
        pauses: that is no news, as it is a task's. On a CPU time goes by between any two reads,
            even if the lab's clock is frozen: a ns each, in which nothing is counted.
        exact: float64 (k,), the model's quantities at a time of that clock.
        held: what the NMI watchdog asks for, as `Pmu.held` says it.
        leaders: of its groups, in the order in which they are tried.
    """

    pmu: Counters
    clock: Callable[[], int]
    exact: Callable[[int], Floats]
    held: Callable[[], tuple[int, ...]]
    pauses: bool = False
    leaders: list[Member] = field(default_factory=list)
    _since_ns: int = 0
    _held: tuple[int, ...] = ()
    _plan: Rota = field(default_factory=lambda: rota((), 0))
    _rows: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # A change ends what began at the last one, and all groups that were on have the same times.
        self.exact = functools.lru_cache(maxsize=4)(self.exact)

    def add(self, member: Member, leader: Member | None) -> None:
        """Open an event, in the group of `leader` if there is one.

        Raises:
            OSError: EINVAL, the counters never hold the group together.
        """
        others = [item for item in leader.group if item is leader or item.on] if leader else []
        events = [other.event for other in (*others, member)]
        room = fits([event.mask for event in events], self.pmu.available)
        if not room or not agree([field for event in events for field in event.filters]):
            raise failed(errno.EINVAL)
        counts = member.on and (leader is None or leader.active)
        now = member.seen_at_ns = self._settled() if counts else self.clock()
        if leader is not None:
            member.leader = leader
            leader.siblings.append(member)
        else:
            self.leaders.append(member)
        if counts:
            self._plan_from(now)

    def remove(self, member: Member) -> None:
        """Close an event. Those that it led go on alone, unless they can't."""
        counts = member.active or any(item.on for item in member.siblings)
        now = self._settled() if counts else 0
        if member.leader is member:
            self.leaders.remove(member)
            for sibling in member.siblings:
                sibling.leader = sibling
                # A metric is nothing without its slots.
                sibling.broken = sibling.broken or sibling.event.mask >= 1 << METRIC
                self.leaders.append(sibling)
            member.siblings = []
        else:
            member.leader.siblings.remove(member)
        if counts:
            self._plan_from(now)

    def end(self) -> None:
        """The CPU is gone: every event is on its own and never counts again."""
        now = self._settled()
        for item in [member for leader in self.leaders for member in leader.group]:
            if item.leader is not item:
                self.leaders.append(item)
            item.leader, item.siblings, item.dead = item, [], True
        self._plan_from(now)

    def switch(self, members: tuple[Member, ...], *, on: bool) -> None:
        """Enable or disable; enabling takes an event out of the error state."""
        now = self._settled()
        for member in members:
            member.broken = member.broken and not on
            member.on, member.seen_at_ns = on, now
        self._plan_from(now)

    def reset(self, members: tuple[Member, ...]) -> None:
        """Set counts to 0; times go on."""
        now = self._settled()
        for member in members:
            member.count = 0.0
        self._plan_from(now)

    def settle(self) -> None:
        """Plan anew if the watchdog has come or gone."""
        if self.held() != self._held:
            self._plan_from(self._settled())

    def read(self, members: tuple[Member, ...]) -> list[Reading]:
        """The members' numbers now; they are of one group."""
        self.settle()
        now = self.clock()
        totals = zip(members, self._totals(members, now), strict=True)
        return [self._reading(member, now, total) for member, total in totals]

    def _reading(self, member: Member, now_ns: int, total: tuple[float, int, int]) -> Reading:
        count, enabled, running = total
        if member.active and not self.pauses:
            passed = now_ns - member.seen_at_ns
            member.still_ns = max(member.still_ns + 1 - passed, 0)
            member.seen_at_ns = now_ns
        on = running or self._rows.get(member.leader.number) in self._plan.turns[0]
        ran = running + (member.still_ns if on else 0)
        return Reading(max(int(np.floor(count + _ROUNDING)), 0), enabled + member.still_ns, ran)

    def _totals(self, members: tuple[Member, ...], now_ns: int) -> Iterator[tuple[float, int, int]]:
        elapsed, turn_ns = now_ns - self._since_ns, self.pmu.mux_ns
        row = self._rows.get(members[0].leader.number)
        growth: Floats | None = None
        for member in members:
            if row is None or not member.active:
                yield member.count, member.enabled_ns, member.running_ns
                continue
            ran = running_ns(self._plan, row, elapsed, turn_ns)
            if member.event.weights is None:
                more = float(ran)
            else:
                weights = member.event.weights
                growth = self._growth(row, elapsed, len(weights)) if growth is None else growth
                more = float(growth @ weights)
            yield member.count + more, member.enabled_ns + elapsed, member.running_ns + ran

    def _growth(self, row: int, elapsed_ns: int, quantities: int) -> Floats:
        """By how much the model's quantities grew while a group was on the counters."""
        growth = np.zeros(quantities)
        for start, end, share in stretches(self._plan, row, elapsed_ns, self.pmu.mux_ns):
            grown = self.exact(self._since_ns + end) - self.exact(self._since_ns + start)
            growth += grown * share
        return growth

    def _settled(self) -> int:
        """Keep what has been counted until now; the time that is."""
        now = self.clock()
        for leader in self.leaders:
            totals = list(self._totals(leader.group, now))
            for member, total in zip(leader.group, totals, strict=True):
                member.count, member.enabled_ns, member.running_ns = total
        turns = self._plan.shift((now - self._since_ns) // self.pmu.mux_ns)
        for _ in range(turns):
            first = next(item for item in self.leaders if self._hungry(item))
            self.leaders.remove(first)
            self.leaders.append(first)
        return now

    def _hungry(self, leader: Member) -> bool:
        return not leader.attr.pinned and leader.active and _group(leader).hungry

    def _plan_from(self, now_ns: int) -> None:
        """A new rota, in which those without room for good are put into the error state."""
        active = [leader for leader in self.leaders if leader.active]
        groups = [_group(item) for item in active]
        self._held = self.held()
        self._plan = rota(groups, self.pmu.available, self._held)
        self._rows = {item.number: row for row, item in enumerate(active)}
        self._since_ns = now_ns
        for row in self._plan.failed:
            active[row].broken = True


# A sum of large products is off by less than this.
_ROUNDING = 1e-3


def _group(leader: Member) -> Group:
    masks = tuple(item.event.mask for item in leader.group if item.active)
    filters = [field for item in leader.group if item.active for field in item.event.filters]
    return Group(masks, leader.attr.pinned, leader.attr.exclusive, tuple(filters))
