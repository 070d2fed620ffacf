"""The process behind a socket, as the kernel reports it."""

from __future__ import annotations

import errno
import os
import socket
import struct
from pathlib import Path

from nftop.model.struct import dataclass
from nftop.sources.trust import trust

TEXT_LIMIT = 128  # characters of an untrusted name
_UCRED = struct.Struct("3i")  # pid, uid, gid: unix(7)
# Errors of connect(2) if no program listens.
NOBODY = frozenset(
    {
        errno.ECONNREFUSED,  # left over from a program that was killed
        errno.ENOENT,
        errno.ENOTDIR,
        errno.ELOOP,
        errno.EPROTOTYPE,  # a socket of another kind
    }
)
_START_TIME = 22 - 3  # field 22 of proc(5)'s stat, counted from the field after the name


@dataclass(frozen=True, slots=True)
class Peer:
    """A process. A restart is another `(pid, start_ticks)`."""

    pid: int = 0  # in our own pid namespace; 0 if it has none there
    start_ticks: int = 0  # clock ticks from boot to its start; 0 if unreadable
    comm: str = ""  # its name (untrusted text); empty if unreadable

    @property
    def identity(self) -> tuple[int, int]:
        return self.pid, self.start_ticks


def connect(connected: socket.socket, path: str) -> None:
    """Connect to the Unix socket at `path`, of any length. Raises OSError."""
    # A socket address holds 107 bytes, which a path through /proc/<pid>/root may exceed.
    folder, name = os.path.split(path)
    handle = os.open(folder, os.O_RDONLY | os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        connected.connect(f"/proc/self/fd/{handle}/{name}")
    finally:
        os.close(handle)


@dataclass(frozen=True, slots=True)
class Credentials:
    """Process that called listen(2), at that time; 0 for a pid that has no number here."""

    pid: int
    uid: int


def credentials(connected: socket.socket) -> Credentials:
    """Credentials of the other end (SO_PEERCRED, unix(7))."""
    raw = connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, _ = _UCRED.unpack(raw)
    return Credentials(pid, uid)


def of_listener(listener: Credentials, proc: Path) -> Peer:
    """Process behind a connection; unknown if its pid is now another user's process."""
    same = trust.is_same_process(listener.pid, listener.uid, proc)
    return look_up(listener.pid, proc) if listener.pid and same else Peer()


def look_up(pid: int, proc: Path) -> Peer:
    """A process by /proc; only its pid if it is gone or hidden."""
    try:
        stat = (proc / str(pid) / "stat").read_bytes()
        comm = (proc / str(pid) / "comm").read_bytes()
        # The name in parentheses may itself hold parentheses and spaces.
        start_ticks = int(stat.rpartition(b")")[2].split()[_START_TIME])
    except (OSError, ValueError, IndexError):
        return Peer(pid)
    return Peer(pid, start_ticks, comm.decode("utf-8", "replace").rstrip("\n")[:TEXT_LIMIT])
