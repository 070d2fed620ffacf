"""Starts the worker, asks it, and does not wait for ever."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Collection
from dataclasses import replace

from nftop.model.reading import Missing, Reason
from nftop.sources.pqos.protocol import Looked, Metered, line, looked_of, metered_of
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
    ) -> tuple[Looked, tuple[Metered, ...]] | Missing:
        """What it finds, or why it finds nothing; then it is started anew at the next question."""
        running = self._running = self._running or helper.start(self._module)
        with contextlib.suppress(OSError):  # it has ended: what it said before tells why
            running.channel.sendall(line({"quiet": sorted(quiet), "look": look, "meter": meter}))
        answer = _line(running.channel, self._answer_s)
        if answer is None:
            self._end(kill=True)
            late = f"libpqos did not answer within {self._answer_s:g} s"
            return Missing(Reason.ERROR, f"{late}; RMIDs that it had set may be left")
        found = _understood(answer)
        if isinstance(found, Missing):
            complaint = self._end(kill=False)
            return replace(found, detail=f"{found.message}{complaint}")
        return found

    def close(self) -> None:
        """End it; it takes its monitors away first. Safe to call twice."""
        self._end(kill=False)

    def _end(self, *, kill: bool) -> str:
        """Its last complaint, if any."""
        running, self._running = self._running, None
        if running is None:
            return ""
        return helper.end(running, kill=kill).complaint


def _understood(answer: bytes) -> tuple[Looked, tuple[Metered, ...]] | Missing:
    """An answer, or what it says is wrong."""
    try:
        raw = json.loads(answer)
        if "looked" in raw:
            return looked_of(raw["looked"]), metered_of(raw["metered"])
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
