"""Effect of a change of cache classes: the numbers before and after it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import numpy as np

from nftop.derive.cache.changes import groups_in, together
from nftop.derive.cache.ways import in_use
from nftop.derive.compare.comparability import comparable_row, is_full, summed
from nftop.derive.compare.metric import Compared, Word, compared, moved
from nftop.derive.compare.settling import STANDS, Sides, SideSamples, Term, sides_of, split
from nftop.derive.compare.window import BUSY_RATIO, ClassKey, Window, clock_indices
from nftop.model.change import IO_KINDS, Cell, Change, Noticed
from nftop.model.clock import NS_PER_S
from nftop.model.column import Floats
from nftop.model.frame import Frame, GroupRow, NfRow, base_clock
from nftop.model.ids import L3Domain
from nftop.model.median import median
from nftop.model.metrics.catalogue import cpu_metric
from nftop.model.metrics.group import GROUP_METRICS
from nftop.model.metrics.metric import Metric, is_bound
from nftop.model.metrics.nf import NF_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.struct import dataclass, replace

NO_SAMPLE = Missing(Reason.WARMING, "no sample of it yet")
_NF = {metric.id: metric for metric in NF_METRICS}
_ROWS = ("packets_per_s", "drop_packets_per_s", "cpp", "busy_cpp", "ipc", "llc_misses_per_packet")


@dataclass(frozen=True, slots=True)
class VerdictSection:
    """One class or one network function.

    Attributes:
        name: of a class its group's (`rdt.ROOT` for the root group); untrusted text.
        groups: classes in effect on a network function's cores; a class' own name.
        rows: its metrics.
        word, why: overall result, as in `Compared`.
        changed: it is (in) a changed class, else in one whose ways overlap.
        key: of a network function's row in `Window.nfs`; None for a class.
        offered_ratio: change of the load offered to a network function; None where none shows.
    """

    kind: Literal["class", "nf"]
    name: str
    groups: tuple[str, ...]
    rows: tuple[Compared, ...]
    word: Word
    why: str = ""
    changed: bool = False
    key: str | None = None
    offered_ratio: float | None = None


def nf_section(window: Window, sides: Sides, nf: NfRow, groups: tuple[str, ...]) -> VerdictSection:
    """Result for a network function in the classes `groups`."""
    track = window.nfs
    new = track.new(nf.key)

    def both(name: str) -> SideSamples:
        return split(track.times_ns, new, _of_one_clock(window, nf, name), sides)

    offered = moved(*both("offered_packets_per_s")[:2])
    full = track.of(nf.key, "saturated")
    known = split(track.times_ns, new, np.isfinite(full).astype(np.float64), sides)
    busy = tuple(map(is_full, both("saturated")[:2], known[:2]))
    reasons = _reasons(window.frame, nf)
    rows = []
    for name in _ROWS:
        metric = _NF.get(name) or cpu_metric(name)
        row = row_of(metric, both(name), reasons.get(name, NO_SAMPLE), sides)
        if name != "drop_packets_per_s" or _is_any(row.before) or _is_any(row.after):
            rows.append(comparable_row(row, busy, offered))
    rows = [replace(row, bounds=_bounds(row.metric, busy, nf)) for row in rows]
    word, why = summed(rows, offered if None in busy or False in busy else None)
    return VerdictSection(
        "nf", nf.name, groups, tuple(rows), word, why, key=nf.key, offered_ratio=offered
    )


def _bounds(metric: Metric, busy: Sequence[bool | None], nf: NfRow) -> tuple[bool, bool]:
    """Whether either side may include empty polls; only core cycles are a bound."""
    was, now = (is_bound(metric, saturated=item, clock=nf.cpp_clock) for item in busy)
    return was, now


def _of_one_clock(window: Window, nf: NfRow, name: str) -> Floats:
    """A metric of a network function; cycles of its present clock only."""
    values = window.nfs.of(nf.key, name)
    if name not in ("cpp", "busy_cpp") or nf.cpp_clock is None:
        return values
    same = np.isin(window.nfs.of(nf.key, "clock"), clock_indices(base_clock(nf.cpp_clock)))
    return np.where(same, values, np.nan)


def _is_any(reading: Reading) -> bool:
    return not isinstance(reading, Missing) and reading > 0


def _reasons(frame: Frame, nf: NfRow) -> Mapping[str, Missing]:
    """Reasons of a network function's missing metrics."""
    reasons = {name: item for name, item in nf.readings.items() if isinstance(item, Missing)}
    if nf.problem is not None:
        reasons["packets_per_s"] = nf.problem
    if nf.shared is not None:
        return reasons | dict.fromkeys(("ipc", "llc_misses_per_packet"), nf.shared)
    cpus = frame.cpus
    for name in ("ipc", "llc_misses_per_packet"):
        for cpu in nf.cpus:
            row = cpus.topology.row_of.get(cpu)
            reading = NO_SAMPLE if row is None else cpus.columns[name][row]
            if isinstance(reading, Missing):
                reasons.setdefault(name, reading)
    return reasons


