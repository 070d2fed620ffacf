"""Source `dpdk`: every DPDK application on the host, through its telemetry socket.

EAL puts it at `<runtime>/dpdk/<file prefix>/dpdk_telemetry.v2`, with `:N` appended for further
applications of one prefix; `<runtime>` is $RUNTIME_DIRECTORY, else /var/run for root and
$XDG_RUNTIME_DIR or /tmp for others (eal_create_runtime_dir). If an application's environment
differs from nftop's, the path is in /proc/net/unix.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path

from nftop.model.check import Check
from nftop.model.missing import Reason
from nftop.model.nf.dpdk_busy import busy_advice
from nftop.model.number_text import counted
from nftop.model.owner import rank, suffix
from nftop.model.sample import DpdkApp, DpdkTable
from nftop.sources.dpdk import client, protocol
from nftop.sources.dpdk.client import WINDOW, TelemetryLink
from nftop.sources.dpdk.latency import LatencyReader
from nftop.sources.dpdk.protocol import TEXT_LIMIT, Answers, AppFacts, DpdkCounters
from nftop.sources.nf_session.connection import RequestLink
from nftop.sources.nf_session.discovery import ANY_FOLDER, SocketSearch, UnixSocket
from nftop.sources.nf_session.session import DialogueSession, NfClient, NfStatus
from nftop.sources.nf_session.source import NfSource

REFRESH_NS = 5_000_000_000  # ports, lcores and arguments seldom change
_SOCKET_NAME = re.compile(r"dpdk_telemetry\.v2(:[0-9]{1,3})?")
_RUNTIMES = ("run", "run/*", "run/user/*", "var/run", "tmp")


class TelemetrySearch(SocketSearch):
    """Telemetry sockets, also in the runtime directories of nftop's environment."""

    application = "a DPDK application"
    label = "DPDK"
    sockets = "telemetry sockets"
    listening = re.compile(  # flags __SO_ACCEPTCON, type SOCK_SEQPACKET
        rb"^\S+ \S+ \S+ 00010000 0005 \S+ +\d+ (/[^\n]*/dpdk_telemetry\.v2(?::\d{1,3})?)$",
        re.MULTILINE,
    )

    def usual(self, root: Path, *, own: bool) -> Iterator[Path]:
        named = self.own_folders("XDG_RUNTIME_DIR", "RUNTIME_DIRECTORY") if own else []
        for runtime in (*named, *_RUNTIMES):
            if runtime == "var/run" and (root / runtime).is_symlink():
                continue  # /run again, and through /proc/<pid>/root it would lead to the host's
            parents = (
                (root / runtime[:-2] / entry.name for entry in self.scan(root / runtime[:-2]))
                if runtime.endswith("/*")
                else (root / runtime,)
            )
            for parent in parents:
                if self.is_served(parent / "dpdk"):
                    continue
                with contextlib.suppress(OSError):  # a closed /run/user/<uid> is no sign of DPDK
                    (parent / "dpdk").lstat()
                    yield parent / "dpdk" / ANY_FOLDER

    def sockets_at(self, location: Path, on_closed: Callable[[str], None]) -> Iterator[UnixSocket]:
        folders: Iterable[Path] = (location,)
        if location.name == ANY_FOLDER:  # one for each file prefix
            folders = (
                location.parent / entry.name
                for entry in self.scan(location.parent, on_closed)
                if entry.is_dir(follow_symlinks=False)
            )
        for folder in folders:
            yield from self.sockets_in(folder, _SOCKET_NAME, on_closed)


