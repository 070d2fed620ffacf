"""Source `vpp`: counters of every VPP, from its stats segment (version 2)."""

from __future__ import annotations

from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reason
from nftop.model.owner import Owner
from nftop.model.sample import Counts, nf_gaps
from nftop.model.struct import dataclass


@dataclass(frozen=True, slots=True)
class VppThread:
    """One VPP thread: index 0 is `vpp_main`, index n is `vpp_wk_<n-1>`.

    Attributes:
        cpu: to which it is bound, by /proc; None if it may move or was not found.
        rx_queues: number of receive queues it polls (`show interface rx-placement`); None if only
            the segment was read.
        loops_per_s: of its main loop (/sys/loops_per_worker).
        vector_rate: packets per call of a graph node (/sys/vector_rate_per_worker). Both show the
            load of a worker if VPP keeps no counters per node.
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
        names: untrusted text.
        rx_packets, tx_packets: uint64 (t, i).
        rx_misses: uint64 (t, i), dropped by a NIC for lack of descriptors (/if/rx-miss).
        drops: uint64 (t, i), dropped by the graph (/if/drops), by policy too.
        rx_bytes: uint64 (t, i), without the frames' check sequence; None in older recordings, as
            are the next.
        rx_no_buffers, rx_errors: uint64 (t, i), of a NIC by its driver's rx_nombuf and ierrors
            (/if/rx-no-buf, /if/rx-error).
        tx_errors: uint64 (t, i), packets that could not be sent (/if/tx-error); a DPDK interface
            counts them in its tx node's errors too.
        kinds: by VPP's API (`interface_dev_type`: `dpdk`, `bond`, `Loopback`); () if only the
            segment was read.
    """

    names: tuple[str, ...]
    rx_packets: Counts
    tx_packets: Counts
    rx_misses: Counts
    drops: Counts
    kinds: tuple[str, ...] = ()
    rx_bytes: Counts | None = None
    rx_no_buffers: Counts | None = None
    rx_errors: Counts | None = None
    tx_errors: Counts | None = None


@dataclass(frozen=True, slots=True, eq=False)
class VppNodes:
    """/sys/node/*, of k graph nodes and the t threads, cumulative.

    VPP updates them once per update-interval (10 s by default), when the heartbeat advances: rates
    divide by VPP's clock. Clocks of input nodes include empty polls.

    Attributes:
        names: nodes that never ran may be left out.
        clocks: uint64 (t, k), TSC cycles spent in the node.
        vectors: uint64 (t, k), packets it worked on; of an input node, packets received.
        calls: uint64 (t, k).
    """

    names: tuple[str, ...]
    clocks: Counts
    vectors: Counts
    calls: Counts


@dataclass(frozen=True, slots=True, eq=False)
class VppErrors:
    """/err/<node>/<name>, of e counters and the t threads, cumulative.

    VPP calls every counter of a node an error; `vpp_drops` has those that are drops. Counters that
    never counted are left out. `clear errors` does not change them.

    Attributes:
        epoch: of the segment's directory: while it stays, a counter that is left out is 0.
        nodes, names: of each counter (untrusted text).
        counts: uint64 (t, e).
    """

    epoch: int
    nodes: tuple[str, ...]
    names: tuple[str, ...]
    counts: Counts


ERRORS_NOT_RECORDED = Missing(Reason.SOURCE, "the recording is older than nftop's reading of them")


@dataclass(frozen=True, slots=True, eq=False)
class VppInstance:
    """One VPP.

    Attributes:
        pid, start_ticks: identity from the socket's peer; both 0 before the first connection.
        name: program name (untrusted text).
        socket: of its stats segment; the name of its directory is what the operator calls it.
        version: of VPP; "" if only the segment was read.
        problem: why it could not be read, or None; a frozen heartbeat counts. Counters,
            `read_at_ns` and `took_ns` are then of the last success: no threads, no interfaces and 0
            if there was none.
        heartbeat: /sys/heartbeat, advances whenever VPP has updated the segment.
        nodes: None if VPP keeps no counters per node, which is its default.
        read_at_ns: CLOCK_MONOTONIC at the middle of the read of its interfaces.
        owner: of the socket; None in older recordings.
        errors: its error counters, or why they were not read.
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
    errors: VppErrors | Missing = ERRORS_NOT_RECORDED


@dataclass(frozen=True, slots=True)
class VppTable:
    """Every VPP; `hidden` has the sockets that nftop may not open."""

    instances: tuple[VppInstance, ...]
    hidden: tuple[str, ...] = ()

    @property
    def gaps(self) -> str:
        """What could not be read, a text; "" if nothing."""
        return nf_gaps(self.hidden, self.instances)
