"""Source `netdev`: packets of the kernel's network stack, by CPU and by interface.

Layouts: softnet_seq_show and dev_seq_printf_stats in the kernel's net/core/net-procfs.c;
snmp_seq_show in net/ipv4/proc.c, snmp6_seq_show in net/ipv6/proc.c; tun_chr_show_fdinfo in
drivers/net/tun.c: the fdinfo of an open /dev/net/tun names its interface ("iff:").
"""

from __future__ import annotations

import re
import socket
import struct
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from nftop.model.check import Check
from nftop.model.ids import format_cpu_list, parse_cpu_list
from nftop.model.missing import Missing, Reason
from nftop.model.nf.netdev import Interface, InterfaceKind, NetdevTable
from nftop.model.sample import Counts
from nftop.model.struct import dataclass
from nftop.sources.base import missing_check
from nftop.sources.host import sysfs
from nftop.sources.host.sysfs import OpenFile
from nftop.sources.process.scan import is_nf

_TUN, _ONLINE = "/dev/net/tun", "sys/devices/system/cpu/online"
_INTERFACE = re.compile(rb"^iff:\t(.+)$", re.MULTILINE)
_FDINFO_BYTES = 4096


def owners(proc: Path, wanted: Collection[str]) -> Mapping[str, int]:
    """Pid of the network function that holds each of these interfaces; others are absent.

    Network functions make taps as mirrors of ports that they count themselves; they are recognized
    by the names of their threads. Scans all threads, and all descriptors of such programs, so it is
    not called every tick.
    """
    pids: dict[str, int] = {}
    for entry in sorted(sysfs.entries(proc), key=len):
        process = f"{proc}/{entry}"  # a text: a Path of each thread takes longer than to read it
        if entry.isdecimal() and is_nf(_comms(f"{process}/task")):
            for name in _taps(process):
                if name in wanted:
                    pids.setdefault(name, int(entry))
    return pids


def _comms(tasks: str) -> list[str]:
    comms = []
    for tid in sysfs.entries(tasks):
        with suppress(OSError):
            comms.append(sysfs.comm(f"{tasks}/{tid}"))
    return comms


def _taps(process: str) -> list[str]:
    names = []
    for handle in sysfs.entries(f"{process}/fd"):
        if sysfs.link_target(f"{process}/fd/{handle}") == _TUN:
            with suppress(OSError):
                info = sysfs.read_up_to(f"{process}/fdinfo/{handle}", _FDINFO_BYTES)
                names += [hit.decode("utf-8", "replace") for hit in _INTERFACE.findall(info)]
    return names


# The CPU's number is the 13th word, from Linux 5.10 on.
_INDEX = 12
_SOFTNET_WORDS = 9
_DEV_WORDS = 16


def parse_softnet(
    text: str, online_cpus: Callable[[], Sequence[int]]
) -> tuple[NDArray[np.int32], Counts]:
    """CPUs, and uint64 (n, 3) packets processed, dropped and time squeezed.

    One line per online CPU; older kernels do not print the CPU, and `online_cpus` has them. Raises
    ValueError.
    """
    words = [line.split() for line in text.splitlines()]
    if not words or any(len(entry) < _SOFTNET_WORDS for entry in words):
        raise ValueError("it has no lines of CPUs")
    if all(len(word) > _INDEX for word in words):
        cpus = [int(item[_INDEX], 16) for item in words]
    elif len(words) == len(online := online_cpus()):
        cpus = list(online)
    else:
        raise ValueError(f"it has lines of {len(words)} CPUs, and {len(online)} are online")
    if len(set(cpus)) < len(cpus) or max(cpus) >= 1 << 16:
        raise ValueError("its CPU numbers are invalid")
    counts = [[int(word, 16) for word in item[:3]] for item in words]
    if any(count >= 1 << 32 for row in counts for count in row):
        raise ValueError("its numbers have more than 32 bits")
    return np.array(cpus, np.int32), np.array(counts, np.uint64)


