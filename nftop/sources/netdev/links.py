"""Kinds of interfaces, which sysfs does not have: "veth", "gre", "openvswitch".

There a veth whose peer is in another namespace can look like any device without hardware: DEVTYPE
is set by some drivers only, and `iflink` is the peer's number, which may be its own.

Source: rtnetlink(7); RTM_GETLINK and IFLA_INFO_KIND in linux/rtnetlink.h and linux/if_link.h.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator, Mapping

_HEADER = struct.Struct("=IHHII")  # nlmsghdr: length, type, flags, sequence, port
_ATTRIBUTE = struct.Struct("=HH")  # length with this header, type
_LINK_BYTES = 16  # ifinfomsg
_ERROR, _DONE, _NEW_LINK, _GET_LINK = 2, 3, 16, 18
_REQUEST_ALL = 0x1 | 0x300  # NLM_F_REQUEST, NLM_F_DUMP
_NAME, _LINK_INFO, _EXTENT = 3, 18, 29  # IFLA_IFNAME, IFLA_LINKINFO, IFLA_EXT_MASK
_KIND = 1  # IFLA_INFO_KIND
_NO_STATISTICS = 1 << 3  # RTEXT_FILTER_SKIP_STATS
_TYPE_BITS = 0x3FFF  # without NLA_F_NESTED and NLA_F_NET_BYTEORDER
_ANSWER_BYTES, _MOST_ANSWERS, _LIMIT_S = 1 << 16, 4096, 1.0


def link_kinds() -> Mapping[str, str]:
    """The kind of each interface of our network namespace that has one; a NIC has none.

    One request, which needs no privilege; empty if the kernel does not answer.
    """
    kinds: dict[str, str] = {}
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0) as channel:
            channel.settimeout(_LIMIT_S)
            channel.sendto(_question(), (0, 0))
            for _ in range(_MOST_ANSWERS):
                links, ended = parse_links(channel.recv(_ANSWER_BYTES))
                kinds |= links
                if ended:
                    break
    except OSError:
        return kinds
    return kinds


def _question() -> bytes:
    body = bytes(_LINK_BYTES) + _ATTRIBUTE.pack(8, _EXTENT) + struct.pack("=I", _NO_STATISTICS)
    return _HEADER.pack(_HEADER.size + len(body), _GET_LINK, _REQUEST_ALL, 1, 0) + body


def parse_links(answer: bytes) -> tuple[Mapping[str, str], bool]:
    """Kinds by name in one reply, and whether it is the last, as an invalid one is."""
    kinds: dict[str, str] = {}
    at = 0
    while at + _HEADER.size <= len(answer):
        length, message, *_ = _HEADER.unpack_from(answer, at)
        if message in (_ERROR, _DONE) or not _HEADER.size <= length <= len(answer) - at:
            return kinds, True
        if message == _NEW_LINK:
            attributes = dict(_attributes(answer[at + _HEADER.size + _LINK_BYTES : at + length]))
            kind = dict(_attributes(attributes.get(_LINK_INFO, b""))).get(_KIND)
            if kind is not None and _NAME in attributes:
                kinds[_text(attributes[_NAME])] = _text(kind)
        at += _aligned(length)
    return kinds, not answer


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + _ATTRIBUTE.size <= len(data):
        length, kind = _ATTRIBUTE.unpack_from(data, at)
        if length < _ATTRIBUTE.size:
            return
        yield kind & _TYPE_BITS, data[at + _ATTRIBUTE.size : at + length]
        at += _aligned(length)


def _aligned(length: int) -> int:
    return (length + 3) & ~3


def _text(data: bytes) -> str:
    return data.rstrip(b"\0").decode("utf-8", "replace")
