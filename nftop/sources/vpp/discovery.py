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
from pathlib import Path

from nftop.sources.nf_session.discovery import (
    SURVEY_NS,
    Found,
    Views,
    admitted,
    bounded,
    closed_sentence,
    inside,
    listening,
    scan,
    shortened,
    socket_at,
    unseen_sentence,
)

VPP = "a VPP"

# Flags __SO_ACCEPTCON, type SOCK_SEQPACKET. Other programs may call a socket stats-something, so
# another name than VPP's own counts in a folder or with a name that says vpp.
_LISTENING = re.compile(
    rb"^\S+ \S+ \S+ 00010000 0005 \S+ +\d+ "
    rb"(/(?:[^\n/]*/)*stats\.sock|(?=[^\n]*vpp)/[^\n]*stat[^\n/]*\.sock)$",
    re.MULTILINE,
)
_FOLDERS = re.compile("vpp.*")
_NAME = "stats.sock"
_PREFIX_LIMIT = 128


class Finder:
    """Finds sockets; a survey of all places every five seconds, the known ones every time."""

    def __init__(self, views: Views, clock: Callable[[], int] = time.monotonic_ns) -> None:
        self._views, self._clock = views, clock
        self._survey_at_ns: int | None = None
        self._paths: tuple[Path, ...] = ()
        self._hidden: tuple[str, ...] = ()

    def find(self) -> tuple[tuple[Found, ...], tuple[str, ...]]:
        """Every socket there is, and a sentence for every place we may not look into."""
        now_ns = self._clock()
        if self._survey_at_ns is None or now_ns - self._survey_at_ns >= SURVEY_NS:
            self._survey_at_ns = now_ns
            self._survey()
        found: list[Found] = []
        hidden = list(self._hidden)
        for path in self._paths:
            try:
                status = path.lstat()
            except PermissionError:
                hidden.append(closed_sentence(str(path.parent), VPP))
            except OSError:
                continue
            else:
                if stat.S_ISSOCK(status.st_mode):
                    key = (status.st_dev, status.st_ino)
                    prefix = path.parent.name[:_PREFIX_LIMIT]
                    found.append(socket_at(key, str(path), prefix))
        chosen, left_out = admitted(found, "stats sockets")
        return chosen, shortened([*left_out, *hidden])

    def _survey(self) -> None:
        views, unseen = self._views.look()
        paths: dict[Path, None] = {}
        heard: dict[str, tuple[str, ...]] = {}
        for view in views:
            paths |= dict.fromkeys(folder / _NAME for folder in _folders(view.root))
            network = view.network
            if network not in heard:
                heard[network] = listening(view.unix_sockets, _LISTENING)
            paths |= dict.fromkeys(inside(view.root, path) for path in heard[network])
        self._paths = tuple(bounded(paths))
        self._hidden = (unseen_sentence(unseen, "VPP"),) if unseen else ()


def _folders(root: Path) -> Iterator[Path]:
    """The runtime directories there are."""
    yield from _called_vpp(root / "run")
    for user in scan(root / "run" / "user"):
        yield from _called_vpp(root / "run" / "user" / user.name)


def _called_vpp(parent: Path) -> Iterable[Path]:
    return (
        parent / entry.name
        for entry in scan(parent)
        if _FOLDERS.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
    )
