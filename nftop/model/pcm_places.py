"""Whose CPUs a sensor server tells of."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nftop.model.pcm import PcmTable
from nftop.model.reading import Missing, Reason
from nftop.model.topology import Topology

ANOTHERS = Missing(
    Reason.SOURCE,
    "the server's CPUs and packages are not this host's, so its numbers are not used; "
    "nftop --pcm URL shows them by themselves",
)


def places(
    table: PcmTable, topology: Topology
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
    """For each CPU and package of the topology its row in the table, -1 where it has none.

    (None, None) unless the server has the topology's CPUs, all that are online, in as many
    packages, shared out in the same way; numbers of packages may differ.
    """
    row_of = {int(cpu): row for row, cpu in enumerate(table.cpus.tolist())}
    online = {int(info.cpu) for info in topology.cpus if info.online}
    if not online <= row_of.keys() <= topology.row_of.keys():
        return None, None
    rows = np.array([row_of.get(int(info.cpu), -1) for info in topology.cpus], dtype=np.int64)
    pairs = {
        (info.package, int(table.packages[row]))
        for info, row in zip(topology.cpus, rows.tolist(), strict=True)
        if info.package is not None and row >= 0
    }
    if not len(pairs) == len({ours for ours, _ in pairs}) == len({its for _, its in pairs}):
        return None, None
    socket_of = dict(pairs)
    place = {int(socket): index for index, socket in enumerate(table.sockets.tolist())}
    packages = [place.get(socket_of.get(package, -1), -1) for package in topology.packages]
    return rows, np.array(packages, dtype=np.int64)
