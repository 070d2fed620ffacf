"""Many hosts before and after a change, paired by host.

Each host gives one difference of each number: that of its medians, of losses as it is, of others
that of their logarithms. The signed-rank test finds what most hosts have in common; noise within a
host, drift and the time of day are in the differences. A host with 0 on both sides has no say. A
host is left out of a number where load or empty polls make its two values incomparable, so that the
choice does not depend on the direction of the difference. A load that moved on most hosts, on each
of them by too little to show, withholds what follows the load. Of all numbers that enough hosts
have, Benjamini and Hochberg's procedure keeps the share of false differences at 5 %, of all loads
too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from nftop.derive.compare.comparability import (
    COSTS,
    DROPS,
    LOSSES,
    PACKETS,
    load_moved,
    neutral,
    summed,
)
from nftop.derive.compare.intervals import Entity, EntityRow
from nftop.derive.compare.intervals_report import Comparison, EntityReport, is_same_clock, ordered
from nftop.derive.compare.metric import (
    DIFFERS,
    LEAST_RATIO,
    LEAST_SAMPLES,
    Code,
    Compared,
    Word,
    direction,
    measured,
)
from nftop.derive.compare.ranksum import ALPHA, adjusted, centre, least_hosts, signed_rank
from nftop.model.column import Floats
from nftop.model.median import median
from nftop.model.metrics.ports import OTHER_LOSSES
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.number_text import counted
from nftop.model.struct import dataclass, replace

# The fewest hosts that can give an answer.
HOSTS_NEEDED = least_hosts()
RULE_HOSTS = (
    "change: Hodges-Lehmann estimate over hosts, of after / before, of losses the difference, and "
    "its 95 % interval, without hosts that have 0 on both sides; a difference is "
    f"{LEAST_RATIO * 100:g} % or more, of losses also 1 of a million offered packets, by signed "
    f"ranks (exact up to 25 hosts), with {ALPHA * 100:g} % false ones among all "
    "(Benjamini-Hochberg)"
)
# Not measured but written: no test counts it.
_SETTING = "capacity_bytes"
_INCOMPARABLE: tuple[Code, ...] = ("load_moved", "empty_polls", "busy_unknown")
_NEUTRAL: Mapping[Word, Word] = {"better": "more", "worse": "less"}  # of packets
_LEAST_LOSS_RATIO = 1e-6  # of the offered packets: 1 % of no losses is nothing
_ROUNDING = 1e-9  # of a probability
_MOST_NAMED, _LONGEST_NAME = 10, 64  # hosts in a reason, characters of one
_DIGITS = 12  # of a logarithm; differences beyond are rounding
HostCode: TypeAlias = (
    Code
    | Literal["only_before", "only_after", "overlap", "other_machine", "no_number", "unreadable"]
)
_NO_ESTIMATE = Missing(Reason.UNDEFINED, "no host has it on both sides")
_FROM_NOTHING = Missing(Reason.UNDEFINED, "it was 0 before")
_NO_DIRECTION = Missing(Reason.UNDEFINED, "its direction is not that of the estimate")


class LeftOut(NamedTuple):
    """A host that is no pair, and why; the host's name is untrusted text."""

    host: str
    why: str
    code: HostCode


class HostPair(NamedTuple):
    """A host's own comparison, made with `zero_losses`; `tsc_hz` is NaN if unknown."""

    host: str
    comparison: Comparison
    tsc_hz: float = math.nan


class HostChange(NamedTuple):
    """One number of one host: medians, and the host's own word."""

    host: str
    before: float
    after: float
    word: Word


@dataclass(frozen=True, slots=True)
class HostsRow:
    """One metric of one entity over hosts.

    Attributes:
        result: medians over hosts; `change_ratio` is `change` if `relative`, else the median of
            their ratios.
        changes: of each paired host, by name.
        relative: the estimate and its interval are ratios (inf from 0); else in the metric's unit.
        change, low, high: the estimate and its interval; Missing if there is none.
        least: the least change that is a difference. differing: hosts with a change.
        p, q: probability of the test, and adjusted for all that were tested; None if not tested.
        against: paired hosts that changed in the other direction than the estimate.
        left_out: hosts that have the entity on both sides and are no pair here.
    """

    result: Compared
    changes: tuple[HostChange, ...]
    relative: bool
    change: Reading
    low: Reading
    high: Reading
    least: float
    differing: int
    p: float | None
    q: float | None
    against: tuple[str, ...]
    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True, slots=True)