def parse_dev(text: str) -> dict[str, tuple[int, int, int]]:
    """Packets received and sent, and bytes received, of each interface. Raises ValueError."""
    counts = {}
    for line in text.splitlines()[2:]:
        name, colon, rest = line.rpartition(":")
        words = rest.split()
        if not colon or len(words) < _DEV_WORDS:
            raise ValueError("its lines are invalid")
        counts[name.strip()] = int(words[1]), int(words[9]), int(words[0])
    return counts


def parse_forwarded(snmp: str, snmp6: str) -> int | None:
    """IP packets forwarded, of both versions; None if neither text has them."""
    counts = []
    lines = [line.split() for line in snmp.splitlines() if line.startswith("Ip:")]
    if len(lines) == 2 and "ForwDatagrams" in lines[0]:
        counts.append(int(lines[1][lines[0].index("ForwDatagrams")]))
    for line in snmp6.splitlines():
        name, _, number = line.partition(" ")
        if name.rstrip() == "Ip6OutForwDatagrams":
            counts.append(int(number))
    return sum(counts) if counts else None


# Kinds of interfaces ("veth", "gre", "openvswitch") by rtnetlink(7): RTM_GETLINK and IFLA_INFO_KIND
# in linux/rtnetlink.h and linux/if_link.h. sysfs has them for some drivers only (DEVTYPE), and the
# `iflink` of a veth whose peer is in another namespace may be its own number.
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
    """Kind of each interface of our network namespace that has one; a NIC has none.

    One request, which needs no privilege; empty if the kernel does not answer.
    """
    kinds: dict[str, str] = {}
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, 0) as channel:
            channel.settimeout(_LIMIT_S)
            channel.sendto(_request(), (0, 0))
            for _ in range(_MOST_ANSWERS):
                links, ended = parse_links(channel.recv(_ANSWER_BYTES))
                kinds |= links
                if ended:
                    break
    except OSError:
        return kinds
    return kinds


def _request() -> bytes:
    body = bytes(_LINK_BYTES) + _ATTRIBUTE.pack(8, _EXTENT) + struct.pack("=I", _NO_STATISTICS)
    return _HEADER.pack(_HEADER.size + len(body), _GET_LINK, _REQUEST_ALL, 1, 0) + body


def parse_links(answer: bytes) -> tuple[Mapping[str, str], bool]:
    """Kinds by name in one reply, and whether it is the last; an invalid one is."""
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


_RECORDS = frozenset({"proc/net/softnet_stat", "proc/net/dev"})
_LIMIT_BYTES = 2 << 20  # 4096 CPUs, or ten thousand interfaces
# An interface may get a master, and a tap another owner, under the same name.
REFRESH_EVERY_NS = 10_000_000_000
_LOOPBACK = "772"  # ARPHRD_LOOPBACK, if_arp.h
# An interface of no such kind and without a device gets its packets from another interface, which
# counts them already: tunnels (gre, ipip, wireguard, vxlan), OVS' internal ports, dummies.
_KINDS: Mapping[str, InterfaceKind] = MappingProxyType(
    {
        "veth": "veth",
        "netkit": "veth",
        "tun": "tap",
        "dsa": "upper",  # a port of a switch chip, behind the NIC that it hangs on
    }
)


@dataclass(frozen=True, slots=True)
class _Facts:
    """Facts that rarely change; fields as in `Interface`."""

    kind: InterfaceKind
    driver: str
    node: int | None
    owner: int | None
    link_bits_per_s: int | None = None


