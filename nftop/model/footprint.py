"""Footprint: how much last-level cache network functions fill, and the bandwidth that they take.

Each is measured under two conditions. `together`: with today's masks, beside everything that runs.
`own`: with ways that no other class in use may fill; only its own class and classes without network
functions are given other masks, for that time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal, TypeAlias

from nftop.model.experiment import Experiment
from nftop.model.ids import L3Domain
from nftop.model.missing import Missing, Reason
from nftop.model.struct import dataclass, field

# What counts a network function's cache: its class (nothing else is in it), monitoring groups that
# it had before, or ones that are made for the run.
FootprintCounter: TypeAlias = Literal["class", "monitor", "new monitor"]
UNREQUESTED = Missing(Reason.WARMING, "not asked for: --own")
# From this share of its capacity on a mask is filled: with more ways more may be filled.
FILLED_RATIO = 0.95


@dataclass(frozen=True, slots=True)
class FootprintSubject:
    """A network function in one last-level cache.

    Attributes:
        key, name: `NfRow.key`, and its name (untrusted text).
        group: directory of its class; "" if it has several here.
        counter: what counts it, or why nothing does.
        monitors: its monitoring groups, (control group, name); empty unless they count it.
        own: index in `FootprintPlan.experiment.settings` of its own ways, or why it can't have any.
    """

    key: str
    name: str
    l3: L3Domain
    group: str
    counter: FootprintCounter | Missing
    monitors: tuple[tuple[str, str], ...]
    own: int | Missing


@dataclass(frozen=True, slots=True)
class FootprintPlan:
    """What will be measured.

    Attributes:
        subjects: by name and cache.
        experiment: what is written, one visit of each setting; its first setting has today's masks
            if monitoring groups are made. Without settings nothing is written.
        together: index of the setting with today's masks; -1 for the baseline.
        measure_s: of a visit.
        way_bytes: by L3; absent if unknown. min_bits: least number of ways of a mask.
    """

    subjects: tuple[FootprintSubject, ...]
    experiment: Experiment
    together: int
    measure_s: float
    way_bytes: Mapping[L3Domain, float]
    min_bits: int

    @property
    def writes(self) -> bool:
        """Whether anything is written."""
        return bool(self.experiment.settings)


@dataclass(frozen=True, slots=True)
class CacheUse:
    """Cache and memory traffic of a network function during a visit; NaN if unknown.

    Attributes:
        bits: ways that it may fill. shared: those of them that other classes in use may fill too.
        capacity_bytes: of its ways.
        typical_bytes, most_bytes: median and maximum of the occupancy.
        typical_bytes_per_s, most_bytes_per_s: of its memory traffic (MBM, both directions).
        packets_per_s: median, of the whole network function.
        readings: number of readings of the occupancy.
        still: whether occupancy neither rose nor fell by more than 2 % of the cache meanwhile.
    """

    bits: int
    shared: int
    capacity_bytes: float
    typical_bytes: float
    most_bytes: float
    typical_bytes_per_s: float
    most_bytes_per_s: float
    packets_per_s: float
    readings: int
    still: bool

    @property
    def filled(self) -> bool:
        """Whether it filled all that it was given, so that it may want more."""
        return self.most_bytes >= FILLED_RATIO * self.capacity_bytes

    @property
    def limited(self) -> bool:
        """Whether it might have filled more: with more ways, or without others in its ways."""
        return self.filled or bool(self.shared)


@dataclass(frozen=True, slots=True)
class FootprintRow:
    """Result of a network function in a cache; None where it was not measured."""

    subject: FootprintSubject
    together: CacheUse | None
    own: CacheUse | None

    @property
    def best(self) -> CacheUse | None:
        """The use that says most about what it wants."""
        return self.own if self.own is not None else self.together

    @property
    def at_least(self) -> bool:
        """Whether it may want more than it filled, or fill more than was counted.

        A new monitoring group counts no lines that were in the cache before and stay there.
        """
        best = self.best
        return best is None or best.limited or self.subject.counter == "new monitor"


@dataclass(frozen=True, slots=True)
class Footprint:
    """The table, to plan classes by.

    Attributes:
        way_bytes, min_bits: as in the plan.
    """

    rows: tuple[FootprintRow, ...]
    way_bytes: Mapping[L3Domain, float] = field(default_factory=dict)
    min_bits: int = 1

    def ways(self, row: FootprintRow) -> int | None:
        """Ways that hold the most that it filled; None if unknown."""
        use, way_bytes = row.best, self.way_bytes.get(row.subject.l3)
        if use is None or way_bytes is None or not math.isfinite(use.most_bytes):
            return None
        return max(math.ceil(use.most_bytes / way_bytes), self.min_bits)
