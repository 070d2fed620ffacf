"""Source `resctrl`, live: reads the mounted tree and its counters, and writes nothing."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

from nftop.model.check import Check
from nftop.model.ids import Cpu, L3Domain, format_cpu_list
from nftop.model.missing import Missing, Reason
from nftop.model.number_text import counted
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import EVENTS, ResctrlTable
from nftop.model.struct import replace
from nftop.model.topology import Topology
from nftop.sources.base import missing_check
from nftop.sources.host.sysfs import unreadable
from nftop.sources.host.topology import read_cpuid, read_topology
from nftop.sources.resctrl import files
from nftop.sources.resctrl.monitor import (
    CacheReader,
    Gathered,
    MonitorCounters,
    Monitored,
    choose_reader,
    costs,
    divided_unawares,
    find_monitors,
    queues,
    read_counters,
    table_of,
)
from nftop.sources.resctrl.tree import Info, Tree, read_info, read_tasks, read_tree
from nftop.sources.runtime.affinity import Affinity
from nftop.sources.tuning.inputs import kernel_parameters

# IIO LLC WAYS (MSR 0xC8B of a package): the L3 ways into which devices write (DDIO), one bit per
# way; 0x600 at power-on of a Skylake-SP. Not in Intel's SDM: A. Farshin et al., "Reexamining Direct
# Cache Access to Optimize I/O Intensive Applications for Multi-hundred-gigabit Networks", USENIX
# ATC 2020. Read on the CPUs of that time only.
UARCHS = frozenset({"SKX", "CLX"})
_IIO_LLC_WAYS = 0xC8B
_BYTES = 8


def read_io_ways(root: Path, cpu: Cpu, ways: int) -> Cbm | None:
    """I/O ways of a CPU's package; None if unreadable or not ways of its cache.

    The kernel reads the register on that CPU. It takes the module `msr` and CAP_SYS_RAWIO.
    """
    try:
        handle = os.open(root / f"dev/cpu/{cpu}/msr", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        data = os.pread(handle, _BYTES, _IIO_LLC_WAYS)
    except OSError:
        return None
    finally:
        os.close(handle)
    bits = int.from_bytes(data, "little")
    return Cbm(bits, ways) if len(data) == _BYTES and 0 < bits < 1 << ways else None


_NAME = "resctrl"
# Flags of /proc/cpuinfo, and the word of the boot parameter rdt= that has the kernel offer what
# the CPU has: Skylake-SP's kernels hide some of it, and say the flag all the same.
_FLAGS = {
    "cat_l3": "l3cat",
    "mba": "mba",
    "cqm_occup_llc": "cmt",
    "cqm_mbm_total": "mbmtotal",
    "cqm_mbm_local": "mbmlocal",
}
_EVENT_FLAGS = dict(zip(EVENTS, ("cqm_occup_llc", "cqm_mbm_total", "cqm_mbm_local"), strict=True))


def absent(why: Missing, root: Path) -> Check:
    """The check of a host where resctrl is not mounted or not available."""
    if why.reason is Reason.SOURCE:
        return Check(_NAME, why.reason, files.NOT_MOUNTED, files.FIX)
    return _hidden(Check(_NAME, why.reason, why.message), root, _FLAGS)


def present(mount: files.Mount, table: ResctrlTable, root: Path) -> tuple[Check, ...]:
    """A mounted resctrl: what it offers and how much of that is in use."""
    return (
        _mounted(mount, table),
        _allocation(table, root),
        _bandwidth(table, root),
        _monitoring(table, root),
        *_reads(table),
    )


def _mounted(mount: files.Mount, table: ResctrlTable) -> Check:
    own = sorted(mount.options - {"rw", "ro", "relatime", "nosuid", "nodev", "noexec"})
    text = f"{mount.shown}, options {', '.join(own) or 'none'}"
    owners = Counter(group.owner or "unknown" for group in table.groups[1:])
    counts = ", ".join(f"{number} {owner}'s" for owner, number in sorted(owners.items()))
    count = len(table.groups)
    text += f"; {counted(count, 'group')}" + (f", by their names {counts}" if counts else "")
    if "debug" not in mount.options:
        text += "; the numbers of classes show with the mount option debug (Linux 6.7)"
    if table.notes:
        return Check(_NAME, Reason.ERROR, f"{text}; {'; '.join(table.notes)}")
    return Check(_NAME, Reason.PRESENT, text)


_IO_ALLOC = {
    None: "; the kernel can't set them (no io_alloc)",
    False: "; the kernel can set them (io_alloc is off)",
    True: "; set by io_alloc, which has a class of its own",
}


def _allocation(table: ResctrlTable, root: Path) -> Check:
    name, limits = f"{_NAME} L3", table.limits
    ways = next((domain.ways for domain in table.domains if domain.ways is not None), None)
    if ways is None:
        why = "the kernel offers no allocation of last-level cache"
        return _hidden(Check(name, Reason.HARDWARE, why), root, ("cat_l3",))
    io = table.domains[0].io
    ways_of_io = io.message if isinstance(io, Missing) else f"{io.cbm.hex}, {io.provenance}"
    text = f"{ways} ways, masks of {limits.min_bits or 1} at least"
    text += ", gaps allowed" if limits.sparse else ""
    text += ", code and data apart (CDP)" if limits.cdp else ""
    text += f"; classes: {_used(len(table.groups), limits.closids)}; I/O: {ways_of_io}"
    text += _IO_ALLOC[limits.io_alloc]
    full = limits.closids is not None and len(table.groups) >= limits.closids
    return Check(name, Reason.TAKEN if full else Reason.PRESENT, text)


def _bandwidth(table: ResctrlTable, root: Path) -> Check:
    name, limits = f"{_NAME} MB", table.limits
    if limits.mba_least is None:
        why = "the kernel offers no limits on memory bandwidth"
        return _hidden(Check(name, Reason.HARDWARE, why), root, ("mba",))
    step = "" if limits.mba_step is None else f", in steps of {limits.mba_step}"
    least = "" if table.mba_unit == "MBps" else f", {limits.mba_least} at least{step}"
    return Check(name, Reason.PRESENT, f"limits in {table.mba_unit}{least}")


def _monitoring(table: ResctrlTable, root: Path) -> Check:
    name = f"{_NAME} monitors"
    values = [cache.values for group in table.groups[:1] for cache in group.caches]
    lost = [
        event
        for event in EVENTS
        if not values
        or any(
            isinstance(metered, Missing) and metered.reason is Reason.HARDWARE
            for metered in (value[event] for value in values)
        )
    ]
    hidden = [_EVENT_FLAGS[event] for event in lost]
    metered = [event for event in EVENTS if event not in lost]
    if not metered:
        return _hidden(Check(name, Reason.HARDWARE, "the kernel meters no group"), root, hidden)
    used = len(table.groups) + sum(len(group.monitors) for group in table.groups)
    text = f"{', '.join(metered)}; RMIDs: {_used(used, table.limits.rmids)}"
    text += ", and those in limbo, which the kernel does not report"
    full = table.limits.rmids is not None and used >= table.limits.rmids
    reason = Reason.HARDWARE if lost else Reason.TAKEN if full else Reason.PRESENT
    text += f"; no {', '.join(lost)}" if lost else ""
    return _hidden(Check(name, reason, text), root, hidden)


def _reads(table: ResctrlTable) -> tuple[Check, ...]:
    """Side effects of reading the counters, as a check."""
    cpus = [domain.read_on for domain in table.domains if domain.read_on is not None]
    if not cpus:
        return ()
    text = (
        f"the kernel reads the counters on CPU {format_cpu_list(cpus)}, one for each cache, as it "
        "chooses; --quiet-cpus leaves those of a cache alone, nohz_full has it choose another"
    )
    return (Check(f"{_NAME} reads", Reason.PRESENT, text),)


def _used(count: int, limit: int | None) -> str:
    none_left = ", none is left" if limit is not None and count >= limit else ""
    return f"{count} of {'an unknown number' if limit is None else limit} in use{none_left}"


def _hidden(check: Check, root: Path, lacks: Iterable[str]) -> Check:
    """The check, with a fix if the CPU has one of the flags that the kernel does not offer."""
    flags = files.cpu_flags(root)
    if flags.isdisjoint(lacks):
        return check
    # Skylake-SP: CAT always, and monitors up to stepping 4 (arch/x86/kernel/cpu/resctrl/core.c).
    why = "this CPU has it; kernels leave it off where an erratum may make it wrong"
    words = ",".join(word for flag, word in _FLAGS.items() if flag in flags)
    note, fix = kernel_parameters(root, rdt=words)
    return replace(check, why=why, text=f"{check.text}; {note}", fix=fix)


# Each counter read disturbs a CPU, so there is about one a second however fast the ticks are.
_COUNTERS_EVERY_NS = 750_000_000
# Reading `tasks` makes the kernel examine every thread: at most this share of the time. Older tasks
# are noted.
_TASKS_RATIO = 0.02
_TASKS_OLD_NS = 2_000_000_000
# Only operators change the register, and reading it runs on a CPU of the package.
_REGISTER_EVERY_NS = 10_000_000_000
_ABSENT_EVERY_NS = 5_000_000_000
# Without the lock, the tree is read this often at most until it is twice the same.
_READS = 5


class ResctrlSource:
    """Reads the groups once a tick under their lock, and then each counter once a second.

    The lock is held for some milliseconds at most, and not while counters are read: the kernel has
    another CPU do that, which may take long. A group that is replaced meanwhile has no values in
    this reading.
    """

    name = _NAME
    inline = False

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
        """`io_register`: this CPU has the register IIO LLC WAYS, and it may be read.

        A cache's counters are not read if the kernel would read them on a quiet CPU. `affinity` is
        of this process; by default one of its own.
        """
        self._root = root
        self._topology = topology
        self._quiet = frozenset(quiet_cpus)
        self._io_register = io_register
        self._affinity = affinity or Affinity()
        self._clock = clock
        self._queued = queues(root)
        self._searched: frozenset[L3Domain] = frozenset()
        self._counters: MonitorCounters = {}
        self._next_counters_ns = 0
        self._tasks: Mapping[str, tuple[int, ...]] = {}
        self._next_tasks_ns = 0
        self._tasks_at_ns, self._tasks_age_ns = 0, 0
        self._registers: Mapping[L3Domain, Cbm] = {}
        self._next_registers_ns = 0
        self._absent: Missing | None = None
        self._next_tree_ns = 0
        self._cpuid: tuple[str, int, int, int] | None = None
        self.counter_reads = self.counter_interrupts = 0

    def read(self) -> ResctrlTable | Missing:
        now_ns = self._clock()
        if self._absent is not None and now_ns < self._next_tree_ns:
            return self._absent
        mount = files.find_mount(self._root)
        if isinstance(mount, Missing):
            # A kernel without resctrl does not get it later, as a rule.
            self._absent = mount if mount.reason is Reason.HARDWARE else None
            self._next_tree_ns = now_ns + _ABSENT_EVERY_NS
            return mount
        self._absent = None
        try:
            return self._table(mount)
        except OSError as error:
            why = unreadable(mount.shown, error)
            gone = f"{mount.shown} was unmounted while it was read"
            return replace(why, detail=gone) if why.reason is Reason.SOURCE else why

    def check(self) -> tuple[Check, ...]:
        """What is mounted, offered and in use, and what reading it disturbs."""
        mount = files.find_mount(self._root)
        if isinstance(mount, Missing):
            return (absent(mount, self._root),)
        value = self.read()
        if isinstance(value, Missing):
            return missing_check(self.name, value)
        return present(mount, value, self._root)

    def close(self) -> None:
        """Nothing is held; the next read starts over."""
        self._counters, self._next_counters_ns = {}, 0
        self._tasks, self._next_tasks_ns = {}, 0
        self._registers, self._next_registers_ns = {}, 0
        self._absent = None

    def _table(self, mount: files.Mount) -> ResctrlTable | Missing:
        inventory = self._read_tree(mount)
        if isinstance(inventory, Missing):
            return inventory
        info, tree, notes = inventory
        monitors = find_monitors(mount.path, self._reader)
        unknown = frozenset(monitor.l3 for monitor in monitors if monitor.reader.cpu is None)
        if unknown - self._searched:  # caches that were offline at the start
            self._topology = read_topology(self._root)
            self._searched |= unknown
        self._count(info, tree, monitors)
        tasks = self._tasks_now(tree)
        # Once: Linux 5.x interrupts CPUs when /proc/cpuinfo is opened (arch_freq_prepare_all).
        self._cpuid = self._cpuid or read_cpuid(self._root)
        gathered = Gathered(
            tree=tree,
            info=info,
            mba_unit=files.mba_unit_of(mount, self._cpuid),
            monitors=monitors,
            counters=self._counters,
            tasks=tasks,
            registers=self._registers_now(info.ways),
            notes=(*notes, *divided_unawares(monitors, self._topology), *self._old_tasks()),
        )
        return table_of(gathered, self._topology)

    def _read_tree(self, mount: files.Mount) -> tuple[Info, Tree, tuple[str, ...]] | Missing:
        """The groups at one moment: under the lock, else twice the same."""
        notes: tuple[str, ...] = ()
        with files.shared_lock(mount.path) as lock:
            # Reading the ways of I/O clears the kernel's last message, which who writes may need.
            info = read_info(f"{mount.path}/info")
            before = read_tree(mount.path, lock.in_time) if lock.held else None
        if before is not None:
            return info, before, ()
        if not lock.held:
            notes = (
                f"read without resctrl's lock, which {files.holder(self._root, mount.path)} holds",
            )
        for _ in range(_READS):
            now = read_tree(mount.path)
            if now is not None and now == before:
                return info, now, notes
            before = now
        return Missing(Reason.TAKEN, "its groups changed during every read")

    def _reader(self, l3: L3Domain) -> tuple[CacheReader, Missing | None]:
        reader = choose_reader(
            l3, self._topology, os.sched_getaffinity(0) - self._quiet, queued=self._queued
        )
        if reader.cpu not in self._quiet:
            return reader, None
        why = f"the kernel reads this cache's counters on CPU {reader.cpu}, one of --quiet-cpus"
        return reader, Missing(Reason.SOURCE, why)

    def _count(self, info: Info, tree: Tree, monitors: tuple[Monitored, ...]) -> None:
        """Read every counter, unless that was a moment ago."""
        now_ns = self._clock()
        if now_ns >= self._next_counters_ns:
            self._next_counters_ns = now_ns + _COUNTERS_EVERY_NS
            self._counters = read_counters(
                tree, monitors, info.events, self._clock, staying_on=self._affinity.staying_on
            )
            reads, interrupts = costs(tree, monitors, info.events)
            self.counter_reads += reads
            self.counter_interrupts += interrupts

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
        """A note if the tasks are much older than the rest."""
        age_ns = self._tasks_age_ns
        if age_ns <= _TASKS_OLD_NS:
            return ()
        every_s = (self._next_tasks_ns - self._tasks_at_ns) / 1e9
        why = f"read every {every_s:.0f} s, as it is expensive"
        return (f"which thread is in which class is {age_ns / 1e9:.0f} s old: {why}",)

    def _registers_now(self, ways: int | None) -> Mapping[L3Domain, Cbm]:
        """IIO LLC WAYS of each package on whose CPUs nftop runs anyway."""
        now_ns = self._clock()
        if not self._io_register or ways is None or now_ns < self._next_registers_ns:
            return self._registers
        self._next_registers_ns = now_ns + _REGISTER_EVERY_NS
        usable = os.sched_getaffinity(0) - self._quiet
        values = {}
        for cache in self._topology.l3:
            cpu = next((item for item in cache.cpus if item in usable), None)
            value = None if cpu is None else read_io_ways(self._root, cpu, ways)
            if value is not None:
                values[cache.id] = value
        self._registers = values
        return values
