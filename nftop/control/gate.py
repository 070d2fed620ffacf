"""The gate, by which commands and screens change the host. It writes nothing itself."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Generic, TypeAlias, TypeVar

from nftop.control import change_history
from nftop.control.backend import CLASSES, AbsentError, AnyBackend
from nftop.control.backends import BACKENDS, key_of
from nftop.control.gate_protocols import ClassView, PendingChange, PendingSeries
from nftop.control.guard_client import start_guard, start_series
from nftop.control.journal import FileJournal, Journal, hinted
from nftop.control.journal_entry import Entry, Requester
from nftop.control.rdt_limits import Rules
from nftop.control.resctrl.backend import ClassBackend
from nftop.model.change import Action, Change, Outcome, Proposal, Receipt
from nftop.model.error_text import describe_error
from nftop.model.keep_timeout import KEEP_WITHIN_S
from nftop.model.number_text import counted
from nftop.model.struct import dataclass, replace

_PAST = ": `nftop undo --past` passes over it"
_PROGRAM = "nftop"
BackendT = TypeVar("BackendT", bound=AnyBackend)
_UNREAD = "{} can't be read now, so no change of them is looked for to be taken back: {}"
_KEY_OF_ACTION: Mapping[type[Action], str] = {
    action: row.key for row in BACKENDS.values() for action in row.actions
}
# Starts a guard, which makes a change and reverts it unless it is kept within so many seconds;
# None: it is kept at once.
StartGuard: TypeAlias = Callable[
    [AnyBackend, Journal, Proposal, Requester, float | None], PendingChange
]
# Starts a guard for settings that are tried in turn.
StartSeries: TypeAlias = Callable[
    [AnyBackend, Journal, Proposal, Sequence[Sequence[Change]], Requester], PendingSeries
]
# Receives a message on a change (untrusted text), and whether it is about cache classes. It must
# not block.
ReportChange: TypeAlias = Callable[[str, bool], None]


# No slots: typing sets an attribute on instances of a subscripted class.
@dataclass(frozen=True)
class BackendGate(Generic[BackendT]):
    """Implements `interface.Gate` for one backend; `begin`, `series` start the guard."""

    host: BackendT
    journal: Journal
    begin: StartGuard
    program: str
    series: StartSeries = start_series

    @property
    def persistent(self) -> bool:
        return self.journal.persistent

    def propose(self, actions: Sequence[Action], commands: tuple[str, ...] = ()) -> Proposal:
        identity = self.host.identity
        return replace(self.host.plan(actions, commands, self._here), identity=identity)

    def rules_for(self, proposal: Proposal) -> Rules:  # noqa: ARG002 - there is one backend
        return self.host.rules()

    def newest(self) -> int:
        """Number of the last change in effect, or 0."""
        return max((entry.number for entry in change_history.in_effect(self._here())), default=0)

    def writes(self, proposal: Proposal) -> tuple[str, ...]:
        return self.host.shell(proposal)

    def propose_undo(self, *, beyond: bool = False) -> tuple[Proposal, tuple[int, ...]] | None:
        """Proposal that undoes the last kept change, and its number; None if there is none.

        It is `Proposal.final` unless a newer change of any backend stands. A change that was
        reverted only in part because something was offline counts as kept (`history.in_effect`).

        A change of which nothing is left, because it was undone by hand, is skipped with a warning
        and counts as undone with the one before it. A change that others have overwritten stops the
        search, with nothing to change, unless it is skipped on purpose (`beyond`). The rest of such
        a change, or of one that was undone in part, is tried again each time and does not stop it.
        """
        here = self._here()
        in_effect, tried = change_history.in_effect(here), change_history.tried(here)
        gone, passed, messages = list[int](), list[int](), list[str]()
        unmet, newest = tuple[str, ...](), None
        for entry in reversed(in_effect):
            planned = self._reversal(
                change_history.with_undoing(entry, here), "undo" + " --past" * beyond
            )
            if planned is None:
                continue
            proposal, number = planned[0], entry.number
            again = number in tried
            stops = bool(proposal.unmet) and not (beyond or again)
            if proposal.changes or proposal.refusals or stops:
                if stops and not proposal.changes and entry is not in_effect[0]:
                    hint = hinted(self.journal, _PAST + self.host.reset_hint)
                    messages.append(f"nothing older is taken back before change {number}{hint}")
                whole = replace(
                    proposal,
                    warnings=(*messages, *proposal.warnings),
                    unmet=(*unmet, *proposal.unmet),
                    leaves=(*proposal.leaves, *reversed(passed)),
                )
                return self._with_finality(whole, (number, *reversed(gone)))
            if not proposal.unmet:
                gone.append(number)
                messages.append(f"nothing is left of change {number} to take back: passed over")
            elif again:
                messages.append(
                    f"what was left of change {number} can't be taken back: passed over"
                )
            else:
                passed.append(number)
                messages.append(f"change {number} was overwritten: passed over")
                unmet += proposal.unmet
            newest = newest or planned
        return newest

    def propose_reset(self) -> tuple[Proposal, tuple[int, ...]] | None:
        """Proposal that restores the state before nftop's first change; None if there is none.

        Cells that an undo left alone because others had changed them are tried once more.
        """
        here = self._here()
        stands = {entry.number for entry in change_history.in_effect(here)}
        entries = change_history.with_targets(change_history.revertible(here))
        planned = self._reversal(entries, "cat reset")
        if planned is None:
            return None
        proposal = planned[0]
        if not (stands or proposal.changes or proposal.refusals or proposal.unmet):
            return None
        cells = {change.cell for change in proposal.changes}
        numbers = [
            entry.number
            for entry in entries
            if entry.number in stands
            or (not entry.undoes and cells & {change.cell for change in entry.changes})
        ]
        leaves = tuple(leave for leave in proposal.leaves if leave in stands)
        return self._with_finality(replace(proposal, leaves=leaves), tuple(numbers))

    def apply(
        self,
        proposal: Proposal,
        *,
        keep_within_s: float | None = KEEP_WITHIN_S,
        undoes: tuple[int, ...] = (),
    ) -> PendingChange:
        requester = Requester(operator(), undoes)
        return self.begin(self.host, self.journal, proposal, requester, keep_within_s)

    def begin_series(
        self, proposal: Proposal, settings: Sequence[Sequence[Change]]
    ) -> PendingSeries:
        return self.series(self.host, self.journal, proposal, settings, Requester(operator()))

    def _with_finality(
        self, proposal: Proposal, numbers: tuple[int, ...]
    ) -> tuple[Proposal, tuple[int, ...]]:
        """A proposal that undoes these changes, with `Proposal.final`, and their numbers."""
        final = change_history.is_newest(numbers, self.journal.history(), self.host.identity)
        return replace(proposal, final=final), numbers

    def _reversal(
        self, entries: Sequence[Entry], words: str
    ) -> tuple[Proposal, tuple[int, ...]] | None:
        if not entries:
            return None
        identity = self.host.identity
        state = self.host.reach(change for entry in entries for change in entry.changes)
        commands = (f"{self.program} {words}",) * self.persistent
        judge = partial(self.host.checked_proposal, commands=commands)
        waiting = change_history.waiting(entries, self._here())
        initial = change_history.initial_values(waiting, self.host.rules()) if waiting else {}
        proposal = change_history.reversal(state, entries, self._here(), judge, initial)
        numbers = tuple(entry.number for entry in entries)
        warnings = (*change_history.unverified(entries), *proposal.warnings)
        return replace(proposal, identity=identity, warnings=warnings), numbers

    def _here(self) -> list[Entry]:
        """Entries of this backend that are still in effect: since the last boot or mount."""
        here = self.host.identity
        return [entry for entry in self.journal.history() if entry.identity == here]


BackendClassGate: TypeAlias = BackendGate[ClassBackend]


def open_gate(host: BackendT) -> BackendGate[BackendT]:
    """The gate of a backend of this host, with its journal and a guard in a process of its own."""
    return BackendGate(host, FileJournal(), start_guard, _PROGRAM)


def open_host_gate(
    refused: Mapping[str, str] = MappingProxyType({}),
) -> tuple[HostGate | None, Mapping[str, str]]:
    """The gate of this host (None if nothing can be changed), and why backends are absent.

    `refused`: by key, backends that are not opened, and why.
    """
    gates: dict[str, AnyBackendGate] = {}
    absent = dict(refused)
    for key, row in BACKENDS.items():
        if key in refused:
            continue
        try:
            gates[key] = open_gate(row.open())
        except AbsentError as error:
            absent[key] = str(error)
    return HostGate(gates, absent) if gates else None, absent


def missing_privilege() -> str:
    """Message on the privilege that changes need and this process lacks; "" if none."""
    return "" if os.geteuid() == 0 else "changes need root: run it with sudo"


def operator() -> str:
    """Operator for the audit trail: under sudo the invoking user."""
    known = os.environ.get("SUDO_USER")
    if known:
        return known[:64]
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


AnyBackendGate: TypeAlias = BackendGate[Any]


@dataclass(frozen=True, slots=True)
class HostGate:
    """Implements `gate_protocols.ClassGate`; `absent`: why a backend is missing, by its key.

    Attributes:
        gates: by key of the backend; at least one.
        report: receives each change that is applied, and its outcome once.
    """

    gates: Mapping[str, AnyBackendGate]
    absent: Mapping[str, str]
    report: ReportChange | None = None

    @property
    def host(self) -> ClassView:
        """Its classes. Raises AbsentError if there are none."""
        host: ClassView = self._of(CLASSES).host
        return host

    @property
    def program(self) -> str:
        return self._any.program

    @property
    def persistent(self) -> bool:
        return self._any.persistent

    def propose(self, actions: Sequence[Action], commands: tuple[str, ...] = ()) -> Proposal:
        """As `BackendGate.propose`; all actions are of one backend. Raises AbsentError."""
        unknown = [
            type(action).__name__ for action in actions if type(action) not in _KEY_OF_ACTION
        ]
        if unknown:
            raise AbsentError(f"no backend here plans {unknown[0]}")
        [key] = {_KEY_OF_ACTION[type(action)] for action in actions} or {CLASSES}
        return self._of(key).propose(actions, commands)

    def rules_for(self, proposal: Proposal) -> Rules:
        return self._about(proposal).rules_for(proposal)

    def writes(self, proposal: Proposal) -> tuple[str, ...]:
        return self._about(proposal).writes(proposal)

    def propose_undo(self, *, beyond: bool = False) -> tuple[Proposal, tuple[int, ...]] | None:
        """As `BackendGate.propose_undo`, for the backend with the newest change that stands.

        If nothing is left of that, the newest of another is tried. A backend that can't be read is
        a warning and does not stop the others; the proposal is then not final. Raises OSError: a
        backend can't be read, and no other has anything to undo.
        """
        gates, errors = self._newest_first()
        plans: list[tuple[Proposal, tuple[int, ...]]] = []
        for gate in gates:
            try:
                planned = gate.propose_undo(beyond=beyond)
            except OSError as error:
                errors[gate.host.subject] = error
                continue
            if planned is None:
                continue
            if planned[0].changes or planned[0].refusals or planned[0].unmet:
                plans = [planned]
                break
            plans.append(planned)
        if not plans and errors:
            raise next(iter(errors.values()))
        if not plans:
            return None
        proposal, numbers = plans[0]
        unread = tuple(
            _UNREAD.format(what, describe_error(error)) for what, error in errors.items()
        )
        warnings = (*unread, *proposal.warnings)
        return replace(proposal, warnings=warnings, final=proposal.final and not errors), numbers

    def propose_reset(self) -> tuple[Proposal, tuple[int, ...]] | None:
        return self._of(CLASSES).propose_reset()

    def apply(
        self,
        proposal: Proposal,
        *,
        keep_within_s: float | None = KEEP_WITHIN_S,
        undoes: tuple[int, ...] = (),
    ) -> PendingChange:
        gate = self._about(proposal)
        pending = gate.apply(proposal, keep_within_s=keep_within_s, undoes=undoes)
        return pending if self.report is None else ReportedChange(pending, proposal, self.report)

    def begin_series(
        self, proposal: Proposal, settings: Sequence[Sequence[Change]]
    ) -> PendingSeries:
        return self._about(proposal).begin_series(proposal, settings)

    @property
    def journal(self) -> Journal:
        return self._any.journal

    def _newest_first(self) -> tuple[list[AnyBackendGate], dict[str, OSError]]:
        """Readable gates, newest change first, and errors of the others by subject."""
        numbers: list[tuple[int, AnyBackendGate]] = []
        errors: dict[str, OSError] = {}
        for gate in self.gates.values():
            try:
                numbers.append((gate.newest(), gate))
            except OSError as error:
                errors[gate.host.subject] = error
        numbers.sort(key=lambda number: number[0], reverse=True)
        return [gate for _, gate in numbers], errors

    @property
    def _any(self) -> AnyBackendGate:
        return next(iter(self.gates.values()))

    def _about(self, proposal: Proposal) -> AnyBackendGate:
        return self._of(key_of(proposal.identity))

    def _of(self, key: str) -> AnyBackendGate:
        gate = self.gates.get(key)
        if gate is None:
            raise AbsentError(self.absent.get(key) or "nothing here changes it")
        return gate


class ReportedChange:
    """A `PendingChange` that reports its first outcome, and the next that differs."""

    def __init__(self, pending: PendingChange, proposal: Proposal, report: ReportChange) -> None:
        self._pending = pending
        count = len(proposal.changes)
        self._what = "; ".join(proposal.commands) or counted(count, "value")
        self._of_classes = key_of(proposal.identity) == CLASSES
        self._report = report
        self._reported: Outcome | None = None
        self._noted(pending.receipt)

    @property
    def receipt(self) -> Receipt:
        return self._pending.receipt

    def keep(self) -> Receipt:
        return self._noted(self._pending.keep())

    def revert(self) -> Receipt:
        return self._noted(self._pending.revert())

    def settled(self, seconds: float) -> Receipt | None:
        receipt = self._pending.settled(seconds)
        return None if receipt is None else self._noted(receipt)

    def _noted(self, receipt: Receipt) -> Receipt:
        if receipt.outcome != self._reported:
            self._reported = receipt.outcome
            message = "; ".join((f"{receipt.outcome}: {self._what}", *receipt.sentences))
            self._report(message, self._of_classes)
        return receipt
