"""Where telemetry sockets may be, in our mount namespace and in every other one.

EAL puts them at `<runtime>/dpdk/<file prefix>/dpdk_telemetry.v2`, with `:N` behind it for further
applications of one prefix; `<runtime>` is $RUNTIME_DIRECTORY, else /var/run for root and
$XDG_RUNTIME_DIR or /tmp for others (eal_create_runtime_dir). Where an application had another
environment than ours, /proc/net/unix names the socket it listens on (proc_net_unix(5)).

Containers are looked into through /proc/<pid>/root, with one process for each mount namespace.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

SURVEY_NS = 5_000_000_000  # looking at every process and every /run/* is dear

_SOCKET_NAME = re.compile(r"dpdk_telemetry\.v2(:[0-9]{1,3})?")
_LISTENING = re.compile(  # flags __SO_ACCEPTCON, type SOCK_SEQPACKET
    rb"^\S+ \S+ \S+ 00010000 0005 \S+ +\d+ (/[^\n]*/dpdk_telemetry\.v2(?::\d{1,3})?)$", re.MULTILINE
)
_RUNTIMES = ("run", "run/*", "run/user/*", "var/run", "tmp")
_MAX_SOCKETS = 256
_MAX_SENTENCES = 32
_PREFIX_LIMIT = 128


@dataclass(frozen=True, slots=True)
class Found:
    """A telemetry socket.

    Attributes:
        key: device and inode; the same however it is reached.
        path: where it can be opened from here.
        prefix: the application's file prefix (untrusted text).
    """

    key: tuple[int, int]
    path: str
    prefix: str


@dataclass(frozen=True, slots=True)
class _View:
    """A file system as some processes see it."""

    root: Path
    unix_sockets: Path


class Finder:
    """Finds sockets; a survey of all places every five seconds, the known ones every time.

    `root` and `proc` are injected; `environ` is ours, for the runtime directories it names.
    """

    def __init__(
        self,
        root: Path = Path("/"),
        proc: Path = Path("/proc"),
        environ: Mapping[str, str] = os.environ,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._root = root
        self._proc = proc
        self._own_runtimes = tuple(
            environ[name].lstrip("/")
            for name in ("XDG_RUNTIME_DIR", "RUNTIME_DIRECTORY")
            if environ.get(name, "").startswith("/")
        )
        self._clock = clock
        self._survey_at_ns: int | None = None
        self._bases: tuple[Path, ...] = ()
        self._folders: tuple[Path, ...] = ()
        self._survey_hidden: tuple[str, ...] = ()

    def find(self) -> tuple[tuple[Found, ...], tuple[str, ...]]:
        """Every socket there is, and a sentence for every place we may not look into."""
        now_ns = self._clock()
        if self._survey_at_ns is None or now_ns - self._survey_at_ns >= SURVEY_NS:
            self._survey_at_ns = now_ns
            self._survey()
        hidden = list(self._survey_hidden)
        found: dict[tuple[int, int], Found] = {}
        for folder in self._each_folder(hidden):
            for socket in _sockets(folder, hidden):
                found.setdefault(socket.key, socket)
            if len(found) > _MAX_SOCKETS:
                hidden.append(f"more than {_MAX_SOCKETS} telemetry sockets: the rest is not read")
                break
        return tuple(found.values())[:_MAX_SOCKETS], _shortened(list(dict.fromkeys(hidden)))

    def _each_folder(self, hidden: list[str]) -> Iterator[Path]:
        """One folder for each file prefix."""
        yield from dict.fromkeys(
            [folder for base in self._bases for folder in _sub_folders(base, hidden)]
            + list(self._folders)
        )

    def _survey(self) -> None:
        views, unseen = self._views()
        bases: dict[Path, None] = {}
        folders: dict[Path, None] = {}
        listening: dict[str, tuple[str, ...]] = {}
        for view in views:
            own = self._own_runtimes if view.root == self._root else ()
            bases |= dict.fromkeys(_bases(view.root, own))
            namespace = _link(view.unix_sockets.parent.parent / "ns" / "net")
            if namespace not in listening:
                listening[namespace] = _listening_paths(view.unix_sockets)
            folders |= dict.fromkeys(_inside(view.root, p).parent for p in listening[namespace])
        self._bases, self._folders = tuple(bases), tuple(folders)
        self._survey_hidden = () if not unseen else (_unseen_sentence(unseen),)

    def _views(self) -> tuple[list[_View], int]:
        """Our own view and one for each other mount namespace; how many can't be told."""
        own = _link(self._proc / "self" / "ns" / "mnt")
        first_pid: dict[str, str] = {}
        unseen = 0
        for entry in _scan(self._proc, []):
            # Not init: some sandboxes close it to everyone, and it is no network function.
            if not entry.name.isdigit() or entry.name == "1":
                continue
            try:
                namespace = str((self._proc / entry.name / "ns" / "mnt").readlink())
            except PermissionError:
                unseen += 1
            except OSError:
                continue
            else:
                first_pid.setdefault(namespace, entry.name)
        first_pid.pop(own, None)
        others = [
            _View(self._proc / pid / "root", self._proc / pid / "net" / "unix")
            for pid in first_pid.values()
        ]
        return [_View(self._root, self._proc / "self" / "net" / "unix"), *others], unseen


