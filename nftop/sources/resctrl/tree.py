"""The groups: their masks, CPUs and tasks. The counters, which cost more, are elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from nftop.model.ids import Cpu, parse_cpu_list
from nftop.model.rdt.rdt import ROOT
from nftop.model.reading import Missing
from nftop.sources.resctrl.files import (
    TASKS_BYTES,
    folders,
    inode,
    read_if_there,
    read_text,
    reason,
)
from nftop.sources.resctrl.parse import Schemata, parse_number, parse_schemata, parse_tasks

# Directories beside the control groups that are none.
_NO_GROUPS = frozenset({"info", "mon_data", "mon_groups"})

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Found:
    """A group's directory as it is now; of a monitoring group `schemata` is empty.

    Attributes:
        name: to be shown; path: to read it. inode: the directory's.
        clos, rmid: None where the kernel does not show them, which takes the mount option `debug`.
        schemata: its lines, or why they can't be read.
        mode: "" where there is none.
        monitors: its monitoring groups.
    """

    name: str
    path: str
    inode: int
    cpus: tuple[Cpu, ...]
    clos: int | None
    rmid: int | None
    schemata: Schemata | Missing
    mode: str
    monitors: tuple[Found, ...]


@dataclass(frozen=True, slots=True)
class Tree:
    """Every control group, the root group first, and what could not be read of them.

    Attributes:
        unread: of `notes` those of which a place of CPUs or groups is unknown: empty is not empty.
    """

    groups: tuple[Found, ...]
    notes: tuple[str, ...]
    unread: tuple[str, ...] = ()


def read_tree(mount: str, in_time: Callable[[], bool] = lambda: True) -> Tree | None:
    """Every group below a mount; None once it is not `in_time`, which is asked before each.

    A group that is gone when it is read is left out.

    Raises:
        OSError: the mount can't be listed.
    """
    notes, unread = list[str](), list[str]()
    below = [(name, path) for name, path in folders(mount) if name not in _NO_GROUPS]
    found = []
    for name, path in [(ROOT, mount), *below]:
        if not in_time():
            return None
        found.append(_control(name, path, notes, unread))
    there = tuple(group for group in found if group is not None)
    return Tree(there, (*notes, *unread), tuple(unread))


def read_tasks(tree: Tree) -> Mapping[str, tuple[int, ...]]:
    """Thread ids by control group, the root group aside: the kernel looks at every thread for each.

    A group whose file can't be read has none here.
    """
    found = {}
    for group in tree.groups:
        if group.name != ROOT:
            try:
                found[group.name] = parse_tasks(read_text(f"{group.path}/tasks", TASKS_BYTES))
            except (OSError, ValueError):
                continue
    return found


def _control(name: str, path: str, notes: list[str], unread: list[str]) -> Found | None:
    group = _group(name, path, notes, unread)
    if group is None:
        return None
    try:
        below = folders(f"{path}/mon_groups")
    except FileNotFoundError:  # nothing is metered, or the group is gone
        below = []
    except OSError as error:
        unread.append(reason(f"{path}/mon_groups", error).message)
        below = []
    monitors = [_group(name, path, notes, unread, control=False) for name, path in below]
    schemata = read_if_there(f"{path}/schemata", parse_schemata)
    return Found(
        name=name,
        path=path,
        inode=group.inode,
        cpus=group.cpus,
        # The kernel's own: it gives the root group class and monitor 0 and never takes them back.
        clos=0 if name == ROOT else group.clos,
        rmid=0 if name == ROOT else group.rmid,
        schemata={} if schemata is None else schemata,
        mode=_optional(f"{path}/mode", str.strip, unread) or "",
        monitors=tuple(monitor for monitor in monitors if monitor is not None),
    )


def _group(
    name: str, path: str, notes: list[str], unread: list[str], *, control: bool = True
) -> Found | None:
    number = inode(path)
    if number is None:
        return None
    cpus = _optional(f"{path}/cpus_list", parse_cpu_list, unread)
    clos = _optional(f"{path}/ctrl_hw_id", parse_number, notes) if control else None
    rmid = _optional(f"{path}/mon_hw_id", parse_number, notes)
    return Found(name, path, number, cpus or (), clos, rmid, {}, "", ())


def _optional(path: str, parse: Callable[[str], T], notes: list[str]) -> T | None:
    found = read_if_there(path, parse)
    if isinstance(found, Missing):
        notes.append(found.message)
        return None
    return found
