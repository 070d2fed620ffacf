"""Source `pqos`: classes through MSRs, on hosts whose kernel has no resctrl."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Protocol

from nftop.model.rdt.rdt import ResctrlTable
from nftop.model.reading import Missing, Reason
from nftop.model.struct import replace
from nftop.model.topology import Topology
from nftop.sources.base import RETRY_AFTER_NS, Check
from nftop.sources.host.topology import read_topology
from nftop.sources.pqos.library import INSTALL, binding_version
from nftop.sources.pqos.protocol import MsrMetered, MsrState, line, metered_of, state_of, table_of
from nftop.sources.resctrl.files import Mount, find_mount, read_text
from nftop.sources.runtime import helper
from nftop.sources.runtime.helper import Helper
from nftop.sources.runtime.readiness import wait_readable

# libpqos asks every CPU in its turn, and a CPU that polls with real-time priority answers late.
ANSWER_S = 10.0
_LONGEST_LINE = 1 << 24
_MODULE = "nftop.sources.pqos.worker"


class Client:
    """One worker, started when it is first asked and after it ended; not safe for two threads."""

    def __init__(self, *, module: str = _MODULE, answer_s: float = ANSWER_S) -> None:
        """`module` is what runs there, `answer_s` how long an answer may take."""
        self._module, self._answer_s = module, answer_s
        self._running: Helper | None = None

    def ask(
        self, quiet: Collection[int], *, look: bool = True, meter: bool = False
    ) -> tuple[MsrState, tuple[MsrMetered, ...]] | Missing:
        """Its result, or why there is none; then the next request restarts the worker."""
        running = self._running = self._running or helper.start(self._module)
        with contextlib.suppress(OSError):  # it has exited: its last output has the reason
            running.channel.sendall(line({"quiet": sorted(quiet), "look": look, "meter": meter}))
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
        """End it; it takes its monitors away first. Safe to call twice."""
        self._end(kill=False)

    def _end(self, *, kill: bool) -> str:
        """Its last complaint, if any."""
        running, self._running = self._running, None
        if running is None:
            return ""
        return helper.end(running, kill=kill).complaint


def _understood(answer: bytes) -> tuple[MsrState, tuple[MsrMetered, ...]] | Missing:
    """An answer, or what it says is wrong."""
    try:
        raw = json.loads(answer)
        if "looked" in raw:
            return state_of(raw["looked"]), metered_of(raw["metered"])
        if "unusable" in raw:
            return Missing(Reason.SOURCE, str(raw["unusable"]))
        return Missing(Reason.ERROR, f"libpqos: {raw['failed']}")
    except (ValueError, KeyError, TypeError, AttributeError):
        return Missing(Reason.ERROR, "the process that has libpqos ended without a word")


def _line(channel: socket.socket, limit_s: float) -> bytes | None:
    """A line; b"" once the other end is gone, None if it is not there in time."""
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


_FLAGS_BYTES = 1 << 14  # the first CPU's part of /proc/cpuinfo
WAYS = ("auto", "off", "read", "monitor")
# Who is in which class costs every CPU an interrupt, and changes by an operator's hand only.
_LOOK_EVERY_NS = 10_000_000_000
_METER_EVERY_NS = 750_000_000
_OFF = Missing(Reason.SOURCE, "classes are not read through MSRs (--pqos off)")
_RESCTRL = Missing(
    Reason.SOURCE, "this kernel has resctrl, beside which MSRs are not to be touched"
)
_QUIET = Missing(
    Reason.SOURCE,
    "libpqos runs on every CPU for a moment when it starts, those of --quiet-cpus too: --pqos read "
    "has it do so",
)
_NOT_INSTALLED = Missing(
    Reason.SOURCE, f"PyPI's pqos reads them through MSRs and is not installed: {INSTALL}"
)


class Worker(Protocol):
    """What `client.Client` is to a source."""

    def ask(
        self, quiet: Collection[int], *, look: bool = True, meter: bool = False
    ) -> tuple[MsrState, tuple[MsrMetered, ...]] | Missing: ...

    def close(self) -> None: ...


def why_not(root: Path) -> Missing | None:
    """Why MSRs are left alone on this host; None where they may be used.

    The kernel writes these registers itself as soon as it has resctrl, mounted or not.
    """
    mount = find_mount(root)
    if isinstance(mount, Mount):
        return replace(_RESCTRL, detail=f"{_RESCTRL.message}: {mount.shown}")
    if mount.reason is not Reason.HARDWARE:
        return _RESCTRL
    return None if binding_version() is not None else _NOT_INSTALLED


def offered(root: Path) -> bool:
    """Whether this is what can tell of classes: the CPU has them, and the kernel no resctrl."""
    mount = find_mount(root)
    return isinstance(mount, Missing) and mount.reason is Reason.HARDWARE and _has_rdt(root)


def _has_rdt(root: Path) -> bool:
    """As /proc/cpuinfo has it, whatever the kernel does with it."""
    try:
        text = read_text(os.fspath(root / "proc/cpuinfo"), _FLAGS_BYTES)
    except OSError:
        return False
    line = next((item for item in text.splitlines() if item.startswith("flags")), "")
    return bool({"rdt_a", "cqm"} & set(line.split()))


class PqosSource:
    """Classes every ten seconds; with monitors, what they say about once a second.

    A process of its own has libpqos loaded. When it starts it runs on every CPU for a moment, to
    ask which that is. Reading who is in which class interrupts each CPU but `quiet_cpus` once; a
    monitor is read on a CPU that it meters.
    """

    def __init__(
        self,
        root: Path,
        topology: Topology,
        *,
        way: str = "read",
        quiet_cpus: Collection[int] = (),
        worker: Callable[[], Worker] | None = None,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`root` is where the host's files are.

        Args:
            root: of its /proc.
            topology: the caches and the CPUs beside them.
            way: one of `WAYS`; `monitor` writes RMIDs, `auto` reads unless a CPU is to be quiet.
            quiet_cpus: CPUs that are asked nothing.
            worker: makes the process that is asked; None: `client.Client`.
            clock: CLOCK_MONOTONIC nanoseconds.
        """
        self._root, self._topology, self._way = root, topology, way
        self._quiet = frozenset(quiet_cpus)
        self._new_worker, self._clock = worker or _client, clock
        self._worker: Worker | None = None
        self._table: ResctrlTable | Missing | None = None
        self._next_look_ns = self._next_ns = 0
        self._reads = 0

    @property
    def counter_reads(self) -> int:
        """Registers read, and written to select what is read, so far."""
        return self._reads

    @property
    def counter_interrupts(self) -> int:
        """How often a CPU was interrupted for that, at most: the kernel has each read its own."""
        return self._reads

    @property
    def name(self) -> str:
        return "pqos"

    @property
    def inline(self) -> bool:
        return False

    @property
    def refused(self) -> Missing | None:
        """Why MSRs are not touched on this host; None where they are."""
        if self._way == "off":
            return _OFF
        if self._way == "auto" and self._quiet:
            return _QUIET
        return why_not(self._root)

    def read(self) -> ResctrlTable | Missing:
        """Every class now."""
        refused = self.refused
        if refused is not None:
            self.close()  # resctrl was mounted meanwhile: its RMIDs are the kernel's now
            return refused
        now_ns = self._clock()
        if self._table is None or now_ns >= self._next_ns:
            self._table = self._query(now_ns)
        return self._table

    def check(self) -> tuple[Check, ...]:
        """Whether libpqos can be used, and what reading through it disturbs and writes."""
        value = self.read()
        if isinstance(value, Missing):
            fix = INSTALL if value is _NOT_INSTALLED else ""
            return (Check(self.name, value.reason, value.message, fix),)
        writes = "monitors write RMIDs" if self._way == "monitor" else "nothing is written"
        text = (
            f"{len(value.groups)} classes through MSRs; libpqos runs on every CPU for a moment "
            f"when it starts, each is interrupted for its class every {_LOOK_EVERY_NS / 1e9:g} s, "
            f"and {writes}"
        )
        return (Check(self.name, Reason.PRESENT, text),)

    def close(self) -> None:
        """End the process, and with it the monitors."""
        worker, self._worker = self._worker, None
        self._table, self._next_look_ns = None, 0
        if worker is not None:
            worker.close()

    def _query(self, now_ns: int) -> ResctrlTable | Missing:
        metering = self._way == "monitor"
        look = now_ns >= self._next_look_ns
        if look:
            self._topology = self._known()
        if self._worker is None:
            self._worker = self._new_worker()
        result = self._worker.ask(self._quiet, look=look, meter=metering)
        if isinstance(result, Missing):
            self._next_look_ns, self._next_ns = 0, now_ns + RETRY_AFTER_NS
            return result
        if look:
            self._next_look_ns = now_ns + _LOOK_EVERY_NS
        self._next_ns = now_ns + _METER_EVERY_NS if metering else self._next_look_ns
        state, metered = result
        self._reads += _costs(state, metered, look=look)
        return table_of(state, metered, self._topology, metering=metering)

    def _known(self) -> Topology:
        """The topology now; libpqos keeps the CPUs of its start, so a change restarts it."""
        now = read_topology(self._root)
        if _online(now) != _online(self._topology) and self._worker is not None:
            self._worker.close()
        return now


def _client() -> Worker:
    return Client()


def _costs(state: MsrState, metered: tuple[MsrMetered, ...], *, look: bool) -> int:
    """Registers that this took: a class of each CPU, masks and limits; two for each event."""
    rows = (*state.masks.values(), *state.codes.values(), *state.limits.values())
    seen = len(state.class_of) + sum(len(row) for row in rows) if look else 0
    return seen + sum(2 * len(item.values) for item in metered)


def _online(topology: Topology) -> frozenset[int]:
    return frozenset(info.cpu for info in topology.cpus if info.online)
