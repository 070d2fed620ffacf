"""One pass over /proc: threads of interest, their roles, virtual machines.

Plain file reads instead of psutil, which has no schedstat and no thread names, takes the path of
/proc from a global, and costs about ten times as much per thread. No file is read for which the
kernel locks the process, as it does for `cmdline` and `maps`.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import pairwise, repeat
from pathlib import Path
from typing import TypeAlias

from nftop.model.nf.kinds import NF_KINDS, NF_PATTERNS, POLLING_RATIO
from nftop.model.struct import dataclass, field, replace
from nftop.model.threads import CpuUse, ThreadRow
from nftop.sources.host.sysfs import comm, link_target, numbered, read_in_time, read_up_to
from nftop.sources.process.threads import Stat, ThreadFiles

# Names of virtual machines: systemd-machined and libvirt name the control group after the machine,
# `machine-qemu\x2d3\x2dvm1.scope` (libvirt's virSystemdMakeScopeName); otherwise QEMU's arguments
# have the name (`-name vm1`, `-name guest=vm1,...`; qemu(1)).
_SCOPE = re.compile(r"/machine-qemu\\x2d\d+\\x2d([^/\n]+)\.scope")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")
_LIMIT_BYTES = 1 << 16
_MOST_LETTERS = 64


def vm_name(process: Path) -> str:
    """Name of the virtual machine of process /proc/PID (untrusted text); "" if unknown.

    Reads the arguments, for which the kernel locks the process, only if the control group has no
    name.
    """
    scope = _SCOPE.search(_text(process / "cgroup", read_up_to))
    if scope is not None:
        plain = _ESCAPED.sub(lambda hit: chr(int(hit[1], 16)), scope[1])
        return plain[:_MOST_LETTERS]
    arguments = _text(process / "cmdline", read_in_time).split("\0")
    for option, value in pairwise(arguments):
        if option in ("-name", "--name"):
            return _of_option(value)[:_MOST_LETTERS]
    return ""


def _of_option(value: str) -> str:
    """`vm1`, `vm1,debug-threads=on`, `guest=vm1,...`; a comma within the name is doubled."""
    fields = value.replace(",,", "\0").split(",")
    named = next((field for field in fields if field.startswith("guest=")), fields[0])
    return named.removeprefix("guest=").replace("\0", ",")


def _text(path: Path, read: Callable[[str, int], bytes]) -> str:
    try:
        return read(str(path), _LIMIT_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""


_COMM_LIMIT = 15


@dataclass(frozen=True, slots=True)
class Role:
    """A `ThreadRow.role` and its `role_index`."""

    name: str
    index: int | None = None


NO_ROLE = Role("")

_QEMU_VCPU = re.compile(r"CPU ([0-9]+)/(?:KVM|TCG)")  # QEMU, accel/
# Threads that EAL starts in every application, whatever else its threads are called.
_EAL_SERVICE = re.compile(
    r"eal-intr-thread|dpdk-intr|rte_mp_handle|dpdk-mp-msg|(?:telemetry|dpdk-telemet)(?:-v?[12]?)?"
)
# Main threads of programs that also forward without any thread of such a name; the second is
# Debian's ovs-vswitchd-dpdk, as far as the kernel keeps it.
_NFS_WITHOUT_POLLERS = frozenset({"ovs-vswitchd", "ovs-vswitchd-dp"})


@lru_cache(maxsize=1024)
def role_of(thread: str) -> Role:
    """Role of a thread by its name; `NO_ROLE` if it has none."""
    for name, pattern in NF_PATTERNS.items():
        if hit := pattern.fullmatch(thread):
            return Role(name, int(hit[1]) if hit.groups() else None)
    hit = _QEMU_VCPU.fullmatch(thread)
    return NO_ROLE if hit is None else Role("qemu_vcpu", int(hit[1]))


def has_dpdk_main(comms: Sequence[str]) -> bool:
    """Whether the process with threads of these names has a DPDK main lcore."""
    roles = {role_of(comm).name for comm in comms}
    # Another framework owns the main thread, and EAL's main lcore forwards nothing.
    if any(NF_KINDS.get(role, "dpdk") != "dpdk" for role in roles):
        return False
    return "dpdk_lcore" in roles or any(map(_EAL_SERVICE.fullmatch, comms))


def is_nf(comms: Sequence[str]) -> bool:
    """Whether the process with threads of these names is a network function in user space."""
    known = any(role_of(comm).name in NF_KINDS for comm in comms)
    return known or has_dpdk_main(comms) or not _NFS_WITHOUT_POLLERS.isdisjoint(comms)


def settle_index(role: Role, comm: str, allowed: Sequence[int]) -> Role:
    """The role without its index if the kernel may have cut off its last digit.

    `lcore-worker-10` fills the name, so it is lcore 10 or any of 100 to 109. EAL numbers lcores
    after CPUs by default: a thread bound to a CPU such as 104 is not taken for lcore 10.
    """
    cut = len(comm.encode()) == _COMM_LIMIT and comm[-1:].isdigit()
    if not cut or role.index is None or len(allowed) != 1:
        return role
    cpu = str(allowed[0])
    uncertain = cpu.startswith(str(role.index)) and cpu != str(role.index)
    return Role(role.name) if uncertain else role


GONE = (FileNotFoundError, ProcessLookupError)
NS_PER_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")
# A process that ran for less than this share of the time has no thread that polls.
_QUIET_RATIO = 0.01
# The threads of a quiet process, or of one with very many, are examined this often.
_EXAMINE_EVERY_NS = 30_000_000_000
# A thread may take another name and hardly run: those of idle processes are read again this often.
_NAME_EVERY_NS = 300_000_000_000
# Time between two looks at a process, for each of its threads: 10 s for 1,000 of them.
_PAUSE_NS_PER_THREAD = 10_000_000
# A thread that is not pinned is watched if it hardly ever sleeps.
UNPINNED_POLLER_RATIO = 0.9


@dataclass(frozen=True, slots=True)
class ScanResult:
    """Result of a pass: threads of interest without values, processes seen.

    Attributes:
        hidden: processes closed to nftop; a lower bound, since hidepid=2 does not list them.
        uses: what ran on the watched CPUs since the pass before, the largest share first.
    """

    threads: tuple[ThreadRow, ...]
    processes: int
    hidden: int
    uses: tuple[CpuUse, ...] = ()


@dataclass(frozen=True, slots=True)
class _Usage:
    """CPU and wait time of a thread at one moment."""

    at_ns: int
    run_ns: int
    wait_ns: int


_Usages: TypeAlias = Mapping[tuple[int, int], _Usage]  # by tid and start
_NewUsages: TypeAlias = dict[tuple[int, int], _Usage]


@dataclass(frozen=True, slots=True)
class _Seen:
    """A thread in one pass. The ratios are since the last pass; None in the first."""

    tid: int
    stat: Stat
    files: ThreadFiles
    run_ratio: float | None
    wait_ratio: float | None

    def polls(self) -> bool:
        if self.run_ratio is None or self.wait_ratio is None:
            return False
        if self.run_ratio > UNPINNED_POLLER_RATIO:
            return True
        if self.run_ratio + self.wait_ratio <= POLLING_RATIO:
            return False
        try:
            return len(self.files.status().allowed) == 1
        except (*GONE, ValueError):
            return False


@dataclass(frozen=True, slots=True)
class _Process:
    """A process whose threads were examined.

    Attributes:
        group: its stat before that, at `examined_at_ns`.
        usage: of its threads, by tid and start.
        compared: whether `rows` come from comparing two looks, which shows pollers.
        checked, checked_at_ns: its stat when it was last checked, which is cheap.
        named_at_ns: when the names of its threads were read.
    """

    group: Stat
    examined_at_ns: int
    usage: _Usages
    rows: tuple[ThreadRow, ...]
    compared: bool
    checked: Stat
    checked_at_ns: int
    named_at_ns: int

    def same_threads(self, now: Stat) -> bool:
        """Whether its start, name and number of threads are those of the last look."""
        group = self.group
        before = group.start_ticks, group.comm, group.threads
        return (now.start_ticks, now.comm, now.threads) == before

    def recent(self, at_ns: int) -> bool:
        """Whether its last look is too recent for the next one, for its number of threads."""
        return at_ns - self.examined_at_ns < self.group.threads * _PAUSE_NS_PER_THREAD

    def quiet(self, now: Stat, at_ns: int) -> bool:
        """Whether it ran so little since its last check that no thread of it polls."""
        ran_ns = (now.cpu_ticks - self.checked.cpu_ticks) * NS_PER_TICK
        return ran_ns < _QUIET_RATIO * (at_ns - self.checked_at_ns)

    def idle(self, now: Stat, tids: Sequence[int]) -> bool:
        """Whether its threads are those of the last look, and none of them ran since."""
        ran = now.cpu_ticks != self.group.cpu_ticks
        return not ran and {tid for tid, _ in self.usage} == set(tids)

    def ran_before_check_ns(self) -> int:
        """What all of its threads ran from the last look to the last check."""
        return max(self.checked.cpu_ticks - self.group.cpu_ticks, 0) * NS_PER_TICK


@dataclass(slots=True)
class _Pass:
    """A pass under way; `hidden`, `processes` and `uses` as in `ScanResult`."""

    usage: _NewUsages = field(default_factory=dict)  # of kernel threads
    examined: dict[int, _Process] = field(default_factory=dict)
    threads: list[ThreadRow] = field(default_factory=list)
    processes: int = 0
    hidden: int = 0
    uses: dict[tuple[int, int], CpuUse] = field(default_factory=dict)


# What ran on a watched CPU for less than this share is not listed; at most so many are.
_LEAST_USE, _MOST_USES = 0.01, 16


def process_names(proc: str) -> list[tuple[int, str]]:
    """Pid and name (untrusted text) of every process. Raises OSError."""
    names = []
    for pid in numbered(proc):
        with contextlib.suppress(OSError):  # it has ended, or is hidden
            names.append((pid, comm(f"{proc}/{pid}")))
    return names


class Scanner:
    """Passes over `proc`, where procfs is mounted; each is compared with the one before.

    `clock` returns CLOCK_MONOTONIC nanoseconds.
    """

    def __init__(self, proc: str, clock: Callable[[], int]) -> None:
        self._proc = proc
        self._clock = clock
        self._kernel: set[int] = set()
        self.watched_cpus: frozenset[int] = frozenset()
        self._examined: Mapping[int, _Process] = {}  # of the last whole pass, by pid
        self._kernel_usage: _Usages = {}
        self._vms: dict[tuple[int, int], str] = {}  # by process and its start
        self._pass = _Pass()
        self._steps: Generator[None, None, ScanResult] | None = None

    @property
    def known_threads(self) -> int:
        """Threads outside the kernel that the last whole pass examined."""
        return sum(len(process.usage) for process in self._examined.values())

    def scan(self, most_threads: int | None = None) -> ScanResult | None:
        """Examine all processes, up to `most_threads` threads in this call.

        Returns None while the pass is incomplete; the next call continues it. Raises OSError: /proc
        can't be listed.
        """
        if self._steps is None:
            self._steps = self._scan()
        for _ in range(most_threads) if most_threads is not None else repeat(None):
            try:
                next(self._steps)
            except StopIteration as end:
                self._steps = None
                result: ScanResult = end.value
                return result
            except OSError:
                self._steps = None
                raise
        return None

    def _scan(self) -> Generator[None, None, ScanResult]:
        """One pass; yields before each thread it reads."""
        pids = numbered(self._proc)
        # A large host has ten thousand kernel threads: they are not examined again.
        self._kernel.intersection_update(pids)
        own = link_target(f"{self._proc}/self")
        self._pass = _Pass(hidden=0 if 1 in pids else 1)
        for pid in pids:
            if pid not in self._kernel and str(pid) != own:
                yield from self._examine_process(pid)
            elif pid in self._kernel and self.watched_cpus:
                yield from self._examine_kernel(pid)
        self._examined, self._kernel_usage = self._pass.examined, self._pass.usage
        here = {thread.pid for thread in self._pass.threads}
        self._vms = {key: name for key, name in self._vms.items() if key[0] in here}
        uses = sorted(
            self._pass.uses.values(), key=lambda use: use.run_ns / use.over_ns, reverse=True
        )
        large = [use for use in uses if use.run_ns >= _LEAST_USE * use.over_ns]
        return ScanResult(
            tuple(self._pass.threads),
            self._pass.processes,
            self._pass.hidden,
            tuple(large[:_MOST_USES]),
        )

    def _examine_process(self, pid: int) -> Iterator[None]:
        try:
            yield from self._examine_or_keep(pid)
        except GONE:
            return
        except PermissionError:
            self._pass.hidden += 1

    def _examine_or_keep(self, pid: int) -> Iterator[None]:
        """Examine the threads of a process, or keep what the last look gave if nothing changed."""
        known, now_ns = self._examined.get(pid), self._clock()
        group = self._group(pid)
        if known is not None and group is not None and known.compared:
            same = known.same_threads(group)
            new = now_ns - known.examined_at_ns < _EXAMINE_EVERY_NS
            # The use of watched CPUs is wanted of processes with many threads too.
            may_wait = known.recent(now_ns) and not self.watched_cpus
            checked = replace(known, checked=group, checked_at_ns=now_ns)
            if same and new and (may_wait or known.quiet(group, now_ns)):
                yield
                self._keep(pid, checked)
                return
            named_ns = now_ns - known.named_at_ns
            if (
                same
                and named_ns < _NAME_EVERY_NS
                and known.idle(group, numbered(f"{self._proc}/{pid}/task"))
            ):
                yield
                self._keep(pid, replace(checked, examined_at_ns=now_ns))
                return
        usage: dict[tuple[int, int], _Usage] = {}
        members = yield from self._members(pid, known, usage)
        if not members:
            return
        rows = self._candidates(pid, members)
        if group is None:
            group = members[0].stat
        compared = any(seen.run_ratio is not None for seen in members)
        self._keep(
            pid, _Process(group, now_ns, usage, tuple(rows), compared, group, now_ns, now_ns)
        )

    def _keep(self, pid: int, process: _Process) -> None:
        self._pass.examined[pid] = process
        self._pass.processes += 1
        self._pass.threads += process.rows

    def _group(self, pid: int) -> Stat | None:
        """Stat of the whole process; None if it has none. Raises PermissionError."""
        try:
            return ThreadFiles(f"{self._proc}/{pid}", keep=False).stat()
        except (*GONE, ValueError):
            return None

    def _examine_kernel(self, pid: int) -> Iterator[None]:
        """What a kernel thread runs on watched CPUs; nothing else is read of these."""
        yield
        with contextlib.suppress(*GONE, PermissionError, ValueError):
            self._see(pid, pid, self._kernel_usage, self._pass.usage, None)

    def _members(
        self, pid: int, known: _Process | None, now: _NewUsages
    ) -> Generator[None, None, list[_Seen]]:
        members = []
        before = {} if known is None else known.usage
        for tid in numbered(f"{self._proc}/{pid}/task"):
            yield
            try:
                seen = self._see(pid, tid, before, now, known)
            except (*GONE, ValueError):
                continue
            if seen.stat.kernel:
                self._kernel.add(pid)
                return []
            members.append(seen)
        return members

    def _see(
        self, pid: int, tid: int, earlier: _Usages, usage: _NewUsages, process: _Process | None
    ) -> _Seen:
        """A thread compared with its usage `earlier`; its usage now goes into `usage`.

        If its process was checked since, what it ran is that since the check: at least what remains
        after all that the process ran before.
        """
        files = ThreadFiles(f"{self._proc}/{pid}/task/{tid}", keep=False)
        stat = files.stat()
        sched = None if stat.kernel else files.schedstat()
        now = _Usage(
            self._clock(),
            stat.cpu_ticks * NS_PER_TICK if sched is None else sched.run_ns,
            0 if sched is None else sched.wait_ns,
        )
        identity = tid, stat.start_ticks
        usage[identity] = now
        before = earlier.get(identity)
        if before is None or now.at_ns <= before.at_ns:
            return _Seen(tid, stat, files, None, None)
        elapsed_ns = over_ns = now.at_ns - before.at_ns
        ran_ns = now.run_ns - before.run_ns
        if process is not None and before.at_ns < process.checked_at_ns < now.at_ns:
            over_ns = now.at_ns - process.checked_at_ns
            ran_ns = min(max(ran_ns - process.ran_before_check_ns(), 0), over_ns)
        if stat.last_cpu in self.watched_cpus:
            self._use(pid, stat, ran_ns, over_ns)
        wait_ratio = (now.wait_ns - before.wait_ns) / elapsed_ns
        return _Seen(tid, stat, files, ran_ns / over_ns, wait_ratio)

    def _use(self, pid: int, stat: Stat, run_ns: int, over_ns: int) -> None:
        """Add what a thread ran on a watched CPU; a process has the name of its first thread."""
        key = int(stat.last_cpu), pid
        known = self._pass.uses.get(key, CpuUse(stat.last_cpu, pid, stat.comm, 0, over_ns))
        longer = max(known.over_ns, over_ns)
        self._pass.uses[key] = replace(known, run_ns=known.run_ns + max(run_ns, 0), over_ns=longer)

    def _candidates(self, pid: int, members: Sequence[_Seen]) -> list[ThreadRow]:
        comms = {seen.tid: seen.stat.comm for seen in members}
        program = comms.get(pid, members[0].stat.comm)
        main = Role("dpdk_main") if has_dpdk_main(tuple(comms.values())) else NO_ROLE
        wanted = []
        for seen in members:
            role = role_of(seen.stat.comm)
            if role == NO_ROLE and seen.tid == pid:
                role = main
            if not seen.stat.dead and (role != NO_ROLE or seen.polls()):
                wanted.append((seen, role))
        if not wanted:
            return []
        namespaces = {link_target(f"{self._proc}/{name}/ns/mnt") for name in ("self", pid)}
        container = None if "" in namespaces else len(namespaces) > 1
        has_vcpus = any(role.name == "qemu_vcpu" for _, role in wanted)
        vm = ""
        if has_vcpus:
            key = (pid, members[0].stat.start_ticks)
            if key not in self._vms:
                self._vms[key] = vm_name(Path(self._proc, str(pid)))
            vm = self._vms[key]
        return [
            ThreadRow(
                pid=pid,
                tid=seen.tid,
                start_ticks=seen.stat.start_ticks,
                comm=seen.stat.comm,
                program=program,
                role=role.name,
                role_index=role.index,
                allowed=(),
                last_cpu=seen.stat.last_cpu,
                run_ns=0,
                wait_ns=None,
                voluntary=0,
                involuntary=0,
                container=container,
                read_at_ns=0,
                vm=vm,
            )
            for seen, role in wanted
        ]
