"""Source `ovs`: every ovs-vswitchd with a userspace datapath, through its control socket.

ovs-vswitchd makes `<rundir>/<program>.<pid>.ctl` (unixctl_server_create), with the pid of its own
pid namespace. `<rundir>` is $OVS_RUNDIR or a build-time default; otherwise the path is in
/proc/net/unix.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

from nftop.model.check import Check
from nftop.model.missing import Reason
from nftop.model.nf.ovs import OvsSwitch, OvsTable
from nftop.model.owner import rank, suffix
from nftop.model.struct import dataclass, replace
from nftop.sources.nf_session.connection import ReplyError, RequestLink
from nftop.sources.nf_session.discovery import SocketSearch, UnixSocket
from nftop.sources.nf_session.session import DialogueSession, NfClient, NfStatus
from nftop.sources.nf_session.source import NfSource
from nftop.sources.ovs import jsonrpc
from nftop.sources.ovs.jsonrpc import ControlReplies
from nftop.sources.ovs.protocol import (
    COUNTING,
    VERSION,
    OvsCall,
    OvsCounters,
    Reply,
    calls_for,
    counters,
    release_of,
    text,
)

# Distributions call the program with DPDK ovs-vswitchd-dpdk or ovs-vswitchd.ovs-dpdk.
_SOCKET_NAME = re.compile(r"ovs-vswitchd[\w.-]{0,32}\.[0-9]{1,10}\.ctl")
_RUNDIRS = ("var/run/openvswitch", "run/openvswitch", "usr/local/var/run/openvswitch")
# The time of the counters in a slower reply is too uncertain, so it is requested again.
_SLOW_NS = 10_000_000
# Name of the userspace datapath, where there is more than one datapath (ofproto-dpif.c).
_DATAPATH = "ovs-netdev"
_WHICH_DATAPATH = "please specify an existing datapath"
# Errors for an unknown command, or unknown arguments (unixctl.c).
_UNKNOWN = ("is not a valid command", "command takes at most", "command requires at least")

ControlDialogue: TypeAlias = Generator[tuple[OvsCall, ...], ControlReplies, None]


class ControlSearch(SocketSearch):
    """Control sockets, also in $OVS_RUNDIR of nftop's environment."""

    application = "an ovs-vswitchd"
    label = "OVS"
    sockets = "OVS sockets"
    listening = re.compile(  # flags __SO_ACCEPTCON, type SOCK_STREAM
        rb"^\S+ \S+ \S+ 00010000 0001 \S+ +\d+ "
        rb"(/(?!proc/)[^\n]*/ovs-vswitchd[\w.-]{0,32}\.\d{1,10}\.ctl)$",
        re.MULTILINE,
    )

    def usual(self, root: Path, *, own: bool) -> Iterable[Path]:
        # A linked /var/run is /run again, and through /proc/<pid>/root it would lead to the host's.
        linked = (root / "var" / "run").is_symlink()
        return [
            root / rundir
            for rundir in (*(self.own_folders("OVS_RUNDIR") if own else ()), *_RUNDIRS)
            if not (linked and rundir.startswith("var/run/"))
        ]

    def sockets_at(self, location: Path, on_closed: Callable[[str], None]) -> Iterable[UnixSocket]:
        return self.sockets_in(location, _SOCKET_NAME, on_closed)


@dataclass(frozen=True, slots=True)
class _Protocol:
    """Version of a daemon, and the calls it answers."""

    version: str
    calls: tuple[OvsCall, ...]


class OvsClient(NfClient[OvsCall, ControlReplies, OvsSwitch]):
    """One ovs-vswitchd; `clock` is CLOCK_MONOTONIC in nanoseconds."""

    late_messages = 64

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._protocol: _Protocol | None = None
        self._counters: OvsCounters | None = None

    def connect(self, path: str) -> RequestLink[OvsCall, ControlReplies]:
        return jsonrpc.connect(path, self._clock)

    def forget(self) -> None:
        self._protocol = self._counters = None

    def poll(self) -> ControlDialogue:
        if self._protocol is None:
            reply = (yield (VERSION,)).by_call[VERSION]
            release = release_of(reply.text or reply.error)
            self._protocol = _Protocol(text(reply.text, "its version"), calls_for(release))
        again = False
        while True:
            replies = yield self._protocol.calls
            protocol = _learn(self._protocol, replies.by_call)
            if _has_no_datapath(replies.by_call):  # by the next tick it may have one, of any name
                calls = tuple(map(_without_datapath, self._protocol.calls))
                self._protocol = replace(self._protocol, calls=calls)
                break
            same = protocol == self._protocol
            first_ns = min(reply.at_ns for reply in replies.by_call.values())
            slow = first_ns - replies.sent_at_ns > _SLOW_NS
            if same and replies.in_time and (again or not slow):
                break
            again = again or same
            self._protocol = protocol
        self._counters = counters(replies.by_call, replies.sent_at_ns)

    def sample(self, status: NfStatus) -> OvsSwitch:
        last = self._counters
        version = self._protocol.version if self._protocol else ""
        return OvsSwitch(
            pid=status.peer.pid,
            start_ticks=status.peer.start_ticks,
            # The kernel cuts a program's name after 15 bytes.
            name=version.partition(" ")[0] or status.peer.comm or "ovs-vswitchd",
            rundir=status.socket.shown_path.rpartition("/")[0],
            socket=status.socket.shown_path,
            version=version,
            problem=status.problem,
            pmds=last.pmds if last else (),
            usage_window_s=last.usage_window_s if last else None,
            read_at_ns=last.read_at_ns if last else 0,
            took_ns=last.took_ns if last else 0,
            owner=status.owner,
        )


