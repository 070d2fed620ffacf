"""Source `power`: energy (RAPL), residency in C-states and throttling, without a server.

PMUs and files as in `nftop.model.metrics.power`. A reading of a package's counters interrupts the
CPU that the kernel counts it on, one of a core's residency a CPU of that core; files cost no
interrupt. Its table is that of source `uncore`: boxes of packages are numbered by die, and those of
cores by CPU. Energies are in the kernel's unit of 2**-32 J, residencies in clocks of the TSC.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from nftop.model.check import Check
from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.missing import Missing, Reason
from nftop.model.struct import dataclass, field
from nftop.model.topology import CpuInfo, Topology
from nftop.model.uncore import NOT_ON_POLLERS, POWER_EVENTS, SLOW_POWER_EVENTS, SLOWLY, UncoreTable
from nftop.sources.base import RETRY_AFTER_NS
from nftop.sources.host.sysfs import OnlineCpus, SysTree
from nftop.sources.host.topology import read_topology
from nftop.sources.perf import pmu as pmus
from nftop.sources.perf.abi import (
    READ_HEADER_WORDS,
    Kernel,
    close_events,
    host_kernel,
    raise_open_files,
)
from nftop.sources.perf.group import Costs, CounterGroup, open_group
from nftop.sources.perf.problems import CAME_BACK, QUIET, CounterProblem, explain
from nftop.sources.resctrl.files import GUEST, cpu_flags
from nftop.uarch.table import Encoding

_FAST_NS, SLOW_NS = 500_000_000, 5_000_000_000
_ENERGY_UNIT = "2.3283064365386962890625e-10"  # 2**-32 J
_CPUS = "sys/devices/system/cpu"


@dataclass(frozen=True, slots=True)
class Counted:
    """Events of one PMU by the table's names, or files of each CPU where `pmu` is ""."""

    pmu: str
    events: Mapping[str, str]
    of_cores: bool


COUNTED: tuple[Counted, ...] = (
    Counted("power", {"energy_pkg": "energy-pkg", "energy_ram": "energy-ram"}, of_cores=False),
    Counted("cstate_pkg", {f"package_c{n}": f"c{n}-residency" for n in (2, 3, 6)}, of_cores=False),
    Counted("cstate_core", {f"core_c{n}": f"c{n}-residency" for n in (3, 6)}, of_cores=True),
    Counted("", {"package_throttles": "package_throttle_count"}, of_cores=False),
    Counted("", {"core_throttles": "core_throttle_count"}, of_cores=True),
)
_LABELS = {"power": "energy", "cstate_pkg": "package C-states", "cstate_core": "core C-states"}
_UNITS = {"power": "packages", "cstate_pkg": "packages", "cstate_core": "cores"}
_POLLED = CounterProblem(Reason.SOURCE, NOT_ON_POLLERS)
_BY_POLLER = CounterProblem(
    Reason.SOURCE, "not read: the kernel counts it on a CPU whose core polls, and interrupts that"
)
_NOT_YET = CounterProblem(Reason.WARMING, "not read yet")
_NO_PMU = "this kernel has no PMU {pmu}: guests have none, and a host needs the module {module}"
_MODULES = {"power": "rapl", "cstate_pkg": "intel_cstate", "cstate_core": "intel_cstate"}
_NO_FILES = CounterProblem(
    Reason.HARDWARE, "this kernel does not count throttling (thermal_throttle): guests have none"
)
_NOT_OF_GUESTS = CounterProblem(Reason.HARDWARE, "this is a guest, and guests have none")
_NO_EVENT = "this CPU's PMU {pmu} has no {event}"
_OTHER_UNIT = "the kernel counts {event} in {unit} J, not in 2**-32 J"


@dataclass(slots=True, eq=False)
class _Row:
    """A counter, with its newest value and the clock of that: of its group, or CLOCK_MONOTONIC."""

    event: str
    package: int
    number: int
    problem: CounterProblem | None = _NOT_YET
    value: int = 0
    clock_ns: int = 0


@dataclass(slots=True, eq=False)
class _Box:
    """What is read at once of a CPU: a group of the events of `counted`, in their order, or files.

    Attributes:
        key: its identity while the kernel moves its events from CPU to CPU.
        rows: one for each event, in the order of `kind`; `counted` are those that can be counted.
        group: None if it is not open; files have none.
        counts: of each CPU's file of a package, when it was last read.
    """

    kind: Counted
    key: tuple[str, int, int, int]
    cpu: Cpu
    rows: list[_Row]
    counted: list[_Row]
    encodings: tuple[Encoding, ...]
    group: CounterGroup | None = None
    counts: dict[Cpu, int] = field(default_factory=dict)

    @property
    def readable(self) -> bool:
        return self.group is not None or (not self.kind.pmu and bool(self.counted))


