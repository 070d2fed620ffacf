"""Trust in a source: the user it belongs to, by facts of the kernel and never by its name.

Facts: the user and process that called listen(2) (SO_PEERCRED, unix(7)), for TCP the user of the
process that accepted the connection (`peer`), the owner of a Unix socket's file, and the users
who can replace that file. All are as nftop's own user namespace maps them: root of a rootless
container is the user who started it, and an unmapped user is the overflow user, 65534. Root of a
container without a user namespace is the host's root.

Rules:
- root and the user who runs nftop are privileged;
- sockets of other users are shown with the user's name, after the privileged ones, a bounded number
of them;
- what costs memory in proportion to the peer's claims (a VPP segment, which is mapped), or is shown
without a name (the numbers of a sensor server), is read only if it is privileged. The program that
the process runs is no reason to trust it: with a mount namespace a user can run any file under any
name, and LD_PRELOAD puts any code into an installed one.
"""

from __future__ import annotations

import contextlib
import errno
import os
import pwd
import re
import select
import stat
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from nftop.model.owner import FOLDER, OWN_USER, ROOT, SOCKET_FILE, UNKNOWN, UNPRIVILEGED, Owner
from nftop.model.procfs import is_procfs
from nftop.model.struct import dataclass, replace
from nftop.sources.host.sysfs import read_up_to

MAX_UNPRIVILEGED = 48  # sockets of other users that one source reads
_MAX_OF_ONE_USER = 16
_MAX_USERS_NAMED = 4
_MAX_LINKS = 40  # as path_resolution(7)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SocketFacts:
    """Facts about a Unix socket.

    Attributes:
        peer_uid: of the process that called listen(2); None before it is connected.
        file_uid: owner of the socket's file; None if unknown.
        folder_uid: user who can replace the file, by a folder or link on its path; -1 if everybody
            can, 0 if only root and nftop's own user can, None if unknown.
    """

    peer_uid: int | None
    file_uid: int | None
    folder_uid: int | None


def file_facts(path: str, own_uid: int) -> SocketFacts:
    """Facts that need no connection: the socket's file, and every folder and link on its path.

    The path is resolved as in the kernel, so folders behind a link count as well. Unknown facts are
    None.
    """
    way: list[os.stat_result] = []
    file_uid, folder_uid = None, None
    try:
        for about in _resolve(path):
            way.append(about)  # noqa: PERF402 - what came before an error counts
        file_uid, folder_uid = way.pop().st_uid, 0
    except OSError:
        pass
    for about in way:
        if about.st_uid not in (0, own_uid):
            return SocketFacts(None, file_uid, about.st_uid)
        everybody = about.st_mode & stat.S_IWOTH and not about.st_mode & stat.S_ISVTX
        if everybody and not stat.S_ISLNK(about.st_mode):
            folder_uid = -1
    return SocketFacts(None, file_uid, folder_uid)


def _resolve(path: str) -> Iterator[os.stat_result]:
    """Status of each folder and link on a path, from the root on, and last of the file.

    Raises OSError: a component can't be looked up; ELOOP for more than 40 links.
    """
    left = deque((Path.cwd() / path).parts[1:])
    links = 0
    with contextlib.ExitStack() as open_handles:
        handle = _opened("/", None, open_handles)
        yield os.fstat(handle)
        while left:
            name = left.popleft()
            component = _opened(name, handle, open_handles)
            about = os.fstat(component)
            yield about
            if not stat.S_ISLNK(about.st_mode):
                handle = component
                continue
            links += 1
            if links > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            if is_procfs(handle):
                handle = _opened(name, handle, open_handles, follow=True)
                yield os.fstat(handle)
                continue
            target = os.readlink("", dir_fd=component)
            left.extendleft(reversed([name for name in target.split("/") if name]))
            if target.startswith("/"):
                handle = _opened("/", None, open_handles)


