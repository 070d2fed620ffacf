"""Comparison of cores: peers of a core, and groups with median and range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nftop.model.column import Floats
from nftop.model.frame import CpuTable
from nftop.model.median import median
from nftop.model.metrics.metric import ESTIMATE_BELOW, Metric, Unit
from nftop.model.metrics.tma import TMA_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.struct import dataclass
from nftop.render.base import format as fmt
from nftop.render.base.line import BLANK, Line, Span, Tone, crop, line, paragraph
from nftop.render.base.text import fit
from nftop.render.cache.class_cells import group_name
from nftop.render.cores.rows import polled

Grouping = Literal["nf", "class"]
NODES: tuple[Metric, ...] = tuple(metric for metric in TMA_METRICS if metric.coverage)
_NAME, _MOST_NAME, _COUNT, _CELL = 18, 30, 6, 14
_MEDIAN = 5  # cells; the range has the others
_WORDS = {"nf": "network function", "class": "cache class"}


@dataclass(frozen=True, slots=True)
class Peers:
    """Peers of a core: a row per core, and a description."""

    rows: NDArray[np.intp]
    description: str

    def median(self, cpus: CpuTable, metric: str) -> Reading:
        """Median of the known values, or why there is none."""
        if not len(self.rows):
            return Missing(Reason.UNDEFINED, "no other core to compare with")
        column = cpus.columns[metric]
        values = column.values[self.rows][column.present[self.rows]]
        return median(values) if len(values) else column[int(self.rows[0])]


def peers_of(cpus: CpuTable, row: int) -> Peers:
    """Other cores of the same NF, else all other cores that poll; each core once."""
    own = {cpus.topology.cpus[row].cpu, *cpus.topology.cpus[row].siblings}
    others = [
        at for at in np.flatnonzero(polled(cpus)).tolist() if cpus.topology.cpus[at].cpu not in own
    ]
    name = cpus.nf[row]
    same = [
        at for at in others if name and (cpus.nf[at], cpus.nf_pid[at]) == (name, cpus.nf_pid[row])
    ]
    rows = once_per_core(cpus, same or others)
    others_text = f"other core{'s' * (len(rows) != 1)}"
    return Peers(
        rows,
        f"{len(rows)} {others_text} of {name}" if same else f"{len(rows)} {others_text} that poll",
    )


def once_per_core(cpus: CpuTable, rows: Sequence[int]) -> NDArray[np.intp]:
    """The first of the rows of each physical core."""
    seen: dict[object, int] = {}
    for row in rows:
        info = cpus.topology.cpus[row]
        seen.setdefault(("cpu", info.cpu) if info.core is None else info.core, row)
    return np.array(list(seen.values()), np.intp)


def group_lines(cpus: CpuTable, shown: Sequence[int], by: Grouping, width: int) -> list[Line]:
    """A line per NF or class with median and range of each node; nodes wrap into blocks."""
    groups = _groups(cpus, shown, by)
    head = paragraph(
        f"Top-down by {_WORDS[by]}: median of the cores shown, lowest to highest behind it, in "
        "percent of issue slots; t goes on",
        width,
        tone=Tone.MUTED,
    )
    if not groups:
        return [*head, line("no rows")]
    abreast = min(len(NODES), max(1, (width - _NAME - _COUNT) // _CELL))
    spare = max(0, width - _NAME - _COUNT - abreast * _CELL)
    names = min(_MOST_NAME, _NAME + spare)
    lines: list[Line] = [*head]
    for at in range(0, len(NODES), abreast):
        metrics = NODES[at : at + abreast]
        labels = "".join(f"{metric.label:>{_MEDIAN}}".ljust(_CELL) for metric in metrics)
        title = fit("NF" if by == "nf" else "CLASS", names) + fit("CORES", _COUNT - 1, right=True)
        lines += [BLANK] if at else []
        lines.append(line(Span(f"{title} {labels}", Tone.HEADER), fill=Tone.HEADER))
        for name, rows in groups:
            cells = [cpu for metric in metrics for cpu in _spread(cpus, rows, metric)]
            lead = fit(name, names - 1) + " " + f"{len(rows):>{_COUNT - 1}} "
            lines.append(line(lead, *cells))
    return [crop(item, width) for item in lines]


def _groups(
    cpus: CpuTable, shown: Sequence[int], by: Grouping
) -> list[tuple[str, NDArray[np.intp]]]:
    """Names and rows, a row per core; cores without a group last."""
    groups: dict[tuple[bool, str], list[int]] = {}
    for row in shown:
        name = _nf_of(cpus, row) if by == "nf" else _class_of(cpus, row)
        groups.setdefault((name is None, name or "none"), []).append(row)
    return [(name, once_per_core(cpus, rows)) for (_, name), rows in sorted(groups.items())]


def _nf_of(cpus: CpuTable, row: int) -> str | None:
    pid = cpus.nf_pid[row]
    return f"{cpus.nf[row]} {pid or ''}".rstrip() if cpus.nf[row] else None


def _class_of(cpus: CpuTable, row: int) -> str | None:
    group = cpus.group[row]
    if isinstance(group, Missing):
        return None
    number = "" if group.clos is None else f"COS{group.clos} "
    return f"{number}{group_name(group.name)}"


def _spread(cpus: CpuTable, rows: NDArray[np.intp], metric: Metric) -> tuple[Span, ...]:
    """Median and range of a node over some cores, or the mark of the reason.

    No range if all are equal.
    """
    column = cpus.columns[metric.id]
    present = column.present[rows]
    if not present.any():
        reason = Reason(int(column.reasons[rows[0]]))
        mark = fmt.mark(reason, _MEDIAN)
        return (Span(f"{mark:>{_MEDIAN}}{' ' * (_CELL - _MEDIAN)}", Tone.MISSING),)
    values: Floats = column.values[rows][present]
    coverage = cpus.columns[metric.coverage].values[rows] if metric.coverage else np.ones(1)
    estimate = bool((coverage < ESTIMATE_BELOW).any())
    middle = fmt.number(median(values), Unit.RATIO, _MEDIAN - 1)
    low, high = _bare(values.min()), _bare(values.max())
    spread = "" if low == high else f" {low}-{high}"
    return (
        Span(f"{middle:>{_MEDIAN}}{fmt.ESTIMATE if estimate else ' '}", Tone.PLAIN),
        Span(fit(spread, _CELL - _MEDIAN - 1), Tone.MUTED),
    )


def _bare(ratio: float) -> str:
    return fmt.number(ratio, Unit.RATIO, 5).removesuffix("%")
