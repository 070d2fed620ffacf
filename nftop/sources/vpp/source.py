"""Source `vpp`: every VPP on the host, through its stats segment."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from nftop.model.ids import format_cpu_list
from nftop.model.nf.vpp import VppInstance, VppTable
from nftop.model.owner import rank, suffix
from nftop.model.reading import Reason
from nftop.sources.base import Check
from nftop.sources.nf_session.discovery import Views, closed_sentence
from nftop.sources.nf_session.poll_loop import Standing, poll_all
from nftop.sources.vpp import compat
from nftop.sources.vpp.discovery import VPP, Finder
from nftop.sources.vpp.reader import Reader
from nftop.sources.vpp.session import Session

DEADLINE_S = 0.2
# A process is started and imports vpp-papi; only doctor waits for that.
_CHECK_S = 20.0
_MOST_USERS = 8
_NO_NODES_FIX = "for how busy it is: 'per-node-counters on' in the statseg section of startup.conf"


class VppSource:
    """Reads all VPPs within `deadline_s`, each segment in a process of its own.

    A reading costs VPP nothing: it is of memory that VPP shares. Only to hand that out its main
    thread is asked, once. `root` and `proc` say where sockets and processes are looked for; `clock`
    is CLOCK_MONOTONIC in nanoseconds, `read_by` what reads a segment. `views` may be shared with
    other sources.
    """

    name = "vpp"
    inline = False

    def __init__(
        self,
        root: Path = Path("/"),
        proc: Path = Path("/proc"),
        *,
        deadline_s: float = DEADLINE_S,
        clock: Callable[[], int] = time.monotonic_ns,
        read_by: Callable[[int], Reader] = Reader,
        views: Views | None = None,
    ) -> None:
        self._finder = Finder(views or Views(root, proc, clock), clock)
        self._proc, self._deadline_s = proc, deadline_s
        self._clock, self._read_by = clock, read_by
        self._sessions: dict[tuple[int, int], Session] = {}
        self._spent_ns = self._past_ns = 0

    @property
    def helper_cpu_ns(self) -> int:
        """CPU time of the processes that read segments."""
        return self._spent_ns

    def read(self) -> VppTable:
        """Every VPP found, one that could not be read with its `problem`."""
        return self._read(self._deadline_s)

    def check(self) -> tuple[Check, ...]:
        """One line for each VPP, each left-over socket and each closed place."""
        table = self._read(_CHECK_S)
        checks = [_vpp_check(instance) for instance in table.instances]
        checks += [
            Check(
                f"vpp {session.found.prefix}",
                Reason.SOURCE,
                f"{session.found.path} is left over: nobody listens on it",
                "start VPP, or remove it",
            )
            for session in self._sessions.values()
            if session.standing is Standing.NOBODY
        ]
        checks += [Check("vpp", Reason.PERMISSION, sentence, _sudo()) for sentence in table.hidden]
        return tuple(checks) if table.instances else (_nothing_check(table), *checks)

    def close(self) -> None:
        """End every process that reads a segment. Safe to call twice."""
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()

    def _read(self, deadline_s: float) -> VppTable:
        found, hidden = self._finder.find()
        for socket in found:
            if socket.key in self._sessions:
                self._sessions[socket.key].found = socket
            else:
                self._sessions[socket.key] = Session(socket, self._proc, self._clock, self._read_by)
        here = {socket.key for socket in found}
        sessions = self._sessions.values()
        poll_all(sessions, deadline_s)
        for key in [k for k, s in self._sessions.items() if k not in here and not s.connected]:
            self._past_ns += self._sessions[key].helper_cpu_ns
            self._sessions.pop(key).close()
        self._spent_ns = self._past_ns + sum(session.helper_cpu_ns for session in sessions)
        instances = [each for session in sessions if (each := session.instance()) is not None]
        instances.sort(key=lambda instance: (rank(instance.owner), instance.socket, instance.pid))
        closed = [
            closed_sentence(session.found.path, VPP)
            for session in sessions
            if session.standing is Standing.FORBIDDEN
        ]
        untrusted = _untrusted([item for item in sessions if item.standing is Standing.UNTRUSTED])
        return VppTable(tuple(instances), (*untrusted, *hidden, *closed))


def _untrusted(sessions: Sequence[Session]) -> list[str]:
    """A sentence for each user whose sockets are not read."""
    by_user: dict[str, list[str]] = {}
    for session in sessions:
        by_user.setdefault(session.owner.user, []).append(session.found.path)
    return [
        f"{len(paths)} stats socket{'s' if len(paths) > 1 else ''} of user {user} not read: "
        f"VPP's memory is read only of root and of the user who runs nftop ({paths[0]})"
        for user, paths in sorted(by_user.items())[:_MOST_USERS]
    ]


def _vpp_check(vpp: VppInstance) -> Check:
    name, who = (
        f"vpp {Path(vpp.socket).parent.name}",
        f"{vpp.name} (pid {vpp.pid}{suffix(vpp.owner)})",
    )
    if vpp.problem is not None:
        fix = compat.INSTALL if compat.unfit(compat.installed()) is not None else ""
        return Check(name, vpp.problem.reason, f"{who}: {vpp.problem.message}", fix)
    bound = [thread.cpu for thread in vpp.threads if thread.cpu is not None]
    where = f"on CPU {format_cpu_list(sorted(bound))}" if bound else "on no single CPU each"
    loose = len(vpp.threads) - len(bound)
    if bound and loose:
        where += f" and {loose} on no single one"
    threads = "1 thread" if len(vpp.threads) == 1 else f"{len(vpp.threads)} threads"
    counted = "counted" if vpp.nodes is not None else "not counted"
    text = (
        f"{who}: {threads} {where}, {len(vpp.interfaces.names)} interfaces, graph nodes {counted}"
    )
    return Check(name, Reason.PRESENT, text, "" if vpp.nodes is not None else _NO_NODES_FIX)


def _nothing_check(table: VppTable) -> Check:
    text = "no VPP with a stats socket is running"
    if table.hidden and _sudo():
        return Check("vpp", Reason.PERMISSION, f"{text} that this user may read", _sudo())
    return Check("vpp", Reason.SOURCE, text)


def _sudo() -> str:
    return "sudo nftop" if os.geteuid() else ""
