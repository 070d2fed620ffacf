"""A kernel to count with: what perf_event_open(2) documents, and trouble on demand."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from nftop.sources.perf.abi import Kernel, MappedPage, PerfEventAttr
from tests.sources.trees import ONLINE, PMUS, put

CYCLES, INSTRUCTIONS, REF_CYCLES = (0, 0), (0, 1), (0, 9)
TSC, CONTEXT_SWITCHES = (9, 0), (1, 3)
EVERYTHING = frozenset({CYCLES, INSTRUCTIONS, REF_CYCLES, TSC, CONTEXT_SWITCHES})

# Counts per ns of running time, each its own, so that a swapped column shows.
RATES = {CYCLES: 3, INSTRUCTIONS: 5, REF_CYCLES: 2, TSC: 7, CONTEXT_SWITCHES: 11}

STARTED_NS = 4  # what a group has counted when its first read comes at once

Event = tuple[int, int]


@dataclass
class Fd:
    cpu: int
    event: Event
    leader: int
    enabled: bool = False
    members: list[int] = field(default_factory=list)
    enabled_ns: int = 0
    ran_ns: int = 0
    frozen: bool = False


@dataclass
class FakeKernel:
    """Give it the folder that stands for `/`; then `kernel` is what a source takes."""

    root: Path
    cpus: int = 4
    known: frozenset[Event] = EVERYTHING
    refusal: int = errno.ENOENT
    fd_limit: int = 10_000
    # (cpu, events of the group so far, new event) -> errno or 0
    refuse: Callable[[int, tuple[Event, ...], Event], int] = lambda cpu, group, event: 0
    # (cpu, events of the group) -> share of the time the group runs
    share: Callable[[int, tuple[Event, ...]], float] = lambda cpu, group: 1.0
    # Events of which the kernel ignores config1; of all others it refuses bits that are not valid.
    without_register: frozenset[Event] = frozenset()
    eof: frozenset[int] = frozenset()
    read_errno: dict[int, int] = field(default_factory=dict)
    switch_errno: int = 0

    now_ns: int = 1_000
    fds: dict[int, Fd] = field(default_factory=dict)
    online: set[int] = field(default_factory=set)
    opens: int = 0
    reads: list[int] = field(default_factory=list)
    switches: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.online = set(range(self.cpus))
        msr = {"type": "9", "format/event": "config:0-63", "events/tsc": "event=0x00"}
        put(self.root / PMUS / "msr", msr)
        self.write_online()

    @property
    def kernel(self) -> Kernel:
        return Kernel(self._open, self._enable, self._disable, self._readv, self._close)

    def write_online(self) -> None:
        """Write the online file; without it, sysfs lags behind what opens find."""
        put(self.root, {ONLINE: ",".join(map(str, sorted(self.online)))})

    def running(self, cpu: int) -> list[int]:
        """The leaders of this CPU's groups that are switched on."""
        return [fd for fd, item in self.fds.items() if item.cpu == cpu and item.enabled]

    def take_offline(self, cpu: int) -> None:
        """The CPU's events leave their groups for good and stand still."""
        self.online.discard(cpu)
        for fd in self.fds.values():
            if fd.cpu == cpu and not fd.frozen:
                fd.members.clear()
                fd.frozen = True

    def pass_ns(self, duration_ns: int) -> None:
        self.now_ns += duration_ns
        for fd in self.fds.values():
            if fd.enabled and not fd.frozen:
                fd.enabled_ns += duration_ns
                group = tuple(self.fds[member].event for member in fd.members)
                fd.ran_ns += int(duration_ns * self.share(fd.cpu, group))

    def _open(self, attr: PerfEventAttr, cpu: int, group_fd: int) -> int:
        self.opens += 1
        event = (attr.type, attr.config)
        group = () if group_fd < 0 else self._events(group_fd)
        code = self._refusal(cpu, group, event)
        if not code and attr.config1 >> 63 and event not in self.without_register:
            code = errno.EINVAL
        if code:
            raise OSError(code, os.strerror(code))
        fd = next(number for number in count(100) if number not in self.fds)
        leader = fd if group_fd < 0 else group_fd
        self.fds[fd] = Fd(cpu, event, leader)
        self.fds[leader].members.append(fd)
        return fd

    def _refusal(self, cpu: int, group: tuple[Event, ...], event: Event) -> int:
        if len(self.fds) >= self.fd_limit:
            return errno.EMFILE
        if cpu not in self.online:
            return errno.ENODEV
        return self.refuse(cpu, group, event) if event in self.known else self.refusal

    def _events(self, leader: int) -> tuple[Event, ...]:
        return tuple(self.fds[member].event for member in self.fds[leader].members)

    def _enable(self, fd: int) -> None:
        state = self.fds[fd]
        self._switched(state)
        if state.frozen:
            return
        state.enabled = True
        if not state.enabled_ns:
            # A clock that has not moved by the first read would be no kernel's.
            state.enabled_ns = STARTED_NS
            state.ran_ns = int(STARTED_NS * self.share(state.cpu, self._events(fd)))

    def _disable(self, fd: int) -> None:
        self._switched(self.fds[fd])
        self.fds[fd].enabled = False

    def _switched(self, state: Fd) -> None:
        self.switches.append(state.cpu)
        if self.switch_errno:
            raise OSError(self.switch_errno, os.strerror(self.switch_errno))

    def _readv(self, fd: int, views: MappedPage) -> int:
        state = self.fds[fd]
        assert state.leader == fd, "only leaders are read"
        self.reads.append(state.cpu)
        if state.cpu in self.read_errno:
            code = self.read_errno[state.cpu]
            raise OSError(code, os.strerror(code))
        if state.cpu in self.eof:
            return 0
        members = state.members or [fd]
        values = [state.ran_ns * RATES[self.fds[member].event] for member in members]
        words = [len(members), state.enabled_ns, state.ran_ns, *values]
        data = struct.pack(f"={len(words)}Q", *words)
        (view,) = views
        if len(data) > view.nbytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        view.cast("B")[: len(data)] = data
        return len(data)

    def _close(self, fd: int) -> None:
        state = self.fds.pop(fd)
        leader = self.fds.get(state.leader)
        if leader and fd in leader.members:
            leader.members.remove(fd)