class OvsSource(NfSource[RequestLink[OvsCall, ControlReplies], OvsSwitch]):
    """Reads all daemons within `deadline_s`, and keeps one connection to each."""

    name = "ovs"
    absent = "no ovs-vswitchd is running"
    one_per_folder = True
    search = ControlSearch

    def _session(self, socket: UnixSocket) -> DialogueSession[OvsCall, ControlReplies, OvsSwitch]:
        return DialogueSession(socket, self._proc, self._clock, OvsClient(self._clock))

    def read(self) -> OvsTable:
        """Every daemon; one that does not answer has a `problem`."""
        return OvsTable(*self._poll(self._deadline_s))

    def _order(self, sample: OvsSwitch) -> tuple[int, str, int, str]:
        return rank(sample.owner), sample.rundir, sample.pid, sample.socket

    def _check_one(self, sample: OvsSwitch) -> Check:
        name = f"ovs {sample.rundir}"
        version = sample.version.rpartition(") ")[2] or "version unknown"
        subject = f"{sample.name} (pid {sample.pid or 'unknown'}, {version}{suffix(sample.owner)})"
        if sample.problem is not None:
            return Check(name, sample.problem.reason, f"{subject}: {sample.problem.message}")
        if not sample.pmds:
            text = f"{subject}: no PMD threads, which bridges of datapath_type=netdev have"
            fix = "sudo ovs-vsctl --columns=name,datapath_type list bridge"
            return Check(name, Reason.SOURCE, text, fix)
        queues = sum(len(pmd.queues) for pmd in sample.pmds)
        exact = all(pmd.busy_cycles is not None for pmd in sample.pmds)
        busy = "busy cycles known" if exact else "busy from its queues' shares"
        packets = all(pmd.rx_packets is not None for pmd in sample.pmds)
        counts = "" if packets else "; no packet counters (OVS 2.10 or later has them)"
        threads = f"{len(sample.pmds)} PMD thread{'s' if len(sample.pmds) > 1 else ''}"
        text = f"{subject}: {threads}, {queues} queue{'s' if queues != 1 else ''}, {busy}{counts}"
        return Check(name, Reason.PRESENT, text)


def _has_no_datapath(replies: Mapping[OvsCall, Reply]) -> bool:
    """Whether there is no userspace datapath, even by the usual name."""
    return any(
        call != _without_datapath(call) and reply.error == _WHICH_DATAPATH
        for call, reply in replies.items()
    )


def _without_datapath(call: OvsCall) -> OvsCall:
    named = call.arguments[-1:] == (_DATAPATH,)
    return replace(call, arguments=call.arguments[:-1]) if named else call


def _learn(known: _Protocol, replies: Mapping[OvsCall, Reply]) -> _Protocol:
    """The calls to make from now on: the same if none was refused.

    A daemon with no or several userspace datapaths requires the name of one; without one of the
    usual name it has no PMD threads. Raises ReplyError: a command failed, or no command is
    supported.
    """
    calls: list[OvsCall] = []
    for call in known.calls:
        failed = replies[call].error
        if any(words in failed for words in _UNKNOWN):
            continue
        if failed == _WHICH_DATAPATH and call == _without_datapath(call):
            calls.append(replace(call, arguments=(*call.arguments, _DATAPATH)))
        elif failed in ("", _WHICH_DATAPATH):
            calls.append(call)
        else:
            raise ReplyError(f"{call.method} failed: {failed}")
    if not any(call.method in COUNTING for call in calls):
        raise ReplyError("it offers no statistics of its PMD threads")
    return replace(known, calls=tuple(calls))
