"""Actions that an operator can request, and the changes planned for them.

The state of the host is a flat mapping of cells to texts. A change is a list of cells with old and
new values, so that it can be compared, shown, stored and reverted.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, NamedTuple, TypeAlias

from nftop.model.ids import Cpu
from nftop.model.rdt.rdt import cache_of_line
from nftop.model.struct import dataclass

Kind: TypeAlias = Literal[
    "group",
    "monitor",
    "mode",
    "schemata",
    "cpu",
    "task",
    "governor",
    "epp",
    "min_khz",
    "max_khz",
    "bf",
    "cp_class",
    "io_alloc",
    "io_cbm",
]
# Those of frequency policies, in the order in which the way back restores them.
POLICY_KINDS: tuple[Kind, ...] = ("governor", "epp", "min_khz", "max_khz")
# Those that are directories, whose values are their numbers.
DIRECTORIES: tuple[Kind, ...] = ("group", "monitor")
# Those of the ways of I/O, which are of no group: no directory can have this name.
IO_KINDS: tuple[Kind, ...] = ("io_alloc", "io_cbm")
IO_GROUP = ""


class Cell(NamedTuple):
    """One value that can be changed.

    Each CPU and each thread is a cell, so that it is in exactly one group, and a concurrent change
    of another CPU causes no conflict.

    Attributes:
        kind: `group`, `monitor`: a directory; its value is the inode. `mode`: of a group.
            `schemata`: a mask in hexadecimal or a limit in decimal, without leading zeros. `cpu`,
            `task`: the group path that it is in. `governor`, `epp`, `min_khz`, `max_khz`: of a
            frequency policy; limits as in effect. `bf`: SST-BF of a power domain, `on` or `off`.
            `cp_class`: SST-CP class of a CPU. `io_alloc`: whether the ways of I/O are set,
            `enabled` or `disabled`; `io_cbm`: these ways, hexadecimal, while they are.
        group: directory of a control group, `ROOT` for the root group; else "".
        name: of a monitoring group; of a line of schemata (`L3`, `MB`); `TID@STARTTIME` of a task;
            CPU list of a frequency policy; folder of info (`L3`, with CDP `L3DATA`) of the ways of
            I/O; `DIE.DOMAIN@LEVEL` of `bf` (the level is that of SST-PP, each of which has its own
            SST-BF).
        number: domain of a schemata or io_cbm cell; number of a CPU, policy or package; else -1.
    """

    kind: Kind
    group: str
    name: str = ""
    number: int = -1


def mask_cell(group: str, line: str, domain: int) -> Cell:
    """The cell of a mask: of a class, or with `IO_GROUP` of the ways of I/O."""
    if group == IO_GROUP:
        return Cell("io_cbm", IO_GROUP, line, domain)
    return Cell("schemata", group, line, domain)


def value_text(cell: Cell, value: str | None, ways: Mapping[str, int]) -> str | None:
    """The value of a cell as it is shown: a mask has the digits that all ways of its cache need.

    `ways`: by cache, `L3` and `L2`.
    """
    if value is None or cell.kind not in ("schemata", "io_cbm") or cell.name == "MB":
        return value
    return value.zfill(-(-ways.get(cache_of_line(cell.name), 0) // 4))


def bf_words(cell: Cell) -> str:
    """`SST-BF of package 0 at level 0`; with die and power domain unless those are the first."""
    where, _, level = cell.name.partition("@")
    die, _, domain = where.partition(".")
    words = [f"package {cell.number}"]
    words += [f"die {die}"] * (die != "0") + [f"power domain {domain}"] * (domain != "0")
    return f"SST-BF of {', '.join(words)} at level {level}"


State: TypeAlias = Mapping[Cell, str]


@dataclass(frozen=True, slots=True)
class Change:
    """Old and new value of one cell; None if it does not exist."""

    cell: Cell
    old: str | None
    new: str | None


def difference(old: State, new: State) -> tuple[Change, ...]:
    """All cells in which two states differ, sorted."""
    cells = sorted(cell for cell in old.keys() | new.keys() if old.get(cell) != new.get(cell))
    return tuple(Change(cell, old.get(cell), new.get(cell)) for cell in cells)


@dataclass(frozen=True, slots=True)
class Noticed:
    """Difference between two readings of resctrl, whatever program caused it.

    Attributes:
        since_ns, at_ns: CLOCK_MONOTONIC of the two readings.
        wall_ns: of the tick that showed it.
        changes: of groups, masks, limits, CPUs and watched threads. Values of CPUs and threads are
            control groups. A created or removed group includes its masks and limits.
    """

    since_ns: int
    at_ns: int
    wall_ns: int
    changes: tuple[Change, ...]


@dataclass(frozen=True, slots=True)
class OwnChange:
    """A change that nftop applied or reverted.

    Attributes:
        changes: `old` before and `new` after it.
        from_ns, until_ns: CLOCK_MONOTONIC between which it was written.
    """

    changes: tuple[Change, ...]
    from_ns: int
    until_ns: int


@dataclass(frozen=True, slots=True)
class SetSchemata:
    """Set masks (bits) or limits (in resctrl's unit) of a group; `values` by domain."""

    group: str
    resource: str
    values: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class MoveCpus:
    """Move CPUs into a control group."""

    cpus: tuple[Cpu, ...]
    group: str


@dataclass(frozen=True, slots=True)
class MoveTasks:
    """Move threads into a control group; in `ROOT` they use the class of their CPU."""

    tids: tuple[int, ...]
    group: str


@dataclass(frozen=True, slots=True)
class CreateGroup:
    """Create a control group of nftop with the root group's masks and limits."""

    group: str


@dataclass(frozen=True, slots=True)
class RemoveGroup:
    """Remove a control group of nftop; its CPUs and threads return to the root group."""

    group: str


@dataclass(frozen=True, slots=True)
class CreateMonitor:
    """Create a monitoring group of nftop below a control group; it uses one RMID.

    Its CPUs and threads have to be in the control group: none changes its class.
    """

    group: str
    name: str
    cpus: tuple[Cpu, ...] = ()
    tids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class RemoveMonitor:
    """Remove a monitoring group of nftop."""

    group: str
    name: str


@dataclass(frozen=True, slots=True)
class SetIoWays:
    """Set the ways of I/O (`io_alloc`).

    Attributes:
        enabled: switch them on or off; None: leave that as it is.
        values: masks (bits) by L3; none that are not named change. When switched on, which is for
            all caches at once, the others get the ways that devices have now where these are known
            and legal; else, and if none is named, every way that no exclusive group has.
    """

    enabled: bool | None = None
    values: tuple[tuple[int, int], ...] = ()


GroupAction: TypeAlias = (
    SetSchemata | MoveCpus | MoveTasks | CreateGroup | RemoveGroup | CreateMonitor | RemoveMonitor
)
ClassAction: TypeAlias = GroupAction | SetIoWays


@dataclass(frozen=True, slots=True)
class PinCpus:
    """Set both frequency limits of these CPUs' cores to the guaranteed frequency."""

    cpus: tuple[Cpu, ...]


@dataclass(frozen=True, slots=True)
class ReleaseCpus:
    """Restore the limits that these CPUs' cores had before nftop pinned them, else the widest."""

    cpus: tuple[Cpu, ...]


@dataclass(frozen=True, slots=True)
class PinEvery:
    """Pin every core to its own guaranteed frequency (`bf`), or all to the nominal one (`base`)."""

    mode: Literal["bf", "base"]


FrequencyAction: TypeAlias = PinCpus | ReleaseCpus | PinEvery


@dataclass(frozen=True, slots=True)
class SwitchBf:
    """Switch SST-BF of packages on or off; of all packages if none is named."""

    on: bool
    packages: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class SetCpClass:
    """Move these CPUs' cores into an SST-CP class."""

    cpus: tuple[Cpu, ...]
    cp_class: int


SstAction: TypeAlias = SwitchBf | SetCpClass


Action: TypeAlias = ClassAction | FrequencyAction | SstAction


class ReasonCode(StrEnum):
    """Why a change is refused, or why it ended as it did. The values are stable."""

    # Refusals of a plan.
    GROUP_ABSENT = "group_absent"
    GROUP_EXISTS = "group_exists"
    GROUP_NAME = "group_name"  # not of the form that nftop creates or changes
    GROUP_FOREIGN = "group_foreign"  # another program created it, or a group inside it
    GROUP_EXCLUSIVE = "group_exclusive"
    GROUP_LOCKED = "group_locked"  # pseudo-locked
    GROUP_RECREATED = "group_recreated"  # removed and created in one change
    MONITOR_SCOPE = "monitor_scope"  # its CPUs or threads are not of its control group
    CLOSIDS_EXHAUSTED = "closids_exhausted"
    RMIDS_EXHAUSTED = "rmids_exhausted"
    RESOURCE_ABSENT = "resource_absent"  # no such cache, domain, package or limit
    RESOURCE_UNREPORTED = "resource_unreported"
    MASK_INVALID = "mask_invalid"
    LIMIT_INVALID = "limit_invalid"
    CPU_ABSENT = "cpu_absent"  # or offline
    THREAD_ABSENT = "thread_absent"
    IO_UNSUPPORTED = "io_unsupported"
    IO_DISABLED = "io_disabled"
    FREQUENCY_UNREPORTED = "frequency_unreported"
    GOVERNOR_ABSENT = "governor_absent"
    SST_UNSUPPORTED = "sst_unsupported"
    SST_CLASS_INVALID = "sst_class_invalid"
    PROFILE_INVALID = "profile_invalid"
    # Of a change.
    NOTHING_TO_CHANGE = "nothing_to_change"
    OTHER_HOST = "other_host"  # another boot, mount or host than in the preview
    CHANGE_PENDING = "change_pending"  # an earlier change was cut off
    NOT_NEWEST = "not_newest"
    HOST_CHANGED = "host_changed"  # by another program
    LOCK_HELD = "lock_held"
    WRITE_REFUSED = "write_refused"  # by the kernel or a tool
    VALUE_DIFFERS = "value_differs"  # read back
    JOURNAL_UNAVAILABLE = "journal_unavailable"  # in use, damaged, or not writable
    SETTING_INVALID = "setting_invalid"
    CLIENT_SILENT = "client_silent"
    CUT_OFF = "cut_off"
    REBOOTED = "rebooted"  # a boot or a new mount undid it
    OFFLINE = "offline"
    BACKEND_ABSENT = "backend_absent"
    REVERT_FAILED = "revert_failed"
    GUARD_TIMEOUT = "guard_timeout"
    GUARD_ENDED = "guard_ended"
    EXTENT_UNKNOWN = "extent_unknown"  # how much was written
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a proposal can't be applied; `sentence` is for the operator."""

    code: ReasonCode
    sentence: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """A planned change, to be shown and confirmed.

    Attributes:
        base: the whole state it was planned from. Applying it to another state is a conflict.
        changes: cells that would change, each once; empty if there is nothing to do.
        effects: side effects, sentences. warnings: risks, sentences.
        refusals: why it can't be applied, each once; if there are any, nothing is written.
        unmet: requested but not done, with the reason, sentences: an undo skips what another
            program has changed since.
        leaves: numbers of the earlier changes that `unmet` refers to.
        offline: cells in `unmet` whose CPU or cache is offline.
        commands: equivalent command lines, in order.
        rounded: those of `effects` that differ from the request.
        of_masks: effects of a single new mask, with its cell.
        identity: of the host; the proposal applies to no other.
        final: it reverts only the newest change that stands, so it is kept as soon as it is
            applied; if another change is newer by then, it is a conflict. All others are reverted
            unless kept in time.
    """

    base: State
    changes: tuple[Change, ...]
    effects: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    refusals: tuple[Refusal, ...] = ()
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
    "conflict",  # the host changed since the preview; nothing was written
    "locked",  # another program held resctrl's lock; nothing was written
    "refused",  # by the plan, the kernel or a privilege; what was written is undone
    "differs",  # a value read back differs from the written one; reverted
    "overwritten",  # reverted in part: another program changed values since
    "partial",  # reverted in part: a CPU or a cache is offline
    "failed",  # interrupted; `nftop recover` reports its progress and repairs it
]


@dataclass(frozen=True, slots=True)
class Receipt:
    """Result of a proposal.

    Attributes:
        sentences: for the operator; they name what was skipped.
        changes: cells that changed on the host.
        number: of the change in the history; None if nothing was written.
        unmet: those of `sentences` that name what differs from the request although it was kept.
        code: why the outcome is not the requested one; None if it is.
    """

    outcome: Outcome
    sentences: tuple[str, ...]
    changes: tuple[Change, ...] = ()
    number: int | None = None
    unmet: tuple[str, ...] = ()
    code: ReasonCode | None = None

    @property
    def is_restored(self) -> bool:
        """Whether the host is as before: nothing was written, or all of it is reverted."""
        return self.outcome in ("reverted", "conflict", "locked", "refused", "differs")
