"""The state that every operation reads and changes: groups, the last status, what is metered.

An operation that fails raises OSError with the kernel's errno, and may have said why in the status.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

import numpy as np

from tests.lab.resctrl import ledger, rmids
from tests.lab.resctrl.hardware import Hardware
from tests.lab.resctrl.ledger import Ledger
from tests.lab.resctrl.processes import Processes
from tests.lab.resctrl.profile import Profile
from tests.lab.tree import failed

Mode: TypeAlias = Literal["shareable", "exclusive"]
ROOT_CLOSID = ROOT_RMID = 0
UNLIMITED_MBPS = 0xFFFF_FFFF
# What the kernel keeps the status in, with the zero that ends it.
_STATUS_BYTES = 512
# The letters that schemata leaves room for where CDP could be switched on but is not.
_CDP_SUFFIX_LETTERS = 4
# Digits of 100 %.
_PERCENT_DIGITS = 3


@dataclass(frozen=True, slots=True)
class Schema:
    """A line of schemata: of bandwidth where it is no cache; `peer` is CDP's other line."""

    name: str
    cache: bool
    peer: str | None = None


@dataclass(slots=True, eq=False)
class Group:
    """A control group, or a monitoring group if it has a parent.

    Attributes:
        name: its directory's; "" of the root.
        serial: no two groups ever have the same.
        rmid: None where nothing can be monitored.
        values: of a control group, masks and limits by schema and domain.
        children: of a control group, monitoring groups by name. Their CPUs are among its own.
        permissions: its directories', as chmod(2) has them; nobody may write to those of the root.
        live: its directory is there.
    """

    name: str
    serial: int
    closid: int
    rmid: int | None
    parent: Group | None = None
    cpus: set[int] = field(default_factory=set)
    mode: Mode = "shareable"
    values: dict[str, dict[int, int]] = field(default_factory=dict)
    children: dict[str, Group] = field(default_factory=dict)
    mbps_event: str = "mbm_local_bytes"
    permissions: int = 0o555
    live: bool = True

    @property
    def control(self) -> Group:
        """The control group it is or belongs to."""
        return self if self.parent is None else self.parent


@dataclass(frozen=True, slots=True)
class Member:
    """A task that was moved, or whose starter was.

    Attributes:
        started: as in `Task`: process ids are used again.
        since: when it came to the group, in the same ticks.
    """

    group: Group
    started: int
    since: int


@dataclass(slots=True, eq=False)
class Resctrl:
    """A mounted resctrl.

    Attributes:
        now_ns: time since the model's start.
        options: of the mount.
        root, groups: control groups; `groups` are the others by name.
        members: tasks by id; those who are not there are the root group's.
        status: the lines of last_cmd_status.
        threshold_bytes: max_threshold_occupancy.
        ledger, pool: None where nothing can be monitored.
        words: what a counter says instead of its number, by (group's path, node, event).
        io: ways of I/O by domain while io_alloc is enabled.
    """

    hardware: Hardware
    profile: Profile
    processes: Processes
    now_ns: Callable[[], int]
    options: frozenset[str]
    schemas: tuple[Schema, ...]
    root: Group
    ledger: Ledger | None
    pool: rmids.Pool | None
    threshold_bytes: int
    groups: dict[str, Group] = field(default_factory=dict)
    members: dict[int, Member] = field(default_factory=dict)
    status: list[str] = field(default_factory=list)
    words: dict[tuple[str, int, str], str] = field(default_factory=dict)
    serials: int = 1
    io: dict[int, int] | None = None


def rmid_count(hardware: Hardware) -> int:
    """RMIDs that there are for groups: the parts of a divided cache share them out."""
    assert hardware.monitoring is not None
    nodes_per_domain = len(hardware.nodes) // len(hardware.domains)
    return hardware.monitoring.rmids // nodes_per_domain


def default(state: Resctrl, schema: Schema) -> int:
    """What a schema says of a domain where nothing is held back."""
    if schema.cache:
        return full_mask(state)
    return UNLIMITED_MBPS if "mba_MBps" in state.options else 100


