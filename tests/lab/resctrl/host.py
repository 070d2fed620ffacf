"""What the simulated host does to caches and memory, as the ledger asks for it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from nftop.model.column import Bools, Floats
from nftop.sim import rdt
from nftop.sim.model import SETTLE_S, Model
from nftop.sim.rates import phases
from nftop.sim.workloads import INDEX
from tests.lab.resctrl.ledger import Host

_LINE_BYTES = 64


def host_of(model: Model) -> Host:
    """The model's CPUs, whichever groups they are in: not its own groups, but those of the lab."""
    nows = phases(model.scenario)

    def traffic(at_ns: int) -> Floats:
        counts = model.counts(at_ns)
        lines = counts[:, INDEX["cas_reads"]] + counts[:, INDEX["cas_writes"]]
        # All memory is local in the model.
        return np.repeat(lines.astype(np.float64)[:, None] * _LINE_BYTES, 2, axis=1)

    def fill(at_ns: int, cpus: Sequence[Sequence[int]], ways: Bools, way_bytes: float) -> Floats:
        now = nows[bisect_right(model.starts_ns, at_ns) - 1]
        of_cpus = rdt.appetites_of_cpus(model.layout, now)
        wants, paces = np.array([of_cpus[:, list(own)].sum(axis=1) for own in cpus]).T
        return rdt.settle(ways, wants, paces, way_bytes)

    return Host(model.starts_ns, SETTLE_S, traffic, fill)
