"""Sources `uncore` and `power`: counts of units outside the cores, of energy and of sleep."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from nftop.model.ids import format_cpu_list
from nftop.model.sample import Counts, event_gaps
from nftop.model.struct import dataclass, field

# Reason of counts on demand while their page is closed.
UNWANTED = "sampled every few ticks; counted all the time while the Traffic screen is up"

# Events of source `power`, of packages and of cores; its boxes are dies, and CPUs. Energies are in
# 2**-32 J (the kernel's unit), residencies in clocks of the TSC.
PACKAGE_POWER_EVENTS = (
    "energy_pkg", "energy_ram", "package_c2", "package_c3", "package_c6", "package_throttles",
)  # fmt: skip
CORE_POWER_EVENTS = ("core_c3", "core_c6", "core_throttles")
POWER_EVENTS = PACKAGE_POWER_EVENTS + CORE_POWER_EVENTS
SLOW_POWER_EVENTS = ("package_throttles", *CORE_POWER_EVENTS)
# Of what is read seldom, at the start.
SLOWLY = "needs two readings, which are 5 s apart"
# Why cores that poll have no residencies.
NOT_ON_POLLERS = "not read on cores that poll, which a reading would interrupt: they never sleep"


@dataclass(frozen=True, slots=True, eq=False)
class UncoreTable:
    """One row per counter: one event on one box of one package.

    Boxes are separate because each multiplexes by itself: counts are scaled by the box's own clock
    before they are added up.

    Attributes:
        events: k names of the CPU's table (`cas_read`, `itom_hit`).
        packages, boxes, event: int32 (n,), package, kernel's box number (-1 in a row that states
            why no box of the package counts it) and index in `events`.
        values: uint64 (n,), cumulative and unscaled; 0 if absent.
        reasons: uint8 (n,), `Reason` by row.
        enabled_ns, running_ns: uint64 (n,), the clock of the row's counter group and its time on
            the hardware. Rates divide by the delta of `running_ns`.
        details: of what is absent, the message by event and `Reason`.
        extras: events whose absence is no gap.
        warning: what counting disturbs, a sentence; "" if nothing.
        round_ns: time in which each group of a box has one turn; 0 if unknown.
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
        """Absent events, where and why, `extras` aside, and the warning; "" if none."""
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


_NO_NUMBERS, _NO_CLOCKS = np.zeros(0, np.int32), np.zeros(0, np.uint64)
NO_COUNTS = UncoreTable(
    (),
    _NO_NUMBERS,
    _NO_NUMBERS,
    _NO_NUMBERS,
    _NO_CLOCKS,
    np.zeros(0, np.uint8),
    _NO_CLOCKS,
    _NO_CLOCKS,
)
