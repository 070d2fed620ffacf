"""nftop itself: what it costs, and where it may run."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.reading import Reason
from nftop.model.sample import SelfUse
from nftop.model.topology import Topology
from nftop.sources.base import Check

_TASKS = Path("/proc/self/task")
# Threads that start while others are moved are found by another look; no program starts them
# faster than this many looks.
_LOOKS = 10


class _Moves:
    """How often `keep_off` moved everybody; `lock` is held while affinities change."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0


_MOVES = _Moves()


class OwnSource:
    """What nftop itself uses."""

    def __init__(
        self,
        counter_reads: Callable[[], int],
        counter_interrupts: Callable[[], int],
    ) -> None:
        """They tell how many reads of counter groups and interrupts for them there have been."""
        self._counter_reads = counter_reads
        self._counter_interrupts = counter_interrupts
        self._warning = ""

    @property
    def name(self) -> str:
        return "self"

    @property
    def inline(self) -> bool:
        return True

    def read(self) -> SelfUse:
        """Its CPU time, affinity and counter reads until now."""
        return SelfUse(
            time.process_time_ns(),
            _affinity(0),
            self._counter_reads(),
            self._warning,
            self._counter_interrupts(),
        )

    def keep_off(self, cpus: Collection[int], topology: Topology) -> None:
        """`keep_off`, and say in every reading from now on what is wrong with the place."""
        self._warning = keep_off(cpus, topology).warning

    def check(self) -> tuple[Check, ...]:
        """Where nftop runs."""
        text = f"nftop may run on CPU {format_cpu_list(_affinity(0))}"
        return (Check(self.name, Reason.PRESENT, text),)

    def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True, slots=True)
class Placement:
    """Where nftop runs from now on.

    Attributes:
        affinity: the CPUs all of its threads may use.
        warning: what is wrong with them, in one sentence; "" when nothing is.
        changed: some thread could run elsewhere before.
    """

    affinity: tuple[Cpu, ...]
    warning: str
    changed: bool


def keep_off(cpus: Collection[int], topology: Topology) -> Placement:
    """Move every thread of this process off the polling `cpus` and what they share a core with.

    It uses only CPUs it was started on, and of those leaves out the pollers, their siblings, and
    the isolated and nohz_full ones, as long as any CPU remains. Call it again whenever the pollers
    change: CPUs that are free again are used again.
    """
    target, warning = choose_cpus(started_on(), cpus, topology)
    try:
        with _MOVES.lock:
            _MOVES.count += 1
            changed = _move_all_threads(frozenset(target))
    except OSError as error:
        stay = _affinity(0)
        warning = (
            f"nftop can't move to CPU {format_cpu_list(target)} ({error.strerror}) and stays on "
            f"{format_cpu_list(stay)}"
        )
        return Placement(stay, warning, changed=False)
    return Placement(_affinity(0), warning, changed)


@functools.cache
def started_on() -> frozenset[Cpu]:
    """The CPUs this process might use before `keep_off` was first called."""
    return frozenset(_affinity(0))


def choose_cpus(
    usable: Collection[int], polling: Collection[int], topology: Topology
) -> tuple[tuple[Cpu, ...], str]:
    """The best of the `usable` CPUs, ascending, and a sentence where they are not good."""
    everywhere = frozenset(map(Cpu, usable))
    pollers = frozenset(map(Cpu, polling))
    cores = pollers | topology.with_siblings(polling)
    quiet = {info.cpu for info in topology.cpus if info.isolated or info.nohz_full}
    choices = (
        (everywhere - cores - quiet, ""),
        (everywhere - cores, "isolated or nohz_full; it has no other"),
        (everywhere - pollers - quiet, "hyper-thread siblings of polling CPUs; it has no other"),
        (everywhere - pollers, "siblings of polling CPUs and isolated; it has no other"),
        (everywhere, "all polled: it has no other and takes time from the pollers"),
    )
    cpus, flaw = next((choice for choice in choices if choice[0]), choices[-1])
    listed = format_cpu_list(cpus)
    return tuple(sorted(cpus)), f"nftop runs on CPU {listed}, {flaw}" if flaw else ""


@contextlib.contextmanager
def staying_on(cpus: Collection[int]) -> Iterator[None]:
    """Keep the calling thread on those of `cpus` that it may use; where it may use none, move not.

    Afterwards it may run where it might before, or where `keep_off` has put everybody meanwhile.
    """
    started_on()  # before this thread is where it was not put
    with _MOVES.lock:
        before, moves = os.sched_getaffinity(0), _MOVES.count
        stays = _stay(before & frozenset(cpus), before)
    try:
        yield
    finally:
        with _MOVES.lock:
            if stays and _MOVES.count == moves:
                _stay(before, ())


def _stay(cpus: Collection[int], before: Collection[int]) -> bool:
    """Whether this thread has been put on these CPUs, having been on others before."""
    if not cpus or cpus == before:
        return False
    try:
        os.sched_setaffinity(0, cpus)
    except OSError:  # they have gone offline
        return False
    return True


def _affinity(tid: int) -> tuple[Cpu, ...]:
    return tuple(map(Cpu, sorted(os.sched_getaffinity(tid))))


def _move_all_threads(target: frozenset[Cpu]) -> bool:
    """Give every thread this affinity; True if one had another.

    sched_setaffinity(2) moves a single thread, and its children inherit what it had when they
    started: hence every thread, until a look finds no new one.
    """
    changed = False
    moved: set[int] = set()
    for _ in range(_LOOKS):
        tids = {int(path.name) for path in _TASKS.iterdir()} - moved
        if not tids:
            break
        for tid in tids:
            changed |= _move(tid, target)
        moved |= tids
    return changed


def _move(tid: int, target: frozenset[Cpu]) -> bool:
    try:
        before = os.sched_getaffinity(tid)
        if before == target:
            return False
        os.sched_setaffinity(tid, target)
        # Not True outright: the kernel leaves out CPUs that have gone offline.
        return os.sched_getaffinity(tid) != before
    except ProcessLookupError:
        return False
