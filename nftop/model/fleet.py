"""Many hosts at once: what Prometheus has of them, and the frame that is made of it.

All texts of labels are untrusted.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from nftop.model.incident import Severity
from nftop.model.missing import Missing, Reading
from nftop.model.struct import dataclass

HostState: TypeAlias = Literal["up", "down", "gone"]
# Metrics of network functions that a fleet's frame has; ids of the catalogue.
FLEET_METRICS = (
    "rx_packets_per_s",
    "tx_packets_per_s",
    "drop_packets_per_s",
    "cpp",
    "ipc",
    "room_ratio",
    "llc_misses_per_packet",
)


@dataclass(frozen=True, slots=True)
class FleetQuery:
    """An instant query.

    Attributes:
        text: PromQL.
        keys: by name of a series' family: the key of its part in a fleet's frame, and the factor
            from its unit to the catalogue's.
    """

    text: str
    keys: Mapping[str, tuple[str, float]]


class FleetLabels(msgspec.Struct, frozen=True, rename={"family": "__name__"}):
    """Labels of a series that a fleet's frame uses; "" where the series has none."""

    family: str = ""
    instance: str = ""
    badge: str = ""
    nf: str = ""
    kind: str = ""
    pid: str = ""
    twin: str = ""
    cpus: str = ""
    cpp_clock: str = ""
    saturated: str = ""
    group: str = ""
    host: str = ""
    model: str = ""
    version: str = ""
    rule: str = ""
    where: str = ""
    muted: str = ""
    id: str = ""
    culprit: str = ""
    container: str = ""
    victims: str = ""


@dataclass(frozen=True, slots=True)
class FleetSeries:
    """The value of one series: a finite number in the catalogue's unit."""

    labels: FleetLabels
    value: float


@dataclass(frozen=True, slots=True)
class FleetSample:
    """Answers to all queries, evaluated at one time.

    Attributes:
        wall_ns: of this host, when they had come. monotonic_ns: the same, CLOCK_MONOTONIC.
        evaluated_s: Unix time of the evaluation, by Prometheus' clock.
        took_s, size_bytes: of all requests.
        series: by key of `FleetQuery`.
        notes: Prometheus' warnings, and what of its answers is not used (untrusted texts).
    """

    wall_ns: int
    monotonic_ns: int
    evaluated_s: float
    took_s: float
    size_bytes: int
    series: Mapping[str, tuple[FleetSeries, ...]]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FleetHost:
    """A host, by Prometheus' name of its target.

    Attributes:
        name: its own; `instance` where it is not known.
        state: whether its scrapes succeed, or Prometheus has no such target any more.
        since_ns: CLOCK_MONOTONIC of this nftop's first frame with this state.
        age_s: age of its numbers when the frame was made, or why it is not known.
    """

    instance: str
    name: str
    state: HostState
    since_ns: int
    age_s: Reading
    badge: str = ""
    model: str = ""
    version: str = ""


@dataclass(frozen=True, slots=True)
class FleetNf:
    """A network function of a host.

    Attributes:
        readings: by id, those of FLEET_METRICS.
        cpp_clock, saturated: as `NfRow` has them.
        problem: why its counters are not current; None if they are.
        severity: worst of the open incidents that it is a victim of; None without one.
        events: titles of these incidents and of its findings, the worst first.
    """

    host: FleetHost
    name: str
    kind: str
    pid: str
    twin: str
    readings: Mapping[str, Reading]
    cpus: str = ""
    cpp_clock: str = ""
    saturated: bool | None = None
    group: str = ""
    problem: Missing | None = None
    severity: Severity | None = None
    events: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, ...]:
        """What identifies it in the fleet."""
        return (self.host.instance, self.name, self.kind, self.pid, self.twin)


@dataclass(frozen=True, slots=True)
class FleetVictim:
    """A network function that an incident harms, by the labels that identify it on its host."""

    name: str
    kind: str
    pid: str
    twin: str


@dataclass(frozen=True, slots=True)
class FleetIncident:
    """An open incident of a host that is not muted.

    Attributes:
        kind: a `CauseKind`, or another version's.
        culprit: "" if unknown. victims: the one that loses most first.
        since_s: Unix time of its begin; None if unknown.
        drops_per_s: packets that its victims drop.
    """

    host: FleetHost
    id: str
    severity: Severity
    kind: str
    culprit: str
    container: str
    group: str
    victims: tuple[FleetVictim, ...]
    since_s: float | None
    drops_per_s: Reading


@dataclass(frozen=True, slots=True)
class FleetFinding:
    """A finding of a host: a rule, and its subject."""

    host: FleetHost
    rule: str
    where: str
    muted: bool = False


@dataclass(frozen=True, slots=True)
class FleetFrame:
    """All hosts at one time.

    Attributes:
        evaluated_s, wall_ns, monotonic_ns, took_s, size_bytes: of the sample; `evaluated_s` is 0
            before the first, and NaN if Prometheus has no target of the job.
        hosts: by instance, ascending.
        nfs: by host and name.
        incidents: the worst first, of equal ones what drops most, then the newest.
        notes: see `FleetSample`, and of what is doubled or of no host.
        problem: why there is no newer sample; "" if this one is the newest.
    """

    wall_ns: int
    monotonic_ns: int
    evaluated_s: float = 0.0
    took_s: float = 0.0
    size_bytes: int = 0
    hosts: tuple[FleetHost, ...] = ()
    nfs: tuple[FleetNf, ...] = ()
    incidents: tuple[FleetIncident, ...] = ()
    findings: tuple[FleetFinding, ...] = ()
    notes: tuple[str, ...] = ()
    problem: str = ""
