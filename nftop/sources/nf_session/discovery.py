"""Where network functions may have their sockets: our own file system and every container's.

Containers are looked into through /proc/<pid>/root, with one process for each mount namespace. A
socket in no usual place is named by /proc/net/unix (proc_net_unix(5)), whose text is the path that
its owner bound.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterable
from itertools import islice
from pathlib import Path

from nftop.model.owner import Owner
from nftop.model.struct import dataclass
from nftop.sources.trust import trust

SURVEY_NS = 5_000_000_000  # looking at every process and every /run/* is dear
MAX_SOCKETS = 256
_MAX_SENTENCES = 32
_MAX_ENTRIES = 1024


@dataclass(frozen=True, slots=True)
class View:
    """A file system as some processes see it; `unix_sockets` is their /proc/net/unix."""

    root: Path
    unix_sockets: Path

    @property
    def network(self) -> str:
        """Which network namespace its sockets are listed of; "" where that can't be told."""
        return link(self.unix_sockets.parent.parent / "ns" / "net")


@dataclass(frozen=True, slots=True)
class Found:
    """A socket.

    Attributes:
        key: device and inode; the same however it is reached.
        path: where it can be opened from here.
        prefix: the name of its directory (untrusted text).
        owner: by its file and the folders above; a connection may show another.
    """

    key: tuple[int, int]
    path: str
    prefix: str
    owner: Owner


def socket_at(key: tuple[int, int], path: str, prefix: str) -> Found:
    """The socket of that inode at a path."""
    return Found(key, path, prefix, trust.of_socket(path, None))


def best_paths(sockets: Iterable[Found]) -> list[Found]:
    """Each socket once, by the first path to it that is not an unprivileged user's."""
    found: dict[tuple[int, int], Found] = {}
    for socket in sockets:
        held = found.get(socket.key)
        if held is None or (socket.owner.privileged and not held.owner.privileged):
            found[socket.key] = socket
    return list(found.values())


def admitted(sockets: Iterable[Found], what: str) -> tuple[tuple[Found, ...], tuple[str, ...]]:
    """The sockets to read, privileged ones first, and a sentence for each group left out."""
    once = best_paths(sockets)
    chosen, sentences = trust.admitted(once, lambda found: found.owner, MAX_SOCKETS, what)
    return tuple(chosen), sentences


class Views:
    """Our own view and one for each other mount namespace, looked up every five seconds.

    Safe from any thread, so that sources share the dear look at every process.
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
        self._seen: tuple[tuple[View, ...], int] = ((), 0)

    def look(self) -> tuple[tuple[View, ...], int]:
        """The views, our own first, and how many processes are closed to us."""
        with self._lock:
            now_ns = self._clock()
            if self._seen_at_ns is None or now_ns - self._seen_at_ns >= SURVEY_NS:
                self._seen_at_ns = now_ns
                self._seen = _views(self._root, self._proc)
            return self._seen


def _views(root: Path, proc: Path) -> tuple[tuple[View, ...], int]:
    own = link(proc / "self" / "ns" / "mnt")
    first_pid: dict[str, str] = {}
    unseen = 0
    for entry in scan(proc):
        # Not init: some sandboxes close it to everyone, and it is no network function.
        if not entry.name.isdigit() or entry.name == "1":
            continue
        try:
            namespace = str((proc / entry.name / "ns" / "mnt").readlink())
        except PermissionError:
            unseen += 1
        except OSError:
            continue
        else:
            # Another user may have mounted what it likes; where root is too, root looks out.
            if namespace not in first_pid or (
                namespace != own
                and not _is_trusted(proc / first_pid[namespace])
                and _is_trusted(proc / entry.name)
            ):
                first_pid[namespace] = entry.name
    first_pid.pop(own, None)
    others = [View(proc / pid / "root", proc / pid / "net" / "unix") for pid in first_pid.values()]
    return (View(root, proc / "self" / "net" / "unix"), *others), unseen


def _is_trusted(path: Path) -> bool:
    try:
        return trust.is_trusted(path.lstat().st_uid)
    except OSError:
        return False


def scan(
    folder: Path, on_closed: Callable[[str], None] = lambda _path: None
) -> list[os.DirEntry[str]]:
    """What a folder holds, in order; nothing where it is gone, or closed: `on_closed` is told.

    Of an unprivileged user's folder `_MAX_ENTRIES` at most: it may hold any number.
    """
    try:
        most = None if trust.is_trusted(folder.stat().st_uid) else _MAX_ENTRIES
        with os.scandir(folder) as entries:
            return sorted(islice(entries, most), key=lambda entry: entry.name)
    except PermissionError:
        on_closed(str(folder))
    except OSError:
        pass  # it vanished, which is not worth a word
    return []


def link(path: Path) -> str:
    """Where a symbolic link points; "" where it can't be read."""
    try:
        return str(path.readlink())
    except OSError:
        return ""


def exists(path: Path) -> bool:
    """It is there, as far as we may know."""
    try:
        path.lstat()
    except OSError:
        return False
    return True


def inside(root: Path, path: str) -> Path:
    """`path` as seen below `root`, where /var/run is usually a link to /run."""
    if path.startswith("/var/run/") and (root / "var" / "run").is_symlink():
        path = path.removeprefix("/var")
    return root / path.lstrip("/")


def listening(unix_sockets: Path, pattern: re.Pattern[bytes]) -> tuple[str, ...]:
    """The paths that `pattern` finds in a /proc/net/unix, in its first group."""
    try:
        raw = unix_sockets.read_bytes()
    except OSError:
        return ()
    return tuple(os.fsdecode(path) for path in pattern.findall(raw))


def bounded(paths: Iterable[Path]) -> list[Path]:
    """Paths without repetition; `MAX_SOCKETS` at most of those that unprivileged users own."""
    own: list[Path] = []
    others: list[Path] = []
    for path in dict.fromkeys(paths):
        (own if _is_trusted(path) else others).append(path)
    return own + others[:MAX_SOCKETS]


def closed_sentence(path: str, who: str) -> str:
    """Why nothing is known of what may be at `path`, and what helps."""
    return f"{path} is closed to this user, so {who} there can't be read{_remedy()}"


def unseen_sentence(processes: int, what: str) -> str:
    """Why nothing is known of what these processes may have."""
    who = "1 process is" if processes == 1 else f"{processes} processes are"
    return f"{who} closed to this user, so {what} in their containers can't be seen{_remedy()}"


def shortened(sentences: list[str]) -> tuple[str, ...]:
    """Each once, and not more than anybody reads."""
    once = list(dict.fromkeys(sentences))
    if len(once) <= _MAX_SENTENCES:
        return tuple(once)
    return (*once[:_MAX_SENTENCES], f"and {len(once) - _MAX_SENTENCES} more such places")


def _remedy() -> str:
    return ": sudo nftop" if os.geteuid() else ""