def full_mask(state: Resctrl) -> int:
    """Every way."""
    allocation = state.hardware.allocation
    return (1 << allocation.ways) - 1 if allocation is not None else 0


def name_width(state: Resctrl) -> int:
    """The width of the names in schemata, which CDP must not change."""
    allocation = state.hardware.allocation
    room = _CDP_SUFFIX_LETTERS if allocation is not None and allocation.cdp else 0
    return max(
        len(schema.name) + (room if schema.cache and schema.peer is None else 0)
        for schema in state.schemas
    )


def value_width(state: Resctrl) -> int:
    """The width of the numbers in schemata, for kernels that line them up."""
    digits = len(f"{full_mask(state):x}")
    return max(digits, _PERCENT_DIGITS) if state.hardware.bandwidth is not None else digits


def closids(state: Resctrl, schema: Schema) -> int:
    """Classes that a resource has."""
    allocation, bandwidth = state.hardware.allocation, state.hardware.bandwidth
    if schema.cache:
        assert allocation is not None
        return allocation.closids // (2 if schema.peer else 1)
    assert bandwidth is not None
    return bandwidth.closids


def io_closid(state: Resctrl) -> int:
    """The class that io_alloc takes: the highest of the cache."""
    return next(closids(state, schema) for schema in state.schemas if schema.cache) - 1


def controls(state: Resctrl) -> Iterator[Group]:
    """Every control group, the root first."""
    yield state.root
    yield from state.groups.values()


def everything(state: Resctrl) -> Iterator[Group]:
    """Every group, monitoring groups after their parent."""
    for group in controls(state):
        yield group
        yield from group.children.values()


def path_of(group: Group) -> str:
    """Where its directory is: `/`, `/g`, `/g/mon_groups/m`."""
    if group.parent is None:
        return f"/{group.name}"
    parent = f"/{group.parent.name}" if group.parent.name else ""
    return f"{parent}/mon_groups/{group.name}"


def changed(state: Resctrl) -> None:
    """Tell the ledger which RMID every CPU has now and which ways are whose."""
    book = state.ledger
    if book is None:
        return
    rmid_of = np.zeros(len(state.hardware.domain_of), dtype=np.int64)
    ways = ledger.all_ways(book)
    for group in everything(state):
        if group.rmid is None:
            continue
        rmid_of[sorted(group.cpus)] = group.rmid
        caches = [group.control.values[s.name] for s in state.schemas if s.cache]
        for column, node in enumerate(state.hardware.nodes):
            if caches:
                domain = _domain(state.hardware, node)
                bits = np.bitwise_or.reduce([cache[domain] for cache in caches])
                ways[group.rmid, column] = [bits >> way & 1 for way in range(ways.shape[2])]
    ledger.change(book, state.now_ns(), rmid_of, ways)


def begin(state: Resctrl, operation: str) -> None:
    """Forget the last status, if this kernel does so at this operation."""
    if operation in state.profile.clears_status:
        state.status.clear()


def set_status(state: Resctrl, key: str, **words: object) -> None:
    """Add a line to the status; what does not fit is lost, as it is in the kernel."""
    line = state.profile.text[key].format(**words)
    if line and sum(len(item) + 1 for item in state.status) + len(line) + 1 < _STATUS_BYTES:
        state.status.append(line)


def refused(state: Resctrl, key: str, number: int = errno.EINVAL, /, **words: object) -> OSError:
    """The error to raise, after its reason was put into the status."""
    set_status(state, key, **words)
    return failed(number)


def status_text(state: Resctrl) -> str:
    """The file last_cmd_status."""
    return "".join(f"{line}\n" for line in state.status) or "ok\n"


def whole_line(text: str) -> str:
    """What was written without the newline that must end it; EINVAL without one."""
    if not text.endswith("\n"):
        raise failed(errno.EINVAL)
    return text[:-1].partition("\0")[0]


def _domain(hardware: Hardware, node: int) -> int:
    return hardware.domain_of[hardware.node_of.index(node)]
