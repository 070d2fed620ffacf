"""Kinds of network functions, the threads that forward for each, and what polling is.

A new kind is a row here, its source's package and a module in `nftop.derive.nf.kinds`; code outside
of nftop calls `register_nf_kind`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from nftop.model.struct import dataclass

DPDK_PROGRAM = "dpdk-"  # before the name of DPDK's own applications, in packages of distributions

# A thread polls when it runs, or is kept from running, more than this share of the time. A poller
# never sleeps, so it shows close to 1 even when two share a core; an ordinary thread shows less.
POLLING_RATIO = 0.5


@dataclass(frozen=True, slots=True)
class ThreadRole:
    """Forwarding threads, recognized by name; the kernel keeps 15 bytes of it.

    Attributes:
        pattern: of thread names; its group, if any, is the index. "" if names do not show the role.
        worker: it always polls; a main thread may sleep.
    """

    name: str
    pattern: str = ""
    worker: bool = True


@dataclass(frozen=True, slots=True)
class NfKind:
    """One kind of network function.

    Attributes:
        id: in outputs and recordings.
        roles: of its threads.
        address: what its source reads, for messages; "" if nftop reads no statistics of it.
        source: id of its source; "" for `id`.
    """

    id: str
    roles: tuple[ThreadRole, ...] = ()
    address: str = ""
    source: str = ""


_KIND_OF_ROLE: dict[str, str] = {}
_ADDRESSES: dict[str, str] = {}
_SOURCES: dict[str, str] = {}
_PATTERNS: dict[str, re.Pattern[str]] = {}
_WORKERS: dict[str, str] = {}

# Views of the rows, complete after each registration.
NF_KINDS: Mapping[str, str] = MappingProxyType(_KIND_OF_ROLE)  # kind by role
NF_ADDRESSES: Mapping[str, str] = MappingProxyType(_ADDRESSES)  # by source
NF_SOURCES: Mapping[str, str] = MappingProxyType(_SOURCES)  # of kinds whose source has another name
NF_PATTERNS: Mapping[str, re.Pattern[str]] = MappingProxyType(_PATTERNS)  # of names, by role
NF_WORKERS: Mapping[str, str] = MappingProxyType(_WORKERS)  # kind by role that always polls


def register_nf_kind(kind: NfKind) -> None:
    """Add a row.

    Raises:
        ValueError: another kind has one of its roles, or its source.
    """
    source = kind.source or kind.id
    if source in _ADDRESSES or any(role.name in _KIND_OF_ROLE for role in kind.roles):
        raise ValueError(f"two kinds of network functions have the source or a role of {kind.id}")
    if kind.address:
        _ADDRESSES[source] = kind.address
    if source != kind.id:
        _SOURCES[kind.id] = source
    for role in kind.roles:
        _KIND_OF_ROLE[role.name] = kind.id
        if role.pattern:
            _PATTERNS[role.name] = re.compile(role.pattern)
        if role.worker:
            _WORKERS[role.name] = kind.id


# Names of threads:
# - DPDK, lib/eal/linux/eal.c: `lcore-slave-N` until 20.08, `lcore-worker-N` until 22.07,
#   `rte-worker-N` until 23.07, `dpdk-workerN` since.
# - Open vSwitch, lib/dpif-netdev.c: `pmd-cNN/id:M`, where NN is the CPU it polls on.
# - VPP, src/vlib/threads.c: `vpp_main`, `vpp_wk_N`.
for _kind in (
    NfKind(
        "dpdk",
        (
            ThreadRole(
                "dpdk_lcore", "(?:lcore-slave-|lcore-worker-|rte-worker-|dpdk-worker)([0-9]+)"
            ),
            ThreadRole("dpdk_main", worker=False),
        ),
        address="telemetry sockets dpdk_telemetry.v2",
    ),
    NfKind(
        "ovs",
        (ThreadRole("ovs_pmd", "pmd-c([0-9]+)/id:[0-9]*"),),
        address="control sockets ovs-vswitchd.PID.ctl",
    ),
    NfKind(
        "vpp",
        (
            ThreadRole("vpp_main", "vpp_main", worker=False),
            ThreadRole("vpp_worker", "vpp_wk_([0-9]+)"),
        ),
        address="stats.sock",
    ),
    NfKind("kernel", address="/proc/net/dev", source="netdev"),
):
    register_nf_kind(_kind)
