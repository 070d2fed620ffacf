"""Interface of a backend: something on the host that can be changed.

Cache classes are one, frequencies of CPUs another. A backend has its own cells, order of writes and
lock; the transaction, the journal, the history and the undo are common.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

from nftop.control.journal_entry import Entry
from nftop.control.rdt_limits import Rules
from nftop.model.change import Action, Cell, Change, Proposal, ReasonCode, Refusal, State
from nftop.model.struct import dataclass

# New value of a cell that the kernel chooses (the number of a directory, the EPP of a governor):
# known only once it is read back.
KERNEL_ASSIGNED = ""
# Key of the backend of cache classes, by resctrl or by MSRs.
CLASSES = ""
StepT = TypeVar("StepT")
HistoryReader: TypeAlias = Callable[[], Sequence[Entry]]
_PAUSE_S = 0.005
_MOMENT_S = 1.0  # longer than a program with part in a lock holds it


class LockedError(Exception):
    """Another program held the lock until the timeout; the text names it."""


class RefusedError(Exception):
    """The kernel refused a step; the text is its message."""


class AbsentError(Exception):
    """The host has nothing of this kind; the text says why and what to do."""


class BackendStep(Protocol):
    def delta(self, state: State) -> Mapping[Cell, str | None]:
        """Cells that differ after it; None: removed."""


class Refusals(list[Refusal]):
    """Refusals of a plan, in the order in which they are found."""

    def add(self, code: ReasonCode, sentence: str) -> None:
        self.append(Refusal(code, sentence))


class Backend(Protocol[StepT]):
    """Something on the host that can be changed. Methods that read raise OSError."""

    @property
    def identity(self) -> str:
        """Changes with a boot, or anything else after which nothing is left to undo.

        The boot, a blank, and the backend's own words (`backends.key_of`); the same in every mount
        namespace.
        """

    @property
    def where(self) -> str:
        """Its path or tool as operators know it."""

    @property
    def subject(self) -> str:
        """Its name in a message, plural: `the classes`."""

    @property
    def renewed(self) -> str:
        """Message: why nothing is left to undo although the host was not booted."""

    @property
    def reset_hint(self) -> str:
        """Hint on restoring the state before nftop's first change, to append; "" if impossible."""
        return ""

    def read(self, like: Iterable[Cell]) -> State:
        """State, limited to what a state of these cells contains."""

    def read_back(self, foreseen: State) -> State:
        """State after a change that should lead to `foreseen`; waits for delayed effects."""
        return self.read(foreseen)

    def became(self, changes: Sequence[Change], state: State) -> tuple[Change, ...]:  # noqa: ARG002 - nothing is clamped
        """The changes with the values that the kernel has turned them into where it may."""
        return tuple(changes)

    def reach(self, changes: Iterable[Change]) -> State:
        """State, limited to what an undo of these changes needs."""
        return self.read([change.cell for change in changes])

    def inside(self, groups: Collection[str]) -> Mapping[str, str]:  # noqa: ARG002 - it has none
        """Groups by thread (`TID@STARTTIME`) for the threads in these groups."""
        return {}

    def rules(self) -> Rules:
        """Limits on its cache classes; empty if it has none."""
        return Rules()

    def steps(self, state: State, changes: Iterable[Change]) -> tuple[StepT, ...]:
        """Operations for these changes, in an order in which each one is valid."""

    def forbidden(self, state: State, changes: Iterable[Change]) -> Iterator[Refusal]:  # noqa: ARG002 - known when planned
        """Why these changes are not possible in that state."""
        return iter(())

    def plan(
        self, actions: Sequence[Action], commands: tuple[str, ...], history: HistoryReader
    ) -> Proposal:
        """Preview of actions; `history` reads the earlier changes, and may raise OSError."""

    def checked_proposal(
        self, base: State, target: State, changes: Sequence[Change], commands: tuple[str, ...]
    ) -> Proposal:
        """Proposal for changes of `base` that lead to `target`."""

    def shell(self, proposal: Proposal) -> tuple[str, ...]:
        """The writes of a proposal as shell commands, in order."""

    def do(self, step: StepT) -> None:
        """Perform one operation. Raises RefusedError."""

    def lock(self, limit_s: float) -> contextlib.AbstractContextManager[None]:
        """Hold the lock that cooperating programs respect. Raises LockedError."""


AnyBackend: TypeAlias = Backend[Any]


@dataclass(frozen=True, slots=True)
class BackendRow:
    """A row of the registry of backends. `open` and `open_for_guard` raise AbsentError.

    Attributes:
        key: the second word of its identity, except for `CLASSES`.
        actions: those it plans.
        open: opens it to read and to plan.
        open_for_guard: opens it to write; takes that word, and the journal's folder.
    """

    key: str
    actions: tuple[type[Action], ...]
    open: Callable[[], AnyBackend]
    open_for_guard: Callable[[str, Path], AnyBackend]


def after(state: State, planned: Iterable[BackendStep]) -> State:
    """State after operations. The masks of a new group are what the kernel chose."""
    now = dict(state)
    for step in planned:
        advance(now, step.delta(now))
    return now


def touched(state: State, planned: Iterable[BackendStep]) -> Mapping[Cell, frozenset[str | None]]:
    """Every cell that changes at any time, with all its values including the first."""
    seen: dict[Cell, set[str | None]] = {}
    now = dict(state)
    for step in planned:
        change = step.delta(now)
        for cell, value in change.items():
            if now.get(cell) != value:
                seen.setdefault(cell, {state.get(cell)}).add(value)
        advance(now, change)
    return {cell: frozenset(values) for cell, values in seen.items()}


def advance(now: dict[Cell, str], delta: Mapping[Cell, str | None]) -> None:
    """Apply a delta to a state, in place."""
    for cell, value in delta.items():
        if value is None:
            now.pop(cell, None)
        else:
            now[cell] = value


def goal(state: State, changes: Iterable[Change]) -> dict[Cell, str]:
    target = dict(state)
    advance(target, {change.cell: change.new for change in changes})
    return target


def boot_id(root: Path = Path("/")) -> str:
    return (root / "proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


@contextlib.contextmanager
def own_lock(folder: Path, name: str, limit_s: float) -> Iterator[None]:
    """Hold the lock of a file. Raises LockedError, OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(folder / name, flags, 0o600)
    with hold_flock(handle, limit_s, lambda: f"another program has held {name}"):
        yield


@contextlib.contextmanager
def hold_flock(
    handle: int, limit_s: float, holder: Callable[[], str], void: Callable[[], bool] | None = None
) -> Iterator[None]:
    """Hold flock(2) of an open file, exclusively; closes the file, which releases the lock.

    `holder`: beginning of the message of LockedError, raised after `limit_s`. `void`: whether the
    lock that another process holds does not count; asked after _MOMENT_S.
    """
    try:
        at_first_s = limit_s if void is None else min(limit_s, _MOMENT_S)
        taken = take_flock(handle, at_first_s) or (void is not None and void())
        if not taken and not take_flock(handle, limit_s - at_first_s):
            raise LockedError(f"{holder()} for {limit_s:g} s")
        yield
    finally:
        os.close(handle)


def take_flock(handle: int, limit_s: float) -> bool:
    """Lock an open file by flock(2), exclusively; False if another has held it for `limit_s`."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_PAUSE_S)
        else:
            return True
