"""Source `ovs`: what every ovs-vswitchd with a userspace datapath counts.

From unixctl's `dpif-netdev/pmd-stats-show`, `pmd-perf-show` and `pmd-rxq-show`, OVS 2.6 to 4.0:
their absolute numbers only, all since the last `pmd-stats-clear`. What its NICs dropped is not
there; OVS' own DPDK telemetry socket (source `dpdk`, same pid) has it.
"""

from __future__ import annotations

from collections.abc import Mapping

from nftop.model.ids import Cpu
from nftop.model.owner import Owner
from nftop.model.reading import Missing
from nftop.model.sample import nf_gaps
from nftop.model.struct import dataclass, field


@dataclass(frozen=True, slots=True)
class OvsQueue:
    """One receive queue, as pmd-rxq-show has it.

    Attributes:
        port: the port's name (untrusted text).
        enabled: whether its device has it switched on; False too where OVS says `disabled`. Why a
            queue brings nothing.
        used_ratio: share (0..1, to a hundredth) of its PMD's time that went into it over the last
            `OvsSwitch.usage_window_s`; None where that says NOT AVAIL, as in a window not full yet.
    """

    port: str
    queue: int
    enabled: bool
    used_ratio: float | None


@dataclass(frozen=True, slots=True)
class OvsPmd:
    """One PMD thread. None where OVS of that version, or for that PMD, prints no such line.

    A PMD that has received nothing prints no cycles; right after a clear it prints nothing at all.

    Attributes:
        core: the CPU it is bound to (`core_id`). numa: its `numa_id`, to set beside that of
            its ports.
        rx_packets: `packets received` or `Rx packets`, once each however often recirculated. None
            before 2.10, which counts passes through the flow tables only.
        tx_packets: `Tx packets`.
        used_cycles: TSC cycles of all its iterations, idle ones too, sleep left out: `Used TSC
            cycles`, or `idle cycles` + `processing cycles` (2.6: `polling cycles`).
        busy_cycles: those of iterations that found packets (`processing cycles`); None from 4.0 on.
        sleep_us: `Sleep time (us)`, from 3.1 on.
        upcalls, lost_upcalls: packets that missed every flow table; of these, the ones dropped.
            They are what a packet costs most by: the raw side of a high CPP.
        overhead_ratio: as a queue's `used_ratio`, for work on no queue.
        hits: packets by the flow table that knew them: `phwol`, `simple`, `emc`, `smc`, `megaflow`.
        counted_s: `Measurement duration`: how long it has been counting, so that a clear shows
            even where the counters are higher again; from 2.10 on.
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


@dataclass(frozen=True, slots=True)
class OvsSwitch:
    """One ovs-vswitchd.

    Attributes:
        pid, start_ticks: its identity, from the socket's peer; both 0 before the first connection.
        name: program name (untrusted text).
        rundir: the directory of its control socket; socket: the path it was found at.
        version: output of its `version` command; "" before that.
        problem: why it could not be asked; None when all is well. The PMDs, `read_at_ns` and
            `took_ns` are then of the last time that worked: no PMDs and 0 if it never did.
        usage_window_s: over what pmd-rxq-show's shares are; None where that was not read.
        read_at_ns: CLOCK_MONOTONIC at the middle of the read of this one's counters.
        owner: user it belongs to; None in recordings without it.
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
        """What could not be seen, in words; "" when nothing is."""
        return nf_gaps(self.hidden, self.switches)
