"""Asking a stats socket for its segment: VPP sends a descriptor to who connects, and no more.

Nothing here waits. VPP's main thread answers when it gets to it; closing before that would have it
write to nobody, so an answer that is late is waited for, tick by tick.
"""

from __future__ import annotations

import array
import contextlib
import errno
import os
import socket

from nftop.model.reading import Missing, Reason
from nftop.sources.trust import peer

_HANDLE = array.array("i", [0])
_MOST_HANDLES = 4
_NOBODY = frozenset(
    {
        errno.ECONNREFUSED,  # left over from a VPP that was killed
        errno.ENOENT,
        errno.ENOTDIR,
        errno.ELOOP,
        errno.EPROTOTYPE,  # a socket of another kind
    }
)


class NobodyThereError(Exception):
    """No program listens on the socket: it is left over, or is none of VPP's."""


class LinkError(Exception):
    """There will be no segment from this connection; `why` is for the operator."""

    def __init__(self, why: Missing) -> None:
        super().__init__(why.message)
        self.why = why


class Link:
    """A connection whose segment has not come yet. `peer` is the process that listens there."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        self.peer = peer.credentials(connected)

    def fileno(self) -> int:
        return self._socket.fileno()

    def hear(self) -> int | None:
        """The segment's descriptor, which is the caller's then; None where it has not come yet.

        Raises:
            LinkError: it won't come.
        """
        try:
            _, ancillary, _, _ = self._socket.recvmsg(
                16, socket.CMSG_SPACE(_MOST_HANDLES * _HANDLE.itemsize), socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return None
        except OSError as error:
            raise LinkError(_unheard(f"can't be had: {error.strerror}")) from error
        handles = [handle for part in ancillary for handle in _handles(*part)]
        for extra in handles[1:]:
            os.close(extra)
        if not handles:
            raise LinkError(_unheard("was not handed out: the connection ended without it"))
        return handles[0]

    def close(self) -> None:
        self._socket.close()


def connect(path: str) -> Link:
    """A connection to the socket at `path`; the segment is still to come.

    Raises:
        NobodyThereError: nothing listens there. PermissionError: we may not.
        LinkError: it does not take connections now.
    """
    with contextlib.ExitStack() as on_failure:
        try:
            connected = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            on_failure.callback(connected.close)
            connected.settimeout(0)
            peer.connect(connected, path)
            link = Link(connected)
        except PermissionError:
            raise
        except OSError as error:
            if error.errno in _NOBODY:
                raise NobodyThereError(error.strerror or "") from error
            raise LinkError(_unconnected(error)) from error
        on_failure.pop_all()
        return link


def _handles(level: int, kind: int, data: bytes) -> list[int]:
    if (level, kind) != (socket.SOL_SOCKET, socket.SCM_RIGHTS):
        return []
    found = array.array("i")
    found.frombytes(data[: len(data) - len(data) % found.itemsize])
    return list(found)


def _unconnected(error: OSError) -> Missing:
    if error.errno == errno.EAGAIN:  # its queue of connections to accept is full
        return Missing(Reason.STALE, "does not accept connections: it may be stopped")
    return _unheard(f"can't be asked for: {error.strerror}")


def _unheard(what: str) -> Missing:
    return Missing(Reason.ERROR, f"its stats segment {what}")
