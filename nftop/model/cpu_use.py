"""What a process ran on one CPU; its module imports no numpy, as those that change the host."""

from __future__ import annotations

from nftop.model.ids import Cpu
from nftop.model.struct import dataclass


@dataclass(frozen=True, slots=True)
class CpuUse:
    """What one process ran on a CPU between two scans of /proc.

    Attributes:
        name: its program, or the kernel thread (untrusted text).
        run_ns: run time of its threads that were last on this CPU.
        over_ns: time between the scans.
    """

    cpu: Cpu
    pid: int
    name: str
    run_ns: int
    over_ns: int
