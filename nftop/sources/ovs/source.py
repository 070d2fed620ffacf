"""Source `ovs`: every ovs-vswitchd on the host, through its control socket."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from nftop.model.nf.ovs import OvsSwitch, OvsTable
from nftop.model.owner import rank, suffix
from nftop.model.reading import Reason
from nftop.sources.base import Check
from nftop.sources.nf_session.discovery import Views, closed_sentence
from nftop.sources.nf_session.poll_loop import Standing, poll_all
from nftop.sources.ovs.discovery import APPLICATION, Finder
from nftop.sources.ovs.poll import Session

DEADLINE_S = 0.2


class OvsSource:
    """Reads all daemons within `deadline_s`, and keeps one connection to each.

    `root`, `proc` and `environ` say where sockets and processes are looked for; `clock` is
    CLOCK_MONOTONIC in nanoseconds. `views` may be shared with other sources.
    """

    name = "ovs"
    inline = False

    def __init__(
        self,
        root: Path = Path("/"),
        proc: Path = Path("/proc"),
        environ: Mapping[str, str] = os.environ,
        *,
        deadline_s: float = DEADLINE_S,
        clock: Callable[[], int] = time.monotonic_ns,
        views: Views | None = None,
    ) -> None:
        self._finder = Finder(root, views or Views(root, proc, clock), environ, clock)
        self._proc = proc
        self._deadline_s = deadline_s
        self._clock = clock
        self._sessions: dict[tuple[int, int], Session] = {}

    def read(self) -> OvsTable:
        """Every daemon found, one that does not answer with its `problem`."""
        found, hidden = self._finder.find()
        for socket in found:
            if socket.key in self._sessions:
                self._sessions[socket.key].found = socket
            else:
                self._sessions[socket.key] = Session(socket, self._proc, self._clock)
        here = {socket.key for socket in found}
        for key in [k for k, s in self._sessions.items() if k not in here and not s.connected]:
            self._sessions.pop(key).close()
        sessions = self._sessions.values()
        poll_all(sessions, self._deadline_s)
        switches = [switch for session in sessions if (switch := session.switch()) is not None]
        switches.sort(key=lambda item: (rank(item.owner), item.rundir, item.pid, item.socket))
        closed = (
            closed_sentence(s.found.path, APPLICATION)
            for s in sessions
            if s.standing is Standing.FORBIDDEN
        )
        return OvsTable(tuple(switches), (*hidden, *closed))

    def check(self) -> tuple[Check, ...]:
        """One line for each daemon, each closed place, and each socket left over by itself."""
        table = self.read()
        alive = {switch.rundir for switch in table.switches}
        left = [
            session.found.path
            for session in self._sessions.values()
            if session.standing is Standing.NOBODY
            and session.found.path.rpartition("/")[0] not in alive
        ]
        checks = [_switch_check(switch) for switch in table.switches]
        checks += [
            Check("ovs", Reason.SOURCE, f"{path} is left over: nobody listens on it", "start OVS")
            for path in left
        ]
        checks += [Check("ovs", Reason.PERMISSION, sentence, _sudo()) for sentence in table.hidden]
        return tuple(checks) if table.switches or left else (_nothing_check(table), *checks)

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()


def _switch_check(switch: OvsSwitch) -> Check:
    name = f"ovs {switch.rundir}"
    version = _release(switch.version) or "version not told"
    who = f"{switch.name} (pid {switch.pid}, {version}{suffix(switch.owner)})"
    if switch.problem is not None:
        return Check(name, switch.problem.reason, f"{who}: {switch.problem.message}")
    if not switch.pmds:
        fix = "only its userspace datapath is read: bridges with datapath_type=netdev"
        return Check(name, Reason.SOURCE, f"{who}: no PMD threads", fix)
    queues = sum(len(pmd.queues) for pmd in switch.pmds)
    exact = all(pmd.busy_cycles is not None for pmd in switch.pmds)
    busy = "busy cycles told" if exact else "busy from its queues' shares"
    packets = all(pmd.rx_packets is not None for pmd in switch.pmds)
    counts = "" if packets else "; packets not told (OVS 2.10 or later does)"
    threads = f"{len(switch.pmds)} PMD thread{'s' if len(switch.pmds) > 1 else ''}"
    text = f"{who}: {threads}, {queues} queue{'s' if queues != 1 else ''}, {busy}{counts}"
    return Check(name, Reason.PRESENT, text)


def _release(version: str) -> str:
    return version.rpartition(") ")[2]


def _nothing_check(table: OvsTable) -> Check:
    text = "no ovs-vswitchd is running"
    if table.hidden and _sudo():
        return Check("ovs", Reason.PERMISSION, f"{text} that this user may ask", _sudo())
    return Check("ovs", Reason.SOURCE, text)


def _sudo() -> str:
    return "sudo nftop" if os.geteuid() else ""