class DpdkClient(NfClient[str, Answers, DpdkApp]):
    """One application; `clock` is CLOCK_MONOTONIC in nanoseconds."""

    late_messages = WINDOW

    def __init__(
        self, clock: Callable[[], int], wanted: Callable[[], bool] = lambda: False
    ) -> None:
        """`wanted`: whether to keep all counters, not only those with a metric."""
        self._clock = clock
        self._wanted = wanted
        self._link: TelemetryLink | None = None
        self._version = ""
        self._facts: AppFacts | None = None
        self._refresh_at_ns = 0
        self._counters: DpdkCounters | None = None
        self._latency = LatencyReader(clock)

    def connect(self, path: str) -> RequestLink[str, Answers]:
        self._link = client.connect(path)
        self._path = path
        self._refresh_at_ns = 0
        return self._link

    def forget(self) -> None:
        self._version = ""
        self._facts = self._counters = None
        self._latency = LatencyReader(self._clock)

    def poll(self) -> Generator[tuple[str, ...], Answers, None]:
        link = self._link
        if link is None:
            return
        if len(link.listed) == 1:
            link.listed = yield from protocol.ask_commands()
        self._version = link.greeting.version if link.greeting else ""
        if self._facts is None or self._clock() >= self._refresh_at_ns:
            self._facts = yield from protocol.ask_facts(self._facts)
            self._refresh_at_ns = self._clock() + REFRESH_NS
        self._facts, self._counters = yield from protocol.ask_counters(
            self._facts, link.message_bytes, everything=self._wanted()
        )
        self._facts = yield from protocol.ask_remedy(self._facts)
        yield from self._latency.poll(link, self._path)

    def sample(self, status: NfStatus) -> DpdkApp:
        facts, counters = self._facts, self._counters
        arguments = facts.eal_params if facts else ()
        program = arguments[0].rpartition("/")[2][:TEXT_LIMIT] if arguments else ""
        return DpdkApp(
            pid=status.peer.pid,
            start_ticks=status.peer.start_ticks,
            name=program or status.peer.comm,
            prefix=status.socket.prefix,
            socket=status.socket.shown_path,
            version=self._version,
            problem=status.problem,
            ports=counters.ports if counters else (),
            lcores=counters.lcores if counters else (),
            lcores_told=facts is not None and facts.lists_lcores,
            eal_params=arguments,
            app_params=facts.app_params if facts else (),
            read_at_ns=counters.read_at_ns if counters else 0,
            took_ns=counters.took_ns if counters else 0,
            owner=status.owner,
            latency=self._latency.value,
        )


class DpdkSource(NfSource[RequestLink[str, Answers], DpdkApp]):
    """Reads all applications within `deadline_s`, and keeps one connection to each."""

    name = "dpdk"
    absent = "no DPDK application with a telemetry socket (no --no-telemetry) is running"
    search = TelemetrySearch
    _everything = False

    def everything(self, *, wanted: bool) -> None:
        """As `CounterFocusing`."""
        self._everything = wanted

    def _session(self, socket: UnixSocket) -> DialogueSession[str, Answers, DpdkApp]:
        return DialogueSession(
            socket, self._proc, self._clock, DpdkClient(self._clock, lambda: self._everything)
        )

    def read(self) -> DpdkTable:
        """Every application; one that does not answer has a `problem`.

        Its counters, `read_at_ns` and `took_ns` are then those of the last successful poll; 0 and
        no ports if there was none.
        """
        return DpdkTable(*self._poll(self._deadline_s))

    def _order(self, sample: DpdkApp) -> tuple[int, str, int, str]:
        return rank(sample.owner), sample.prefix, sample.pid, sample.socket

    def _check_one(self, sample: DpdkApp) -> Check:
        version = sample.version or "version unknown"
        name, pid = sample.name or "an application", sample.pid or "unknown"
        subject = f"{name} (pid {pid}, {version}{suffix(sample.owner)})"
        if sample.problem is not None:
            fix = (
                "sudo ss -xp | grep dpdk_telemetry" if sample.problem.reason is Reason.TAKEN else ""
            )
            text = f"{subject}: {sample.problem.message}"
            return Check(f"dpdk {sample.prefix}", sample.problem.reason, text, fix)
        advice = busy_advice(sample)
        busy = any(lcore.busy_cycles is not None for lcore in sample.lcores)
        usage = "no busy cycles: " + "; ".join(filter(None, (advice.why, advice.fix)))
        usage = "busy cycles known" if busy else usage
        lcores = counted(len(sample.lcores), "lcore") if sample.lcores_told else "lcores unknown"
        text = f"{subject}: {counted(len(sample.ports), 'port')}, {lcores}, {usage}"
        return Check(f"dpdk {sample.prefix}", Reason.PRESENT, text)
