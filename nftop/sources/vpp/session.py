"""One VPP: its socket, the state of its process, and its latest reading.

VPP sends the descriptor of its segment to each client that connects, when its main thread has time.
Closing before that makes it write to a closed connection, so a late descriptor is waited for over
several ticks.

A segment outlives its VPP and stays readable; only /proc and the heartbeat show that nothing
updates it.
"""

from __future__ import annotations

import array
import contextlib
import os
import re
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from nftop.model.clock import NS_PER_S
from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reason
from nftop.model.nf.vpp import VppInstance
from nftop.model.struct import dataclass, replace
from nftop.sources.nf_session import connection
from nftop.sources.nf_session.connection import LinkError, SocketLink
from nftop.sources.nf_session.discovery import UnixSocket
from nftop.sources.nf_session.session import GIVE_UP_NS, Identity, PeerStatus, SocketSession
from nftop.sources.process.scan import GONE
from nftop.sources.process.threads import ThreadFiles, parse_stat
from nftop.sources.trust import ownership
from nftop.sources.trust.peer import Credentials
from nftop.sources.vpp import reader
from nftop.sources.vpp.protocol import Question, VppReading

# Even an idle VPP wakes up a few times per second.
_NAME_LIMIT = 256
LIFELESS_NS = 30_000_000_000
# The operator sets how often VPP updates its segment, so the interval is measured.
_BEATS, _GRACE_NS = 3, 10_000_000_000


@dataclass(frozen=True, slots=True)
class Signs:
    """Values that change while a VPP runs.

    `counted` is the sum of its packets, `cpu_ticks` its CPU time; 0 if unknown.
    """

    heartbeat: int
    counted: int
    cpu_ticks: int


@dataclass(frozen=True, slots=True)
class Pulse:
    """When these values last changed."""

    seen: Signs  # the latest values
    lived_at_ns: int  # when any of them changed
    counted_at_ns: int  # heartbeat or counters
    beat_at_ns: int | None = None  # the heartbeat; None before its first change
    longest_ns: int | None = None  # between two heartbeats; None before the second


def felt(before: Pulse | None, now: Signs, at_ns: int) -> Pulse:
    """The pulse after one more observation."""
    if before is None:
        return Pulse(now, at_ns, at_ns)
    seen, longest_ns = before.seen, before.longest_ns
    beats = now.heartbeat != seen.heartbeat
    if beats and before.beat_at_ns is not None:
        longest_ns = max(longest_ns or 0, at_ns - before.beat_at_ns)
    return Pulse(
        seen=now,
        lived_at_ns=before.lived_at_ns if now == seen else at_ns,
        counted_at_ns=at_ns if beats or now.counted != seen.counted else before.counted_at_ns,
        beat_at_ns=at_ns if beats else before.beat_at_ns,
        longest_ns=longest_ns,
    )


def why_still(pulse: Pulse, at_ns: int) -> Missing | None:
    """Why its counters are stale; None if they are current."""
    if at_ns - pulse.lived_at_ns > LIFELESS_NS:
        return _still(pulse.lived_at_ns, at_ns, "and has used no CPU time")
    allowed_ns = None if pulse.longest_ns is None else _BEATS * pulse.longest_ns + _GRACE_NS
    if allowed_ns is not None and at_ns - pulse.counted_at_ns > allowed_ns:
        return _still(pulse.counted_at_ns, at_ns, "though it runs")
    return None


def _still(since_ns: int, at_ns: int, how: str) -> Missing:
    seconds = (at_ns - since_ns) // 1_000_000_000
    return Missing(Reason.STALE, f"has not updated its stats segment for {seconds} s, {how}")


# src/vlib/threads.c: `thread-prefix` in VPP's `cpu` section stands for `vpp`.
_MAIN = re.compile(r"(?:.*_)?main")
_WORKER = re.compile(r"(?:.*_)?wk_([0-9]{1,5})")


@dataclass(frozen=True, slots=True)
class Life:
    """State of a process."""

    start_ticks: int  # clock ticks from boot to its start; with its pid, its identity
    comm: str  # its name (untrusted text)
    cpu_ticks: int  # CPU time used
    stopped: bool  # by a signal or a debugger


def life_of(pid: int, proc: Path) -> Life | None:
    """State of a process by /proc; None if it has ended. OSError if /proc can't be read now."""
    try:
        data = (proc / str(pid) / "stat").read_bytes()
        fields = parse_stat(data)
    except (*GONE, ValueError):
        return None
    if fields.dead:
        return None
    state = data.rpartition(b") ")[2][:1]
    name = fields.comm[:_NAME_LIMIT]
    return Life(fields.start_ticks, name, fields.cpu_ticks, state in {b"T", b"t"})


def program(life: Life) -> str:
    """Name of the program: VPP calls its main thread, hence the process, `vpp_main`."""
    return life.comm.removesuffix("_main") or life.comm


