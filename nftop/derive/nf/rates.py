"""Rates of a network function of any kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from nftop.derive.threads import ThreadRate
from nftop.model.frame import Clock, Direction
from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.nf.components import (
    NOT_REPORTED,
    ONLY_OVS,
    DeferredRows,
    NfDrop,
    NfFlowTables,
    NfNode,
    NfPort,
    NfQueue,
    NfXstat,
)
from nftop.model.nf.queue_map import QueueMap
from nftop.model.owner import Owner, rank
from nftop.model.rule_settings import name_on_cpus
from nftop.model.struct import dataclass, field, replace

_NOT_SEEN = Missing(
    Reason.SOURCE, "it names CPUs on which no thread of its process is seen to poll"
)
_HIDDEN = Missing(Reason.SOURCE, "its thread was not found")
NO_VECTORS = Missing(Reason.UNDEFINED, "it has no vectors of a fixed size: VPP has")
_DROPS_OF_ALL = Missing(
    Reason.SOURCE,
    "its NICs dropped packets, and which of its cores was to take them is not known: they are "
    "counted by port",
)


# Below this share of run time a thread shares its CPU.
WHOLE_RATIO = 0.95


@dataclass(frozen=True, slots=True)
class NfContext:
    """Data of the host for the folds of network functions.

    Attributes:
        threads: every watched thread of the host.
        queue_map: the operator's.
        tsc_hz: frequency of the host's time stamp counters.
    """

    threads: Sequence[ThreadRate]
    queue_map: QueueMap
    tsc_hz: Reading


@dataclass(frozen=True, slots=True)
class NfCore:
    """One polling core of an NF.

    Attributes:
        thread: its thread's name (untrusted text).
        packets_per_s: received; sent if the NF only generates.
        run_ratio, wait_ratio: its thread's.
        unpinned: why its cycles are not those of `cpu` (it may move), or None.
        busy_ratio: share of all time in which it worked, by the NF's own count.
        awake_busy_ratio: the same share of the time in which its thread did not sleep.
        nf_cycles_per_s: TSC cycles counted by the NF on this core, without sleep.
        missed_packets_per_s: dropped by NICs for want of descriptors in the queues it polls.
        vector_fill_ratio: packets per call of a graph node / the most that one call takes.
        poll_fill_ratio: the same of polls of its input, empty ones included; at most 1.
    """

    cpu: Cpu
    thread: str
    packets_per_s: Reading
    run_ratio: Reading
    wait_ratio: Reading
    busy_ratio: Reading
    awake_busy_ratio: Reading
    nf_cycles_per_s: Reading
    unpinned: Missing | None = None
    missed_packets_per_s: Reading = NOT_REPORTED
    vector_fill_ratio: Reading = NO_VECTORS
    poll_fill_ratio: Reading = NO_VECTORS

    def busy_of(self, clock: Clock | None) -> Reading:
        """Share of the cycles of `clock` spent on work; only the TSC advances during sleep."""
        return self.busy_ratio if clock == "tsc" else self.awake_busy_ratio


@dataclass(frozen=True, slots=True)
class NfRates:
    """One NF's rates over `interval_s` of its own clock. Fields as in `model.frame.NfRow`.

    `prefix`: its EAL prefix, as in the queue map, or "". `packets_per_s`: divisor of its CPP,
    received or sent by `direction`. `uncounted`: why `cores` are not all its pollers, or None.
    `readings`: by metric id, those that only its kind has.
    """

    key: str
    name: str
    prefix: str
    kind: str
    pid: int
    interval_s: float | None
    attribution: str
    problem: Missing | None
    rx_packets_per_s: Reading
    tx_packets_per_s: Reading
    missed_packets_per_s: Reading
    packets_per_s: Reading
    direction: Direction
    cores: tuple[NfCore, ...]
    uncounted: Missing | None
    ports: tuple[NfPort, ...] | Missing = NOT_REPORTED
    queues: Sequence[NfQueue] | Missing = NOT_REPORTED
    nodes: Sequence[NfNode] | Missing = NOT_REPORTED
    flow_tables: Sequence[NfFlowTables] | Missing = ONLY_OVS
    drops: Sequence[NfDrop] | Missing = NOT_REPORTED
    xstats: Sequence[NfXstat] = ()
    readings: Mapping[str, Reading] = field(default_factory=dict)
    owner: Owner | None = None
    sampled_s: Mapping[str, float] = field(default_factory=dict)


def shares(rate: ThreadRate | None) -> tuple[Reading, Reading]:
    """A thread's run and wait shares, or reasons if it was not found."""
    return (_HIDDEN, _HIDDEN) if rate is None else (rate.run_ratio, rate.wait_ratio)


def where_it_runs(rate: ThreadRate) -> Cpu:
    """The CPU to which a thread is bound or, if it may move, on which it ran last."""
    return rate.thread.last_cpu if rate.cpu is None else rate.cpu


def awake_or_asleep(rate: ThreadRate | None) -> Reading:
    """Share of time in which a thread that may sleep ran or slept voluntarily."""
    run, wait = shares(rate)
    return run if isinstance(wait, Missing) else 1.0 - wait