class HostsReport:
    """One entity over hosts.

    Attributes:
        rows: its metrics; of losses those that a host has.
        left_out: hosts that have it on one side only.
        word, why: overall result of a network function; "no number" for others.
        notes: further facts, sentences.
    """

    entity: Entity
    rows: tuple[HostsRow, ...]
    left_out: tuple[LeftOut, ...]
    word: Word = "no number"
    why: str = ""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostsComparison:
    """Comparison over hosts.

    Attributes:
        hosts: all that have both sides, by name.
        reports: entities that a host has; without rows if none has them on both sides.
        tested: numbers that were tested.
        needed: hosts from which one of them that changes on all hosts would be found.
    """

    hosts: tuple[str, ...]
    reports: tuple[HostsReport, ...]
    tested: int
    needed: int


def compare_hosts(pairs: Sequence[HostPair]) -> HostsComparison:
    """Compare over hosts; each name is there once."""
    of_entity: dict[Entity, dict[str, EntityReport]] = {}
    left_out: dict[Entity, list[LeftOut]] = {}
    for pair in pairs:
        for own in pair.comparison.reports:
            of_entity.setdefault(own.entity, {})[pair.host] = own
        sides: tuple[tuple[HostCode, str, tuple[Entity, ...]], ...] = (
            ("only_before", "before", pair.comparison.only_a),
            ("only_after", "after", pair.comparison.only_b),
        )
        for code, side, entities in sides:
            for entity in entities:
                item = LeftOut(pair.host, f"only {side} the change", code)
                left_out.setdefault(entity, []).append(item)
    known = ordered({*of_entity, *left_out})
    loads = _moves(
        {
            entity: [own for own in hosts.values() if not own.full and not own.load_moved]
            for entity, hosts in of_entity.items()
        }
    )
    loaded = bool(_moves({entity: hosts.values() for entity, hosts in of_entity.items()}))
    rows_of = {
        entity: list(_rows(of_entity.get(entity, {}), loads.get(entity), loaded=loaded))
        for entity in known
    }
    tests = [row.p for rows in rows_of.values() for row in rows if row.p is not None]
    rates = iter(adjusted(np.array(tests)).tolist())
    tested, needed = len(tests), least_hosts(max(1, len(tests)))
    reports = []
    for entity, rows in rows_of.items():
        rated = [row if row.p is None else replace(row, q=next(rates)) for row in rows]
        decided = _neutral([_worded(row, tested, needed) for row in rated])
        report = HostsReport(entity, decided, tuple(left_out.get(entity, ())))
        if entity.kind == "nf":
            word, why = summed([row.result for row in decided], loads.get(entity))
            if word == "no difference":
                word, why = _by_itself(decided, len(of_entity.get(entity, {}))) or (word, why)
            notes = _clock_notes(pairs, of_entity.get(entity, {}))
            report = replace(report, word=word, why=why, notes=notes)
        reports.append(report)
    hosts = tuple(sorted(pair.host for pair in pairs))
    return HostsComparison(hosts, tuple(reports), tested, needed)


def _by_itself(rows: Sequence[HostsRow], count: int) -> tuple[Word, str] | None:
    """`3 of 7 hosts worse: edge-5, edge-6, edge-7` where hosts differ, though not together."""
    texts = []
    for word in ("worse", "better"):
        ids = (*COSTS, *PACKETS, *(OTHER_LOSSES if word == "worse" else ()))
        open_rows = [row for row in rows if row.result.word not in DIFFERS]
        own = sorted(
            {
                item.host
                for row in open_rows
                if row.result.metric.id in ids
                for item in row.changes
                if item.word == word
            }
        )
        more = f" and {len(own) - _MOST_NAMED} more" if len(own) > _MOST_NAMED else ""
        names = ", ".join(name[:_LONGEST_NAME] for name in own[:_MOST_NAMED])
        texts += [f"{len(own)} of {count} hosts {word}: {names}{more}"] if own else []
    return ("inconclusive", "; ".join(texts)) if texts else None


