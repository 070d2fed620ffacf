"""Source `vpp`: what every VPP counts, as its stats segment (version 2) gives it."""

from __future__ import annotations

from nftop.model.ids import Cpu
from nftop.model.owner import Owner
from nftop.model.reading import Missing
from nftop.model.sample import Counts, nf_gaps
from nftop.model.struct import dataclass


@dataclass(frozen=True, slots=True)
class VppThread:
    """One VPP thread: index 0 is `vpp_main`, index n is `vpp_wk_<n-1>`.

    Attributes:
        cpu: where it is bound to, by /proc; None where it may move or was not found.
        rx_queues: how many receive queues it polls (`show interface rx-placement`); None where only
            the segment was read, which does not tell.
        loops_per_s: of its main loop, as VPP last computed it (/sys/loops_per_worker).
        vector_rate: packets per call of a graph node, likewise (/sys/vector_rate_per_worker).
            Both are how busy a worker is where VPP keeps no counters per node.
    """

    index: int
    cpu: Cpu | None
    rx_queues: int | None
    loops_per_s: float | None
    vector_rate: float | None


@dataclass(frozen=True, slots=True, eq=False)
class VppInterfaces:
    """/if/*, of i hardware interfaces and the t threads of `VppInstance.threads`, cumulative.

    Attributes:
        names: of the interfaces (untrusted text).
        rx_packets, tx_packets: uint64 (t, i).
        rx_misses: uint64 (t, i), what a NIC dropped for want of descriptors (/if/rx-miss).
        drops: uint64 (t, i), what the graph dropped (/if/drops), by policy too: no loss for
            want of time, so beside `rx_misses` and not in it.
        kinds: of the interfaces, by VPP's API (`interface_dev_type`: `dpdk`, `bond`, `Loopback`);
            () where only the segment was read, which does not tell.
    """

    names: tuple[str, ...]
    rx_packets: Counts
    tx_packets: Counts
    rx_misses: Counts
    drops: Counts
    kinds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class VppNodes:
    """/sys/node/*, of k graph nodes and the t threads, cumulative.

    VPP copies them into the segment once an update-interval (10 s unless configured), when the
    heartbeat advances, so their clock is VPP's and not the reader's. An input node's clocks
    include its empty polls.

    Attributes:
        names: of the nodes; a source may leave out nodes that never ran.
        clocks: uint64 (t, k), TSC cycles spent in the node.
        vectors: uint64 (t, k), packets it worked on; of an input node, packets it brought.
        calls: uint64 (t, k).
    """

    names: tuple[str, ...]
    clocks: Counts
    vectors: Counts
    calls: Counts


@dataclass(frozen=True, slots=True, eq=False)
class VppInstance:
    """One VPP.

    Attributes:
        pid, start_ticks: its identity, from the socket's peer; both 0 before the first connection.
        name: program name (untrusted text).
        socket: of its stats segment; its directory's name is what the operator calls it.
        version: of VPP; "" if only the segment was read.
        problem: why it could not be read, a frozen heartbeat among that; None when all is well.
            The counters, `read_at_ns` and `took_ns` are then of the last read that worked: no
            threads, no interfaces and 0 if none ever did.
        heartbeat: /sys/heartbeat, advances by one whenever VPP has updated the segment.
        nodes: None if VPP keeps no counters per node, which is its default.
        read_at_ns: CLOCK_MONOTONIC at the middle of the read of this one's interfaces.
        owner: user it belongs to; None in recordings without it.
    """

    pid: int
    start_ticks: int
    name: str
    socket: str
    version: str
    problem: Missing | None
    heartbeat: int
    threads: tuple[VppThread, ...]
    interfaces: VppInterfaces
    nodes: VppNodes | None
    read_at_ns: int
    took_ns: int
    owner: Owner | None = None


@dataclass(frozen=True, slots=True)
class VppTable:
    """Every VPP; `hidden` has the sockets that nftop may not open."""

    instances: tuple[VppInstance, ...]
    hidden: tuple[str, ...] = ()

    @property
    def gaps(self) -> str:
        """What could not be seen, in words; "" when nothing is."""
        return nf_gaps(self.hidden, self.instances)
