"""The gate as screens and commands see it, whichever host is behind it.

Only what is needed to ask and to look: this module reaches no source and no host, so that the
screen may know it. `gate.BackendGate` is one, of the kernel's resctrl or of the simulated host's.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from nftop.control.rules import Rules
from nftop.model.change import Action, Cell, Proposal, Receipt, State
from nftop.model.keep_timeout import KEEP_WITHIN_S


class ClassView(Protocol):
    """A host that can be changed, to be looked at only. Not for the screen's own thread."""

    @property
    def where(self) -> str:
        """Where its resctrl is mounted, as operators know it."""

    def state(self, threads: Iterable[Cell] = ()) -> State:
        """Everything there is, and the places of these threads. Raises OSError."""

    def tasks(self, groups: Collection[str], tids: Collection[int]) -> Mapping[str, str]:
        """Threads, as `TID@STARTTIME`, and their places: those in these groups, and these."""

    def rules(self) -> Rules:
        """What it takes. Raises OSError."""


class PendingChange(Protocol):
    """A change that was asked for, as `guard_client.GuardedChange`."""

    @property
    def receipt(self) -> Receipt:
        """What became of it so far."""

    def keep(self) -> Receipt:
        """It stays."""

    def revert(self) -> Receipt:
        """Take it back now."""

    def settled(self, seconds: float) -> Receipt | None:
        """What became of it in the end, if that is known within so many seconds; else None."""


class Gate(Protocol):
    """Changes of a host, as `gate.BackendGate`. Each method may wait, or raise OSError."""

    @property
    def program(self) -> str:
        """The words that command lines about this host begin with."""

    @property
    def lasts(self) -> bool:
        """Whether the next process finds what was changed, and can undo it."""

    def propose(self, actions: Sequence[Action], commands: tuple[str, ...] = ()) -> Proposal:
        """What the actions would do, as these command lines would; nothing is written."""

    def rules_for(self, proposal: Proposal) -> Rules:
        """What classes the part takes that a proposal is about; none where it has none."""

    def writes(self, proposal: Proposal) -> tuple[str, ...]:
        """What would be written, in its order, as a shell would do it."""

    def propose_undo(self) -> tuple[Proposal, tuple[int, ...]] | None:
        """What takes the last kept change back, and its number; None where there is none."""

    def propose_reset(self) -> tuple[Proposal, tuple[int, ...]] | None:
        """What goes back to before nftop's first change; None where there is none to take back."""

    def apply(
        self,
        proposal: Proposal,
        *,
        keep_within_s: float | None = KEEP_WITHIN_S,
        undoes: tuple[int, ...] = (),
    ) -> PendingChange:
        """Have it done; with `keep_within_s` None it is kept at once."""


class ClassGate(Gate, Protocol):
    """Changes of a host, classes among them, by `gate.BackendGate` or `gate.HostGate`."""

    @property
    def host(self) -> ClassView:
        """What has classes. May raise AbsentError."""
