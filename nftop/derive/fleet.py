"""Series of a Prometheus into the frame of a fleet: hosts, network functions, incidents, findings.

Values of a network function are joined by its target and its labels nf, kind, pid and twin. Two
series with the same of these are of two targets that only other labels tell apart, or of one whose
labels changed while Prometheus could not see the end of the former: a note says so. The query has
those of the newest scrape only; of others the first counts in every family. A host that is down
has no series: Prometheus may still answer with those of before.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from nftop.derive.findings.registry import rule_called
from nftop.model.fleet import (
    FLEET_METRICS,
    FleetFinding,
    FleetFrame,
    FleetHost,
    FleetIncident,
    FleetLabels,
    FleetNf,
    FleetSample,
    FleetSeries,
    FleetVictim,
    HostState,
)
from nftop.model.incident import CAUSE_TITLES, Severity
from nftop.model.missing import Missing, Reading, Reason, number_or
from nftop.model.struct import dataclass, field, replace

# A target that Prometheus has not any more stays in the frame for so long.
GONE_FOR_NS = 900_000_000_000
# A host's clock may be so much ahead of Prometheus' before the age of its numbers is unknown.
_SKEW_S = 5.0
# Series of one host in an answer, characters of a list in a label, titles at a network function.
_MOST_OF_HOST, _LONGEST_TEXT, _MOST_TITLES = 4096, 4096, 64
_CPU_SPAN = re.compile(r"(?:^|,)(\d{1,5})(?:-(\d{1,5}))?(?=,|$)")
_ABSENT = Missing(Reason.SOURCE, "nftop of this host has no number for it")
_DOWN = Missing(Reason.STALE, "its scrape fails")
_GONE = Missing(Reason.STALE, "Prometheus has no such target any more")
_NO_TIME = Missing(Reason.SOURCE, "its numbers have no time")
_AHEAD = Missing(Reason.ERROR, "its clock is ahead of Prometheus' clock")
_OUTDATED = Missing(Reason.STALE, "its counters are not current")

_FLAGS: Mapping[str, bool] = {"true": True, "false": False}

_SEVERITIES: Mapping[float, Severity] = {float(item): item for item in Severity}

# Labels instance, nf, kind, pid, twin.
_NfKey: TypeAlias = tuple[str, str, str, str, str]
_K = TypeVar("_K")


@dataclass(frozen=True, slots=True)
class KnownHost:
    """A target that was listed before; `seen_ns`: when Prometheus listed it last."""

    state: HostState
    since_ns: int
    seen_ns: int
    name: str


@dataclass(frozen=True, slots=True)
class FleetState:
    """Targets so far, by instance."""

    hosts: Mapping[str, KnownHost] = field(default_factory=dict)


def step(state: FleetState, sample: FleetSample) -> tuple[FleetState, FleetFrame]:
    """The next state, and the frame of a sample."""
    doubled: Counter[str] = Counter()
    sample = _of_hosts_up(sample, doubled)
    hosts, known = _hosts(state, sample, doubled)
    hosts = _with_unique_names(hosts)
    incidents = _incidents(hosts, sample, doubled)
    findings = _findings(hosts, sample, doubled)
    nfs = _nfs(hosts, sample, incidents, findings, doubled)
    notes = [*sample.notes]
    if doubled:
        worst = ", ".join(sorted(doubled)[:3])
        more = f" and {len(doubled) - 3} more" if len(doubled) > 3 else ""
        count = doubled.total()
        notes.append(
            f"{count} series {'is' if count == 1 else 'are'} doubled (instance {worst}{more}): two "
            "targets differ in labels other than instance, or Prometheus or nftop serve ended "
            "without a trace in the last 5 min; the newest scrape counts"
        )
    frame = FleetFrame(
        wall_ns=sample.wall_ns,
        monotonic_ns=sample.monotonic_ns,
        evaluated_s=sample.evaluated_s,
        took_s=sample.took_s,
        size_bytes=sample.size_bytes,
        hosts=tuple(hosts.values()),
        nfs=nfs,
        incidents=incidents,
        findings=findings,
        notes=tuple(notes),
    )
    return FleetState(known), frame


def _of_hosts_up(sample: FleetSample, doubled: Counter[str]) -> FleetSample:
    """The sample with one `up` of each instance, a bounded number of series of it if it is up."""
    ups = tuple(_first_by(sample.series.get("up", ()), _instance, doubled).values())
    for row in sample.series.get("targets", ()):
        doubled[row.labels.instance] += max(0, int(row.value) - 1)
    down = {row.labels.instance for row in ups if row.value != 1.0}
    counts: Counter[tuple[str, str]] = Counter()

    def is_kept(key: str, instance: str) -> bool:
        counts[key, instance] += 1
        return instance not in down and counts[key, instance] <= _MOST_OF_HOST

    series = {
        key: tuple(row for row in rows if is_kept(key, row.labels.instance))
        for key, rows in sample.series.items()
    }
    notes = (
        f"{count - _MOST_OF_HOST} series ({key}) of instance {instance} are left out"
        for (key, instance), count in counts.items()
        if count > _MOST_OF_HOST and instance not in down
    )
    return replace(sample, series={**series, "up": ups}, notes=(*sample.notes, *notes))


def _first_by(
    rows: Iterable[FleetSeries], key_of: Callable[[FleetLabels], _K], doubled: Counter[str]
) -> dict[_K, FleetSeries]:
    """The first series of each key; others are counted in `doubled`, by instance."""
    result: dict[_K, FleetSeries] = {}
    for row in rows:
        if result.setdefault(key_of(row.labels), row) is not row:
            doubled[row.labels.instance] += 1
    return result


def _instance(labels: FleetLabels) -> str:
    return labels.instance


def _incident_key(labels: FleetLabels) -> tuple[str, str]:
    return (labels.instance, labels.id)


def _nf_key(labels: FleetLabels) -> _NfKey:
    return (labels.instance, labels.nf, labels.kind, labels.pid, labels.twin)


def _hosts(
    state: FleetState, sample: FleetSample, doubled: Counter[str]
) -> tuple[dict[str, FleetHost], dict[str, KnownHost]]:
    """Targets by instance, ascending, those that are gone for a while included."""
    now_ns, series = sample.monotonic_ns, sample.series
    ups = _first_by(series.get("up", ()), _instance, doubled)
    infos = _first_by(series.get("host", ()), _instance, doubled)
    times = _first_by(series.get("time", ()), _instance, doubled)
    hosts: dict[str, FleetHost] = {}
    known: dict[str, KnownHost] = {}
    for instance in sorted({*ups, *infos, *state.hosts}):
        before = state.hosts.get(instance)
        present = instance in ups or instance in infos
        if not present and before is not None and now_ns - before.seen_ns > GONE_FOR_NS:
            continue
        up = instance not in ups or ups[instance].value == 1.0
        status: HostState = "gone" if not present else "up" if up else "down"
        info = infos[instance].labels if instance in infos else FleetLabels()
        name = info.host or ("" if before is None else before.name) or instance
        unchanged = before is not None and before.state == status
        since_ns = before.since_ns if before is not None and unchanged else now_ns
        seen_ns = now_ns if present or before is None else before.seen_ns
        known[instance] = KnownHost(status, since_ns, seen_ns, name)
        age = {"down": _DOWN, "gone": _GONE}.get(status) or _age(times.get(instance), sample)
        hosts[instance] = FleetHost(
            instance, name, status, since_ns, age, info.badge, info.model, info.version
        )
    return hosts, known


def _with_unique_names(hosts: Mapping[str, FleetHost]) -> dict[str, FleetHost]:
    """Hosts that share a name are called by their instances."""
    names = Counter(host.name for host in hosts.values())
    return {
        instance: host if names[host.name] == 1 else replace(host, name=instance)
        for instance, host in hosts.items()
    }


def _age(time: FleetSeries | None, sample: FleetSample) -> Reading:
    """Seconds from a host's readings to the evaluation."""
    if time is None or math.isnan(sample.evaluated_s):
        return _NO_TIME
    age_s = sample.evaluated_s - time.value
    return _AHEAD if age_s < -_SKEW_S else max(age_s, 0.0)


