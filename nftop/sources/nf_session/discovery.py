"""Sockets of network functions: in nftop's own file system and in every container's.

Containers are read through /proc/<pid>/root, with one process for each mount namespace. Sockets in
unusual locations are listed in /proc/net/unix (proc_net_unix(5)) with the path that was bound.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import re
import stat
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import ClassVar

from nftop.model.owner import Owner
from nftop.model.struct import dataclass
from nftop.sources.host.sysfs import link_target, writable_name
from nftop.sources.trust import ownership

SURVEY_NS = 5_000_000_000  # scanning every process and every /run/* is expensive
_ANEW_EVERY = 6  # surveys, until the namespaces of all processes are read again
MAX_SOCKETS = 256
_MAX_SENTENCES = 32
# Of folders that unprivileged users can fill, in one look: entries of a user, and of all.
_MAX_ENTRIES, _MAX_ENTRIES_OF_ALL = 1024, 4096
# Mount namespaces of an unprivileged user, and of all; more than a host has containers.
_MAX_VIEWS, _MAX_VIEWS_OF_ALL = 64, 256
_MAX_NAMES = 4096  # listed names looked up in other views than nftop's own
_MAX_LIST_BYTES = 1 << 25  # of a /proc/net/unix: 300,000 sockets
_PREFIX_LIMIT = 128
ANY_FOLDER = "*"  # last component of a location that stands for all folders of its parent


@dataclass(frozen=True, slots=True)
class FileSystemView:
    """A file system as some processes see it; `unix_sockets` is their /proc/net/unix."""

    root: Path
    unix_sockets: Path

    @property
    def network(self) -> str:
        return link_target(self.unix_sockets.parent.parent / "ns" / "net")


@dataclass(frozen=True, slots=True)
class UnixSocket:
    """A socket's file."""

    key: tuple[int, int]  # device and inode; the same by whatever path
    path: str  # a path that nftop can open
    prefix: str  # the name of its directory (untrusted text)
    owner: Owner  # by its file and the folders above; a connection may show another

    @property
    def shown_path(self) -> str:
        """The path as text (untrusted)."""
        return writable_name(self.path)


def socket_at(status: os.stat_result, folder: Path, name: str) -> UnixSocket:
    path = str(folder / name)
    key = (status.st_dev, status.st_ino)
    prefix = writable_name(folder.name)[:_PREFIX_LIMIT]
    return UnixSocket(key, path, prefix, ownership.of_socket(path, None))


def sockets_of(path: Path, on_closed: Callable[[str], None]) -> Iterator[UnixSocket]:
    """The socket at `path`; none if there is none, or in a closed folder (`on_closed` gets it)."""
    try:
        status = path.lstat()
    except PermissionError:
        on_closed(str(path.parent))
    except OSError:
        return
    else:
        if stat.S_ISSOCK(status.st_mode):
            yield socket_at(status, path.parent, path.name)


def admitted(
    sockets: Iterable[UnixSocket], what: str
) -> tuple[tuple[UnixSocket, ...], tuple[str, ...]]:
    """The sockets to read, privileged ones first, and a sentence for each group left out.

    Each socket once, by the first path that is not an unprivileged user's.
    """
    best: dict[tuple[int, int], UnixSocket] = {}
    for socket in sockets:
        other = best.get(socket.key)
        if other is None or (socket.owner.privileged and not other.owner.privileged):
            best[socket.key] = socket
    owned = ownership.admitted(best.values(), lambda socket: socket.owner, MAX_SOCKETS, what)
    return tuple(owned[0]), owned[1]


@dataclass(frozen=True, slots=True)
class _Seen:
    """Views, nftop's own first; processes closed to nftop; sentences on views left out."""

    views: tuple[FileSystemView, ...] = ()
    closed: int = 0
    left_out: tuple[str, ...] = ()