class NetdevSource:
    """Packets of the kernel's network stack, by CPU and by interface."""

    name = "netdev"
    inline = False

    def __init__(
        self,
        root: Path = Path("/"),
        clock: Callable[[], int] = time.monotonic_ns,
        links: Callable[[], Mapping[str, str]] = link_kinds,
    ) -> None:
        """`links` returns the kernel's kind of each interface by its name."""
        self._root = root
        self._links = links
        self._net = sysfs.SysTree(root / "sys/class/net")
        self._clock = clock
        self._files: dict[str, OpenFile] = {}
        self._facts: Mapping[str, _Facts] = {}
        self._checked_at_ns = 0

    def read(self) -> NetdevTable | Missing:
        path = "proc/net/softnet_stat"
        try:
            cpus, softnet = parse_softnet(
                self._text(path), lambda: parse_cpu_list(self._text(_ONLINE).strip() or "0")
            )
            path = "proc/net/dev"
            counts = parse_dev(self._text(path))
            path = "proc/net/snmp"
            forwarded = parse_forwarded(self._or_nothing(path), self._or_nothing("proc/net/snmp6"))
        except (OSError, ValueError) as error:
            return sysfs.unreadable(f"/{path}", error)
        now_ns = self._clock()
        if counts.keys() != self._facts.keys() or now_ns - self._checked_at_ns >= REFRESH_EVERY_NS:
            self.close()  # files of interfaces that are gone
            self._facts, self._checked_at_ns = self._read_facts(frozenset(counts)), now_ns
        facts = self._facts
        interfaces = []
        for name, (rx, tx, rx_bytes) in counts.items():
            missed = None
            if facts[name].kind == "nic":
                missed = self._number(f"sys/class/net/{name}/statistics/rx_missed_errors")
            own = facts[name]
            interfaces.append(
                Interface(
                    name,
                    own.kind,
                    own.driver,
                    own.node,
                    own.owner,
                    rx,
                    tx,
                    missed,
                    rx_bytes,
                    own.link_bits_per_s,
                )
            )
        return NetdevTable(cpus, softnet, tuple(interfaces), forwarded)

    def check(self) -> tuple[Check, ...]:
        table = self.read()
        if isinstance(table, Missing):
            return missing_check(self.name, table)
        counted = [interface.name for interface in table.interfaces if interface.counts_once]
        left = [interface.name for interface in table.interfaces if interface.owner is not None]
        text = (
            f"packets of CPU {format_cpu_list(table.cpus)} and of {len(counted)} interfaces of "
            "nftop's own network namespace"
        )
        if left:
            text += f"; mirrors of a network function's own ports are left out: {', '.join(left)}"
        return (Check(self.name, Reason.PRESENT, text),)

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _text(self, path: str) -> str:
        """A file that is kept open; snmp, snmp6 and attributes are one record each."""
        if path not in self._files:
            records = path in _RECORDS
            self._files[path] = OpenFile(f"{self._root}/{path}", _LIMIT_BYTES, records=records)
        return self._files[path].read().decode("utf-8", "replace")

    def _number(self, path: str) -> int | None:
        """A counter; None if it is absent or can't be read."""
        try:
            return int(self._text(path))
        except (OSError, ValueError):
            return None

    def _or_nothing(self, path: str) -> str:
        try:
            return self._text(path)
        except FileNotFoundError:
            return ""

    def _read_facts(self, names: frozenset[str]) -> Mapping[str, _Facts]:
        links = self._links()
        kinds = {name: self._kind(name, links.get(name, "")) for name in names}
        taps = [name for name, kind in kinds.items() if kind == "tap"]
        held = owners(self._root / "proc", taps) if taps else {}
        facts = {}
        for name, kind in kinds.items():
            if kind == "nic":
                driver = sysfs.link_target(self._root / "sys/class/net" / name / "device/driver")
                node = self._net.number(f"{name}/device/numa_node")
                speed = self._net.number(f"{name}/speed")  # Mbit/s; -1 if unknown
                link = speed * 1_000_000 if speed is not None and speed > 0 else None
                facts[name] = _Facts(kind, driver.rpartition("/")[2], node, None, link)
            else:
                facts[name] = _Facts(kind, "", None, held.get(name))
        return facts

    def _kind(self, name: str, link: str) -> InterfaceKind:
        if "/" in name or name in (".", ".."):  # not valid in the kernel
            return "virtual"
        files = self._net.names(name)
        if self._net.text(f"{name}/type") == _LOOPBACK:
            return "loopback"
        if link in _KINDS:
            return _KINDS[link]
        if "tun_flags" in files:
            return "tap"
        if "device" in files:
            return "nic"
        return "upper" if any(file.startswith("lower_") for file in files) else "virtual"
