"""The gate: what commands and screens use to change the host. It writes nothing itself."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Protocol

from nftop.control import past
from nftop.control.changing import Settling
from nftop.control.effects import strangers
from nftop.control.entry import DamagedError, Entry
from nftop.control.guard import KEEP, receipt_of, recovery, request
from nftop.control.journal import FileJournal, Journal, hinted
from nftop.control.plan import propose
from nftop.control.resctrl import Host
from nftop.control.steps import steps
from nftop.control.transaction import Asked
from nftop.control.words import MSR, pqos_commands, shell
from nftop.model.action import (
    Action,
    Cell,
    MoveTasks,
    Proposal,
    Receipt,
    RemoveGroup,
    RemoveMonitor,
)
from nftop.model.keeping import KEEP_WITHIN_S

# How long the guard may take for the writes: thousands of threads may be among them, and resctrl's
# lock another program's for a while.
_ANSWER_S = 90.0
_SILENT = (
    "the guard ended without a word, so it is not known what is on the host now: `nftop recover` "
    "says what it left half done, and takes it back; `nftop history` has what is complete"
)
_SLOW = "the guard is still at it after {:g} s: `nftop history` will say what became of the change"
_END_S = 5.0
_PAST = ": `nftop undo --past` passes over it, `nftop cat reset` takes back all that can be"
_PROGRAM = "nftop"
# Nothing of the caller's environment is to reach root's Python, and no package beside nftop is to
# come before Python's own: the words after it are the folder of the package and its module.
_START = (
    "import runpy, sys; folder, name = sys.argv[1:]; sys.path.insert(0, folder); import nftop; "
    "sys.path.append(sys.path.pop(0)); runpy.run_module(name, run_name='__main__')"
)
_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}


class Pending:
    """A change that was asked for: `receipt` says what became of it so far.

    If it was applied it is there until the time is up, unless `keep` is called before.
    """

    def __init__(
        self, guard: subprocess.Popen[bytes], channel: socket.socket, errors: IO[bytes]
    ) -> None:
        """`channel`: to the guard, which has been told what to do; `errors`: what it complains."""
        self._guard: subprocess.Popen[bytes] | None = guard
        self._channel = channel
        self._errors = errors
        self._heard = b""
        self.receipt = self._answer(self._line(_ANSWER_S))
        if self.receipt.outcome != "applied":
            self._end()

    def keep(self) -> Receipt:
        """It stays."""
        return self._settle(KEEP)

    def revert(self) -> Receipt:
        """Take it back now."""
        return self._settle(b"revert\n")

    def settled(self, seconds: float) -> Receipt | None:
        """What became of it in the end, if that is known within so many seconds; else None."""
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
                # Its time may be up, or it was killed: what it said last, if anything, tells.
                self._channel.sendall(word)
        return self.settled(_ANSWER_S) or self._answer(None)

    def _answer(self, line: bytes | None) -> Receipt:
        """What the guard said; None: nothing in time. b"": it ended, its last complaint is why."""
        if line is None:
            return Receipt("failed", (_SLOW.format(_ANSWER_S),))
        try:
            raw = json.loads(line)
            return _NOTHING if raw is None else receipt_of(raw)
        except (ValueError, KeyError, TypeError):
            self._errors.seek(0)
            why = self._errors.read().decode("utf-8", "replace").strip().splitlines()[-1:]
            said = [f"the last it said: {each}" for each in why]
            return Receipt("failed", (_SILENT, *said))

    def _line(self, seconds: float) -> bytes | None:
        """The guard's next line; b"" once it has ended, None if it is not there in time."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._heard:
            left = max(deadline - time.monotonic(), 0.0)
            if not select.select([self._channel], [], [], left)[0]:
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


class Begin(Protocol):
    """Starts a guard, which does it and then takes it back unless it is kept in time."""

    def __call__(
        self,
        host: Host,
        journal: Journal,
        proposal: Proposal,
        asked: Asked,
        keep_within_s: float | None,
    ) -> Settling:
        """`keep_within_s` None: it is kept at once."""


