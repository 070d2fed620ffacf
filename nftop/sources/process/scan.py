"""One pass over /proc: the threads worth watching, their roles and virtual machines.

Plain file reads instead of psutil, which has no schedstat and no thread names, takes the path of
/proc from a global, and costs about ten times as much per thread. No file is read for which the
kernel locks the process, as it does for `cmdline` and `maps`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from itertools import pairwise, repeat
from pathlib import Path

from nftop.model.nf.kinds import NF_KINDS, NF_PATTERNS, POLLING_RATIO
from nftop.model.struct import dataclass, field
from nftop.sources.host.sysfs import read_up_to
from nftop.sources.process.threads import Stat, ThreadFiles

# As libvirt's virSystemdMakeScopeName escapes it: `machine-qemu\x2d3\x2dvm1.scope`.
# Names of virtual machines: systemd-machined and libvirt name the control group after the machine;
# otherwise QEMU's arguments have it (`-name vm1`, `-name guest=vm1,...`; qemu(1)).
_SCOPE = re.compile(r"/machine-qemu\\x2d\d+\\x2d([^/\n]+)\.scope")
_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")
_LIMIT_BYTES = 1 << 16
_MOST_LETTERS = 64


def vm_name(process: Path) -> str:
    """Name of the virtual machine of process /proc/PID (untrusted text); "" if unknown.

    Arguments are read where the group does not tell, since for that the kernel takes a lock of the
    process: ask once.
    """
    scope = _SCOPE.search(_text(process / "cgroup"))
    if scope is not None:
        plain = _ESCAPED.sub(lambda hit: chr(int(hit[1], 16)), scope[1])
        return plain[:_MOST_LETTERS]
    arguments = _text(process / "cmdline").split("\0")
    for option, value in pairwise(arguments):
        if option in ("-name", "--name"):
            return _of_option(value)[:_MOST_LETTERS]
    return ""


def _of_option(value: str) -> str:
    """`vm1`, `vm1,debug-threads=on`, `guest=vm1,...`; a comma of the name's own is doubled."""
    fields = value.replace(",,", "\0").split(",")
    named = next((field for field in fields if field.startswith("guest=")), fields[0])
    return named.removeprefix("guest=").replace("\0", ",")


def _text(path: Path) -> str:
    try:
        return read_up_to(str(path), _LIMIT_BYTES).decode("utf-8", "replace")
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


def role_of(comm: str) -> Role:
    """The role of a thread by its name; `NO_ROLE` if it has none."""
    for name, pattern in NF_PATTERNS.items():
        if hit := pattern.fullmatch(comm):
            return Role(name, int(hit[1]) if hit.groups() else None)
    hit = _QEMU_VCPU.fullmatch(comm)
    return NO_ROLE if hit is None else Role("qemu_vcpu", int(hit[1]))


def has_dpdk_main(comms: Sequence[str]) -> bool:
    """Whether a process with threads of these names is an application with a DPDK main lcore."""
    roles = {role_of(comm).name for comm in comms}
    # Another framework owns the main thread, and EAL's main lcore forwards nothing.
    if any(NF_KINDS.get(role, "dpdk") != "dpdk" for role in roles):
        return False
    return "dpdk_lcore" in roles or any(map(_EAL_SERVICE.fullmatch, comms))


def is_nf(comms: Sequence[str]) -> bool:
    """Whether a process with threads of these names is a network function in user space."""
    known = any(role_of(comm).name in NF_KINDS for comm in comms)
    return known or has_dpdk_main(comms) or not _NFS_WITHOUT_POLLERS.isdisjoint(comms)


def settle_index(role: Role, comm: str, allowed: Sequence[int]) -> Role:
    """The role without its index where the kernel may have cut the last digit off.

    `lcore-worker-10` fills the name, so it is lcore 10 as well as any of 100 to 109. EAL numbers
    lcores after CPUs unless told otherwise: a thread that may run on a CPU such as 104 only can't
    be taken for lcore 10, nor with certainty for 104.
    """
    cut = len(comm.encode()) == _COMM_LIMIT and comm[-1:].isdigit()
    if not cut or role.index is None or len(allowed) != 1:
        return role
    cpu = str(allowed[0])
    uncertain = cpu.startswith(str(role.index)) and cpu != str(role.index)
    return Role(role.name) if uncertain else role


