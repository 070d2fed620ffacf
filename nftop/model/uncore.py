"""Source `uncore`: what perf counts in the units of a package outside its cores.

A payload as those in `model.sample`: raw and cumulative, numbers and numpy arrays only.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from nftop.model.ids import format_cpu_list
from nftop.model.sample import Counts, event_gaps
from nftop.model.struct import dataclass, field

# Why what is counted on demand is absent: nobody looks at it.
UNWANTED = "sampled every few ticks; counted all the time while the Memory/PCIe screen is up"


@dataclass(frozen=True, slots=True, eq=False)
class UncoreTable:
    """One row per counter: one event on one box of one package.

    Boxes are kept apart because each takes its turns by itself: its counts are scaled by its own
    clock before they may be added up.

    Attributes:
        events: k names of the CPU's table (`cas_read`, `itom_hit`).
        packages, boxes, event: int32 (n,), where a row was counted (the box's number, the
            kernel's, and -1 in a row that only says why the package has no box that counts it)
            and what, as an index of `events`.
        values: uint64 (n,), cumulative and unscaled; 0 where `reasons` says absent.
        reasons: uint8 (n,), `Reason` by row.
        enabled_ns, running_ns: uint64 (n,), the clock of the row's counter group and how much of
            it the group was on the hardware. Rates divide by the delta of `running_ns`.
        details: for what is absent, the sentence by event and `Reason`.
        extras: events whose absence is no gap: nobody looks at them.
        warning: whom counting disturbs, a sentence; "" when nobody.
        round_ns: in so much of a box's time each of its groups has its turn; 0: told by nobody.
    """

    events: tuple[str, ...]
    packages: NDArray[np.int32]
    boxes: NDArray[np.int32]
    event: NDArray[np.int32]
    values: Counts
    reasons: NDArray[np.uint8]
    enabled_ns: Counts
    running_ns: Counts
    details: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    extras: frozenset[str] = frozenset()
    warning: str = ""
    round_ns: int = 0

    @property
    def gaps(self) -> str:
        """Which events are absent, where, and why, `extras` aside, and the warning; "" if none."""
        names = []
        for index, name in enumerate(self.events):
            if name in self.extras:
                continue
            mine = self.event == index
            absent = mine & (self.reasons > 0)
            if absent.any():
                everywhere = (absent == mine).all()
                packages = format_cpu_list(self.packages[absent].tolist())
                where = "" if everywhere else f" on package {packages}"
                names.append((name, where))
        return "; ".join(filter(None, (event_gaps(names, self.details), self.warning)))
