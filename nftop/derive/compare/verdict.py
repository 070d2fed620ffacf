"""What a change of cache classes did: the numbers before it beside those after it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np

from nftop.derive.cache.changes import groups_in
from nftop.derive.cache.ways import in_use
from nftop.derive.compare.metric import Compared
from nftop.derive.compare.settling import STANDS, Samples, Sides, Term, sides_of, split
from nftop.derive.compare.verdict_nf import NO_SAMPLE, Part, nf_part, row_of
from nftop.derive.compare.window import BUSY_RATIO, ClassKey, Window
from nftop.model.change import Cell, Change, Noticed
from nftop.model.column import Floats
from nftop.model.frame import Frame, GroupRow, NfRow
from nftop.model.ids import L3Domain
from nftop.model.metrics.catalogue import cpu_metric
from nftop.model.metrics.group import GROUP_METRICS
from nftop.model.reading import Missing, Reason

_S = 1e9
_GROUP = {metric.id: metric for metric in GROUP_METRICS}
_IDLE = Missing(Reason.IDLE, f"none of its CPUs is busy for {BUSY_RATIO:.0%} of the time")
_NO_CPU = Missing(Reason.UNDEFINED, "no CPU at this cache")
_L3 = ("L3", "L3DATA", "L3CODE")


@dataclass(frozen=True, slots=True)
class Verdict:
    """Attributes.

    changed_at_ns: CLOCK_MONOTONIC of the change.
    groups: names of the classes that were changed.
    left_out_s: seconds after the change that do not count, since occupancy still moved.
    settled: whether these are over. over: whether no more samples will come.
    span_s: seconds after those left out that count at most.
    taken_back_s: seconds after the change when taking it back began; None if it was not.
    noticed: what was judged, so far as it was noticed: one change, or several where none of them
        had settled when the next came.
    notes: what else to know of it, sentences.
    parts: what was changed first, then what overlaps; a class before its network functions.
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
    parts: tuple[Part, ...]


def verdict_of(
    window: Window, changed_at_ns: int, groups: Collection[str], term: Term = STANDS
) -> Verdict:
    """Compare what the classes `groups` and those that overlap them did before and after a change.

    Args:
        window: what is remembered (`store.history.History.window`).
        changed_at_ns: CLOCK_MONOTONIC when the change was written or, at the latest, seen.
        groups: names of the groups whose masks, limits, CPUs or threads changed.
        term: what ends the change, if nftop itself takes it back.
    """
    frame = window.frame
    caches = {domain.l3 for domain in frame.domains}
    everywhere = [(name, l3) for name in groups for l3 in caches]
    # Which changes belong to this one is known before how long it takes to settle.
    sides = sides_of(window, changed_at_ns, everywhere, term)
    caches = _caches_in(frame, sides.changes) or caches
    changed = tuple(dict.fromkeys((*groups, *groups_in(sides.changes))))
    beside = _overlapping(frame, sides, changed, caches)
    keys = [(name, l3) for name in (*changed, *beside) for l3 in sorted(caches)]
    sides = sides_of(window, changed_at_ns, keys, term)
    seen: set[str] = set()
    parts = [replace(part, changed=True) for part in _parts(window, sides, changed, caches, seen)]
    parts += _parts(window, sides, beside, caches, seen)
    return Verdict(
        changed_at_ns=changed_at_ns,
        groups=changed,
        left_out_s=max(0.0, (sides.after_ns - sides.at_ns) / _S),
        settled=sides.settled,
        over=sides.over,
        span_s=sides.span_s,
        taken_back_s=_since(changed_at_ns, term.taken_back_ns),
        noticed=sides.noticed,
        notes=tuple(filter(None, (_term_note(changed_at_ns, term), sides.note, _several(sides)))),
        parts=tuple(parts),
    )


def _since(changed_at_ns: int, at_ns: int | None) -> float | None:
    """Seconds from the change to a time."""
    return None if at_ns is None else max(0.0, (at_ns - changed_at_ns) / _S)


def _term_note(changed_at_ns: int, term: Term) -> str:
    """What ends the samples after the change, a sentence; "" if only their number does."""
    if term.taken_back_ns is not None:
        taken_back_s = _since(changed_at_ns, term.taken_back_ns)
        return f"taken back {taken_back_s:.0f} s after the change: no sample after that counts"
    if term.until_ns is not None:
        until_s = _since(changed_at_ns, term.until_ns)
        return (
            f"not kept yet: taken back {until_s:.0f} s after the change unless K keeps it; no "
            "sample after that counts"
        )
    return ""


def _several(sides: Sides) -> str:
    count = len(sides.noticed)
    return f"{count} changes, each before the last had settled, are judged as one" * (count > 1)


def _caches_in(frame: Frame, changes: Sequence[Change]) -> set[L3Domain]:
    """The caches that changes are about; none where that is not known."""
    known = {domain.l3 for domain in frame.domains}
    found: set[L3Domain] = set()
    for change in changes:
        cell = change.cell
        if cell.kind == "schemata" and (cell.name in _L3 or cell.name == "MB"):
            found.add(L3Domain(cell.number))
        elif cell.kind == "cpu" and cell.number in frame.topology.row_of:
            l3 = frame.topology.cpus[frame.topology.row_of[cell.number]].l3
            found |= set() if l3 is None else {l3}
        else:
            return known
    return found & known


