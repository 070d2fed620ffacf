"""The kernel's resctrl as a backend: state, rules, lock, and the only writes to it.

One write(2) per file and operation, since the kernel handles each as one transaction. Names of
groups can't leave the directory (no `/`, no `..`), and links are not followed.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

from nftop.control.backend import AbsentError, RefusedError, boot_id, hold_flock
from nftop.control.rdt_limits import IoRule, LimitRule, MaskRule, Rules
from nftop.control.resctrl.backend import ClassBackend
from nftop.control.resctrl.operations import DISABLED, ENABLED, ResctrlStep
from nftop.model.change import Cell, State
from nftop.model.missing import Missing
from nftop.model.rdt.rdt import (
    LOCKED,
    MASK_LINES,
    PSEUDO_LOCKED,
    ROOT,
    SHAREABLE,
    UNLIMITED_MBPS,
    MbaUnit,
    group_path,
)
from nftop.model.struct import dataclass
from nftop.sources.host.topology import read_cpuid, read_topology
from nftop.sources.resctrl.files import (
    TASKS_BYTES,
    Mount,
    find_mount,
    folders,
    holder,
    inode,
    is_held_by_others_only,
    mba_unit,
    read_as,
    read_text,
)
from nftop.sources.resctrl.tree import (
    NO_GROUPS,
    GroupFiles,
    Info,
    IoAlloc,
    parse_mask,
    parse_number,
    parse_tasks,
    read_info,
    read_io_alloc,
    read_tree,
)

_PERCENT_MOST, _EIGHTHS_MOST = 100, 2048  # AMD's from the kernel's own constant of Linux 6.1


def read_rules(mount: Mount, root: Path) -> Rules:
    """Rules of a mounted resctrl. Raises OSError if it can't be listed."""
    info = read_info(f"{mount.path}/info")
    topology = read_topology(root)
    io = {cache.id: info.io(cache.id, None) for cache in topology.l3}
    return Rules(
        masks={
            line: rule
            for line in info.resources - {"MB"}
            if (rule := _mask_rule(f"{mount.path}/info/{line}", root)) is not None
        },
        limit=_limit_rule(info, mba_unit(mount, root)),
        closids=_closids(info),
        rmids=info.limits.rmids,
        io={
            l3: (ways.cbm.bits, ways.provenance)
            for l3, ways in io.items()
            if not isinstance(ways, Missing)
        },
        siblings={cpu.cpu: frozenset(cpu.siblings) for cpu in topology.cpus},
        io_alloc=_io_rule(mount, info),
    )


def _closids(info: Info) -> int | None:
    """Maximum number of classes, that of I/O among them."""
    groups = info.limits.closids
    return None if groups is None else groups + bool(info.limits.io_alloc)


def _io_rule(mount: Mount, info: Info) -> IoRule | None:
    """Rule for the ways of I/O; who has the class that they need shows with `debug` only."""
    io_alloc, classes = info.io_alloc, _closids(info)
    if io_alloc is None:
        return None
    clos = None if io_alloc.closids is None else io_alloc.closids - 1
    problem, holder = "", None
    if clos is not None and classes is not None and clos >= classes:
        problem = f"the ways of I/O need class {clos}, and this CPU has {classes} in all resources"
    if clos is not None and not io_alloc.enabled:
        numbers = {
            name: read_as(f"{folder}/ctrl_hw_id", parse_number)
            for name, folder in folders(mount.path)
            if name not in NO_GROUPS
        }
        holder = next((name for name, number in numbers.items() if number == clos), None)
    return IoRule(io_alloc.line, clos, holder, problem)


def _mask_rule(folder: str, root: Path) -> MaskRule | None:
    whole = read_as(f"{folder}/cbm_mask", parse_mask)
    if isinstance(whole, Missing) or not whole:
        return None
    least, sparse = (
        read_as(f"{folder}/{name}", parse_number) for name in ("min_cbm_bits", "sparse_masks")
    )
    shareable = read_as(f"{folder}/shareable_bits", parse_mask)
    if isinstance(sparse, Missing):
        # Linux before 6.7 has no such file; AMD's masks may have gaps anyway.
        sparse = (read_cpuid(root) or ("",))[0] == "AuthenticAMD"
    return MaskRule(
        ways=whole.bit_length(),
        min_bits=1 if isinstance(least, Missing) else max(least, 1),  # AMD's kernels say 0
        sparse=bool(sparse),
        shareable=0 if isinstance(shareable, Missing) else shareable,
    )


