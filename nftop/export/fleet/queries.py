"""PromQL of what `nftop serve` exports, of one scrape job; queries of the fleet screen."""

from __future__ import annotations

import json

from nftop.export.openmetrics import writer as families
from nftop.export.openmetrics.writer import MetricFamily
from nftop.model.fleet import FLEET_METRICS, FleetQuery

_UP = MetricFamily("up", "1: the last scrape of this target succeeded.")
# Families that are asked for together, by the key of their part in a fleet's frame.
_TOGETHER: tuple[dict[str, MetricFamily], ...] = (
    {"up": _UP},
    {"host": families.HOST, "time": families.TIME},
    {
        "finding": families.FINDING,
        "incident": families.INCIDENT,
        "victim": families.INCIDENT_VICTIM,
        "severity": families.INCIDENT_SEVERITY,
        "begin": families.INCIDENT_BEGIN,
        "drops": families.INCIDENT_DROPS,
    },
    {"nf": families.NF, "nf_up": families.NF_UP},
)


def selector(family: str, job: str, matchers: str = "") -> str:
    """Series of a family, `job` and further matchers: `nftop_nf_up{job="nftop",nf="vpp"}`."""
    # A JSON text is a PromQL text, but for characters as two escapes.
    quoted = json.dumps(job, ensure_ascii=False)
    return f"{family}{{job={quoted}{',' if matchers else ''}{matchers}}}"


def fleet_queries(job: str) -> tuple[FleetQuery, ...]:
    """Instant queries for all hosts of a scrape job, the first for the state of its targets.

    A query for each metric: an answer stays small enough to be parsed while the screen draws.
    """
    alone = tuple({name: families.OF_NFS[name]} for name in FLEET_METRICS)
    return tuple(_query(group, job) for group in (*_TOGETHER, *alone))


def _query(group: dict[str, MetricFamily], job: str) -> FleetQuery:
    keys = {of.sample: (key, 1.0 / of.factor) for key, of in group.items()}
    if len(keys) == 1:
        return FleetQuery(selector(next(iter(keys)), job), keys)
    return FleetQuery(selector("", job, f'__name__=~"{"|".join(keys)}"'), keys)
