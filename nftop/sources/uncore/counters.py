"""All boxes of a host: opened, followed through hotplug, switched from turn to turn, read."""

from __future__ import annotations

import errno
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from nftop.model.ids import Cpu, Package
from nftop.model.missing import Missing, Reason
from nftop.model.struct import dataclass, replace
from nftop.model.topology import Topology
from nftop.model.uncore import UNWANTED, UncoreTable
from nftop.sources.base import RETRY_AFTER_NS
from nftop.sources.host.sysfs import OnlineCpus
from nftop.sources.host.topology import read_topology
from nftop.sources.perf.abi import Kernel, raise_open_files
from nftop.sources.perf.group import Costs
from nftop.sources.perf.problems import CounterProblem, explain
from nftop.sources.uncore.open_counters import (
    NO_UNCORE,
    BoxReader,
    BoxReadings,
    OpenBox,
    Rota,
    Slice,
    UnitBoxes,
    close_box,
    find_boxes,
    open_box,
    round_of,
    shares,
    turns_of,
)
from nftop.uarch.sections import Uncore
from nftop.uarch.table import Uarch

LOST = CounterProblem(
    Reason.RESET, "its package went offline and came back, or is offline: counting starts again"
)
_UNWANTED = CounterProblem(Reason.SOURCE, UNWANTED)
_NO_BOX = -1


@dataclass(frozen=True, slots=True)
class _Row:
    package: int
    number: int
    event: str
    box: int = -1  # its index among the open boxes, of which one without a group counts nothing
    group: int = -1
    column: int = 0
    problem: CounterProblem | None = None
    unwanted: bool = False  # on demand, and not on screen


class UncoreLayout:
    """Layout of the table, rebuilt when boxes change: a reading only copies arrays."""

    def __init__(
        self,
        units: Sequence[Uncore],
        boxes: Sequence[OpenBox],
        lacking: Mapping[tuple[str, Package], CounterProblem],
        *,
        detailed: bool,
    ) -> None:
        """`lacking`: why units have no open boxes in a package, shown as rows of the box -1.

        Unless `detailed`, events on demand are not counted, and have rows with that reason.
        """
        unwanted = {
            event for unit in units for turn in unit.on_demand for event in turn if not detailed
        }
        self._extras = frozenset(unwanted)
        self._events = tuple(dict.fromkeys(event for unit in units for event in unit.events))
        self._rows = [
            _Row(package, _NO_BOX, event, problem=problem)
            for (name, package), problem in lacking.items()
            for unit in units
            if unit.name == name
            for event in unit.events
        ]
        group = 0
        self._box_of_group: list[int] = []
        for at, opened in enumerate(boxes):
            where = (opened.box.package, opened.box.number)
            self._rows += [_Row(*where, e, at, problem=why) for e, why in opened.absent.items()]
            for turn in opened.turns:
                if turn.fds:
                    self._rows += [
                        _Row(*where, event, at, group, column, unwanted=event in unwanted)
                        for column, event in enumerate(turn.events)
                    ]
                    self._box_of_group.append(at)
                    group += 1
        self._boxes = len(boxes)
        position = {event: index for index, event in enumerate(self._events)}
        self._packages = np.array([row.package for row in self._rows], np.int32)
        self._numbers = np.array([row.number for row in self._rows], np.int32)
        self._event = np.array([position[row.event] for row in self._rows], np.int32)
        self._counts = np.flatnonzero([row.group >= 0 for row in self._rows])
        self._group = np.array([row.group for row in self._rows if row.group >= 0], np.intp)
        self._column = np.array([row.column for row in self._rows if row.group >= 0], np.intp)
        self._box = np.array([row.box for row in self._rows if row.group >= 0], np.intp)
        self._unwanted = np.array([row.unwanted for row in self._rows], np.bool_)
        self._problems = [_UNWANTED if row.unwanted else row.problem for row in self._rows]
        self._reasons, self._details = _reasons(self._rows, self._problems)

    def table(self, read: BoxReadings, root: Path = Path("/")) -> UncoreTable:
        """The table of one reading; rows of a faulty box have reasons and no numbers.

        A box's clock is the time in which any of its turns was on, so a group's running time is its
        turn's share.
        """
        of_box = np.zeros(self._boxes, np.uint64)
        np.add.at(of_box, self._box_of_group, read.enabled_ns)
        values, enabled, running = (np.zeros(len(self._rows), np.uint64) for _ in range(3))
        values[self._counts] = read.values[self._group, self._column]
        values[self._unwanted] = 0  # but its clock continues
        running[self._counts] = read.running_ns[self._group]
        enabled[self._counts] = of_box[self._box]
        reasons, details = self._reasons, self._details
        if read.faults:
            why = {box: explain(code, root) if code else LOST for box, code in read.faults.items()}
            problems = [
                row.problem or why.get(row.box) or problem
                for row, problem in zip(self._rows, self._problems, strict=True)
            ]
            reasons, details = _reasons(self._rows, problems)
            for counts in (values, enabled, running):
                counts[reasons != Reason.PRESENT] = 0
        return UncoreTable(
            events=self._events,
            packages=self._packages,
            boxes=self._numbers,
            event=self._event,
            values=values,
            reasons=reasons,
            enabled_ns=enabled,
            running_ns=running,
            details=details,
            extras=self._extras,
        )


