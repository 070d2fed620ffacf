"""Process behind a Unix socket, and owner of a TCP connection's other end, as the kernel reports.

The kernel's socket tables have one row per socket. The row whose local address is our peer and
whose remote address is ours belongs to this connection. It is read by an exact lookup
(sock_diag(7), one message for any number of sockets: 35 microseconds) or, if the kernel has no
inet_diag, from /proc/thread-self/net/tcp and tcp6 (proc_pid_net(5), in proportion to the sockets of
the host).

A connection that the server has not accepted yet has no inode. Its uid is then 0 up to Linux 6.15
and the listener's in later ones. With an inode, the uid is that of the process that called
accept(2), as nftop's user namespace maps it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import sys
import time
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from nftop.model.struct import dataclass
from nftop.sources.trust import ownership

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
    same = ownership.is_same_process(listener.pid, listener.uid, proc)
    return peer_of(listener.pid, proc) if listener.pid and same else Peer()


def peer_of(pid: int, proc: Path) -> Peer:
    """A process by /proc; only its pid if it is gone or hidden."""
    try:
        stat = (proc / str(pid) / "stat").read_bytes()
        comm = (proc / str(pid) / "comm").read_bytes()
        # The name in parentheses may itself hold parentheses and spaces.
        start_ticks = int(stat.rpartition(b")")[2].split()[_START_TIME])
    except (OSError, ValueError, IndexError):
        return Peer(pid)
    return Peer(pid, start_ticks, comm.decode("utf-8", "replace").rstrip("\n")[:TEXT_LIMIT])


_NETLINK_SOCK_DIAG = 4  # include/uapi/linux/netlink.h
_SOCK_DIAG_BY_FAMILY = 20  # include/uapi/linux/sock_diag.h
_NLM_F_REQUEST = 1
_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
_REQUEST = struct.Struct("=BBBBI")  # struct inet_diag_req_v2, up to `id`
_PORTS = struct.Struct(">HH")  # struct inet_diag_sockid: source and destination, then addresses
_ANY_INTERFACE = struct.pack("=III", 0, 0xFFFFFFFF, 0xFFFFFFFF)  # idiag_if, INET_DIAG_NOCOOKIE
_REPLY = struct.Struct("=BBBB48sIIIII")  # struct inet_diag_msg, with `id` as one field
_REPLY_LIMIT_BYTES = 8192
_ALL_STATES = 0xFFFFFFFF
_TIMEOUT_S = 1.0
# include/net/tcp_states.h: what a connection can be in before it is accepted.
_ESTABLISHED, _SYN_RECV, _CLOSE_WAIT, _NEW_SYN_RECV = 1, 3, 8, 12
_BEFORE_ACCEPT = frozenset({_ESTABLISHED, _SYN_RECV, _CLOSE_WAIT, _NEW_SYN_RECV})
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.0005, 0.02
_NET = Path("/proc/thread-self/net")

_Ip = IPv4Address | IPv6Address


@dataclass(frozen=True, slots=True)
class TcpSocketRow:
    """A socket's row in the kernel's table."""

    state: int  # TCP state, include/net/tcp_states.h
    uid: int  # user; meaningful only if `inode` is not 0
    inode: int  # of the socket; 0 before accept(2) and after close(2)


@dataclass(frozen=True, slots=True)
class Pair:
    """Addresses and ports of a socket: local, then remote. IPv4-mapped addresses are IPv4."""

    local: _Ip
    local_port: int
    remote: _Ip
    remote_port: int


def other_end(connected: socket.socket) -> Pair:
    """The pair of the other end's socket. Raises OSError if it is not connected."""
    remote, local = connected.getsockname(), connected.getpeername()
    return Pair(_address(local[0]), local[1], _address(remote[0]), remote[1])


