"""Energy of packages while nftop watches: power times the time between two answers.

A document of the last second says nothing of the time before that second, so what the package took
between two answers is estimated by the power of the later one. Over gaps that are long beside the
pace of the samples nothing is estimated, and nothing is added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from nftop.model.column import Column, Floats, column, where
from nftop.model.reading import Missing, Reason

# Each metric with the power that it sums up.
_OF_POWER: Mapping[str, str] = {"energy_j": "power_w", "dram_energy_j": "dram_power_w"}
# A gap that counts is no longer than this, or than so many samples where they are far apart.
_LONGEST_S, _LONGEST_SAMPLES = 5.0, 2.5


@dataclass(frozen=True, slots=True)
class EnergyState:
    """Joules so far by metric, float64 (packages,), and when the last answer was read.

    They are NaN where no time between two answers has counted yet.
    """

    at_ns: int | None = None
    joules: Mapping[str, Floats] = field(default_factory=dict)

    def interrupted(self) -> EnergyState:
        """The same, where the time until the next answer is not to count."""
        return replace(self, at_ns=None)


def step_energy(
    state: EnergyState, packages: Mapping[str, Column], at_ns: int, pace_s: float
) -> tuple[EnergyState, dict[str, Column]]:
    """Fold the power of packages in: energy by metric id; the reason of the power where it has one.

    `at_ns` is CLOCK_MONOTONIC of the answer, `pace_s` the seconds from sample to sample that were
    asked for. WARMING where no two answers were close enough yet to count the time between them.
    """
    passed_s = 0.0 if state.at_ns is None else (at_ns - state.at_ns) / 1e9
    longest_s = max(_LONGEST_S, _LONGEST_SAMPLES * pace_s)
    counts = 0 < passed_s <= longest_s
    begun = Missing(Reason.WARMING)
    if state.joules and not counts:
        begun = Missing(
            Reason.WARMING,
            f"no two answers of the server were within {longest_s:g} s yet, and over longer times "
            "energy is not estimated",
        )
    joules, columns = {}, {}
    for name, of in _OF_POWER.items():
        power = packages[of]
        before = state.joules.get(name)
        sums = np.full(len(power), np.nan) if before is None else before
        if counts:
            more = np.nan_to_num(sums) + power.values * passed_s
            sums = np.where(power.present, more, sums)
        joules[name] = sums
        columns[name] = where(power.present, column(sums, why=begun), power)
    return EnergyState(at_ns, joules), columns