def _moves(reports: Mapping[Entity, Iterable[EntityReport]]) -> dict[Entity, float]:
    """Changes of loads over hosts that chance hardly gives among so many network functions.

    Less strict than a difference, as of two intervals: it only withholds comparisons.
    """
    changes: dict[Entity, float] = {}
    tests: list[float] = []
    for entity, hosts in reports.items():
        loads = [own.offered for own in hosts if own.offered and min(own.offered) > 0]
        sides = np.array(loads, dtype=np.float64).reshape(-1, 2)
        differences = _differences(sides[:, 0], sides[:, 1], relative=True)
        if np.count_nonzero(differences) >= HOSTS_NEEDED:
            changes[entity] = math.expm1(centre(differences)[0])
            tests.append(signed_rank(differences))
    rates = zip(changes.items(), adjusted(np.array(tests)).tolist(), strict=True)
    return {
        entity: change
        for (entity, change), q in rates
        if q <= ALPHA + _ROUNDING and abs(change) >= LEAST_RATIO
    }


def _clock_notes(pairs: Sequence[HostPair], hosts: Mapping[str, EntityReport]) -> tuple[str, ...]:
    """A note with the clocks of CPP and their hosts, if there are several; else none."""
    clocks: Counter[tuple[str, float]] = Counter()
    for pair in pairs:
        clock = hosts[pair.host].clock if pair.host in hosts else None
        if clock is not None:
            hz = 0.0 if clock == "core" or math.isnan(pair.tsc_hz) else pair.tsc_hz
            same = (key for key in clocks if key[0] == clock and is_same_clock(key[1], hz))
            clocks[next(same, (clock, hz))] += 1
    counts = ", ".join(
        f"{clock}{f' {hz / 1e9:.2f} GHz' * (hz > 0)} on {counted(count, 'host')}"
        for (clock, hz), count in clocks.items()
    )
    text = (
        f"CPP counts cycles of several clocks ({counts}): before and after mix them, each change "
        "is of one; where it is not core, changes of the frequency are in it"
    )
    return (text,) if len(clocks) > 1 else ()


def _rows(
    hosts: Mapping[str, EntityReport], load: float | None, *, loaded: bool
) -> Iterable[HostsRow]:
    """A row of each metric, without a word; none of losses that no host has.

    `load`: of `_moves`, of this network function. `loaded`: any moved.
    """
    by_metric: dict[str, dict[str, EntityRow]] = {}
    for host, own in sorted(hosts.items()):
        for row in own.rows:
            under = _under_load(row, own, load, loaded=loaded)
            by_metric.setdefault(row.result.metric.id, {})[host] = under
    offered = {host: min(own.offered) for host, own in hosts.items() if own.offered}
    for rows in by_metric.values():
        result = _row(rows, offered)
        if result is not None:
            yield result


def _is_worse_per_packet(losses: HostsRow, rows: Sequence[HostsRow]) -> bool:
    """Whether losses rose more than packets did, by the medians of hosts that have both."""
    packets = {
        item.host: item
        for row in rows
        if row.result.metric.id == "packets_per_s"
        for item in row.changes
        if item.before > 0 and item.after > 0
    }
    known = [item for item in losses.changes if item.host in packets]
    if len(known) < HOSTS_NEEDED:
        return True
    before = np.array([item.before / packets[item.host].before for item in known])
    after = np.array([item.after / packets[item.host].after for item in known])
    relative = bool((before > 0).all() and (after > 0).all())
    differences = _differences(before, after, relative=relative)
    least = LEAST_RATIO if relative else LEAST_RATIO * median(before)
    return centre(differences)[0] > least and signed_rank(differences) <= ALPHA + _ROUNDING


