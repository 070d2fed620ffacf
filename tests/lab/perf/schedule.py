"""Which groups are on a CPU's counters, and when: the kernel's algorithm as pure functions.

A counter is a bit of a mask: 0.. the general ones, 32.. the fixed ones, 48.. the metrics of the
slots (the kernel's own numbers, INTEL_PMC_IDX_*). An event asks for one of those in its mask, 0 if
it needs none. Sources: `perf_assign_events` and `collect_events` of arch/x86/events/core.c, and
`merge_sched_in`, `group_can_go_on`, `rotate_ctx` of kernel/events/core.c, Linux 6.1; for filters
`__snbep_cbox_get_constraint` of arch/x86/events/intel/uncore_snbep.c.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

FIXED, METRIC = 32, 48
_PURPOSE = ~((1 << FIXED) - 1)


@dataclass(frozen=True, slots=True)
class Group:
    """A group that wants to run.

    Attributes:
        masks: one for each event that is switched on.
        filters: fields of a register that all events share, and what these have to hold.
        pinned: always on the counters, or in the error state.
        exclusive: alone on the counters.
    """

    masks: tuple[int, ...]
    pinned: bool = False
    exclusive: bool = False
    filters: tuple[tuple[int, int], ...] = ()

    @property
    def hungry(self) -> bool:
        """It needs counters at all."""
        return any(self.masks)


@dataclass(frozen=True, slots=True)
class Rota:
    """Who runs in which turn; turns follow each other, and the last is followed by the first.

    Attributes:
        turns: groups by index, at least one turn; a single one lasts for good.
        failed: pinned groups for which there is no room.
    """

    turns: tuple[frozenset[int], ...]
    failed: frozenset[int]

    def shift(self, turns: int) -> int:
        """How many turns into its round the rota is after so many."""
        return turns % len(self.turns)


def fits(masks: Sequence[int], available: int) -> bool:
    """There is a counter among the `available` for each event.

    As in the kernel, who has the least choice chooses first and takes a fixed counter if it can.
    """
    for mask in sorted((item for item in masks if item), key=int.bit_count):
        free = mask & available
        if not free:
            return False
        choice = free & _PURPOSE or free
        available &= ~(choice & -choice)
    return True


def agree(filters: Iterable[tuple[int, int]]) -> bool:
    """No field is asked to hold two values."""
    held: dict[int, int] = {}
    return all(held.setdefault(field, value) == value for field, value in filters)


def rota(groups: Sequence[Group], available: int, held: Sequence[int] = ()) -> Rota:
    """The turns of groups in their order; `held`: masks of events that always run before them."""
    always, filters = list(held), list[tuple[int, int]]()
    running: set[int] = set()
    failed: set[int] = set()
    for index, group in enumerate(groups):
        if group.pinned:
            together = agree([*filters, *group.filters])
            if together and fits([*always, *group.masks], available):
                always += group.masks
                filters += group.filters
                running.add(index)
            else:
                failed.add(index)
    # Those that need no counter are always on. They live in a context of their own.
    free = {i for i, group in enumerate(groups) if not group.hungry and not group.pinned}
    hungry = [i for i, group in enumerate(groups) if group.hungry and not group.pinned]
    turns = []
    for first in range(max(len(hungry), 1)):
        order = hungry[first:] + hungry[:first]
        turn, all_on = _turn(groups, order, available, (always, filters))
        turns.append(frozenset(running | free | turn))
        if all_on:
            turns = [turns[-1]]
            break
    return Rota(tuple(turns), frozenset(failed))


def _turn(
    groups: Sequence[Group],
    order: Sequence[int],
    available: int,
    always: tuple[Sequence[int], Sequence[tuple[int, int]]],
) -> tuple[set[int], bool]:
    """Who gets on, tried in this order, and whether that is everybody.

    Once one finds no room, the kernel tries no further. `always`: masks and filters that are on.
    """
    masks, filters, turn = list(always[0]), list(always[1]), set[int]()
    for index in order:
        group = groups[index]
        alone = (group.exclusive and turn) or any(groups[other].exclusive for other in turn)
        together = agree([*filters, *group.filters])
        if alone or not together or not fits([*masks, *group.masks], available):
            return turn, False
        masks += group.masks
        filters += group.filters
        turn.add(index)
    return turn, True


def running_ns(plan: Rota, index: int, elapsed_ns: int, turn_ns: int) -> int:
    """How long a group was on the counters in the first `elapsed_ns` of a rota."""
    shares = stretches(plan, index, elapsed_ns, turn_ns)
    return sum(round((end - start) * share) for start, end, share in shares)


def stretches(
    plan: Rota, index: int, elapsed_ns: int, turn_ns: int
) -> Iterator[tuple[int, int, float]]:
    """When a group was on the counters: (from, until, share) in ns since the rota began.

    Whole rounds are one stretch with the share of its time that the group ran; what follows them
    is exact. A quantity that grew by d in a stretch grew by d x share while the group ran, exact
    for a steady one. For one that swings the error is less than a round's worth of the swing.
    """
    count = len(plan.turns)
    mine = [index in turn for turn in plan.turns]
    if all(mine):
        yield 0, elapsed_ns, 1.0
        return
    round_ns = count * turn_ns
    whole = elapsed_ns // round_ns * round_ns
    if whole and any(mine):
        yield 0, whole, sum(mine) / count
    for turn, on in enumerate(mine):
        start = whole + turn * turn_ns
        if on and start < elapsed_ns:
            yield start, min(start + turn_ns, elapsed_ns), 1.0
