"""Victims and price of an incident: what it harms, what it costs now, and in all."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from nftop.derive.incidents.parties import nf_party
from nftop.derive.nf.recent import Recent, RecentRates, cost_of, throughput_of
from nftop.model.frame import Frame, NfRow
from nftop.model.incident import Incident, Price, Victim
from nftop.model.missing import Missing, Reading, Reason

# Smaller changes of throughput are no harm worth a name.
_LEAST_CHANGE = 0.005
_NO_BEFORE = Missing(Reason.WARMING, "nothing is known of it from before")
_NO_ARRIVING = Missing(Reason.SOURCE, "no victim counts the packets that arrive")
_NO_DROPS = Missing(Reason.SOURCE, "no victim counts drops")
_NO_INTERVAL = Missing(Reason.WARMING, "the time that its rate is of is not known")
# Reasons of a victim that never counts drops.
_NEVER = (Reason.SOURCE, Reason.HARDWARE, Reason.UNDEFINED)


def number_of(reading: Reading) -> float:
    return 0.0 if isinstance(reading, Missing) else reading


def before_of(recent: Recent, nf: NfRow, began_ns: int) -> tuple[Reading, Reading]:
    """Throughput and cost of an NF before an incident."""
    rates = recent.get(nf.key, RecentRates())
    return (
        rates.before(began_ns, lambda point: point.throughput),
        rates.before(began_ns, lambda point: point.cpp),
    )


def victim_of(nf: NfRow, before: tuple[Reading, Reading]) -> Victim:
    metric, now = throughput_of(nf)
    cost = cost_of(nf)
    sent_before, cost_before = before
    change = _change(sent_before, now)
    drops = nf.readings["drop_packets_per_s"]
    common = {"drops_per_s": drops, "cpp_before": cost_before, "cpp_now": cost}
    dropping = not isinstance(drops, Missing) and drops > 0
    small = isinstance(change, Missing) or abs(change) < _LEAST_CHANGE
    cost_change = _change(cost_before, cost)
    dearer = not isinstance(cost_change, Missing) and cost_change >= _LEAST_CHANGE
    if small and dearer and not dropping:
        name = "cpp" if isinstance(nf.readings["busy_cpp"], Missing) else "busy_cpp"
        return Victim(nf_party(nf), name, cost_before, cost, cost_change, **common)
    return Victim(nf_party(nf), metric, sent_before, now, change, **common)


def _change(before: Reading, now: Reading) -> Reading:
    if isinstance(before, Missing):
        return before
    if isinstance(now, Missing):
        return now
    return now / before - 1 if before > 0 else _NO_BEFORE


def loss_of(victim: Victim) -> float:
    """Packets per second that it drops; else a cost that rose."""
    return number_of(victim.drops_per_s) or (
        number_of(victim.change) if victim.metric.endswith("cpp") else 0.0
    )


def price_of(
    victims: Sequence[NfRow], before: Mapping[str, tuple[Reading, Reading]], recent: Recent
) -> Price:
    """Drops and lost packets of all victims that count them."""
    drops = [nf.readings["drop_packets_per_s"] for nf in victims]
    known = [item for item in drops if not isinstance(item, Missing)]
    lost: list[float] = []
    for nf in victims:
        sent_before, now = before[nf.key][0], throughput_of(nf)[1]
        if isinstance(sent_before, Missing) or isinstance(now, Missing):
            continue
        point = recent.get(nf.key, RecentRates()).now
        if point is None or math.isnan(point.arriving):
            continue
        # What fewer packets arrive is not lost.
        lost.append(max(min(sent_before, point.arriving) - now, 0.0))
    compared = any(not isinstance(before[nf.key][0], Missing) for nf in victims)
    return Price(
        sum(known) if known else (drops[0] if drops else _NO_DROPS),
        sum(lost) if lost else (_NO_ARRIVING if compared else _NO_BEFORE),
    )


def worst_of(old: Incident | None, price: Price, wall_ns: int) -> tuple[Price, int]:
    if old is None or cost_of_price(price) > cost_of_price(old.worst):
        return price, wall_ns
    return old.worst, old.worst_ns


def cost_of_price(price: Price) -> tuple[float, float]:
    return number_of(price.drops_per_s), number_of(price.lost_packets_per_s)


def dropped_since(old: Incident | None, victims: Iterable[NfRow], frame: Frame) -> Reading:
    """Packets dropped since it began; NFs' own intervals, so that nothing counts twice.

    Missing if they were not known at its begin: no later number has those.
    """
    total: Reading = _NO_DROPS if old is None else old.dropped
    if isinstance(total, Missing) and total.reason not in _NEVER:
        return total
    unknown: Missing | None = None
    for nf in victims:
        rate = nf.readings["drop_packets_per_s"]
        seconds = frame.interval_s if nf.interval_s is None else nf.interval_s
        if isinstance(rate, Missing) or seconds is None:
            missing = rate if isinstance(rate, Missing) else _NO_INTERVAL
            unknown = unknown or (None if missing.reason in _NEVER else missing)
            continue
        dropped = rate * seconds
        total = dropped if isinstance(total, Missing) else total + dropped
    return unknown if isinstance(total, Missing) and unknown is not None else total


def dropped_before(
    nfs: Iterable[NfRow], recent: Recent, began_ns: int, counted_ns: Mapping[str, int]
) -> float:
    """Packets dropped from the begin of an incident to the tick before this one, in no other."""
    total = 0.0
    for nf in nfs:
        first_ns = max(began_ns, counted_ns.get(nf.key, -1) + 1)
        points = recent.get(nf.key, RecentRates()).points[:-1]
        for before, point in pairwise(points):
            if point.monotonic_ns >= first_ns and not math.isnan(point.dropped):
                total += point.dropped * (point.monotonic_ns - before.monotonic_ns) / 1e9
    return total


def sum_of(reading: Reading, more: float) -> Reading:
    return reading if isinstance(reading, Missing) else reading + more