def _neutral(rows: Sequence[HostsRow]) -> tuple[HostsRow, ...]:
    """Rows where more packets are a merit only if they cost less, or fewer are lost.

    And more of other losses are a fault only if they are more for each packet.
    """
    rows = [
        replace(row, result=replace(row.result, word="more"))
        if row.result.metric.id in OTHER_LOSSES
        and row.result.word == "worse"
        and not _is_worse_per_packet(row, rows)
        else row
        for row in rows
    ]
    words = {row.result.word for row in rows if row.result.metric.id in (*COSTS, *DROPS)}
    return tuple(
        replace(row, result=replace(row.result, word=_NEUTRAL[row.result.word]))
        if row.result.metric.id == "packets_per_s" and row.result.word in _NEUTRAL.keys() - words
        else row
        for row in rows
    )


def _under_load(
    row: EntityRow, own: EntityReport, load: float | None, *, loaded: bool
) -> EntityRow:
    """A row where the load moved over hosts: what follows it is neither better nor worse."""
    metric, is_nf = row.result.metric, own.entity.kind == "nf"
    if own.full or (load is None if is_nf else not loaded):
        return row
    if (used := neutral(metric, is_nf=is_nf)) is not metric:
        return replace(row, result=replace(row.result, metric=used))
    if row.incomparable[1]:
        return row
    return replace(row, incomparable=(load_moved(load or 0.0), "load_moved"))


def _row(hosts: Mapping[str, EntityRow], offered: Mapping[str, float]) -> HostsRow | None:
    """A metric's row; None of losses that no host has. `offered`: packets/s by host."""
    left_out, changes, goods = [], [], set()
    results = [row.result for row in hosts.values()]
    for host, row in hosts.items():
        result = row.result
        reason = _left_out(host, row)
        if reason is not None:
            left_out.append(reason)
        elif not isinstance(result.before, Missing) and not isinstance(result.after, Missing):
            changes.append(HostChange(host, result.before, result.after, result.word))
            goods.add(result.metric.good)
    before = np.array([item.before for item in changes], dtype=np.float64)
    after = np.array([item.after for item in changes], dtype=np.float64)
    metric = results[0].metric
    if metric.id in LOSSES and not any(map(_has_any, results)):
        return None
    # Good or bad only where it is on all hosts.
    metric = replace(metric, good=goods.pop() if len(goods) == 1 else None)
    numbers = measured(metric, before, after, _NO_ESTIMATE)
    relative = metric.id not in DROPS
    differences = _differences(before, after, relative=relative)
    differing = int(np.count_nonzero(differences))
    is_test = metric.id != _SETTING and differing >= HOSTS_NEEDED
    # Hosts without it on both sides count neither in the estimate nor in its limit.
    has = (before != 0) | (after != 0) if before.any() or after.any() else before == 0
    change, low, high = _estimate(differences[has], relative=relative)
    least = LEAST_RATIO
    if not relative and has.any():
        loads = [
            offered[item.host]
            for item, any_ in zip(changes, has.tolist(), strict=True)
            if any_ and item.host in offered
        ]
        share = _LEAST_LOSS_RATIO * median(loads) if loads else 0.0
        least = max(LEAST_RATIO * median(before[has]), share)
    against = tuple(
        item.host
        for item, difference in zip(changes, differences.tolist(), strict=True)
        if not isinstance(change, Missing) and difference * change < 0
    )
    ratio = change if relative else _ratio(before[has], after[has], change)
    numbers = replace(numbers, change_ratio=ratio)
    return HostsRow(
        numbers,
        tuple(changes),
        relative,
        change,
        low,
        high,
        least,
        differing,
        signed_rank(differences) if is_test else None,
        None,
        against,
        tuple(left_out),
    )


def _differences(before: Floats, after: Floats, *, relative: bool) -> Floats:
    """Of logarithms or numbers; rounding makes no difference, and equal ratios are ties."""
    if relative:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.where(after == before, 0.0, np.log(after / before).round(_DIGITS))
    return np.where(np.isclose(after, before, rtol=10.0**-_DIGITS, atol=0), 0.0, after - before)


def _has_any(result: Compared) -> bool:
    """Whether a median is a number other than 0."""
    sides = result.before, result.after
    return any(item != 0 for item in sides if not isinstance(item, Missing))


