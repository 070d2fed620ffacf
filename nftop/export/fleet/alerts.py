"""Prometheus alerting rules: one for each rule of findings, and three about nftop itself.

A host decides what is a finding, by its own limits and their durations, and exports it; an alert
only passes it on. Format: prometheus.io/docs/prometheus/latest/configuration/alerting_rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

from nftop.derive.findings.rule import Rule
from nftop.export.fleet.queries import selector
from nftop.export.openmetrics import writer as families
from nftop.model.incident import Severity

# A finding that comes back within this time is the same alert.
_KEPT = "1m"


class Alert(NamedTuple):
    """One alerting rule.

    Attributes:
        wait: for how long `expr` must be true, as Prometheus writes a duration.
        summary, description: templates of Prometheus.
    """

    name: str
    expr: str
    wait: str
    severity: Literal["critical", "warning", "info"]
    summary: str
    description: str


def alerts(rules: Sequence[Rule], job: str) -> str:
    """A rule file of Prometheus, as YAML, for the scrape job of this name."""
    lines = ["groups:", "  - name: nftop", "    rules:"]
    for alert in (*_of_nftop(job), *(_of_rule(rule, job) for rule in rules)):
        lines += _written(alert)
    return "\n".join(lines) + "\n"


def alert_name(rule_id: str) -> str:
    """Name of the alert of a rule: `noisy-neighbour` is NftopNoisyNeighbour."""
    return "Nftop" + "".join(word.capitalize() for word in re.split(r"\W+", rule_id))


def _of_rule(rule: Rule, job: str) -> Alert:
    finding = selector(families.FINDING.sample, job, f'rule="{rule.id}",muted=""')
    return Alert(
        alert_name(rule.id),
        f"{finding} == 1",
        "0s",
        "info" if rule.is_note else "warning",
        _headline(f"{rule.title}: {{{{ $labels.where }}}}"),
        f"See `nftop explain {rule.id}`; live: `ssh HOST sudo nftop`.",
    )


def _of_nftop(job: str) -> Iterator[Alert]:
    yield Alert(
        "NftopDown",
        f"{selector('up', job)} == 0",
        "1m",
        "warning",
        "{{ $labels.instance }}: nftop serve does not answer, or its frames stopped",
        "See `systemctl status nftop-serve` and `nftop doctor` on the host.",
    )
    # A source that is not on the host, or that its hardware lacks, is no failure.
    lacking = selector(families.SOURCE.sample, job, 'state=~"source|hardware"')
    yield Alert(
        "NftopSourceFails",
        f"{selector(families.SOURCE_UP.sample, job)} == 0 unless on (instance, source) {lacking}",
        "1m",
        "warning",
        _headline("no numbers from {{ $labels.source }}"),
        "See `nftop doctor` on the host.",
    )
    muted = selector(families.INCIDENT.sample, job, 'muted="true"')
    yield Alert(
        "NftopPacketsLost",
        f"{selector(families.INCIDENT_SEVERITY.sample, job)} == {Severity.BAD:d} "
        f"unless on (instance, id) {muted}",
        "0s",
        "critical",
        _headline(_LOSSES, _HOST),
        "Live: `ssh HOST sudo nftop`.",
    )


# Templates of a summary: a query, since a join in an alert's expression may fail and hide it.
_HOST = (
    f"{{{{ with printf `{families.HOST.sample}{{instance=%q}}` $labels.instance | query }}}}"
    '{{ . | first | label "host" }}{{ else }}{{ $labels.instance }}{{ end }}'
)
_LOSSES = (
    f"{{{{ with printf `{families.INCIDENT.sample}{{instance=%q,id=%q}}` "
    "$labels.instance $labels.id | query }}{{ with . | first }}"
    "{{ .Labels.victims }} loses packets{{ with .Labels.culprit }}, culprit {{ . }}{{ end }}"
    "{{ end }}{{ else }}packets are lost{{ end }}"
)


def _headline(text: str, host: str = "{{ $labels.instance }}") -> str:
    badge = "{{ with $labels.badge }}{{ . }}: {{ end }}"
    return f"{badge}{host}: {text}"


def _written(alert: Alert) -> Iterator[str]:
    yield f"      - alert: {alert.name}"
    yield f"        expr: {_quoted(alert.expr)}"
    yield f"        for: {alert.wait}"
    yield f"        keep_firing_for: {_KEPT}"
    yield f"        labels: {{severity: {alert.severity}}}"
    yield "        annotations:"
    yield f"          summary: {_quoted(alert.summary)}"
    yield f"          description: {_quoted(alert.description)}"


def _quoted(text: str) -> str:
    """A line of text as a YAML string."""
    return "'" + text.replace("'", "''") + "'"
