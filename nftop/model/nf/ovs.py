"""Source `ovs`: counters of every ovs-vswitchd with a userspace datapath.

Absolute numbers of unixctl's `dpif-netdev/pmd-stats-show`, `pmd-perf-show` and `pmd-rxq-show`, OVS
2.6 to 4.0, all since the last `pmd-stats-clear`. Drops of NICs are in OVS' DPDK telemetry (source
`dpdk`, same pid).
"""

from __future__ import annotations

from collections.abc import Mapping

from nftop.model.ids import Cpu
from nftop.model.missing import Missing
from nftop.model.owner import Owner
from nftop.model.sample import nf_gaps
from nftop.model.struct import dataclass, field


@dataclass(frozen=True, slots=True)
class OvsQueue:
    """One receive queue of pmd-rxq-show.

    Attributes:
        port: name (untrusted text).
        enabled: whether its device has it enabled; False too if OVS says `disabled`.
        used_ratio: share (0..1, to a hundredth) of its PMD's time in the last
            `OvsSwitch.usage_window_s`; None for NOT AVAIL, as before the first full window.
    """

    port: str
    queue: int
    enabled: bool
    used_ratio: float | None


@dataclass(frozen=True, slots=True)
class OvsPmd:
    """One PMD thread. None where this OVS version prints no such line, or not for this PMD.

    A PMD without packets prints no cycles; right after a clear it prints nothing.

    Attributes:
        core: the CPU it is bound to (`core_id`). numa: its `numa_id`.
        rx_packets: `packets received` or `Rx packets`, without recirculation. None before 2.10,
            which counts passes through the flow tables only.
        tx_packets: `Tx packets`.
        used_cycles: TSC cycles of all iterations, idle ones included, sleep excluded: `Used TSC
            cycles`, or `idle cycles` + `processing cycles` (2.6: `polling cycles`).
        busy_cycles: those of iterations with packets (`processing cycles`); None from 4.0 on.
        sleep_us: `Sleep time (us)`, from 3.1 on.
        upcalls, lost_upcalls: packets that missed all flow tables, and those of them dropped: the
            most expensive packets.
        overhead_ratio: as `OvsQueue.used_ratio`, for work on no queue.
        hits: packets by the flow table that matched: `phwol`, `simple`, `emc`, `smc`, `megaflow`.
        counted_s: `Measurement duration`, from 2.10 on: shows a clear even if counters are higher
            again.
        tx_batches: `Tx batches`, from 2.10 on: a batch is sent to one port.
    """

    core: Cpu
    numa: int
    rx_packets: int | None
    tx_packets: int | None
    used_cycles: int | None
    busy_cycles: int | None
    sleep_us: int | None
    upcalls: int | None
    lost_upcalls: int | None
    queues: tuple[OvsQueue, ...]
    overhead_ratio: float | None
    hits: Mapping[str, int] = field(default_factory=dict)
    counted_s: float | None = None
    tx_batches: int | None = None


@dataclass(frozen=True, slots=True)
class OvsSwitch:
    """One ovs-vswitchd.

    Attributes:
        pid, start_ticks: identity from the socket's peer; both 0 before the first connection.
        name: program name (untrusted text).
        rundir: directory of its control socket; socket: its path.
        version: output of its `version` command; "" before that.
        problem: why it could not be queried, or None. PMDs, `read_at_ns` and `took_ns` are then of
            the last success: no PMDs and 0 if there was none.
        usage_window_s: window of pmd-rxq-show's shares; None if not read.
        read_at_ns: CLOCK_MONOTONIC at the middle of the read of its counters.
        owner: of the socket; None in older recordings.
    """

    pid: int
    start_ticks: int
    name: str
    rundir: str
    socket: str
    version: str
    problem: Missing | None
    pmds: tuple[OvsPmd, ...]
    usage_window_s: float | None
    read_at_ns: int
    took_ns: int
    owner: Owner | None = None


@dataclass(frozen=True, slots=True)
class OvsTable:
    """Every ovs-vswitchd; `hidden` has the sockets that nftop may not open."""

    switches: tuple[OvsSwitch, ...]
    hidden: tuple[str, ...] = ()

    @property
    def gaps(self) -> str:
        """What could not be read, a text; "" if nothing."""
        return nf_gaps(self.hidden, self.switches)
