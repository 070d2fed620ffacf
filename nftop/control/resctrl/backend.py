"""Cache classes as a backend: what resctrl, MSRs and the simulated host share."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from nftop.control import change_history as past
from nftop.control.backend import Backend, HistoryReader
from nftop.control.journal_damage import DamagedJournalError
from nftop.control.rdt_limits import Rules
from nftop.control.resctrl.messages import foreign_group_messages
from nftop.control.resctrl.operations import ResctrlStep, shell, steps
from nftop.control.resctrl.plan import checked_proposal, forbidden, propose
from nftop.model.change import (
    DIRECTORIES,
    Action,
    Cell,
    Change,
    CreateMonitor,
    MoveTasks,
    Proposal,
    Refusal,
    RemoveGroup,
    RemoveMonitor,
    State,
)
from nftop.model.struct import replace


class ClassBackend(Backend[ResctrlStep], Protocol):
    @property
    def subject(self) -> str:
        return "the classes"

    @property
    def renewed(self) -> str:
        return (
            "resctrl was unmounted and mounted again since, which removed every group and reset "
            "every mask and limit: nothing of it is left, and nothing is written"
        )

    @property
    def reset_hint(self) -> str:
        return ", `nftop cat reset` takes back all that can be"

    def state(self, threads: Iterable[Cell] = ()) -> State:
        """The whole state, with the groups of these threads except those that ended."""

    def tasks(self, groups: Collection[str], tids: Collection[int]) -> Mapping[str, str]:
        """As `gate_protocols.ClassView.tasks`."""

    def rules(self) -> Rules: ...

    def read(self, like: Iterable[Cell]) -> State:
        return self.state([cell for cell in like if cell.kind == "task"])

    def reach(self, changes: Iterable[Change]) -> State:
        rows = list(changes)
        created = [
            row.cell.group for row in rows if row.cell.kind in DIRECTORIES and row.old is None
        ]
        inside = [Cell("task", "", name) for name in self.tasks(created, ())]
        return self.state({*inside, *(row.cell for row in rows if row.cell.kind == "task")})

    def inside(self, groups: Collection[str]) -> Mapping[str, str]:
        return self.tasks(groups, ())

    def steps(self, state: State, changes: Iterable[Change]) -> tuple[ResctrlStep, ...]:
        return steps(state, changes)

    def forbidden(self, state: State, changes: Iterable[Change]) -> Iterator[Refusal]:
        return forbidden(state, changes)

    def plan(
        self, actions: Sequence[Action], commands: tuple[str, ...], history: HistoryReader
    ) -> Proposal:
        threads = [item for item in actions if isinstance(item, MoveTasks | CreateMonitor)]
        tids = [tid for action in threads for tid in action.tids]
        going = [item.group for item in actions if isinstance(item, RemoveGroup | RemoveMonitor)]
        rules = replace(self.rules(), tasks=self.tasks(going, tids))
        state = self.state()
        proposal = propose(state, rules, actions, commands)
        if not going or proposal.refusals:
            return proposal
        try:
            messages = list(
                foreign_group_messages(state, rules, proposal.changes, past.newest(history()))
            )
        except (PermissionError, DamagedJournalError) as error:
            why = "its journal is root's" if isinstance(error, PermissionError) else error
            messages = [f"whether nftop made what is to go is not known: {why}"]
        return replace(proposal, warnings=(*messages, *proposal.warnings))

    def checked_proposal(
        self, base: State, target: State, changes: Sequence[Change], commands: tuple[str, ...]
    ) -> Proposal:
        return checked_proposal(base, target, changes, self.rules(), commands)

    def shell(self, proposal: Proposal) -> tuple[str, ...]:
        return tuple(shell(step, self.where) for step in steps(proposal.base, proposal.changes))
