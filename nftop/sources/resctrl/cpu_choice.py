"""On which CPU the kernel reads a cache's counters, since that CPU is disturbed.

Only a CPU beside a cache can read its counters. Up to Linux 6.8 the kernel interrupts one of them,
and none where the reading thread itself runs beside the cache; of others it takes the first. From
6.9 on it has a worker do it on the first that is not nohz_full, wherever the reader runs; only
where all are nohz_full it does as before. A worker has to wait for what polls there with real-time
priority, and the reader with it: the source is late then, which shows.

Sources: `mon_event_read` of arch/x86/kernel/cpu/resctrl in 6.1 and of fs/resctrl in 7.2;
`smp_call_function_any` and `cpumask_any_housekeeping`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from nftop.model.ids import Cpu
from nftop.model.topology import Topology
from nftop.sources.resctrl.files import read_text

_RELEASE = re.compile(r"([0-9]{1,4})\.([0-9]{1,4})\b")
_QUEUES_SINCE = (6, 9)


@dataclass(frozen=True, slots=True)
class Place:
    """Where a cache's counters are read.

    Attributes:
        cpu: the CPU that does it; None for a cache whose CPUs are not known.
        stay_on: the CPUs on which the reading thread must be for that; empty where it is all one.
    """

    cpu: Cpu | None
    stay_on: frozenset[Cpu] = frozenset()


def queues(root: Path) -> bool:
    """Whether this kernel has a worker read counters; true as well where it tells no release."""
    try:
        found = _RELEASE.match(read_text(os.fspath(root / "proc/sys/kernel/osrelease")))
    except OSError:
        return True
    return found is None or (int(found[1]), int(found[2])) >= _QUEUES_SINCE


def place_of(l3: int, topology: Topology, usable: Collection[int], *, queued: bool) -> Place:
    """Where the counters of a cache are read by a thread that may use the `usable` CPUs."""
    beside = [info for info in topology.cpus if info.l3 == l3 and info.online]
    if not beside:
        return Place(None)
    if queued:
        first = next((info.cpu for info in beside if not info.nohz_full), None)
        if first is not None:
            return Place(first)
    own = frozenset(info.cpu for info in beside if info.cpu in usable)
    return Place(min(own), own) if own else Place(beside[0].cpu)
