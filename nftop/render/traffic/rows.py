"""The rows of the Memory/PCIe screen, made from the catalogue's ids.

`memory.read_bytes_per_s` is the row `read` of the section `memory`, `pcie.itom.hit_per_s` the cell
`hit` of the row `itom` of a table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nftop.model.frame import PackageRow
from nftop.model.metrics.metric import Metric
from nftop.model.metrics.package import PACKAGE_METRICS
from nftop.model.metrics.pcm import PCM_PACKAGE_METRICS
from nftop.model.reading import Missing, Reading, Reason

HIT_RATIO = "hit%"
_TITLES = {"memory": "Memory", "pcie": "PCIe", "mmio": "MMIO", "upi": "UPI", "llc": "Cores"}
_NAMES = {
    "itom": "ItoM",
    "itomcachenear": "ItoMCacheNear",
    "rfo": "RFO",
    "pcirdcur": "PCIRdCur",
    "prd": "PRd",
    "crd": "CRd",
    "drd": "DRd",
}


@dataclass(frozen=True, slots=True)
class TrafficRow:
    """A row: its name, and the metrics of its cells from left to right."""

    label: str
    metrics: tuple[Metric, ...]

    @property
    def main(self) -> Metric:
        """What its graph shows: of hits, misses and both, both."""
        return self.metrics[-1]


@dataclass(frozen=True, slots=True)
class Boxes:
    """Channels or links: where a package has them, and what their two numbers are called."""

    attribute: str
    title: str
    ways: tuple[str, str]
    metrics: tuple[Metric, ...]

    def row(self, number: int) -> TrafficRow:
        """The row of one of them; its metrics are those of its package."""
        return TrafficRow(f"{self.title} {number}", self.metrics)


@dataclass(frozen=True, slots=True)
class Section:
    """Rows below one header; `cells` are its columns' names, more than one in a table."""

    title: str
    cells: tuple[str, ...]
    rows: tuple[TrafficRow, ...]


# What only a sensor server tells of memory and links, behind what perf counts.
OF_SERVER: tuple[Metric, ...] = tuple(
    package_metric for package_metric in PCM_PACKAGE_METRICS if "." in package_metric.id
)
TRAFFIC_METRICS: tuple[Metric, ...] = (*PACKAGE_METRICS, *OF_SERVER)
_MEMORY, _LINKS = (
    tuple(metric for metric in PACKAGE_METRICS if metric.id.startswith(head))
    for head in ("memory.", "upi.")
)
BOXES = (
    Boxes("channels", "Channels", ("read", "write"), _MEMORY),
    Boxes("links", "Links", ("in", "out"), _LINKS),
)


def sections(metrics: Sequence[Metric] = TRAFFIC_METRICS) -> tuple[Section, ...]:
    """The catalogue's metrics as they stand on the screen, each of them once."""
    single: dict[str, list[TrafficRow]] = {}
    tables: dict[str, dict[str, list[Metric]]] = {}
    for metric in metrics:
        head, *rest = metric.id.split(".")
        if len(rest) == 2:
            tables.setdefault(head, {}).setdefault(rest[0], []).append(metric)
        else:
            name = _bare(rest[-1] if rest else head)
            single.setdefault(head if rest else "package", []).append(TrafficRow(name, (metric,)))
    found = []
    for head in dict.fromkeys((*single, *tables)):
        title = _TITLES.get(head, head)
        if head in single:
            found.append(Section(title, ("",), tuple(single[head])))
        if head in tables:
            rows = tables[head]
            cells = [_bare(metric.id.split(".")[-1]) for metric in next(iter(rows.values()))]
            ratio = [HIT_RATIO] if {"hit", "all"} <= set(cells) else []
            found.append(
                Section(
                    title,
                    (*cells, *ratio),
                    tuple(TrafficRow(_NAMES.get(name, name), tuple(row))
                          for name, row in rows.items()),
                )
            )  # fmt: skip
    return tuple(found)


def hit_ratio(row: PackageRow, metrics: Sequence[Metric]) -> Reading:
    """hits / (hits and misses) of one opcode; IDLE where there were none."""
    by_end = {metric.id.split(".")[-1]: row.readings[metric.id] for metric in metrics}
    hit, total = by_end["hit_per_s"], by_end["total_per_s"]
    if isinstance(hit, Missing):
        return hit
    if isinstance(total, Missing):
        return total
    return min(hit / total, 1.0) if total > 0 else Missing(Reason.IDLE)


def _bare(name: str) -> str:
    """A metric's name without its unit, in words."""
    bare = re.sub(r"(_bytes)?_per_s$|_ratio$", "", name).replace("_", " ")
    return "all" if bare == "total" else bare
