"""Source `pqos`: classes through MSRs, on hosts whose kernel has no resctrl."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol

import msgspec

from nftop.model.check import Check
from nftop.model.missing import Missing, Reason
from nftop.model.number_text import counted
from nftop.model.rdt.rdt import ResctrlTable
from nftop.model.struct import replace
from nftop.model.topology import Topology
from nftop.sources.base import RETRY_AFTER_NS, missing_check
from nftop.sources.host.topology import read_topology
from nftop.sources.pqos.library import INSTALL, binding_version
from nftop.sources.pqos.protocol import MsrMetered, MsrReply, MsrRequest, MsrState, line, table_of
from nftop.sources.resctrl.files import Mount, cpu_flags, find_mount
from nftop.sources.runtime import helper
from nftop.sources.runtime.helper import Helper
from nftop.sources.runtime.readiness import wait_readable

# libpqos reads one CPU after another, and a CPU that polls with real-time priority is slow.
ANSWER_S = 10.0
_DECODER = msgspec.json.Decoder(MsrReply)
_LONGEST_LINE = 1 << 24
_MODULE = "nftop.sources.pqos.worker"


class Client:
    """One worker, started by the first request and after it ended; not thread-safe."""

    def __init__(self, *, answer_s: float = ANSWER_S) -> None:
        """`answer_s` limits the time of a reply."""
        self._answer_s = answer_s
        self._running: Helper | None = None

    def ask(
        self, quiet: Collection[int], *, read_classes: bool = True, meter: bool = False
    ) -> tuple[MsrState, tuple[MsrMetered, ...]] | Missing:
        """Its result, or why there is none; then the next request restarts the worker."""
        running = self._running = self._running or helper.start(_MODULE)
        with contextlib.suppress(OSError):  # it has exited: its last output has the reason
            running.channel.sendall(line(MsrRequest(sorted(quiet), read_classes, meter)))
        answer = _line(running.channel, self._answer_s)
        if answer is None:
            self._end(kill=True)
            late = f"libpqos did not answer within {self._answer_s:g} s"
            return Missing(Reason.ERROR, f"{late}; RMIDs that it had set may be left")
        result = _understood(answer)
        if isinstance(result, Missing):
            complaint = self._end(kill=False)
            return replace(result, detail=f"{result.message}{complaint}")
        return result

    def close(self) -> None:
        """End it; it removes its monitors first. Safe to call twice."""
        self._end(kill=False)

    def _end(self, *, kill: bool) -> str:
        """Its last complaint, or ""."""
        running, self._running = self._running, None
        if running is None:
            return ""
        return helper.end(running, kill=kill).complaint


def _understood(answer: bytes) -> tuple[MsrState, tuple[MsrMetered, ...]] | Missing:
    try:
        reply = _DECODER.decode(answer)
    except ValueError:
        reply = MsrReply()
    if reply.state is not None:
        return reply.state, reply.metered
    if reply.unusable:
        return Missing(Reason.SOURCE, reply.unusable)
    if reply.failed:
        return Missing(Reason.ERROR, f"libpqos: {reply.failed}")
    return Missing(Reason.ERROR, "the process that has libpqos ended without a reply")


def _line(channel: socket.socket, limit_s: float) -> bytes | None:
    """A line; b"" once the other end is closed, None if it is late."""
    deadline = time.monotonic() + limit_s
    heard = b""
    while not heard.endswith(b"\n") and len(heard) < _LONGEST_LINE:
        if not wait_readable([channel], deadline - time.monotonic()):
            return None
        try:
            more = channel.recv(1 << 16)
        except OSError:
            return b""
        if not more:
            return b""
        heard += more
    return heard


WAYS = ("auto", "off", "read", "monitor")
# Reading classes interrupts every CPU; only operators change them.
_CLASSES_EVERY_NS = 10_000_000_000
_METER_EVERY_NS = 750_000_000
_OFF = Missing(Reason.SOURCE, "classes are not read through MSRs (--pqos off)")
_RESCTRL = Missing(Reason.SOURCE, "this kernel has resctrl, which writes these MSRs itself")
_QUIET = Missing(
    Reason.SOURCE,
    "libpqos runs on every CPU for a moment when it starts, those of --quiet-cpus too: --pqos read "
    "has it do so",
)
_NOT_INSTALLED = Missing(
    Reason.SOURCE, f"PyPI's pqos reads them through MSRs and is not installed: {INSTALL}"
)


class Worker(Protocol):
    """Interface of `Client`."""

    def ask(
        self, quiet: Collection[int], *, read_classes: bool = True, meter: bool = False
    ) -> tuple[MsrState, tuple[MsrMetered, ...]] | Missing: ...

    def close(self) -> None: ...


def why_not(root: Path) -> Missing | None:
    """Why MSRs are not used on this host; None if they may be.

    The kernel writes these registers as soon as it has resctrl, mounted or not.
    """
    mount = find_mount(root)
    if isinstance(mount, Mount):
        return replace(_RESCTRL, detail=f"{_RESCTRL.message}: {mount.shown}")
    if mount.reason is not Reason.HARDWARE:
        return _RESCTRL
    return None if binding_version() is not None else _NOT_INSTALLED


def offered(root: Path) -> bool:
    """Whether only this source has classes: the CPU has them, the kernel has no resctrl."""
    mount = find_mount(root)
    return (
        isinstance(mount, Missing)
        and mount.reason is Reason.HARDWARE
        and bool({"rdt_a", "cqm"} & cpu_flags(root))
    )


class PqosSource:
    """Classes every ten seconds; with monitors, their values about once a second.

    libpqos is loaded in a process of its own. At its start it runs on every CPU for a moment.
    Reading the class of a CPU interrupts it once (not those of `quiet_cpus`); a monitor is read on
    a CPU that it meters.
    """

    name = "pqos"
    inline = False

    def __init__(
        self,
        root: Path,
        topology: Topology,
        *,
        way: str = "read",
        quiet_cpus: Collection[int] = (),
        worker: Callable[[], Worker] = Client,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`way`: one of `WAYS`; `monitor` writes RMIDs, `auto` reads unless a CPU is to be quiet.

        `worker` makes the client of the process.
        """
        self._root, self._topology, self._way = root, topology, way
        self._quiet = frozenset(quiet_cpus)
        self._new_worker, self._clock = worker, clock
        self._worker: Worker | None = None
        self._table: ResctrlTable | Missing | None = None
        self._next_classes_ns = self._next_ns = 0
        # Registers read, and written to select what is read; the kernel has each CPU read its own.
        self.counter_reads = self.counter_interrupts = 0

    @property
    def refused(self) -> Missing | None:
        """Why MSRs are not read on this host; None if they are."""
        if self._way == "off":
            return _OFF
        if self._way == "auto" and self._quiet:
            return _QUIET
        return why_not(self._root)

    def read(self) -> ResctrlTable | Missing:
        refused = self.refused
        if refused is not None:
            self.close()  # resctrl was mounted meanwhile: its RMIDs are the kernel's now
            return refused
        now_ns = self._clock()
        if self._table is None or now_ns >= self._next_ns:
            self._table = self._query(now_ns)
        return self._table

    def check(self) -> tuple[Check, ...]:
        value = self.read()
        if isinstance(value, Missing):
            fix = INSTALL if value is _NOT_INSTALLED else ""
            return missing_check(self.name, value, fix)
        writes = "monitors write RMIDs" if self._way == "monitor" else "nothing is written"
        text = (
            f"{counted(len(value.groups), 'class', 'classes')} through MSRs; libpqos runs on every "
            "CPU for a moment when it starts, each is interrupted for its class every "
            f"{_CLASSES_EVERY_NS / 1e9:g} s, and {writes}"
        )
        return (Check(self.name, Reason.PRESENT, text),)

    def close(self) -> None:
        """End the process, and with it the monitors."""
        worker, self._worker = self._worker, None
        self._table, self._next_classes_ns = None, 0
        if worker is not None:
            worker.close()

    def _query(self, now_ns: int) -> ResctrlTable | Missing:
        metering = self._way == "monitor"
        read_classes = now_ns >= self._next_classes_ns
        if read_classes:
            self._topology = self._known()
        if self._worker is None:
            self._worker = self._new_worker()
        result = self._worker.ask(self._quiet, read_classes=read_classes, meter=metering)
        if isinstance(result, Missing):
            self._next_classes_ns, self._next_ns = 0, now_ns + RETRY_AFTER_NS
            return result
        if read_classes:
            self._next_classes_ns = now_ns + _CLASSES_EVERY_NS
        self._next_ns = now_ns + _METER_EVERY_NS if metering else self._next_classes_ns
        state, metered = result
        self.counter_reads += _costs(state, metered, read_classes=read_classes)
        self.counter_interrupts = self.counter_reads
        return table_of(state, metered, self._topology, metering=metering)

    def _known(self) -> Topology:
        """The topology now; libpqos keeps the CPUs of its start, so a change restarts it."""
        now = read_topology(self._root)
        online, before = ({i.cpu for i in t.cpus if i.online} for t in (now, self._topology))
        if online != before and self._worker is not None:
            self._worker.close()
        return now


def _costs(state: MsrState, metered: tuple[MsrMetered, ...], *, read_classes: bool) -> int:
    """Registers read: a class for each CPU, masks and limits; two for each event."""
    rows = (*state.masks.values(), *state.codes.values(), *state.limits.values())
    seen = len(state.class_of) + sum(len(row) for row in rows) if read_classes else 0
    return seen + sum(2 * len(item.values) for item in metered)