def in_a_process(
    host: Host,
    journal: Journal,
    proposal: Proposal,
    asked: Asked,
    keep_within_s: float | None,
) -> Pending:
    """The guard of this host: a process of its own, which outlives this one and opens it itself.

    It does nothing where what it opens is not what the proposal is about. Raises TypeError where
    the journal is no folder, which that process could open as well.
    """
    if not isinstance(journal, FileJournal):
        raise TypeError(f"{host.where} has no journal that another process could hold")
    pending = _ask(request(proposal, asked, journal.folder, keep_within_s))
    if keep_within_s is None:
        pending.settled(_ANSWER_S)
    return pending


@dataclass(frozen=True, slots=True)
class Gate:
    """Changes of one host; `begin` starts the guard that makes them.

    `program`: the words that command lines about this host begin with.
    """

    host: Host
    journal: Journal
    begin: Begin
    program: str

    @property
    def lasts(self) -> bool:
        """Whether the next process finds what was changed, and can undo it."""
        return self.journal.lasts

    def propose(self, actions: Sequence[Action], commands: tuple[str, ...] = ()) -> Proposal:
        """What the actions would do; nothing is written."""
        tids = [tid for each in actions if isinstance(each, MoveTasks) for tid in each.tids]
        going = [each.group for each in actions if isinstance(each, RemoveGroup | RemoveMonitor)]
        rules = replace(self.host.rules(), tasks=self.host.tasks(going, tids))
        identity, state = self.host.identity, self.host.state()
        found = replace(propose(state, rules, actions, commands), identity=identity)
        if not going or found.refusals:
            return found
        try:
            said = list(strangers(state, rules, found.changes, past.newest(self._here())))
        except PermissionError:
            said = ["whether nftop made what is to go is not known: its journal is root's"]
        except DamagedError as error:
            said = [f"whether nftop made what is to go is not known: {error}"]
        return replace(found, warnings=(*said, *found.warnings))

    def writes(self, proposal: Proposal) -> tuple[str, ...]:
        """What would be written, in its order, as a shell would do it."""
        if self.host.where == MSR:
            return pqos_commands(proposal.changes)
        planned = steps(proposal.base, proposal.changes)
        return tuple(shell(step, self.host.where) for step in planned)

    def propose_undo(self, *, beyond: bool = False) -> tuple[Proposal, tuple[int, ...]] | None:
        """What takes the last kept change back, and its number; None where there is none.

        One of which nothing is left, since somebody took it back by hand, is passed over with a
        warning, and counts as taken back with the one before it. One that somebody else has
        overwritten is where this ends, with nothing to change, until it is passed over knowingly:
        `beyond`. What was left of one then, or of one that was taken back in part, is tried again
        each time, and no obstacle.
        """
        here = self._here()
        standing, tried = past.standing(here), past.tried(here)
        gone, passed, said = list[int](), list[int](), list[str]()
        unmet, newest = tuple[str, ...](), None
        for entry in reversed(standing):
            found = self._reversal(past.with_undoing(entry, here), "undo" + " --past" * beyond)
            if found is None:
                continue
            proposal, number = found[0], entry.number
            again = number in tried
            stops = bool(proposal.unmet) and not (beyond or again)
            if proposal.changes or proposal.refusals or stops:
                if stops and not proposal.changes and entry is not standing[0]:
                    hint = hinted(self.journal, _PAST)
                    said.append(f"nothing older is taken back before change {number}{hint}")
                return replace(
                    proposal,
                    warnings=(*said, *proposal.warnings),
                    unmet=(*unmet, *proposal.unmet),
                    leaves=(*proposal.leaves, *reversed(passed)),
                ), (number, *reversed(gone))
            if not proposal.unmet:
                gone.append(number)
                said.append(f"nothing is left of change {number} to take back: passed over")
            elif again:
                said.append(f"what was left of change {number} can't be taken back: passed over")
            else:
                passed.append(number)
                said.append(f"change {number} was overwritten: passed over")
                unmet += proposal.unmet
            newest = newest or found
        return newest

    def propose_reset(self) -> tuple[Proposal, tuple[int, ...]] | None:
        """What goes back to before nftop's first change; None where there is none to take back.

        What an undo left alone, since others had their hands on it then, is tried once more.
        """
        here = self._here()
        stands = {entry.number for entry in past.standing(here)}
        found = self._reversal(past.kept(here), "cat reset")
        if found is None:
            return None
        proposal = found[0]
        if not (stands or proposal.changes or proposal.refusals or proposal.unmet):
            return None
        cells = {each.cell for each in proposal.changes}
        numbers = [
            entry.number
            for entry in past.kept(here)
            if entry.number in stands
            or (not entry.undoes and cells & {each.cell for each in entry.changes})
        ]
        leaves = tuple(each for each in proposal.leaves if each in stands)
        return replace(proposal, leaves=leaves), tuple(numbers)

    def apply(
        self,
        proposal: Proposal,
        *,
        keep_within_s: float | None = KEEP_WITHIN_S,
        undoes: tuple[int, ...] = (),
    ) -> Settling:
        """Have a guard do it; with `keep_within_s` None it is kept at once."""
        asked = Asked(operator(), undoes)
        return self.begin(self.host, self.journal, proposal, asked, keep_within_s)

    def _reversal(
        self, entries: Sequence[Entry], words: str
    ) -> tuple[Proposal, tuple[int, ...]] | None:
        if not entries:
            return None
        made = [each.cell.group for entry in entries for each in entry.changes
                if each.cell.kind in ("group", "monitor") and each.old is None]  # fmt: skip
        inside = [Cell("task", "", name) for name in self.host.tasks(made, ())]
        identity, state = self.host.identity, self.host.state({*inside, *_threads(entries)})
        commands = (f"{self.program} {words}",) * self.lasts
        proposal = past.reversal(state, entries, self._here(), self.host.rules(), commands)
        numbers = tuple(entry.number for entry in entries)
        return replace(proposal, identity=identity), numbers

    def _here(self) -> list[Entry]:
        """All of this mount; what was before it is gone with the mount."""
        here = self.host.identity
        return [entry for entry in self.journal.history() if entry.identity == here]


