"""The boxes of the lab's packages: what they count, and the CPU by which they are read.

Source: `uncore_event_cpu_offline` and `uncore_event_cpu_online` of arch/x86/events/intel/uncore.c,
Linux 6.1.
"""

from __future__ import annotations

import errno
import functools
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from nftop.model.column import Floats
from nftop.model.ids import format_cpu_list
from nftop.model.topology import Topology
from nftop.sim.model import Model
from nftop.sim.uncore import OF_PACKAGE, box_counts, pmus
from tests.lab.tree import failed
from tests.lab.uncore.units import Unit


@dataclass(frozen=True, slots=True)
class Box:
    """One box of every package: a PMU. `place`: among its unit's."""

    unit: Unit
    location: int


class Readers:
    """The CPU that reads the boxes of each package: the first, until it goes offline."""

    def __init__(self, topology: Topology, online: Callable[[], Collection[int]]) -> None:
        self._members = {
            package: [info.cpu for info in topology.cpus if info.package == package]
            for package in topology.packages
        }
        self._online = online
        self._chosen: dict[int, int] = {}

    def of(self, cpu: int) -> tuple[int, int]:
        """The row of the package that a CPU is in, and its reader.

        Raises:
            OSError: EINVAL, no CPU, or all of the package are offline.
        """
        self._move()
        for row, (package, members) in enumerate(self._members.items()):
            if cpu in members and package in self._chosen:
                return row, self._chosen[package]
        raise failed(errno.EINVAL)

    def cpumask(self) -> str:
        """As sysfs shows it for each uncore PMU."""
        self._move()
        return format_cpu_list(self._chosen.values())

    def _move(self) -> None:
        """Whose reader has gone has another; one that comes back is a reader no more."""
        online = self._online()
        for package, members in self._members.items():
            if self._chosen.get(package) not in online:
                present = [cpu for cpu in members if cpu in online]
                self._chosen.pop(package, None)
                self._chosen.update({package: present[0]} if present else {})


class Boxes:
    """Every box of the lab, by the type number of its PMU."""

    def __init__(self, units: Collection[Unit], model: Model) -> None:
        self._boxes = {
            pmu_type: Box(unit, location)
            for unit in units
            for location, pmu_type in enumerate(unit.types)
        }
        self._counts = {unit.name: _counts_of(unit, model) for unit in units}

    def of_type(self, pmu_type: int) -> Box | None:
        return self._boxes.get(pmu_type)

    def counts(self, box: Box, package: int) -> Callable[[int], Floats]:
        """What the box of a package, by its row, has counted at a time: float64 (k,).

        k as in nftop.sim.uncore.OF_PACKAGE.
        """
        counts = self._counts[box.unit.name]
        return lambda t_ns: counts(t_ns)[package, box.location]


def _counts_of(unit: Unit, model: Model) -> Callable[[int], Floats]:
    """Of all its boxes, float64 (packages, boxes, k); a unit that the model lacks sees nothing."""
    packages = len(model.layout.topology.packages)
    if unit.name not in pmus(unit.uarch):
        nothing = np.zeros((packages, len(unit.numbers), len(OF_PACKAGE)))
        return lambda _: nothing

    # Asked again and again for the times at which events were opened, and for those of other boxes
    # where the clock stands.
    @functools.lru_cache(maxsize=128)
    def until(t_ns: int) -> Floats:
        return box_counts(model, t_ns, unit.name, unit.uarch).astype(np.float64)

    return until
