"""Source `netdev`: packets received by the kernel's network stack, by CPU and by interface."""

from __future__ import annotations

from typing import ClassVar, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nftop.model.missing import Reading
from nftop.model.nf.components import NOT_REPORTED
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
        driver: of its device; "" if none. node: NUMA node of its device, if known.
        owner: pid of the network function that uses it (a tap of OVS or VPP, which count its
            packets too), or None.
        rx_packets, tx_packets: from /proc/net/dev.
        rx_missed: packets its device dropped for lack of buffers; None if unknown.
        rx_bytes: without the frames' check sequence; None in older recordings.
        link_bits_per_s: speed of its link; None if unknown, or the link is down.
    """

    name: str
    kind: InterfaceKind
    driver: str
    node: int | None
    owner: int | None
    rx_packets: int
    tx_packets: int
    rx_missed: int | None
    rx_bytes: int | None = None
    link_bits_per_s: int | None = None

    @property
    def counts_once(self) -> bool:
        """Whether the kernel processes its packets and no other interface counts them too."""
        return self.owner is None and self.kind in _ENTRANCES


@dataclass(frozen=True, slots=True, eq=False)
class NetdevTable:
    """Counters of the kernel's network stack.

    Attributes:
        cpus: the n CPUs of /proc/net/softnet_stat.
        softnet: uint64 (n, 3), modulo 2**32: packets received, packets dropped for a full backlog,
            and polls that ended with packets waiting. The same in every namespace.
        interfaces: of nftop's network namespace only.
        forwarded: IP packets forwarded in nftop's namespace; None if unknown.
    """

    cpus: NDArray[np.int32]
    softnet: Counts
    interfaces: tuple[Interface, ...]
    forwarded: int | None
    gaps: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class InterfaceRow:
    """One network interface of the kernel; fields as in `Interface`.

    `missed_per_s`: packets its device dropped for lack of buffers. `frame_bytes`: mean size of the
    frames received, with their check sequence; `line_packets_per_s`: what its link carries of them.
    """

    name: str
    kind: InterfaceKind
    driver: str
    node: int | None
    owner: int | None
    rx_packets_per_s: Reading
    tx_packets_per_s: Reading
    missed_per_s: Reading
    frame_bytes: Reading = NOT_REPORTED
    line_packets_per_s: Reading = NOT_REPORTED
