"""What kinds of thread there are, which network function each works for, and what polling is.

`sources/process/scan` recognises them by name; a new kind of NF is a row here and one there.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

# A thread polls when it runs, or is kept from running, more than this share of the time. A poller
# never sleeps, so it shows close to 1 even when two share a core; an ordinary thread shows less.
POLLING_RATIO = 0.5

# Roles of threads that forward, and the kind of NF, which is also the name of its source.
NF_KINDS: Mapping[str, str] = MappingProxyType(
    {
        "dpdk_lcore": "dpdk",
        "dpdk_main": "dpdk",
        "ovs_pmd": "ovs",
        "vpp_main": "vpp",
        "vpp_worker": "vpp",
        "grout_worker": "grout",
    }
)
# What each source of network functions reads, for messages about the source as a whole.
NF_ADDRESSES: Mapping[str, str] = MappingProxyType(
    {
        "dpdk": "telemetry sockets dpdk_telemetry.v2",
        "ovs": "control sockets ovs-vswitchd.PID.ctl",
        "vpp": "stats.sock",
        "netdev": "/proc/net/dev",
    }
)
# Of kinds whose source has another name.
NF_SOURCES: Mapping[str, str] = MappingProxyType({"kernel": "netdev"})