class Views:
    """nftop's own view and one for each other mount namespace, updated every five seconds.

    Thread-safe: sources share the expensive /proc scan.
    """

    def __init__(
        self,
        root: Path = Path("/"),
        proc: Path = Path("/proc"),
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._root = root
        self._proc = proc
        self._clock = clock
        self._lock = threading.Lock()
        self._seen_at_ns: int | None = None
        self._seen = _Seen()
        self._surveys = 0
        self._namespaces: Mapping[str, str] = {}
        self._settled: Mapping[str, str] = {}
        self.served = ownership.ServedMounts(proc)

    def latest(self) -> _Seen:
        """The views, at most five seconds old."""
        with self._lock:
            now_ns = self._clock()
            if self._seen_at_ns is None or now_ns - self._seen_at_ns >= SURVEY_NS:
                self._seen_at_ns = now_ns
                self._seen = self._survey()
            return self._seen

    def _survey(self) -> _Seen:
        # A process may enter its namespace a moment after its start, and then seldom another.
        known = self._settled if self._surveys % _ANEW_EVERY else {}
        self._surveys += 1
        namespaces, unseen = _namespaces(self._proc, known)
        before, self._namespaces = self._namespaces, namespaces
        self._settled = {pid: ns for pid, ns in namespaces.items() if before.get(pid) == ns}
        views, left_out = _views(self._root, self._proc, namespaces)
        return _Seen(views, unseen, left_out)


def _namespaces(proc: Path, known: Mapping[str, str]) -> tuple[Mapping[str, str], int]:
    """Mount namespace by pid, and the number of processes closed to nftop.

    Those in `known` are not read again.
    """
    namespaces = {}
    unseen = 0
    for entry in _entries(proc, None):
        pid = entry.name
        # Some sandboxes close init to everyone, and it is no network function.
        if not pid.isdigit() or pid == "1":
            continue
        try:
            namespaces[pid] = known.get(pid) or os.readlink(f"{entry.path}/ns/mnt")  # noqa: PTH115
        except PermissionError:
            unseen += 1
        except OSError:
            continue
    return namespaces, unseen


def _views(
    root: Path, proc: Path, namespaces: Mapping[str, str]
) -> tuple[tuple[FileSystemView, ...], tuple[str, ...]]:
    own = link_target(proc / "self" / "ns" / "mnt")
    first_pid: dict[str, str] = {}
    for pid, namespace in namespaces.items():
        # Another user may have mounted anything, so a process of root is preferred.
        if namespace not in first_pid or (
            namespace != own
            and not _is_trusted(proc / first_pid[namespace])
            and _is_trusted(proc / pid)
        ):
            first_pid[namespace] = pid
    first_pid.pop(own, None)
    pids, left_out = ownership.admitted(
        first_pid.values(),
        lambda pid: ownership.of_process(_owner_uid(proc / pid)),
        None,
        "mount namespaces",
        (_MAX_VIEWS, _MAX_VIEWS_OF_ALL),
    )
    others = [FileSystemView(proc / pid / "root", proc / pid / "net" / "unix") for pid in pids]
    return (FileSystemView(root, proc / "self" / "net" / "unix"), *others), left_out


def _owner_uid(path: Path) -> int | None:
    try:
        return path.lstat().st_uid
    except OSError:
        return None


def _is_trusted(path: Path) -> bool:
    uid = _owner_uid(path)
    return uid is not None and ownership.is_trusted(uid)


def _entries(
    folder: Path, most: int | None, on_closed: Callable[[str], None] = lambda _path: None
) -> list[os.DirEntry[str]]:
    """Entries of a folder, sorted, at most `most`; none if it is absent or closed (`on_closed`)."""
    try:
        with os.scandir(folder) as entries:
            return sorted(islice(entries, most), key=lambda entry: entry.name)
    except PermissionError:
        on_closed(str(folder))
    except OSError:
        pass  # it has vanished
    return []


def inside(root: Path, path: str) -> Path:
    """`path` below `root`, where /var/run is usually a link to /run."""
    if path.startswith("/var/run/") and (root / "var" / "run").is_symlink():
        path = path.removeprefix("/var")
    return root / path.lstrip("/")


def listening(unix_sockets: Path, pattern: re.Pattern[bytes]) -> tuple[str, ...]:
    """Paths in a /proc/net/unix: the first group of each match."""
    try:
        with unix_sockets.open("rb") as file:
            raw = file.read(_MAX_LIST_BYTES)
    except OSError:
        return ()
    return tuple(os.fsdecode(path) for path in pattern.findall(raw))


def _files_of(paths: Iterable[Path], *, own: bool) -> Iterator[Path]:
    """Of the names that sockets were bound by, one for each file, which is a socket or closed.

    A user can bind any name in a mount namespace, and one file has any number of names. In nftop's
    `own` view the kernel gives the one without links.
    """
    seen = set[tuple[int, int]]()
    for path in paths:
        try:
            handle = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
        except PermissionError:
            yield path
            continue
        except OSError:
            continue
        try:
            about = os.fstat(handle)
            key = (about.st_dev, about.st_ino)
            if stat.S_ISSOCK(about.st_mode) and key not in seen:
                seen.add(key)
                yield Path(link_target(f"/proc/self/fd/{handle}")) if own else path
        finally:
            os.close(handle)


def bounded(paths: Iterable[Path]) -> list[Path]:
    """Paths without repetition; at most `MAX_SOCKETS` of those that unprivileged users own."""
    own: list[Path] = []
    others: list[Path] = []
    for path in dict.fromkeys(paths):
        owned = path.parent if path.name == ANY_FOLDER else path
        (own if _is_trusted(owned) else others).append(path)
    return own + others[:MAX_SOCKETS]


def closed_sentence(path: str, application: str) -> str:
    what = f"{writable_name(path)} is closed to this user"
    return f"{what}, so {application} there can't be read{_remedy()}"


# linux/inotify.h; a listing depends on the names in a folder, and on who may open it.
_CHANGES = 0x4 | 0x40 | 0x80 | 0x100 | 0x200 | 0x400 | 0x800  # ATTRIB .. MOVE_SELF
_ONLY_FOLDERS = 0x1000000
_READ_BYTES = 1 << 16
# A path that can't be opened is listed as empty, or as closed, until the caller looks again.
_NO_FOLDER = (errno.ENOENT, errno.ENOTDIR, errno.EACCES, errno.ELOOP, errno.ENAMETOOLONG)


class FolderWatch:
    """Reports by inotify(7) whether any of a set of folders changed, in one read(2).

    Without inotify, or at a limit of it, `changed` is always true. What another host changes in a
    file system of both is not reported.
    """

    def __init__(self) -> None:
        self._fd = -1
        self._watches: set[int] = set()
        self._complete = False

    def changed(self) -> bool:
        """Whether anything changed since the last call, or may have."""
        if not self._complete:
            return True
        try:
            return bool(os.read(self._fd, _READ_BYTES))
        except BlockingIOError:
            return False
        except OSError:
            return True

    def watch(self, folders: Iterable[str]) -> None:
        """Watch these folders from now on, and no others; absent ones are left out."""
        self._complete = False
        libc = ctypes.CDLL(None, use_errno=True)
        if self._fd < 0:
            self._fd = libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK)
        if self._fd < 0:
            return
        with contextlib.suppress(OSError):  # before the folders are listed, so that none is missed
            os.read(self._fd, _READ_BYTES)
        watches, complete = set[int](), True
        for folder in folders:
            number = libc.inotify_add_watch(
                self._fd, os.fsencode(folder), ctypes.c_uint32(_CHANGES | _ONLY_FOLDERS)
            )
            if number >= 0:
                watches.add(number)
            else:
                complete &= ctypes.get_errno() in _NO_FOLDER
        for number in self._watches - watches:
            libc.inotify_rm_watch(self._fd, number)
        self._watches, self._complete = watches, complete

    def close(self) -> None:
        """Stop; `changed` is true from now on."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd, self._complete = -1, False
        self._watches.clear()


class SocketSearch(ABC):
    """Where one kind of network function has its sockets.

    Attributes:
        application: one of its processes, for messages: `a DPDK application`.
        label: the kind; sockets: its sockets, plural.
        listening: matches a listening socket's line in /proc/net/unix; group 1 is the path.

    `environ` is nftop's.
    """

    application: ClassVar[str]
    label: ClassVar[str]
    sockets: ClassVar[str]
    listening: ClassVar[re.Pattern[bytes]]

    def __init__(self, environ: Mapping[str, str]) -> None:
        self.environ = environ
        self.is_served: Callable[[Path], bool] = lambda _path: False  # see `ServedMounts.has`
        self._read = Counter[int]()

    def begin(self) -> None:
        """Begin a look, which counts entries of unprivileged users' folders."""
        self._read.clear()

    def scan(
        self, folder: Path, on_closed: Callable[[str], None] = lambda _path: None
    ) -> list[os.DirEntry[str]]:
        """Entries of a folder, sorted; none if it is absent, or closed (`on_closed` gets its path).

        Of folders that an unprivileged user can fill, a bounded number in one look; none of those
        that one serves.
        """
        if self.is_served(folder):
            return []
        try:
            about = folder.stat()
        except OSError:
            return _entries(folder, 0, on_closed)
        shared = about.st_mode & stat.S_IWOTH
        if ownership.is_trusted(about.st_uid) and not shared:
            return _entries(folder, None, on_closed)
        uid = -1 if shared else about.st_uid
        left = min(_MAX_ENTRIES - self._read[uid], _MAX_ENTRIES_OF_ALL - self._read.total())
        entries = _entries(folder, left, on_closed)
        self._read[uid] += len(entries)
        return entries

    def sockets_in(
        self, folder: Path, name: re.Pattern[str], on_closed: Callable[[str], None]
    ) -> Iterator[UnixSocket]:
        """Sockets of a name in a folder."""
        for entry in self.scan(folder, on_closed):
            if name.fullmatch(entry.name):
                yield from sockets_of(folder / entry.name, lambda _path: None)

    def own_folders(self, *names: str) -> list[str]:
        """Absolute paths in these variables, without the leading slash."""
        paths = (self.environ.get(name, "") for name in names)
        return [path.lstrip("/") for path in paths if path.startswith("/")]

    @abstractmethod
    def usual(self, root: Path, *, own: bool) -> Iterable[Path]:
        """Usual locations below `root`; `own` if it is nftop's own file system."""

    @abstractmethod
    def sockets_at(self, location: Path, on_closed: Callable[[str], None]) -> Iterable[UnixSocket]:
        """Sockets at a location; `on_closed` gets each folder that nftop may not read."""


