"""One VPP: its socket, its segment, the process that reads the segment, and its latest reading.

VPP sends the descriptor of its segment to each client that connects. Its main thread does so when
it has time; closing before that would make it write to a closed connection, so a late descriptor is
waited for over several ticks.
"""

from __future__ import annotations

import array
import contextlib
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

from nftop.model.ids import Cpu
from nftop.model.nf.vpp import VppInstance
from nftop.model.reading import Missing, Reason
from nftop.sources.nf_session import connection
from nftop.sources.nf_session.connection import LinkError, SocketLink
from nftop.sources.nf_session.discovery import UnixSocket
from nftop.sources.nf_session.poll_loop import Identity, PeerStanding
from nftop.sources.nf_session.session import GIVE_UP_NS, NS_PER_S, SocketSession
from nftop.sources.trust import trust
from nftop.sources.trust.peer import Credentials
from nftop.sources.vpp import cache, compat, liveness
from nftop.sources.vpp.cache import Last
from nftop.sources.vpp.liveness import Life, Pulse, Signs, felt, why_still
from nftop.sources.vpp.protocol import Question, VppReading
from nftop.sources.vpp.reader import ReaderError, SegmentReader, TooLargeError

_THREADS_NS = 5_000_000_000  # threads seldom move
_PROBE_NS = 30_000_000_000
_OPENING = Missing(Reason.WARMING, "its stats segment is being opened")
_STOPPED = Missing(Reason.STALE, "is stopped, by a signal or a debugger")
_HANDLE = array.array("i", [0])
_MOST_HANDLES = 4


class SegmentLink(SocketLink):
    """A connection whose segment has not arrived yet."""

    def hear(self) -> int | None:
        """Descriptor of the segment, which the caller closes; None while it has not arrived.

        Raises:
            LinkError: it will not arrive.
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
        read_by: Callable[[int], SegmentReader] = SegmentReader,
    ) -> None:
        """Set up. `read_by` starts the process that reads a descriptor."""
        super().__init__(stats_socket, proc, clock)
        self._read_by = read_by
        self._handle: int | None = None
        self._reader: SegmentReader | None = None
        self._ended_cpu_ns = 0
        self._pid = 0
        self._life: Life | None = None
        self._cpus: Mapping[int, Cpu] = {}
        self._cpus_at_ns: int | None = None
        self._last: Last | None = None
        self._pulse: Pulse | None = None
        self._probe_at_ns = 0

    @property
    def connected(self) -> bool:
        """It has a segment, or waits for one."""
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
        except ReaderError as error:
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
        if trust.is_same_process(credentials.pid, credentials.uid, self._proc):
            self._pid = credentials.pid
        with contextlib.suppress(OSError):  # /proc may hide it
            self._life = liveness.look_up(self._pid, self._proc)

    def _forget(self) -> None:
        self._last = self._pulse = None
        self._cpus, self._cpus_at_ns = {}, None

    def _end_lost(self) -> None:
        if self.connected and self._gone():
            self._leave(PeerStanding.NOBODY)
        elif self._handle is not None and self._life is None and self._is_still():
            self._probe()

    def _poll(self) -> None:
        self.hear()
        self._read()

    def _sample(self) -> VppInstance:
        return cache.instance(
            self._last,
            identity=self.identity,
            name="vpp" if self._life is None else liveness.program(self._life),
            socket=self.socket.path,
            problem=self._why_old(),
            cpus=self._cpus,
            owner=self.owner,
        )

    def _count_ended_reader(self) -> None:
        self._ended_cpu_ns, self._reader = self.helper_cpu_ns, None

    def _gone(self) -> bool:
        """Whether the known process has ended, or its pid is reused; updates its state if not."""
        if not self._pid or self._life is None:
            return False
        try:
            now = liveness.look_up(self._pid, self._proc)
        except OSError:  # such as no free descriptor: it may run
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
        if not self._due():
            return
        if self._reader is None:
            unfit = compat.unfit(compat.installed())
            if unfit is not None:
                self._fail(unfit)
                return
            try:
                self._reader = self._read_by(handle)
            except TooLargeError as error:
                self._fail(error.why)
                return
            except OSError as error:
                why = f"the process that reads its segment can't be started: {error.strerror}"
                self._fail(Missing(Reason.ERROR, why))
                return
        beat = None if self._last is None else self._last.nodes_beat
        self._reader.ask(Question(sorted(os.sched_getaffinity(0)), beat))
        self._sent_tick, self._sent_at_ns = self._tick, now_ns

    def _take(self, reading: VppReading) -> None:
        try:
            last = self._last = cache.after(self._last, reading)
        except ValueError as error:
            self._fail(Missing(Reason.ERROR, f"its stats segment is not used: {error}"))
            return
        self._problem, self._failures, self._heard_tick = None, 0, self._tick
        now_ns = self._clock()
        ticks = 0 if self._life is None else self._life.cpu_ticks
        self._pulse = felt(self._pulse, Signs(reading.heartbeat, last.counted, ticks), now_ns)
        if self._cpus_at_ns is None or now_ns - self._cpus_at_ns >= _THREADS_NS:
            self._cpus_at_ns = now_ns
            self._cpus = liveness.cpus(self._pid, self._proc) if self._pid else {}

    def _why_old(self) -> Missing | None:
        if self._life is not None and self._life.stopped:
            return _STOPPED
        if self._link is not None:
            return self._late("has not handed out its stats segment")
        if self._problem is not None:
            return self._problem
        if self._last is None:
            return _OPENING
        if self._heard_tick != self._tick:
            return self._late("the process that reads its stats segment has not answered")
        return self._is_still()

    def _is_still(self) -> Missing | None:
        return None if self._pulse is None else why_still(self._pulse, self._clock())

    def _probe(self) -> None:
        """Connect again now and then where /proc hides the process, to see whether it listens."""
        now_ns = self._clock()
        if now_ns >= self._probe_at_ns:
            self._probe_at_ns = now_ns + _PROBE_NS
            self.close()

    def _late(self, what: str) -> Missing:
        seconds = (self._clock() - self._sent_at_ns) // NS_PER_S
        return Missing(Reason.STALE, f"{what} for {seconds} s" if seconds else f"{what} in time")


def _handles(level: int, kind: int, data: bytes) -> list[int]:
    if (level, kind) != (socket.SOL_SOCKET, socket.SCM_RIGHTS):
        return []
    handles = array.array("i")
    handles.frombytes(data[: len(data) - len(data) % handles.itemsize])
    return list(handles)
