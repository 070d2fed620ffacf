"""Starts the guard, a process of its own, and reads its answers."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from typing import IO, Any

from nftop.control.backend import AnyBackend
from nftop.control.journal import FileJournal, Journal
from nftop.control.journal_entry import (
    KEEP,
    Requester,
    receipt_of,
    recovery,
    request,
    series_request,
)
from nftop.control.series import ALIVE, END, TRY
from nftop.control.wording import GUARD_ENDED, GUARD_IS_SLOW, HISTORY
from nftop.model.change import Change, Proposal, ReasonCode, Receipt
from nftop.sources.runtime import helper
from nftop.sources.runtime.readiness import wait_readable

# Time limit of the guard: it may move thousands of threads, and wait for resctrl's lock.
_ANSWER_S = 90.0
_END_S = 5.0
_NOTHING = Receipt("reverted", ("nothing was under way",))


class GuardedChange:
    """A requested change. Once applied it stays until the timeout, or for good after `keep`."""

    def __init__(
        self, guard: subprocess.Popen[bytes], channel: socket.socket, errors: IO[bytes]
    ) -> None:
        """`channel`: to the guard, which has its request; `errors`: its standard error."""
        self._guard: subprocess.Popen[bytes] | None = guard
        self._channel = channel
        self._errors = errors
        self._heard = b""
        self.receipt = self._answer(self._line(_ANSWER_S))
        if self.receipt.outcome != "applied":
            self._end()

    def keep(self) -> Receipt:
        return self._settle(KEEP)

    def revert(self) -> Receipt:
        return self._settle(b"revert\n")

    def settled(self, seconds: float) -> Receipt | None:
        """Final report, or None if it is not known within so many seconds."""
        if self._guard is not None:
            line = self._line(seconds)
            if line is None:
                return None
            self.receipt = self._answer(line)
            self._end()
        return self.receipt

    def _settle(self, word: bytes) -> Receipt:
        if self._guard is not None:
            with contextlib.suppress(OSError):
                self._channel.sendall(word)
        return self.settled(_ANSWER_S) or self._answer(None)

    def _answer(self, line: bytes | None) -> Receipt:
        """Receipt of an answer; None: no answer in time. b"": it ended, its last error is why."""
        if line is None:
            message = f"{GUARD_IS_SLOW.format(_ANSWER_S)}: {HISTORY}"
            return Receipt("failed", (message,), code=ReasonCode.GUARD_TIMEOUT)
        try:
            raw = json.loads(line)
            return _NOTHING if raw is None else receipt_of(raw)
        except (ValueError, KeyError, TypeError):
            self._errors.seek(0)
            why = self._errors.read().decode("utf-8", "replace").strip().splitlines()[-1:]
            output = [f"its last message: {item}" for item in why]
            return Receipt("failed", (GUARD_ENDED, *output), code=ReasonCode.GUARD_ENDED)

    def _line(self, seconds: float) -> bytes | None:
        """The guard's next line; b"" once it has ended, None after the timeout."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._heard:
            if not wait_readable([self._channel], deadline - time.monotonic()):
                return None
            try:
                more = self._channel.recv(65536)
            except OSError:
                more = b""
            if not more:
                return b""
            self._heard += more
        line, _, self._heard = self._heard.partition(b"\n")
        return line

    def _end(self) -> None:
        self._channel.close()
        guard, self._guard = self._guard, None
        if guard is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                guard.wait(_END_S)
            self._errors.close()


class GuardedSeries(GuardedChange):
    """Settings that the guard tries in turn.

    The guard restores the first state when the series ends for any reason; if the guard itself is
    killed, `nftop recover` does.
    """

    def try_setting(self, number: int) -> Receipt:
        """Put a setting on the host; any outcome but `applied` is the final one."""
        if self._guard is not None:
            self._send(TRY + f" {number}\n".encode())
            self.receipt = self._answer(self._line(_ANSWER_S))
            if self.receipt.outcome != "applied":
                self._end()
        return self.receipt

    def alive(self) -> None:
        """Tell the guard that somebody watches; it restores after a while without a word."""
        if self._guard is not None:
            self._send(ALIVE + b"\n")

    def end(self) -> Receipt:
        """Restore the state before the series."""
        return self._settle(END + b"\n")

    def _send(self, word: bytes) -> None:
        with contextlib.suppress(OSError):
            # A guard that hangs reads nothing: its next answer is waited for only so long.
            self._channel.send(word, socket.MSG_DONTWAIT)


def start_guard(
    host: AnyBackend,
    journal: Journal,
    proposal: Proposal,
    requester: Requester,
    keep_within_s: float | None,
) -> GuardedChange:
    """Start the guard: a process that outlives this one and opens the backend itself.

    It refuses if the identity of what it opens is not the proposal's. Raises TypeError if another
    process can't open the journal.
    """
    if not isinstance(journal, FileJournal):
        raise TypeError(f"{host.where} has no journal that another process could hold")
    pending = _ask(request(proposal, requester, journal.folder, keep_within_s))
    if keep_within_s is None:
        pending.settled(_ANSWER_S)
    return pending


def start_series(
    host: AnyBackend,
    journal: Journal,
    proposal: Proposal,
    settings: Sequence[Sequence[Change]],
    requester: Requester,
) -> GuardedSeries:
    """Start a guard for a series of settings; nothing is written yet. Raises as `start_guard`."""
    if not isinstance(journal, FileJournal):
        raise TypeError(f"{host.where} has no journal that another process could hold")
    return GuardedSeries(*_started(series_request(proposal, settings, requester, journal.folder)))


def recover(journal: FileJournal) -> Receipt | None:
    """Have a guard revert what a crash left pending; None if nothing is."""
    journal.demand_own()
    if not journal.folder.exists():
        return None
    pending = _ask(recovery(journal.folder))
    return None if pending.receipt == _NOTHING else pending.receipt


def _ask(what: Mapping[str, Any]) -> GuardedChange:
    return GuardedChange(*_started(what))


def _started(what: Mapping[str, Any]) -> tuple[subprocess.Popen[bytes], socket.socket, IO[bytes]]:
    """A guard with a request, the channel to it, and its standard error."""
    guard = helper.start("nftop.control.guard_process", new_session=True)
    with contextlib.suppress(OSError):  # it ended at once: it has no answer then either
        guard.channel.sendall(json.dumps(what).encode() + b"\n")
    return guard.process, guard.channel, guard.errors
