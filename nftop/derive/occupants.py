"""The pollers of each CPU, and their share of its cycles.

A poller that has its CPU for less than `WHOLE_RATIO` of the time shares the CPU's counts with
other threads. Per-thread counters would separate them, but the kernel reprograms these at each
context switch, on the polling core; so cycles are divided by run time instead. That is sound for
cycles, which a CPU counts at nearly the same rate whatever it runs, but not for instructions, cache
misses and top-down slots.

The time of which a share is taken depends on the clock:

- `tsc` counts all time, including halts and time stolen by the hypervisor;
- `core` counts neither (Intel SDM volume 3, CPU_CLK_UNHALTED.THREAD);
- `nf`, the network function's own sum of TSC differences, excludes only the thread's sleep.

Run time is the kernel's sum_exec_runtime, which excludes stolen time only with
CONFIG_PARAVIRT_TIME_ACCOUNTING; either way no thread ran for longer than 1 - steal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from nftop.derive.cpu.counters import COUNTERS, tsc_hz
from nftop.derive.cpu.time import TICKS
from nftop.derive.fold_stage import FoldStage, FoldTick, stateless
from nftop.derive.nf.kinds import step_nfs
from nftop.derive.nf.rates import WHOLE_RATIO, NfContext, NfCore, NfRates
from nftop.derive.nf.registry import NfMemory
from nftop.derive.threads import THREADS, ThreadRate
from nftop.model.column import Column
from nftop.model.frame import BY_RUN, Clock
from nftop.model.missing import Missing, Reading, Reason, number_or
from nftop.model.nf.kinds import NF_KINDS
from nftop.model.sample import Sample
from nftop.model.struct import dataclass, field
from nftop.model.topology import Topology

# The timer tick samples the busy time of /proc/stat (except with VIRT_CPU_ACCOUNTING_GEN). It shows
# other threads if it exceeds the threads' own time by this many standard deviations of the
# sampling: sqrt(u (1 - u) / n) for a busy share u of n ticks.
_DEVIATIONS = 3.0
_NEVER_RAN = Missing(Reason.UNDEFINED, "its thread did not run in this interval")


@dataclass(frozen=True, slots=True)
class OwnTime:
    """Shares of an interval on one CPU, 0 to 1.

    Attributes:
        run: the threads were on the CPU, without stolen time.
        awake: they ran or were ready to run; equals `run` if the kernel keeps no wait time.
        unhalted: the CPU ran anything, at least `run`.
        is_sampled: the kernel's busy time exceeds `run` beyond `WHOLE_RATIO`, but within its
            sampling error: that no other thread ran is an estimate.
    """

    run: float
    awake: float
    unhalted: float
    is_sampled: bool = False

    @property
    def has_all_counts(self) -> bool:
        """Whether all events counted on the CPU are the threads' own."""
        return self.run >= WHOLE_RATIO * self.unhalted

    def share_of(self, clock: Clock) -> float:
        """The threads' share of the cycles of `clock`; 1 from `WHOLE_RATIO` on."""
        counted = {"tsc": 1.0, "nf": self.awake}.get(clock, self.unhalted)
        return 1.0 if self.run >= WHOLE_RATIO * counted else self.run / counted

    def shared(self, other: str) -> Missing | None:
        """Why instructions, misses and top-down are not the threads' own; None if they are.

        `other` describes another poller known to run there, or is empty.
        """
        if self.has_all_counts:
            return None
        return Missing(
            Reason.SOURCE,
            f"{other or 'other threads ran'} on this CPU too, and its counts are of all that ran "
            f"there (RUN {self.run:.0%})",
        )


def own_time(
    cores: Sequence[NfCore], cpu_time: Reading, steal: Reading, ticks: Reading
) -> OwnTime | None:
    """The time of one CPU that its polling threads had together; None if a RUN is unknown.

    Args:
        cores: one per polling thread of the CPU; may be empty.
        cpu_time: share of time the CPU was not idle (/proc/stat), including stolen time.
        steal: share of time stolen by the hypervisor.
        ticks: number of USER_HZ ticks by which `cpu_time` was sampled.
    """
    runs = [core.run_ratio for core in cores]
    known = [run for run in runs if not isinstance(run, Missing)]
    if not runs or len(known) < len(runs):
        return None
    stolen = number_or(steal, 0.0)
    run = min(sum(known), 1.0 - stolen)
    waits = [number_or(core.wait_ratio, 0.0) for core in cores]
    awake = max([run, *(own + wait for own, wait in zip(known, waits, strict=True))])
    # A thread that stays awake waits through stolen time, in which no core cycle is counted.
    unhalted = max(run, awake - stolen)
    is_sampled = False
    if not isinstance(cpu_time, Missing):
        busy = cpu_time - stolen
        if busy > unhalted + _sampling_error(unhalted, ticks):
            unhalted = busy
        else:
            is_sampled = busy > run / WHOLE_RATIO
    return OwnTime(run, min(awake, 1.0), min(unhalted, 1.0), is_sampled)