def _incidents(
    hosts: Mapping[str, FleetHost], sample: FleetSample, doubled: Counter[str]
) -> tuple[FleetIncident, ...]:
    """Open incidents that are not muted, the worst first; of equal ones what drops most."""
    series = {
        name: _first_by(sample.series.get(name, ()), _incident_key, doubled)
        for name in ("incident", "severity", "begin", "drops")
    }
    victims = _victims(sample, doubled)

    def value(name: str, key: tuple[str, str]) -> float | None:
        return series[name][key].value if key in series[name] else None

    result = []
    for key, row in series["incident"].items():
        labels, drops = row.labels, value("drops", key)
        if labels.instance not in hosts or labels.muted == "true":
            continue
        # Their order in this label is by their losses; a name may have ", " in it.
        known, names = victims.get(key, []), (text := labels.victims[:_LONGEST_TEXT]).split(", ")
        order = names.index if {item.name for item in known} <= {*names} else text.find
        known = sorted(known, key=lambda item: order(item.name))
        result.append(
            FleetIncident(
                host=hosts[labels.instance],
                id=labels.id,
                severity=_severity(value("severity", key)),
                kind=labels.kind,
                culprit=labels.culprit,
                container=labels.container,
                group=labels.group,
                victims=tuple(known),
                since_s=value("begin", key),
                drops_per_s=_ABSENT if drops is None else drops,
            )
        )
    return tuple(sorted(result, key=_harm_of_incident))


