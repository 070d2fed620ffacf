"""resctrl as a tree of files for the lab's server."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence

from tests.lab.resctrl import files, groups
from tests.lab.resctrl.files import File, Folder, Node
from tests.lab.resctrl.state import Group, Resctrl, path_of
from tests.lab.tree import Caller, Entry, Handle, failed

_ROOT_INODE = 1


class ResctrlTree:
    """Implements `tests.lab.tree.Tree`.

    Attributes:
        state: what is mounted. Mounting anew, with other options, is putting another here; the
            inodes of what was there are not used again.
        changes: how often somebody opened a file to write, or made, removed or renamed a group,
            whatever came of it.
    """

    def __init__(self, state: Resctrl) -> None:
        self.state = state
        self.changes = 0
        self._inodes: dict[tuple[Resctrl, int, str], int] = {}

    def lookup(self, path: str) -> Entry:
        """See `Tree`."""
        node = files.find(self.state, path)
        inode = self._inode(path)
        if isinstance(node, Folder):
            owner = node.group or self.state.root
            return Entry(folder=True, mode=owner.permissions, inode=inode)
        return Entry(folder=False, mode=node.mode, inode=inode)

    def names(self, path: str) -> Sequence[str]:
        """See `Tree`."""
        return tuple(_folder(files.find(self.state, path)).nodes)

    def open(self, path: str, flags: int, caller: Caller) -> Handle:
        """See `Tree`; EACCES to write what is only to be read, for root too."""
        self.changes += flags & os.O_ACCMODE != os.O_RDONLY
        node = files.find(self.state, path)
        if isinstance(node, Folder):
            raise failed(errno.EISDIR)
        if flags & os.O_ACCMODE != os.O_RDONLY and (node.write is None or caller.uid != 0):
            raise failed(errno.EACCES)
        return OpenFile(node, self._owner(path), caller)

    def mkdir(self, path: str, mode: int, caller: Caller) -> None:
        """See `Tree`: makes a group."""
        self.changes += 1
        _only_root(caller)
        parent, name = os.path.split(path)
        where = _folder(files.find(self.state, parent))
        if name in where.nodes:
            raise failed(errno.EEXIST)
        if "\n" in name:
            raise failed(errno.EINVAL)
        if where.group is self.state.root and where.kind == "group" and self.state.schemas:
            groups.make_control(self.state, name, mode & 0o7777)
        elif where.group is not None and where.kind == "mon_groups" and name != "mon_groups":
            groups.make_monitoring(self.state, where.group, name, mode & 0o7777)
        else:
            raise groups.refuse_elsewhere(self.state, in_info=where.group is None)

    def rmdir(self, path: str, caller: Caller) -> None:
        """See `Tree`: removes a group with all that is in it."""
        self.changes += 1
        _only_root(caller)
        node = _folder(files.find(self.state, path))
        if node.kind != "group" or node.group is None or node.group is self.state.root:
            raise failed(errno.EPERM)
        groups.remove(self.state, node.group)

    def rename(self, old: str, new: str, caller: Caller) -> None:
        """See `Tree`: monitoring groups only, and on later kernels only."""
        self.changes += 1
        _only_root(caller)
        source = files.find(self.state, old)
        target, name = os.path.split(new)
        where = _folder(files.find(self.state, target))
        if not self.state.profile.moves_groups:
            raise failed(errno.EPERM)
        if isinstance(source, File) or source.group is None or where.group is None:
            raise failed(errno.EPERM if isinstance(source, File) else errno.ENOENT)
        group = source.group if source.kind == "group" else None
        parent = where.group if where.kind == "mon_groups" else None
        groups.move(self.state, group, parent, name)

    def _owner(self, path: str) -> Group:
        """The group in whose directory a path is."""
        owner = self.state.root
        node: Node = files.folder(self.state, owner)
        for name in filter(None, path.split("/")):
            node = _folder(node).child(name)
            if isinstance(node, Folder) and node.group is not None:
                owner = node.group
        return owner

    def _inode(self, path: str) -> int:
        """One number for every file of every group that there ever was."""
        owner = self._owner(path)
        key = self.state, owner.serial, path.removeprefix(path_of(owner).rstrip("/")).strip("/")
        return self._inodes.setdefault(key, _ROOT_INODE + len(self._inodes))


class OpenFile:
    """Implements `tests.lab.tree.Handle`: a seq_file, whose text is made anew at offset 0."""

    def __init__(self, file: File, owner: Group, caller: Caller) -> None:
        self._file, self._owner, self._caller = file, owner, caller
        self._text = b""

    def read(self, size: int, offset: int) -> bytes:
        """See `Handle`; ENODEV once its group is gone."""
        self._check()
        if offset == 0:
            self._text = self._file.read().encode("latin-1")
        return self._text[offset : offset + size]

    def write(self, data: bytes, offset: int) -> int:
        """See `Handle`: all is taken or nothing; ENODEV once its group is gone."""
        self._check()
        files.write(self._file, data, self._caller)
        return len(data)

    def ioctl(self, request: int, argument: int, data: bytearray | None) -> int:
        """See `Handle`: there are none."""
        raise failed(errno.ENOTTY)

    def close(self) -> None:
        """See `Handle`."""

    def _check(self) -> None:
        if not self._owner.live:
            raise failed(errno.ENODEV)


def _folder(node: Node) -> Folder:
    if isinstance(node, File):
        raise failed(errno.ENOTDIR)
    return node


def _only_root(caller: Caller) -> None:
    if caller.uid != 0:
        raise failed(errno.EACCES)
