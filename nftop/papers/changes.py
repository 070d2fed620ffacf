"""Differences between CPUs, for papers that state only these."""

from __future__ import annotations

import functools

from nftop.model.struct import dataclass
from nftop.papers.table import changes_raw, papers

# What one of a unit as said is in nftop's own: both are ratios, of the older value or of all slots.
_UNITS = {"%": 0.01, "points": 0.01}


@dataclass(frozen=True, slots=True)
class PaperChange:
    """A change of a metric from one CPU to another.

    Attributes:
        workloads: the range covers all of these.
        cpu, against: names for people; `uarch` is nftop's of `cpu`.
        low, high: a ratio of the value on `against` (-0.1: a tenth less) if `points` is False, else
            a difference of shares of slots (0.17: 17 percentage points more); None: open, as in
            "up to 11" or "more than 6".
        about: the paper has "~" before it.
        source: place in the paper.
    """

    paper: str
    metric: str
    workloads: tuple[str, ...]
    smt: bool
    cpu: str
    uarch: str
    against: str
    low: float | None
    high: float | None
    points: bool
    about: bool
    source: str


@functools.cache
def changes() -> tuple[PaperChange, ...]:
    return tuple(
        change
        for paper, about in papers()["papers"].items()
        if not about["tables"]
        for change in _of(paper)
    )


def changes_of(
    workload: str | None = None, *, uarch: str | None = None, smt: bool | None = None
) -> tuple[PaperChange, ...]:
    """Changes of a workload; a filter that is None is ignored."""
    return tuple(
        change
        for change in changes()
        if workload in (None, *change.workloads)
        and uarch in (None, change.uarch)
        and smt in (None, change.smt)
    )


def _of(paper: str) -> tuple[PaperChange, ...]:
    raw, cpus = changes_raw(paper), papers()["cpus"]
    cpu, against = cpus[raw["cpu"]], cpus[raw["against"]]
    return tuple(
        PaperChange(
            paper=paper,
            metric=item["metric"],
            workloads=tuple(item["workloads"]),
            smt=item["smt"],
            cpu=cpu["title"],
            uarch=cpu["uarch"],
            against=against["title"],
            low=item["low"] * _UNITS[item["unit"]] if "low" in item else None,
            high=item["high"] * _UNITS[item["unit"]] if "high" in item else None,
            points=item["unit"] == "points",
            about=item.get("about", False),
            source=f"text, {item['said']}",
        )
        for item in raw["changes"]
    )