GONE = (FileNotFoundError, ProcessLookupError)
# A thread that may move is watched when it hardly ever sleeps, so that an NF somebody forgot to
# pin is seen too.
UNPINNED_POLLER_RATIO = 0.9


@dataclass(frozen=True, slots=True)
class ThreadCandidate:
    """A thread worth watching; the fields as in `model.sample.ThreadRow`."""

    pid: int
    tid: int
    start_ticks: int
    comm: str
    program: str
    role: Role
    container: bool | None
    vm: str = ""

    @property
    def identity(self) -> tuple[int, int]:
        """A recycled tid is another thread."""
        return self.tid, self.start_ticks


@dataclass(frozen=True, slots=True)
class ScanResult:
    """What a pass found.

    Attributes:
        hidden: processes that may not be looked into; at least that many, because with
            hidepid=2 the kernel does not even list them.
    """

    threads: tuple[ThreadCandidate, ...]
    processes: int
    hidden: int


@dataclass(frozen=True, slots=True)
class _Usage:
    """What a thread had used when it was looked at."""

    at_ns: int
    run_ns: int
    wait_ns: int


@dataclass(frozen=True, slots=True)
class _Seen:
    """A thread as one pass sees it. The ratios are since the last pass, None at the first."""

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
        return len(self.files.status().allowed) == 1


@dataclass(slots=True)
class _Pass:
    """A pass under way; `hidden` and `processes` as in `ScanResult`."""

    usage: dict[tuple[int, int], _Usage] = field(default_factory=dict)
    threads: list[ThreadCandidate] = field(default_factory=list)
    processes: int = 0
    hidden: int = 0


_COMM_BYTES = 64
NS_PER_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")


def process_names(proc: str) -> list[tuple[int, str]]:
    """Every process by pid with its name, untrusted text; OSError when `proc` can't be listed."""
    with os.scandir(proc) as entries:
        pids = sorted(int(entry.name) for entry in entries if entry.name.isdecimal())
    names = []
    for pid in pids:
        try:
            comm = read_up_to(f"{proc}/{pid}/comm", _COMM_BYTES)
        except OSError:
            continue  # it has ended, or is hidden
        names.append((pid, comm.decode("utf-8", "replace").removesuffix("\n")))
    return names


