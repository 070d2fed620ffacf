"""The gates of a host's parts as one: every proposal goes to the gate of the part it is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, get_args

from nftop.control.backend import AbsentError
from nftop.control.backends import CLASSES, part_of
from nftop.control.cpufreq.cpufreq import CPUFREQ
from nftop.control.gate import PartGate
from nftop.control.interface import Seen, Settling
from nftop.control.journal import Journal
from nftop.control.rules import Rules
from nftop.control.speed_select.backend import ISST
from nftop.model.change import Action, FrequencyAction, Proposal, SstAction
from nftop.model.error_text import describe_error
from nftop.model.keep_timeout import KEEP_WITHIN_S

AnyGate: TypeAlias = PartGate[Any]
_UNREAD = "{} can't be read now, so no change of them is looked for to be taken back: {}"
_PART_OF: Mapping[type[Action], str] = {
    **dict.fromkeys(get_args(FrequencyAction), CPUFREQ),
    **dict.fromkeys(get_args(SstAction), ISST),
}


@dataclass(frozen=True, slots=True)
class Joined:
    """Implements `interface.Changing`.

    Attributes:
        gates: by the part's name; one at least.
        absent: why a part can't be changed, by its name.
    """

    gates: Mapping[str, AnyGate]
    absent: Mapping[str, str]

    @property
    def host(self) -> Seen:
        """Its classes. Raises AbsentError where there are none."""
        host: Seen = self._of(CLASSES).host
        return host

    @property
    def program(self) -> str:
        return self._any.program

    @property
    def lasts(self) -> bool:
        return self._any.lasts

    def propose(self, actions: Sequence[Action], commands: tuple[str, ...] = ()) -> Proposal:
        """As `Gate.propose`; all the actions are of one part. Raises AbsentError."""
        [part] = {_PART_OF.get(type(action), CLASSES) for action in actions} or {CLASSES}
        return self._of(part).propose(actions, commands)

    def rules_for(self, proposal: Proposal) -> Rules:
        return self._about(proposal).rules_for(proposal)

    def writes(self, proposal: Proposal) -> tuple[str, ...]:
        return self._about(proposal).writes(proposal)

    def propose_undo(self, *, beyond: bool = False) -> tuple[Proposal, tuple[int, ...]] | None:
        """As `Gate.propose_undo`, of the part with the newest change that stands.

        Where nothing is left of that, the newest of another is tried. A part that can't be read
        holds up no other, and is a warning; the proposal is then not final.

        Raises:
            OSError: a part can't be read, and no other has anything to be taken back.
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
            if _says(planned[0]):
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
    ) -> Settling:
        gate = self._about(proposal)
        return gate.apply(proposal, keep_within_s=keep_within_s, undoes=undoes)

    @property
    def journal(self) -> Journal:
        """The one journal of all parts."""
        return self._any.journal

    def _newest_first(self) -> tuple[list[AnyGate], dict[str, OSError]]:
        """Those that can be read by their newest change, and why others can't, by subject."""
        numbers: list[tuple[int, AnyGate]] = []
        errors: dict[str, OSError] = {}
        for gate in self.gates.values():
            try:
                numbers.append((gate.newest(), gate))
            except OSError as error:
                errors[gate.host.subject] = error
        return [
            gate for _, gate in sorted(numbers, key=lambda number: number[0], reverse=True)
        ], errors

    @property
    def _any(self) -> AnyGate:
        return next(iter(self.gates.values()))

    def _about(self, proposal: Proposal) -> AnyGate:
        return self._of(part_of(proposal.identity))

    def _of(self, part: str) -> AnyGate:
        gate = self.gates.get(part)
        if gate is None:
            raise AbsentError(self.absent.get(part) or "nothing here changes it")
        return gate


def _says(proposal: Proposal) -> bool:
    return bool(proposal.changes or proposal.refusals or proposal.unmet)
