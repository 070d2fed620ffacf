"""Victims of an incident: the throughput and cost of each, its drops, and its trace."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from nftop.derive.findings.inputs import FindingInputs
from nftop.derive.nf.recent import (
    PacketCost,
    Recent,
    RecentPoint,
    RecentRates,
    arriving_of,
    cost_of,
    throughput_of,
)
from nftop.model.frame import Frame, NfRow
from nftop.model.incident import Incident, Party, Price, Uncounted, Victim, VictimTrace
from nftop.model.missing import Missing, Reading, Reason, number_or
from nftop.model.number_text import NO_CHANGE
from nftop.model.rdt.rdt import class_name
from nftop.model.struct import dataclass, field, replace


def packets_of(nf: NfRow) -> float:
    """Packets per second in the direction that counts for an NF; 0 if unknown."""
    name = "rx_packets_per_s" if nf.direction == "rx" else "tx_packets_per_s"
    return number_or(nf.readings[name], 0.0)


def nf_party(nf: NfRow) -> Party:
    """A network function as a party."""
    group = "" if not nf.classes else class_name(nf.classes[0].name)
    return Party("nf", nf.name, key=nf.key, cpus=nf.cpus, group=group, pid=nf.pid or None)


# Smaller changes without drops are noise: the NF is no victim worth a name.
NOISE = 0.02
_NO_BEFORE = Missing(Reason.WARMING, "nothing is known of it from before")
_NO_ARRIVING = Missing(Reason.SOURCE, "no victim counts the packets that arrive")
_NO_DROPS = Missing(Reason.SOURCE, "no victim counts drops")
_NOT_ITS = Missing(Reason.UNDEFINED, "what its victims drop is not from this")
# A source that is late by less is not late.
_LEAST_LAG_S = 0.5
_BETWEEN = "its readings do not cover all of the time"
_NO_INTERVAL = Missing(Reason.WARMING, "the time that its rate is of is not known")
# Reasons of a victim that never counts drops.
_NEVER = (Reason.SOURCE, Reason.HARDWARE, Reason.UNDEFINED)


@dataclass(frozen=True, slots=True)
class Before:
    """Throughput and cost of an NF before an incident."""

    sent: Reading
    cost: PacketCost


def before_of(recent: Recent, nf: NfRow, began_ns: int, span_s: float = 60.0) -> Before:
    """Values of an NF in the `span_s` before an incident."""
    rates = recent.get(nf.key, RecentRates())
    return Before(
        rates.before(began_ns, lambda point: point.throughput, span_s),
        rates.cost_before(began_ns, span_s),
    )


def victim_of(nf: NfRow, before: Before) -> Victim:
    metric, now = throughput_of(nf)
    cost = cost_of(nf, before.cost)
    change = _change(before.sent, now)
    drops = nf.readings["drop_packets_per_s"]
    plain = Victim(
        nf_party(nf),
        metric,
        before.sent,
        now,
        change,
        drops_per_s=drops,
        cpp_before=before.cost.value,
        cpp_now=cost.value,
        cost=cost.metric,
        bounds=(before.cost.is_bound, cost.is_bound),
    )
    dropping = not isinstance(drops, Missing) and drops > 0
    small = isinstance(change, Missing) or abs(change) < NO_CHANGE
    cost_change = _change(before.cost.value, cost.value)
    dearer = not isinstance(cost_change, Missing) and cost_change >= NO_CHANGE
    if small and dearer and not dropping:
        return replace(
            plain, metric=cost.metric, before=before.cost.value, now=cost.value, change=cost_change
        )
    return plain


def _change(before: Reading, now: Reading) -> Reading:
    if isinstance(before, Missing):
        return before
    if isinstance(now, Missing):
        return now
    return now / before - 1 if before > 0 else _NO_BEFORE


def is_harmed(nf: NfRow, before: Before) -> bool | None:
    """Whether an NF drops, sends less of what arrives, or costs more; None if that is unknown."""
    drops, now, arriving = nf.readings["drop_packets_per_s"], throughput_of(nf)[1], arriving_of(nf)
    if number_or(drops, 0.0) > 0:
        return True
    cost = cost_of(nf, before.cost)
    bound = before.cost.is_bound or cost.is_bound
    sent, dearer = before.sent, _change(before.cost.value, cost.value)
    if not bound and number_or(dearer, 0.0) > NOISE:
        return True
    if isinstance(sent, Missing) or isinstance(now, Missing) or isinstance(dearer, Missing):
        return None
    if isinstance(arriving, Missing):
        return None if now < (1 - NOISE) * sent else False
    return min(sent, arriving) - now > NOISE * sent


def loss_of(victim: Victim) -> float:
    """Packets per second that it drops; else a cost that rose."""
    return number_or(victim.drops_per_s, 0.0) or (
        number_or(victim.change, 0.0) if victim.metric.endswith("cpp") else 0.0
    )


def price_of(
    victims: Sequence[NfRow], before: Mapping[str, Before], others: Sequence[NfRow] = ()
) -> Price:
    """Drops and lost packets of all victims that count them.

    `others`: with those whose drops are another incident's, or no harm.
    """
    if not victims and others:
        counted = [nf.readings["drop_packets_per_s"] for nf in others]
        known = [item for item in counted if not isinstance(item, Missing)]
        none = not any(known) and len(known) == len(counted)
        return Price(0.0, 0.0) if none else Price(_NOT_ITS if any(known) else _NO_DROPS, _NOT_ITS)
    drops = [nf.readings["drop_packets_per_s"] for nf in victims]
    known = [item for item in drops if not isinstance(item, Missing)]
    lost: list[float] = []
    for nf in victims:
        sent_before, now, arriving = before[nf.key].sent, throughput_of(nf)[1], arriving_of(nf)
        if isinstance(sent_before, Missing) or isinstance(now, Missing):
            continue
        if not isinstance(arriving, Missing):  # what fewer packets arrive is not lost
            lost.append(max(min(sent_before, arriving) - now, 0.0))
    compared = any(not isinstance(before[nf.key].sent, Missing) for nf in victims)
    return Price(
        sum(known) if known else (drops[0] if drops else _NO_DROPS),
        sum(lost) if lost else (_NO_ARRIVING if compared else _NO_BEFORE),
    )


def worst_of(old: Incident | None, price: Price, wall_ns: int) -> tuple[Price, int]:
    if old is None or cost_of_price(price) > cost_of_price(old.worst):
        return price, wall_ns
    return old.worst, old.worst_ns


def cost_of_price(price: Price) -> tuple[float, float]:
    return number_or(price.drops_per_s, 0.0), number_or(price.lost_packets_per_s, 0.0)


@dataclass(frozen=True, slots=True)
class DropCount:
    """Packets dropped in an incident, by the NFs' own intervals, so that nothing counts twice.

    Attributes:
        total: of the time that is counted; a reason before the first number.
        lag_s: by `NfRow.key`, seconds of the incident whose drops are not in `total`, so far.
        uncounted: by `NfRow.key`, what no later number has.
    """

    total: Reading = _NO_DROPS
    lag_s: Mapping[str, float] = field(default_factory=dict)
    uncounted: Mapping[str, Uncounted] = field(default_factory=dict)


def count_drops(old: DropCount, victims: Iterable[NfRow], frame: Frame) -> DropCount:
    """One tick more. A source that was late has a longer interval, which makes up for it."""
    total, lag_s, uncounted = old.total, dict(old.lag_s), dict(old.uncounted)
    passed_s = frame.elapsed_s
    for nf in victims:
        rate = nf.readings["drop_packets_per_s"]
        counted_s = frame.interval_s if nf.interval_s is None else nf.interval_s
        lag_s[nf.key] = lag_s.get(nf.key, 0.0) + passed_s
        if isinstance(rate, Missing) or counted_s is None:
            why = rate if isinstance(rate, Missing) else _NO_INTERVAL
            never = why.reason in _NEVER
            if isinstance(total, Missing) and not never:
                total = why
            known = uncounted.get(nf.key)
            if never and known is None:
                uncounted[nf.key] = Uncounted(nf.name, None, why.message)
            elif not never:
                seconds = max(lag_s[nf.key], passed_s)
                uncounted[nf.key] = Uncounted(nf.name, seconds, why.message)
            continue
        if counted_s > 0:  # else it is the reading of a tick before
            total = rate * counted_s + number_or(total, 0.0)
            lag_s[nf.key] = max(lag_s[nf.key] - counted_s, 0.0)
            _settle(uncounted, nf, lag_s[nf.key], passed_s)
    return DropCount(total, lag_s, uncounted)


def _settle(uncounted: dict[str, Uncounted], nf: NfRow, lag_s: float, passed_s: float) -> None:
    """What a new number of an NF leaves uncounted: nothing if its interval reaches back."""
    known = uncounted.get(nf.key)
    if lag_s > max(_LEAST_LAG_S, passed_s / 2):
        why = _BETWEEN if known is None else known.why
        uncounted[nf.key] = Uncounted(nf.name, lag_s, why)
    elif known is not None:
        del uncounted[nf.key]


def dropped_before(
    nfs: Iterable[NfRow], inputs: FindingInputs, began_ns: int, counted_ns: Mapping[str, int]
) -> DropCount:
    """From the begin of an incident to the tick before this one, in no other incident."""
    until_ns = inputs.frame.monotonic_ns - round(inputs.frame.elapsed_s * 1e9)
    total: Reading = _NO_DROPS
    lag_s = dict[str, float]()
    for nf in nfs:
        first_ns = max(began_ns, counted_ns.get(nf.key, -1) + 1)
        points = _points_until(inputs, nf, until_ns)
        for before, point in pairwise(points):
            if point.monotonic_ns < first_ns:
                continue
            seconds = (point.monotonic_ns - before.monotonic_ns) / 1e9
            if math.isnan(point.dropped):
                lag_s[nf.key] = lag_s.get(nf.key, 0.0) + seconds
            else:
                total = point.dropped * seconds + number_or(total, 0.0)
        # Points are about a second apart: of the last ticks there may be none.
        last_ns = max(first_ns, points[-1].monotonic_ns) if points else until_ns
        lag_s[nf.key] = lag_s.get(nf.key, 0.0) + max(until_ns - last_ns, 0) / 1e9
    return DropCount(total, lag_s)


def _points_until(inputs: FindingInputs, nf: NfRow, until_ns: int) -> list[RecentPoint]:
    points = inputs.recent.get(nf.key, RecentRates()).points
    return [point for point in points if point.monotonic_ns <= until_ns]


# Values of a trace: of the onset, from a minute before it to a minute after, and since.
_ONSET_S, _ONSET_STEP_S = 60.0, 2.0
_ONSET_VALUES = round(2 * _ONSET_S / _ONSET_STEP_S)
_MOST_SINCE = 128
_MOST_TRACES = 4


class Begin(NamedTuple):
    """Wall time of an incident's begin, and CLOCK_MONOTONIC; the others as of `Incident`."""

    since_ns: int
    began_ns: int
    is_bound: bool = False
    counted_from_ns: int = 0


