"""What is to be counted because somebody looks at it, and nothing else."""

from __future__ import annotations

from dataclasses import replace

from nftop.model.frame import Frame
from nftop.model.looking import Looking


def aimed(frame: Frame, wanted: Looking, now: Looking, *, stays: bool) -> Looking:
    """What is counted next.

    While the screen stands still nothing new is: that would not be on it. But what has been left
    ends, as it disturbs who is counted.

    Args:
        frame: the one on screen.
        wanted: by the view that is up.
        now: what is counted.
        stays: the screen stands still.
    """
    # The threads of a core are counted together, so to go from one to the other is no change.
    core = frame.topology.with_siblings(() if now.core is None else (now.core,))
    if wanted.core is not None and (stays or wanted.core in core):
        wanted = replace(wanted, core=now.core)
    if stays:
        wanted = replace(wanted, traffic=wanted.traffic and now.traffic)
    return wanted
