"""resctrl as the gate sees it: its whole state, its rules, its lock, and the only writes to it.

One write(2) a file and operation, since the kernel takes each as one transaction; a name of a
group never leaves its directory (no `/`, no `..`), and no link is followed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from nftop.control.plan import Rules
from nftop.control.steps import Step
from nftop.model.action import Cell, State
from nftop.model.ids import format_cpu_list
from nftop.model.rdt import ROOT
from nftop.model.reading import Missing
from nftop.sources.resctrl.info import Info, read_info
from nftop.sources.resctrl.lock import holder
from nftop.sources.resctrl.mount import Mount, find_mount, mba_unit
from nftop.sources.resctrl.tree import Found, read_tasks, read_tree
from nftop.sources.topology import read_topology

_PAUSE_S = 0.005
_MASK_LINES = ("L3", "L3CODE", "L3DATA", "L2", "L2CODE", "L2DATA")
_MOST_MBPS = 0xFFFF_FFFF


class LockedError(Exception):
    """Another program held the lock all the time; the text says which."""


class RefusedError(Exception):
    """The kernel refused a step; the text is what it said."""


class AbsentError(Exception):
    """There is no resctrl to change; the text says why and what to do."""


class Host(Protocol):
    """What can be changed: resctrl, or the simulated host's."""

    @property
    def identity(self) -> str:
        """Another after a boot or a new mount, when nothing of before is left to be undone."""

    def state(self, threads: Iterable[Cell] = ()) -> State:
        """Everything there is, and the groups these threads are in; one that ended is not there."""

    def rules(self, tids: Iterable[int] = ()) -> Rules:
        """What it takes, and about these threads."""

    def do(self, step: Step) -> None:
        """One operation. Raises RefusedError."""

    def lock(self, limit_s: float) -> contextlib.AbstractContextManager[None]:
        """Nobody who heeds the lock changes anything meanwhile. Raises LockedError."""