def _overlapping(
    frame: Frame, sides: Sides, changed: Collection[str], caches: Collection[L3Domain]
) -> tuple[str, ...]:
    """Other classes in use that may fill ways of a changed one, as it was or as it became."""
    used = [group.name for group in frame.groups if in_use(group)]
    found: dict[str, None] = {}
    for undone in (sides.later, (*sides.changes, *sides.later)):
        masks = _masks(frame, undone)
        for name in used:
            mine = [masks.get((name, l3), 0) for l3 in caches]
            theirs = [[masks.get((other, l3), 0) for l3 in caches] for other in changed]
            if name not in changed and any(
                mask & other for their in theirs for mask, other in zip(mine, their, strict=True)
            ):
                found[name] = None
    return tuple(name for name in used if name in found)


def _masks(frame: Frame, undone: Sequence[Change]) -> dict[ClassKey, int]:
    """Bits of every class in every cache, be it data's or code's, with changes taken back."""
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
    found: dict[ClassKey, int] = {}
    for cell, bits in cells.items():
        key = cell.group, L3Domain(cell.number)
        found[key] = found.get(key, 0) | bits
    return found


def _parts(
    window: Window,
    sides: Sides,
    names: Collection[str],
    caches: Collection[L3Domain],
    seen: set[str],
) -> list[Part]:
    """Each class, and behind it the network functions on whose cores it counts, if not `seen`."""
    frame = window.frame
    of_nf = {nf.key: _classes_of(frame, nf) for nf in frame.nfs}
    parts = []
    for group in frame.groups:
        if group.name in names:
            mine = [
                nf
                for nf in frame.nfs
                if group.name in of_nf[nf.key] and _is_beside(frame, nf, caches)
            ]
            part = _class_part(window, sides, group, caches)
            rows = part.rows if mine else (*part.rows, _ipc_row(window, sides, group, caches))
            parts.append(_with_word(replace(part, rows=rows)))
            parts += [
                nf_part(window, sides, nf, of_nf[nf.key]) for nf in mine if nf.key not in seen
            ]
            seen |= {nf.key for nf in mine}
    return parts


def _classes_of(frame: Frame, nf: NfRow) -> tuple[str, ...]:
    cpus = frame.cpus
    rows = (cpus.topology.row_of[cpu] for cpu in nf.cpus if cpu in cpus.topology.row_of)
    found = (cpus.group[row] for row in rows)
    return tuple(dict.fromkeys(own.name for own in found if not isinstance(own, Missing)))


def _is_beside(frame: Frame, nf: NfRow, caches: Collection[L3Domain]) -> bool:
    """Whether a network function has a core at one of these caches, as far as that is known."""
    cpus, row_of = frame.topology.cpus, frame.topology.row_of
    at = {cpus[row_of[cpu]].l3 if cpu in row_of else None for cpu in nf.cpus}
    return None in at or bool(at & set(caches))


def _class_part(
    window: Window, sides: Sides, group: GroupRow, caches: Collection[L3Domain]
) -> Part:
    """What became of a class in these caches together."""
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
    return Part("class", group.name, (group.name,), tuple(rows), "no number")


def _ipc_row(
    window: Window, sides: Sides, group: GroupRow, caches: Collection[L3Domain]
) -> Compared:
    """Of programs beside these caches whose work nobody counts: more is not known to be better."""
    track = window.classes
    keys = [(group.name, cache.l3) for cache in group.caches if cache.l3 in caches]
    metric = replace(cpu_metric("ipc"), good=None)
    if not keys:
        none = np.empty(0)
        return row_of(metric, Samples(none, none, none), _NO_CPU, sides)
    new = np.any([track.new(key) for key in keys], axis=0)
    # A cache without a busy CPU says nothing, whatever the others say.
    values = _middle(np.array([track.of(key, "ipc") for key in keys]))
    busy = bool(len(values)) and bool(np.isfinite(values[-1]))
    why = NO_SAMPLE if busy else _IDLE if _is_on(window.frame, group.name, caches) else _NO_CPU
    return row_of(metric, split(track.times_ns, new, values, sides), why, sides)


def _middle(values: Floats) -> Floats:
    """Median of those of (n, m) that are numbers, of shape (m,); NaN where none is."""
    some = np.isfinite(values).any(axis=0)
    found = np.full(values.shape[1], np.nan)
    found[some] = np.nanmedian(values[:, some], axis=0)
    return found


def _is_on(frame: Frame, name: str, caches: Collection[L3Domain]) -> bool:
    """Whether a class counts on any CPU beside these caches."""
    return any(
        not isinstance(own, Missing) and own.name == name and info.l3 in caches
        for own, info in zip(frame.cpus.group, frame.cpus.topology.cpus, strict=True)
    )


def _with_word(part: Part) -> Part:
    """A class' word is that of its IPC where it has one, else of its occupancy, else of traffic."""
    told = [row for row in part.rows if row.word != "no number"]
    first = next((row for row in told if row.metric.id == "ipc"), told[0] if told else None)
    return part if first is None else replace(part, word=first.word, why=first.why)
