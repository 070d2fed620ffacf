"""A part of a host that can be read and changed: what a transaction has to know of it, and no more.

resctrl's classes are one (`classes`), the frequencies of CPUs another (`sst`). Each has its own
cells, its own order of writes and its own lock; the protocol, the journal, the history and the way
back are the same for all.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar

from nftop.control.journal_entry import Entry
from nftop.control.rules import Rules
from nftop.model.change import Action, Cell, Change, Proposal, State
from nftop.model.struct import dataclass

# The new value of a cell that the kernel gives by itself: a directory's number, what comes with a
# governor. It is known only once it is read back.
KERNELS = ""
# The number of a directory that does not exist yet: the kernel gives it.
UNBORN = KERNELS


# The key of the backend of cache classes, whichever interface they have.
CLASSES = ""


class LockedError(Exception):
    """Another program held the lock all the time; the text says which."""


class RefusedError(Exception):
    """The kernel refused a step; the text is what it said."""


class AbsentError(Exception):
    """There is nothing of the kind to change; the text says why and what to do."""


class BackendStep(Protocol):
    """One operation."""

    def delta(self, state: State) -> Mapping[Cell, str | None]:
        """What is different after it; None: not there."""


StepT = TypeVar("StepT")
HistoryReader: TypeAlias = Callable[[], Sequence[Entry]]


class Backend(Protocol[StepT]):
    """What can be changed. What reads raises OSError."""

    @property
    def identity(self) -> str:
        """Another after a boot, or whatever else leaves nothing of before to be undone.

        The boot comes first, then a blank, then the part's own (`part_of`). It is the same from
        every mount namespace.
        """

    @property
    def where(self) -> str:
        """Where it is, as operators know it."""

    @property
    def subject(self) -> str:
        """What it is in a sentence, many: `the classes`."""

    @property
    def renewed(self) -> str:
        """A sentence: why nothing of before is left after something else than a boot."""

    @property
    def reset_hint(self) -> str:
        """What goes back to before nftop's first change, to follow another hint; "" for nothing."""
        return ""

    def read(self, like: Iterable[Cell]) -> State:
        """The state, as far as a state of these cells had it."""

    def read_back(self, foreseen: State) -> State:
        """The same after a change that was to lead to this: what takes a moment is waited for."""

    def became(self, changes: Sequence[Change], state: State) -> tuple[Change, ...]:
        """Changes that were just made, with what the kernel has made of them where it may."""

    def reach(self, changes: Iterable[Change]) -> State:
        """The state, as far as it takes to turn these changes round."""

    def inside(self, groups: Collection[str]) -> Mapping[str, str]:
        """Who is in these directories, `TID@STARTTIME`, and his place in them."""

    def rules(self) -> Rules:
        """What classes it takes; none where it has none."""

    def steps(self, state: State, changes: Iterable[Change]) -> tuple[StepT, ...]:
        """The operations that take a state through changes, every one valid where it stands."""

    def forbidden(self, state: State, changes: Iterable[Change]) -> Iterator[str]:
        """Sentences: why these changes can't be in that state."""

    def plan(
        self, actions: Sequence[Action], commands: tuple[str, ...], history: HistoryReader
    ) -> Proposal:
        """What actions would do; `history` is what was done to it before, and may raise OSError."""

    def judged(
        self, base: State, target: State, changes: Sequence[Change], commands: tuple[str, ...]
    ) -> Proposal:
        """The proposal that these changes of `base`, which lead to `target`, are."""

    def shell(self, proposal: Proposal) -> tuple[str, ...]:
        """What would be written, in its order, as a shell would do it."""

    def do(self, step: StepT) -> None:
        """One operation. Raises RefusedError."""

    def lock(self, limit_s: float) -> contextlib.AbstractContextManager[None]:
        """Nobody who heeds the lock changes anything meanwhile. Raises LockedError."""


AnyBackend: TypeAlias = Backend[Any]


@dataclass(frozen=True, slots=True)
class BackendRow:
    """A row of the registry of backends.

    Attributes:
        key: names the backend; the second word of its identity, but for `CLASSES`.
        actions: those it plans; the backend of classes takes all others.
        open: opens this host's, to read and to plan. Raises AbsentError.
        open_for_guard: opens this host's, to be changed, by the second word of an identity and the
            journal's folder. Raises AbsentError.
    """

    key: str
    actions: tuple[type[Action], ...]
    open: Callable[[], AnyBackend]
    open_for_guard: Callable[[str, Path], AnyBackend]


def after(state: State, planned: Iterable[BackendStep]) -> State:
    """What the kernel makes of a state. The masks of a group just made are whatever it chose."""
    now = dict(state)
    for step in planned:
        advance(now, step.delta(now))
    return now


def touched(state: State, planned: Iterable[BackendStep]) -> Mapping[Cell, frozenset[str | None]]:
    """Every cell that is different at some time meanwhile, and all it is then and before."""
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
    """Have a state be another."""
    for cell, value in delta.items():
        if value is None:
            now.pop(cell, None)
        else:
            now[cell] = value


def goal(state: State, changes: Iterable[Change]) -> dict[Cell, str]:
    """What a state is to be after changes."""
    target = dict(state)
    advance(target, {change.cell: change.new for change in changes})
    return target


def boot_id(root: Path = Path("/")) -> str:
    """Another after every boot. Raises OSError."""
    return (root / "proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