def _bases(root: Path, own_runtimes: tuple[str, ...]) -> Iterator[Path]:
    """The `<runtime>/dpdk` folders there are."""
    for runtime in (*own_runtimes, *_RUNTIMES):
        if runtime == "var/run" and (root / runtime).is_symlink():
            continue  # it is /run again, and through /proc/<pid>/root it would lead to our own
        parents = (
            (root / runtime[:-2] / entry.name for entry in _scan(root / runtime[:-2], []))
            if runtime.endswith("/*")
            else (root / runtime,)
        )
        yield from (parent / "dpdk" for parent in parents if _exists(parent / "dpdk"))


def _inside(root: Path, path: str) -> Path:
    """`path` as seen below `root`, where /var/run is usually a link to /run."""
    if path.startswith("/var/run/") and (root / "var" / "run").is_symlink():
        path = path.removeprefix("/var")
    return root / path.lstrip("/")


def _sub_folders(base: Path, hidden: list[str]) -> list[Path]:
    return [base / e.name for e in _scan(base, hidden) if e.is_dir(follow_symlinks=False)]


def _sockets(folder: Path, hidden: list[str]) -> Iterator[Found]:
    for entry in _scan(folder, hidden):
        if not _SOCKET_NAME.fullmatch(entry.name):
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISSOCK(status.st_mode):
            key = (status.st_dev, status.st_ino)
            yield Found(key, str(folder / entry.name), folder.name[:_PREFIX_LIMIT])


def _scan(folder: Path, hidden: list[str]) -> list[os.DirEntry[str]]:
    """What a folder holds, in order; nothing where it is gone, a sentence where it is closed."""
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except PermissionError:
        hidden.append(closed_sentence(str(folder)))
    except OSError:
        pass  # it vanished, which is not worth a word
    return []


def closed_sentence(path: str) -> str:
    """Why nothing is known of what may be at `path`, and what helps."""
    return f"{path} is closed to this user, so a DPDK application there can't be read{_remedy()}"


def _unseen_sentence(processes: int) -> str:
    who = "1 process is" if processes == 1 else f"{processes} processes are"
    return f"{who} closed to this user, so DPDK in their containers can't be seen{_remedy()}"


def _remedy() -> str:
    return ": sudo nftop" if os.geteuid() else ""


def _shortened(sentences: list[str]) -> tuple[str, ...]:
    if len(sentences) <= _MAX_SENTENCES:
        return tuple(sentences)
    rest = len(sentences) - _MAX_SENTENCES
    return (*sentences[:_MAX_SENTENCES], f"and {rest} more such places")


def _exists(path: Path) -> bool:
    try:
        path.lstat()
    except PermissionError:
        return False  # a closed /run/user/<uid> is no sign of DPDK
    except OSError:
        return False
    return True


def _link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


def _listening_paths(unix_sockets: Path) -> tuple[str, ...]:
    try:
        raw = unix_sockets.read_bytes()
    except OSError:
        return ()
    return tuple(os.fsdecode(path) for path in _LISTENING.findall(raw))