class Scanner:
    """Passes over /proc, each comparing with the one before."""

    def __init__(self, proc: str, clock: Callable[[], int]) -> None:
        """`proc` is where procfs is mounted, `clock` gives CLOCK_MONOTONIC nanoseconds."""
        self._proc = proc
        self._clock = clock
        self._kernel: set[int] = set()
        self._usage: Mapping[tuple[int, int], _Usage] = {}
        self._vms: dict[tuple[int, int], str] = {}  # by process and its start
        self._pass = _Pass()
        self._steps: Generator[None, None, ScanResult] | None = None

    @property
    def known_threads(self) -> int:
        """Threads outside the kernel that the last whole pass examined."""
        return len(self._usage)

    def scan(self, most_threads: int | None = None) -> ScanResult | None:
        """Examine all processes, up to `most_threads` threads in this call.

        Returns None while the pass is incomplete; the next call continues it.

        Raises:
            OSError: /proc can't be listed.
        """
        if self._steps is None:
            self._steps = self._look()
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

    def _look(self) -> Generator[None, None, ScanResult]:
        """One pass; yields before each thread it reads."""
        with os.scandir(self._proc) as entries:
            pids = sorted(int(entry.name) for entry in entries if entry.name.isdecimal())
        # Kernel threads stay kernel threads while they are listed; on a large host they are ten
        # thousand, and looking at each again would be most of a pass.
        self._kernel.intersection_update(pids)
        own = self._own_pid()
        self._pass = _Pass(hidden=0 if 1 in pids else 1)
        for pid in pids:
            if pid not in self._kernel and pid != own:
                yield from self._look_at(pid)
        self._usage = self._pass.usage
        here = {thread.pid for thread in self._pass.threads}
        self._vms = {key: name for key, name in self._vms.items() if key[0] in here}
        return ScanResult(tuple(self._pass.threads), self._pass.processes, self._pass.hidden)

    def _own_pid(self) -> int | None:
        try:
            return int(Path(self._proc, "self").readlink().name)
        except (OSError, ValueError):
            return None

    def _look_at(self, pid: int) -> Iterator[None]:
        try:
            members = yield from self._members(pid)
            if members:
                self._pass.processes += 1
                self._pass.threads += self._candidates(pid, members)
        except GONE:
            return
        except PermissionError:
            self._pass.hidden += 1

    def _members(self, pid: int) -> Generator[None, None, list[_Seen]]:
        with os.scandir(f"{self._proc}/{pid}/task") as entries:
            tids = sorted(int(entry.name) for entry in entries if entry.name.isdecimal())
        members = []
        for tid in tids:
            yield
            try:
                seen = self._see(pid, tid)
            except (*GONE, ValueError):
                continue
            if seen.stat.kernel:
                self._kernel.add(pid)
                return []
            members.append(seen)
        return members

    def _see(self, pid: int, tid: int) -> _Seen:
        files = ThreadFiles(f"{self._proc}/{pid}/task/{tid}", keep=False)
        stat = files.stat()
        sched = None if stat.kernel else files.schedstat()
        now = _Usage(
            self._clock(),
            # Clock ticks are coarse, but over a pass they tell a poller from a sleeper.
            stat.cpu_ticks * NS_PER_TICK if sched is None else sched.run_ns,
            0 if sched is None else sched.wait_ns,
        )
        identity = tid, stat.start_ticks
        self._pass.usage[identity] = now
        before = self._usage.get(identity)
        if before is None or now.at_ns <= before.at_ns:
            return _Seen(tid, stat, files, None, None)
        elapsed_ns = now.at_ns - before.at_ns
        return _Seen(
            tid,
            stat,
            files,
            (now.run_ns - before.run_ns) / elapsed_ns,
            (now.wait_ns - before.wait_ns) / elapsed_ns,
        )

    def _candidates(self, pid: int, members: Sequence[_Seen]) -> list[ThreadCandidate]:
        comms = {seen.tid: seen.stat.comm for seen in members}
        program = comms.get(pid, members[0].stat.comm)
        main = Role("dpdk_main") if has_dpdk_main(tuple(comms.values())) else NO_ROLE
        wanted = []
        for seen in members:
            role = role_of(seen.stat.comm)
            if role == NO_ROLE and seen.tid == pid:
                role = main
            if not seen.stat.dead and (role != NO_ROLE or _polls(seen)):
                wanted.append((seen, role))
        container = self._in_container(pid) if wanted else None
        has_vcpus = any(role.name == "qemu_vcpu" for _, role in wanted)
        vm = self._vm(pid, members[0].stat.start_ticks) if has_vcpus else ""
        return [
            ThreadCandidate(
                pid, s.tid, s.stat.start_ticks, s.stat.comm, program, role, container, vm
            )
            for s, role in wanted
        ]

    def _vm(self, pid: int, start_ticks: int) -> str:
        if (pid, start_ticks) not in self._vms:
            self._vms[pid, start_ticks] = vm_name(Path(self._proc, str(pid)))
        return self._vms[pid, start_ticks]

    def _in_container(self, pid: int) -> bool | None:
        try:
            ours = Path(self._proc, "self/ns/mnt").readlink()
            return Path(self._proc, str(pid), "ns/mnt").readlink() != ours
        except OSError:
            return None


def _polls(seen: _Seen) -> bool:
    try:
        return seen.polls()
    except (*GONE, ValueError):
        return False
