"""Source `resctrl`, live: reads the mounted tree and its counters, and writes nothing."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from nftop.model.ids import L3Domain
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import ResctrlTable
from nftop.model.reading import Missing, Reason
from nftop.model.topology import Topology
from nftop.sources.base import Check
from nftop.sources.host.topology import read_cpuid, read_topology
from nftop.sources.resctrl import checks
from nftop.sources.resctrl.cpu_choice import Place, place_of, queues
from nftop.sources.resctrl.files import reason
from nftop.sources.resctrl.iio_register import read_io_ways
from nftop.sources.resctrl.info import Info, read_info
from nftop.sources.resctrl.lock import holder, shared_lock
from nftop.sources.resctrl.monitor import (
    Counters,
    Monitored,
    costs,
    divided_unawares,
    find_monitors,
    read_counters,
)
from nftop.sources.resctrl.mount import Mount, find_mount, mba_unit_of
from nftop.sources.resctrl.table import Gathered, table_of
from nftop.sources.resctrl.tree import Tree, read_tasks, read_tree
from nftop.sources.runtime.affinity import Affinity

# Each counter read disturbs a CPU, so there is about one a second however fast the ticks are.
_COUNTERS_EVERY_NS = 750_000_000
# Reading `tasks` makes the kernel look at every thread: at most this share of the time. What is
# older by that than this is said.
_TASKS_RATIO = 0.02
_TASKS_OLD_NS = 2_000_000_000
# The register's ways change by an operator's hand only, and reading it runs on a package's CPU.
_REGISTER_EVERY_NS = 10_000_000_000
# Without the lock, the tree is read this often at most until it is twice the same.
_LOOKS = 5


@dataclass(frozen=True, slots=True)
class _Looked:
    info: Info
    tree: Tree
    notes: tuple[str, ...] = ()


class ResctrlSource:
    """One look at the groups per tick, under their lock; one read per counter and second, after it.

    The lock is held for some milliseconds at most, since whoever changes groups may not wait. It is
    not while counters are read: the kernel has another CPU do that, which may take long. A group
    that is made anew meanwhile has no values in this reading.
    """

    def __init__(
        self,
        root: Path,
        topology: Topology,
        *,
        quiet_cpus: Collection[int] = (),
        io_register: bool = False,
        affinity: Affinity | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`root` is where the host's files are.

        Args:
            root: of its /proc, /sys and /dev.
            topology: the caches and the CPUs beside them.
            quiet_cpus: CPUs that must not be disturbed: a cache's counters are left alone where
                the kernel would read them on one of these.
            io_register: this CPU has the register IIO LLC WAYS, and it may be read.
            affinity: the process'; one of its own where nobody else changes it.
            clock: CLOCK_MONOTONIC nanoseconds.
        """
        self._root = root
        self._topology = topology
        self._quiet = frozenset(quiet_cpus)
        self._io_register = io_register
        self._affinity = affinity or Affinity()
        self._clock = clock
        self._queued = queues(root)
        self._looked_for: frozenset[L3Domain] = frozenset()
        self._counters: Counters = {}
        self._next_counters_ns = 0
        self._tasks: Mapping[str, tuple[int, ...]] = {}
        self._next_tasks_ns = 0
        self._tasks_at_ns, self._tasks_age_ns = 0, 0
        self._registers: Mapping[L3Domain, Cbm] = {}
        self._next_registers_ns = 0
        self._cpuid: tuple[str, int, int, int] | None = None
        self._counter_reads, self._counter_interrupts = 0, 0

    @property
    def counter_reads(self) -> int:
        """Reads of counters so far."""
        return self._counter_reads

    @property
    def counter_interrupts(self) -> int:
        """How often another CPU than nftop's had to read one so far."""
        return self._counter_interrupts

    @property
    def name(self) -> str:
        return "resctrl"

    @property
    def inline(self) -> bool:
        return False

    def read(self) -> ResctrlTable | Missing:
        """Every group now."""
        mount = find_mount(self._root)
        if isinstance(mount, Missing):
            return mount
        try:
            return self._table(mount)
        except OSError as error:
            why = reason(mount.shown, error)
            gone = f"{mount.shown} was unmounted while it was read"
            return replace(why, detail=gone) if why.reason is Reason.SOURCE else why

    def check(self) -> tuple[Check, ...]:
        """What is mounted, what it offers, what is in use, and what reading it disturbs."""
        mount = find_mount(self._root)
        if isinstance(mount, Missing):
            return (checks.absent(mount, self._root),)
        value = self.read()
        if isinstance(value, Missing):
            return (Check(self.name, value.reason, value.message),)
        return checks.present(mount, value, self._root)

    def close(self) -> None:
        """Nothing is held; the next read starts over."""
        self._counters, self._next_counters_ns = {}, 0
        self._tasks, self._next_tasks_ns = {}, 0
        self._registers, self._next_registers_ns = {}, 0

    def _table(self, mount: Mount) -> ResctrlTable | Missing:
        looked = self._look(mount)
        if isinstance(looked, Missing):
            return looked
        monitors = find_monitors(mount.path, self._place)
        self._know_caches(monitors)
        self._count(looked, monitors)
        tasks = self._tasks_now(looked.tree)
        # Once: Linux 5.x interrupts CPUs when /proc/cpuinfo is opened (arch_freq_prepare_all).
        self._cpuid = self._cpuid or read_cpuid(self._root)
        gathered = Gathered(
            tree=looked.tree,
            info=looked.info,
            mba_unit=mba_unit_of(mount, self._cpuid),
            monitors=monitors,
            counters=self._counters,
            tasks=tasks,
            registers=self._registers_now(looked.info.ways),
            notes=(
                *looked.notes,
                *divided_unawares(monitors, self._topology),
                *self._old_tasks(),
            ),
        )
        return table_of(gathered, self._topology)

    def _look(self, mount: Mount) -> _Looked | Missing:
        """The groups as they are at one moment: under the lock, else twice the same."""
        info = read_info(f"{mount.path}/info")
        notes: tuple[str, ...] = ()
        with shared_lock(mount.path) as lock:
            before = read_tree(mount.path, lock.in_time) if lock.held else None
        if before is not None:
            return _Looked(info, before)
        if not lock.held:
            notes = (f"read without resctrl's lock, which {holder(self._root, mount.path)} holds",)
        for _ in range(_LOOKS):
            now = read_tree(mount.path)
            if now is not None and now == before:
                return _Looked(info, now, notes)
            before = now
        return Missing(Reason.TAKEN, "its groups changed whenever they were looked at")

    def _place(self, l3: L3Domain) -> tuple[Place, Missing | None]:
        place = place_of(
            l3, self._topology, os.sched_getaffinity(0) - self._quiet, queued=self._queued
        )
        if place.cpu not in self._quiet:
            return place, None
        why = f"the kernel reads this cache's counters on CPU {place.cpu}, one of --quiet-cpus"
        return place, Missing(Reason.SOURCE, why)

    def _know_caches(self, monitors: tuple[Monitored, ...]) -> None:
        """Look at the topology again, once, for caches that were offline at the start."""
        unknown = frozenset(monitor.l3 for monitor in monitors if monitor.place.cpu is None)
        if unknown - self._looked_for:
            self._topology = read_topology(self._root)
            self._looked_for |= unknown

    def _count(self, looked: _Looked, monitors: tuple[Monitored, ...]) -> None:
        """Read every counter, unless that was a moment ago."""
        now_ns = self._clock()
        if now_ns >= self._next_counters_ns:
            self._next_counters_ns = now_ns + _COUNTERS_EVERY_NS
            events = looked.info.events
            self._counters = read_counters(
                looked.tree, monitors, events, self._clock, staying_on=self._affinity.staying_on
            )
            reads, interrupts = costs(looked.tree, monitors, events)
            self._counter_reads += reads
            self._counter_interrupts += interrupts

    def _tasks_now(self, tree: Tree) -> Mapping[str, tuple[int, ...]]:
        now_ns = self._clock()
        if now_ns >= self._next_tasks_ns:
            self._tasks = read_tasks(tree)
            took_ns = self._clock() - now_ns
            self._tasks_at_ns = now_ns
            self._next_tasks_ns = now_ns + round(took_ns / _TASKS_RATIO)
        self._tasks_age_ns = now_ns - self._tasks_at_ns
        return self._tasks

    def _old_tasks(self) -> tuple[str, ...]:
        """A note where those are much older than the rest."""
        age_ns = self._tasks_age_ns
        if age_ns <= _TASKS_OLD_NS:
            return ()
        every_s = (self._next_tasks_ns - self._tasks_at_ns) / 1e9
        why = f"asked every {every_s:.0f} s, as it is dear"
        return (f"which thread is in which class is {age_ns / 1e9:.0f} s old: {why}",)

    def _registers_now(self, ways: int | None) -> Mapping[L3Domain, Cbm]:
        """IIO LLC WAYS of each package on whose CPUs nftop runs anyway."""
        now_ns = self._clock()
        if not self._io_register or ways is None or now_ns < self._next_registers_ns:
            return self._registers
        self._next_registers_ns = now_ns + _REGISTER_EVERY_NS
        usable = os.sched_getaffinity(0) - self._quiet
        found = {}
        for cache in self._topology.l3:
            cpu = next((item for item in cache.cpus if item in usable), None)
            said = None if cpu is None else read_io_ways(self._root, cpu, ways)
            if said is not None:
                found[cache.id] = said
        self._registers = found
        return found
