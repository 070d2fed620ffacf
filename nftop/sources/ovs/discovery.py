"""Where control sockets may be, in our mount namespace and in every other one.

ovs-vswitchd makes `<rundir>/<program>.<pid>.ctl` (unixctl_server_create), where the pid is that of
its own pid namespace. `<rundir>` is $OVS_RUNDIR or what it was built with; where it had another
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
    inside,
    listening,
    scan,
    shortened,
    socket_at,
    unseen_sentence,
)

APPLICATION = "an ovs-vswitchd"
# Distributions call the program with DPDK ovs-vswitchd-dpdk or ovs-vswitchd.ovs-dpdk.
_SOCKET_NAME = re.compile(r"ovs-vswitchd[\w.-]{0,32}\.[0-9]{1,10}\.ctl")
_LISTENING = re.compile(  # flags __SO_ACCEPTCON, type SOCK_STREAM
    rb"^\S+ \S+ \S+ 00010000 0001 \S+ +\d+ "
    rb"(/(?!proc/)[^\n]*/ovs-vswitchd[\w.-]{0,32}\.\d{1,10}\.ctl)$",
    re.MULTILINE,
)
_RUNDIRS = ("var/run/openvswitch", "run/openvswitch", "usr/local/var/run/openvswitch")
_PREFIX_LIMIT = 128


class Finder:
    """Finds sockets; a survey of all places every five seconds, the known ones every time.

    `root` is our own file system as `views` has it; `environ` is ours, for $OVS_RUNDIR.
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
        named = environ.get("OVS_RUNDIR", "")
        self._own_rundirs = (named.lstrip("/"),) if named.startswith("/") else ()
        self._clock = clock
        self._survey_at_ns: int | None = None
        self._rundirs: tuple[Path, ...] = ()
        self._survey_hidden: tuple[str, ...] = ()

    def find(self) -> tuple[tuple[Found, ...], tuple[str, ...]]:
        """Every socket there is, and a sentence for every place we may not look into."""
        now_ns = self._clock()
        if self._survey_at_ns is None or now_ns - self._survey_at_ns >= SURVEY_NS:
            self._survey_at_ns = now_ns
            self._survey()
        hidden = list(self._survey_hidden)
        found = [socket for rundir in self._rundirs for socket in _sockets(rundir, hidden)]
        chosen, left_out = admitted(found, "OVS sockets")
        return chosen, shortened([*left_out, *hidden])

    def _survey(self) -> None:
        views, unseen = self._views.look()
        rundirs: dict[Path, None] = {}
        heard: dict[str, tuple[str, ...]] = {}
        for view in views:
            own = self._own_rundirs if view.root == self._root else ()
            # Where /var/run is a link, it is /run again, and through /proc/<pid>/root it would
            # lead to our own.
            linked = (view.root / "var" / "run").is_symlink()
            rundirs |= {
                view.root / rundir: None
                for rundir in (*own, *_RUNDIRS)
                if not (linked and rundir.startswith("var/run/"))
            }
            network = view.network
            if network not in heard:
                heard[network] = listening(view.unix_sockets, _LISTENING)
            rundirs |= dict.fromkeys(inside(view.root, path).parent for path in heard[network])
        self._rundirs = tuple(bounded(rundirs))
        self._survey_hidden = () if not unseen else (unseen_sentence(unseen, "OVS"),)


def _sockets(rundir: Path, hidden: list[str]) -> Iterator[Found]:
    for entry in scan(rundir, lambda path: hidden.append(closed_sentence(path, APPLICATION))):
        if not _SOCKET_NAME.fullmatch(entry.name):
            continue
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError:
            continue
        if stat.S_ISSOCK(status.st_mode):
            key = (status.st_dev, status.st_ino)
            yield socket_at(key, str(rundir / entry.name), rundir.name[:_PREFIX_LIMIT])
