"""Boxes with their counters: a group for each turn, of which one at a time is on.

A group never spans boxes. A failure of one event leaves the others; a failure of nftop's own limits
or privileges ends the opening of all boxes.
"""

from __future__ import annotations

import errno
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nftop.model.ids import Cpu, Package
from nftop.model.missing import Reason
from nftop.model.struct import dataclass, replace
from nftop.model.topology import Topology
from nftop.sources.host.sysfs import entries
from nftop.sources.perf import pmu as sysfs
from nftop.sources.perf.abi import READ_HEADER_WORDS, Kernel, close_events, open_next
from nftop.sources.perf.probe import OWN_LIMITS
from nftop.sources.perf.problems import CounterProblem, explain
from nftop.uarch.sections import Uncore
from nftop.uarch.table import Encoding

# Multiplexing within a unit. The kernel's own would swap the groups of every box with a timer, 250
# times a second, on one CPU of the package.
_WEIGHT, _WEIGHT_ON_DEMAND = 4, 1  # of the time
# A slice costs two interrupts a box; with longer ones some turns would not run in every second.
SHORTEST_NS = 10_000_000
LONGEST_NS = 250_000_000
# Of the time of one CPU, over all packages. Linux 6.2 to 6.11 set up every group of a CPU anew when
# one is switched on (ctx_resched of kernel/events/core.c), which is expensive with many boxes.
SWITCHING_AT_MOST = 0.02


@dataclass(frozen=True, slots=True)
class Slice:
    """One stay of a turn on the counters."""

    turn: int
    duration_ns: int


@dataclass(slots=True)
class Rota:
    """Position of one unit's boxes in their round, and its end."""

    at: int
    due_ns: int
    slices: tuple[Slice, ...]

    @property
    def turn(self) -> int:
        return self.slices[self.at].turn

    @property
    def round_ns(self) -> int:
        return sum(item.duration_ns for item in self.slices)


def turns_of(unit: Uncore) -> tuple[tuple[str, ...], ...]:
    """All groups of a unit's events; those on demand last."""
    return (*unit.turns, *unit.on_demand)


def shares(unit: Uncore, *, detailed: bool) -> tuple[float, ...]:
    """Share of the time of each of `turns_of`; together 1.

    Those on demand only if `detailed`: each turn adds two switches of every box to a round.
    """
    weights = [_WEIGHT] * len(unit.turns)
    if detailed:
        weights += [_WEIGHT_ON_DEMAND] * len(unit.on_demand)
    if unit.first_share is None:
        return tuple(weight / sum(weights) for weight in weights)
    others = sum(weights[1:])
    rest = 1 - unit.first_share
    return (unit.first_share, *(rest * weight / others for weight in weights[1:]))


def round_of(ratios: Sequence[float], interval_ns: int, switch_ns: int = 0) -> tuple[Slice, ...]:
    """The slices of a round, there and back again, so that whole rounds fill the interval.

    The slices of each turn are symmetric to the middle of the round: a steady change of traffic
    affects all turns alike. The first turn has both ends, so that a reading somewhat early or late
    misses no turn. A round is longer than the interval if slices would be too short, or if
    switching, `switch_ns` each, would exceed `SWITCHING_AT_MOST`.
    """
    rounds = max(math.ceil(max(ratios) * interval_ns / 2 / LONGEST_NS), 1)
    switches_ns = 2 * (len(ratios) - 1) * switch_ns
    round_ns = max(
        interval_ns / rounds, 2 * SHORTEST_NS / min(ratios), switches_ns / SWITCHING_AT_MOST
    )
    slices = [
        Slice(turn, max(round(share * round_ns / 2), 1)) for turn, share in enumerate(ratios[:-1])
    ]
    middle = Slice(len(ratios) - 1, max(round(ratios[-1] * round_ns), 1))
    return (*slices, middle, *reversed(slices))


# Units that the kernel knows from hardware discovery only.
_NAMELESS = re.compile(r"uncore_type_\d+(_\d+)?")

NO_UNCORE = CounterProblem(
    Reason.HARDWARE,
    "this kernel shows no counters outside the cores: guests have none, and a host needs the "
    "module intel_uncore",
    "sudo modprobe intel_uncore",
)
_UNNAMED = CounterProblem(
    Reason.HARDWARE,
    "this kernel does not know the units of this CPU (it calls them uncore_type_...), and its "
    "umask of 8 bits is too short for their events: a later kernel knows them",
)


