"""What every part with frequencies has in common, whoever's host it is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from nftop.control.backend import Backend, HistoryReader
from nftop.control.cpufreq.operations import CpufreqWrite, in_shell, writes
from nftop.control.cpufreq.plan import propose
from nftop.control.cpufreq.policies import CpufreqFacts
from nftop.control.history import kept, unverified
from nftop.control.journal_entry import DamagedJournalError, Entry
from nftop.control.rules import Rules
from nftop.model.change import Action, Cell, Change, Proposal, ReleaseCpus, State
from nftop.model.struct import replace


class FrequencyBackend(Backend[CpufreqWrite], Protocol):
    """A part whose cells are frequency policies."""

    def facts(self) -> CpufreqFacts:
        """What can be asked of it. Raises OSError.

        To tell its base frequency the kernel interrupts each CPU for some microseconds: for a
        preview that somebody asked for, never for what is only watched.
        """

    def keepers(self) -> tuple[str, ...]:
        """Who else may set what is set here, sentences."""

    def state(self) -> State:
        """Every policy in use. Raises OSError."""

    @property
    def subject(self) -> str:
        return "the frequencies"

    @property
    def renewed(self) -> str:
        return "cpufreq has another driver since, which undid it"

    def became(self, changes: Sequence[Change], state: State) -> tuple[Change, ...]:
        """Limits may be clamped: by another's request, or since turbo was switched off."""
        return tuple(
            replace(change, new=state.get(change.cell, change.new))
            if change.cell.kind in ("min_khz", "max_khz")
            else change
            for change in changes
        )

    def reach(self, changes: Iterable[Change]) -> State:
        return self.read([change.cell for change in changes])

    def inside(self, groups: Collection[str]) -> Mapping[str, str]:  # noqa: ARG002 - it has none
        return {}

    def rules(self) -> Rules:
        return Rules()

    def steps(self, state: State, changes: Iterable[Change]) -> tuple[CpufreqWrite, ...]:
        return writes(state, changes)

    def forbidden(
        self,
        state: State,  # noqa: ARG002 - what can't be is known when it is planned
        changes: Iterable[Change],  # noqa: ARG002
    ) -> Iterator[str]:
        return iter(())

    def plan(
        self, actions: Sequence[Action], commands: tuple[str, ...], history: HistoryReader
    ) -> Proposal:
        facts, state = self.facts(), self.state()
        known, unknown = list[Entry](), ""
        try:
            known += history()
        except PermissionError:
            unknown = "what it was before nftop's changes is not known: the journal is root's"
        except DamagedJournalError as error:
            unknown = f"what it was before nftop's changes is not known: {error}"
        proposal = propose(state, facts, known, actions, commands)
        others = self.keepers() if proposal.changes else ()
        if any(isinstance(action, ReleaseCpus) for action in actions):
            cells = {change.cell for change in proposal.changes}
            used = [item for item in kept(known) if cells & {row.cell for row in item.changes}]
            others = (*unverified(used), *others)
        return replace(proposal, warnings=(*[unknown] * bool(unknown), *proposal.warnings, *others))

    def judged(
        self, base: State, target: State, changes: Sequence[Change], commands: tuple[str, ...]
    ) -> Proposal:
        del target
        own = {(change.cell.number, change.cell.name) for change in changes}
        seen = {cell: value for cell, value in base.items() if (cell.number, cell.name) in own}
        keepers = self.keepers() if changes else ()
        return Proposal(seen, tuple(changes), warnings=keepers, commands=commands)

    def shell(self, proposal: Proposal) -> tuple[str, ...]:
        planned = writes(proposal.base, proposal.changes)
        return (f"cd {self.where}", *in_shell(planned)) if planned else ()


def state_of_policies(state: State, like: Iterable[Cell]) -> State:
    """Of a state the policies that these cells are of."""
    own = {(cell.number, cell.name) for cell in like}
    return {cell: value for cell, value in state.items() if (cell.number, cell.name) in own}
