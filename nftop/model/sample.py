"""A sample: raw values that the sources read at one tick.

All are cumulative or states; `derive` computes rates and ratios. Recordings hold samples, so
fields are numbers, texts, tuples and numpy arrays only. None is changed in place: a value that is
the same object in two samples is recorded once.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from nftop.model.ids import Cpu, Lcore, format_cpu_list
from nftop.model.missing import Missing, Reason
from nftop.model.number_text import counted
from nftop.model.owner import Owner
from nftop.model.struct import dataclass, field
from nftop.model.threads import CpuUse, ThreadRow

SCHEMA = "nftop.sample/1"

Counts: TypeAlias = NDArray[np.uint64]
T = TypeVar("T")


class NfProcess(Protocol):
    """Fields that the counters of every network function have."""

    @property
    def name(self) -> str:
        """Program name (untrusted text)."""

    @property
    def problem(self) -> Missing | None:
        """Why its counters are not current, or None."""


def nf_gaps(hidden: Iterable[str], processes: Iterable[NfProcess]) -> str:
    """Network functions that could not be seen or queried, a text; "" if none."""
    failing = [
        f"{process.name}: {process.problem.message}" for process in processes if process.problem
    ]
    return "; ".join((*hidden, *failing))


def event_gaps(absent: Iterable[tuple[str, str]], details: Mapping[str, Mapping[int, str]]) -> str:
    """Absent events, where (" on CPU 3", "" for everywhere) and why, a text."""
    why: dict[tuple[str, str], list[str]] = {}
    for name, where in absent:
        text = "; ".join(details.get(name, {}).values())
        why.setdefault((where, text), []).append(name)
    return "; ".join(
        f"no {', '.join(names)}{where}" + (f": {text}" if text else "")
        for (where, text), names in why.items()
    )


@dataclass(frozen=True, slots=True)
class SourceReading(Generic[T]):
    """Reading of one source.

    Attributes:
        value: a payload, or why there is none.
        read_at_ns: CLOCK_MONOTONIC at the middle of the read.
        took_ns: duration of the read.
    """

    value: T | Missing
    read_at_ns: int
    took_ns: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One tick.

    `interval_ns` is the requested interval, not the elapsed time. `readings` is by source; a source
    that has not answered keeps its last reading with its `read_at_ns`.
    """

    wall_ns: int
    monotonic_ns: int
    interval_ns: int
    readings: Mapping[str, SourceReading[Any]]
    schema: str = SCHEMA


@dataclass(frozen=True, slots=True, eq=False)
class CounterTable:
    """Source `perf`: the counter groups of every CPU, which take turns on its counters.

    A column is one event in one group. Events such as cycles are in several groups.

    Attributes:
        cpus: the n CPUs read, ascending.
        events: k names (`cycles`, `instructions`, `ref_cycles`, `tsc`, `context_switches`).
        group: int32 (k,), the group of each column, 0..g-1.
        values: uint64 (n, k), cumulative and unscaled; 0 if absent.
        reasons: uint8 (n, k), `Reason` per CPU and column.
        enabled_ns, running_ns: uint64 (n, g), time since the CPU's groups were opened in which any
            was to run, and time in which each group ran on the hardware. The quotient is the share
            of time in which a group counted, whether nftop or the kernel multiplexes; equal for a
            group that has the counters alone. Rates divide by the delta of `running_ns`.
        details: of what is absent, the message by event (or metric of a formula) and `Reason`.
        extras: events whose absence is no gap: others replace them, or no counter was free.
        turns: number of groups beside the first that take turns tick by tick; 0 if all run within
            every tick. CPUs of `focus` have their own number.
        focus: counters of the selected core's CPUs, in groups and columns of its own, or None.
        formulas: by metric id, a formula over `events` in the notation of `uarch/grammar`, if the
            source has its own.
    """

    cpus: NDArray[np.int32]
    events: tuple[str, ...]
    group: NDArray[np.int32]
    values: Counts
    reasons: NDArray[np.uint8]
    enabled_ns: Counts
    running_ns: Counts
    details: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    extras: frozenset[str] = frozenset()
    turns: int = 0
    focus: CounterTable | None = None
    formulas: Mapping[str, str] = field(default_factory=dict)

    @property
    def gaps(self) -> str:
        """Events that no group counts, where and why, `extras` aside; "" if none."""
        names = []
        for name in dict.fromkeys(event for event in self.events if event not in self.extras):
            columns = [index for index, event in enumerate(self.events) if event == name]
            absent = (self.reasons[:, columns] > 0).all(axis=1)
            if absent.any():
                where = "" if absent.all() else f" on CPU {format_cpu_list(self.cpus[absent])}"
                names.append((name, where))
        return event_gaps(names, self.details)


