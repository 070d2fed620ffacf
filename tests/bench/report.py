"""Targets beside what was reached."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median as _median


@dataclass(frozen=True, slots=True)
class Reached:
    """A target of the reference and the number measured; where there is none, `why`."""

    what: str
    target: str
    value: float | None
    limit: float | None = None
    unit: str = ""
    least: bool = False  # the limit is the least to reach, not the most
    why: str = ""

    @property
    def verdict(self) -> str:
        if self.value is None or self.limit is None:
            return f"not measured: {self.why}"
        good = self.value >= self.limit if self.least else self.value <= self.limit
        return "yes" if good else "no"


def median(values: Sequence[float]) -> float:
    return float(_median(values))


def print_targets(rows: Iterable[Reached]) -> None:
    """The last table: each target, what was reached, and whether that is enough."""
    print("targets")
    for row in rows:
        value = "" if row.value is None else f"{row.value:.3g} {row.unit}".rstrip()
        print(f"  {row.what:<44}{row.target:<24}{value:>10}  {row.verdict}")
