"""Source `pcm`, live: the last second of a pcm-sensor-server, and the topology of its host."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from nftop.model.check import Check
from nftop.model.ids import Core, Cpu, Package
from nftop.model.missing import Missing, Reason
from nftop.model.number_text import counted
from nftop.model.owner import UNKNOWN, Owner, suffix
from nftop.model.pcm import ANOTHERS, REQUEST_INTERVAL_S, PcmTable, rows_of
from nftop.model.struct import dataclass, replace
from nftop.model.topology import CpuInfo, Topology
from nftop.sources.base import missing_check
from nftop.sources.host.sysfs import SysTree
from nftop.sources.host.topology import read_topology
from nftop.sources.pcm.client import get
from nftop.sources.pcm.document import BadDocumentError, parse_json, parse_text, table_of
from nftop.sources.resctrl.files import GUEST, cpu_flags
from nftop.sources.runtime.http_client import Address, HttpAnswer, NoAnswerError
from nftop.sources.trust import ownership, peer

HOLDS_RDT = (
    "the server uses RDT monitors of its own, so that fewer are left for cache classes; "
    "PCM_NO_RDT=1 in its environment disables that"
)
_COUNTERS = (
    "it programs the counters of cores and of the uncore, so nftop's own are judged by their "
    "time on the hardware"
)
_OPEN = (
    "it is read over the network, unencrypted and without a password: better through "
    "ssh -L 9738:127.0.0.1:9738 and --pcm http://127.0.0.1:9738"
)
_NOT_HERE = (
    "no pcm-sensor-server runs on this host that nftop can see: if a tunnel ends here, these are "
    "another host's numbers (use nftop --pcm for those)"
)
# The kernel keeps 15 characters of a process' name.
_SERVER = "pcm-sensor-serv"


def pcm_processes(root: Path) -> tuple[tuple[int, str], ...]:
    """Running programs of Intel PCM: pid and name."""
    tree = SysTree(root / "proc")
    pids = sorted(int(name) for name in tree.names("") if name.isdecimal())
    names = ((pid, tree.text(f"{pid}/comm") or "") for pid in pids)
    return tuple((pid, name) for pid, name in names if name == "pcm" or name.startswith("pcm-"))


def notes(address: Address, root: Path | None) -> tuple[str, ...]:
    """What an operator should know of this server."""
    if root is None:
        return () if address.here else (_OPEN,)
    return () if any(name == _SERVER for _, name in pcm_processes(root)) else (_NOT_HERE,)


_START = "sudo env PCM_NO_RDT=1 pcm-sensor-server"


def report(
    address: Address, root: Path | None, value: PcmTable | Missing, owner: Owner | None = None
) -> tuple[Check, ...]:
    """Doctor's lines."""
    if isinstance(value, Missing):
        # A guest has none of the registers that the server reads.
        is_guest = root is not None and GUEST in cpu_flags(root)
        fix = _START if value.reason is Reason.SOURCE and not is_guest else ""
        lines = [Check("pcm", value.reason, value.message, fix)]
    else:
        form = "totals since its start" if value.since_start else "its last second"
        text = (
            f"{address.shown}{suffix(owner)} reports {form} of "
            f"{counted(len(value.sockets), 'package')}, {counted(len(value.cpus), 'CPU')}, "
            f"{counted(len(value.links), 'link')}"
        )
        lines = [Check("pcm", Reason.PRESENT, text)]
        if root is not None and rows_of(value, read_topology(root))[0] is None:
            lines = [Check("pcm", ANOTHERS.reason, f"{text}; {ANOTHERS.message}")]
        for note in value.notes:
            reason, fix = Reason.SOURCE, ""
            if note == HOLDS_RDT:
                reason, fix = Reason.TAKEN, _START
            lines.append(Check("pcm", reason, note, fix))
    if root is not None:
        lines += [
            Check("pcm counters", Reason.TAKEN, f"{name} (pid {pid}) runs here: {_COUNTERS}")
            for pid, name in pcm_processes(root)
        ]
    return tuple(lines)


LIMIT_S = 3.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 8.0
# A refusal may have been by a proxy or a server that was starting.
_FIRST_WAY_AGAIN_S = 60.0
_JSON, _TEXT = "application/json", "text/plain; version=0.0.4"
_OK, _REFUSED = 200, range(400, 500)
# Absent values are NaN; some builds have only one of them.
_RDT_FIELDS = ("l3_cache_occupancy", "local_memory_bandwidth", "remote_memory_bandwidth")


@dataclass(frozen=True, slots=True)
class _Way:
    path: str
    accept: str
    since_start: bool


# The server's own samples come first: for `/` and `/metrics` it reads every core anew, polling ones
# included.
_WAYS = (
    _Way("/persecond/1", _JSON, since_start=False),
    _Way("/persecond/1", _TEXT, since_start=False),
    _Way("/", _JSON, since_start=True),
    _Way("/metrics", _TEXT, since_start=True),
)


