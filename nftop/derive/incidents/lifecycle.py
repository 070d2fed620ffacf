"""Incidents of a frame: causes followed from their first tick to their end. A stage of the fold.

- An incident begins with the first finding that shows its cause, ends when no finding shows it any
  more, and continues if the cause returns within `RETURNS_S`.
- Effects that had no cause are an incident of their NF; if a cause shows up for them, that incident
  becomes the cause's and keeps its id.
- Effects that last longer than their cause stay with its incident until they clear; if they do not,
  they are an incident that begins when the first one ends.
- A dropped packet counts in one incident.
- Values before an incident are medians of the minute before it began.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from nftop.derive.findings.engine import FINDINGS
from nftop.derive.findings.inputs import FindingInputs
from nftop.derive.fold_stage import FoldStage, FoldTick, TopologyChange
from nftop.derive.frame import FRAME
from nftop.derive.incidents.cause_inputs import CauseInputs
from nftop.derive.incidents.causes import EFFECT_BEFORE_S, causes_of, losses_of
from nftop.derive.incidents.evidence import (
    at_worst,
    chain_of,
    extremes_of,
    finding_key,
    ruled_out,
)
from nftop.derive.incidents.followed import Followed, IncidentState
from nftop.derive.incidents.parties import Cause, Parties
from nftop.derive.incidents.remaining_effects import with_remaining_effects
from nftop.derive.incidents.victims import (
    Before,
    Begin,
    DropCount,
    before_of,
    cost_of_price,
    count_drops,
    dropped_before,
    follow_traces,
    is_harmed,
    loss_of,
    price_of,
    victim_of,
    worst_of,
)
from nftop.derive.nf.recent import RECENT, Recent
from nftop.derive.occupants import OTHER_POLLERS
from nftop.derive.threads import THREADS
from nftop.model.frame import Finding, Frame, NfRow
from nftop.model.ids import Cpu
from nftop.model.incident import Incident, Party, Price, Severity, Victim
from nftop.model.missing import Missing, Reason, number_or
from nftop.model.owner import rank
from nftop.model.sample import ThreadTable
from nftop.model.struct import dataclass, replace

RETURNS_S = 15.0
MOST_OPEN, MOST_PAST = 64, 64
_NO_HARM = Missing(Reason.UNDEFINED, "information harms nothing")
_ELSEWHERE = Missing(Reason.UNDEFINED, "another incident explains it")
# Rules that measure what is taken from a network function, whatever becomes of its packets.
_COSTS = ("poller-waits", "cross-socket", "core-throttled", "package-throttled")
# What was before an incident is not what another one left: values before that one count, if it
# began not longer before.
_SAME_BEFORE_S, _BEFORE_S = 900.0, 60.0


@dataclass(frozen=True, slots=True)
class Incidents:
    """Output of the stage, as `Frame.incidents` and `Frame.past_incidents`."""

    active: tuple[Incident, ...] = ()
    past: tuple[Incident, ...] = ()


def step_incidents(
    state: IncidentState, inputs: FindingInputs, parties: Parties
) -> tuple[IncidentState, Incidents]:
    """Fold one frame with its findings in."""
    frame = inputs.frame
    if frame.monotonic_ns < state.monotonic_ns:
        state = IncidentState()
    every = causes_of(CauseInputs(inputs, parties))
    causes = _worst_causes(with_remaining_effects(state, every, inputs), state, frame)
    followed = dict(state.followed)
    past = list(state.past)
    losing = {nf.key for nf in frame.nfs if number_or(nf.readings["drop_packets_per_s"], 0.0) > 0}
    owners = {
        key: cause.key
        for cause in causes
        for key in cause.priced
        if key in losing or losses_of(cause)
    }
    seen_ids = set[str]()
    for cause in causes:
        known = _known(cause, followed.values(), past, frame.monotonic_ns, seen_ids)
        if known is not None and known in past:
            past.remove(known)
        elsewhere = {key for key, owner in owners.items() if owner != cause.key}
        now = _follow(known, cause, inputs, state, elsewhere)
        followed[now.incident.id] = now
        seen_ids.add(now.incident.id)
    for id_ in [id_ for id_ in followed if id_ not in seen_ids]:
        ended = followed.pop(id_)
        incident = replace(
            ended.incident,
            until_ns=frame.wall_ns,
            ended_ns=frame.monotonic_ns,
            victims=ended.harmed,
            title=ended.title or ended.incident.title,
        )
        incident = at_worst(incident, ended.extremes, ended.evidence_keys)
        past.insert(0, replace(ended, incident=incident))
    forgotten = sorted(past, key=lambda item: item.foreign)[MOST_PAST:]
    gone = {item.incident.id for item in forgotten}
    kept = tuple(item for item in past if item.incident.id not in gone)
    acknowledged = set(inputs.settings.acknowledged)
    shown = sorted(followed.values(), key=lambda item: (item.foreign, *_order(item.incident)))
    output = Incidents(
        tuple(_marked(item.incident, acknowledged) for item in shown),
        tuple(_marked(item.incident, acknowledged) for item in kept),
    )
    here = {nf.key for nf in frame.nfs}
    counted = {key: at_ns for key, at_ns in state.counted_ns.items() if key in here}
    counted |= {key: frame.monotonic_ns for cause in causes for key in cause.priced}
    return IncidentState(followed, kept, counted, frame.monotonic_ns), output


def _worst_causes(causes: Sequence[Cause], state: IncidentState, frame: Frame) -> list[Cause]:
    """At most `MOST_OPEN` in their order: privileged, then most harmful, then open ones."""
    if len(causes) <= MOST_OPEN:
        return list(causes)
    drops = {nf.key: number_or(nf.readings["drop_packets_per_s"], 0.0) for nf in frame.nfs}
    open_ = {item.key for item in state.followed.values()}

    foreign = {nf.key for nf in frame.nfs if rank(nf.owner)}

    def harm(number: int) -> tuple[bool, int, float, bool]:
        cause = causes[number]
        lost = sum(drops.get(key, 0.0) for key in cause.priced)
        severity = _severity((*cause.findings, *cause.effects), Price(lost), cause, harm=None)
        others = bool(cause.nfs) and foreign.issuperset(cause.nfs)
        return others, -severity, -lost, cause.key not in open_

    kept = sorted(range(len(causes)), key=harm)[:MOST_OPEN]
    return [causes[number] for number in sorted(kept)]


def _marked(incident: Incident, acknowledged: set[str]) -> Incident:
    known = incident.id in acknowledged
    return replace(incident, acknowledged=True) if known else incident


def _order(incident: Incident) -> tuple[int, float, float, int]:
    """The most harmful first; of equal ones the oldest."""
    price = incident.price
    return (
        -incident.severity,
        -number_or(price.drops_per_s, 0.0),
        -number_or(price.lost_packets_per_s, 0.0),
        incident.began_ns,
    )


def _known(
    cause: Cause,
    followed: Iterable[Followed],
    past: Iterable[Followed],
    now_ns: int,
    taken: set[str],
) -> Followed | None:
    """The incident that this cause continues."""
    free = [item for item in followed if item.incident.id not in taken]
    for item in free:
        if item.key == cause.key:
            return item
    effects = {(item.rule, item.subject) for item in cause.effects}
    for item in free:
        same = item.key.kind == "nf" and not effects.isdisjoint(item.shown_by)
        began_ns = min(finding.began_ns for finding in cause.findings)
        if same and began_ns - item.incident.began_ns <= EFFECT_BEFORE_S * 1e9:
            return item
    for item in past:
        ended_ns = item.incident.ended_ns
        if ended_ns is None or item.key != cause.key:
            continue
        if now_ns - ended_ns <= RETURNS_S * 1e9:
            return item
    return None


@dataclass(frozen=True, slots=True)
class _Harm:
    """Harm to the victims of an incident in a tick.

    Attributes:
        rows: the victims that the frame has. before: their values before the incident.
        victims: the same as shown, those that lose most first.
        price: of this tick. drops: since the incident began.
        is_harm: whether one of them is harmed now; None if that is unknown.
    """

    rows: list[NfRow]
    before: Mapping[str, Before]
    victims: tuple[Victim, ...]
    price: Price
    drops: DropCount
    is_harm: bool | None


def _follow(
    known: Followed | None,
    cause: Cause,
    inputs: FindingInputs,
    state: IncidentState,
    elsewhere: Collection[str],
) -> Followed:
    """An incident with this tick. `elsewhere`: NFs whose loss another cause explains."""
    old = None if known is None else known.incident
    if old is not None:
        cause = _with_earlier_culprit(cause, old)
    id_, first = _begin(known, cause)
    began_ns = first.began_ns if known is None else known.began_ns
    harm = _harm_in_tick(known, cause, inputs, state, elsewhere, began_ns=began_ns)
    incident = _incident(old, cause, harm, inputs, id_=id_, first=first)
    incident = _with_evidence(incident, cause, old, inputs, began_ns)
    incident, harmed, title, excess = _at_its_worst(known, cause, incident, inputs.frame.wall_ns)
    findings = (*cause.findings, *cause.effects)
    shown_by = frozenset((item.rule, item.subject) for item in findings)
    evidence_keys = tuple(map(finding_key, findings))
    foreign = bool(harm.rows) and all(rank(nf.owner) for nf in harm.rows)
    over_ns = None
    if known is not None:
        foreign = foreign if harm.rows else known.foreign
        if _is_ending(cause):
            evidence_keys = known.evidence_keys
        if cause.is_over:
            shown_by = known.shown_by
            over_ns = known.over_ns or inputs.frame.monotonic_ns
    return Followed(
        cause.key,
        incident,
        began_ns,
        harm.before,
        harmed,
        title,
        excess,
        extremes=extremes_of(known.extremes if known else {}, cause, incident),
        evidence_keys=evidence_keys,
        takes_effects=cause.takes_effects,
        over_ns=over_ns,
        drops=harm.drops,
        shown_by=shown_by,
        foreign=foreign,
    )


def _harm_in_tick(
    known: Followed | None,
    cause: Cause,
    inputs: FindingInputs,
    state: IncidentState,
    elsewhere: Collection[str],
    *,
    began_ns: int,
) -> _Harm:
    frame = inputs.frame
    nfs = {nf.key: nf for nf in frame.nfs}
    victims = [nfs[key] for key in cause.nfs if key in nfs]
    before = _before(known, victims, nfs, inputs.recent, began_ns, past=state.past)
    priced = [nf for nf in victims if nf.key in cause.priced]
    drops = known.drops if known else dropped_before(priced, inputs, began_ns, state.counted_ns)
    harms = [False if nf.key in elsewhere else is_harmed(nf, before[nf.key]) for nf in victims]
    unharmed = None if None in harms or not harms else False
    return _Harm(
        rows=victims,
        before=before,
        victims=_victims(victims, before, cause.floor, elsewhere),
        price=price_of(priced, before, victims),
        drops=count_drops(drops, priced, frame),
        is_harm=True if any(harms) else unharmed,
    )


def _incident(
    old: Incident | None,
    cause: Cause,
    harm: _Harm,
    inputs: FindingInputs,
    *,
    id_: str,
    first: Begin,
) -> Incident:
    """The incident in this tick, without its evidence."""
    severity, names, muted = _of_findings(cause, old, harm.price, harm=harm.is_harm)
    nfs = {nf.key: nf for nf in harm.rows}
    traced = [nfs[item.party.key] for item in harm.victims]
    worst, worst_ns = worst_of(old, harm.price, inputs.frame.wall_ns)
    is_uncounted = bool(harm.rows) and harm.drops == DropCount()
    costs = (item.brief for item in cause.findings if item.rule in _COSTS)
    return Incident(
        id=id_,
        kind=cause.kind,
        severity=severity,
        title=cause.title,
        culprit=cause.culprit,
        victims=harm.victims,
        price=harm.price,
        since_ns=first.since_ns,
        began_ns=first.began_ns,
        likely=cause.likely,
        basis=cause.basis,
        worst=worst,
        worst_ns=worst_ns,
        dropped=harm.price.drops_per_s if is_uncounted else harm.drops.total,
        uncounted=tuple(harm.drops.uncounted.values()),
        findings=names,
        cost=", ".join(dict.fromkeys(costs)),
        group=cause.group,
        l3=cause.l3,
        watch=cause.watch,
        memory=cause.memory,
        traces=follow_traces(old.traces if old else (), traced, inputs, first),
        muted=muted,
        is_bound=first.is_bound,
        counted_from_ns=first.counted_from_ns,
    )


def _at_its_worst(
    known: Followed | None, cause: Cause, incident: Incident, wall_ns: int
) -> tuple[Incident, tuple[Victim, ...], str, float]:
    """An incident with its worst moment; victims, title and excess then."""
    excess = max((item.excess for item in cause.findings if not item.is_ending), default=0.0)
    if known is None:
        return incident, incident.victims, cause.title, excess
    old = known.incident
    same = (cause.kind, _named(cause.culprit)) == (old.kind, _named(old.culprit))
    is_worse = excess > known.excess or not (same or _is_ending(cause))
    if not any(cost_of_price(incident.worst)):
        incident = replace(incident, worst_ns=wall_ns if is_worse else old.worst_ns)
    is_now = incident.worst_ns == wall_ns
    by_loss = number_or(incident.worst.drops_per_s, 0.0) > 0
    title = cause.title if (is_now if by_loss else is_worse) else known.title
    victims = incident.victims if is_now else known.harmed
    return incident, victims, title, max(excess, known.excess)


def _named(party: Party | None) -> tuple[str, ...]:
    return () if party is None else (party.kind, party.name, party.key, str(party.pid))


def _victims(
    nfs: Iterable[NfRow], before: Mapping[str, Before], floor: Severity, elsewhere: Collection[str]
) -> tuple[Victim, ...]:
    """Those that lose most first; what is lost during information is lost to another incident."""
    victims = []
    for nf in nfs:
        item = victim_of(nf, before[nf.key])
        why = _ELSEWHERE if nf.key in elsewhere else _NO_HARM if floor is Severity.INFO else None
        if why is not None:
            dropped = why if number_or(item.drops_per_s, 0.0) > 0 else item.drops_per_s
            item = replace(item, change=why, drops_per_s=dropped)
        victims.append(item)
    return tuple(sorted(victims, key=loss_of, reverse=True))


def _of_findings(
    cause: Cause, old: Incident | None, price: Price, *, harm: bool | None
) -> tuple[Severity, tuple[tuple[str, str], ...], bool]:
    """Severity, which never falls; rules and subjects of the findings; whether all are muted."""
    findings = (*cause.findings, *cause.effects)
    severity = _severity(findings, price, cause, harm=harm)
    names = tuple(dict.fromkeys((item.rule, item.where) for item in findings))
    # A loss that is not muted is never hidden with its cause.
    muted = all(item.is_muted for item in (*cause.findings, *losses_of(cause)))
    if old is None:
        return severity, names, muted
    if cause.is_over:
        names, muted = old.findings, old.muted
    return max(severity, old.severity), names, muted


def _before(
    known: Followed | None,
    victims: Sequence[NfRow],
    nfs: Mapping[str, NfRow],
    recent: Recent,
    began_ns: int,
    *,
    past: Iterable[Followed],
) -> dict[str, Before]:
    """By key of a victim, its values before the incident, which are taken once.

    Those before another incident that harmed it in the minute before this one are better.
    """
    earlier = {} if known is None else known.before
    before = {key: values for key, values in earlier.items() if key in nfs}
    keys = {nf.key for nf in victims}
    since_ns, first_ns = began_ns - _BEFORE_S * 1e9, began_ns - _SAME_BEFORE_S * 1e9
    ended_ns = dict.fromkeys(keys, since_ns)
    for item in past:
        old = item.incident
        harmed = old.severity > Severity.INFO and (old.ended_ns or 0) > since_ns
        if harmed and first_ns < item.began_ns < began_ns:
            values = [(key, item.before[key]) for key in keys & item.before.keys()]
            ended_ns |= {key: max(ended_ns[key], old.ended_ns or 0) for key, _ in values}
            before = {key: one for key, one in values if not isinstance(one.sent, Missing)} | before
    new = [nf for nf in victims if nf.key not in before]
    return before | {
        nf.key: before_of(recent, nf, began_ns, (began_ns - ended_ns[nf.key]) / 1e9) for nf in new
    }


def _begin(known: Followed | None, cause: Cause) -> tuple[str, Begin]:
    """Id and begin; one that may continue an incident from before a jump is a bound."""
    first = min(cause.findings, key=lambda item: item.began_ns)
    begin = Begin(
        first.since_ns, first.began_ns, first.is_bound or first.is_again, first.read_from_ns
    )
    if known is None:
        digest = _digest(f"{cause.key.kind} {cause.key.subject} {first.since_ns}")
        return f"{cause.kind}-{digest:08x}", begin
    old = known.incident
    if cause.is_over or old.began_ns <= first.began_ns:
        begin = Begin(old.since_ns, old.began_ns, old.is_bound)
    return old.id, begin._replace(counted_from_ns=max(begin.counted_from_ns, old.counted_from_ns))


def _with_evidence(
    incident: Incident, cause: Cause, old: Incident | None, inputs: FindingInputs, began_ns: int
) -> Incident:
    """The incident with its evidence; that of the last tick with its cause while it ends."""
    if old is not None and _is_ending(cause):
        return replace(incident, evidence=old.evidence, chain=old.chain, ruled_out=old.ruled_out)
    return replace(
        incident,
        evidence=tuple(item.text for item in (*cause.findings, *cause.effects)),
        chain=chain_of(
            inputs.frame, cause, incident, inputs.recent, () if old is None else old.chain
        ),
        ruled_out=ruled_out(inputs, incident, began_ns),
    )


def _digest(text: str) -> int:
    """FNV-1a of 32 bits."""
    value = 0x811C9DC5
    for byte in text.encode("utf-8", "replace"):
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def _is_ending(cause: Cause) -> bool:
    return cause.is_over or all(item.is_ending for item in cause.findings)


def _with_earlier_culprit(cause: Cause, old: Incident) -> Cause:
    """Keep the earlier culprit and title if the cause is ending or its culprit less exact now."""
    if not _is_ending(cause) and _exactness(cause.culprit) >= _exactness(old.culprit):
        return cause
    nfs = {item.party.key for item in old.victims}
    return replace(
        cause,
        kind=old.kind,
        title=old.title,
        culprit=old.culprit,
        basis=old.basis,
        likely=old.likely,
        watch=old.watch,
        memory=old.memory,
        nfs=tuple(key for key in cause.nfs if key in nfs) or cause.nfs,
    )


def _exactness(party: Party | None) -> int:
    """How exactly a culprit is known."""
    return 0 if party is None else {"process": 3, "nf": 3, "class": 2}.get(party.kind, 1)


def _severity(
    findings: Iterable[Finding], price: Price, cause: Cause, *, harm: bool | None
) -> Severity:
    """Severity of a tick; `harm`: whether a victim is harmed, None if that is unknown."""
    rules = {item.rule for item in findings}
    if rules & {"drops", "lost-upcalls", "throughput-collapse", "gone", "hung"}:
        return Severity.BAD
    # A cause seen before the rule of drops holds, whose victims lose packets already.
    harms = cause.takes_effects and cause.floor > Severity.INFO and cause.key.kind != "nf"
    if harms and number_or(price.drops_per_s, 0.0) > 0:
        return Severity.BAD
    if harm is False and cause.floor is Severity.WARN and rules.isdisjoint(_COSTS):
        return Severity.INFO
    return cause.floor


# CPUs of open incidents that are described at once.
_MOST_WATCHED = 16


def culprit_focus(frame: Frame) -> tuple[tuple[Cpu, ...], tuple[Cpu, ...]]:
    """`culprits` and `memory` of a `Focus`: the CPUs that open incidents are about."""
    shown = frame.incidents
    return _cpus(item.watch for item in shown), _cpus(item.memory for item in shown)


def _cpus(lists: Iterable[tuple[Cpu, ...]]) -> tuple[Cpu, ...]:
    chosen = dict.fromkeys(cpu for cpus in lists for cpu in cpus)
    return tuple(sorted(list(chosen)[:_MOST_WATCHED]))


def _run(state: IncidentState, tick: FoldTick) -> tuple[IncidentState, Incidents]:
    findings, gone = tick.output(FINDINGS)
    frame = replace(tick.output(FRAME), findings=findings)
    inputs = FindingInputs(frame, tick.output(OTHER_POLLERS), gone, tick.output(RECENT), tick.rules)
    reading = tick.sample.readings.get("processes")
    table = None if reading is None or isinstance(reading.value, Missing) else reading.value
    facts = {item.pid: item for item in table.culprits} if isinstance(table, ThreadTable) else {}
    uses = table.uses if isinstance(table, ThreadTable) else ()
    parties = Parties(frame, tick.output(THREADS), facts, uses)
    return step_incidents(state, inputs, parties)


INCIDENTS: FoldStage[IncidentState, Incidents] = FoldStage(
    "incidents", IncidentState, _run, reset_on=TopologyChange.ROWS, lasting=True
)