def _opened(
    name: str, folder: int | None, open_handles: contextlib.ExitStack, *, follow: bool = False
) -> int:
    """An O_PATH descriptor, closed with `open_handles`."""
    if follow:
        handle = os.open(name, os.O_PATH | os.O_CLOEXEC, dir_fd=folder)
    else:
        handle = os.open(name, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder)
    open_handles.callback(os.close, handle)
    return handle


def of_socket(path: str, peer_uid: int | None) -> Owner:
    """Owner of the Unix socket at `path`; `peer_uid` as in `SocketFacts`."""
    own_uid = os.geteuid()
    return owner_of_facts(replace(file_facts(path, own_uid), peer_uid=peer_uid), own_uid)


def owner_of_facts(facts: SocketFacts, own_uid: int) -> Owner:
    """Owner of a Unix socket: the least privileged of all users that control it.

    Most sources still read an unprivileged user's socket, and show its user; see `NfSession`.

    `own_uid` is nftop's effective user. The listening process comes first, since the kernel reports
    it. The file's owner counts as well, since a service may pass on a socket that root listens on;
    so do users who can replace the file, since its folder's name is shown. A group that may write
    to root's folder is trusted by root; a member who replaces the socket is the peer then.
    """
    trusted = {0, own_uid}
    steps = (
        (facts.peer_uid, UNPRIVILEGED),
        (facts.file_uid, SOCKET_FILE if facts.peer_uid is not None else UNPRIVILEGED),
        (facts.folder_uid, FOLDER),
    )
    for uid, reason in steps:
        if uid is not None and uid not in trusted:
            return Owner(uid, user_name(uid), privileged=False, reason=reason)
    uid = next((uid for uid, _ in steps if uid is not None), None)
    if uid is None:
        return Owner(-1, "unknown", privileged=False, reason=UNKNOWN)
    reason = ROOT if uid == 0 else OWN_USER
    return Owner(uid, user_name(uid), privileged=True, reason=reason)


def is_trusted(uid: int) -> bool:
    """Whether the user is root, or runs nftop."""
    return uid in (0, os.geteuid())


def user_name(uid: int) -> str:
    """A user's name; `uid 1234` if it has none."""
    if uid < 0:
        return "anybody"
    try:
        name = pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"uid {uid}"
    return name if name.isprintable() else f"uid {uid}"


def is_same_process(pid: int, peer_uid: int, proc: Path) -> bool:
    """Whether the process `pid` can be the one that called listen(2) as `peer_uid`.

    A socket outlives its process, and the pid may be reused: the socket of an unprivileged user is
    not that of a process of another user. Root may have changed its user since. True if /proc does
    not show the process.
    """
    if is_trusted(peer_uid):
        return True
    try:
        return (proc / str(pid)).stat().st_uid == peer_uid
    except OSError:
        return True


def of_process(uid: int | None) -> Owner:
    """Owner of a source that a process of that user serves; None if the user is unknown."""
    return owner_of_facts(SocketFacts(uid, None, None), os.geteuid())


def admitted(
    items: Iterable[T],
    owner_of: Callable[[T], Owner],
    most: int | None,
    what: str,
    others_most: tuple[int, int] = (_MAX_OF_ONE_USER, MAX_UNPRIVILEGED),
) -> tuple[list[T], tuple[str, ...]]:
    """The items to read, and a sentence for each group left out.

    At most `most` privileged items, then `others_most` of each other user and of all of
    them. `owner_of` uses facts that need no connection; `what` is the kind of the items, plural.
    """
    of_one, of_all = others_most
    privileged: list[T] = []
    others: dict[int, list[T]] = {}
    users: dict[int, str] = {}
    for item in items:
        owner = owner_of(item)
        if owner.privileged:
            privileged.append(item)
        else:
            others.setdefault(owner.uid, []).append(item)
            users[owner.uid] = owner.user
    sentences = []
    if most is not None and len(privileged) > most:
        sentences.append(f"more than {most} {what}: the rest is not read")
    chosen: list[T] = []
    left_out = 0
    for uid, members in others.items():
        room = min(of_one, of_all - len(chosen))
        chosen += members[:room]
        if len(members) > room:
            left_out += 1
            if left_out <= _MAX_USERS_NAMED:
                sentences.append(
                    f"{len(members) - room} {what} of user {users[uid]} are not read: at most "
                    f"{of_one} of an unprivileged user, {of_all} of all"
                )
    if left_out > _MAX_USERS_NAMED:
        sentences.append(f"nor are some of {left_out - _MAX_USERS_NAMED} more users")
    return [*privileged[:most], *chosen], tuple(sentences)


