"""What a packet costs by the cache that its poller has left.

Source: the RDT paper ("Deterministic Network Functions Virtualization with Intel Resource Director
Technology"): OVS and virtual machines on a Xeon E5-2658 v3, 20 ways of 1.5 MiB, with a memtester as
the noisy neighbour. With `kept` the share (0..1) that the pollers keep of what they fill when they
are undisturbed (Table 1), packets per second fall to

    1 / (1 + sensitivity * (1 - kept))

of what they were. The paper does not say what was kept: that is `filling.settle` on its cache, its
occupancies and its masks (Tables 8, 13 and 18). `SENSITIVITY` is fitted for each size of frame to
the row that loses most, without cache allocation against without a neighbour:

     64 bytes   Table 9    -5.8 %  (printed under "WithCAT"; its text says the neighbour took it)
    256 bytes   Table 14   -7.2 %
   1024 bytes   Table 19  -33.7 %
   1518 bytes   Table 19  -30.6 %

Rows of the same sizes that lose nothing (Tables 14 and 19 at 64 bytes, 9 and 14 from 1024 on) were
limited by something else than the pollers. With the masks of Tables 13 and 18 the relation gives
back nearly all, as the paper found: 1.8 % were still lost at 256 bytes, 3.1 % at 1024, 7.6 % at
1518, where the relation says 0, 0 and 1.7 %. Simulated hosts forward 64-byte frames.

Beyond what was filled at first the cost falls with the same slope, and ever less, to what it is
when nothing waits for memory any more (`workloads.least_cost`): an assumption.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import MappingProxyType

from nftop.model.column import Floats
from nftop.sim import workloads
from nftop.sim.layout import Layout
from nftop.sim.rates import Now, least_cost

# By the bytes of a frame.
SENSITIVITY: Mapping[int, float] = MappingProxyType(
    {64: 0.112, 256: 0.142, 1024: 0.638, 1518: 0.529}
)
_FRAME_BYTES = 64
# What a scenario slows is taken for the cache's doing where less than this was kept.
_DISTURBED = 0.8


def cost(kept: float, sensitivity: float, *, at: float, measured: float, least: float) -> float:
    """The cost of a packet, as a share of what it is undisturbed.

    Args:
        kept: share of the bytes that are held undisturbed, 0 or more.
        sensitivity: by how much the cost falls for a share of 1.
        at: a share whose cost is known.
        measured: that cost.
        least: what it falls to.
    """
    if kept <= at:
        return measured + sensitivity * (at - kept)
    room = measured - least
    if room <= 0:
        return measured
    return measured - room * -math.expm1(-sensitivity * (kept - at) / room)


def costs(layout: Layout, now: Now, held: Floats, usual: Floats, first: Floats) -> dict[int, float]:
    """By CPU of a poller what a packet costs it in a phase, with these bytes of cache.

    With the classes that the scenario began with that is what the scenario says: where it slows a
    task, that is what its lost bytes cost it.

    Args:
        layout: of the host.
        now: the phase.
        held: float64 (n,), bytes of each of n CPUs.
        usual: the same with the first classes, in this phase.
        first: and in the first phase.
    """
    result = {}
    for placed in layout.placed:
        if placed.task.kind == "vm":
            continue
        slowed = now.slowed.get(placed.task.name, 1.0)
        otherwise = workloads.cache_sensitivity(placed.task.workload, SENSITIVITY[_FRAME_BYTES])
        for cpu in placed.cpus:
            kept, at = float(held[cpu] / first[cpu]), float(usual[cpu] / first[cpu])
            least = least_cost(layout, placed, cpu)
            if slowed > 1.0 and at < _DISTURBED:
                sensitivity = (slowed - 1.0) / (1.0 - at)
                result[cpu] = cost(kept, sensitivity, at=1.0, measured=1.0, least=least)
            else:
                result[cpu] = cost(kept, otherwise, at=at, measured=slowed, least=least)
    return {int(cpu): item for cpu, item in result.items()}
