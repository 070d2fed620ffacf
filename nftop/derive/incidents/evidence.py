"""Evidence of an incident: from its cause to the harm, and other causes by their numbers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from nftop.derive.findings.engine import limit_for
from nftop.derive.findings.inputs import FindingInputs
from nftop.derive.findings.rule import rule_of
from nftop.derive.incidents.parties import Cause, Parties
from nftop.derive.nf.recent import Recent, RecentRates, arriving_of
from nftop.model.change import Change, Noticed, value_text
from nftop.model.frame import Finding, Frame
from nftop.model.ids import Cpu
from nftop.model.incident import EvidenceLink, Incident, RuledOut, Victim
from nftop.model.metrics.metric import cycles_text
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.rdt.rdt import group_path
from nftop.model.rule_settings import setting_names
from nftop.model.struct import dataclass, replace
from nftop.model.usual import NEAR

# A change of classes so long before a cause may be its reason.
_CHANGE_BEFORE_NS = 600_000_000_000
_MOST_LINKS = 12
_STOLEN = 0.01  # no rule watches it


def chain_of(
    frame: Frame,
    cause: Cause,
    incident: Incident,
    recent: Recent,
    old: Sequence[EvidenceLink] = (),
) -> tuple[EvidenceLink, ...]:
    """Changes before the cause, the cause, and its effects, by time.

    `old`: of the tick before, for times that are not in this one.
    """
    links = [*_changes(frame, incident)]
    links += [_of_finding(frame, item, "cause", old) for item in cause.findings]
    links += [_of_finding(frame, item, "effect", old) for item in cause.effects]
    links += [*_costs(frame, incident, recent, old)] if cause.takes_effects else []
    return tuple(sorted(links, key=lambda item: item.wall_ns)[-_MOST_LINKS:])


@dataclass(frozen=True, slots=True)
class Extreme:
    """The worst number of a link: how far it was beyond, its finding's text, and the link then."""

    excess: float
    text: str
    link: EvidenceLink


def extremes_of(
    old: Mapping[str, Extreme], cause: Cause, incident: Incident
) -> Mapping[str, Extreme]:
    """By `EvidenceLink.key`, the worst of each link so far."""
    texts = {
        finding_key(item): (item.excess, item.text)
        for item in (*cause.findings, *cause.effects)
        if not item.is_ending
    }
    for item in incident.victims:
        if not isinstance(item.cpp_now, Missing) and not isinstance(item.cpp_before, Missing):
            texts[f"{item.cost} {item.party.key}"] = item.cpp_now / max(item.cpp_before, 1e-9), ""
    new = {
        link.key: Extreme(*texts[link.key], link)
        for link in incident.chain
        if link.key in texts and (link.key not in old or texts[link.key][0] > old[link.key].excess)
    }
    return {**old, **new} if new else old


def at_worst(incident: Incident, extremes: Mapping[str, Extreme], keys: Sequence[str]) -> Incident:
    """An incident that ended, with the worst number of each link and its moment.

    `keys`: of `Incident.evidence`.
    """
    chain = tuple(
        link
        if (known := extremes.get(link.key)) is None
        else replace(link, text=known.link.text, value_ns=known.link.value_ns)
        for link in incident.chain
    )
    pairs = zip(keys, incident.evidence, strict=False)
    texts = (extremes[key].text if key in extremes else text for key, text in pairs)
    return replace(incident, chain=chain, evidence=tuple(texts))


def finding_key(item: Finding) -> str:
    """`EvidenceLink.key` of a finding."""
    return f"{item.rule} {item.subject.kind} {item.subject.key}"


def _of_finding(
    frame: Frame, item: Finding, step: Literal["cause", "effect"], old: Sequence[EvidenceLink]
) -> EvidenceLink:
    """A finding; one that ends has the numbers of an earlier tick."""
    key = finding_key(item)
    values_ns = (link.value_ns for link in old if item.is_ending and link.key == key)
    text = f"{item.where}: {item.text.removesuffix(item.current)}"
    return EvidenceLink(
        item.since_ns, step, text, item.metric, next(values_ns, frame.wall_ns), item.current, key
    )


def _changes(frame: Frame, incident: Incident) -> Iterator[EvidenceLink]:
    """Changes of the culprit's or a victim's class in the ten minutes before."""
    groups = {incident.group, *(item.party.group for item in incident.victims)} - {""}
    for noticed in frame.noticed:
        age_ns = incident.began_ns - noticed.at_ns
        if not -1e9 <= age_ns <= _CHANGE_BEFORE_NS:
            continue
        for change in _of_groups(noticed, groups):
            cell = change.cell
            old, new = (
                value_text(cell, value, frame.mask_ways) or "not set"
                for value in (change.old, change.new)
            )
            text = f"{cell.name or cell.kind} {cell.number} of {cell.group}: {old} -> {new}"
            yield EvidenceLink(noticed.wall_ns, "change", text, "resctrl, read back")


def _of_groups(noticed: Noticed, groups: set[str]) -> Iterator[Change]:
    paths = {group_path(name, "") for name in groups} | groups
    return (change for change in noticed.changes if change.cell.group in paths)