@dataclass(frozen=True, slots=True)
class Box:
    """One box of a unit, in one package."""

    unit: Uncore
    pmu: sysfs.Pmu  # its PMU in sysfs, shared by the boxes of that number of all packages
    number: int  # the kernel's, as in `uncore_imc_3`; 0 if it has none
    package: Package
    die: int | None  # of the package; None if unknown
    cpu: Cpu  # on which the kernel counts it, whichever CPU an event is opened on

    @property
    def key(self) -> tuple[str, int, int, int | None]:
        """Identity that is kept while the kernel moves its events from CPU to CPU."""
        return (self.pmu.name, self.pmu.pmu_type, self.package, self.die)


@dataclass(frozen=True, slots=True)
class UnitBoxes:
    """Boxes by unit, number and package; `lacking` is why a unit has none in a package."""

    boxes: tuple[Box, ...]
    lacking: Mapping[tuple[str, Package], CounterProblem]


def find_boxes(
    units: Iterable[Uncore],
    topology: Topology,
    *,
    quiet: Collection[int] = frozenset(),
    root: Path = Path("/"),
) -> UnitBoxes:
    """Every box of these units but those counted on a quiet CPU. Never raises.

    Of several dies in a package each has its own box.
    """
    names = sorted(entries(root / sysfs.DEVICES))
    boxes: list[Box] = []
    lacking: dict[tuple[str, Package], CounterProblem] = {}
    for unit in units:
        unit_boxes, problem = _boxes(unit, names, topology, root)
        if not unit_boxes and unit.links and problem is None and len(topology.packages) == 1:
            continue  # there is nothing it could link
        for package in topology.packages:
            if unit.only is not None and package not in {wanted for wanted, _ in unit.only}:
                continue
            mine = [box for box in unit_boxes if box.package == package]
            disturbed = [box.cpu for box in mine if box.cpu in quiet]
            if disturbed:  # of one die, perhaps; but what the others count is not the package's
                sentence = f"left out by --quiet-cpus: it is counted on CPU {disturbed[0]}"
                lacking[unit.name, package] = CounterProblem(Reason.SOURCE, sentence)
            elif not mine:
                lacking[unit.name, package] = problem or _absent(unit, names)
            else:
                boxes += mine
    return UnitBoxes(tuple(boxes), lacking)


def _boxes(
    unit: Uncore, names: Iterable[str], topology: Topology, root: Path
) -> tuple[list[Box], CounterProblem | None]:
    """A unit's boxes on all packages, and a problem of one of its PMUs."""
    of_unit = re.compile(rf"{re.escape(unit.pmu)}(?:_(\d+))?")
    numbers = {name: int(at[1] or 0) for name in names if (at := of_unit.fullmatch(name))}
    boxes: list[Box] = []
    problem: CounterProblem | None = None
    for name, number in sorted(numbers.items(), key=lambda item: item[1]):
        try:
            pmu = sysfs.read_pmu(name, root)
        except OSError as error:
            sentence = f"the PMU {name} can't be read in sysfs: {error.strerror}"
            problem = CounterProblem(Reason.ERROR, sentence)
            continue
        except sysfs.PmuError as error:
            problem = CounterProblem(Reason.ERROR, str(error))
            continue
        if pmu.cpumask is None:
            problem = CounterProblem(
                Reason.ERROR, f"the PMU {name} does not say on which CPU to count"
            )
        for cpu in pmu.cpumask or ():
            info = topology.cpus[topology.row_of[cpu]] if cpu in topology.row_of else None
            if info is None or info.package is None:
                continue
            if unit.only is None or (info.package, number) in unit.only:
                boxes.append(Box(unit, pmu, number, info.package, info.die, cpu))
    # A sum without one of its boxes would be too small and look like any other.
    return ([], problem) if problem is not None else (boxes, None)


def _absent(unit: Uncore, names: Collection[str]) -> CounterProblem:
    if any(_NAMELESS.fullmatch(name) for name in names):
        return _UNNAMED
    if not any(name.startswith("uncore_") for name in names):
        return NO_UNCORE
    return CounterProblem(Reason.HARDWARE, f"this kernel shows no PMU {unit.pmu}_0 on this package")


# Errors that every box would have.
OF_ALL = OWN_LIMITS | {errno.EACCES, errno.EPERM, errno.ENOSYS}


@dataclass(frozen=True, slots=True)
class Turn:
    """The group of one turn on one box: its events in the order they were opened.

    `fds[0]` is the leader's; none if no event of the turn could be opened.
    """

    events: tuple[str, ...]
    fds: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class OpenBox:
    """A box that was opened, as far as possible."""

    box: Box
    turns: tuple[Turn, ...]  # in the order of `turns_of` its unit; none if a read of it failed
    absent: Mapping[str, CounterProblem]  # why it lacks an event

    @property
    def counts(self) -> bool:
        """Whether some event of it was opened."""
        return any(turn.fds for turn in self.turns)

    @property
    def may_recover(self) -> bool:
        """Whether it counts nothing for a reason that may pass."""
        return not self.counts and any(
            why.reason is not Reason.HARDWARE for why in self.absent.values()
        )


