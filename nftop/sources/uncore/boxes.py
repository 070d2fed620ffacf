"""The boxes this kernel has, and on which CPU each is to be counted."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nftop.model.ids import Cpu, Package
from nftop.model.reading import Reason
from nftop.model.topology import Topology
from nftop.sources.perf import pmu as sysfs
from nftop.sources.perf.problems import Problem
from nftop.uarch.sections import Uncore

_DEVICES = "sys/bus/event_source/devices"
# What the kernel calls the units of a CPU that it learns of from the hardware alone.
_NAMELESS = re.compile(r"uncore_type_\d+(_\d+)?")

NO_UNCORE = Problem(
    Reason.HARDWARE,
    "this kernel shows no counters outside the cores: guests have none, and a host needs the "
    "module intel_uncore",
    "on a host: sudo modprobe intel_uncore",
)
_UNNAMED = Problem(
    Reason.HARDWARE,
    "this kernel does not know the units of this CPU (it calls them uncore_type_...), and its "
    "umask of 8 bits is too short for their events",
    "a kernel that knows this CPU",
)


@dataclass(frozen=True, slots=True)
class Box:
    """One box of a unit, in one package.

    Attributes:
        pmu: its PMU in sysfs; the same one stands for the boxes of that number of all packages.
        number: the kernel's, as in `uncore_imc_3`; 0 where it gives none.
        die: of the package; None where the kernel tells of none.
        cpu: on which the kernel counts it, whichever CPU an event is opened on.
    """

    unit: Uncore
    pmu: sysfs.Pmu
    number: int
    package: Package
    die: int | None
    cpu: Cpu

    @property
    def key(self) -> tuple[str, int, int, int | None]:
        """What stays the same while the kernel moves its events from CPU to CPU."""
        return (self.pmu.name, self.pmu.pmu_type, self.package, self.die)


@dataclass(frozen=True, slots=True)
class Found:
    """What there is to count.

    Attributes:
        boxes: in the order of the units, by number and package.
        lacking: why a unit has no boxes in a package.
    """

    boxes: tuple[Box, ...]
    lacking: Mapping[tuple[str, Package], Problem]


def find_boxes(
    units: Iterable[Uncore],
    topology: Topology,
    *,
    quiet: Collection[int] = frozenset(),
    root: Path = Path("/"),
) -> Found:
    """Every box of these units but those that are counted on a quiet CPU. Never raises.

    Where a package has several dies, a box is each die's of that number.
    """
    names = _names(root)
    boxes: list[Box] = []
    lacking: dict[tuple[str, Package], Problem] = {}
    for unit in units:
        found, problem = _boxes(unit, names, topology, root)
        if not found and unit.links and problem is None and len(topology.packages) == 1:
            continue  # there is nothing it could link
        for package in topology.packages:
            mine = [box for box in found if box.package == package]
            disturbed = [box.cpu for box in mine if box.cpu in quiet]
            if disturbed:  # of one die, perhaps; but what the others count is not the package's
                lacking[unit.name, package] = left_out(disturbed[0])
            elif not mine:
                lacking[unit.name, package] = problem or _absent(unit, names)
            else:
                boxes += mine
    return Found(tuple(boxes), lacking)


def left_out(cpu: Cpu) -> Problem:
    """Why a package whose counters are set on a quiet CPU is not counted."""
    sentence = f"left out by --quiet-cpus: what is outside the cores is counted on CPU {cpu}"
    return Problem(Reason.SOURCE, sentence)


def _boxes(
    unit: Uncore, names: Iterable[str], topology: Topology, root: Path
) -> tuple[list[Box], Problem | None]:
    """A unit's boxes on all packages, and what is wrong with a PMU of it, if anything is."""
    of_unit = re.compile(rf"{re.escape(unit.pmu)}(?:_(\d+))?")
    numbers = {name: int(at[1] or 0) for name in names if (at := of_unit.fullmatch(name))}
    found: list[Box] = []
    problem: Problem | None = None
    for name, number in sorted(numbers.items(), key=lambda item: item[1]):
        try:
            pmu = sysfs.read_pmu(name, root)
        except OSError as error:
            sentence = f"the PMU {name} can't be read in sysfs: {error.strerror}"
            problem = Problem(Reason.ERROR, sentence)
            continue
        except sysfs.PmuError as error:
            problem = Problem(Reason.ERROR, str(error))
            continue
        if pmu.cpumask is None:
            problem = Problem(Reason.ERROR, f"the PMU {name} does not say on which CPU to count")
        for cpu in pmu.cpumask or ():
            info = topology.cpus[topology.row_of[cpu]] if cpu in topology.row_of else None
            if info is not None and info.package is not None:
                found.append(Box(unit, pmu, number, info.package, info.die, cpu))
    # A sum without one of its boxes would be too small and look like any other.
    return ([], problem) if problem is not None else (found, None)


def _absent(unit: Uncore, names: Collection[str]) -> Problem:
    if any(_NAMELESS.fullmatch(name) for name in names):
        return _UNNAMED
    if not any(name.startswith("uncore_") for name in names):
        return NO_UNCORE
    return Problem(Reason.HARDWARE, f"this kernel shows no PMU {unit.pmu}_0 on this package")


def _names(root: Path) -> tuple[str, ...]:
    try:
        with os.scandir(root / _DEVICES) as entries:
            return tuple(sorted(entry.name for entry in entries))
    except OSError:
        return ()