@dataclass(frozen=True, slots=True)
class Resctrl:
    """The kernel's; `root` is /, or a test's."""

    mount: Mount
    root: Path

    @property
    def identity(self) -> str:
        boot = (self.root / "proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        top = Path(self.mount.path).stat()
        return f"{boot} {top.st_dev}:{top.st_ino}"

    def state(self, threads: Iterable[Cell] = ()) -> State:
        found: dict[Cell, str] = {}
        for group in read_tree(self.mount.path).groups:
            _tell(found, group)
        for cell in threads:
            where = self._group_of(cell.name)
            if where is not None:
                found[cell] = where
        return found

    def rules(self, tids: Iterable[int] = ()) -> Rules:
        tree = read_tree(self.mount.path)
        info = read_info(f"{self.mount.path}/info")
        topology = read_topology(self.root)
        tasks = {name: map(self._named, own) for name, own in read_tasks(tree).items()}
        named = {tid: self._named(tid) for tid in tids}
        homes = {tid: (name, self._group_of(name)) for tid, name in named.items() if name}
        unit = mba_unit(self.mount, self.root)
        return Rules(
            ways=_ways(info),
            min_bits=info.limits.min_bits or 1,
            sparse=bool(info.limits.sparse),
            mba_least=0 if unit == "MBps" and "MB" in info.resources else info.limits.mba_least,
            mba_step=1 if unit == "MBps" else info.limits.mba_step,
            mba_most={"percent": 100, "MBps": _MOST_MBPS, "GBps/8": 2048}[unit],
            closids=info.limits.closids,
            io=info.shareable_bits or 0,
            siblings={info.cpu: frozenset(info.siblings) for info in topology.cpus},
            exclusive=frozenset(g.name for g in tree.groups if g.mode == "exclusive"),
            tasks={name: tuple(each for each in own if each) for name, own in tasks.items()},
            task_groups={tid: (name, at) for tid, (name, at) in homes.items() if at is not None},
        )

    def do(self, step: Step) -> None:
        folder = self._path(step.group, step.monitor)
        try:
            if step.deed == "mkdir":
                Path(folder).mkdir()
            elif step.deed == "rmdir":
                Path(folder).rmdir()
            else:
                file = {"schemata": "schemata", "cpus": "cpus_list", "task": "tasks"}[step.deed]
                _write(f"{folder}/{file}", step.text)
        except OSError as error:
            raise RefusedError(self._why(step, error)) from None

    @contextlib.contextmanager
    def lock(self, limit_s: float) -> Iterator[None]:
        """resctrl's own: flock(2) on its mount, exclusive, as resctrl.rst has it."""
        handle = os.open(self.mount.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            deadline = time.monotonic() + limit_s
            while not _taken(handle):
                if time.monotonic() >= deadline:
                    who = holder(self.root, self.mount.path)
                    raise LockedError(f"{who} has held resctrl's lock for {limit_s:g} s")
                time.sleep(_PAUSE_S)
            yield
        finally:
            os.close(handle)  # which lets go of it

    def _path(self, group: str, monitor: str) -> str:
        for name in (group, monitor):
            if name != ROOT and ("/" in name or "\0" in name or name in (".", "..")):
                raise RefusedError(f"{name!r} is no name of a group")
        path = self.mount.path if group == ROOT else f"{self.mount.path}/{group}"
        return f"{path}/mon_groups/{monitor}" if monitor else path

    def _why(self, step: Step, error: OSError) -> str:
        """The kernel's own words, read while the lock is held: it keeps only the last ones."""
        with contextlib.suppress(OSError):
            status = Path(self.mount.path, "info/last_cmd_status").read_text(errors="replace")
            if status.strip() not in ("", "ok"):
                return f"{_deed(step)}: the kernel says: {status.strip()[:300]}"
        return f"{_deed(step)}: {error.strerror}"

    def _named(self, tid: int) -> str:
        """`TID@STARTTIME`, since numbers are used again; "" where there is no such thread."""
        started = self._stat(tid)
        return "" if started is None else f"{tid}@{started}"

    def _stat(self, tid: int) -> int | None:
        try:
            text = (self.root / f"proc/{tid}/stat").read_bytes()
        except OSError:
            return None
        return int(text.rpartition(b")")[2].split()[19])

    def _group_of(self, name: str) -> str | None:
        tid, _, started = name.partition("@")
        if str(self._stat(int(tid))) != started:
            return None
        try:
            lines = (self.root / f"proc/{tid}/cpu_resctrl_groups").read_text().splitlines()
        except OSError:
            return None
        said = next((line.partition(":")[2] for line in lines if line.startswith("res:")), "")
        return said.strip("/") or ROOT


def open_resctrl(root: Path = Path("/")) -> Resctrl:
    """The mounted resctrl. Raises AbsentError."""
    mount = find_mount(root)
    if isinstance(mount, Missing):
        raise AbsentError(mount.sentence)
    return Resctrl(mount, root)


def _tell(found: dict[Cell, str], group: Found) -> None:
    if group.name != ROOT:
        found[Cell("group", group.name)] = str(group.inode)
    found[Cell("cpus", group.name)] = format_cpu_list(group.cpus)
    if not isinstance(group.schemata, Missing):
        for line, values in group.schemata.items():
            for domain, value in values.items():
                text = f"{value:x}" if line in _MASK_LINES else str(value)
                found[Cell("schemata", group.name, line, domain)] = text
    for monitor in group.monitors:
        found[Cell("monitor", group.name, monitor.name)] = str(monitor.inode)
        found[Cell("monitor_cpus", group.name, monitor.name)] = format_cpu_list(monitor.cpus)


def _ways(info: Info) -> dict[str, int]:
    widths = {"L3": info.ways or 0, "L2": info.l2_ways or 0}
    return {line: widths[line[:2]] for line in _MASK_LINES if line in info.resources}


def _write(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        data = text.encode("ascii")
        if os.write(handle, data) != len(data):
            raise OSError(errno.EIO, "the kernel took only a part of what was written")
    finally:
        os.close(handle)


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _deed(step: Step) -> str:
    """What was tried, in words."""
    where = f"{step.group}:{step.monitor}" if step.monitor else step.group
    words = {"mkdir": "make group", "rmdir": "remove group"}
    if step.deed in words:
        return f"{words[step.deed]} {where}"
    return f"write {step.text.strip()!r} to {step.deed} of {where}"