def _costs(
    frame: Frame, incident: Incident, recent: Recent, old: Sequence[EvidenceLink]
) -> Iterator[EvidenceLink]:
    """What a packet costs each victim, where that has grown, from the first tick that shows it."""
    for victim in incident.victims:
        before, now = victim.cpp_before, victim.cpp_now
        if isinstance(before, Missing) or isinstance(now, Missing) or before <= 0:
            continue
        if now / before - 1 > NEAR:
            costs = zip((before, now), victim.bounds, strict=True)
            was, is_ = (cycles_text(value, bound=bound) for value, bound in costs)
            key = f"{victim.cost} {victim.party.key}"
            known = (item.wall_ns for item in old if item.key == key)
            at_ns = next(known, None) or _grown_ns(incident, recent, victim.party.key, before)
            text = f"{victim.party.name}: {was} -> {is_} cycles per packet"
            yield EvidenceLink(at_ns, "effect", text, victim.cost, frame.wall_ns, key=key)


def _grown_ns(incident: Incident, recent: Recent, key: str, before: float) -> int:
    """Wall time of the first tick of an incident in which a packet cost clearly more."""
    points = recent.get(key, RecentRates()).points
    times = (
        point.monotonic_ns
        for point in points
        if point.monotonic_ns >= incident.began_ns and point.cpp / before - 1 > NEAR
    )
    return incident.since_ns + next(times, incident.began_ns) - incident.began_ns


def ruled_out(inputs: FindingInputs, incident: Incident, began_ns: int) -> tuple[RuledOut, ...]:
    """Other causes of harm to its victims, by their numbers in this frame and the rules' limits."""
    frame, recent = inputs.frame, inputs.recent
    cpus = tuple(sorted({cpu for item in incident.victims for cpu in item.party.cpus}))
    if not cpus:
        return ()
    names = setting_names((nf.name, nf.cpus) for nf in frame.nfs) if inputs.settings.rows else {}
    nfs = [names.get(item.party.name, (item.party.name,)) for item in incident.victims]

    def limit(rule_id: str) -> float:
        rule = rule_of(rule_id)
        return 0.0 if rule is None else limit_for(rule, nfs, inputs.settings)

    host = Parties(frame)
    siblings = host.siblings(cpus)
    # Arriving packets are what these two are about.
    of_load = incident.kind in ("load", "stopped")
    checks = [] if of_load else [_load(frame, incident.victims, recent, began_ns)]
    if incident.kind != "cpu":
        checks.append(_below("wait", host.values("wait_ratio", cpus), limit("poller-waits")))
        checks.append(_below("steal", host.values("steal_ratio", cpus), _STOLEN))
    if incident.kind != "sibling":
        busy = host.values("cpu_time_ratio", siblings) if siblings else (0.0,)
        checks.append(_below("siblings", busy, limit("busy-sibling")))
    if incident.kind != "ddio":
        checks.append(_ddio(frame, cpus, limit("ddio-misses")))
    return tuple(checks)


def _load(frame: Frame, victims: Sequence[Victim], recent: Recent, began_ns: int) -> RuledOut:
    """Whether as many packets arrive as before."""
    keys = {victim.party.key for victim in victims}
    arriving = {nf.key: arriving_of(nf) for nf in frame.nfs if nf.key in keys}
    changes, none_before = list[Reading](), False
    for victim in victims:
        rates = recent.get(victim.party.key, RecentRates())
        before = rates.before(began_ns, lambda point: point.arriving)
        now = arriving.get(victim.party.key, Missing(Reason.SOURCE))
        none_before = none_before or before == 0
        if not isinstance(before, Missing) and before > 0:
            changes.append(now if isinstance(now, Missing) else now / before - 1)
    known = [change for change in changes if not isinstance(change, Missing)]
    if not known:
        why = "not counted now" if changes else "no readings from before it"
        return RuledOut("arriving load", None, "none before it" if none_before else why)
    # Fewer packets at one NF do not hide more at another.
    largest = max(known)
    text = f"{largest:+.0%}".replace("-0%", "0%").replace("+0%", "0%")
    return RuledOut("arriving load", largest <= NEAR, text)


def _below(name: str, values: Iterable[float], limit: float) -> RuledOut:
    if (value := max(values, default=None)) is None:
        return RuledOut(name, None, "not counted")
    return RuledOut(name, value <= limit, f"{value:.0%}")


def _ddio(frame: Frame, cpus: Sequence[Cpu], limit: float) -> RuledOut:
    infos, rows = frame.topology.cpus, frame.topology.row_of
    packages = {infos[rows[cpu]].package for cpu in cpus if cpu in rows}
    hits = [
        value
        for row in frame.packages
        if row.package in packages
        and isinstance(value := row.readings.get("pcie.ddio_hit_ratio"), float)
    ]
    if not hits:
        return RuledOut("DDIO hit", None, "not counted")
    return RuledOut("DDIO hit", 1 - min(hits) <= limit, f"{min(hits):.1%}")
