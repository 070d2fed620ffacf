"""What an operator may ask for, and what is planned for it before anything is written.

The state of resctrl is a flat mapping of cells to texts, so that a change is a list of cells with
what was and what is to be there: it can be compared, shown, written to disk and turned round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from nftop.model.ids import Cpu

Kind: TypeAlias = Literal["group", "schemata", "cpus", "monitor", "monitor_cpus", "task"]


class Cell(NamedTuple):
    """One thing in resctrl that can be changed.

    Attributes:
        kind: `group`, `monitor`: a directory, whose value is its inode. `schemata`: a mask in
            hexadecimal or a limit in decimal, without leading zeros. `cpus`, `monitor_cpus`: a
            list as `format_cpu_list` writes it, "" for none. `task`: the group it is in.
        group: a control group's directory, `rdt.ROOT` for the root group; "" of a task.
        name: of a monitoring group; of a line of schemata (`L3`, `MB`); `TID@STARTTIME` of a task.
        domain: of a schemata cell, else -1.
    """

    kind: Kind
    group: str
    name: str = ""
    domain: int = -1


State: TypeAlias = Mapping[Cell, str]


@dataclass(frozen=True, slots=True)
class Change:
    """One cell: what was there and what is to be; None: it is not there."""

    cell: Cell
    old: str | None
    new: str | None

    @property
    def reversed(self) -> Change:
        return Change(self.cell, self.new, self.old)


@dataclass(frozen=True, slots=True)
class SetSchemata:
    """Masks or limits of a group: `values` by domain, masks as bits, limits in resctrl's unit."""

    group: str
    resource: str
    values: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class MoveCpus:
    """CPUs into a control group, out of those they are in."""

    cpus: tuple[Cpu, ...]
    group: str


@dataclass(frozen=True, slots=True)
class MoveTasks:
    """Threads into a control group; `ROOT` gives them their CPU's class again."""

    tids: tuple[int, ...]
    group: str


@dataclass(frozen=True, slots=True)
class CreateGroup:
    """A control group of nftop's own, with the root group's masks and limits."""

    group: str


@dataclass(frozen=True, slots=True)
class RemoveGroup:
    """One of nftop's own control groups; its CPUs and threads fall to the root group."""

    group: str


@dataclass(frozen=True, slots=True)
class CreateMonitor:
    """A monitoring group of nftop's own below a control group; it takes an RMID."""

    group: str
    name: str
    cpus: tuple[Cpu, ...] = ()


@dataclass(frozen=True, slots=True)
class RemoveMonitor:
    """One of nftop's own monitoring groups."""

    group: str
    name: str


Action: TypeAlias = (
    SetSchemata | MoveCpus | MoveTasks | CreateGroup | RemoveGroup | CreateMonitor | RemoveMonitor
)


@dataclass(frozen=True, slots=True)
class Proposal:
    """What would be done, to be shown and confirmed.

    Attributes:
        base: the whole state it was planned from; if it is another when it is to be applied, that
            is a conflict.
        changes: what would be different, nothing twice; empty where there is nothing to do.
        effects: what else comes with it, sentences.
        warnings: what may be wrong with it, sentences.
        refusals: why it can't be done; nothing is then applied.
        command: the command line that does the same; "" where there is none.
    """

    base: State
    changes: tuple[Change, ...]
    effects: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    command: str = ""


Outcome: TypeAlias = Literal[
    "applied",  # and it reverts by itself unless it is kept
    "kept",
    "reverted",
    "conflict",  # somebody changed the host since the preview; nothing was written
    "locked",  # another program held resctrl's lock; nothing was written
    "refused",  # by the plan, the kernel or a privilege; what was written is undone
    "foreign",  # not all could be undone: somebody changed it since
    "failed",  # the guard ended without a word; `nftop recover` says and mends
]


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a proposal.

    Attributes:
        sentences: for the operator; what was left alone is named.
        changes: what is different on the host now from what was before.
        number: of the change in the history; None where nothing was written.
    """

    outcome: Outcome
    sentences: tuple[str, ...]
    changes: tuple[Change, ...] = ()
    number: int | None = None
