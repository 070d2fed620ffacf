"""Deeper nodes of the top-down tree, counted for the selected core only."""

from __future__ import annotations

import msgspec

from nftop.model.data_files import data_file
from nftop.model.metrics.metric import Metric, Unit
from nftop.model.metrics.tma import ORIGIN

# By name, label and meaning. Levels 3 and 4 of the P-cores, in cycles unless stated otherwise;
# levels 2 and 3 of the E-cores, in slots, as far as their names are their own. Shares of cycles
# overlap.
_NODES = msgspec.json.decode(data_file(__package__, "nodes.json"), type=dict[str, tuple[str, str]])
NODE_METRICS: tuple[Metric, ...] = tuple(
    Metric(
        id=f"tma.{name}",
        label=label,
        unit=Unit.RATIO,
        scope="core",
        meaning=f"{meaning} Of the whole physical core.",
        formula=f"{name} of the CPU's table, each event by the cycles of its own counter group",
        origin=ORIGIN,
    )
    for name, (label, meaning) in _NODES.items()
)