class PowerSource:
    """Reads packages twice a second at most, cores and files every 5 s."""

    name = "power"
    inline = False

    def __init__(
        self,
        root: Path = Path("/"),
        *,
        quiet_cpus: Collection[int] = (),
        kernel: Kernel | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """`quiet_cpus` are not interrupted."""
        self._root, self._quiet = root, frozenset(quiet_cpus)
        self._kernel, self._clock_ns = kernel or host_kernel(), clock_ns
        self._online = OnlineCpus(root)
        self._seen: tuple[Cpu, ...] | None = None
        self._topology = Topology(())
        self._boxes: list[_Box] = []
        self._polled: frozenset[Cpu] = frozenset()
        self._opened_for: frozenset[Cpu] = frozenset()  # `_polled` when boxes were last opened
        self._table: UncoreTable | None = None
        self._due_ns = self._slow_due_ns = self._retry_ns = 0
        self._costs = Costs()
        self._closed = False

    @property
    def counter_reads(self) -> int:
        return self._costs.reads

    @property
    def counter_interrupts(self) -> int:
        return self._costs.interrupts

    def on_pollers(self, cpus: Collection[int], topology: Topology) -> None:
        """As `PollerAware`: cores of these CPUs are not read."""
        self._polled = topology.with_siblings(cpus)

    def read(self) -> UncoreTable | Missing:
        """Counts until now; the same table until something is due."""
        if self._closed:
            return Missing(Reason.SOURCE, "the power source has been closed")
        now_ns = self._clock_ns()
        new = self._follow(now_ns)
        if self._table is None or new or now_ns >= self._due_ns:
            slow = now_ns >= self._slow_due_ns
            for box in self._boxes:
                fast = box.group is not None and not box.kind.of_cores
                if box.key in new or (now_ns >= self._due_ns and (slow or fast)):
                    self._read_box(box, now_ns)
            if now_ns >= self._due_ns:
                self._due_ns = now_ns + _FAST_NS
                self._slow_due_ns = now_ns + SLOW_NS if slow else self._slow_due_ns
            self._table = _tabled(self._rows)
        if (self._table.reasons > 0).all():
            return next((row.problem for row in self._rows if row.problem), _NO_FILES).missing
        return self._table

    def check(self) -> tuple[Check, ...]:
        """What is counted, what is absent, and how often the host was throttled since its start."""
        self.read()
        return tuple(_checks(self._rows, self._root))

    def close(self) -> None:
        """Close every counter. Safe to call twice."""
        self._closed = True
        for box in self._boxes:
            self._close_box(box)
        self._boxes, self._table = [], None
        self._online.close()

    @property
    def _rows(self) -> list[_Row]:
        return [row for box in self._boxes for row in box.rows]

    def _close_box(self, box: _Box) -> None:
        if box.group is not None:
            close_events(self._kernel, box.group.fds)
            box.group = None

    def _follow(self, now_ns: int) -> frozenset[tuple[str, int, int, int]]:
        """Follow hotplug, and open what is not open after a pause; the keys of new boxes.

        Open groups are kept: of those the kernel has moved the events with the cpumask.
        """
        online, polled = self._online.latest(), self._polled
        if online == self._seen and polled == self._opened_for and now_ns < self._retry_ns:
            return frozenset()
        if online != self._seen:
            self._topology = read_topology(self._root)
        self._seen, self._opened_for = online, polled
        raise_open_files()
        known = {box.key: box for box in self._boxes if box.readable}
        pairs = [(box, known.pop(box.key, None)) for box in self._find_boxes()]
        kept = {box.key: old for box, old in pairs if old and old.encodings == box.encodings}
        for old in self._boxes:
            if old is not kept.get(old.key):
                self._close_box(old)
        self._boxes = [kept.get(box.key, box) for box, _ in pairs]
        new = []
        for (box, _), own in zip(pairs, self._boxes, strict=True):
            own.cpu = box.cpu
            if own is box:
                self._open_group(box)
                new += [box.key] if box.readable else []
        may_pass = any(map(_may_pass, self._rows))
        self._retry_ns = now_ns + RETRY_AFTER_NS if may_pass else _NEVER
        self._table = None
        return frozenset(new)

    def _find_boxes(self) -> Iterator[_Box]:
        """Every box of this host, not open, with its reasons for what can't be counted."""
        topology = self._topology
        online = [info for info in topology.cpus if info.online and info.package is not None]
        for kind in COUNTED:
            pmu, lacking = self._pmu(kind)
            first = {
                (info.package, info.core if kind.of_cores else info.die): info.cpu
                for info in reversed(online)
            }
            read_on: Sequence[Cpu] = sorted(first.values())
            if not kind.pmu and kind.of_cores:
                read_on = [info.cpu for info in online]
            elif pmu is not None and pmu.cpumask:
                read_on = pmu.cpumask
            for cpu in read_on:
                row = topology.row_of.get(cpu)
                if row is not None and topology.cpus[row].package is not None:
                    yield self._box(kind, topology.cpus[row], pmu, lacking)

    def _pmu(self, kind: Counted) -> tuple[pmus.Pmu | None, CounterProblem | None]:
        if not kind.pmu:
            return None, None
        try:
            return pmus.read_pmu(kind.pmu, self._root), None
        except FileNotFoundError:
            module = _MODULES[kind.pmu]
            why = _NO_PMU.format(pmu=kind.pmu, module=module)
            return None, CounterProblem(Reason.HARDWARE, why, f"{_LOAD}{module}")
        except (OSError, pmus.PmuError) as error:
            why = f"the PMU {kind.pmu} can't be read in sysfs: {error}"
            return None, CounterProblem(Reason.ERROR, why)

    def _box(
        self, kind: Counted, info: CpuInfo, pmu: pmus.Pmu | None, lacking: CounterProblem | None
    ) -> _Box:
        # The index of a core changes with hotplug, so it is known by the CPU that it is read on.
        # A package whose dies the kernel does not list is one die.
        number = info.cpu if kind.of_cores else 0 if info.die is None else info.die
        rows = [
            _Row(event, info.package or 0, number, lacking or _NOT_YET) for event in kind.events
        ]
        encodings = []
        for row in rows:
            if pmu is None:
                continue
            row.problem = QUIET if info.cpu in self._quiet else self._refused(pmu, kind, row.event)
            try:
                if row.problem is None:
                    encodings.append(pmus.encode(pmu, pmu.events[kind.events[row.event]]))
                    row.problem = _NOT_YET
            except pmus.PmuError as error:
                row.problem = CounterProblem(Reason.ERROR, str(error))
        what = kind.pmu or next(iter(kind.events))
        key = what, pmu.pmu_type if pmu else -1, info.package or 0, int(number)
        counted = [row for row in rows if row.problem is _NOT_YET]
        return _Box(kind, key, info.cpu, rows, counted, tuple(encodings))

    def _open_group(self, box: _Box) -> None:
        """Open the group of a box, or give its rows the reason why not."""
        if not box.kind.pmu or not box.counted:
            return
        if box.cpu in self._polled:
            self._explain(box, _POLLED if box.kind.of_cores else _BY_POLLER)
            return
        try:
            box.group = open_group(self._kernel, box.cpu, box.encodings)
        except OSError as error:
            self._explain(box, explain(error.errno or errno.EINVAL, self._root))

    def _explain(self, box: _Box, problem: CounterProblem | None) -> None:
        for row in box.counted:
            row.problem = problem

    def _refused(self, pmu: pmus.Pmu, kind: Counted, event: str) -> CounterProblem | None:
        """Why an event is not to be opened, or None."""
        name = kind.events[event]
        if name not in pmu.events:
            return CounterProblem(Reason.HARDWARE, _NO_EVENT.format(pmu=pmu.name, event=name))
        if pmu.name == "power":
            path = f"sys/bus/event_source/devices/power/events/{name}.scale"
            unit = SysTree(self._root).text(path)
            if unit != _ENERGY_UNIT:
                return CounterProblem(Reason.ERROR, _OTHER_UNIT.format(event=name, unit=unit))
        return None

    def _read_box(self, box: _Box, now_ns: int) -> None:
        """Values of a box's rows, or why there are none. One that fails is opened again later."""
        if not box.kind.pmu:
            for row in box.counted:
                values = self._throttles(box, row)
                row.problem = None if values else _NO_FILES
                grown = [
                    value - box.counts.get(cpu, 0)
                    for cpu, value in values.items()
                    if not box.counts or cpu in box.counts
                ]
                row.value, row.clock_ns = row.value + max([0, *grown]), now_ns
                box.counts = values or box.counts
            return
        if box.group is None:
            return
        if box.cpu in self._polled:
            self._explain(box, _POLLED if box.kind.of_cores else _BY_POLLER)
            return
        buffer = np.zeros(READ_HEADER_WORDS + len(box.counted), np.uint64)
        self._costs.reads += 1
        self._costs.interrupts += 1
        try:
            # Short: the last CPU of the package or core went, and took the events out of the group.
            lost = self._kernel.readv(box.group.fds[0], (buffer.data,)) != buffer.nbytes
            problem, pause_ns = (CAME_BACK if lost else None), 0
        except OSError as error:
            problem, pause_ns = explain(error.errno or errno.EIO, self._root), RETRY_AFTER_NS
        self._explain(box, problem)
        if problem is not None:
            self._close_box(box)
            self._retry_ns = min(self._retry_ns, now_ns + pause_ns)
            return
        for row, value in zip(box.counted, buffer[READ_HEADER_WORDS:].tolist(), strict=True):
            row.value, row.clock_ns = value, int(buffer[1])

    def _throttles(self, box: _Box, row: _Row) -> dict[Cpu, int]:
        """Counts of the CPUs of a box: each counts the events of its package that it saw."""
        cpus = [box.cpu]
        if not box.kind.of_cores:
            die = row.package, row.number
            online = (info for info in self._topology.cpus if info.online)
            cpus = [info.cpu for info in online if (info.package, info.die or 0) == die]
        tree, name = SysTree(self._root), box.kind.events[row.event]
        read = {cpu: tree.number(f"{_CPUS}/cpu{cpu}/thermal_throttle/{name}") for cpu in cpus}
        return {cpu: value for cpu, value in read.items() if value is not None}


def _may_pass(row: _Row) -> bool:
    """Whether a row has no number for a reason that may pass: a PMU may be loaded, too."""
    settled = (_NOT_YET, QUIET, _POLLED, _BY_POLLER)
    problem = row.problem
    if problem is None or problem in settled:
        return False
    return problem.reason is not Reason.HARDWARE or problem.fix.startswith(_LOAD)


_LOAD = "sudo modprobe "
_NEVER = 1 << 63


def _tabled(rows: Sequence[_Row]) -> UncoreTable:
    reasons = np.array([row.problem.reason if row.problem else 0 for row in rows], np.uint8)
    present = reasons == Reason.PRESENT
    clocks = np.where(present, np.array([row.clock_ns for row in rows], np.uint64), np.uint64(0))
    details = {event: {int(Reason.WARMING): SLOWLY} for event in SLOW_POWER_EVENTS}
    for row in rows:
        if row.problem is not None:
            known = details.setdefault(row.event, {})
            known.setdefault(int(row.problem.reason), row.problem.sentence)
    return UncoreTable(
        events=POWER_EVENTS,
        packages=np.array([row.package for row in rows], np.int32),
        boxes=np.array([row.number for row in rows], np.int32),
        event=np.array([POWER_EVENTS.index(row.event) for row in rows], np.int32),
        values=np.where(present, np.array([row.value for row in rows], np.uint64), np.uint64(0)),
        reasons=reasons,
        enabled_ns=clocks,
        running_ns=clocks,
        details=details,
        # Which of the others a host has depends on its CPU.
        extras=frozenset(POWER_EVENTS) - {"energy_pkg"},
        round_ns=SLOW_NS,
    )


def _checks(rows: Sequence[_Row], root: Path) -> Iterator[Check]:
    """A line for each PMU, and one for throttling."""
    for kind in COUNTED:
        mine = [row for row in rows if row.event in kind.events]
        known = [row for row in mine if row.problem is None]
        if kind.pmu:
            name = f"power {_LABELS[kind.pmu]}"
            if known:
                listed = ", ".join(dict.fromkeys(row.event for row in known))
                boxes = len({(row.package, row.number) for row in known})
                yield Check(name, Reason.PRESENT, f"counts {listed} of {boxes} {_UNITS[kind.pmu]}")
            elif problems := [row.problem for row in mine if row.problem is not None]:
                is_absent = problems[0].fix.startswith(_LOAD) and GUEST in cpu_flags(root)
                yield (_NOT_OF_GUESTS if is_absent else problems[0]).check(name)
        elif not kind.of_cores:
            yield _throttled(rows)


def _throttled(rows: Sequence[_Row]) -> Check:
    known = [row for row in rows if row.event.endswith("throttles") and row.problem is None]
    if not known:
        return _NO_FILES.check("power throttling")
    hot = {
        name: [row for row in known if row.event == f"{name}_throttles" and row.value]
        for name in ("core", "package")
    }
    if not any(hot.values()):
        return Check("power throttling", Reason.PRESENT, "no core was too hot since the start")
    cores = format_cpu_list(Cpu(row.number) for row in hot["core"])
    most = max(row.value for rows_ in hot.values() for row in rows_)
    text = f"too hot since the start, up to {most} times (see fans and air flow): " + "; ".join(
        filter(
            None,
            (
                f"cores of CPU {cores}" if hot["core"] else "",
                ", ".join(f"package {row.package}" for row in hot["package"]),
            ),
        )
    )
    fix = "sudo dmesg | grep -i -e thermal -e throttl"
    return Check("power throttling", Reason.PRESENT, text, fix, advised=False)