_MOST_MOUNT_BYTES = 1 << 22
_OCTAL = re.compile(r"\\([0-7]{3})")
_USER_ID = re.compile(r"\buser_id=(\d{1,10})\b")


def served_mounts(mountinfo: str) -> frozenset[str]:
    """Mount points of FUSE file systems that other users serve and everybody may enter.

    A request to one may never be answered, and its reader can't be killed meanwhile. Without
    `allow_other` nobody but its user enters one. Its type and source are texts of that user's, so
    only the options count. Format: proc_pid_mountinfo(5).
    """
    points = set()
    for line in mountinfo.splitlines():
        mount, _, system = line.partition(" - ")
        options = system.rpartition(" ")[2].split(",")
        fields, user = mount.split(" "), _USER_ID.search(",".join(options))
        if system.startswith("fuse") and user and "allow_other" in options and len(fields) > 4:
            point = _OCTAL.sub(lambda hit: chr(int(hit[1], 8)), fields[4])
            if not is_trusted(int(user[1])):
                points.add(os.fsdecode(point.encode("latin-1", "replace")))
    return frozenset(points)


class ServedMounts:
    """File systems that unprivileged users serve, which nftop does not enter. Thread-safe."""

    def __init__(self, proc: Path) -> None:
        self._proc = proc
        self._lock = threading.Lock()
        self._events = select.poll()
        self._points: dict[str, frozenset[str]] = {}  # by process; none before the first call

    def latest(self) -> frozenset[str]:
        """Mount points in nftop's view; another object after each change of its mounts."""
        with self._lock:
            if not self._points:
                with contextlib.suppress(OSError):
                    handle = os.open(self._proc / "self/mountinfo", os.O_RDONLY | os.O_CLOEXEC)
                    weakref.finalize(self, os.close, handle)
                    self._events.register(handle, select.POLLPRI)
            elif self._events.poll(0):
                self._points.clear()
            return self._of("self")

    def has(self, path: Path) -> bool:
        """Whether a path leads into one, in the view of /proc/PID/root if it begins so."""
        if not self.latest():
            return False
        process, root, left = "self", "", deque(path.parts[1:])
        inner = path.relative_to(self._proc).parts if path.is_relative_to(self._proc) else ()
        if inner[1:2] == ("root",):
            process, left = inner[0], deque(inner[2:])
            root = f"{self._proc}/{process}/root"
        with self._lock:
            points = self._of(process)
        at, links = "", 0
        while left and links <= _MAX_LINKS:
            name = left.popleft()
            before, at = at, at.rpartition("/")[0] if name == ".." else f"{at}/{name}"
            if at in points:
                return True
            with contextlib.suppress(OSError):  # it is no link, or absent
                target = Path(f"{root}{at}").readlink()
                left.extendleft(reversed(target.parts[target.is_absolute() :]))
                at, links = "" if target.is_absolute() else before, links + 1
        return bool(left)

    def _of(self, process: str) -> frozenset[str]:
        if process not in self._points:
            data = b""
            with contextlib.suppress(OSError):
                data = read_up_to(f"{self._proc}/{process}/mountinfo", _MOST_MOUNT_BYTES)
            self._points[process] = served_mounts(data.decode("latin-1"))
        return self._points[process]