def open_box(kernel: Kernel, box: Box, root: Path = Path("/")) -> OpenBox | None:
    """Open every turn of a box, none of them on; None if the kernel refuses every event of it.

    That happens if other packages have the box and this one lacks it. Raises OSError of nftop's own
    limits or privileges (`OF_ALL`); nothing stays open.
    """
    encodings, absent = _encodings(box)
    turns: list[Turn] = []
    refusals: set[int] = set()
    try:
        for names in turns_of(box.unit):
            fds: list[int] = []
            events: list[str] = []
            turns.append(Turn((), ()))
            for name in names:
                if name not in encodings:
                    continue
                try:
                    open_next(kernel, box.cpu, encodings[name], fds)
                except OSError as error:
                    if error.errno in OF_ALL:
                        raise
                    refusals.add(error.errno or errno.EINVAL)
                    absent[name] = explain(error.errno or errno.EINVAL, root)
                else:
                    events.append(name)
                    turns[-1] = Turn(tuple(events), tuple(fds))
    except OSError:
        close_box(kernel, OpenBox(box, tuple(turns), absent))
        raise
    opened = OpenBox(box, tuple(turns), absent)
    return None if refusals == {errno.EINVAL} and not opened.counts else opened


def close_box(kernel: Kernel, opened: OpenBox) -> None:
    for turn in opened.turns:
        close_events(kernel, turn.fds)


def _encodings(box: Box) -> tuple[dict[str, Encoding], dict[str, CounterProblem]]:
    encodings: dict[str, Encoding] = {}
    absent: dict[str, CounterProblem] = {}
    pmu = replace(box.pmu, name=box.unit.pmu)  # what is wrong is wrong with all boxes
    for name, spec in box.unit.events.items():
        try:
            encodings[name] = sysfs.encode(pmu, spec.terms)
        except sysfs.PmuError as error:
            # An older kernel's formats, most often: a umask of 8 bits.
            absent[name] = CounterProblem(Reason.HARDWARE, f"this kernel can't: {error}")
    return encodings, absent


@dataclass(frozen=True, slots=True, eq=False)
class BoxReadings:
    """One read of all groups of n boxes; g groups, in the order of boxes and turns.

    Attributes:
        values: uint64 (g, k), cumulative; undefined beyond a group's width.
        enabled_ns, running_ns: uint64 (g,).
        faults: by box, the errno of a failed read, or 0 if a group had lost its events.
        requested: how many groups were read; the others stand still.
    """

    values: NDArray[np.uint64]
    enabled_ns: NDArray[np.uint64]
    running_ns: NDArray[np.uint64]
    faults: Mapping[int, int]
    requested: int


class BoxReader:
    """Reads a fixed list of boxes, one call a group, into one buffer. The caller owns the boxes.

    A group that is off is read without an interrupt; one that is on interrupts the box's CPU,
    unless the reader runs on the same package.
    """

    def __init__(self, kernel: Kernel, boxes: Sequence[OpenBox]) -> None:
        groups = [
            (at, turn, position >= len(box.box.unit.turns))
            for at, box in enumerate(boxes)
            for position, turn in enumerate(box.turns)
            if turn.fds
        ]
        width = max((len(turn.fds) for _, turn, _ in groups), default=0)
        self._readv = kernel.readv
        self._buffer = np.zeros((len(groups), READ_HEADER_WORDS + width), np.uint64)
        self._targets = [
            (box, turn.fds[0], (self._buffer[row, : READ_HEADER_WORDS + len(turn.fds)].data,))
            for row, (box, turn, _) in enumerate(groups)
        ]
        self._always = [
            target
            for target, (_, _, on_demand) in zip(self._targets, groups, strict=True)
            if not on_demand
        ]
        self._others_stand = False

    def read(self, *, on_demand: bool) -> BoxReadings:
        """Read every group once. Never raises: failures are in `faults`.

        Unless `on_demand`, those groups are off and keep the values of their last read.
        """
        faults: dict[int, int] = {}
        targets = self._always if self._others_stand and not on_demand else self._targets
        self._others_stand = not on_demand
        for box, fd, views in targets:
            try:
                # Short: the last CPU of the package went, and took the events out of their group.
                if self._readv(fd, views) != views[0].nbytes:
                    faults[box] = 0
            except OSError as error:
                faults[box] = error.errno or errno.EIO
        now = self._buffer.copy()
        counts, enabled_ns, running_ns = now[:, READ_HEADER_WORDS:], now[:, 1], now[:, 2]
        return BoxReadings(counts, enabled_ns, running_ns, faults, len(targets))
