"""PromQL of what `nftop serve` exports, of one scrape job; queries of the fleet screen."""

from __future__ import annotations

import json

from nftop.export.openmetrics import writer as families
from nftop.export.openmetrics.writer import MetricFamily
from nftop.model.fleet import FLEET_METRICS, FleetQuery

_UP = MetricFamily("up", "1: the last scrape of this target succeeded.")
# Targets of one instance, where there are several: a number that the query makes.
_TARGETS = "nftop_targets"
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
    Only series of an instance's newest scrape count: Prometheus gives others for 5 minutes if it,
    or the target with it, ended without marking them as stale.
    """
    alone = tuple({name: families.OF_NFS[name]} for name in FLEET_METRICS)
    return tuple(_query(group, job) for group in (*_TOGETHER, *alone))


def _query(group: dict[str, MetricFamily], job: str) -> FleetQuery:
    keys = {of.sample: (key, 1.0 / of.factor) for key, of in group.items()}
    up = selector("up", job)
    newest = f"on (instance) group_left () max by (instance) (timestamp({up}))"
    # `timestamp` drops the name: a selector of several families would have series of equal labels.
    families_of = (selector(name, job) for name in keys)
    terms = [f"({of} and timestamp({of}) >= {newest})" for of in families_of]
    if "up" in keys:
        several = f"count by (instance) ({up}) > 1"
        terms.append(f'label_replace({several}, "__name__", "{_TARGETS}", "", "")')
        keys[_TARGETS] = ("targets", 1.0)
    return FleetQuery(" or on (__name__) ".join(terms), keys)