def _left_out(host: str, row: EntityRow) -> LeftOut | None:
    result, (why, code) = row.result, row.incomparable
    counts = result.n_before, result.n_after
    if not all(counts):
        one_side = "no number before" if not counts[0] else "no number after"
        why = one_side if any(counts) else result.why or "no number"
        return LeftOut(host, why, "no_number")
    if code:
        return LeftOut(host, why, code)
    if min(counts) < LEAST_SAMPLES:
        fewest = f"{counted(min(counts), 'sample')}, {LEAST_SAMPLES} are needed"
        return LeftOut(host, fewest, "few_samples")
    return None


def _estimate(differences: Floats, *, relative: bool) -> tuple[Reading, Reading, Reading]:
    if not len(differences):
        return _NO_ESTIMATE, _NO_ESTIMATE, _NO_ESTIMATE
    middle, interval = centre(differences)
    back = math.expm1 if relative else float
    if interval is None:
        few = Missing(Reason.UNDEFINED, f"fewer than {HOSTS_NEEDED} hosts")
        return back(middle), few, few
    return back(middle), back(interval[0]), back(interval[1])


def _ratio(before: Floats, after: Floats, change: Reading) -> Reading:
    """A difference for a sentence: the median of ratios, if its direction is that of `change`."""
    if isinstance(change, Missing):
        return _NO_ESTIMATE
    if not before.all():
        return _FROM_NOTHING
    ratio = median(after / before) - 1
    return ratio if ratio * change > 0 else _NO_DIRECTION


def _worded(row: HostsRow, tested: int, needed: int) -> HostsRow:
    """With word, reason and code. `tested`, `needed`: as in `HostsComparison`."""
    word, why, code = _word(row, tested, needed)
    incomparable = [item for item in row.left_out if item.code in _INCOMPARABLE]
    if not row.changes:
        # As in a comparison of two intervals: the numbers are there, but can't be compared.
        few = [item for item in row.left_out if item.code == "few_samples"]
        most = max(_INCOMPARABLE, key=[item.code for item in incomparable].count)
        word, code = ("inconclusive", most) if incomparable else ("no number", "")
        if len(few) > len(incomparable):
            word, code, incomparable = "too few samples", "few_samples", few
        reasons = {item.why for item in incomparable or row.left_out}
        why = reasons.pop() if len(reasons) == 1 else "no host is a pair" if reasons else ""
    elif word == "inconclusive" and row.result.metric.id == _SETTING:
        up = not isinstance(row.change, Missing) and row.change > 0
        word, why, code = direction(row.result.metric, up=up), "a setting, not tested", ""
    if row.result.metric.id in OTHER_LOSSES and word == "better":
        word = "less"  # there may have been fewer packets to lose
    lacking = max(0, HOSTS_NEEDED - len(row.changes)) if code == "few_hosts" else 0
    result = replace(row.result, word=word, why=why, code=code, lacking=(lacking, lacking))
    return replace(row, result=result)


def _word(row: HostsRow, tested: int, needed: int) -> tuple[Word, str, Code]:
    hosts, change = len(row.changes), row.change
    if isinstance(change, Missing) or hosts < HOSTS_NEEDED:
        more = "1 more host" if hosts == HOSTS_NEEDED - 1 else f"{HOSTS_NEEDED - hosts} more hosts"
        return "too few hosts", f"at least {more}", "few_hosts"
    chance = row.p is not None and row.p > ALPHA + _ROUNDING
    if change == 0 or abs(change) < row.least or chance:
        return "no difference", "", ""
    if row.p is None or row.q is None:
        why = f"{row.differing} of {hosts} hosts differ, at least {HOSTS_NEEDED} are needed"
        return "inconclusive", why, "few_hosts"
    if row.q > ALPHA + _ROUNDING:
        why = f"p = {row.p:.2g} may be chance: one of {tested} numbers shows from {needed} hosts on"
        return "inconclusive", why, "many_numbers"
    ends = [end for end in (row.low, row.high) if not isinstance(end, Missing)]
    if min(ends, default=change) <= 0 <= max(ends, default=change):
        why = f"{row.differing} of {hosts} hosts differ, and the interval contains 0"
        return "inconclusive", why, "few_hosts"
    return direction(row.result.metric, up=change > 0), "", ""
