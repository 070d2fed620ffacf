"""What the simulated host does to caches and memory, as the ledger asks for it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nftop.model.column import Bools, Floats
from nftop.sim.model import Model
from nftop.sim.workloads import INDEX
from tests.lab.resctrl.ledger import Fill, Host

_LINE_BYTES = 64
# How fast a cache forgets; as the model's own groups do.
SETTLE_S = 4.0


def host_of(model: Model, fill: Fill | None = None) -> Host:
    """The model's host. `fill` says who fills which way how far, else it is shared by traffic."""

    def traffic(at_ns: int) -> Floats:
        counts = model.counts(at_ns)
        lines = counts[:, INDEX["cas_reads"]] + counts[:, INDEX["cas_writes"]]
        # All memory is local in the model.
        return np.repeat(lines.astype(np.float64)[:, None] * _LINE_BYTES, 2, axis=1)

    def by_traffic(
        at_ns: int, cpus: Sequence[Sequence[int]], ways: Bools, way_bytes: float
    ) -> Floats:
        phase = int(np.searchsorted(model.starts_ns, at_ns, side="right")) - 1
        rate = model.steady[phase][:, [INDEX["cas_reads"], INDEX["cas_writes"]]].sum(axis=1)
        return share(np.array([rate[list(own)].sum() for own in cpus]), ways, way_bytes)

    return Host(model.starts_ns, SETTLE_S, traffic, fill or by_traffic)


def share(weights: Floats, ways: Bools, way_bytes: float) -> Floats:
    """Bytes that each of g groups fills if every way is shared by the weights of those that may.

    Args:
        weights: float64 (g,).
        ways: bool (g, w).
        way_bytes: size of a way.
    """
    claims = weights[:, None] * ways
    total = claims.sum(axis=0)
    parts = np.divide(claims, total, out=np.zeros_like(claims), where=total > 0)
    return np.asarray(parts.sum(axis=1) * way_bytes)
