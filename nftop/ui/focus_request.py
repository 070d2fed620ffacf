"""What should be counted because of where one looks."""

from __future__ import annotations

from dataclasses import replace

from nftop.model.frame import Focus
from nftop.model.topology import Topology


def aimed(now: Focus, wanted: Focus, topology: Topology, *, stays: bool) -> Focus:
    """What to count from now on, where `now` is counted and the view asks for `wanted`.

    While the screen stands still (`stays`) nothing new is: that would not be on it. But what has
    been left ends, as it disturbs who is counted.
    """
    # The threads of a core are counted together, so to go from one to the other is no change.
    core = topology.with_siblings(() if now.core is None else (now.core,))
    if wanted.core is not None and (stays or wanted.core in core):
        wanted = replace(wanted, core=now.core)
    if stays:
        wanted = replace(wanted, traffic=wanted.traffic and now.traffic)
    return wanted
