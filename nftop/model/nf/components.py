"""Threads, ports, queues and graph nodes of a network function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, overload

from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.struct import dataclass

NO_MONITOR = Missing(Reason.UNDEFINED, "its threads have no monitoring group: M makes one")
NOT_REPORTED = Missing(Reason.SOURCE, "not reported by it")
NO_PORT_LOSSES = Missing(
    Reason.UNDEFINED, "only DPDK's telemetry and VPP have this counter of ports"
)
NO_ERROR_DROPS = Missing(Reason.UNDEFINED, "it has no graph nodes that count errors: VPP has")
NO_LATENCY = Missing(
    Reason.UNDEFINED, "only DPDK's latencystats measure it: OVS and VPP publish no latency"
)
ONLY_OVS = Missing(Reason.UNDEFINED, "it has no such flow tables: OVS has")


T = TypeVar("T")


class DeferredRows(Sequence[T]):
    """Rows that are computed when they are first read: only pages and exports read them."""

    __slots__ = ("_compute", "_rows")

    def __init__(self, compute: Callable[[], Sequence[T]]) -> None:
        """`compute` reads nothing that changes; two threads may call it at once."""
        self._compute: Callable[[], Sequence[T]] | None = compute
        self._rows: tuple[T, ...] = ()

    def __len__(self) -> int:
        return len(self._computed())

    @overload
    def __getitem__(self, index: int) -> T: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[T]: ...

    def __getitem__(self, index: int | slice) -> T | Sequence[T]:
        return self._computed()[index]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, tuple | DeferredRows) and self._computed() == tuple(other)

    def __hash__(self) -> int:
        return hash(self._computed())

    def _computed(self) -> tuple[T, ...]:
        compute = self._compute
        if compute is not None:
            self._rows = tuple(compute())
            self._compute = None
        return self._rows


@dataclass(frozen=True, slots=True)
class NfThread:
    """One polling thread.

    Attributes:
        name: untrusted text.
        packets_per_s: received; sent if the NF only generates.
        busy_ratio: share of time it worked, by the NF's own count, 0..1.
        run_ratio: share of time it was on a CPU, 0..1.
        tid: of the kernel's thread; None if unknown.
        monitor: path of the monitoring group that counts it, or "".
        occupancy_bytes, memory_local_bytes_per_s, memory_remote_bytes_per_s: what its monitoring
            group counts, if it has one of its own.
    """

    cpu: Cpu
    name: str
    packets_per_s: Reading
    busy_ratio: Reading
    run_ratio: Reading
    tid: int | None = None
    monitor: str = ""
    occupancy_bytes: Reading = NO_MONITOR
    memory_local_bytes_per_s: Reading = NO_MONITOR
    memory_remote_bytes_per_s: Reading = NO_MONITOR


@dataclass(frozen=True, slots=True)
class NfPort:
    """One port or interface.

    Attributes:
        name: untrusted text.
        missed_packets_per_s: dropped by its NIC for lack of descriptors.
        drop_packets_per_s: dropped by the NF itself, by policy too.
        frame_bytes: mean size of the frames received, with their check sequence.
        line_packets_per_s: what its link carries of frames of this size.
    """

    name: str
    rx_packets_per_s: Reading
    tx_packets_per_s: Reading
    missed_packets_per_s: Reading
    drop_packets_per_s: Reading
    frame_bytes: Reading = NOT_REPORTED
    line_packets_per_s: Reading = NOT_REPORTED


@dataclass(frozen=True, slots=True)
class NfQueue:
    """One receive queue.

    Attributes:
        port: its port's name (untrusted text).
        cpu: CPU of the thread that polls it; None if unknown.
        used_ratio: share (0..1) of that thread's time spent on it, by the NF's own count.
        enabled: whether its device has it switched on.
        missed_packets_per_s: dropped by its NIC for lack of descriptors in it.
    """

    port: str
    queue: int
    cpu: Cpu | None
    packets_per_s: Reading
    used_ratio: Reading
    enabled: bool = True
    missed_packets_per_s: Reading = NOT_REPORTED


@dataclass(frozen=True, slots=True)
class NfXstat:
    """One counter, by its driver's or node's name for it (untrusted text).

    Attributes:
        port: port, or node of a packet graph (untrusted text).
        count: since the application began to count.
        drops: it counts packets that a graph node dropped.
        estimate: its rate is that by packet received x packets per second.
    """

    port: str
    name: str
    count: int
    per_s: Reading
    drops: bool = False
    estimate: bool = False


@dataclass(frozen=True, slots=True)
class NfFlowTables:
    """Lookups of one thread in the flow tables of OVS, as `metrics.flow_tables` has them.

    Attributes:
        name: of the thread (untrusted text).
    """

    cpu: Cpu
    name: str
    cache_hit_ratio: Reading
    phwol_hits_per_s: Reading
    simple_hits_per_s: Reading
    emc_hits_per_s: Reading
    smc_hits_per_s: Reading
    megaflow_hits_per_s: Reading
    upcalls_per_s: Reading
    lost_upcalls_per_s: Reading
    packets_per_batch: Reading


@dataclass(frozen=True, slots=True)
class NfDrop:
    """Packets that were dropped for one reason.

    Attributes:
        where: port, thread or node (untrusted text).
        reason: the counter's own name (untrusted text).
    """

    where: str
    reason: str
    packets_per_s: Reading


@dataclass(frozen=True, slots=True)
class NfNode:
    """One node of its packet graph, over all threads, as last counted.

    Attributes:
        name: untrusted text.
        clocks_ratio: share (0..1) of the clocks of all nodes.
        clocks_per_packet: TSC cycles per packet.
        packets_per_call: packets per call.
        polls: its clocks include calls that found nothing.
    """

    name: str
    clocks_ratio: Reading
    clocks_per_packet: Reading
    packets_per_call: Reading
    polls: bool