def accepted_uid(
    connected: socket.socket,
    until_ns: int,
    find: Callable[[Pair], TcpSocketRow | None] | None = None,
) -> int | None:
    """User of the process that accepted a connection, if it does so by `until_ns`.

    None if this host has no such socket, or it is closed. `find` looks a row up. Raises
    TimeoutError: not accepted by CLOCK_MONOTONIC `until_ns`; OSError: not connected.
    """
    pair = other_end(connected)
    pause_s = _FIRST_PAUSE_S
    while True:
        row = (find or find_row)(pair)
        if row is None:
            return None
        if row.inode:
            return row.uid
        if row.state not in _BEFORE_ACCEPT:
            return None
        left_s = (until_ns - time.monotonic_ns()) / 1e9
        if left_s <= 0:
            raise TimeoutError
        time.sleep(min(pause_s, left_s))
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def find_row(pair: Pair) -> TcpSocketRow | None:
    """The row of a connected socket of this network namespace; None if there is none."""
    row = None
    with contextlib.suppress(OSError, struct.error):  # no netlink here: read the tables
        row = find_by_diag(pair)
    return find_in_tables(pair, _NET) if row is None else row


def find_by_diag(pair: Pair) -> TcpSocketRow | None:
    """The row by sock_diag(7); None if there is none or the kernel has no inet_diag.

    Raises OSError: there is no netlink; struct.error: the reply is too short.
    """
    family = socket.AF_INET if pair.local.version == 4 else socket.AF_INET6
    ports = _PORTS.pack(pair.local_port, pair.remote_port)
    addresses = pair.local.packed.ljust(16, b"\0") + pair.remote.packed.ljust(16, b"\0")
    body = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, _ALL_STATES)
    body += ports + addresses + _ANY_INTERFACE
    size = _HEADER.size + len(body)
    header = _HEADER.pack(size, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0)
    kind = socket.SOCK_RAW | socket.SOCK_CLOEXEC
    with socket.socket(socket.AF_NETLINK, kind, _NETLINK_SOCK_DIAG) as channel:
        channel.settimeout(_TIMEOUT_S)
        channel.send(header + body)
        reply = channel.recv(_REPLY_LIMIT_BYTES)
    if _HEADER.unpack_from(reply)[1] != _SOCK_DIAG_BY_FAMILY:  # NLMSG_ERROR
        return None
    _, state, _, _, identity, _, _, _, uid, inode = _REPLY.unpack_from(reply, _HEADER.size)
    # Without such a connection the kernel answers with the listener of the local address.
    return TcpSocketRow(state, uid, inode) if identity[: _PORTS.size] == ports else None


def find_in_tables(pair: Pair, net: Path) -> TcpSocketRow | None:
    """The row by the tables `tcp` and `tcp6` in `net`, a /proc/PID/net."""
    # An IPv4 connection to a listener of both families is in tcp6, with mapped addresses.
    wanted = {
        "tcp": (_column(pair.local, pair.local_port), _column(pair.remote, pair.remote_port)),
        "tcp6": (
            _column(_mapped(pair.local), pair.local_port),
            _column(_mapped(pair.remote), pair.remote_port),
        ),
    }
    for name, (local, remote) in wanted.items():
        with contextlib.suppress(OSError, ValueError), (net / name).open("rb") as table:
            for line in table:
                columns = line.split(None, 10)
                if len(columns) > 9 and columns[1] == local and columns[2] == remote:
                    return TcpSocketRow(int(columns[3], 16), int(columns[7]), int(columns[9]))
    return None


def _address(text: str) -> _Ip:
    address = ip_address(text.partition("%")[0])
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return address if mapped is None else mapped


def _mapped(address: _Ip) -> IPv6Address:
    if isinstance(address, IPv6Address):
        return address
    return IPv6Address(b"\0" * 10 + b"\xff\xff" + address.packed)


def _column(address: _Ip, port: int) -> bytes:
    """`address:port` as in the tables: 32-bit words in the host's byte order."""
    packed = address.packed
    words = (packed[at : at + 4] for at in range(0, len(packed), 4))
    text = "".join(f"{int.from_bytes(word, sys.byteorder):08X}" for word in words)
    return os.fsencode(f"{text}:{port:04X}")
