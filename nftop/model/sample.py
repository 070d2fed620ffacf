"""A sample: what the sources read at one tick, raw, before any arithmetic.

Everything here is cumulative or a state; rates and ratios are `derive`'s. Samples are what a
recording keeps, so the fields are numbers, texts, tuples and numpy arrays only.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Generic, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from nftop.model.ids import Cpu, Lcore, format_cpu_list
from nftop.model.owner import Owner
from nftop.model.reading import Missing
from nftop.model.struct import dataclass, field

SCHEMA = "nftop.sample/1"

Counts: TypeAlias = NDArray[np.uint64]
T = TypeVar("T")


class NfProcess(Protocol):
    """What every network function's own table of counters has."""

    @property
    def name(self) -> str:
        """Program name (untrusted text)."""

    @property
    def problem(self) -> Missing | None:
        """Why its counters are not current; None when they are."""


def nf_gaps(hidden: Iterable[str], processes: Iterable[NfProcess]) -> str:
    """What of some network functions could not be seen or asked, in words; "" when all could."""
    failing = [
        f"{process.name}: {process.problem.message}" for process in processes if process.problem
    ]
    return "; ".join((*hidden, *failing))


def event_gaps(absent: Iterable[tuple[str, str]], details: Mapping[str, Mapping[int, str]]) -> str:
    """Which events are absent, where (" on CPU 3", "" for everywhere), and why, in words."""
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
    """What one source gave.

    Attributes:
        value: its payload (one of the tables below), or why there is none.
        read_at_ns: CLOCK_MONOTONIC at the middle of the read.
        took_ns: how long the read took.
    """

    value: T | Missing
    read_at_ns: int
    took_ns: int


@dataclass(frozen=True, slots=True)
class Sample:
    """One tick.

    `interval_ns` is the pace asked for, whatever time has really passed. `readings` is keyed by
    source name; a source that has not answered keeps the reading it gave last, with its own
    `read_at_ns`, so its age shows.
    """

    wall_ns: int
    monotonic_ns: int
    interval_ns: int
    readings: Mapping[str, SourceReading[Any]]
    schema: str = SCHEMA


@dataclass(frozen=True, slots=True, eq=False)
class CounterTable:
    """Source `perf`: the counter groups of every CPU, which share its counters by taking turns.

    A column is one event in one group. An event may be in several, as cycles are, by which the
    others are judged; it then has a column in each, which counts while that group runs.

    Attributes:
        cpus: the n CPUs read, ascending.
        events: k names (`cycles`, `instructions`, `ref_cycles`, `tsc`, `context_switches`).
        group: int32 (k,), the group of each column, 0..g-1.
        values: uint64 (n, k), cumulative and unscaled; 0 where `reasons` says absent.
        reasons: uint8 (n, k), `Reason` per CPU and column.
        enabled_ns, running_ns: uint64 (n, g), the time since the CPU's groups were opened in which
            any of them was to run, and how much of it each group was on the hardware. So their
            quotient is the share of the time in which a group counted, whoever let it take turns:
            nftop, or the kernel because another program shares the counters, or both. Equal for a
            group that has the counters to itself. Rates divide by the delta of `running_ns`.
        details: for what is absent, the sentence by event (or metric of a formula) and `Reason`.
        extras: events whose absence is no gap: others do as well, or no counter was spare.
        turns: how many groups beside the first take turns tick by tick, so that each has run once
            in as many ticks; 0 where all run within every tick. On the CPUs of `focus`, as many as
            that says.
        focus: of one core's CPUs, all this and what is counted of that core only, because somebody
            looks at it; in groups and columns of its own. None where nobody does.
        formulas: by metric id, its formula over `events` in the notation of `uarch/grammar`, where
            the source itself knows how; empty where the CPU's table does.
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
        """Which events are absent, where, and why, in words; "" when none is, `extras` aside.

        An event is there if one group counts it.
        """
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
            `softirq`, `steal`); guest time is already within user.
        ticks: uint64 (n, k), cumulative, in clock ticks.
        ticks_per_s: USER_HZ. Ratios need none; it is what makes seconds of the ticks for who has
            nothing but the recording.
    """

    cpus: NDArray[np.int32]
    fields: tuple[str, ...]
    ticks: Counts
    ticks_per_s: int
    gaps: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class ThreadRow:
    """One thread worth watching.

    Attributes:
        start_ticks: the thread's start time in clock ticks since boot: with tid it is an identity.
        comm: the thread's own name; program: its process' name. Untrusted text.
        role: what its name says it is: a role of `model.nf.kinds`, `qemu_vcpu`, or "".
        role_index: the number in that name (lcore id, worker index), None where there is none.
        allowed: the CPUs it may run on. last_cpu: where it ran last.
        run_ns: cumulative time on a CPU; to a clock tick where the kernel keeps no schedstat.
        wait_ns: cumulative time waiting for one; None where the kernel keeps no schedstat.
        voluntary, involuntary: cumulative context switches.
        container: True when its mount namespace is not ours; None where that can't be read.
        read_at_ns: CLOCK_MONOTONIC when run_ns and wait_ns were read: the clock of their rates.
        vm: what the virtual machine is called that its process runs (untrusted text); "" where it
            runs none or nothing tells.
    """

    pid: int
    tid: int
    start_ticks: int
    comm: str
    program: str
    role: str
    role_index: int | None
    allowed: tuple[Cpu, ...]
    last_cpu: Cpu
    run_ns: int
    wait_ns: int | None
    voluntary: int
    involuntary: int
    container: bool | None
    read_at_ns: int
    vm: str = ""

    @property
    def label(self) -> str:
        """What the thread is called on the screen: its name, or whose virtual CPU it is."""
        if self.role != "qemu_vcpu" or not self.vm:
            return self.comm
        return f"{self.vm} vCPU {self.role_index}"