def _victims(
    sample: FleetSample, doubled: Counter[str]
) -> dict[tuple[str, str], list[FleetVictim]]:
    """Victims by instance and id of the incident."""
    rows = _first_by(
        sample.series.get("victim", ()), lambda of: (*_incident_key(of), *_nf_key(of)), doubled
    )
    result: dict[tuple[str, str], list[FleetVictim]] = {}
    for labels in (row.labels for row in rows.values()):
        victim = FleetVictim(labels.nf, labels.kind, labels.pid, labels.twin)
        result.setdefault(_incident_key(labels), []).append(victim)
    return result


def _severity(value: float | None) -> Severity:
    """Of a series; a warning if it has none, or another version's."""
    return Severity.WARN if value is None else _SEVERITIES.get(value, Severity.WARN)


def _harm_of_incident(item: FleetIncident) -> tuple[float, float, float, str, str]:
    drops = number_or(item.drops_per_s, 0.0)
    return (-item.severity, -drops, -(item.since_s or 0.0), item.host.instance, item.id)


def _findings(
    hosts: Mapping[str, FleetHost], sample: FleetSample, doubled: Counter[str]
) -> tuple[FleetFinding, ...]:
    """Findings by the rank of their rule; those of rules that this version lacks last."""
    series = _first_by(
        sample.series.get("finding", ()),
        lambda of: (of.instance, of.rule, of.where, of.muted, of.twin),
        doubled,
    )
    rows = [
        FleetFinding(hosts[of.instance], of.rule, of.where, of.muted == "true")
        for of, value in ((row.labels, row.value) for row in series.values())
        if of.instance in hosts and value == 1.0
    ]
    return tuple(sorted(rows, key=lambda item: (_rank(item.rule), item.host.instance, item.where)))


def _rank(rule_id: str) -> float:
    rule = rule_called(rule_id)
    return math.inf if rule is None else rule.rank


def finding_title(rule_id: str) -> str:
    """Subject of a rule; its id if this version lacks it (untrusted text)."""
    rule = rule_called(rule_id)
    return rule_id if rule is None else rule.title