class PcmSource:
    """One request per tick at most, and fewer to a server that fails.

    Attributes:
        address: of the server.
        latest: the last table that was read; None before the first.
        owner: of this host's own server; None of another host's, and if nothing listens.
    """

    name = "pcm"
    inline = False

    def __init__(
        self,
        address: Address,
        *,
        root: Path | None = None,
        limit_s: float = LIMIT_S,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """No request before `read`; `limit_s` seconds for a reading.

        `root` is that of the host whose own server it should be; None for another host's.
        """
        self.address = address
        self.latest: PcmTable | None = None
        self._root = root
        self._limit_s = limit_s
        self._clock = clock
        self.owner: Owner | None = None
        self._way = 0
        self._first_way_ns = 0
        self._notes: tuple[str, ...] | None = None
        self._pause_s = 0.0
        self._not_before_ns = 0
        self._now: PcmTable | Missing = Missing(Reason.WARMING)

    def read(self) -> PcmTable | Missing:
        """The server's last second, read now or less than a second ago; or why there is none.

        After a failure there is no request for a while, and the reason stays.
        """
        if self._clock() < self._not_before_ns:
            return self._now
        self.owner = None
        try:
            table = self._ask(time.monotonic_ns() + int(self._limit_s * 1e9))
        except NoAnswerError as error:
            return self._failed(error.why)
        except BadDocumentError as error:
            shown = self.address.shown
            return self._failed(Missing(Reason.ERROR, f"{shown} can't be understood: {error}"))
        self._pause_s = 0.0
        self._not_before_ns = self._clock() + int(REQUEST_INTERVAL_S * 1e9)
        if self._notes is None:
            self._notes = notes(self.address, self._root)
        rdt = any(np.any(table.of_cpu(field) > 0) for field in _RDT_FIELDS)
        own = [HOLDS_RDT] if rdt and self._root is not None else []
        self._now = self.latest = replace(table, notes=(*self._notes, *own))
        return self._now

    def check(self) -> tuple[Check, ...]:
        """The server's values, and the counters that it occupies."""
        value = self.read()
        return report(self.address, self._root, value, self.owner)

    def close(self) -> None:
        """Nothing is held between readings."""

    def _ask(self, until_ns: int) -> PcmTable:
        """The first form that the server accepts, starting with the last accepted one.

        Once a minute starting with the very first, which costs the server the least.
        """
        refused, now_ns = "", self._clock()
        admit = partial(self._admit, until_ns=until_ns)
        anew = now_ns >= self._first_way_ns
        for index in range(0 if anew else self._way, len(_WAYS)):
            way = _WAYS[index]
            answer = get(self.address, way.path, way.accept, until_ns, admit)
            if answer.status in _REFUSED:
                refused = f"it refuses {way.path} with HTTP {answer.status}"
                continue
            table = self._table(answer, way)
            self._way = index
            if anew:
                self._first_way_ns = now_ns + int(_FIRST_WAY_AGAIN_S * 1e9)
            return table
        self._way = 0
        raise BadDocumentError(refused)

    def _table(self, answer: HttpAnswer, way: _Way) -> PcmTable:
        if answer.status != _OK:
            raise BadDocumentError(f"it answers with HTTP {answer.status}")
        if answer.kind.startswith("application/json"):
            document = parse_json(answer.body)
        elif answer.kind.startswith("text/plain"):
            document = parse_text(answer.body)
        else:
            raise BadDocumentError("it is no pcm-sensor-server")
        return table_of(document, since_start=way.since_start)

    def _admit(self, connected: socket.socket, until_ns: int) -> None:
        """Refuse this host's own server unless it belongs to root or nftop's user.

        Its numbers are shown as the host's. The address of another host's server is trusted. Raises
        NoAnswerError: it belongs to another user, or its owner is unknown; TimeoutError: the server
        does not accept the connection.
        """
        if self._root is None:
            return
        self.owner = ownership.of_process(peer.accepted_uid(connected, until_ns))
        if self.owner.privileged:
            return
        if self.owner.reason == UNKNOWN:
            fault = "has no owner that the kernel reports"
        else:
            fault = f"belongs to user {self.owner.user}, neither root nor the user who runs nftop"
        sentence = f"the server at {self.address.shown} {fault}: its numbers are not used"
        raise NoAnswerError(Missing(Reason.PERMISSION, sentence))

    def _failed(self, why: Missing) -> Missing:
        """The reason; the pause before the next request doubles with each failure."""
        self._pause_s = min(max(2 * self._pause_s, _FIRST_PAUSE_S), _LONGEST_PAUSE_S)
        self._not_before_ns = self._clock() + int(self._pause_s * 1e9)
        self._now = why
        self._way, self._notes = 0, None  # what comes back may be another one
        return why


_NOTE = "the server reports no dies, caches or NUMA nodes"


def topology_of(table: PcmTable) -> Topology:
    """CPUs, cores and packages, all online; last-level caches are unknown."""
    locations = list(zip(table.packages.tolist(), table.cores.tolist(), strict=True))
    cores = {position: Core(index) for index, position in enumerate(sorted(set(locations)))}
    threads: dict[tuple[int, int], list[Cpu]] = {}
    for cpu, position in zip(table.cpus.tolist(), locations, strict=True):
        threads.setdefault(position, []).append(Cpu(cpu))
    return Topology(
        tuple(
            CpuInfo(
                cpu=Cpu(cpu),
                online=True,
                core=cores[position],
                package=Package(position[0]),
                die=None,
                l3=None,
                node=None,
                siblings=tuple(thread for thread in threads[position] if thread != cpu),
            )
            for cpu, position in zip(table.cpus.tolist(), locations, strict=True)
        )
    )


class PcmTopologySource:
    """Source `topology` of a remote host, from its sensor server."""

    name = "topology"
    inline = True

    def __init__(self, server: PcmSource) -> None:
        self._server = server
        self._seen: PcmTable | None = None
        self._topology: Topology | None = None

    def read(self) -> Topology | Missing:
        """As of the last table; the same object as long as nothing moves."""
        table = self._server.latest
        if table is None:
            return Missing(Reason.WARMING, "the server has not answered yet")
        if self._topology is None or self._seen is None or not table.same_layout(self._seen):
            self._topology = topology_of(table)
        self._seen = table
        return self._topology

    def check(self) -> tuple[Check, ...]:
        read = self.read()
        if isinstance(read, Missing):
            return missing_check(self.name, read)
        return (Check(self.name, Reason.PRESENT, f"{read.size}; {_NOTE}"),)

    def close(self) -> None:
        """Nothing is held."""