def follow_traces(
    old: Sequence[VictimTrace], victims: Sequence[NfRow], inputs: FindingInputs, begin: Begin
) -> tuple[VictimTrace, ...]:
    """Traces of victims with this tick. New ones begin with what is known from before."""
    now_ns = inputs.frame.monotonic_ns
    known = {trace.key: trace for trace in old}
    for nf in victims:
        if nf.key not in known and len(known) < _MOST_TRACES:
            known[nf.key] = _begun(nf, _points_until(inputs, nf, now_ns - 1), begin)
    now = {nf.key: number_or(throughput_of(nf)[1], math.nan) for nf in victims}
    return tuple(
        _with_value(trace, now_ns, now[trace.key]) if trace.key in now else trace
        for trace in known.values()
    )


def _begun(nf: NfRow, points: Iterable[RecentPoint], begin: Begin) -> VictimTrace:
    onset_ns = round(_ONSET_S * 1e9)
    trace = VictimTrace(
        nf.key,
        begin.since_ns - onset_ns,
        _ONSET_STEP_S,
        began_ns=begin.began_ns - onset_ns,
        sent=throughput_of(nf)[0].startswith("tx"),
    )
    for point in points:
        trace = _with_value(trace, point.monotonic_ns, point.throughput)
    return trace


def _with_value(trace: VictimTrace, monotonic_ns: int, value: float) -> VictimTrace:
    number = None if math.isnan(value) else value
    since_ns = monotonic_ns - trace.began_ns
    at = int(since_ns // round(trace.onset_step_s * 1e9))
    if at < 0:
        return trace
    if at < _ONSET_VALUES:
        onset, count = _added(trace.onset, trace.count, at, number)
        return replace(trace, onset=onset, count=count)
    after_ns = since_ns - round(_ONSET_VALUES * trace.onset_step_s * 1e9)
    since, step_s, count = trace.since, trace.step_s, trace.count if trace.since else 0
    while after_ns // round(step_s * 1e9) >= _MOST_SINCE:
        since, step_s, count = _halved(since), 2 * step_s, 1
    since, count = _added(since, count, int(after_ns // round(step_s * 1e9)), number)
    return replace(trace, since=since, step_s=step_s, count=count)


def _added(
    values: tuple[float | None, ...], count: int, at: int, number: float | None
) -> tuple[tuple[float | None, ...], int]:
    """With a number in one of the values, a mean of `count` if it is the last; and its count."""
    if number is None or at < len(values) - 1:
        return values, count
    if at == len(values) - 1:
        last = values[-1]
        mean = number if last is None else last + (number - last) / (count + 1)
        return (*values[:-1], mean), 1 if last is None else count + 1
    return (*values, *(None,) * (at - len(values)), number), 1


def _halved(values: tuple[float | None, ...]) -> tuple[float | None, ...]:
    """Means of pairs."""
    pairs = [values[at : at + 2] for at in range(0, len(values), 2)]
    means = ([item for item in pair if item is not None] for pair in pairs)
    return tuple(sum(known) / len(known) if known else None for known in means)