def cpus(pid: int, proc: Path) -> Mapping[int, Cpu]:
    """The CPU of each thread bound to a single one, by VPP's index; 0 is the main thread."""
    cpu_of: dict[int, Cpu] = {}
    folder = proc / str(pid) / "task"
    try:
        tids = [entry.name for entry in folder.iterdir() if entry.name.isdecimal()]
    except OSError:
        return cpu_of
    for tid in tids:
        files = ThreadFiles(f"{folder}/{tid}", keep=False)
        try:
            index = _index(files.stat().comm, is_first=tid == str(pid))
            allowed = files.status().allowed if index is not None else ()
        except (*GONE, PermissionError, ValueError):
            continue
        if index is not None and len(allowed) == 1:
            cpu_of[index] = allowed[0]
    return cpu_of


def _index(comm: str, *, is_first: bool) -> int | None:
    """VPP's index of a thread by its name; None if it does not forward."""
    if is_first and _MAIN.fullmatch(comm):
        return 0
    hit = _WORKER.fullmatch(comm)
    return None if hit is None else int(hit[1]) + 1


_THREADS_NS = 5_000_000_000  # threads seldom move
_PROBE_NS = 30_000_000_000
_OPENING = Missing(Reason.WARMING, "its stats segment is being opened")
_STOPPED = Missing(Reason.STALE, "is stopped, by a signal or a debugger")
_HANDLE = array.array("i", [0])
_MOST_HANDLES = 4