def _sampling_error(share: float, ticks: Reading) -> float:
    """Largest plausible excess of the busy share counted by /proc/stat over the true `share`."""
    if isinstance(ticks, Missing) or ticks < 1:
        return 1.0
    share = min(max(share, 0.0), 1.0)
    # A count is of whole ticks at either end.
    return _DEVIATIONS * math.sqrt(share * (1.0 - share) / ticks) + 1.0 / ticks


def own_cycles(cycles: Reading, clock: Clock | None, own: OwnTime | None) -> Reading:
    """The threads' part of a CPU's cycles per second; all of them (an upper bound) without RUN."""
    if own is None or clock is None or isinstance(cycles, Missing):
        return cycles
    return cycles * own.share_of(clock) if own.run > 0 else _NEVER_RAN


def own_clock(clock: Clock | None, own: OwnTime | None) -> Clock | None:
    """The clock of `own_cycles`: `clock`, or its `_by_run` variant if estimated from run time."""
    if own is None or clock is None:
        return clock
    is_measured = own.share_of(clock) == 1.0 and not (clock == "core" and own.is_sampled)
    return clock if is_measured else BY_RUN[clock]


@dataclass(slots=True)
class Occupant:
    """The pollers of one CPU: cores of network functions, and other polling threads."""

    cores: list[tuple[NfRates, NfCore]] = field(default_factory=list)
    other_threads: list[ThreadRate] = field(default_factory=list)

    @property
    def thread(self) -> str:
        """The first poller's thread name and the number of further pollers."""
        names = [core.thread for _, core in self.cores]
        names += [rate.thread.label for rate in self.other_threads]
        return f"{names[0]} +{len(names) - 1}" if len(names) > 1 else names[0]

    @property
    def nf(self) -> tuple[str, int] | None:
        """Name and pid of the first network function; None if only other programs spin."""
        known = [(nf.name, nf.pid) for nf, _ in self.cores] or [
            (rate.thread.program, rate.thread.pid)
            for rate in self.other_threads
            if rate.thread.role in NF_KINDS
        ]
        return known[0] if known else None

    @property
    def forwards(self) -> bool:
        return self.nf is not None

    def other_than(self, nf: NfRates | None = None) -> str:
        """Describes the first poller besides all NFs, or besides `nf`; "" without one."""
        for other, _ in self.cores:
            if nf is not None and other.key != nf.key:
                return f"{other.name} (pid {other.pid}) polls"
        if not self.other_threads:
            return ""
        thread = self.other_threads[0].thread
        does = "polls" if thread.role in NF_KINDS else "spins"
        return f"{thread.label} (pid {thread.pid}) {does}"

    def uncounted(self, own: OwnTime | None, nf: NfRates | None = None) -> Missing | None:
        """Why the CPU's cycles can't be attributed to its NFs, or to `nf`; None if they can.

        `own` is their time on this CPU, None if unknown.
        """
        moves = next((core.unpinned for _, core in self.cores if core.unpinned is not None), None)
        other = self.other_than(nf) if self.cores and own is None else ""
        if moves is not None or not other:
            return moves
        return Missing(Reason.SOURCE, f"{other} on this CPU too, and takes part of its cycles")

    def shared(self, own: OwnTime | None, nf: NfRates | None = None) -> Missing | None:
        """Why instructions and misses counted here are not those of its NFs, or `nf`, alone."""
        return None if own is None else own.shared(self.other_than(nf))

    @property
    def others(self) -> tuple[str, ...]:
        """Describes every poller but the thread of the NF that `nf` names (untrusted text).

        Threads of network functions poll; of other programs only kernel times are known: they
        spin. A thread reported by two sources counts once.
        """
        cores = {
            (nf.pid, core.thread): f"{_pid_text(nf.pid)}{nf.name} polling"
            for nf, core in self.cores
        }
        texts = list(cores.values())[1:]
        other_threads = self.other_threads
        if not self.cores:
            first = next((item for item in other_threads if item.thread.role in NF_KINDS), None)
            other_threads = [item for item in other_threads if item is not first]
        for rate in other_threads:
            does = "polling" if rate.thread.role in NF_KINDS else "spinning"
            texts.append(f"{_pid_text(rate.thread.pid)}{rate.thread.label} {does}")
        return tuple(texts)


def _pid_text(pid: int) -> str:
    return f"pid {pid} " if pid else ""


