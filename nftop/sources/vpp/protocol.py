"""Messages between nftop and the worker that reads a segment: lines of JSON."""

from __future__ import annotations

from nftop.model.struct import dataclass

CountsByThread = list[list[int]]


@dataclass(frozen=True, slots=True)
class Question:
    """A request for a reading."""

    cpus: list[int]  # CPUs on which the worker may run
    heartbeat: int | None  # at which the nodes were last read; None to get them in any case


@dataclass(frozen=True, slots=True)
class NodeReading:
    """/sys/node/*, of the nodes that ever ran: names, and t lists (threads) of counts."""

    names: list[str]
    clocks: CountsByThread
    vectors: CountsByThread
    calls: CountsByThread


@dataclass(frozen=True, slots=True)
class ErrorReading:
    """/err/*, of the e counters that ever counted: node and name of each, t lists of e counts.

    `epoch`: of the segment's directory.
    """

    epoch: int
    nodes: list[str]
    names: list[str]
    counts: CountsByThread


@dataclass(frozen=True, slots=True)
class VppReading:
    """One reading, of t threads and i interfaces.

    Attributes:
        heartbeat: /sys/heartbeat, before the nodes were read.
        names: of the interfaces.
        rx_packets, tx_packets, rx_misses, drops, rx_bytes, rx_no_buffers, rx_errors, tx_errors: t
            lists of i counts.
        loops_per_s, vector_rate: of each thread; empty if VPP does not count them.
        counts_nodes: whether VPP keeps counters per node.
        nodes: None where it does not, or has not refreshed them since the question's heartbeat.
        began_ns, ended_ns: CLOCK_MONOTONIC around the reading of the interfaces.
        errors: or why they are not read, a text.
    """

    heartbeat: int
    names: list[str]
    rx_packets: CountsByThread
    tx_packets: CountsByThread
    rx_misses: CountsByThread
    drops: CountsByThread
    rx_bytes: CountsByThread
    rx_no_buffers: CountsByThread
    rx_errors: CountsByThread
    tx_errors: CountsByThread
    loops_per_s: list[int]
    vector_rate: list[int]
    counts_nodes: bool
    nodes: NodeReading | None
    began_ns: int
    ended_ns: int
    errors: ErrorReading | str


@dataclass(frozen=True, slots=True)
class ReadAnswer:
    """A reading, or a `Reason` with a message. `cpu_ns`: CPU time of the worker so far."""

    value: VppReading | None = None
    reason: int = 0
    sentence: str = ""
    cpu_ns: int = 0