def row_of(metric: Metric, both: SideSamples, why: Missing, sides: Sides) -> Compared:
    row = compared(
        metric,
        both.before,
        both.after,
        why,
        over=sides.over,
        earlier=both.earlier,
        most_after=both.most_after,
    )
    row = replace(row, samples=(tuple(both.before.tolist()), tuple(both.after.tolist())))
    if row.n_before and not (sides.settled or sides.over):
        return replace(row, word="settling", why="", code="")
    return row


_GROUP = {metric.id: metric for metric in GROUP_METRICS}
_IDLE = Missing(Reason.IDLE, f"none of its CPUs is busy for {BUSY_RATIO:.0%} of the time")
_NO_CPU = Missing(Reason.UNDEFINED, "no CPU at this cache")
_L3 = ("L3", "L3DATA", "L3CODE")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Effect of one change.

    Attributes:
        changed_at_ns: CLOCK_MONOTONIC of the change.
        groups: names of the changed classes.
        left_out_s: seconds after the change that are excluded, since occupancy still moved.
        settled: whether these are over. over: no more samples will come.
        span_s: seconds after those that count at most.
        taken_back_s: seconds from the change to its revert, or None.
        noticed: the observed change, or several if they did not settle in between.
        notes: further facts, sentences.
        sections: changed classes first, then overlapping ones; a class before its NFs.
        age_s: seconds since the change.
    """

    changed_at_ns: int
    groups: tuple[str, ...]
    left_out_s: float
    settled: bool
    over: bool
    span_s: float
    taken_back_s: float | None
    noticed: tuple[Noticed, ...]
    notes: tuple[str, ...]
    sections: tuple[VerdictSection, ...]
    age_s: float = 0.0


def verdict_of(
    window: Window, changed_at_ns: int, groups: Collection[str], term: Term = STANDS
) -> Verdict:
    """Compare the classes `groups`, and those that overlap them, before and after a change.

    Args:
        window: recent samples (`store.history.rings.TickHistory.window`).
        changed_at_ns: CLOCK_MONOTONIC when the change was written or, at the latest, noticed.
        groups: names of the groups whose masks, limits, CPUs or threads changed.
        term: when nftop ends the change.
    """
    frame = window.frame
    caches = {domain.l3 for domain in frame.domains}
    everywhere = [(name, l3) for name in groups for l3 in caches]
    sides = sides_of(window, changed_at_ns, everywhere, term)
    caches = _caches_in(frame, sides.changes) or caches
    changed = tuple(dict.fromkeys((*groups, *groups_in(sides.changes))))
    if any(change.cell.kind in IO_KINDS for change in sides.changes):
        # What devices write takes room from every class.
        used = [group.name for group in frame.groups if in_use(group)]
        changed = tuple(dict.fromkeys((*changed, *used)))
    overlapping = _overlapping(frame, sides, changed, caches)
    keys = [(name, l3) for name in (*changed, *overlapping) for l3 in sorted(caches)]
    sides = sides_of(window, changed_at_ns, keys, term)
    seen: set[str] = set()
    sections = [
        replace(section, changed=True)
        for section in _sections(window, sides, changed, caches, seen)
    ]
    sections += _sections(window, sides, overlapping, caches, seen)
    return Verdict(
        changed_at_ns=changed_at_ns,
        groups=changed,
        left_out_s=max(0.0, (sides.after_ns - sides.at_ns) / NS_PER_S),
        settled=sides.settled,
        over=sides.over,
        span_s=sides.span_s,
        taken_back_s=_since(changed_at_ns, term.taken_back_ns),
        noticed=sides.noticed,
        notes=tuple(filter(None, (_term_note(changed_at_ns, term), sides.note, _several(sides)))),
        sections=tuple(sections),
        age_s=max(0.0, (frame.monotonic_ns - changed_at_ns) / NS_PER_S),
    )


def last_verdict(window: Window, until_ns: int | None = None) -> Verdict | None:
    """Verdict on the last change of classes; None without one.

    `until_ns`: CLOCK_MONOTONIC when a pending change is reverted; None: none pending.
    """
    joined = together(window.frame.noticed)
    if not joined:
        return None
    last = joined[-1]
    return verdict_of(window, last.at_ns, groups_in(last.changes), Term(until_ns))


def _since(changed_at_ns: int, at_ns: int | None) -> float | None:
    return None if at_ns is None else max(0.0, (at_ns - changed_at_ns) / NS_PER_S)


def _term_note(changed_at_ns: int, term: Term) -> str:
    """Sentence on what ends the samples after the change, or ""."""
    if term.taken_back_ns is not None:
        taken_back_s = _since(changed_at_ns, term.taken_back_ns)
        return f"taken back {taken_back_s:.0f} s after the change: no sample after that counts"
    return ""


def _several(sides: Sides) -> str:
    count = len(sides.noticed)
    return f"{count} changes, each before the last had settled, are judged as one" * (count > 1)


def _caches_in(frame: Frame, changes: Sequence[Change]) -> set[L3Domain]:
    """Caches that changes affect; all if unknown."""
    known = {domain.l3 for domain in frame.domains}
    result: set[L3Domain] = set()
    for change in changes:
        cell = change.cell
        of_cache = cell.kind == "schemata" and (cell.name in _L3 or cell.name == "MB")
        if of_cache or cell.kind == "io_cbm":
            result.add(L3Domain(cell.number))
        elif cell.kind == "cpu" and cell.number in frame.topology.row_of:
            l3 = frame.topology.cpus[frame.topology.row_of[cell.number]].l3
            result |= set() if l3 is None else {l3}
        else:
            return known
    return result & known


def _overlapping(
    frame: Frame, sides: Sides, changed: Collection[str], caches: Collection[L3Domain]
) -> tuple[str, ...]:
    """Other classes in use that may fill ways of a changed one, before or after the change."""
    used = [group.name for group in frame.groups if in_use(group)]
    result: dict[str, None] = {}
    for undone in (sides.later, (*sides.changes, *sides.later)):
        masks = _masks(frame, undone)
        for name in used:
            mine = [masks.get((name, l3), 0) for l3 in caches]
            theirs = [[masks.get((other, l3), 0) for l3 in caches] for other in changed]
            if name not in changed and any(
                mask & other for their in theirs for mask, other in zip(mine, their, strict=True)
            ):
                result[name] = None
    return tuple(name for name in used if name in result)


def _masks(frame: Frame, undone: Sequence[Change]) -> dict[ClassKey, int]:
    """Bits of every class in every cache, data and code, with changes undone."""
    cells: dict[Cell, int] = {}
    for group in frame.groups:
        for cache in group.caches:
            if not isinstance(cache.cbm, Missing):
                data = "L3" if cache.code is None else "L3DATA"
                cells[Cell("schemata", group.name, data, cache.l3)] = cache.cbm.bits
                if cache.code is not None:
                    cells[Cell("schemata", group.name, "L3CODE", cache.l3)] = cache.code.bits
    for change in reversed(undone):
        if change.cell in cells and change.old is not None:
            cells[change.cell] = int(change.old, 16)
    result: dict[ClassKey, int] = {}
    for cell, bits in cells.items():
        key = cell.group, L3Domain(cell.number)
        result[key] = result.get(key, 0) | bits
    return result


def _sections(
    window: Window,
    sides: Sides,
    names: Collection[str],
    caches: Collection[L3Domain],
    seen: set[str],
) -> list[VerdictSection]:
    """Each class, followed by network functions in it that are not `seen`."""
    frame = window.frame
    of_nf = {nf.key: _classes_of(frame, nf) for nf in frame.nfs}
    sections = []
    for group in frame.groups:
        if group.name in names:
            mine = [
                nf
                for nf in frame.nfs
                if group.name in of_nf[nf.key] and _has_core_at(frame, nf, caches)
            ]
            section = _class_section(window, sides, group, caches)
            rows = section.rows if mine else (*section.rows, _ipc_row(window, sides, group, caches))
            sections.append(_with_word(replace(section, rows=rows)))
            sections += [
                nf_section(window, sides, nf, of_nf[nf.key]) for nf in mine if nf.key not in seen
            ]
            seen |= {nf.key for nf in mine}
    return sections


def _classes_of(frame: Frame, nf: NfRow) -> tuple[str, ...]:
    cpus = frame.cpus
    rows = (cpus.topology.row_of[cpu] for cpu in nf.cpus if cpu in cpus.topology.row_of)
    result = (cpus.group[row] for row in rows)
    return tuple(dict.fromkeys(own.name for own in result if not isinstance(own, Missing)))


def _has_core_at(frame: Frame, nf: NfRow, caches: Collection[L3Domain]) -> bool:
    """Whether a network function may have a core at one of these caches."""
    cpus, row_of = frame.topology.cpus, frame.topology.row_of
    at = {cpus[row_of[cpu]].l3 if cpu in row_of else None for cpu in nf.cpus}
    return None in at or bool(at & set(caches))


def _class_section(
    window: Window, sides: Sides, group: GroupRow, caches: Collection[L3Domain]
) -> VerdictSection:
    """Result for a class in these caches together."""
    mine = [cache for cache in group.caches if cache.l3 in caches]
    keys = [(group.name, cache.l3) for cache in mine]
    track = window.caches
    rows = []
    for name in ("occupancy_bytes", "mbm_total_bytes_per_s") if mine else ():
        why = next(
            (r for cache in mine if isinstance(r := cache.readings[name], Missing)), NO_SAMPLE
        )
        new = np.any([track.new(key) for key in keys], axis=0)
        values = np.sum([track.of(key, name) for key in keys], axis=0)
        rows.append(row_of(_GROUP[name], split(track.times_ns, new, values, sides), why, sides))
    return VerdictSection("class", group.name, (group.name,), tuple(rows), "no number")


def _ipc_row(
    window: Window, sides: Sides, group: GroupRow, caches: Collection[L3Domain]
) -> Compared:
    """IPC of programs without a packet count: neither direction is better."""
    track = window.classes
    keys = [(group.name, cache.l3) for cache in group.caches if cache.l3 in caches]
    metric = replace(cpu_metric("ipc"), good=None)
    if not keys:
        none = np.empty(0)
        return row_of(metric, SideSamples(none, none, none), _NO_CPU, sides)
    new = np.any([track.new(key) for key in keys], axis=0)
    values = _middle(np.array([track.of(key, "ipc") for key in keys]))
    busy = bool(len(values)) and bool(np.isfinite(values[-1]))
    why = NO_SAMPLE if busy else _IDLE if _is_on(window.frame, group.name, caches) else _NO_CPU
    return row_of(metric, split(track.times_ns, new, values, sides), why, sides)


def _middle(values: Floats) -> Floats:
    """Median of the numbers in (n, m), of shape (m,); NaN without any."""
    return np.array([median(column[~np.isnan(column)]) for column in values.T])


def _is_on(frame: Frame, name: str, caches: Collection[L3Domain]) -> bool:
    """Whether a class is in effect on any CPU at these caches."""
    return any(
        not isinstance(own, Missing) and own.name == name and info.l3 in caches
        for own, info in zip(frame.cpus.group, frame.cpus.topology.cpus, strict=True)
    )


def _with_word(section: VerdictSection) -> VerdictSection:
    """The section with the word of its IPC, else of occupancy, else of traffic."""
    numbers = [row for row in section.rows if row.word != "no number"]
    first = next(
        (row for row in numbers if row.metric.id == "ipc"), numbers[0] if numbers else None
    )
    return section if first is None else replace(section, word=first.word, why=first.why)
