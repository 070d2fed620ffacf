"""Source `netdev`: what the kernel's own network stack takes in, by CPU and by interface."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nftop.model.reading import Reading
from nftop.model.sample import Counts
from nftop.model.struct import dataclass

# `nic`: a device is behind it. `tap`: a program is, which reads and writes its packets itself.
# `veth`: another interface is its other end, in most cases in another namespace.
# `upper`: other interfaces are below it, whose packets it counts again (bridge, bond, VLAN).
# `virtual`: neither; as a rule its packets are those of another interface (tunnels, OVS' ports).
InterfaceKind: TypeAlias = Literal["nic", "tap", "veth", "upper", "virtual", "loopback"]
# By which the kernel gets packets that no other interface of its namespace has.
_ENTRANCES = frozenset[InterfaceKind]({"nic", "tap", "veth"})


@dataclass(frozen=True, slots=True)
class Interface:
    """One interface of nftop's network namespace. Counters are cumulative.

    Attributes:
        name: untrusted text.
        driver: of its device; "" where it has none. node: its device's NUMA node, if known.
        owner: pid of the network function that holds it (a tap of OVS or VPP mirrors what they
            count themselves); None if no known one does.
        rx_packets, tx_packets: from /proc/net/dev.
        rx_missed: what its device dropped for lack of buffers; None if unknown.
    """

    name: str
    kind: InterfaceKind
    driver: str
    node: int | None
    owner: int | None
    rx_packets: int
    tx_packets: int
    rx_missed: int | None

    @property
    def counts_once(self) -> bool:
        """Its packets are the kernel's work, and no other interface has them too."""
        return self.owner is None and self.kind in _ENTRANCES


@dataclass(frozen=True, slots=True, eq=False)
class NetdevTable:
    """What the kernel's network stack counts.

    Attributes:
        cpus: the n CPUs of /proc/net/softnet_stat.
        softnet: uint64 (n, 3), modulo 2**32: packets taken in, dropped since the backlog was full,
            and how often polling was left with packets waiting. The same in every namespace.
        interfaces: of nftop's own network namespace; containers have others.
        forwarded: IP packets forwarded, in nftop's namespace; None if unknown.
    """

    cpus: NDArray[np.int32]
    softnet: Counts
    interfaces: tuple[Interface, ...]
    forwarded: int | None
    gaps: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class InterfaceRow:
    """One network interface of the kernel's. What is named as in `Interface` is the same.

    `missed_per_s` is what its device dropped for want of buffers.
    """

    name: str
    kind: InterfaceKind
    driver: str
    node: int | None
    owner: int | None
    rx_packets_per_s: Reading
    tx_packets_per_s: Reading
    missed_per_s: Reading