def _reasons(
    rows: Sequence[_Row], problems: Sequence[CounterProblem | None]
) -> tuple[np.typing.NDArray[np.uint8], dict[str, dict[int, str]]]:
    """By row; and by event and reason the message of most rows."""
    reasons = np.array([0 if why is None else why.reason for why in problems], np.uint8)
    reasons.flags.writeable = False
    details: dict[str, dict[int, str]] = {}
    reported = Counter(
        (row.event, why) for row, why in zip(rows, problems, strict=True) if why is not None
    )
    for (event, why), _ in reported.most_common():
        details.setdefault(event, {}).setdefault(int(why.reason), why.sentence)
    return reasons, details


# A smaller difference of pace is a late read. This share at a round's end is the second stay of its
# first turns, and may be missed.
_SAME_PACE = 0.2
NO_TABLE = CounterProblem(Reason.SOURCE, "nftop knows no events outside the cores of this CPU")
_REFUSED = CounterProblem(
    Reason.HARDWARE, "the kernel refuses every event of every box on this package"
)


class UncoreCounters:
    """The counters of every box. Not thread-safe.

    `clock_ns` is CLOCK_MONOTONIC; it decides when turns change and what is tried again, while the
    counts have the kernel's clock.

    Attributes:
        boxes: the open ones. lacking: why a unit has none in a package.
        problem: why nothing is counted; None while something is.
        costs: so far; a reader on the package itself interrupts less.
    """

    def __init__(
        self,
        uarch: Uarch,
        *,
        kernel: Kernel,
        clock_ns: Callable[[], int],
        root: Path = Path("/"),
        quiet_cpus: Collection[int] = frozenset(),
    ) -> None:
        self._units = uarch.uncore
        self._kernel = kernel
        self._clock_ns = clock_ns
        self._root = root
        self._quiet = frozenset(quiet_cpus)
        self._online = OnlineCpus(root)
        self._seen: tuple[Cpu, ...] | None = None
        self._topology = Topology(())
        self.boxes: tuple[OpenBox, ...] = ()
        self.lacking: dict[tuple[str, Package], CounterProblem] = {}
        self.problem: CounterProblem | None = None
        self._rotas: dict[str, Rota] = {}
        self._read_at_ns: int | None = None
        self._interval_ns = 0
        self._retry_at_ns: int | None = None
        self._pollers: frozenset[int] = frozenset()
        self._switch_ns: int | None = None
        self._wanted = self._detailed = False
        self.costs = Costs()
        self._install()

    @property
    def due_ns(self) -> int | None:
        """Time of the next `turn`; None if nothing takes turns."""
        changing = (rota.due_ns for rota in self._rotas.values() if len(rota.slices) > 1)
        return min(changing, default=None)

    @property
    def round_ns(self) -> int:
        """Duration of the longest round."""
        return max((rota.round_ns for rota in self._rotas.values()), default=0)

    @property
    def switch_ns(self) -> int:
        """Time to switch all boxes of a unit to the next turn; 0 if unknown.

        The shortest so far: longer ones include time in which other programs ran.
        """
        return self._switch_ns or 0

    def detail(self, *, wanted: bool) -> None:
        """As `Detailing`."""
        self._wanted = wanted

    def set_pollers(self, cpus: Collection[int]) -> None:
        """Set the polling CPUs, as of the next reading. Safe from any thread."""
        self._pollers = frozenset(cpus)

    def read(self) -> UncoreTable | Missing:
        """Counts of all boxes until now; Missing if none counts anything."""
        if not self._units:
            self.problem = NO_TABLE
            return NO_TABLE.missing
        self._follow()
        if self._wanted != self._detailed:
            self._detailed = self._wanted
            self._lay_out()
        self._keep_pace()
        if self.problem is not None:
            return self.problem.missing
        read = self._reader.read(on_demand=self._detailed)
        self.costs.reads += read.requested
        self.costs.interrupts += sum(opened.counts for opened in self.boxes)
        table = replace(
            self._layout.table(read, self._root), warning=self._warning(), round_ns=self.round_ns
        )
        if read.faults:
            self._drop(read.faults)
        for name, rota in self._rotas.items():
            # From reading to reading whole rounds; one that takes much longer goes on.
            if rota.round_ns <= (1 + _SAME_PACE) * self._interval_ns:
                self._go_to(name, rota, 0)
        return table

    def turn(self) -> None:
        """Switch every unit whose slice is over to its next turn."""
        now_ns = self._clock_ns()
        for name, rota in self._rotas.items():
            if now_ns >= rota.due_ns:
                self._go_to(name, rota, (rota.at + 1) % len(rota.slices))

    def close(self) -> None:
        """Close every counter. Safe to call twice."""
        self._close_boxes(self.boxes)
        self.boxes, self._rotas = (), {}
        self._install()
        self._online.close()

    def _follow(self) -> None:
        """Open new boxes, close removed ones, and retry failed ones after a pause."""
        online = self._online.latest()  # if it can't be read, there is no hotplug to follow
        retry = self._retry_at_ns is not None and self._clock_ns() >= self._retry_at_ns
        if online == self._seen and not retry:
            return
        if online != self._seen:
            self._topology = read_topology(self._root)
        self._seen = online
        self._retry_at_ns = None
        raise_open_files()
        boxes = find_boxes(self._units, self._topology, quiet=self._quiet, root=self._root)
        try:
            self._open(boxes)
        except OSError as error:
            # Nothing is kept: a sum of some boxes is none, and others need descriptors too.
            self._close_boxes(self.boxes)
            self.boxes, self._rotas = (), {}
            self.problem = explain(error.errno or errno.EINVAL, self._root)
        if self.problem is not None or any(opened.may_recover for opened in self.boxes):
            self._retry_at_ns = self._clock_ns() + RETRY_AFTER_NS
        self._install()

    def _open(self, target: UnitBoxes) -> None:
        """Make the boxes those of `target`; OSError if none can be opened, with some open."""
        known = {opened.box.key: opened for opened in self.boxes if opened.counts}
        gone = known.keys() - {box.key for box in target.boxes}
        self._close_boxes(known.pop(key) for key in gone)
        self.boxes = tuple(known.values())
        boxes: list[OpenBox] = []
        for box in target.boxes:
            old = known.get(box.key)
            if old is not None:  # the kernel has moved its events with the cpumask
                boxes.append(replace(old, box=box))
                continue
            opened = open_box(self._kernel, box, self._root)
            if opened is not None:
                boxes.append(opened)
                self.boxes = (*self.boxes, opened)
                self._start(opened)
        self.boxes = tuple(boxes)
        counted = {(opened.box.unit.name, opened.box.package) for opened in boxes}
        refused = {(box.unit.name, box.package) for box in target.boxes} - counted
        self.lacking = {**target.lacking, **dict.fromkeys(refused, _REFUSED)}
        self.problem = None
        if not any(opened.counts for opened in boxes):
            absences = (why for opened in boxes for why in opened.absent.values())
            self.problem = next(iter((*self.lacking.values(), *absences)), NO_UNCORE)

    def _start(self, opened: OpenBox) -> None:
        """Start a box with the current turn of its unit."""
        unit = opened.box.unit
        shared = shares(unit, detailed=self._detailed)
        if len(turns_of(unit)) > 1 and unit.name not in self._rotas:
            slices = round_of(shared, self._interval_ns)
            due_ns = self._clock_ns() + slices[0].duration_ns
            self._rotas[unit.name] = Rota(0, due_ns, slices)
        rota = self._rotas.get(unit.name)
        self._set(opened, 0 if rota is None else rota.turn, on=True)

    def _go_to(
        self, unit: str, rota: Rota, at: int, slices: tuple[Slice, ...] | None = None
    ) -> None:
        """Start a slice, of a new round if `slices` is given."""
        before = rota.turn
        rota.at, rota.slices = at, slices or rota.slices
        # From now on and not from when it was due: a late slice shortens none.
        now_ns = self._clock_ns()
        rota.due_ns = now_ns + rota.slices[at].duration_ns
        if rota.turn == before:
            return
        for opened in self.boxes:
            if opened.box.unit.name == unit:
                self._set(opened, before, on=False)
                self._set(opened, rota.turn, on=True)
        took_ns = self._clock_ns() - now_ns
        self._switch_ns = took_ns if self._switch_ns is None else min(self._switch_ns, took_ns)

    def _set(self, opened: OpenBox, turn: int, *, on: bool) -> None:
        fds = opened.turns[turn].fds if opened.turns else ()
        if fds:
            try:
                (self._kernel.enable if on else self._kernel.disable)(fds[0])
            except OSError:
                return  # a group that is lost; the next read finds it so
            self.costs.interrupts += 1

    def _keep_pace(self) -> None:
        """Fit rounds to the time between two readings, as long as the last was."""
        now_ns = self._clock_ns()
        before, self._read_at_ns = self._read_at_ns, now_ns
        passed_ns = 0 if before is None else now_ns - before
        if abs(passed_ns - self._interval_ns) > _SAME_PACE * self._interval_ns:
            self._interval_ns = passed_ns
        units = {unit.name: unit for unit in self._units}
        for name, rota in self._rotas.items():
            shared = shares(units[name], detailed=self._detailed)
            slices = round_of(shared, self._interval_ns, self.switch_ns)
            if len(slices) != len(rota.slices):  # with those on demand, or without
                self._go_to(name, rota, 0, slices)
            elif slices != rota.slices:
                rota.slices = slices
                rota.due_ns = min(rota.due_ns, now_ns + slices[rota.at].duration_ns)

    def _drop(self, faults: Mapping[int, int]) -> None:
        """Close faulty boxes; those that lost their events are reopened at once."""
        boxes = list(self.boxes)
        for at, code in faults.items():
            self._close_boxes([boxes[at]])
            why = explain(code, self._root) if code else LOST
            boxes[at] = OpenBox(boxes[at].box, (), dict.fromkeys(boxes[at].box.unit.events, why))
        self.boxes = tuple(boxes)
        lost = 0 in faults.values()
        self._retry_at_ns = self._clock_ns() + (0 if lost else RETRY_AFTER_NS)
        self._install()

    def _close_boxes(self, boxes: Iterable[OpenBox]) -> None:
        for opened in boxes:
            close_box(self._kernel, opened)

    def _install(self) -> None:
        self._reader = BoxReader(self._kernel, self.boxes)
        self._lay_out()

    def _lay_out(self) -> None:
        self._layout = UncoreLayout(self._units, self.boxes, self.lacking, detailed=self._detailed)

    def _warning(self) -> str:
        """A sentence if counting disturbs a polling core; else ""."""
        reported = {
            (box.cpu, box.package)
            for box in (opened.box for opened in self.boxes if opened.counts)
            if box.cpu in self._pollers
        }
        return "; ".join(
            f"CPU {cpu} polls, and counting outside the cores of package {package} interrupts it: "
            f"--quiet-cpus {cpu} leaves that out"
            for cpu, package in sorted(reported)
        )