def _limit_rule(info: Info, unit: MbaUnit) -> LimitRule | None:
    if "MB" not in info.resources:
        return None
    step = info.limits.mba_step or 1
    if unit == "MBps":
        # Linux 6.1 rounds them as it does percentages, later kernels don't: a multiple is both's.
        return LimitRule(least=step, step=step, most=UNLIMITED_MBPS, unit=unit)
    most = {"percent": _PERCENT_MOST, "GBps/8": _EIGHTHS_MOST}[unit]
    return LimitRule(least=info.limits.mba_least or 0, step=step, most=most, unit=unit)


@dataclass(frozen=True, slots=True)
class Resctrl(ClassBackend):
    """The kernel's resctrl; `root` is /, or a test's."""

    mount: Mount
    root: Path

    @property
    def identity(self) -> str:
        """The boot, and four numbers of the file system; a new mount changes at least one.

        Its device number is reused, and its first inode is 1. Up to Linux 6.6 inodes continue from
        mount to mount (one kernfs root per boot), so `info` has another one; later each mount is a
        new root with a random id (`kernfs: attach uuid for every kernfs and report it in fsid`,
        6.6). Both belong to the file system, not to the mount, whose ids differ between namespaces.
        A kernel with only one of these two changes may show the same for a new mount: then cells
        that are as a change made them count as that change's.
        """
        boot = boot_id(self.root)
        top = Path(self.mount.path).stat()
        info = inode(f"{self.mount.path}/info")
        random = os.statvfs(self.mount.path).f_fsid
        return f"{boot} {top.st_dev}:{top.st_ino}:{info}:{random:x}"

    @property
    def where(self) -> str:
        return self.mount.shown

    def state(self, threads: Iterable[Cell] = ()) -> State:
        state: dict[Cell, str] = {}
        groups = self._groups()
        for group in groups:
            _add_cells(state, group)
        _add_io_cells(state, read_io_alloc(f"{self.mount.path}/info"))
        named = {cell: int(cell.name.partition("@")[0]) for cell in threads}
        group_of = _group_paths(groups) if named else {}
        for cell, tid in named.items():
            if self._named(tid) == cell.name:
                state[cell] = group_of.get(tid, ROOT)
        return state

    def tasks(self, groups: Collection[str], tids: Collection[int]) -> Mapping[str, str]:
        if not groups and not tids:
            return {}
        tree = self._groups()
        chosen = [item for item in tree if tids or _name(item) in groups]
        group_of = _group_paths(chosen)
        inside = _group_paths([item for item in tree if _name(item) in groups])
        named = {self._named(tid): group_of.get(tid, ROOT) for tid in {*tids, *inside}}
        return {name: where for name, where in named.items() if name}

    def rules(self) -> Rules:
        return read_rules(self.mount, self.root)

    def do(self, step: ResctrlStep) -> None:
        folder = self._path(step.group, step.monitor)
        try:
            if step.info_file:
                _write(f"{self.mount.path}/{step.info_file}", step.text)
                return
            if step.operation == "mkdir":
                Path(folder).mkdir(0o755)
            elif step.operation == "rmdir":
                Path(folder).rmdir()
            elif step.task is None:
                file = "schemata" if step.operation == "schemata" else "cpus_list"
                _write(f"{folder}/{file}", step.text)
            elif self._exists(step.task):
                _write(f"{folder}/tasks", step.text)
        except OSError as error:
            if error.errno == errno.ESRCH and step.task is not None and not self._exists(step.task):
                return  # the thread ended while it was moved, and needs no class
            raise RefusedError(self._why(step, error)) from None

    @contextlib.contextmanager
    def lock(self, limit_s: float) -> Iterator[None]:
        """resctrl's own: flock(2) on its mount, exclusive, as resctrl.rst has it.

        Users who can't change classes can hold it too; after a moment theirs does not count.
        """
        handle = os.open(self.mount.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        path = self.mount.path
        with hold_flock(
            handle,
            limit_s,
            lambda: f"{holder(self.root, path)} has held resctrl's lock",
            lambda: is_held_by_others_only(self.root, path),
        ):
            yield

    def _groups(self) -> tuple[GroupFiles, ...]:
        """All groups. Raises OSError if any can't be read: unknown is not empty."""
        tree = read_tree(self.mount.path)
        if tree is None:
            return ()
        masks = [group.schemata for group in tree.groups if group.mode not in LOCKED]
        unread = (*tree.unread, *(mask.message for mask in masks if isinstance(mask, Missing)))
        if unread:
            raise OSError(errno.EIO, f"resctrl can't be read as a whole: {unread[0]}")
        return tree.groups

    def _path(self, group: str, monitor: str) -> str:
        for name in (group, monitor):
            if name != ROOT and ("/" in name or "\0" in name or name in (".", "..")):
                raise RefusedError(f"{name!r} is no name of a group")
        path = self.mount.path if group == ROOT else f"{self.mount.path}/{group}"
        return f"{path}/mon_groups/{monitor}" if monitor else path

    def _why(self, step: ResctrlStep, error: OSError) -> str:
        """The kernel's error message, read under the lock: it keeps only the last one."""
        with contextlib.suppress(OSError):
            status = Path(self.mount.path, "info/last_cmd_status").read_text(errors="replace")
            if status.strip() not in ("", "ok"):
                return f"{_describe(step)}: the kernel says: {status.strip()[:300]}"
        return f"{_describe(step)}: {error.strerror}"

    def _named(self, tid: int) -> str:
        """`TID@STARTTIME`, since thread ids are reused; "" if there is no such thread."""
        started = self._stat(tid)
        return "" if started is None else f"{tid}@{started}"

    def _stat(self, tid: int) -> int | None:
        try:
            text = (self.root / f"proc/{tid}/stat").read_bytes()
        except (FileNotFoundError, ProcessLookupError):
            return None
        return int(text.rpartition(b")")[2].split()[19])

    def _exists(self, thread: Cell) -> bool:
        return self._named(int(thread.name.partition("@")[0])) == thread.name


def threads_of(pid: int, root: Path = Path("/")) -> tuple[int, ...]:
    """All threads of a process; for the id of another thread only that one; none if it ended.

    Raises OSError if it can't be read, which does not mean that it ended.
    """
    folder = root / f"proc/{pid}"
    try:
        lines = (folder / "status").read_text(errors="replace").splitlines()
        if f"Tgid:\t{pid}" not in lines:
            return (pid,)
        return tuple(sorted(int(entry.name) for entry in (folder / "task").iterdir()))
    except (FileNotFoundError, ProcessLookupError):
        return ()


def open_resctrl(root: Path = Path("/")) -> Resctrl:
    """The mounted resctrl. Raises AbsentError."""
    mount = find_mount(root)
    if isinstance(mount, Missing):
        raise AbsentError(mount.message)
    return Resctrl(mount, root)


def _name(group: GroupFiles) -> str:
    """Name of a directory; if that is not UTF-8, a string that no directory can have."""
    if group.name == ROOT or group.path.rpartition("/")[2] == group.name:
        return group.name
    return f"{group.name}\0{group.inode}"


def _add_cells(state: dict[Cell, str], group: GroupFiles) -> None:
    name = _name(group)
    if name != ROOT:
        state[Cell("group", name)] = str(group.inode)
    state[Cell("mode", name)] = group.mode or SHAREABLE
    if group.mode != PSEUDO_LOCKED:  # the kernel lists its CPUs in others
        for cpu in group.cpus:
            state[Cell("cpu", "", number=cpu)] = group_path(name)
    if not isinstance(group.schemata, Missing):
        for line, values in group.schemata.items():
            for domain, value in values.items():
                mask = line in MASK_LINES
                text = f"{value:x}" if mask else str(min(value, UNLIMITED_MBPS))
                state[Cell("schemata", name, line, domain)] = text
    for monitor in group.monitors:
        state[Cell("monitor", name, _name(monitor))] = str(monitor.inode)
        for cpu in monitor.cpus:
            state[Cell("cpu", "", number=cpu)] = group_path(name, _name(monitor))


def _add_io_cells(state: dict[Cell, str], io_alloc: IoAlloc | None) -> None:
    if io_alloc is None:
        return
    state[Cell("io_alloc", "", io_alloc.line)] = ENABLED if io_alloc.enabled else DISABLED
    for domain, bits in io_alloc.masks.items():
        state[Cell("io_cbm", "", io_alloc.line, domain)] = f"{bits:x}"


def _group_paths(groups: Iterable[GroupFiles]) -> Mapping[int, str]:
    locations: dict[int, str] = {}
    for group in groups:
        if group.name != ROOT:
            locations |= dict.fromkeys(_threads(group), group_path(_name(group)))
        for monitor in group.monitors:
            locations |= dict.fromkeys(_threads(monitor), group_path(_name(group), _name(monitor)))
    return locations


def _threads(group: GroupFiles) -> tuple[int, ...]:
    try:
        return parse_tasks(read_text(f"{group.path}/tasks", TASKS_BYTES))
    except FileNotFoundError:
        return ()


def _write(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        data = text.encode("ascii")
        if os.write(handle, data) != len(data):
            raise OSError(errno.EIO, "the kernel took only a part of what was written")
    finally:
        os.close(handle)


def _describe(step: ResctrlStep) -> str:
    if step.info_file:
        return f"write {step.text.strip()!r} to {step.info_file}"
    where = f"{step.group}:{step.monitor}" if step.monitor else step.group
    words = {"mkdir": "make group", "rmdir": "remove group"}
    if step.operation in words:
        return f"{words[step.operation]} {where}"
    return f"write {step.text.strip()!r} to {step.operation} of {where}"
