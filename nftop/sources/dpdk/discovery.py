"""Where telemetry sockets may be, in our mount namespace and in every other one.

EAL puts them at `<runtime>/dpdk/<file prefix>/dpdk_telemetry.v2`, with `:N` behind it for further
applications of one prefix; `<runtime>` is $RUNTIME_DIRECTORY, else /var/run for root and
$XDG_RUNTIME_DIR or /tmp for others (eal_create_runtime_dir). Where an application had another
environment than ours, /proc/net/unix names the socket it listens on.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from nftop.sources.nf_session.discovery import (
    SURVEY_NS,
    Found,
    Views,
    admitted,
    bounded,
    closed_sentence,
    exists,
    inside,
    listening,
    scan,
    shortened,
    socket_at,
    unseen_sentence,
)

APPLICATION = "a DPDK application"
_SOCKET_NAME = re.compile(r"dpdk_telemetry\.v2(:[0-9]{1,3})?")
_LISTENING = re.compile(  # flags __SO_ACCEPTCON, type SOCK_SEQPACKET
    rb"^\S+ \S+ \S+ 00010000 0005 \S+ +\d+ (/[^\n]*/dpdk_telemetry\.v2(?::\d{1,3})?)$", re.MULTILINE
)
_RUNTIMES = ("run", "run/*", "run/user/*", "var/run", "tmp")
_PREFIX_LIMIT = 128


class Finder:
    """Finds sockets; a survey of all places every five seconds, the known ones every time.

    `root` is our own file system as `views` has it; `environ` is ours, for the runtime directories
    it names.
    """

    def __init__(
        self,
        root: Path,
        views: Views,
        environ: Mapping[str, str] = os.environ,
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._root = root
        self._views = views
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
        folders = self._each_folder(hidden)
        found = [socket for folder in folders for socket in _sockets(folder, hidden)]
        chosen, left_out = admitted(found, "telemetry sockets")
        return chosen, shortened([*left_out, *hidden])

    def _each_folder(self, hidden: list[str]) -> Iterator[Path]:
        """One folder for each file prefix."""
        yield from dict.fromkeys(
            [folder for base in self._bases for folder in _sub_folders(base, hidden)]
            + list(self._folders)
        )

    def _survey(self) -> None:
        views, unseen = self._views.look()
        bases: dict[Path, None] = {}
        folders: dict[Path, None] = {}
        heard: dict[str, tuple[str, ...]] = {}
        for view in views:
            own = self._own_runtimes if view.root == self._root else ()
            bases |= dict.fromkeys(_bases(view.root, own))
            network = view.network
            if network not in heard:
                heard[network] = listening(view.unix_sockets, _LISTENING)
            folders |= dict.fromkeys(inside(view.root, path).parent for path in heard[network])
        self._bases, self._folders = tuple(bases), tuple(bounded(folders))
        self._survey_hidden = () if not unseen else (unseen_sentence(unseen, "DPDK"),)


def _bases(root: Path, own_runtimes: tuple[str, ...]) -> Iterator[Path]:
    """The `<runtime>/dpdk` folders there are."""
    for runtime in (*own_runtimes, *_RUNTIMES):
        if runtime == "var/run" and (root / runtime).is_symlink():
            continue  # it is /run again, and through /proc/<pid>/root it would lead to our own
        parents = (
            (root / runtime[:-2] / entry.name for entry in scan(root / runtime[:-2]))
            if runtime.endswith("/*")
            else (root / runtime,)
        )
        # A closed /run/user/<uid> is no sign of DPDK.
        yield from (parent / "dpdk" for parent in parents if exists(parent / "dpdk"))


def _closed(hidden: list[str]) -> Callable[[str], None]:
    return lambda path: hidden.append(closed_sentence(path, APPLICATION))


def _sub_folders(base: Path, hidden: list[str]) -> list[Path]:
    entries = scan(base, _closed(hidden))
    return [base / entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def _sockets(folder: Path, hidden: list[str]) -> Iterator[Found]:
    for entry in scan(folder, _closed(hidden)):
        if not _SOCKET_NAME.fullmatch(entry.name):
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISSOCK(status.st_mode):
            key = (status.st_dev, status.st_ino)
            yield socket_at(key, str(folder / entry.name), folder.name[:_PREFIX_LIMIT])
