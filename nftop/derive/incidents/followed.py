"""State of the incidents that the fold follows."""

from __future__ import annotations

from collections.abc import Mapping

from nftop.derive.incidents.evidence import Extreme
from nftop.derive.incidents.parties import CauseKey
from nftop.derive.incidents.victims import Before, DropCount
from nftop.model.incident import Incident, Victim
from nftop.model.struct import dataclass, field
from nftop.model.subject import Subject


@dataclass(frozen=True, slots=True)
class Followed:
    """One open incident.

    Attributes:
        key: of its cause now.
        began_ns: CLOCK_MONOTONIC of its first tick: values before it are from before that.
        before: throughput and cost of its victims before it, by `NfRow.key`.
        harmed, title: its victims and its title at its worst tick.
        excess: how far its cause was beyond its limit at most. extremes: by link of evidence.
        evidence_keys: `EvidenceLink.key` of `Incident.evidence`.
        takes_effects: as `Cause`.
        over_ns: CLOCK_MONOTONIC of the first tick without its cause; None while that is seen.
        drops: of its victims.
        shown_by: rules and subjects of its findings.
        foreign: all of its victims are unprivileged users', who can give any number.
    """

    key: CauseKey
    incident: Incident
    began_ns: int
    before: Mapping[str, Before] = field(default_factory=dict)
    harmed: tuple[Victim, ...] = ()
    title: str = ""
    excess: float = 0.0
    extremes: Mapping[str, Extreme] = field(default_factory=dict)
    evidence_keys: tuple[str, ...] = ()
    takes_effects: bool = True
    over_ns: int | None = None
    drops: DropCount = field(default_factory=DropCount)
    shown_by: frozenset[tuple[str, Subject]] = frozenset()
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class IncidentState:
    """Open incidents by id, and those that ended, the last first.

    Attributes:
        counted_ns: by `NfRow.key`, CLOCK_MONOTONIC until which its drops are in an incident.
    """

    followed: Mapping[str, Followed] = field(default_factory=dict)
    past: tuple[Followed, ...] = ()
    counted_ns: Mapping[str, int] = field(default_factory=dict)
    monotonic_ns: int = 0