@dataclass(frozen=True, slots=True, eq=False)
class CpuTimes:
    """Source `kernel`: /proc/stat per online CPU.

    Attributes:
        cpus: the n online CPUs, ascending.
        fields: k names in /proc/stat's order (`user`, `nice`, `system`, `idle`, `iowait`, `irq`,
            `softirq`, `steal`); guest time is included in user.
        ticks: uint64 (n, k), cumulative, in clock ticks.
        ticks_per_s: USER_HZ, for readers of recordings; ratios do not need it.
    """

    cpus: NDArray[np.int32]
    fields: tuple[str, ...]
    ticks: Counts
    ticks_per_s: int
    gaps: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """Details of one process. All texts are untrusted.

    Attributes:
        cpu: the selected CPU, on which one of its threads runs.
        command: command line, cut at 512 characters; "" if it has none, it can't be read, or the
            sample is from a recording.
        user: name of its real user, or the number of a user without a name.
        cgroup: path in the unified hierarchy; "" if unknown.
        nice_value: -20 to 19; None if unknown.
        started_s: start time in seconds since the epoch; None if unknown.
        name: its program.
        container: container, pod, virtual machine or unit, from its cgroup; "" if unknown.
        node_bytes: memory by NUMA node, of huge pages if it has any; empty if not read.
    """

    pid: int
    cpu: Cpu
    command: str
    user: str
    cgroup: str
    nice_value: int | None
    started_s: float | None
    name: str = ""
    container: str = ""
    node_bytes: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class ThreadTable:
    """Source `processes`: NF threads and all threads that may be pollers.

    Attributes:
        hidden: number of processes that could not be read for lack of privilege.
        scanned_at_ns: CLOCK_MONOTONIC of the last scan of /proc, which finds threads; rows are
            newer.
        facts: processes with threads on the selected CPU; empty if no CPU is selected.
        culprits: processes on CPUs of open incidents, without command lines.
        uses: what ran on these CPUs, the most first.
    """

    threads: tuple[ThreadRow, ...]
    hidden: int
    scanned_at_ns: int
    facts: tuple[ProcessFacts, ...] = ()
    culprits: tuple[ProcessFacts, ...] = ()
    uses: tuple[CpuUse, ...] = ()

    @property
    def gaps(self) -> str:
        """What could not be read, a text; "" if nothing."""
        hidden = counted(self.hidden, "process", "processes")
        return f"{hidden} can't be looked into; run as root" if self.hidden else ""


@dataclass(frozen=True, slots=True)
class DpdkLcore:
    """One EAL thread from telemetry (23.03 and later).

    Attributes:
        cpus: its cpuset.
        total_cycles, busy_cycles: cumulative TSC cycles, if the application registered them.
    """

    lcore: Lcore
    cpus: tuple[Cpu, ...]
    role: str
    total_cycles: int | None = None
    busy_cycles: int | None = None


