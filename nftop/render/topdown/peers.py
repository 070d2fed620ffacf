"""Cores beside each other: what a core's peers show, and groups of cores with their spread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from nftop.model.column import Floats
from nftop.model.frame import CpuTable
from nftop.model.metrics.metric import ESTIMATE_BELOW, Metric, Unit
from nftop.model.metrics.tma import TMA_METRICS
from nftop.model.reading import Missing, Reading, Reason
from nftop.model.struct import dataclass
from nftop.render.base import format as fmt
from nftop.render.base.line import BLANK, Line, Span, Tone, crop, line, paragraph
from nftop.render.base.text import fit
from nftop.render.cache.panel import group_name
from nftop.render.cores.rows import polled

Grouping = Literal["nf", "class"]
NODES: tuple[Metric, ...] = tuple(metric for metric in TMA_METRICS if metric.coverage)
_NAME, _MOST_NAME, _COUNT, _CELL = 18, 30, 6, 14
_MEDIAN = 5  # cells of it; what stands behind it takes the others
_WORDS = {"nf": "network function", "class": "cache class"}


@dataclass(frozen=True, slots=True)
class Peers:
    """What a core is compared with: a row for each other core, and who they are, in words."""

    rows: NDArray[np.intp]
    description: str

    def median(self, cpus: CpuTable, metric: str) -> Reading:
        """The median of those that have a number; why there is none otherwise."""
        if not len(self.rows):
            return Missing(Reason.UNDEFINED, "there is no other core to compare it with")
        column = cpus.columns[metric]
        values = column.values[self.rows][column.present[self.rows]]
        return float(np.median(values)) if len(values) else column[int(self.rows[0])]


def peers_of(cpus: CpuTable, row: int) -> Peers:
    """The other cores on which the same NF polls; where none does, all others that poll.

    The threads of a core share its numbers, so a core counts once, and its own siblings never.
    """
    own = {cpus.topology.cpus[row].cpu, *cpus.topology.cpus[row].siblings}
    others = [at for at in np.flatnonzero(polled(cpus)).tolist()
              if cpus.topology.cpus[at].cpu not in own]  # fmt: skip
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
    """The cores of the rows shown by NF or class: a line each, with each node's median and range.

    Where not all nodes fit beside each other those left get a block of their own below.
    """
    groups = _groups(cpus, shown, by)
    head = paragraph(
        f"Top-down by {_WORDS[by]}: median of the cores shown, lowest to highest behind it, in "
        "percent of issue slots; t goes on",
        width,
        tone=Tone.DIM,
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
    """Names and rows, a row for each core; those in no group come last."""
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
    """Median and range of a node over some cores; its reason's mark where no core has a number.

    No range where all cores show the same.
    """
    column = cpus.columns[metric.id]
    present = column.present[rows]
    if not present.any():
        reason = Reason(int(column.reasons[rows[0]]))
        mark = fmt.mark(reason, _MEDIAN)
        return (Span(f"{mark:>{_MEDIAN}}{' ' * (_CELL - _MEDIAN)}", Tone.MISSING),)
    values: Floats = column.values[rows][present]
    coverage = cpus.columns[metric.coverage].values[rows] if metric.coverage else np.ones(1)
    estimate = bool(
        (coverage < ESTIMATE_BELOW).any()
    )  # a missing coverage is NaN, not below anything
    median = fmt.number(float(np.median(values)), Unit.RATIO, _MEDIAN - 1)
    low, high = _bare(values.min()), _bare(values.max())
    spread = "" if low == high else f" {low}-{high}"
    return (
        Span(f"{median:>{_MEDIAN}}{fmt.ESTIMATE if estimate else ' '}", Tone.PLAIN),
        Span(fit(spread, _CELL - _MEDIAN - 1), Tone.DIM),
    )


def _bare(ratio: float) -> str:
    return fmt.number(ratio, Unit.RATIO, 5).removesuffix("%")
