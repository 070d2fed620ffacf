"""Effects that outlast the cause of their incident.

They stay with it for 3 s, and for 120 s while they get less; then they are an incident of their
own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nftop.derive.findings.inputs import FindingInputs
from nftop.derive.incidents.causes import EFFECT_BEFORE_S
from nftop.derive.incidents.followed import Followed, IncidentState
from nftop.derive.incidents.parties import Cause
from nftop.derive.nf.recent import Recent, RecentRates
from nftop.model.frame import Finding, Frame
from nftop.model.incident import Severity
from nftop.model.missing import number_or
from nftop.model.struct import replace

# Effects stay with an ended cause for this long, or for two ticks if that is longer.
_STAYS_S = 3.0
# And for this long while they get less: caches fill within seconds after their ways are free.
_RECOVERS_S = 120.0
_RECOVERS_BY, _RECOVERS_WITHIN_S, _FEW_OF_WORST = 0.9, 4.0, 1e-4


def with_remaining_effects(
    state: IncidentState, causes: Sequence[Cause], inputs: FindingInputs
) -> list[Cause]:
    """Causes of this tick; those that are over keep effects which have yet to clear."""
    frame = inputs.frame
    keys = {cause.key for cause in causes}
    over = [
        item
        for item in state.followed.values()
        if item.key.kind != "nf" and item.takes_effects and item.key not in keys
    ]
    result, kept = [], dict[str, list[Finding]]()
    for cause in causes:
        if cause.key.kind != "nf" or cause.floor is Severity.INFO:
            result.append(cause)
            continue
        own = list[Finding]()
        for finding in cause.findings:
            item = next((one for one in over if _was_effect(one, cause, finding)), None)
            if item is not None and (
                finding.is_ending or _is_clearing(item, frame, inputs.recent, cause.nfs)
            ):
                kept.setdefault(item.incident.id, []).append(finding)
            else:
                own.append(_begun_later(finding, cause, over, state.past, frame))
        if own:
            result.append(replace(cause, findings=tuple(own)))
    ended = [_ended(item, kept[item.incident.id]) for item in over if item.incident.id in kept]
    return _priced_once(ended, result) if ended else result


def _was_effect(item: Followed, cause: Cause, finding: Finding) -> bool:
    """Whether a finding that has no cause now began while an incident's cause was seen."""
    incident = item.incident
    victims = {victim.party.key for victim in incident.victims}
    first_ns = incident.began_ns - EFFECT_BEFORE_S * 1e9
    last_ns = incident.ended_ns or item.over_ns
    began = first_ns <= finding.began_ns and (last_ns is None or finding.began_ns <= last_ns)
    return began and victims.issuperset(cause.nfs)


def _is_clearing(item: Followed, frame: Frame, recent: Recent, nfs: Iterable[str]) -> bool:
    """Whether the cause is just over, or its effects on these NFs get less since."""
    over_ns = frame.monotonic_ns if item.over_ns is None else item.over_ns
    passed_s = (frame.monotonic_ns - over_ns) / 1e9
    if passed_s <= max(_STAYS_S, 2 * frame.elapsed_s):
        return True
    few = _FEW_OF_WORST * number_or(item.incident.worst.drops_per_s, 0.0)
    return passed_s <= _RECOVERS_S and all(
        _is_recovering(recent.get(key, RecentRates()), few) for key in nfs
    )


def _is_recovering(rates: RecentRates, few: float) -> bool:
    """Whether an NF drops few packets, clearly less than seconds ago, or none at a lower cost."""
    now, points = rates.now, rates.points
    if now is None:
        return False
    earlier = [
        item
        for item in points[:-1]
        if now.monotonic_ns - item.monotonic_ns <= _RECOVERS_WITHIN_S * 1e9
    ] or points[-2:-1]
    if now.dropped == 0:
        return any(item.dropped > 0 or item.cpp > now.cpp for item in earlier)
    return now.dropped <= few or any(now.dropped <= _RECOVERS_BY * item.dropped for item in earlier)


def _begun_later(
    finding: Finding, cause: Cause, over: Iterable[Followed], past: Iterable[Followed], frame: Frame
) -> Finding:
    """A finding that outlasted the incident it was in begins with that one's end."""
    now = frame.monotonic_ns, frame.wall_ns
    ends = [now for item in over if _was_effect(item, cause, finding)]
    ends += [
        (item.incident.ended_ns or now[0], item.incident.until_ns or now[1])
        for item in past
        if item.key.kind != "nf" and item.takes_effects and _was_effect(item, cause, finding)
    ]
    if not ends:
        return finding
    began_ns, since_ns = max(ends)
    return replace(finding, since_ns=since_ns, began_ns=began_ns)


def _ended(item: Followed, findings: Sequence[Finding]) -> Cause:
    """The cause of an incident whose effects have yet to clear."""
    old = item.incident
    keys = tuple(victim.party.key for victim in old.victims)
    return Cause(
        item.key,
        old.kind,
        old.title,
        old.culprit,
        keys,
        tuple(findings),
        priced=keys,
        floor=old.severity,
        is_over=True,
        basis=old.basis,
        likely=old.likely,
        group=old.group,
        l3=old.l3,
        watch=old.watch,
        memory=old.memory,
    )


def _priced_once(ended: Sequence[Cause], others: Iterable[Cause]) -> list[Cause]:
    """Causes that are over have the price of their victims, except what another cause has."""
    others = list(others)
    taken = {key for cause in others if cause.key.kind != "nf" for key in cause.priced}
    result = []
    for cause in ended:
        keys = tuple(key for key in cause.priced if key not in taken)
        taken |= set(keys)
        result.append(replace(cause, priced=keys))
    mine = {key for cause in result for key in cause.priced}
    result += [
        replace(cause, priced=tuple(key for key in cause.priced if key not in mine))
        for cause in others
    ]
    return result
