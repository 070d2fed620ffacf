"""One VPP: its socket, its segment, the process that reads that, and what it told last."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from nftop.model.ids import Cpu
from nftop.model.nf.vpp import VppInstance
from nftop.model.owner import SOCKET_FILE
from nftop.model.reading import Missing, Reason
from nftop.sources.nf_session.discovery import Found
from nftop.sources.nf_session.poll_loop import Identity, Standing
from nftop.sources.trust import trust
from nftop.sources.trust.peer import Credentials
from nftop.sources.vpp import cache, compat, connection, liveness
from nftop.sources.vpp.cache import Last
from nftop.sources.vpp.connection import Link, LinkError, NobodyThereError
from nftop.sources.vpp.liveness import Life, Pulse, Signs, felt, why_still
from nftop.sources.vpp.protocol import Question, Told
from nftop.sources.vpp.reader import Reader, ReaderError, TooLargeError

_THREADS_NS = 5_000_000_000  # threads seldom move
_GIVE_UP_NS = 60_000_000_000
_BACKOFF_S = (1, 2, 4, 8, 16, 30)
_NS_PER_S = 1_000_000_000
_OPENING = Missing(Reason.WARMING, "its stats segment is being opened")
_STOPPED = Missing(Reason.STALE, "is stopped, by a signal or a debugger")


class Session:
    """One socket, and whoever is behind it.

    Attributes:
        found: the socket.
        standing: what the last attempt to connect showed.
        owner, spent_ns: as `Polled` has them.
    """

    def __init__(
        self,
        found: Found,
        proc: Path,
        clock: Callable[[], int],
        read_by: Callable[[int], Reader] = Reader,
    ) -> None:
        """`proc` is where procfs is; `read_by` starts the process that reads a descriptor."""
        self.found = found
        self.standing = Standing.APPLICATION
        self.owner = found.owner
        self.spent_ns = 0
        self._proc, self._clock, self._read_by = proc, clock, read_by
        self._link: Link | None = None
        self._handle: int | None = None
        self._reader: Reader | None = None
        self._spent_ns = 0
        self._pid = 0
        self._life: Life | None = None
        self._cpus: Mapping[int, Cpu] = {}
        self._cpus_at_ns: int | None = None
        self._last: Last | None = None
        self._pulse: Pulse | None = None
        self._problem: Missing | None = None
        self._probe_at_ns = 0
        self._failures = 0
        self._retry_at_ns = 0
        self._tick = self._asked_tick = self._heard_tick = 0
        self._asked_at_ns = 0

    @property
    def connected(self) -> bool:
        """It has a segment, or waits for one."""
        return self._link is not None or self._handle is not None

    @property
    def identity(self) -> Identity:
        """The process behind the socket; (0, 0) before the first connection."""
        return self._pid, 0 if self._life is None else self._life.start_ticks

    @property
    def helper_cpu_ns(self) -> int:
        """CPU time of the processes that have read for it, as far as they told."""
        return self._spent_ns + (0 if self._reader is None else self._reader.cpu_ns)

    @property
    def fd(self) -> int | None:
        """What is heard from next, if from anybody."""
        if self._link is not None:
            return self._link.fileno()
        return None if self._reader is None else self._reader.fileno()

    @property
    def pressing(self) -> bool:
        """It is worth waiting for: it was asked in this tick, and has not answered."""
        waiting = self._link is not None or (self._reader is not None and self._reader.waiting)
        return waiting and self._asked_tick == self._tick

    def begin(self, claimed: set[Identity]) -> None:
        """Start a tick: connect if need be, take what came late, ask.

        `claimed` holds the processes other sessions are connected to, and gets this one's.
        """
        self._tick += 1
        if self.connected and self._gone():
            self._leave(Standing.NOBODY)
        elif self._handle is not None and self._life is None and self._stands_still():
            self._probe()
        known = self.standing is Standing.DUPLICATE and self.identity in claimed
        if not self.connected and self._due() and not known:
            self._connect(claimed)
        self.hear()
        self._read()

    def hear(self) -> bool:
        """Take what has come, and ask what follows from it; False when there is nothing."""
        try:
            if self._link is not None:
                self._handle = self._link.hear()
                if self._handle is None:
                    return False
                self._link.close()
                self._link = None
                self._read()
            elif self._reader is not None and self._reader.waiting:
                told = self._reader.hear()
                if told is None:
                    return False
                self._take(told)
            else:
                return False
        except LinkError as error:
            self._drop(error.why)
        except ReaderError as error:
            if error.ended:
                self._count_off()
            self._fail(error.why)
        return True

    def instance(self) -> VppInstance | None:
        """What to show; None while nobody is there, or somebody we may not ask."""
        if self.standing is not Standing.APPLICATION or not self._tick:
            return None
        name = "vpp" if self._life is None else liveness.program(self._life)
        return cache.instance(
            self._last,
            identity=self.identity,
            name=name,
            socket=self.found.path,
            problem=self._why_old(),
            cpus=self._cpus,
            owner=self.owner,
        )

    def close(self) -> None:
        """Give everything back."""
        if self._link is not None:
            self._link.close()
        if self._reader is not None:
            self._reader.close()
            self._count_off()
        if self._handle is not None:
            os.close(self._handle)
        self._link = self._handle = None

    def _count_off(self) -> None:
        self._spent_ns, self._reader = self.helper_cpu_ns, None

    def _gone(self) -> bool:
        """Whether the process we know has ended, or is another's by now; look how it is else."""
        if not self._pid or self._life is None:
            return False
        try:
            now = liveness.look_up(self._pid, self._proc)
        except OSError:  # such as no descriptor left: it may run
            return False
        if now is None or now.start_ticks != self._life.start_ticks:
            return True
        self._life = now
        return False

    def _connect(self, claimed: set[Identity]) -> None:
        self.standing = Standing.APPLICATION
        try:
            opened = connection.connect(self.found.path)
        except NobodyThereError:
            self._leave(Standing.NOBODY)
        except PermissionError:
            self.standing = Standing.FORBIDDEN
            self._wait(_BACKOFF_S[-1])
        except LinkError as error:
            self._drop(error.why)
        else:
            self._adopt(opened, claimed)

    def _adopt(self, opened: Link, claimed: set[Identity]) -> None:
        before = self.identity
        self.owner = trust.of_socket(self.found.path, opened.peer.uid)
        if not self._is_read(opened.peer):
            opened.close()
            self._leave(Standing.UNTRUSTED)
            self._wait(_BACKOFF_S[-1])
            return
        same = trust.is_same_process(opened.peer.pid, opened.peer.uid, self._proc)
        self._pid, self._life = opened.peer.pid if same else 0, None
        with contextlib.suppress(OSError):  # it may not be seen
            self._life = liveness.look_up(self._pid, self._proc)
        if self.identity != before:
            self._forget()
        if self._pid and self.identity in claimed:
            opened.close()
            self.standing = Standing.DUPLICATE
            return
        claimed.add(self.identity)
        self._link = opened
        self._asked_tick, self._asked_at_ns = self._tick, self._clock()

    def _is_read(self, peer: Credentials) -> bool:
        """Whether the segment is read: its memory is the peer's, so only a privileged one's is."""
        return trust.is_trusted(peer.uid) and self.owner.reason != SOCKET_FILE

    def _read(self) -> None:
        """Ask for a reading, unless one is under way or it is too early after a failure."""
        handle, now_ns = self._handle, self._clock()
        if handle is None or (self._reader is not None and self._reader.waiting):
            if self._reader is not None and now_ns - self._asked_at_ns > _GIVE_UP_NS:
                self._reader.close()
                self._count_off()
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
        self._asked_tick, self._asked_at_ns = self._tick, now_ns

    def _take(self, told: Told) -> None:
        try:
            found = self._last = cache.after(self._last, told)
        except ValueError as error:
            self._fail(Missing(Reason.ERROR, f"its stats segment is not used: {error}"))
            return
        self._problem, self._failures, self._heard_tick = None, 0, self._tick
        now_ns = self._clock()
        ticks = 0 if self._life is None else self._life.cpu_ticks
        self._pulse = felt(self._pulse, Signs(told.heartbeat, found.counted, ticks), now_ns)
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
        return self._stands_still()

    def _stands_still(self) -> Missing | None:
        return None if self._pulse is None else why_still(self._pulse, self._clock())

    def _probe(self) -> None:
        """Where /proc does not show its process, ask now and then whether anybody listens."""
        now_ns = self._clock()
        if now_ns >= self._probe_at_ns:
            self._probe_at_ns = now_ns + _BACKOFF_S[-1] * _NS_PER_S
            self.close()

    def _late(self, what: str) -> Missing:
        seconds = (self._clock() - self._asked_at_ns) // _NS_PER_S
        return Missing(Reason.STALE, f"{what} for {seconds} s" if seconds else f"{what} in time")

    def _forget(self) -> None:
        """Nothing of one process may pass for another's."""
        self._last = self._pulse = self._problem = None
        self._cpus, self._cpus_at_ns = {}, None
        self._failures = 0

    def _leave(self, standing: Standing) -> None:
        self.close()
        self._pid, self._life = 0, None
        self._forget()
        self.standing, self._retry_at_ns = standing, 0

    def _drop(self, why: Missing) -> None:
        """End the connection, and try again later."""
        self.close()
        self._fail(why)

    def _fail(self, why: Missing) -> None:
        self._problem = why
        self._wait(_BACKOFF_S[min(self._failures, len(_BACKOFF_S) - 1)])
        self._failures += 1

    def _due(self) -> bool:
        return self._clock() >= self._retry_at_ns

    def _wait(self, seconds: int) -> None:
        self._retry_at_ns = self._clock() + seconds * _NS_PER_S