class SegmentLink(SocketLink):
    """A connection before the segment has arrived."""

    def hear(self) -> int | None:
        """Descriptor of the segment, which the caller closes; None if it has not arrived yet.

        Raises LinkError: it will not arrive.
        """
        try:
            _, ancillary, _, _ = self._socket.recvmsg(
                16, socket.CMSG_SPACE(_MOST_HANDLES * _HANDLE.itemsize), socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return None
        except OSError as error:
            text = f"its stats segment can't be received: {error.strerror}"
            raise LinkError(Missing(Reason.ERROR, text)) from error
        handles = [handle for message in ancillary for handle in _handles(*message)]
        for extra in handles[1:]:
            os.close(extra)
        if not handles:
            text = "its stats segment was not handed out: the connection ended without it"
            raise LinkError(Missing(Reason.ERROR, text))
        return handles[0]


def connect(path: str) -> SegmentLink:
    """Connect; raises as `nf_session.connection.connect`. The segment is still to come."""
    return connection.connect(path, socket.SOCK_SEQPACKET, "stats", SegmentLink)


class VppSession(SocketSession[SegmentLink, VppInstance]):
    """One stats socket and the VPP behind it."""

    privileged_only = True  # its memory is mapped

    def __init__(
        self,
        stats_socket: UnixSocket,
        proc: Path,
        clock: Callable[[], int],
        read_by: Callable[[int], reader.SegmentReader] = reader.SegmentReader,
    ) -> None:
        """`read_by` starts the process that reads a descriptor."""
        super().__init__(stats_socket, proc, clock)
        self._read_by = read_by
        self._handle: int | None = None
        self._reader: reader.SegmentReader | None = None
        self._ended_cpu_ns = 0
        self._pid = 0
        self._life: Life | None = None
        self._cpus: Mapping[int, Cpu] = {}
        self._cpus_at_ns: int | None = None
        self._last = reader.NOTHING_READ
        self._pulse: Pulse | None = None
        self._probe_at_ns = 0

    @property
    def connected(self) -> bool:
        """Whether it has a segment, or waits for one."""
        return self._link is not None or self._handle is not None

    @property
    def identity(self) -> Identity:
        return self._pid, 0 if self._life is None else self._life.start_ticks

    @property
    def helper_cpu_ns(self) -> int:
        return self._ended_cpu_ns + (0 if self._reader is None else self._reader.cpu_ns)

    @property
    def fd(self) -> int | None:
        if self._link is not None:
            return self._link.fileno()
        return None if self._reader is None else self._reader.fileno()

    @property
    def pressing(self) -> bool:
        waiting = self._link is not None or (self._reader is not None and self._reader.waiting)
        return waiting and self._sent_tick == self._tick

    def hear(self) -> bool:
        try:
            if self._link is not None:
                self._handle = self._link.hear()
                if self._handle is None:
                    return False
                self._link.close()
                self._link = None
                self._read()
            elif self._reader is not None and self._reader.waiting:
                reading = self._reader.hear()
                if reading is None:
                    return False
                self._take(reading)
            else:
                return False
        except LinkError as error:
            self._drop(error.why)
        except reader.ReaderError as error:
            if error.ended:
                self._count_ended_reader()
            self._fail(error.why)
        return True

    def close(self) -> None:
        if self._link is not None:
            self._link.close()
        if self._reader is not None:
            self._reader.close()
            self._count_ended_reader()
        if self._handle is not None:
            os.close(self._handle)
        self._link = self._handle = None

    def _open(self) -> SegmentLink:
        return connect(self.socket.path)

    def _identify(self, credentials: Credentials | None) -> None:
        self._pid, self._life = 0, None
        if credentials is None:
            return
        if ownership.is_same_process(credentials.pid, credentials.uid, self._proc):
            self._pid = credentials.pid
        with contextlib.suppress(OSError):  # /proc may hide it
            self._life = life_of(self._pid, self._proc)

    def _forget(self) -> None:
        self._last, self._pulse = reader.NOTHING_READ, None
        self._cpus, self._cpus_at_ns = {}, None

    def _end_lost(self) -> None:
        if self.connected and self._gone():
            self._leave(PeerStatus.NOBODY)
        elif self._handle is not None and self._life is None and self._is_still():
            now_ns = self._clock()
            if now_ns >= self._probe_at_ns:  # /proc hides the process: connect to see if it listens
                self._probe_at_ns = now_ns + _PROBE_NS
                self.close()

    def _poll(self) -> None:
        self.hear()
        self._read()

    def _sample(self) -> VppInstance:
        pid, start_ticks = self.identity
        bound = (replace(row, cpu=self._cpus.get(row.index)) for row in self._last.threads)
        return replace(
            self._last,
            pid=pid,
            start_ticks=start_ticks,
            name="vpp" if self._life is None else program(self._life),
            socket=self.socket.shown_path,
            problem=self._why_old(),
            threads=tuple(bound),
            owner=self.owner,
        )

    def _count_ended_reader(self) -> None:
        self._ended_cpu_ns, self._reader = self.helper_cpu_ns, None

    def _gone(self) -> bool:
        """Whether the known process has ended, or its pid is reused; updates its state if not."""
        if not self._pid or self._life is None:
            return False
        try:
            now = life_of(self._pid, self._proc)
        except OSError:  # for example no free descriptor: it may run
            return False
        if now is None or now.start_ticks != self._life.start_ticks:
            return True
        self._life = now
        return False

    def _read(self) -> None:
        """Request a reading, unless one is under way or it is too early after a failure."""
        handle, now_ns = self._handle, self._clock()
        if handle is None or (self._reader is not None and self._reader.waiting):
            if self._reader is not None and now_ns - self._sent_at_ns > GIVE_UP_NS:
                self._reader.close()
                self._count_ended_reader()
                self._fail(Missing(Reason.ERROR, "the process that reads its segment hangs"))
            return
        if now_ns < self._retry_at_ns:
            return
        try:
            self._reader = self._reader or self._start_reader(handle)
        except reader.NotReadError as error:
            self._fail(error.why)
            return
        beat = None if self._last.nodes is None else self._last.heartbeat
        self._reader.ask(Question(sorted(os.sched_getaffinity(0)), beat))
        self._sent_tick, self._sent_at_ns = self._tick, now_ns

    def _start_reader(self, handle: int) -> reader.SegmentReader:
        """Raises NotReadError: vpp-papi is unfit, or no process can be started."""
        why = reader.unfit(reader.installed())
        if why is not None:
            raise reader.NotReadError(why)
        try:
            return self._read_by(handle)
        except OSError as error:
            text = f"the process that reads its segment can't be started: {error.strerror}"
            raise reader.NotReadError(Missing(Reason.ERROR, text)) from error

    def _take(self, reading: VppReading) -> None:
        try:
            last = self._last = reader.after(self._last, reading)
        except ValueError as error:
            self._fail(Missing(Reason.ERROR, f"its stats segment is not used: {error}"))
            return
        self._problem, self._failures, self._heard_tick = None, 0, self._tick
        now_ns = self._clock()
        ticks = 0 if self._life is None else self._life.cpu_ticks
        counted = int(last.interfaces.rx_packets.sum()) + int(last.interfaces.tx_packets.sum())
        self._pulse = felt(self._pulse, Signs(reading.heartbeat, counted, ticks), now_ns)
        if self._cpus_at_ns is None or now_ns - self._cpus_at_ns >= _THREADS_NS:
            self._cpus_at_ns = now_ns
            self._cpus = cpus(self._pid, self._proc) if self._pid else {}

    def _why_old(self) -> Missing | None:
        if self._life is not None and self._life.stopped:
            return _STOPPED
        if self._link is not None:
            return self._late("has not handed out its stats segment")
        if self._problem is not None:
            return self._problem
        if self._last is reader.NOTHING_READ:
            return _OPENING
        if self._heard_tick != self._tick:
            return self._late("the process that reads its stats segment has not answered")
        return self._is_still()

    def _is_still(self) -> Missing | None:
        return None if self._pulse is None else why_still(self._pulse, self._clock())

    def _late(self, what: str) -> Missing:
        seconds = (self._clock() - self._sent_at_ns) // NS_PER_S
        return Missing(Reason.STALE, f"{what} for {seconds} s" if seconds else f"{what} in time")


def _handles(level: int, kind: int, data: bytes) -> list[int]:
    if (level, kind) != (socket.SOL_SOCKET, socket.SCM_RIGHTS):
        return []
    handles = array.array("i")
    handles.frombytes(data[: len(data) - len(data) % handles.itemsize])
    return list(handles)
