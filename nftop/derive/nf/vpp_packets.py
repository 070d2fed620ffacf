"""What each VPP thread received, sent and missed: every packet on one interface only.

VPP counts a packet on each interface it passes: on a NIC, on the bond the NIC belongs to, on the
tunnel it came in. It came in once, on the one that is made of no other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from nftop.derive.nf.counter_rates import RESTARTED, held
from nftop.model.column import Bools, Floats
from nftop.model.nf.vpp import VppInstance, VppInterfaces, VppNodes
from nftop.model.reading import Missing, Reason
from nftop.model.sample import Counts

Counted: TypeAlias = Literal["rx_packets", "tx_packets", "rx_misses", "drops"]
_COUNTED: tuple[Counted, ...] = ("rx_packets", "tx_packets", "rx_misses", "drops")

# How VPP calls interfaces made of others unless told otherwise (their format functions), and how
# their kinds begin in its API (VNET_DEVICE_CLASS), in lower case.
_STACKED_NAME = re.compile(
    "(BondEthernet|bvi|geneve_tunnel|gre|gtpu_tunnel|ipip|ipsec|l2tpv3_tunnel|lisp_gpe|loop|"
    "mpls-tunnel|nsh_tunnel|pipe|pppoe_session|vxlan_gpe_tunnel|vxlan_tunnel|wg)[0-9]+"
)
_STACKED_KINDS = (
    "bond", "bvi", "geneve", "gre", "gtpu", "ipip", "ipsec", "l2tp", "lisp", "loopback", "mpls",
    "nsh", "pipe", "pppoe", "vxlan", "wireguard",
)  # fmt: skip
_BONDS = ("bond", "BondEthernet")
_BOND_NODE = "bond-input"

_NO_INTERFACES = Missing(Reason.UNDEFINED, "it has no interfaces")
_HIDDEN_BOND = Missing(
    Reason.SOURCE,
    "it has a bond, and no name tells which interface that is: its packets would count twice",
)


@dataclass(frozen=True, slots=True, eq=False)
class RatedPackets:
    """One VPP's counters when last rated, and the rates that gave.

    Attributes:
        read_at_ns: when they were read.
        rows: the threads' indices, of the arrays' rows; columns: the interfaces' names.
        counts: uint64 (4, t, i), in the order of `_COUNTED`.
        per_s: by counter, float64 (t,), each thread's over all interfaces that are made of no
            other; why there is none.
        by_interface: likewise, float64 (i,), each interface's over all threads, whatever it is
            made of.
        interval_s: between the two readings; None without rates, 0 where they were rated before.
    """

    read_at_ns: int
    rows: tuple[int, ...]
    columns: tuple[str, ...]
    counts: Counts
    per_s: Mapping[Counted, Floats] | Missing
    by_interface: Mapping[Counted, Floats] | Missing
    interval_s: float | None


def rate_packets(before: RatedPackets | None, vpp: VppInstance) -> RatedPackets:
    """Fold one reading in; one that was rated before keeps its rates.

    After a counter went back all is RESET, after a change of threads or interfaces WARMING: an
    index may be given to another one. So it is after a reading from before the last.
    """
    if before is not None and before.read_at_ns == vpp.read_at_ns:
        return replace(before, interval_s=held(before.interval_s))
    told = vpp.interfaces
    rows = tuple(thread.index for thread in vpp.threads)
    # As in _COUNTED.
    counts = np.stack([told.rx_packets, told.tx_packets, told.rx_misses, told.drops])
    per_s: Mapping[Counted, Floats] | Missing = Missing(Reason.WARMING)
    by_interface: Mapping[Counted, Floats] | None = None
    interval_s = None
    if not told.names:
        per_s = _NO_INTERFACES
    elif (
        before is not None
        and (before.rows, before.columns) == (rows, told.names)
        and (elapsed_s := (vpp.read_at_ns - before.read_at_ns) / 1e9) > 0
    ):
        if (counts < before.counts).any():
            per_s = RESTARTED
        else:
            rates = (counts - before.counts) / elapsed_s
            by_interface = dict(zip(_COUNTED, rates.sum(axis=1), strict=True))
            if _hides_a_bond(told, vpp.nodes):
                per_s = _HIDDEN_BOND
            else:
                interval_s = elapsed_s
                summed = rates[:, :, ~_stacked(told)].sum(axis=2)
                per_s = dict(zip(_COUNTED, summed, strict=True))
    each = by_interface or (per_s if isinstance(per_s, Missing) else Missing(Reason.WARMING))
    return RatedPackets(vpp.read_at_ns, rows, told.names, counts, per_s, each, interval_s)


def _stacked(told: VppInterfaces) -> Bools:
    """bool (i,): which interfaces are made of others."""
    if told.kinds:
        return np.array([kind.lower().startswith(_STACKED_KINDS) for kind in told.kinds], bool)
    return np.array([bool(_STACKED_NAME.fullmatch(name)) for name in told.names], bool)


def _hides_a_bond(told: VppInterfaces, nodes: VppNodes | None) -> bool:
    """Whether packets passed a bond, and no interface is known as one."""
    if nodes is None or _BOND_NODE not in nodes.names:
        return False
    known = any(kind.startswith(_BONDS) for kind in told.kinds or told.names)
    return not known and bool(nodes.vectors[:, nodes.names.index(_BOND_NODE)].any())
