"""A Grafana dashboard with a panel for each metric of the catalogue that `nftop serve` exports.

Format: Grafana's dashboard JSON model (grafana.com/docs/grafana/latest/dashboards, "JSON model"),
schema version 39, which Grafana 11 reads as it is and later ones convert.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias
from zlib import crc32

from nftop.export.openmetrics import writer as families
from nftop.export.openmetrics.writer import MetricFamily
from nftop.model.metrics.catalogue import ALL_PACKAGE_METRICS, CPU_METRICS
from nftop.model.metrics.device import DEVICE_METRICS
from nftop.model.metrics.group import GROUP_METRICS
from nftop.model.metrics.metric import Metric, Unit
from nftop.model.metrics.nf import NF_METRICS
from nftop.model.metrics.ports import DROP_COMPONENTS, OTHER_LOSSES

Json: TypeAlias = dict[str, Any]

_SCHEMA_VERSION = 39
_WIDTH, _HEIGHT, _ACROSS = 8, 7, 3  # of a panel, in the 24 columns of Grafana's grid
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
_HOSTS = 'job="$job",instance=~"$instance"'
# Grafana's names of units; where it has none, nftop's own is the name of the axis.
_UNITS: Mapping[Unit, str] = {
    Unit.RATIO: "percentunit",
    Unit.CHANGE: "percentunit",
    Unit.PACKETS_PER_S: "pps",
    Unit.REQUESTS_PER_S: "reqps",
    Unit.BYTES_PER_S: "Bps",
    Unit.BYTES: "bytes",
    Unit.WATTS: "watt",
    Unit.JOULES: "watt",  # as a rate
    Unit.HZ: "hertz",
    Unit.DEGREES_C: "celsius",
    Unit.NS: "s",  # as the exporter writes them
}


class _Table(NamedTuple):
    """A row of panels: one table of the exporter.

    Attributes:
        labels: of its samples, which the legend shows.
        chosen: matchers by variables of the dashboard.
    """

    title: str
    metrics: Sequence[Metric]
    families: Mapping[str, MetricFamily]
    labels: tuple[str, ...]
    chosen: str = ""


_TABLES = (
    _Table("Network functions", NF_METRICS, families.OF_NFS, ("nf",), ',nf=~"$nf"'),
    _Table("Cache classes", GROUP_METRICS, families.OF_GROUPS, ("group", "l3")),
    _Table("Processors", ALL_PACKAGE_METRICS, families.OF_PACKAGES, ("package",)),
    _Table("Network devices", DEVICE_METRICS, families.OF_DEVICES, ("device",)),
    _Table("CPUs", CPU_METRICS, families.OF_CPUS, ("cpu", "nf"), ',nf=~"$nf",cpu=~"$cpu"'),
)


def dashboard(job: str) -> str:
    """The dashboard as JSON, for the scrape job of this name."""
    rows = [_row("Now", _now(), collapsed=False)]
    rows += [
        _row(
            table.title, map(_panel, [table] * len(table.metrics), table.metrics), collapsed=at > 0
        )
        for at, table in enumerate(_TABLES)
    ]
    return (
        json.dumps(
            {
                "title": "nftop" if job == "nftop" else f"nftop: {job}",
                # An import replaces the dashboard of the same uid: one for each job.
                "uid": "nftop" if job == "nftop" else f"nftop-{crc32(job.encode()):08x}",
                "tags": ["nftop"],
                "schemaVersion": _SCHEMA_VERSION,
                "refresh": "30s",
                "time": {"from": "now-1h", "to": "now"},
                "templating": {"list": list(_variables(job))},
                "panels": _with_positions(rows),
            },
            indent=1,
        )
        + "\n"
    )


def _variables(job: str) -> Iterator[Json]:
    yield {"name": "datasource", "type": "datasource", "query": "prometheus"}
    yield {
        "name": "job",
        "type": "textbox",
        "query": job,
        "current": {"text": job, "value": job},
    }
    hosts = f'{families.HOST.sample}{{job="$job"}}'
    yield _choice("instance", f"label_values({hosts}, instance)")
    # CPUs that poll for no network function have no such label, which .* matches.
    yield _choice("nf", f"label_values({families.NF.sample}{{{_HOSTS}}}, nf)")
    yield _choice("cpu", f"label_values({families.CPU.sample}{{{_HOSTS},nf=~'$nf'}}, cpu)")


def _choice(name: str, query: str) -> Json:
    """A variable: several of the label's values, at first all."""
    return {
        "name": name,
        "type": "query",
        "query": query,
        "datasource": _SOURCE,
        "refresh": 2,
        "sort": 7,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _now() -> Iterator[Json]:
    """What is wrong, on all hosts."""
    for title, family, description in (
        ("Findings", families.FINDING, families.FINDING.help),
        ("Incidents", families.INCIDENT, families.INCIDENT.help),
        ("Absent numbers", families.MISSING, families.MISSING.help),
    ):
        expr = f"{family.sample}{{{_HOSTS}}}"
        yield {
            "type": "table",
            "title": title,
            "description": description,
            "datasource": _SOURCE,
            "targets": [_target(expr, "") | {"format": "table", "instant": True}],
            "fieldConfig": {"defaults": {}, "overrides": []},
        }


def _panel(table: _Table, metric: Metric) -> Json:
    family = table.families[metric.id]
    expr = f"{family.sample}{{{_HOSTS}{table.chosen}}}"
    if family.kind == "counter":
        expr = f"rate({expr}[$__rate_interval])"
    packets = metric.unit is Unit.PER_S and metric.id in (
        "drop_packets_per_s",
        *DROP_COMPONENTS,
        *OTHER_LOSSES,
    )
    unit = "pps" if packets else _UNITS.get(metric.unit)
    defaults: Json = {"unit": unit} if unit else {"custom": {"axisLabel": metric.unit.value}}
    legend = " ".join(f"{{{{{name}}}}}" for name in ("instance", *table.labels, "badge"))
    return {
        "type": "timeseries",
        "title": family.name.removeprefix("nftop_").replace("_", " "),
        "description": family.help,
        "datasource": _SOURCE,
        "targets": [_target(expr, legend)],
        "fieldConfig": {"defaults": defaults, "overrides": []},
    }


def _target(expr: str, legend: str) -> Json:
    return {"refId": "A", "expr": expr, "legendFormat": legend, "datasource": _SOURCE}


def _row(title: str, panels: Iterable[Json], *, collapsed: bool) -> Json:
    return {"type": "row", "title": title, "collapsed": collapsed, "panels": list(panels)}


def _with_positions(rows: list[Json]) -> list[Json]:
    """Panels with an id and a place; those of a row that is open stand behind it, not in it."""
    result: list[Json] = []
    line = number = 0
    for row in rows:
        number += 1
        row |= {"id": number, "gridPos": {"h": 1, "w": 24, "x": 0, "y": line}}
        result.append(row)
        line += 1
        panels = row["panels"]
        for at, panel in enumerate(panels):
            down, across = divmod(at, _ACROSS)
            position = {"h": _HEIGHT, "w": _WIDTH, "x": across * _WIDTH, "y": line + down * _HEIGHT}
            panel |= {"id": number + at + 1, "gridPos": position}
        number += len(panels)
        if not row["collapsed"]:
            row["panels"] = []
            result += panels
            line += -(-len(panels) // _ACROSS) * _HEIGHT
    return result
