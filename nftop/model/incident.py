"""Incidents: findings that belong together, with their culprit, their victims and their price."""

from __future__ import annotations

from enum import IntEnum
from typing import Literal, TypeAlias

from nftop.model.ids import Cpu
from nftop.model.reading import Missing, Reading, Reason
from nftop.model.struct import dataclass, field

PartyKind: TypeAlias = Literal["process", "class", "nf", "cpu", "device", "package", "host"]

_NOT_COUNTED = Missing(Reason.SOURCE)


class Severity(IntEnum):
    """How much an incident harms."""

    INFO = 0  # normal for this load, or it explains a number
    WARN = 1  # degraded; no packet is lost
    BAD = 2  # packets are lost, or an NF's throughput collapsed


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
        change: of `metric`, `after / before - 1`: of packets sent or CPP; a reason if unknown.
        before: the metric when the incident began. now: at this tick.
    """

    party: Party
    metric: str
    before: Reading
    now: Reading
    change: Reading


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
class Incident:
    """Findings with the same cause.

    Attributes:
        id: the same from its first tick to its end, in a replay too.
        severity: the highest it has had.
        title: what the culprit does, in few words, without its name (untrusted text).
        culprit: None if unknown.
        since_ns: wall time at which its first finding began.
        until_ns: wall time of its end; None while it is open.
        worst: the price at its worst tick. worst_ns: wall time of that tick.
        dropped: packets dropped since it began.
        findings: rules and subjects that are its evidence, `(Finding.rule, Finding.where)`.
        evidence: texts of these findings at their worst (untrusted text).
    """

    id: str
    severity: Severity
    title: str
    culprit: Party | None
    victims: tuple[Victim, ...]
    price: Price
    since_ns: int
    until_ns: int | None = None
    worst: Price = field(default_factory=Price)
    worst_ns: int = 0
    dropped: Reading = _NOT_COUNTED
    findings: tuple[tuple[str, str], ...] = ()
    evidence: tuple[str, ...] = ()