@dataclass(frozen=True, slots=True)
class DpdkPort:
    """One ethdev port. Counters are cumulative; None if the driver has none.

    `rx_queue_packets[q]` is received by queue q; empty if the driver has no queue counters.
    `rx_queue_missed[q]`: dropped in queue q, by drivers that count so; empty if not reported.
    `link_bits_per_s`: as the driver reports it; None if unknown, or its link is down.
    `rx_errors`, `tx_errors`: packets that were invalid or could not be sent. `rx_nombuf`: failures
    to get a buffer for a received packet.
    `xstats`: all counters by name (untrusted text); empty unless they are wanted.
    `bond_member`: a bonding port counts its packets again; None if unknown.
    """

    port: int
    name: str
    rx_queues: int | None
    rx_packets: int | None
    tx_packets: int | None
    rx_missed: int | None
    rx_queue_packets: tuple[int, ...] = ()
    bond_member: bool | None = None
    rx_queue_missed: tuple[int, ...] = ()
    rx_bytes: int | None = None
    link_bits_per_s: int | None = None
    rx_errors: int | None = None
    tx_errors: int | None = None
    rx_nombuf: int | None = None
    xstats: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DpdkLatency:
    """What DPDK's latencystats measure, from reception to transmission, in ns.

    Attributes:
        mean_ns, jitter_ns: moving averages (0.2 and 1/16 of each packet that is timed).
        least_ns, most_ns: since the application started.
        read_at_ns: CLOCK_MONOTONIC of the reply, which is asked for seldom.
    """

    mean_ns: int
    least_ns: int
    most_ns: int
    jitter_ns: int
    read_at_ns: int


LATENCY_NOT_RECORDED = Missing(Reason.SOURCE, "the recording is older than nftop's reading of it")


@dataclass(frozen=True, slots=True)
class DpdkApp:
    """One DPDK application behind a telemetry socket.

    Attributes:
        pid, start_ticks: identity from the socket's peer; both 0 before the first connection.
        name: program name (untrusted text); prefix: EAL file prefix.
        socket: its path.
        problem: why it could not be polled, or None. Counters, `read_at_ns` and `took_ns` are then
            of the last successful poll: no ports and 0 if there was none.
        lcores: empty before DPDK 23.03 (`lcores_told` is then False).
        eal_params, app_params: its command line from telemetry.
        read_at_ns: CLOCK_MONOTONIC at the middle of this application's poll.
        owner: of the socket; None in older recordings.
        latency: of its latencystats, or why there is none.
    """

    pid: int
    start_ticks: int
    name: str
    prefix: str
    socket: str
    version: str
    problem: Missing | None
    ports: tuple[DpdkPort, ...]
    lcores: tuple[DpdkLcore, ...]
    lcores_told: bool
    eal_params: tuple[str, ...]
    app_params: tuple[str, ...]
    read_at_ns: int
    took_ns: int
    owner: Owner | None = None
    latency: DpdkLatency | Missing = LATENCY_NOT_RECORDED


@dataclass(frozen=True, slots=True)
class DpdkTable:
    """Source `dpdk`: all applications; `hidden`: sockets that nftop may not open."""

    apps: tuple[DpdkApp, ...]
    hidden: tuple[str, ...] = ()

    @property
    def gaps(self) -> str:
        """What could not be read, a text; "" if nothing."""
        return nf_gaps(self.hidden, self.apps)


@dataclass(frozen=True, slots=True)
class CounterUse:
    """Cumulative cost of counting.

    Attributes:
        reads: of counters or of groups read together.
        interrupts: of CPUs, to read, start or stop counters.
    """

    reads: int
    interrupts: int


@dataclass(frozen=True, slots=True)
class SelfUse:
    """Source `self`: nftop's own cost.

    Attributes:
        cpu_ns: cumulative CPU time of this process and of its helper processes.
        affinity: CPUs it may run on.
        counters: cost of counting by source.
        warning: what nftop may disturb there, a sentence; "" if nothing.
    """

    cpu_ns: int
    affinity: tuple[Cpu, ...]
    counters: Mapping[str, CounterUse] = field(default_factory=dict)
    warning: str = ""
    gaps: ClassVar[str] = ""