class SocketFinder:
    """Surveys all locations every five seconds, and lists the known ones when they change.

    `root` is nftop's own file system as in `views`.
    """

    def __init__(
        self,
        search: SocketSearch,
        root: Path,
        views: Views,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.search = search
        self._root = root
        self._views = views
        self._clock = clock
        search.is_served = self._is_served
        self._served = frozenset[str]()
        self._not_entered: dict[str, None] = {}
        self._survey_at_ns: int | None = None
        self._locations: tuple[Path, ...] = ()
        self._listening: tuple[Path, ...] = ()
        self._hidden: tuple[str, ...] = ()
        self._watch = FolderWatch()
        self._listed: tuple[tuple[UnixSocket, ...], tuple[str, ...]] = ((), ())

    def find(self) -> tuple[tuple[UnixSocket, ...], tuple[str, ...]]:
        """Every socket, and a message for each location that is closed to nftop."""
        now_ns = self._clock()
        due = self._survey_at_ns is None or now_ns - self._survey_at_ns >= SURVEY_NS
        if due:
            self._survey_at_ns = now_ns
            self.search.begin()
            self._not_entered.clear()
            self._survey()
        served, before = self._views.served.latest(), self._served
        if self._watch.changed() or due or served is not before:
            self._served = served
            self.search.begin()
            self._watch.watch(self._folders())
            self._listed = self._list()
        return self._listed

    def close(self) -> None:
        """Stop watching the locations."""
        self._watch.close()

    def _folders(self) -> Iterator[str]:
        """Folders whose names and modes decide which sockets there are."""
        for location in self._entered(*self._locations, *self._listening):
            if location.name == ANY_FOLDER:
                yield os.fspath(location.parent)
                for entry in self.search.scan(location.parent):
                    if entry.is_dir(follow_symlinks=False):
                        yield from map(os.fspath, self._entered(Path(entry.path)))
            else:
                folders = (path for path in (location, *location.parents) if _is_folder(path))
                yield os.fspath(next(folders, self._root))

    def _is_served(self, path: Path) -> bool:
        served = self._views.served.has(path)
        if served and len(self._not_entered) < _MAX_SENTENCES:
            text = f"{writable_name(os.fspath(path))} is not entered: another user serves it (FUSE)"
            self._not_entered[text] = None
        return served

    def _entered(self, *paths: Path) -> list[Path]:
        return [path for path in paths if not self.search.is_served(path)]

    def _list(self) -> tuple[tuple[UnixSocket, ...], tuple[str, ...]]:
        hidden = list(self._hidden)

        def on_closed(folder: str) -> None:
            hidden.append(closed_sentence(folder, self.search.application))

        sockets = [
            socket
            for location in self._entered(*self._locations)
            for socket in self.search.sockets_at(location, on_closed)
        ]
        listening = self._entered(*self._listening)
        sockets += [one for path in listening for one in sockets_of(path, on_closed)]
        chosen, left_out = admitted(sockets, self.search.sockets)
        once = tuple(dict.fromkeys([*left_out, *hidden, *self._not_entered]))
        more = len(once) - _MAX_SENTENCES
        return chosen, (*once[:_MAX_SENTENCES], *([f"and {more} more"] if more > 0 else []))

    def _survey(self) -> None:
        seen = self._views.latest()
        locations: dict[Path, None] = {}
        sockets: dict[Path, None] = {}
        listed: dict[str, tuple[str, ...]] = {}
        left = _MAX_NAMES
        for view in seen.views:
            own = view.root == self._root
            locations |= dict.fromkeys(self._entered(*self.search.usual(view.root, own=own)))
            network = view.network
            if network not in listed:
                listed[network] = listening(view.unix_sockets, self.search.listening)
            names = listed[network] if own else listed[network][:left]
            left -= 0 if own else len(names)
            paths = self._entered(*(inside(view.root, path) for path in names))
            sockets |= dict.fromkeys(_files_of(paths, own=own))
        self._listening = tuple(bounded(sockets))
        kept = bounded(locations)
        parents = {path.parent for path in kept if path.name == ANY_FOLDER}
        # A folder that is read as one of its parent's is not read again.
        self._locations = tuple(
            path
            for path in kept
            if path.name == ANY_FOLDER or path.parent not in parents or _is_link(path)
        )
        unseen = seen.closed
        subject = "1 process is" if unseen == 1 else f"{unseen} processes are"
        sockets_of = f"{self.search.label} in their containers can't be seen{_remedy()}"
        text = f"{subject} closed to this user, so {sockets_of}"
        self._hidden = (*seen.left_out, *((text,) if unseen else ()))


def _is_link(path: Path) -> bool:
    """False also where nftop may not look."""
    return os.path.islink(path)  # noqa: PTH114 - Path.is_symlink raises there


def _is_folder(path: Path) -> bool:
    """False also where nftop may not look."""
    return os.path.isdir(path)  # noqa: PTH112 - Path.is_dir raises there


def _remedy() -> str:
    return ": sudo nftop" if os.geteuid() else ""
