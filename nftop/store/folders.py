"""Access to files by descriptor, so that root never follows another user's symbolic link.

Rule: as root, a path is opened component by component (openat(2) with O_NOFOLLOW). A symbolic link
is followed only if nobody but root could have placed it: root owns it, and every folder on the way
belongs to root and is writable by root alone (or is sticky, such as /tmp). From the first other
folder on, a link is followed only if no user but the owner of its folder can have placed it, and
that user owns its target: root then does nothing that this user could not. The kernel follows links
of procfs, wherever they are in the path: their text is a path in another process's view. The folder
they lead to is judged like any other. Without root, paths are opened as usual.

Creating, renaming and removing use the descriptor of the folder that was checked, so an exchange of
folders afterwards has no effect. A file below another user's folder that has several hard links and
another owner than its folder is not read: it may be root's under a second name.

All files at paths of the operator's choice are opened by `Folder`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import stat
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple, Self

from nftop.model.procfs import is_procfs

_SEARCH = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_LIST = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_LINKS = 40  # as path_resolution(7)
_SHARED = stat.S_IWGRP | stat.S_IWOTH
_NOT_FOLLOWED = "a symbolic link that another user can change is not followed as root"
_SECOND_NAME = "a second name of another user's file is not read as root"


class Person(NamedTuple):
    """User who started nftop through sudo."""

    uid: int
    gid: int
    home: Path


def caller(environ: Mapping[str, str]) -> Person | None:
    """User who started nftop through sudo; None without sudo, or if that user is root."""
    uid = environ.get("SUDO_UID", "")
    if os.geteuid() != 0 or not (uid.isascii() and uid.isdigit() and len(uid) < 11):
        return None
    try:
        entry = pwd.getpwuid(int(uid))
    except KeyError:
        return None
    if entry.pw_uid == 0:
        return None
    return Person(entry.pw_uid, entry.pw_gid, Path(entry.pw_dir))


class Folder:
    """An open folder; close it, or use it as a context manager.

    Attributes:
        handle: its descriptor.
        only_root: whether only root can rename or remove what root owns in it and in every folder
            on the way to it (others may add names to sticky ones, such as /tmp); True without root,
            where paths are opened as usual.
    """

    def __init__(self, handle: int, *, only_root: bool) -> None:
        self.handle = handle
        self.only_root = only_root

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor. Safe to call twice."""
        if self.handle >= 0:
            os.close(self.handle)
            self.handle = -1

    def create(self, name: str, person: Person | None, mode: int = 0o600) -> int:
        """A new file, open for reading and writing; `person` gets it if the folder is theirs.

        Raises OSError: FileExistsError if the name exists, a dangling link included.
        """
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        handle = os.open(name, flags, mode, dir_fd=self.handle)
        try:
            if person is not None and os.fstat(self.handle).st_uid == person.uid:
                os.fchown(handle, person.uid, person.gid)
        except OSError:
            os.close(handle)
            raise
        return handle

    def open_file(self, name: str) -> int:
        """An existing file, open for reading; never waits for the writer of a FIFO.

        Raises OSError: ELOOP for a symbolic link, EPERM for a second name of another user's file.
        """
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        handle = os.open(name, flags, dir_fd=self.handle)
        try:
            _check_links(handle, self.handle, only_root=self.only_root)
        except OSError:
            os.close(handle)
            raise
        return handle

    def status(self, name: str) -> os.stat_result | None:
        """Status of the name itself, of a link and not of its target; None if there is none."""
        try:
            return os.stat(name, dir_fd=self.handle, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def names(self) -> list[str]:
        return _names(self.handle)

    def move(self, old: str, new: str) -> None:
        """Rename within the folder; replaces `new`, which may be a link: its target stays."""
        os.rename(old, new, src_dir_fd=self.handle, dst_dir_fd=self.handle)

    def remove(self, name: str) -> None:
        """Remove a file; nothing happens if there is none."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=self.handle)

    def remove_if(self, name: str, handle: int) -> None:
        """Remove the name if it is still that of the open file `handle`."""
        opened, named = os.fstat(handle), self.status(name)
        if named is not None and (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino):
            self.remove(name)


def open_folder(path: Path, *, make_for: Person | None = None, make: bool = False) -> Folder:
    """Open the folder at `path`; a relative one is below the working directory.

    `make`: create what is missing, mode 0700; below a folder of `make_for` it becomes that user's.
    Raises OSError with `filename`; ELOOP for a link that is not followed.
    """
    walk: _Walk | None = None
    try:
        walk = _Walk(path)
        walk.go(make_for, make=make)
        return Folder(os.open(".", _LIST, dir_fd=walk.handle), only_root=walk.only_root)
    except OSError as error:
        raise _named(error, path) from None
    finally:
        if walk is not None:
            walk.close()


def check_creatable(path: Path) -> None:
    """Raise OSError with `filename` if no file can be created at `path`; nothing is created.

    Missing folders are created later, so the nearest one that exists is tested.
    """
    folder, name = path.parent, path.name
    while not folder.exists() and folder != folder.parent:
        folder, name = folder.parent, ""
    with open_folder(folder) as opened:
        try:
            status = opened.status(name) if name else None
            if status is not None and stat.S_ISDIR(status.st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
            os.close(os.open(".", os.O_TMPFILE | os.O_WRONLY, 0o600, dir_fd=opened.handle))
        except OSError as error:
            if error.errno != errno.EOPNOTSUPP:  # by file systems without unnamed files
                raise _named(error, path) from None


def open_file(path: Path, *, wait: bool = False, follow: bool = True) -> int:
    """An existing file, open for reading, by the rule of this module.

    `wait`: for the writer of a FIFO. `follow`: whether the last component may be a link. Raises
    OSError with `filename`.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | (0 if wait else os.O_NONBLOCK)
    if not follow:
        flags |= os.O_NOFOLLOW
    if os.geteuid() != 0:
        return os.open(path, flags)
    walk = _Walk(path)
    try:
        walk.go(None, make=False, last=True, follow_last=follow)
        if walk.file is not None:
            return os.open(f"/proc/self/fd/{walk.file}", flags & ~os.O_NOFOLLOW)
        if walk.last is None:  # it is a folder, or a descriptor of this process in /proc/self/fd
            return os.open(walk.magic or ".", flags, dir_fd=walk.handle)
        handle = os.open(walk.last, flags | os.O_NOFOLLOW, dir_fd=walk.handle)
        try:
            _check_links(handle, walk.handle, only_root=walk.only_root)
        except OSError:
            os.close(handle)
            raise
    except OSError as error:
        raise _named(error, path) from None
    finally:
        walk.close()
    return handle


class _Walk:
    """One path, resolved component by component.

    Attributes:
        handle: O_PATH descriptor of the folder reached.
        only_root: as `Folder`'s.
        last: name of the last component if it is left to the caller; None else.
        magic: the same if it is a link of procfs, which only the kernel can follow.
        file: O_PATH descriptor of the file that a user's link led to, as last component; else None.
    """

    def __init__(self, path: Path) -> None:
        self.last: str | None = None
        self.magic = ""
        self.file: int | None = None
        self.only_root = True
        self._as_root = os.geteuid() == 0
        self._left = deque(
            component for component in os.fspath(path).split("/") if component not in ("", ".")
        )
        self._links = 0
        # The working directory is the caller's choice, so it is walked to as well.
        if not path.is_absolute() and self._as_root:
            self._left.extendleft(reversed(Path.cwd().parts[1:]))
        self.handle = os.open("/" if path.is_absolute() or self._as_root else ".", _SEARCH)
        self._judge()

    def close(self) -> None:
        os.close(self.handle)
        if self.file is not None:
            os.close(self.file)

    def go(
        self, person: Person | None, *, make: bool, last: bool = False, follow_last: bool = True
    ) -> None:
        """Resolve all components; with `last` leave the last one, unless it is a link or folder."""
        while self._left:
            name = self._left.popleft()
            try:
                flags = _SEARCH if self._as_root else os.O_PATH | os.O_CLOEXEC
                opened = os.open(name, flags, dir_fd=self.handle)
            except FileNotFoundError:
                if last and not self._left:
                    self.last = name
                    return
                if not make:
                    raise
                opened = self._create_new(name, person)
            mode = os.fstat(opened).st_mode
            if stat.S_ISLNK(mode):
                if last and not self._left and (not follow_last or self._is_proc()):
                    os.close(opened)
                    self.last, self.magic = (None, name) if follow_last else (name, "")
                    return
                self._follow(opened, name)
                if self.file is not None and (not last or self._left):
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)
            elif stat.S_ISDIR(mode):
                self._enter(opened)
            else:
                os.close(opened)
                if not last or self._left:
                    raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), name)
                self.last = name

    def _enter(self, opened: int) -> None:
        os.close(self.handle)
        self.handle = opened
        self._judge()

    def _judge(self) -> None:
        """Note the first folder that another user than root can change."""
        about = os.fstat(self.handle)
        shared = about.st_mode & _SHARED and not about.st_mode & stat.S_ISVTX
        if self._as_root and (about.st_uid or shared):
            self.only_root = False

    def _follow(self, link: int, name: str) -> None:
        """Continue at a link's target. `link` is its descriptor, which is closed."""
        try:
            owner = os.fstat(link).st_uid
            target = os.readlink("", dir_fd=link)
        finally:
            os.close(link)
        self._links += 1
        if not self.only_root:
            self._follow_own(name)
            return
        if owner or self._links > _MAX_LINKS:
            raise OSError(errno.ELOOP, _NOT_FOLLOWED)
        if self._is_proc():
            self._enter(
                os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.handle)
            )
            return
        self._left.extendleft(
            reversed([component for component in target.split("/") if component not in ("", ".")])
        )
        if target.startswith("/"):
            self._enter(os.open("/", _SEARCH))

    def _follow_own(self, name: str) -> None:
        """Continue at the target of a link of the folder's owner, if it is that user's."""
        folder = os.fstat(self.handle)
        try:
            opened = os.open(name, os.O_PATH | os.O_CLOEXEC, dir_fd=self.handle)
        except OSError:
            raise OSError(errno.ELOOP, _NOT_FOLLOWED) from None
        about = os.fstat(opened)
        theirs = folder.st_uid == about.st_uid != 0 and not folder.st_mode & _SHARED
        if theirs and stat.S_ISDIR(about.st_mode):
            self._enter(opened)
        elif theirs and stat.S_ISREG(about.st_mode):
            self.file = opened
        else:
            os.close(opened)
            raise OSError(errno.ELOOP, _NOT_FOLLOWED)

    def _is_proc(self) -> bool:
        """Whether this is a folder of procfs that root alone can change."""
        return self.only_root and is_procfs(self.handle)

    def _create_new(self, name: str, person: Person | None) -> int:
        """A new folder in this one; `person` gets it if this one is theirs."""
        with contextlib.suppress(FileExistsError):  # created meanwhile
            os.mkdir(name, 0o700, dir_fd=self.handle)
        opened = os.open(name, _LIST, dir_fd=self.handle)
        try:
            about = os.fstat(opened)
            theirs = person is not None and os.fstat(self.handle).st_uid == person.uid
            # If a folder of root was exchanged for the new one, it is not given away unless empty.
            if person and theirs and about.st_uid == os.geteuid() and not _names(opened):
                os.fchown(opened, person.uid, person.gid)
        except OSError:
            os.close(opened)
            raise
        return opened


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry in entries)


def _check_links(handle: int, folder: int, *, only_root: bool) -> None:
    about = os.fstat(handle)
    foreign = about.st_uid != os.fstat(folder).st_uid
    if not only_root and foreign and about.st_nlink > 1 and stat.S_ISREG(about.st_mode):
        raise OSError(errno.EPERM, _SECOND_NAME)


def _named(error: OSError, path: Path) -> OSError:
    """The same error, with the whole path."""
    return type(error)(error.errno, error.strerror, os.fspath(path))


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Give an OSError within it this path: a failed write, as of a full disk, has no name."""
    try:
        yield
    except OSError as error:
        raise _named(error, path) from None


def write_new(path: Path, text: str, mode: int = 0o600) -> None:
    """Create a file; its owner is as in `Folder.create`.

    Raises OSError with `filename`: it exists, or can't be written; nothing is left of it then.
    """
    with open_folder(path.parent) as folder, naming(path):
        handle = folder.create(path.name, caller(os.environ), mode)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(text)
        except BaseException:
            folder.remove(path.name)
            raise
