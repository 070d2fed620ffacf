"""Threads of network functions, and all other threads that poll: their CPUs and run times."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeAlias

from nftop.model.check import Check
from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reason
from nftop.model.number_text import counted
from nftop.model.sample import ProcessFacts, ThreadTable
from nftop.model.struct import replace
from nftop.model.threads import CpuUse, ThreadRow
from nftop.sources.base import missing_check
from nftop.sources.host.sysfs import unreadable
from nftop.sources.process import scan
from nftop.sources.process.facts import CulpritReader, FactsReader, culprit_facts, process_facts
from nftop.sources.process.threads import ThreadFiles

_SCAN_EVERY_NS = 5_000_000_000
# The second pass comes soon, since pollers show only by comparing two.
_SECOND_SCAN_AFTER_NS = 500_000_000
_FILES_PER_THREAD = 3
# Minimum of threads examined by one read, in about 0.1 s. With more threads a pass is spread over
# several reads, each with its share of `_PASS_NS`; watched threads are sampled at every read.
_THREADS_PER_READ = 1000
_PASS_NS = 10_000_000_000
# Processes of the selected CPU, and of open incidents, that are described at most.
_MAX_DESCRIBED, _MAX_CULPRITS = 8, 16
# Least time between passes for the use of CPUs by process.
_LEAST_PASS_NS = 1_000_000_000


_Watched: TypeAlias = tuple[ThreadRow, ThreadFiles]


class ProcessSource:
    """Scans /proc every few seconds; each read samples the watched threads.

    A thread bound to one CPU costs two system calls a tick. run_ns and wait_ns are updated by the
    timer tick, which comes once a second on a nohz_full CPU that runs a single thread.
    """

    name = "processes"
    inline = False

    def __init__(
        self,
        root: Path = Path("/"),
        *,
        scan_every_ns: int = _SCAN_EVERY_NS,
        threads_per_read: int | None = _THREADS_PER_READ,
        clock: Callable[[], int] = time.monotonic_ns,
        facts: FactsReader | None = None,
        culprits: CulpritReader | None = None,
    ) -> None:
        """A pass over the /proc of `root` starts every `scan_every_ns`.

        A read examines up to `threads_per_read` threads, or more if a pass would take above 10 s;
        None, and the first read: all. `facts` describes one process for a CPU that it runs on,
        `culprits` one process of an incident; psutil by default.
        """
        self._proc = os.fspath(root / "proc")
        self._scan_every_ns = scan_every_ns
        self._clock = clock
        self._scanner = scan.Scanner(self._proc, clock)
        self._watched: dict[tuple[int, int], _Watched] = {}  # by tid and start
        self._result = scan.ScanResult((), 0, 0)
        self._scanned_at_ns: int | None = None
        self._next_scan_ns = 0
        self._threads_per_read = threads_per_read
        self._scan_began_ns: int | None = None  # while a pass is under way
        self._read_at_ns = 0  # of the read before
        own = root == Path("/")  # psutil reads this host's /proc only
        self._read_facts = facts or (process_facts if own else lambda _pid, _cpu: None)
        self._read_culprit = culprits or (culprit_facts if own else lambda *_: None)
        self._culprit_cpus: frozenset[Cpu] = frozenset()
        self._memory_cpus: frozenset[Cpu] = frozenset()
        # By pid, start of its oldest known thread, and whether its memory was read.
        self._culprits: dict[tuple[int, int, bool], ProcessFacts | None] = {}
        self._selected: Cpu | None = None
        # By pid, start of its oldest thread there, and CPU; None for a process that has ended.
        self._facts: dict[tuple[int, int, Cpu], ProcessFacts | None] = {}

    def read(self) -> ThreadTable | Missing:
        try:
            return self._read()
        except OSError as error:
            return unreadable(self._proc, error)

    def check(self) -> tuple[Check, ...]:
        """The visible processes, by a scan of its own."""
        scanner = scan.Scanner(self._proc, self._clock)
        try:
            result = scanner.scan() or scan.ScanResult((), 0, 0)
        except OSError as error:
            why = Missing(Reason.SOURCE, f"{self._proc} can't be listed: {error.strerror}")
            return missing_check(self.name, why, "mount -t proc proc /proc")
        return (_check_processes(self.name, result), self._check_schedstat())

    def focus_processes(self, cpu: Cpu | None) -> None:
        """As `ProcessFocusing`."""
        self._selected = cpu

    def focus_culprits(self, cpus: Collection[Cpu], memory: Collection[Cpu]) -> None:
        """As `CulpritFocusing`. A pass over /proc follows soon for CPUs that are new."""
        new = frozenset(cpus) - self._culprit_cpus
        self._culprit_cpus, self._memory_cpus = frozenset(cpus), frozenset(memory)
        if new and self._scanned_at_ns is not None:
            soon_ns = self._scanned_at_ns + _LEAST_PASS_NS
            self._next_scan_ns = min(self._next_scan_ns, soon_ns)

    def close(self) -> None:
        """Close every file; the next read starts over."""
        for _, files in self._watched.values():
            files.close()
        self._watched.clear()
        self._scanner = scan.Scanner(self._proc, self._clock)
        self._scanned_at_ns = self._scan_began_ns = None

    def _read(self) -> ThreadTable:
        now_ns = self._clock()
        first = self._scanned_at_ns is None
        if first or self._scan_began_ns is not None or now_ns >= self._next_scan_ns:
            self._scan(now_ns, None if first else self._quota(now_ns))
        self._read_at_ns = now_ns
        rows = sorted(self._rows(), key=lambda row: (row.pid, row.tid))
        scanned_at_ns = self._scanned_at_ns or now_ns
        wanted = self._culprit_cpus
        uses = tuple(use for use in self._result.uses if use.cpu in wanted) if wanted else ()
        return ThreadTable(
            tuple(rows),
            self._result.hidden,
            scanned_at_ns,
            self._describe(rows),
            self._describe_culprits(rows, uses),
            uses,
        )

    def _describe_culprits(
        self, rows: list[ThreadRow], uses: tuple[CpuUse, ...]
    ) -> tuple[ProcessFacts, ...]:
        """Facts of the processes on CPUs of open incidents, read once each."""
        keys: dict[int, tuple[tuple[int, int, bool], Cpu]] = {}
        for use in uses:
            keys.setdefault(use.pid, ((use.pid, 0, False), use.cpu))
        for row in sorted(rows, key=lambda row: row.start_ticks):
            cpu = row.allowed[0] if len(row.allowed) == 1 else row.last_cpu
            if cpu in self._culprit_cpus:
                memory = cpu in self._memory_cpus
                keys.setdefault(row.pid, ((row.pid, row.start_ticks, memory), cpu))
        known = self._culprits
        self._culprits = {
            key: known[key] if key in known else self._read_culprit(key[0], cpu, key[2])
            for key, cpu in list(keys.values())[:_MAX_CULPRITS]
        }
        return tuple(facts for facts in self._culprits.values() if facts is not None)

    def _describe(self, rows: list[ThreadRow]) -> tuple[ProcessFacts, ...]:
        """Facts of the processes whose threads are on the selected CPU, read once each."""
        cpu = self._selected
        if cpu is None:
            self._facts = {}
            return ()
        keys: dict[int, tuple[int, int, Cpu]] = {}  # the oldest thread identifies the process
        for row in sorted(rows, key=lambda row: row.start_ticks):
            if cpu in (row.allowed if len(row.allowed) == 1 else (row.last_cpu,)):
                keys.setdefault(row.pid, (row.pid, row.start_ticks, cpu))
        known = self._facts
        self._facts = {
            key: known[key] if key in known else self._read_facts(pid, cpu)
            for pid, key in sorted(keys.items())[:_MAX_DESCRIBED]
        }
        return tuple(facts for facts in self._facts.values() if facts is not None)

    def _quota(self, now_ns: int) -> int | None:
        """Threads to examine in this read, so that a pass ends within `_PASS_NS`; None: all."""
        if self._threads_per_read is None:
            return None
        elapsed_ns = max(now_ns - self._read_at_ns, 0)
        share = -(-self._scanner.known_threads * elapsed_ns // _PASS_NS)
        return max(self._threads_per_read, share)

    def _scan(self, now_ns: int, most_threads: int | None) -> None:
        """Begin a pass over /proc, or continue the current one."""
        first = self._scanned_at_ns is None
        if self._scan_began_ns is None:
            self._scan_began_ns = now_ns
            self._scanner.watched_cpus = frozenset(self._culprit_cpus)
        began_ns, self._scan_began_ns = self._scan_began_ns, None
        result = self._scanner.scan(most_threads)
        if result is None:
            self._scan_began_ns = began_ns
            return
        self._result = result
        self._adopt()
        pause_ns = min(self._scan_every_ns, _SECOND_SCAN_AFTER_NS if first else 1 << 62)
        self._scanned_at_ns, self._next_scan_ns = began_ns, began_ns + pause_ns

    def _rows(self) -> tuple[ThreadRow, ...]:
        rows = []
        for identity, watched in tuple(self._watched.items()):
            try:
                row = _row(*watched, self._clock())
            except (*scan.GONE, PermissionError, ValueError):
                row = None
            if row is None:
                self._drop(identity)
            else:
                rows.append(row)
        return tuple(rows)

    def _adopt(self) -> None:
        """Watch the threads of the pass and no others."""
        wanted = {(thread.tid, thread.start_ticks): thread for thread in self._result.threads}
        for identity in self._watched.keys() - wanted.keys():
            self._drop(identity)
        # At most half of the descriptors: counter groups and sockets need some.
        room = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2 // _FILES_PER_THREAD
        for identity, thread in wanted.items():
            if identity in self._watched:
                files = self._watched[identity][1]
            else:
                directory = f"{self._proc}/{thread.pid}/task/{thread.tid}"
                files = ThreadFiles(directory, keep=len(self._watched) < room)
            self._watched[identity] = thread, files

    def _drop(self, identity: tuple[int, int]) -> None:
        self._watched.pop(identity)[1].close()

    def _check_schedstat(self) -> Check:
        name = f"{self.name} schedstat"
        try:
            kept = ThreadFiles(f"{self._proc}/self", keep=False).schedstat() is not None
        except (OSError, ValueError):
            kept = False
        if kept:
            return Check(name, Reason.PRESENT, "the kernel keeps threads' run and wait times")
        why = "this kernel keeps no run and wait times of threads (CONFIG_SCHED_INFO)"
        return Check(name, Reason.HARDWARE, why)


def _row(thread: ThreadRow, files: ThreadFiles, read_at_ns: int) -> ThreadRow | None:
    """The thread now, at `read_at_ns`; None if it has ended or its tid is reused."""
    status = files.status()
    if status.dead:
        return None
    sched = files.schedstat()
    if sched is not None and files.kept and len(status.allowed) == 1:
        run_ns, last_cpu = sched.run_ns, status.allowed[0]
    else:
        stat = files.stat()
        if stat.start_ticks != thread.start_ticks:
            return None
        run_ns = stat.cpu_ticks * scan.NS_PER_TICK if sched is None else sched.run_ns
        last_cpu = stat.last_cpu
    role = scan.settle_index(scan.Role(thread.role, thread.role_index), thread.comm, status.allowed)
    return replace(
        thread,
        role_index=role.index,
        allowed=status.allowed,
        last_cpu=last_cpu,
        run_ns=run_ns,
        wait_ns=None if sched is None else sched.wait_ns,
        voluntary=status.voluntary,
        involuntary=status.involuntary,
        read_at_ns=read_at_ns,
    )


def _check_processes(name: str, result: scan.ScanResult) -> Check:
    roles = sum(thread.role != "" for thread in result.threads)
    text = counted(result.processes, "process", "processes")
    text += f", {counted(roles, 'thread')} of network functions among them"
    if result.hidden:
        why = f"{text}; {result.hidden} more closed to nftop, by hidepid of /proc"
        return Check(name, Reason.PERMISSION, why, "sudo nftop")
    return Check(name, Reason.PRESENT, text)