def real_gate(host: Host) -> Gate:
    """The gate of this host: its journal, and a guard that outlives this process."""
    return Gate(host, FileJournal(), in_a_process, _PROGRAM)


def recover(journal: FileJournal) -> Receipt | None:
    """Have a guard take back what a crash left under way; None where nothing is."""
    journal.demand_own()
    if not journal.folder.exists():
        return None
    pending = _ask(recovery(journal.folder))
    return None if pending.receipt == _NOTHING else pending.receipt


def needed() -> str:
    """The privilege that a change needs and this process lacks; "" where it lacks none."""
    return "" if os.geteuid() == 0 else "changing classes needs root: run it with sudo"


def operator() -> str:
    """Who asks, for the audit trail: the user behind sudo where there is one."""
    known = os.environ.get("SUDO_USER")
    if known:
        return known[:64]
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


_NOTHING = Receipt("reverted", ("nothing was under way",))


def _ask(what: Mapping[str, Any]) -> Pending:
    ours, theirs = socket.socketpair()
    errors = os.fdopen(os.memfd_create("nftop"), "w+b")
    with theirs:
        folder = os.fspath(Path(__file__).resolve().parents[2])
        command = [sys.executable, "-I", "-c", _START, folder, "nftop.control.guard"]
        guard = subprocess.Popen(  # noqa: S603 - words of our own
            command,
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=errors,
            env=_ENVIRONMENT,
            start_new_session=True,
        )
    with contextlib.suppress(OSError):  # it ended at once: it has no answer then either
        ours.sendall(json.dumps(what).encode() + b"\n")
    return Pending(guard, ours, errors)


def _threads(entries: Iterable[Entry]) -> list[Cell]:
    return [
        change.cell for entry in entries for change in entry.changes if change.cell.kind == "task"
    ]