def of_its_own_time(busy: Reading, own: Reading) -> Reading:
    """The NF's busy ratio without the time in which its thread was off its CPU.

    It counts by the TSC, so such time looks like work. `own`: the share of time that was its
    thread's.
    """
    if isinstance(busy, Missing) or isinstance(own, Missing) or own >= WHOLE_RATIO:
        return busy
    return Missing(
        Reason.SOURCE,
        f"its thread had its CPU {own:.0%} of the time, and the NF counts the rest as work too",
    )


def not_bound(thread: str, allowed: Sequence[Cpu]) -> Missing | None:
    """Why a thread's cycles are not those of one CPU, or None."""
    if len(allowed) == 1:
        return None
    where = f"may run on CPU {format_cpu_list(allowed)}" if allowed else "may move"
    return Missing(Reason.SOURCE, f"{thread} polls but {where}, so its cycles are unknown: pin it")


def qualified(name: str, of: str, *, usual: str) -> str:
    """A program's name, with `of` unless that is the usual value."""
    return name if of in ("", usual) else f"{of}/{name}"


def with_distinct_names(nfs: Sequence[NfRates]) -> tuple[NfRates, ...]:
    """The NFs with their CPUs in the names of those that have the same name.

    Two applications in containers, or with --in-memory, have one prefix; an application that is
    started anew has the same CPUs, but not the same process or socket. Those that have no CPU of
    their own are named by their process.
    """
    count = Counter(nf.name for nf in nfs)
    named = [nf if count[nf.name] == 1 else replace(nf, name=_name_on_cpus(nf)) for nf in nfs]
    again = Counter(nf.name for nf in named)
    return tuple(
        nf if again[nf.name] == 1 else replace(nf, name=f"{nf.name}#{nf.pid}") for nf in named
    )


def _name_on_cpus(nf: NfRates) -> str:
    cpus = sorted({core.cpu for core in nf.cores})
    return name_on_cpus(nf.name, cpus) if cpus else f"{nf.name}#{nf.pid}"


def folder(path: str) -> str:
    return path.rstrip("/").rpartition("/")[2]


def with_seen_cores(nf: NfRates, threads: Sequence[ThreadRate]) -> NfRates:
    """An unprivileged network function with only the cores on which a thread of its process polls.

    It can report any CPU as its own, which would attribute cycles of another network function to
    it.
    """
    if rank(nf.owner) == 0:
        return nf
    seen = {where_it_runs(rate) for rate in threads if rate.thread.pid == nf.pid and rate.polls}
    cores = tuple(core for core in nf.cores if core.cpu in seen)
    if len(cores) == len(nf.cores):
        return nf
    return replace(nf, cores=cores, uncounted=nf.uncounted or _NOT_SEEN)


def without_duplicates(nfs: Sequence[NfRates]) -> tuple[NfRates, ...]:
    """The NFs without the DPDK applications of OVS and VPP: each process once.

    Such an application has no pollers, but drops of its NIC, which are passed on.
    """
    frameworks = {nf.pid for nf in nfs if nf.kind != "dpdk" and nf.pid}
    duplicates = {nf.pid: nf for nf in nfs if nf.kind == "dpdk" and nf.pid in frameworks}

    def whole(nf: NfRates) -> NfRates:
        duplicate = duplicates.get(nf.pid)
        if duplicate is None:
            return nf
        counts_missed = not isinstance(nf.missed_packets_per_s, Missing)
        if not counts_missed:
            nf = _with_ports(nf, duplicate)
        return _with_losses(nf, duplicate, counts_missed=counts_missed)

    return tuple(whole(nf) for nf in nfs if duplicates.get(nf.pid) is not nf)


def drops_of_core(of_all: Reading, cores: int, unknown: Missing = _DROPS_OF_ALL) -> Reading:
    """Drops of one of so many polling cores, by those of all of them.

    Those of a single core are all; of several each has none if there are none, else `unknown`.
    """
    return of_all if isinstance(of_all, Missing) or cores == 1 or of_all == 0 else unknown


def _with_losses(nf: NfRates, duplicate: NfRates, *, counts_missed: bool) -> NfRates:
    """The NF with what only its DPDK knows: losses of ports, drivers' counters.

    An NF that `counts_missed` packets of its ports itself has their other losses, too.
    """
    of_ports = () if isinstance(duplicate.drops, Missing) or counts_missed else duplicate.drops
    own = () if isinstance(nf.drops, Missing) else nf.drops
    return replace(
        nf,
        drops=(*own, *of_ports) or nf.drops,
        xstats=DeferredRows(lambda: (*nf.xstats, *duplicate.xstats)),
        readings={**duplicate.readings, **nf.readings},
        sampled_s=duplicate.sampled_s,
    )


def _with_ports(nf: NfRates, duplicate: NfRates) -> NfRates:
    """The NF with its DPDK ports and their drops, which its own statistics do not have."""
    drops = duplicate.missed_packets_per_s
    own = drops_of_core(drops, len(nf.cores))
    cores = tuple(replace(core, missed_packets_per_s=own) for core in nf.cores)
    queues = nf.queues
    if not isinstance(queues, Missing):
        of_queue = drops_of_core(drops, len(queues))
        queues = tuple(replace(queue, missed_packets_per_s=of_queue) for queue in queues)
    ports = duplicate.ports if isinstance(nf.ports, Missing) else nf.ports
    return replace(nf, missed_packets_per_s=drops, cores=cores, queues=queues, ports=ports)