def cause_title(kind: str) -> str:
    """Title of a kind of incident; the kind itself if this version lacks it (untrusted text)."""
    return CAUSE_TITLES.get(kind, kind)


def _nfs(
    hosts: Mapping[str, FleetHost],
    sample: FleetSample,
    incidents: Sequence[FleetIncident],
    findings: Sequence[FleetFinding],
    doubled: Counter[str],
) -> tuple[FleetNf, ...]:
    """Network functions by host and name."""

    def series(name: str) -> dict[_NfKey, FleetSeries]:
        return _first_by(sample.series.get(name, ()), _nf_key, doubled)

    infos = series("nf")
    columns = {name: series(name) for name in FLEET_METRICS}
    current = series("nf_up")
    of_host = _events(incidents, findings)
    rows = []
    for key in sorted(infos):
        labels = infos[key].labels
        if (host := hosts.get(labels.instance)) is None:
            continue
        problem = _OUTDATED if key in current and current[key].value != 1.0 else None
        severity, events = (
            of_host[host.instance].of(labels) if host.instance in of_host else (None, ())
        )
        rows.append(
            FleetNf(
                host,
                labels.nf,
                labels.kind,
                labels.pid,
                labels.twin,
                {
                    name: column[key].value if key in column else _ABSENT
                    for name, column in columns.items()
                },
                labels.cpus,
                labels.cpp_clock,
                _FLAGS.get(labels.saturated),
                labels.group,
                problem,
                severity,
                events,
            )
        )
    return tuple(rows)


@dataclass(frozen=True, slots=True)
class _HostEvents:
    """Incidents of a host by victim; by title of its findings, the NFs and bits of CPUs."""

    incidents: dict[FleetVictim, list[FleetIncident]] = field(default_factory=dict)
    findings: dict[str, tuple[set[str], int]] = field(default_factory=dict)

    def of(self, labels: FleetLabels) -> tuple[Severity | None, tuple[str, ...]]:
        """Worst severity, and titles, of what concerns a network function."""
        mine = self.incidents.get(FleetVictim(labels.nf, labels.kind, labels.pid, labels.twin), [])
        own = _bits(labels.cpus)
        titles = [cause_title(item.kind) for item in mine]
        titles += [
            title for title, (nfs, cpus) in self.findings.items() if labels.nf in nfs or own & cpus
        ]
        worst = max((item.severity for item in mine), default=None)
        return worst, tuple(dict.fromkeys(titles))[:_MOST_TITLES]


def _events(
    incidents: Sequence[FleetIncident], findings: Sequence[FleetFinding]
) -> dict[str, _HostEvents]:
    result: dict[str, _HostEvents] = {}
    for item in incidents:
        of_host = result.setdefault(item.host.instance, _HostEvents())
        for victim in item.victims:  # each once
            of_host.incidents.setdefault(victim, []).append(item)
    for finding in findings:
        kind, _, subject = finding.where.partition(" ")
        if not finding.muted and kind in ("nf", "cpu"):
            of_host = result.setdefault(finding.host.instance, _HostEvents())
            title = finding_title(finding.rule)
            nfs, cpus = of_host.findings.get(title, (set[str](), 0))
            nfs.update([subject] if kind == "nf" else [])
            of_host.findings[title] = nfs, cpus | (_bits(subject) if kind == "cpu" else 0)
    return result


def _bits(cpus: str) -> int:
    """CPUs of a list as bits of a number; none if it is longer than any host's.

    `parse_cpu_list` takes a step for each CPU: too long for thousands of hostile lists of all.
    """
    bits = 0
    for first, last in _CPU_SPAN.findall(cpus if len(cpus) <= _LONGEST_TEXT else ""):
        bits |= ((1 << max(int(last or first) + 1 - int(first), 0)) - 1) << int(first)
    return bits
