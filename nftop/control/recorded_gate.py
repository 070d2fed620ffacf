"""A gate whose changes are reported, to be written into a recording."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from nftop.control.backend import CLASSES
from nftop.control.backends import key_of
from nftop.control.interface import ClassGate, ClassView, PendingChange
from nftop.control.rules import Rules
from nftop.model.change import Action, Proposal, Receipt
from nftop.model.keep_timeout import KEEP_WITHIN_S

# Takes a message, and whether it is about cache classes.
Tell = Callable[[str, bool], None]


class RecordedGate:
    """Wraps a `ClassGate` and reports changes. `tell` must not block; names in it are untrusted."""

    def __init__(self, gate: ClassGate, tell: Tell) -> None:
        self._gate = gate
        self._tell = tell

    @property
    def host(self) -> ClassView:
        return self._gate.host

    @property
    def program(self) -> str:
        return self._gate.program

    @property
    def persistent(self) -> bool:
        return self._gate.persistent

    def propose(self, actions: Sequence[Action], commands: tuple[str, ...] = ()) -> Proposal:
        return self._gate.propose(actions, commands)

    def rules_for(self, proposal: Proposal) -> Rules:
        return self._gate.rules_for(proposal)

    def writes(self, proposal: Proposal) -> tuple[str, ...]:
        return self._gate.writes(proposal)

    def propose_undo(self) -> tuple[Proposal, tuple[int, ...]] | None:
        return self._gate.propose_undo()

    def propose_reset(self) -> tuple[Proposal, tuple[int, ...]] | None:
        return self._gate.propose_reset()

    def apply(
        self,
        proposal: Proposal,
        *,
        keep_within_s: float | None = KEEP_WITHIN_S,
        undoes: tuple[int, ...] = (),
    ) -> PendingChange:
        pending = self._gate.apply(proposal, keep_within_s=keep_within_s, undoes=undoes)
        self._tell(_message(proposal, pending.receipt), _of_classes(proposal))
        return _RecordedSettling(pending, proposal, self._tell)


class _RecordedSettling:
    """A `PendingChange` that reports each outcome once."""

    def __init__(self, pending: PendingChange, proposal: Proposal, tell: Tell) -> None:
        self._pending = pending
        self._proposal = proposal
        self._tell = tell
        self._reported = pending.receipt.outcome

    @property
    def receipt(self) -> Receipt:
        return self._pending.receipt

    def keep(self) -> Receipt:
        return self._ended(self._pending.keep())

    def revert(self) -> Receipt:
        return self._ended(self._pending.revert())

    def settled(self, seconds: float) -> Receipt | None:
        receipt = self._pending.settled(seconds)
        return None if receipt is None else self._ended(receipt)

    def _ended(self, receipt: Receipt) -> Receipt:
        if receipt.outcome != self._reported:
            self._reported = receipt.outcome
            self._tell(_message(self._proposal, receipt), _of_classes(self._proposal))
        return receipt


def _of_classes(proposal: Proposal) -> bool:
    return key_of(proposal.identity) == CLASSES


def _message(proposal: Proposal, receipt: Receipt) -> str:
    what = "; ".join(proposal.commands) or f"a change of {len(proposal.changes)} cells"
    return "; ".join((f"{receipt.outcome}: {what}", *receipt.sentences))
