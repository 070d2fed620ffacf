"""What an operator may ask for, and what is planned for it before anything is written.

The state of what can be changed is a flat mapping of cells to texts, so that a change is a list of
cells with what was and what is to be there: it can be compared, shown, written to disk and turned
round.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, TypeAlias

from nftop.model.ids import Cpu
from nftop.model.rdt.rdt import ROOT
from nftop.model.struct import dataclass

Kind: TypeAlias = Literal[
    "group", "monitor", "mode", "schemata", "cpu", "task",
    "governor", "epp", "min_khz", "max_khz",
    "bf", "cp_class",
]  # fmt: skip
# Those of frequency policies, in the order in which the way back restores them.
POLICY_KINDS: tuple[Kind, ...] = ("governor", "epp", "min_khz", "max_khz")
# Those that are directories, whose values are their numbers.
DIRECTORIES: tuple[Kind, ...] = ("group", "monitor")


class Cell(NamedTuple):
    """One thing that can be changed.

    A CPU is a cell of its own, as a thread is, so that it is in one group whatever is done, and
    somebody else's change of another CPU is no obstacle.

    Attributes:
        kind: `group`, `monitor`: a directory, whose value is its inode. `mode`: of a group, as the
            kernel has it. `schemata`: a mask in hexadecimal or a limit in decimal, without leading
            zeros. `cpu`, `task`: the place (`place`) where it is. `governor`, `epp`, `min_khz`,
            `max_khz`: of a frequency policy, as its files have them; limits as they are in effect.
            `bf`: SST-BF of a power domain, `on` or `off`. `cp_class`: the SST-CP class of a CPU.
        group: a control group's directory, `ROOT` for the root group; "" of all else.
        name: of a monitoring group; of a line of schemata (`L3`, `MB`); `TID@STARTTIME` of a task;
            the CPUs of a frequency policy, as a list; `DIE.DOMAIN@LEVEL` of `bf`, the level being
            that of SST-PP, since each has an SST-BF of its own.
        number: the domain of a schemata cell; a CPU's, policy's or package's number; else -1.
    """

    kind: Kind
    group: str
    name: str = ""
    number: int = -1


def group_path(group: str, monitor: str = "") -> str:
    """A control group, and a monitoring group of it if there is one, as the value of a cell.

    `vpp`, `vpp/m`, `/` for the root group, `/m` for a monitoring group of it: names have no slash.
    """
    if not monitor:
        return group
    return f"/{monitor}" if group == ROOT else f"{group}/{monitor}"


def parts(where: str) -> tuple[str, str]:
    """The control group and the monitoring group ("" for none) of a place."""
    if where == ROOT:
        return ROOT, ""
    group, _, monitor = where.partition("/")
    return group or ROOT, monitor


def bf_words(cell: Cell) -> str:
    """`SST-BF of package 0 at level 0`; with die and power domain where those are not the first."""
    where, _, level = cell.name.partition("@")
    die, _, domain = where.partition(".")
    words = [f"package {cell.number}"]
    words += [f"die {die}"] * (die != "0") + [f"power domain {domain}"] * (domain != "0")
    return f"SST-BF of {', '.join(words)} at level {level}"


State: TypeAlias = Mapping[Cell, str]


@dataclass(frozen=True, slots=True)
class Change:
    """One cell: what was there and what is to be; None: it is not there."""

    cell: Cell
    old: str | None
    new: str | None


def difference(old: State, new: State) -> tuple[Change, ...]:
    """Every cell that two states have different, sorted."""
    cells = sorted(cell for cell in old.keys() | new.keys() if old.get(cell) != new.get(cell))
    return tuple(Change(cell, old.get(cell), new.get(cell)) for cell in cells)


@dataclass(frozen=True, slots=True)
class Noticed:
    """What two readings of resctrl have different, whoever made it so.

    Attributes:
        since_ns, at_ns: CLOCK_MONOTONIC of the reading before and of the one after: it was changed
            between them.
        wall_ns: of the tick that showed it.
        changes: of groups, masks, limits, CPUs and watched threads; a CPU's and a thread's values
            are control groups. A group that came or went takes its masks and limits along.
    """

    since_ns: int
    at_ns: int
    wall_ns: int
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class OwnChange:
    """What nftop itself changed, or took back, in the direction in which it did.

    Attributes:
        changes: old as before it, new as after it.
        from_ns, until_ns: CLOCK_MONOTONIC; it was written between them.
    """

    changes: tuple[Change, ...]
    from_ns: int
    until_ns: int


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


ClassAction: TypeAlias = (
    SetSchemata | MoveCpus | MoveTasks | CreateGroup | RemoveGroup | CreateMonitor | RemoveMonitor
)


@dataclass(frozen=True, slots=True)
class PinCpus:
    """The cores of these CPUs to their guaranteed frequencies: both limits are that."""

    cpus: tuple[Cpu, ...]


@dataclass(frozen=True, slots=True)
class ReleaseCpus:
    """The cores of these CPUs to what they were before nftop pinned them, or to all they can."""

    cpus: tuple[Cpu, ...]


@dataclass(frozen=True, slots=True)
class PinEvery:
    """Every core to its own guaranteed frequency (`bf`), or all to the nominal one (`base`)."""

    mode: Literal["bf", "base"]


FrequencyAction: TypeAlias = PinCpus | ReleaseCpus | PinEvery


@dataclass(frozen=True, slots=True)
class SwitchBf:
    """SST-BF of packages on or off; of all where none is named."""

    on: bool
    packages: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SetCpClass:
    """The cores of these CPUs into an SST-CP class."""

    cpus: tuple[Cpu, ...]
    cp_class: int


SstAction: TypeAlias = SwitchBf | SetCpClass


Action: TypeAlias = ClassAction | FrequencyAction | SstAction


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
        unmet: what of that which was asked for is not done and why, sentences: what somebody else
            has changed since is left alone by an undo.
        leaves: numbers of earlier changes that `unmet` is about.
        offline: cells that `unmet` is about since their CPU or cache is offline.
        commands: the command lines that do the same, one after the other.
        rounded: of the effects, those that give something else than was asked for.
        of_masks: of the effects, those that a new mask has by itself, and its cell.
        identity: of the host that this was the state of; only there is it applied.
        final: it takes back the newest change that stands and no other, so it is kept as soon as
            it is applied; if that is not the newest any more by then, it is a conflict. Any other
            proposal is taken back unless it is kept in time.
    """

    base: State
    changes: tuple[Change, ...]
    effects: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    refusals: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    unmet: tuple[str, ...] = ()
    leaves: tuple[int, ...] = ()
    rounded: tuple[str, ...] = ()
    of_masks: tuple[tuple[Cell, str], ...] = ()
    identity: str = ""
    offline: tuple[Cell, ...] = ()
    final: bool = False


Outcome: TypeAlias = Literal[
    "applied",  # and it reverts by itself unless it is kept
    "kept",
    "reverted",
    "conflict",  # somebody changed the host since the preview; nothing was written
    "locked",  # another program held resctrl's lock; nothing was written
    "refused",  # by the plan, the kernel or a privilege; what was written is undone
    "differs",  # what was read back was not what was asked for; it is undone
    "overwritten",  # not all could be undone: somebody changed it since
    "partial",  # not all could be undone: a CPU or a cache is offline
    "failed",  # it could not be seen through; `nftop recover` says how far it came, and mends it
]


@dataclass(frozen=True, slots=True)
class Receipt:
    """What became of a proposal.

    Attributes:
        sentences: for the operator; what was left alone is named.
        changes: what is different on the host now from what was before.
        number: of the change in the history; None where nothing was written.
        unmet: where it is kept, what is not as was asked for all the same: sentences, among the
            others as well.
    """

    outcome: Outcome
    sentences: tuple[str, ...]
    changes: tuple[Change, ...] = ()
    number: int | None = None
    unmet: tuple[str, ...] = ()
