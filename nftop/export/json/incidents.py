"""Incidents as plain dictionaries."""

from __future__ import annotations

from typing import Any

from nftop.export.json.encode import rfc3339, with_missing
from nftop.model.incident import Incident, Party, Price, Victim


def incident_object(incident: Incident) -> dict[str, Any]:
    """One incident; `until` is null while it is open."""
    return with_missing(
        {
            "id": incident.id,
            "kind": incident.kind,
            "severity": incident.severity.name.lower(),
            "title": incident.title,
            "culprit": None if incident.culprit is None else _party(incident.culprit),
            "likely": incident.likely,
            "basis": incident.basis,
            "victims": [_victim(item) for item in incident.victims],
            "since": rfc3339(incident.since_ns),
            "until": None if incident.until_ns is None else rfc3339(incident.until_ns),
            "price": _price(incident.price),
            "worst": {**_price(incident.worst), "at": rfc3339(incident.worst_ns)},
            "findings": [{"rule": rule, "where": where} for rule, where in incident.findings],
            "evidence": [
                {
                    "at": rfc3339(item.wall_ns),
                    "step": item.step,
                    "text": item.text,
                    "source": item.source,
                }
                for item in incident.chain
            ],
            "ruled_out": [
                {"name": item.name, "excluded": item.excluded, "text": item.text}
                for item in incident.ruled_out
            ],
            "muted": incident.muted,
            "acknowledged": incident.acknowledged,
        },
        {"dropped_packets": incident.dropped},
    )


def _party(party: Party) -> dict[str, Any]:
    return {
        "kind": party.kind,
        "name": party.name,
        "key": party.key or None,
        "pid": party.pid,
        "cpus": list(party.cpus),
        "class": party.group or None,
        "user": party.user or None,
        "container": party.container or None,
    }


def _victim(victim: Victim) -> dict[str, Any]:
    readings = {
        "before": victim.before,
        "now": victim.now,
        "change": victim.change,
        "drop_packets_per_s": victim.drops_per_s,
        "cpp_before": victim.cpp_before,
        "cpp_now": victim.cpp_now,
    }
    return with_missing({"party": _party(victim.party), "metric": victim.metric}, readings)


def _price(price: Price) -> dict[str, Any]:
    return with_missing(
        {},
        {
            "drop_packets_per_s": price.drops_per_s,
            "lost_packets_per_s": price.lost_packets_per_s,
        },
    )
