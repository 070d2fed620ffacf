"""CPU affinity of nftop itself: off the polling cores, next to what it reads."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Collection, Iterator

from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.topology import Topology
from nftop.sources.host.sysfs import numbered

_TASKS = "/proc/self/task"
_PASSES = 10  # threads that start while others are moved need a further pass


class Affinity:
    """The affinity of this process; all changes go through one instance.

    Create it before any change. Thread-safe.
    """

    def __init__(self) -> None:
        self._started_on = frozenset(cpus_of())
        # Held while affinities change; `_moves` counts the moves of all threads.
        self._lock = threading.Lock()
        self._moves = 0

    def keep_off(self, cpus: Collection[int], topology: Topology) -> str:
        """Move all threads of this process off the polling `cpus` and the cores these are on.

        Returns a warning about a remaining disturbance, or "". Of the CPUs it was started on, nftop
        avoids polling CPUs, their siblings, isolated and nohz_full ones, as long as any CPU
        remains. Call it again when the polling CPUs change.
        """
        target, warning = choose_cpus(self._started_on, cpus, topology)
        try:
            with self._lock:
                self._moves += 1
                _move_all_threads(frozenset(target))
        except OSError as error:
            return (
                f"nftop can't move to CPU {format_cpu_list(target)} ({error.strerror}) and stays "
                f"on {format_cpu_list(cpus_of())}"
            )
        return warning

    @contextlib.contextmanager
    def staying_on(self, cpus: Collection[int]) -> Iterator[None]:
        """Keep the calling thread on those of `cpus` that it may use, if any.

        Afterwards it has its former affinity, or that of a `keep_off` meanwhile.
        """
        with self._lock:
            before, moves = os.sched_getaffinity(0), self._moves
            stays = _stay(before & frozenset(cpus), before)
        try:
            yield
        finally:
            with self._lock:
                if stays and self._moves == moves:
                    _stay(before, ())


def choose_cpus(
    usable: Collection[int], polling: Collection[int], topology: Topology
) -> tuple[tuple[Cpu, ...], str]:
    """The best of the `usable` CPUs, ascending, and a sentence if they are not good."""
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


def cpus_of() -> tuple[Cpu, ...]:
    """The CPUs that the calling thread may use, ascending."""
    return tuple(map(Cpu, sorted(os.sched_getaffinity(0))))


def _stay(cpus: Collection[int], before: Collection[int]) -> bool:
    """Move this thread to these CPUs; False if unchanged or they are offline."""
    if not cpus or cpus == before:
        return False
    try:
        os.sched_setaffinity(0, cpus)
    except OSError:  # they have gone offline
        return False
    return True


def _move_all_threads(target: frozenset[Cpu]) -> None:
    """Give every thread this affinity.

    sched_setaffinity(2) moves one thread and new ones inherit: repeats until there is no new one.
    """
    moved: set[int] = set()
    for _ in range(_PASSES):
        tids = set(numbered(_TASKS)) - moved
        if not tids:
            break
        for tid in tids:
            with contextlib.suppress(ProcessLookupError):
                if os.sched_getaffinity(tid) != target:
                    os.sched_setaffinity(tid, target)
        moved |= tids
