"""What a change did to one network function."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from nftop.derive.compare.comparability import is_full, judged, summed
from nftop.derive.compare.metric import Compared, Word, compared, moved
from nftop.derive.compare.settling import Samples, Sides, split
from nftop.derive.compare.window import Window, clock_indices
from nftop.model.column import Floats
from nftop.model.frame import Frame, NfRow, base_clock
from nftop.model.metrics.catalogue import cpu_metric
from nftop.model.metrics.metric import Metric
from nftop.model.metrics.nf import NF_METRICS
from nftop.model.reading import Missing, Reading, Reason

NO_SAMPLE = Missing(Reason.WARMING, "no sample of it yet")
_NF = {metric.id: metric for metric in NF_METRICS}
_ROWS = (
    "packets_per_s",
    "drop_packets_per_s",
    "cpp",
    "busy_cpp",
    "ipc",
    "llc_misses_per_packet",
)


@dataclass(frozen=True, slots=True)
class Part:
    """One class or one network function.

    Attributes:
        kind: which of the two.
        name: a class' is its group's (`rdt.ROOT` for the root group); untrusted text.
        groups: the classes that count on a network function's cores; a class' own name.
        rows: its metrics.
        word, why: what it comes to as a whole, as in `Compared`.
        changed: it is (in) a class that was changed, else in one whose ways overlap.
    """

    kind: Literal["class", "nf"]
    name: str
    groups: tuple[str, ...]
    rows: tuple[Compared, ...]
    word: Word
    why: str = ""
    changed: bool = False


def nf_part(window: Window, sides: Sides, nf: NfRow, groups: tuple[str, ...]) -> Part:
    """What became of a network function on whose cores the classes `groups` count."""
    track = window.nfs
    new = track.new(nf.key)

    def both(name: str) -> Samples:
        return split(track.times_ns, new, _of_one_clock(window, nf, name), sides)

    offered = moved(*both("offered_packets_per_s")[:2])
    full = track.of(nf.key, "saturated")
    told = split(track.times_ns, new, np.isfinite(full).astype(np.float64), sides)
    busy = tuple(map(is_full, both("saturated")[:2], told[:2]))
    reasons = _reasons(window.frame, nf)
    rows = []
    for name in _ROWS:
        metric = _NF.get(name) or cpu_metric(name)
        row = row_of(metric, both(name), reasons.get(name, NO_SAMPLE), sides)
        if name != "drop_packets_per_s" or _is_any(row.before) or _is_any(row.after):
            rows.append(judged(row, busy, offered))
    rows = [replace(row, bounds=_bounds(row.metric, busy, nf)) for row in rows]
    word, why = summed(rows, offered if None in busy or False in busy else None)
    return Part("nf", nf.name, groups, tuple(rows), word, why)


def _bounds(metric: Metric, busy: Sequence[bool | None], nf: NfRow) -> tuple[bool, bool]:
    """Where empty polls may be in it; cycles of another clock than the core's bound nothing."""
    sure = metric.bounded and not (metric.per_clock and nf.cpp_clock not in (None, "core"))
    was, now = (sure and item is not True for item in busy)
    return was, now


def _of_one_clock(window: Window, nf: NfRow, name: str) -> Floats:
    """A metric of a network function; cycles only as counted by the clock that counts them now."""
    values = window.nfs.of(nf.key, name)
    if name not in ("cpp", "busy_cpp") or nf.cpp_clock is None:
        return values
    same = np.isin(window.nfs.of(nf.key, "clock"), clock_indices(base_clock(nf.cpp_clock)))
    return np.where(same, values, np.nan)


def _is_any(reading: Reading) -> bool:
    return not isinstance(reading, Missing) and reading > 0


def _reasons(frame: Frame, nf: NfRow) -> Mapping[str, Missing]:
    """Why a network function has no number of a metric now."""
    found = {name: item for name, item in nf.readings.items() if isinstance(item, Missing)}
    if nf.problem is not None:
        found["packets_per_s"] = nf.problem
    if nf.shared is not None:
        return found | dict.fromkeys(("ipc", "llc_misses_per_packet"), nf.shared)
    cpus = frame.cpus
    for name in ("ipc", "llc_misses_per_packet"):
        for cpu in nf.cpus:
            row = cpus.topology.row_of.get(cpu)
            reading = NO_SAMPLE if row is None else cpus.columns[name][row]
            if isinstance(reading, Missing):
                found.setdefault(name, reading)
    return found


def row_of(metric: Metric, both: Samples, why: Missing, sides: Sides) -> Compared:
    row = compared(
        metric,
        both.before,
        both.after,
        why,
        over=sides.over,
        earlier=both.earlier,
        most_after=both.most_after,
    )
    if row.n_before and not (sides.settled or sides.over):
        return replace(row, word="settling", why="", code="")
    return row
