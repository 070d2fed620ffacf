"""Source `netdev`: packets of the kernel's network stack; interfaces are identified as they change.

Layouts: softnet_seq_show and dev_seq_printf_stats in the kernel's net/core/net-procfs.c;
snmp_seq_show in net/ipv4/proc.c, snmp6_seq_show in net/ipv6/proc.c; tun_chr_show_fdinfo in
drivers/net/tun.c: the fdinfo of an open /dev/net/tun names its interface ("iff:").
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from nftop.model.ids import format_cpu_list, parse_cpu_list
from nftop.model.nf.netdev import Interface, InterfaceKind, NetdevTable
from nftop.model.reading import Missing, Reason
from nftop.model.sample import Counts
from nftop.model.struct import dataclass
from nftop.sources.base import Check
from nftop.sources.host.sysfs import SysTree, read_up_to
from nftop.sources.netdev.links import link_kinds
from nftop.sources.process.scan import is_nf

_TUN = Path("/dev/net/tun")
_INTERFACE = re.compile(rb"^iff:\t(.+)$", re.MULTILINE)
_COMM_BYTES = 64
_FDINFO_BYTES = 4096


def owners(proc: Path, wanted: Collection[str]) -> Mapping[str, int]:
    """The pid of the network function that holds each of these interfaces; others are absent.

    A network function makes taps as mirrors of ports that it counts itself; they
    are recognized by the names of their threads. Scans all threads, and all descriptors of such
    programs, so it is not called every tick. What nftop may not read is skipped.
    """
    pids: dict[str, int] = {}
    for entry in sorted(_folder(proc), key=len):
        if entry.isdecimal() and is_nf(_comms(proc / entry)):
            for name in _taps(proc / entry):
                if name in wanted:
                    pids.setdefault(name, int(entry))
    return pids


def _comms(process: Path) -> list[str]:
    """The names of its threads."""
    comms = []
    for tid in _folder(process / "task"):
        try:
            comm = read_up_to(f"{process}/task/{tid}/comm", _COMM_BYTES)
        except OSError:
            continue
        comms.append(comm.decode("utf-8", "replace").rstrip("\n"))
    return comms


def _taps(process: Path) -> list[str]:
    names = []
    for handle in _folder(process / "fd"):
        try:
            if (process / "fd" / handle).readlink() != _TUN:
                continue
            info = read_up_to(f"{process}/fdinfo/{handle}", _FDINFO_BYTES)
        except OSError:
            continue
        names += [hit.decode("utf-8", "replace") for hit in _INTERFACE.findall(info)]
    return names


def _folder(path: Path) -> list[str]:
    try:
        with os.scandir(path) as entries:
            return [entry.name for entry in entries]
    except OSError:
        return []


# The CPU's number is the 13th word, from Linux 5.10 on.
_INDEX = 12
_SOFTNET_WORDS = 9
_DEV_WORDS = 16


def parse_softnet(text: str, online: Sequence[int]) -> tuple[NDArray[np.int32], Counts]:
    """CPUs, and of each what it has taken in, dropped and left waiting.

    One line per online CPU; older kernels do not print the CPU, which `online` then has.
    """
    words = [line.split() for line in text.splitlines()]
    if not words or any(len(entry) < _SOFTNET_WORDS for entry in words):
        raise ValueError("it has no lines of CPUs")
    if all(len(word) > _INDEX for word in words):
        cpus = [int(item[_INDEX], 16) for item in words]
    elif len(words) == len(online):
        cpus = list(online)
    else:
        raise ValueError(f"it has lines of {len(words)} CPUs, and {len(online)} are online")
    if len(set(cpus)) < len(cpus) or max(cpus) >= 1 << 16:
        raise ValueError("its lines are of no CPUs that there can be")
    counts = [[int(word, 16) for word in item[:3]] for item in words]
    if any(count >= 1 << 32 for row in counts for count in row):
        raise ValueError("its numbers have more than 32 bits")
    return np.array(cpus, np.int32), np.array(counts, np.uint64)


def parse_dev(text: str) -> dict[str, tuple[int, int]]:
    """Packets received and sent of each interface by name."""
    counts = {}
    for line in text.splitlines()[2:]:
        name, colon, rest = line.rpartition(":")
        words = rest.split()
        if not colon or len(words) < _DEV_WORDS:
            raise ValueError("its lines are of no interfaces")
        counts[name.strip()] = int(words[1]), int(words[9])
    return counts


def parse_forwarded(snmp: str, snmp6: str) -> int | None:
    """IP packets forwarded, of both versions; None where neither text has them."""
    counts = []
    lines = [line.split() for line in snmp.splitlines() if line.startswith("Ip:")]
    if len(lines) == 2 and "ForwDatagrams" in lines[0]:
        counts.append(int(lines[1][lines[0].index("ForwDatagrams")]))
    for line in snmp6.splitlines():
        name, _, number = line.partition(" ")
        if name.rstrip() == "Ip6OutForwDatagrams":
            counts.append(int(number))
    return sum(counts) if counts else None


# Beyond this a text is no longer what it is meant to be: 4096 CPUs, or ten thousand interfaces.
_LIMIT_BYTES = 2 << 20
# An interface may get a master, and a tap another owner, without changing its name.
LOOK_AGAIN_NS = 10_000_000_000
_LOOPBACK = "772"  # ARPHRD_LOOPBACK, if_arp.h
# Kinds of link by rtnetlink that sysfs does not have. An interface of no such kind and without a
# device gets its packets from another interface, which counts them already: tunnels
# (gre, ipip, wireguard, vxlan), OVS' internal ports, dummies.
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
    """Facts that seldom change; fields as in `Interface`."""

    kind: InterfaceKind
    driver: str
    node: int | None
    owner: int | None


class NetdevSource:
    """Packets of the kernel's network stack, by CPU and by interface."""

    def __init__(
        self,
        root: Path = Path("/"),
        clock: Callable[[], int] = time.monotonic_ns,
        links: Callable[[], Mapping[str, str]] = link_kinds,
    ) -> None:
        """Set up. `links` gives the kernel's name for what an interface is, by its name."""
        self._root = root
        self._links = links
        self._net = SysTree(root / "sys/class/net")
        self._clock = clock
        self._facts: Mapping[str, _Facts] = {}
        self._checked_at_ns = 0

    @property
    def name(self) -> str:
        return "netdev"

    @property
    def inline(self) -> bool:
        return False

    def read(self) -> NetdevTable | Missing:
        """All counters."""
        path = "proc/net/softnet_stat"
        try:
            online = parse_cpu_list(self._text("sys/devices/system/cpu/online").strip() or "0")
            cpus, softnet = parse_softnet(self._text(path), online)
            path = "proc/net/dev"
            counts = parse_dev(self._text(path))
            path = "proc/net/snmp"
            forwarded = parse_forwarded(self._or_nothing(path), self._or_nothing("proc/net/snmp6"))
        except PermissionError:
            return Missing(Reason.PERMISSION, f"/{path} can't be read; run as root")
        except FileNotFoundError:
            return Missing(Reason.SOURCE, f"there is no /{path}")
        except OSError as error:
            return Missing(Reason.ERROR, f"/{path}: {error.strerror}")
        except ValueError as error:
            return Missing(Reason.ERROR, f"/{path}: {error}")
        facts = self._known(frozenset(counts))
        interfaces = tuple(
            Interface(
                name,
                facts[name].kind,
                facts[name].driver,
                facts[name].node,
                facts[name].owner,
                rx,
                tx,
                self._missed(name) if facts[name].kind == "nic" else None,
            )
            for name, (rx, tx) in counts.items()
        )
        return NetdevTable(cpus, softnet, interfaces, forwarded)

    def check(self) -> tuple[Check, ...]:
        """Whether the kernel's data path can be counted, and which interfaces nftop leaves out."""
        table = self.read()
        if isinstance(table, Missing):
            return (Check(self.name, table.reason, table.message),)
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
        """No descriptor is kept open."""

    def _text(self, path: str) -> str:
        return read_up_to(f"{self._root}/{path}", _LIMIT_BYTES).decode("utf-8", "replace")

    def _or_nothing(self, path: str) -> str:
        try:
            return self._text(path)
        except FileNotFoundError:
            return ""

    def _missed(self, name: str) -> int | None:
        return self._net.number(f"{name}/statistics/rx_missed_errors")

    def _known(self, names: frozenset[str]) -> Mapping[str, _Facts]:
        now_ns = self._clock()
        if names != self._facts.keys() or now_ns - self._checked_at_ns >= LOOK_AGAIN_NS:
            self._facts, self._checked_at_ns = self._look(names), now_ns
        return self._facts

    def _look(self, names: frozenset[str]) -> Mapping[str, _Facts]:
        links = self._links()
        kinds = {name: self._kind(name, links.get(name, "")) for name in names}
        taps = [name for name, kind in kinds.items() if kind == "tap"]
        held = owners(self._root / "proc", taps) if taps else {}
        return {
            name: _Facts(kind, self._driver(name), self._node(name), None)
            if kind == "nic"
            else _Facts(kind, "", None, held.get(name))
            for name, kind in kinds.items()
        }

    def _kind(self, name: str, link: str) -> InterfaceKind:
        if "/" in name or name in (".", ".."):  # the kernel calls none so
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

    def _driver(self, name: str) -> str:
        try:
            return (self._root / "sys/class/net" / name / "device/driver").readlink().name
        except OSError:
            return ""

    def _node(self, name: str) -> int | None:
        return self._net.number(f"{name}/device/numa_node")
