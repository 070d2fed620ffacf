"""Incidents: findings that belong together, with their culprit, their victims and their price."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Literal, TypeAlias

from nftop.model.clock import NS_PER_S
from nftop.model.ids import Cpu, L3Domain
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.struct import dataclass, field

PartyKind: TypeAlias = Literal["process", "class", "nf", "cpu", "device", "package", "host"]

_NOT_COUNTED = Missing(Reason.SOURCE)


class Severity(IntEnum):
    """How much an incident harms."""

    INFO = 0  # normal for this load, or it explains a number
    WARN = 1  # degraded; no packet is lost
    BAD = 2  # packets are lost, or an NF's throughput collapsed


# What causes incidents; the first part of an incident's id.
CauseKind: TypeAlias = Literal[
    "gone",  # a network function is not here any more
    "hung",  # a network function does not answer, and its pollers do not run
    "cpu",  # a poller waits for its CPU
    "neighbour",  # memory traffic streams through shared cache ways
    "throttled",  # a core or a package is too hot and runs slower
    "clock",  # pollers run on slower cores than there are
    "sibling",  # another program runs on the hyper-thread sibling
    "remote",  # memory of another package is used
    "ddio",  # writes of devices miss the cache
    "channels",  # memory channels are used unevenly
    "registers",  # many accesses of device registers
    "descriptors",  # devices write parts of cache lines
    "load",  # more packets arrive than its cores can take
    "flows",  # more flows arrive than OVS' caches hold
    "stopped",  # packets stopped arriving
    "nf",  # the network function itself, or a cause that is not known
    "host",  # of the measurement
]

# What each is, without its numbers: where an incident is known by its kind alone.
CAUSE_TITLES: Mapping[str, str] = {
    "gone": "network function is gone",
    "hung": "network function hangs",
    "cpu": "poller waits for its CPU",
    "neighbour": "noisy neighbour in the cache",
    "throttled": "too hot, runs slower",
    "clock": "pollers on slower cores",
    "sibling": "busy hyper-thread sibling",
    "remote": "memory of another socket",
    "ddio": "device writes miss the cache",
    "channels": "uneven memory channels",
    "registers": "many device register accesses",
    "descriptors": "partial writes of devices",
    "load": "more packets than its cores take",
    "flows": "more flows than its caches hold",
    "stopped": "packets stopped arriving",
    "nf": "own cost or losses",
    "host": "measurement is in doubt",
}


@dataclass(frozen=True, slots=True)
class Party:
    """Culprit or victim of an incident.

    Attributes:
        name: process, class, NF or device (untrusted text).
        key: `NfRow.key` of an NF; "" of others.
        cpus: where it runs.
        group: its cache class (untrusted text); "" if unknown.
        pid: its process; None if it is none or unknown.
        user: owner of the process (untrusted text); "" if unknown.
        container: container, pod or unit of the process, from its cgroup (untrusted text); "".
    """

    kind: PartyKind
    name: str
    key: str = ""
    cpus: tuple[Cpu, ...] = ()
    group: str = ""
    pid: int | None = None
    user: str = ""
    container: str = ""


@dataclass(frozen=True, slots=True)
class Victim:
    """What an incident harms.

    Attributes:
        metric: catalogue id, scope `nf`: packets sent, or CPP.
        change: of `metric`, `now / before - 1`; a reason if unknown.
        before: the metric when the incident began. now: at this tick.
        drops_per_s: packets that it loses per second.
        cpp_before, cpp_now: its cycles per packet, of work only where it counts these.
        cost: catalogue id of these two, `busy_cpp` or `cpp`.
        bounds: whether each of the two is an upper bound: empty polls are in it.
    """

    party: Party
    metric: str
    before: Reading
    now: Reading
    change: Reading
    drops_per_s: Reading = _NOT_COUNTED
    cpp_before: Reading = _NOT_COUNTED
    cpp_now: Reading = _NOT_COUNTED
    cost: str = "cpp"
    bounds: tuple[bool, bool] = (False, False)


@dataclass(frozen=True, slots=True)
class Uncounted:
    """Drops that the total of an incident lacks.

    Attributes:
        name: of the victim (untrusted text).
        seconds: time in which it did not count them; None: it never does.
        why: message of the reason (untrusted text).
    """

    name: str
    seconds: float | None
    why: str


@dataclass(frozen=True, slots=True)
class VictimTrace:
    """Throughput of a victim around the onset of an incident, and since, of bounded size.

    Attributes:
        key: `NfRow.key`.
        first_ns: wall time at which `onset` begins. began_ns: CLOCK_MONOTONIC of it.
        onset_step_s: seconds of each value of `onset`. step_s: of `since`, which follows it.
        sent: packets sent; else received.
        onset, since: mean packets per second, oldest first; None where unknown.
        count: numbers in the last mean.
    """

    key: str
    first_ns: int
    onset_step_s: float
    step_s: float = 1.0
    sent: bool = True
    onset: tuple[float | None, ...] = ()
    since: tuple[float | None, ...] = ()
    count: int = 0
    began_ns: int = 0


@dataclass(frozen=True, slots=True)
class Price:
    """What an incident costs, at one tick.

    Attributes:
        drops_per_s: packets that the victims lose per second.
        lost_packets_per_s: packets that they send less per second than before it.
    """

    drops_per_s: Reading = _NOT_COUNTED
    lost_packets_per_s: Reading = _NOT_COUNTED


@dataclass(frozen=True, slots=True)
class EvidenceLink:
    """One step of the chain from cause to harm.

    Attributes:
        wall_ns: when it began or happened.
        text: its numbers (untrusted text).
        source: what measured it: a metric's id or a source.
        value_ns: when its numbers were measured, where that is later; else 0.
        current: `Finding.current`, at the last tick at which the incident was open.
        key: what it is of, over ticks.
    """

    wall_ns: int
    step: Literal["change", "cause", "effect"]
    text: str
    source: str
    value_ns: int = 0
    current: str = ""
    key: str = ""

    @property
    def valued_ns(self) -> int | None:
        """When its numbers were measured, if that is a second or more after it began."""
        return self.value_ns if self.value_ns - self.wall_ns >= NS_PER_S else None


@dataclass(frozen=True, slots=True)
class RuledOut:
    """Another possible cause, and whether its numbers exclude it.

    Attributes:
        excluded: None if its numbers are not known.
        text: the numbers (untrusted text).
    """

    name: str
    excluded: bool | None
    text: str


@dataclass(frozen=True, slots=True)
class Incident:
    """Findings with the same cause.

    Attributes:
        id: the same from its first tick to its end, in a replay too; letters, digits, `-`.
        kind: its cause.
        severity: the highest it has had.
        title: what the culprit does, in few words, without its name (untrusted text).
        culprit: None if unknown.
        likely: the culprit is the most probable of several; `basis` says why.
        basis: how the culprit was determined (untrusted text); "" if it is in the findings.
        since_ns: wall time at which its first finding began. is_bound: or before it, as of
            `Finding`.
        until_ns: wall time of its end; None while it is open.
        began_ns, ended_ns: CLOCK_MONOTONIC of these two, by which ages are computed: the wall clock
            may be set.
        worst: the price at its worst tick. worst_ns: wall time of that tick; where no packet is
            lost, of that at which its cause was farthest beyond its limit.
        cost: what its cause takes from its victims by itself, as time or local memory; "" if its
            effects alone say that.
        dropped: packets dropped since it began, at least. uncounted: what this lacks.
        counted_from_ns: wall time from which `dropped` counts, if it may have begun before; else 0.
        findings: rules and subjects that are its evidence, `(Finding.rule, Finding.where)`.
        evidence: texts of these findings at the last tick that had them; once it ended, of each at
            its worst tick (untrusted text). title, victims, chain: likewise.
        chain: causes and effects in their order of time.
        ruled_out: other causes that were checked, ruled out or not.
        muted: the operator muted every rule that shows its cause or a loss.
        acknowledged: the operator has seen it.
        group, l3: cache class and cache of the culprit, where these are known; else "", None.
        traces: throughput of its first victims.
        watch: CPUs whose processes explain it. memory: those whose processes' memory does.
    """

    id: str
    severity: Severity
    title: str
    culprit: Party | None
    victims: tuple[Victim, ...]
    price: Price
    since_ns: int
    until_ns: int | None = None
    kind: CauseKind = "nf"
    likely: bool = False
    basis: str = ""
    worst: Price = field(default_factory=Price)
    worst_ns: int = 0
    dropped: Reading = _NOT_COUNTED
    uncounted: tuple[Uncounted, ...] = ()
    cost: str = ""
    findings: tuple[tuple[str, str], ...] = ()
    evidence: tuple[str, ...] = ()
    chain: tuple[EvidenceLink, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    muted: bool = False
    acknowledged: bool = False
    group: str = ""
    l3: L3Domain | None = None
    watch: tuple[Cpu, ...] = ()
    memory: tuple[Cpu, ...] = ()
    traces: tuple[VictimTrace, ...] = ()
    began_ns: int = 0
    ended_ns: int | None = None
    is_bound: bool = False
    counted_from_ns: int = 0

    @property
    def is_dropped_bound(self) -> bool:
        """Whether more packets may have been dropped than `dropped`."""
        return bool(self.uncounted or self.counted_from_ns)

    def lasted_s(self, now_ns: int) -> float:
        """Seconds from its begin to its end, or to CLOCK_MONOTONIC `now_ns` while it is open."""
        return ((now_ns if self.ended_ns is None else self.ended_ns) - self.began_ns) / 1e9
