"""Where stats sockets may be, in our mount namespace and in every other one.

VPP makes `stats.sock` in its runtime directory, which is /run/vpp unless its `unix` section says
otherwise (/run/user/<uid>/vpp where root has not started it), or what its `statseg` section names.
Wherever that is, /proc/net/unix names the socket it listens on.
"""

from __future__ import annotations

import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nftop.sources import namespaces

SURVEY_NS = 5_000_000_000  # looking at every process is dear
WHAT = "a VPP"

# Flags __SO_ACCEPTCON, type SOCK_SEQPACKET. Other programs may call a socket stats-something, so
# another name than VPP's own counts in a folder or with a name that says vpp.
_LISTENING = re.compile(
    rb"^\S+ \S+ \S+ 00010000 0005 \S+ +\d+ "
    rb"(/(?:[^\n/]*/)*stats\.sock|(?=[^\n]*vpp)/[^\n]*stat[^\n/]*\.sock)$",
    re.MULTILINE,
)
_FOLDERS = re.compile("vpp.*")
_NAME = "stats.sock"
_MAX_SOCKETS = 64


@dataclass(frozen=True, slots=True)
class Found:
    """A stats socket.

    Attributes:
        key: device and inode; the same however it is reached.
        path: where it can be opened from here.
    """

    key: tuple[int, int]
    path: str


class Finder:
    """Finds sockets; a survey of all places every five seconds, the known ones every time.

    `root` and `proc` are injected.
    """

    def __init__(
        self,
        root: Path = Path("/"),
        proc: Path = Path("/proc"),
        clock: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._root, self._proc, self._clock = root, proc, clock
        self._survey_at_ns: int | None = None
        self._paths: tuple[Path, ...] = ()
        self._hidden: tuple[str, ...] = ()

    def find(self) -> tuple[tuple[Found, ...], tuple[str, ...]]:
        """Every socket there is, and a sentence for every place we may not look into."""
        now_ns = self._clock()
        if self._survey_at_ns is None or now_ns - self._survey_at_ns >= SURVEY_NS:
            self._survey_at_ns = now_ns
            self._survey()
        found: dict[tuple[int, int], Found] = {}
        hidden = list(self._hidden)
        for path in self._paths:
            try:
                status = path.lstat()
            except PermissionError:
                hidden.append(namespaces.closed_sentence(str(path.parent), WHAT))
            except OSError:
                continue
            else:
                if stat.S_ISSOCK(status.st_mode):
                    key = (status.st_dev, status.st_ino)
                    found.setdefault(key, Found(key, str(path)))
        if len(found) > _MAX_SOCKETS:
            hidden.append(f"more than {_MAX_SOCKETS} stats sockets: the rest is not read")
        return tuple(found.values())[:_MAX_SOCKETS], namespaces.shortened(hidden)

    def _survey(self) -> None:
        seen, unseen = namespaces.views(self._root, self._proc)
        usual = [folder / _NAME for view in seen for folder in _folders(view.root)]
        self._paths = tuple(dict.fromkeys([*usual, *namespaces.listening(seen, _LISTENING)]))
        self._hidden = (namespaces.unseen_sentence(unseen, WHAT),) if unseen else ()


def _folders(root: Path) -> Iterator[Path]:
    """The runtime directories there are."""
    yield from _called_vpp(root / "run")
    for user in namespaces.scan(root / "run" / "user"):
        yield from _called_vpp(root / "run" / "user" / user.name)


def _called_vpp(parent: Path) -> Iterable[Path]:
    return (
        parent / entry.name
        for entry in namespaces.scan(parent)
        if _FOLDERS.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
    )
