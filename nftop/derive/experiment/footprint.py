"""Footprints from frames: readings of each visit, reduced to what is typical and the most."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nftop.derive.cache.ways import cache_of, in_use, ways_of
from nftop.derive.compare.settling import STILL_RATIO
from nftop.derive.experiment.engine import ExperimentState
from nftop.model.footprint import CacheUse, Footprint, FootprintPlan, FootprintRow, FootprintSubject
from nftop.model.frame import Frame, GroupRow
from nftop.model.median import median
from nftop.model.missing import Missing, number_or
from nftop.model.struct import dataclass

_NAN = math.nan
_OCCUPANCY, _TRAFFIC = "occupancy_bytes", "mbm_total_bytes_per_s"


@dataclass(frozen=True, slots=True)
class FootprintReading:
    """One reading of a subject; NaN if unknown. `bits`, `shared`: as in `CacheUse`."""

    at_ns: int
    used_bytes: float
    bytes_per_s: float
    packets_per_s: float
    bits: int
    shared: int


class FootprintCollector:
    """Collects readings from frames, and reduces those of each visit once it is over."""

    def __init__(self, plan: FootprintPlan) -> None:
        self._plan = plan
        self._frames: list[tuple[FootprintReading, ...]] = []
        self._sizes: dict[int, float] = {}
        self._uses: dict[int, tuple[CacheUse, ...]] = {}
        self._visits = 0

    def see(self, frame: Frame) -> None:
        """Take a frame."""
        self._sizes |= {item.l3: float(item.size_bytes or _NAN) for item in frame.domains}
        self._frames.append(tuple(reading_of(frame, item) for item in self._plan.subjects))

    def follow(self, state: ExperimentState) -> None:
        """Reduce the readings of a visit that has ended."""
        if len(state.visits) > self._visits:
            self._visits = len(state.visits)
            visit = state.visits[-1]
            self.end_visit(visit.setting, visit.settled_ns)

    def end_visit(self, setting: int, since_ns: int = 0) -> None:
        """A visit is over, whose measured part began at `since_ns`."""
        columns = zip(*self._frames, strict=True)
        uses = [
            self._use([item for item in column if item.at_ns >= since_ns], subject)
            for column, subject in zip(columns, self._plan.subjects, strict=True)
        ]
        if len(uses) == len(self._plan.subjects):
            self._uses[setting] = tuple(uses)
        self._frames.clear()

    def footprint(self) -> Footprint:
        """The table so far."""
        plan = self._plan
        rows = []
        for at, subject in enumerate(plan.subjects):
            own = self._uses.get(subject.own) if isinstance(subject.own, int) else None
            together = self._uses.get(plan.together)
            metered = not isinstance(subject.counter, Missing)
            rows.append(
                FootprintRow(
                    subject,
                    together[at] if together is not None and metered else None,
                    own[at] if own is not None and metered else None,
                )
            )
        return Footprint(tuple(rows), plan.way_bytes, plan.min_bits)

    def _use(self, rows: Sequence[FootprintReading], subject: FootprintSubject) -> CacheUse:
        used = [row.used_bytes for row in rows if math.isfinite(row.used_bytes)]
        moved = [row.bytes_per_s for row in rows if math.isfinite(row.bytes_per_s)]
        packets = [row.packets_per_s for row in rows if math.isfinite(row.packets_per_s)]
        last = rows[-1] if rows else FootprintReading(0, _NAN, _NAN, _NAN, 0, 0)
        way_bytes = self._plan.way_bytes.get(subject.l3, _NAN)
        return CacheUse(
            bits=last.bits,
            shared=last.shared,
            capacity_bytes=last.bits.bit_count() * way_bytes,
            typical_bytes=median(used) if used else _NAN,
            most_bytes=max(used, default=_NAN),
            typical_bytes_per_s=median(moved) if moved else _NAN,
            most_bytes_per_s=max(moved, default=_NAN),
            packets_per_s=median(packets) if packets else _NAN,
            readings=len(used),
            still=_is_still(used, self._sizes.get(subject.l3, _NAN)),
        )


def _is_still(used: Sequence[float], size_bytes: float) -> bool:
    """Whether the halves of the readings have the same median, within 2 % of the cache."""
    half = len(used) // 2
    if not half:
        return False
    moved = abs(median(used[-half:]) - median(used[:half]))
    return moved <= STILL_RATIO * size_bytes


def reading_of(frame: Frame, subject: FootprintSubject) -> FootprintReading:
    """A subject's numbers in a frame."""
    nf = next((row for row in frame.nfs if row.key == subject.key), None)
    group = next((row for row in frame.groups if row.name == subject.group), None)
    used = bytes_per_s = _NAN
    if subject.monitors:
        rows = [
            monitor.readings[subject.l3]
            for row in frame.groups
            for monitor in row.monitors
            if (row.name, monitor.name) in subject.monitors and subject.l3 in monitor.readings
        ]
        if len(rows) == len(subject.monitors):
            used = sum(number_or(row[_OCCUPANCY], _NAN) for row in rows)
            bytes_per_s = sum(number_or(row[_TRAFFIC], _NAN) for row in rows)
    elif group is not None and (cache := cache_of(group, subject.l3)) is not None:
        used = number_or(cache.readings[_OCCUPANCY], _NAN)
        bytes_per_s = number_or(cache.readings[_TRAFFIC], _NAN)
    bits = 0 if group is None else _bits(group, subject)
    others = 0
    for row in frame.groups:
        others |= _bits(row, subject) if row.name != subject.group and in_use(row) else 0
    packets = _NAN if nf is None else number_or(nf.readings[f"{nf.direction}_packets_per_s"], _NAN)
    return FootprintReading(frame.monotonic_ns, used, bytes_per_s, packets, bits, bits & others)


def _bits(group: GroupRow, subject: FootprintSubject) -> int:
    """Ways that a class may fill in a subject's cache; 0 if unknown."""
    cache = cache_of(group, subject.l3)
    mask = None if cache is None else ways_of(cache)
    return 0 if mask is None else mask.bits
