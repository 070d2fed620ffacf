"""Source `dpdk`: every DPDK application on the host, through its telemetry socket."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from nftop.model.nf.dpdk_busy import busy_advice
from nftop.model.owner import rank, suffix
from nftop.model.reading import Reason
from nftop.model.sample import DpdkApp, DpdkTable
from nftop.sources.base import Check
from nftop.sources.dpdk.discovery import APPLICATION, Finder
from nftop.sources.dpdk.poll import Session
from nftop.sources.nf_session.discovery import Views, closed_sentence
from nftop.sources.nf_session.poll_loop import Standing, poll_all

DEADLINE_S = 0.2


class DpdkSource:
    """Reads all applications within `deadline_s`, and keeps one connection to each.

    `root`, `proc` and `environ` say where sockets and processes are looked for; `clock` is
    CLOCK_MONOTONIC in nanoseconds. `views` may be shared with other sources.
    """

    name = "dpdk"
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

    def read(self) -> DpdkTable:
        """Every application found, one that does not answer with its `problem`.

        Where an application has a problem, its counters, `read_at_ns` and `took_ns` are those of
        the last poll that worked: 0 and without ports if there was none.
        """
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
        apps = [app for session in sessions if (app := session.app()) is not None]
        apps.sort(key=lambda app: (rank(app.owner), app.prefix, app.pid, app.socket))
        closed = (
            closed_sentence(s.found.path, APPLICATION)
            for s in sessions
            if s.standing is Standing.FORBIDDEN
        )
        return DpdkTable(tuple(apps), (*hidden, *closed))

    def check(self) -> tuple[Check, ...]:
        """One line for each application, each left-over socket and each closed place."""
        table = self.read()
        checks = [_app_check(app) for app in table.apps]
        checks += [
            Check(
                f"dpdk {session.found.prefix}",
                Reason.SOURCE,
                f"{session.found.path} is left over: nobody listens on it",
                "start the application, or remove its folder",
            )
            for session in self._sessions.values()
            if session.standing is Standing.NOBODY
        ]
        checks += [Check("dpdk", Reason.PERMISSION, sentence, _sudo()) for sentence in table.hidden]
        return tuple(checks) if table.apps else (_nothing_check(table), *checks)

    def close(self) -> None:
        for session in self._sessions.values():
            session.close()
        self._sessions.clear()


def _app_check(app: DpdkApp) -> Check:
    version = app.version or "version not told"
    who = f"{app.name or 'an application'} (pid {app.pid}, {version}{suffix(app.owner)})"
    if app.problem is not None:
        fix = "close other telemetry clients" if app.problem.reason is Reason.TAKEN else ""
        return Check(f"dpdk {app.prefix}", app.problem.reason, f"{who}: {app.problem.message}", fix)
    advice = busy_advice(app)
    busy = any(lcore.busy_cycles is not None for lcore in app.lcores)
    usage = "busy cycles told" if busy else f"no busy cycles: {advice.why}"
    fix = "" if busy else advice.fix
    lcores = f"{len(app.lcores)} lcores" if app.lcores_told else "lcores not told"
    text = f"{who}: {len(app.ports)} ports, {lcores}, {usage}"
    return Check(f"dpdk {app.prefix}", Reason.PRESENT, text, fix)


def _nothing_check(table: DpdkTable) -> Check:
    text = "no DPDK application with a telemetry socket is running"
    if table.hidden and _sudo():
        return Check("dpdk", Reason.PERMISSION, f"{text} that this user may read", _sudo())
    fix = "start the application without --no-telemetry, and run nftop as its user or as root"
    return Check("dpdk", Reason.SOURCE, text, fix)


def _sudo() -> str:
    return "sudo nftop" if os.geteuid() else ""
