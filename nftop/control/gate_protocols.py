"""The gate for screens and commands, as protocols; it imports no source and no host."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from nftop.control.rdt_limits import Rules
from nftop.model.change import Action, Cell, Change, Proposal, Receipt, State
from nftop.model.keep_timeout import KEEP_WITHIN_S


class ClassView(Protocol):
    """Reads the cache classes of a host. Blocks: not for the screen's own thread."""

    @property
    def where(self) -> str:
        """Mount point of resctrl for operators."""

    def state(self, threads: Iterable[Cell] = ()) -> State:
        """The whole state, with the groups of these threads. Raises OSError."""

    def tasks(self, groups: Collection[str], tids: Collection[int]) -> Mapping[str, str]:
        """Groups by thread (`TID@STARTTIME`) of those in `groups` and those in `tids`."""

    def rules(self) -> Rules:
        """What the host accepts. Raises OSError."""


class PendingChange(Protocol):
    """A requested change, as `guard_client.GuardedChange`."""

    @property
    def receipt(self) -> Receipt:
        """Latest report."""

    def keep(self) -> Receipt:
        """Keep the change."""

    def revert(self) -> Receipt:
        """Take the change back now."""

    def settled(self, seconds: float) -> Receipt | None:
        """Final report, or None if it is not known within so many seconds."""


class PendingSeries(Protocol):
    """Settings that are tried in turn, as `guard_client.GuardedSeries`; never kept."""

    @property
    def receipt(self) -> Receipt:
        """Latest report; any outcome but `applied` is the final one."""

    def try_setting(self, number: int) -> Receipt:
        """Put a setting on the host."""

    def alive(self) -> None:
        """Tell the guard that somebody watches."""

    def end(self) -> Receipt:
        """Restore the state before the series; the final report."""

    def settled(self, seconds: float) -> Receipt | None:
        """Final report, or None if it is not known within so many seconds."""


class Gate(Protocol):
    """Changes of a host. Every method may block, and raise OSError."""

    @property
    def program(self) -> str:
        """First words of command lines for this host."""

    @property
    def persistent(self) -> bool:
        """Whether a later process can undo the changes."""

    def propose(self, actions: Sequence[Action], commands: tuple[str, ...] = ()) -> Proposal:
        """Preview of the actions, or of equivalent command lines; nothing is written."""

    def rules_for(self, proposal: Proposal) -> Rules:
        """Rules of the backend that a proposal is for; empty if it has no classes."""

    def writes(self, proposal: Proposal) -> tuple[str, ...]:
        """The writes of a proposal as shell commands, in order."""

    def propose_undo(self) -> tuple[Proposal, tuple[int, ...]] | None:
        """Proposal that undoes the last kept change, and its number; None if there is none."""

    def propose_reset(self) -> tuple[Proposal, tuple[int, ...]] | None:
        """Proposal that restores the state before nftop's first change; None if there is none."""

    def apply(
        self,
        proposal: Proposal,
        *,
        keep_within_s: float | None = KEEP_WITHIN_S,
        undoes: tuple[int, ...] = (),
    ) -> PendingChange:
        """Make the change; with `keep_within_s` None it is kept at once."""


class SeriesGate(Protocol):
    """Settings of a host that are tried in turn. May block, and raise OSError."""

    def begin_series(
        self, proposal: Proposal, settings: Sequence[Sequence[Change]]
    ) -> PendingSeries:
        """Prepare settings to be tried in turn; nothing is written yet.

        `proposal` has the state before them, and every value that they may write.
        """


class ClassGate(Gate, SeriesGate, Protocol):
    """Changes of a host that may have cache classes."""

    @property
    def host(self) -> ClassView:
        """The classes. May raise AbsentError."""