def own_times(
    pollers: Mapping[int, Occupant],
    times: Mapping[str, Column],
    nf: NfRates | None = None,
    of_all_nfs: Mapping[int, OwnTime | None] = MappingProxyType({}),
) -> dict[int, OwnTime | None]:
    """By row, the time that the NFs there, or `nf`, had of their CPU.

    `times` has the columns of `cpu.time`. `of_all_nfs`: the result for all, if it is known; it is
    that of `nf` too where no other NF polls.
    """
    result = {}
    for row, occupant in pollers.items():
        cores = [core for item, core in occupant.cores if nf is None or item.key == nf.key]
        if row in of_all_nfs and len(cores) == len(occupant.cores):
            result[row] = of_all_nfs[row]
        else:
            busy, steal = times["cpu_time_ratio"][row], times["steal_ratio"][row]
            result[row] = own_time(cores, busy, steal, times[TICKS][row])
    return result


@dataclass(frozen=True, slots=True)
class Cycles:
    """Cycles per second of every CPU by its best clock, and those of the TSC."""

    per_s: Column
    clock: tuple[Clock | None, ...]
    tsc_per_s: Column

    def by_tsc(self) -> Cycles:
        return Cycles(self.tsc_per_s, tuple("tsc" for _ in self.clock), self.tsc_per_s)


def occupants(
    topology: Topology, nfs: Sequence[NfRates], threads: Sequence[ThreadRate]
) -> Mapping[int, Occupant]:
    """Pollers by row of the topology; rows without pollers are absent."""
    by_row: dict[int, Occupant] = {}
    for nf in nfs:
        for core in nf.cores:
            row = topology.row_of.get(core.cpu)
            if row is not None:
                by_row.setdefault(row, Occupant()).cores.append((nf, core))
    for rate in threads:
        if not rate.polls or rate.cpu is None:
            continue
        row = topology.row_of.get(rate.cpu)
        if row is None:
            continue
        known = by_row.get(row)
        if known is None or rate.thread.pid not in {nf.pid for nf, _ in known.cores}:
            by_row.setdefault(row, Occupant()).other_threads.append(rate)
    return by_row


def unattached(rate: ThreadRate, sample: Sample, nfs: Sequence[NfRates]) -> Missing:
    """Why the packets of a poller are unknown, by the source of its kind."""
    kind = NF_KINDS.get(rate.thread.role)
    reading = sample.readings.get(kind) if kind is not None else None
    if kind is None:
        return Missing(Reason.UNDEFINED, "what polls here is no network function that nftop knows")
    if reading is None:
        return Missing(Reason.SOURCE, f"nftop does not read {kind} statistics here")
    if isinstance(reading.value, Missing):
        return reading.value
    why = _of_its_process(rate, nfs)
    if why is None and reading.value.hidden:
        texts = f"{_subject(rate)}: needs root", *reading.value.hidden
        why = Missing(Reason.PERMISSION, "; ".join(texts))
    return why or Missing(Reason.SOURCE, "it polls, but no statistics of it were found")


def unread(
    sample: Sample, nfs: Sequence[NfRates], threads: Sequence[ThreadRate]
) -> Mapping[str, Missing]:
    """By source, why none of its network functions is read though one polls: it needs root."""
    closed: dict[str, dict[str, None]] = {}
    for rate in threads:
        kind = NF_KINDS.get(rate.thread.role)
        if kind is not None and rate.polls and all(nf.kind != kind for nf in nfs):
            reading = sample.readings.get(kind)
            if reading and not isinstance(reading.value, Missing) and reading.value.hidden:
                closed.setdefault(kind, {})[_subject(rate)] = None
    return {
        kind: Missing(Reason.PERMISSION, f"{', '.join(subjects)}: needs root")
        for kind, subjects in closed.items()
    }


def _subject(rate: ThreadRate) -> str:
    return f"{rate.thread.program}, pid {rate.thread.pid}"


def _of_its_process(rate: ThreadRate, nfs: Sequence[NfRates]) -> Missing | None:
    """Why a poller of a known process has no packets, or None."""
    known = next((nf for nf in nfs if nf.pid == rate.thread.pid), None)
    if known is None or known.problem is not None:
        return None if known is None else known.problem
    if rate.thread.role == "vpp_main":
        return Missing(Reason.IDLE, f"{known.name}'s main thread: only its workers receive")
    return None


def _run(
    state: Mapping[str, NfMemory], tick: FoldTick
) -> tuple[Mapping[str, NfMemory], tuple[NfRates, ...]]:
    context = NfContext(tick.output(THREADS), tick.queue_map, tsc_hz(tick.output(COUNTERS)))
    return step_nfs(state, tick.sample.readings, context)


NFS: FoldStage[Mapping[str, NfMemory], Sequence[NfRates]] = FoldStage("nfs", dict, _run)
POLLERS = stateless(
    "pollers", lambda tick: occupants(tick.topology, tick.output(NFS), tick.output(THREADS))
)
OWN_TIMES = stateless("own_times", lambda tick: own_times(tick.output(POLLERS), tick.columns))
OTHER_POLLERS: FoldStage[None, Mapping[int, Sequence[str]]] = stateless(
    "other_pollers", lambda tick: {row: one.others for row, one in tick.output(POLLERS).items()}
)