@dataclass(frozen=True, slots=True)
class ProcessFacts:
    """What an operator looks up about one process. All texts are untrusted.

    Attributes:
        cpu: the CPU it was described for: one of its threads runs there.
        command: its command line, cut at 512 characters; "" if it has none, it can't be read, or
            the sample is of a recording.
        user: name of its real user, or the number of a user without a name.
        cgroup: its path in the unified hierarchy; "" if unknown.
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
class CpuUse:
    """What one process ran on a CPU between two scans of /proc.

    Attributes:
        name: its program, or the kernel thread (untrusted text).
        run_ns: run time of its threads that were last on this CPU.
        over_ns: time between the scans.
    """

    cpu: Cpu
    pid: int
    name: str
    run_ns: int
    over_ns: int


@dataclass(frozen=True, slots=True)
class ThreadTable:
    """Source `processes`: NF threads and every thread that looks like a poller.

    Attributes:
        hidden: how many processes could not be looked into for want of privilege.
        scanned_at_ns: CLOCK_MONOTONIC of the last scan of all of /proc: which threads there are
            is as of then, what they did as of each row's own time.
        facts: of the processes with threads on the selected CPU; empty if no CPU is selected.
        culprits: facts of processes on CPUs that open incidents are about, without command lines.
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
        """What could not be seen, in words; "" when nothing is."""
        return f"{self.hidden} processes can't be looked into; run as root" if self.hidden else ""


@dataclass(frozen=True, slots=True)
class DpdkLcore:
    """One EAL thread as telemetry tells it (23.03 and later).

    Attributes:
        cpus: its cpuset.
        total_cycles, busy_cycles: cumulative TSC cycles, where the application registered them.
    """

    lcore: Lcore
    cpus: tuple[Cpu, ...]
    role: str
    total_cycles: int | None = None
    busy_cycles: int | None = None


@dataclass(frozen=True, slots=True)
class DpdkPort:
    """One ethdev port. Counters are cumulative; None where the driver does not give them.

    `rx_queue_packets[q]` is what queue q received; empty where the driver has no queue counters.
    `bond_member` is whether it is one of a bonding port's, which counts its packets again; None
    where the application does not tell.
    """

    port: int
    name: str
    rx_queues: int | None
    rx_packets: int | None
    tx_packets: int | None
    rx_missed: int | None
    rx_queue_packets: tuple[int, ...] = ()
    bond_member: bool | None = None


@dataclass(frozen=True, slots=True)
class DpdkApp:
    """One DPDK application behind a telemetry socket.

    Attributes:
        pid, start_ticks: its identity, from the socket's peer; both 0 before the first connection.
        name: program name (untrusted text); prefix: the EAL file prefix.
        socket: the path it was found at.
        problem: why it could not be polled; None when all is well. The counters, `read_at_ns` and
            `took_ns` are then of the last poll that worked: no ports and 0 if none ever did.
        lcores: empty before DPDK 23.03 (`lcores_told` is then False).
        eal_params, app_params: its command line as telemetry gives it.
        read_at_ns: CLOCK_MONOTONIC at the middle of this application's poll.
        owner: whose it is; None in recordings that do not have it.
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


@dataclass(frozen=True, slots=True)
class DpdkTable:
    """Source `dpdk`: every application found; `hidden` says which sockets we may not open."""

    apps: tuple[DpdkApp, ...]
    hidden: tuple[str, ...] = ()

    @property
    def gaps(self) -> str:
        """What could not be seen, in words; "" when nothing is."""
        return nf_gaps(self.hidden, self.apps)


@dataclass(frozen=True, slots=True)
class CounterUse:
    """What counting has cost, cumulative.

    Attributes:
        reads: of counters, or of groups of them that are read together.
        interrupts: of CPUs, to read, start or stop them.
    """

    reads: int
    interrupts: int


@dataclass(frozen=True, slots=True)
class SelfUse:
    """Source `self`: what nftop costs.

    Attributes:
        cpu_ns: cumulative CPU time of this process, all threads, and of those that read for it.
        affinity: the CPUs it may run on.
        counters: by source that counts, what that has cost.
        warning: what running there may disturb, a sentence; "" when nothing.
    """

    cpu_ns: int
    affinity: tuple[Cpu, ...]
    counters: Mapping[str, CounterUse] = field(default_factory=dict)
    warning: str = ""
    gaps: ClassVar[str] = ""
