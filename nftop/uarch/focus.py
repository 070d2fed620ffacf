"""One physical core in full: the top-down tree down to level 4, and the table's probes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nftop.model.column import Column, column, missing
from nftop.model.frame import TmaNode
from nftop.model.metrics.probes import CORE_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.uarch.sections import THREADS, Topdown
from nftop.uarch.table import Uarch
from nftop.uarch.topdown import PREFIX, Settle, consistent, evaluate, evaluate_probes


def evaluate_focus(
    uarch: Uarch, counts_per_s: Mapping[str, Reading], *, smt: bool, settle: Settle = consistent
) -> tuple[tuple[TmaNode, ...], dict[str, Reading]]:
    """The tree of one core, and its probes by metric id of scope `core`.

    `counts_per_s` are counts per second of one physical core by event, as one row of `sum_siblings`
    (with `threads` and `busiest_...`), scaled by the cycles of each event's group if groups took
    turns. An absent event is missing with SOURCE and its vendor's name.

    The tree has levels 1 to 4, each node after its parent, siblings in the order of the table; it
    is empty without top-down. Ratios and reasons are those of `topdown.evaluate`, which takes
    `settle`. All probes are present: HARDWARE if this CPU can't count them, SOURCE if the table has
    none.
    """
    counts = {name: _one_row(reading) for name, reading in counts_per_s.items()}
    counts.setdefault(THREADS, column(np.array([2.0 if smt else 1.0])))
    readings = evaluate_probes(uarch, counts)
    unknown = _unknown(uarch)
    probes = {
        metric.id: readings[metric.id][0] if metric.id in readings else unknown
        for metric in CORE_METRICS
    }
    if uarch.topdown is None:
        return (), probes
    nodes = evaluate(uarch, counts, smt=smt, settle=settle)
    ratios = {name.removeprefix(PREFIX): column[0] for name, column in nodes.items()}
    return tree(uarch.topdown, ratios), probes


def tree(topdown: Topdown, ratios: Mapping[str, Reading]) -> tuple[TmaNode, ...]:
    """Nodes with a reading, each after its parent, siblings in the order of the table."""
    return tuple(
        TmaNode(
            name,
            topdown.parent.get(name),
            topdown.level[name],
            "cycles" if name in topdown.of_cycles else "slots",
            ratios[name],
            is_beyond(topdown, ratios, name),
        )
        for name in in_order(topdown)
        if name in ratios
    )


def in_order(topdown: Topdown) -> tuple[str, ...]:
    """All nodes, each followed by its descendants; siblings in the order of the table."""
    children: dict[str | None, list[str]] = {}
    for name in topdown.level:
        children.setdefault(topdown.parent.get(name), []).append(name)

    def below(name: str) -> list[str]:
        return [name, *(item for child in children.get(name, ()) for item in below(child))]

    return tuple(item for root in children.get(None, ()) for item in below(root))


def is_beyond(topdown: Topdown, ratios: Mapping[str, Reading], name: str) -> bool:
    """Whether a node and all its ancestors exceed the vendor's thresholds.

    A node may exceed that of the part in `also` instead of its own; without a threshold it never
    does.
    """
    at: str | None = name
    while at is not None:
        column = topdown.also.get(at)
        if not _is_over(topdown, ratios, at) and not (column and _is_over(topdown, ratios, column)):
            return False
        at = topdown.parent.get(at)
    return True


def _is_over(topdown: Topdown, ratios: Mapping[str, Reading], name: str) -> bool:
    ratio, threshold = ratios.get(name), topdown.threshold.get(name)
    if ratio is None or isinstance(ratio, Missing) or threshold is None:
        return False
    return ratio > threshold


def _unknown(uarch: Uarch) -> Missing:
    if not uarch.probes:
        return Missing(Reason.SOURCE, f"nftop has no probes for this CPU ({uarch.name})")
    return Missing(Reason.HARDWARE, f"no event of this CPU ({uarch.name}) counts it")


def _one_row(reading: Reading) -> Column:
    if isinstance(reading, Missing):
        return missing(1, reading)
    return column(np.array([reading]))
