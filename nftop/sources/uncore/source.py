"""Sources `uncore` and `iio`: counters of packages, multiplexed by a thread of their own."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from nftop.model.check import Check
from nftop.model.ids import format_cpu_list
from nftop.model.missing import Missing, Reason
from nftop.model.pcie import UNKNOWN, PcieTable, RootPort
from nftop.model.struct import replace
from nftop.model.topology import Topology
from nftop.model.uncore import NO_COUNTS, UncoreTable
from nftop.sources.base import missing_check
from nftop.sources.host.pci import PortDevices, ports_with_networks
from nftop.sources.host.sysfs import SysTree
from nftop.sources.perf.abi import Kernel, host_kernel
from nftop.sources.perf.pmu import DEVICES
from nftop.sources.perf.problems import FIND_OTHER, CounterProblem
from nftop.sources.uncore.counters import UncoreCounters
from nftop.sources.uncore.open_counters import OpenBox, shares, turns_of
from nftop.uarch.sections import Iio, Uncore
from nftop.uarch.table import Uarch

_TAKEN = "{events}: a group never got onto the counters of {boxes} boxes; another program has them"


def uncore_checks(name: str, counters: UncoreCounters, table: UncoreTable) -> tuple[Check, ...]:
    """One check for each unit with boxes, and one for each missing item."""
    by_unit: dict[str, list[OpenBox]] = {}
    for opened in counters.boxes:
        by_unit.setdefault(opened.box.unit.name, []).append(opened)
    checks: list[Check] = []
    for unit, boxes in by_unit.items():
        if any(opened.counts for opened in boxes):
            checks.append(_unit(f"{name} {unit}", boxes, counters.switch_ns))
        checks += _absent(f"{name} {unit}", boxes)
        checks += _never_ran(f"{name} {unit}", boxes[0].box.unit, table)
    lacking: dict[tuple[str, CounterProblem], list[int]] = {}
    for (unit, package), problem in counters.lacking.items():
        lacking.setdefault((unit, problem), []).append(package)
    for (unit, problem), packages in lacking.items():
        where = f" (package {format_cpu_list(packages)})"
        checks.append(problem.check(f"{name} {unit}", where))
    return tuple(checks)


def _unit(name: str, boxes: list[OpenBox], switch_ns: int) -> Check:
    unit = boxes[0].box.unit
    counted = {event for opened in boxes for turn in opened.turns for event in turn.events}
    named = ["/".join(event for event in turn if event in counted) for turn in turns_of(unit)]
    shared = shares(unit, detailed=False)
    groups = {text: share for text, share in zip(named, shared, strict=False) if text}
    on_demand = ", ".join(text for text in named[len(shared) :] if text)
    cpus = sorted({opened.box.cpu for opened in boxes})
    per_package = [
        f"{sum(opened.box.package == package for opened in boxes)} boxes of package {package}"
        for package in sorted({opened.box.package for opened in boxes})
    ]
    listed, cost = ", ".join(groups), ""
    if len(groups) > 1:
        listed = "in turns " + ", ".join(f"{text} {share:.0%}" for text, share in groups.items())
        cost = f"; switching turns takes {switch_ns / 1e6:.1f} ms"
    if on_demand:
        listed += f", and {on_demand} only while on screen,"
    fds = sum(len(turn.fds) for opened in boxes for turn in opened.turns)
    text = (
        f"counts {listed} on {', '.join(per_package)} with {fds} descriptors, by interrupts of CPU "
        f"{format_cpu_list(cpus)}{cost}"
    )
    return Check(name, Reason.PRESENT, text)


def _absent(name: str, boxes: list[OpenBox]) -> Iterable[Check]:
    lacking: dict[tuple[str, CounterProblem], int] = {}
    for opened in boxes:
        for event, problem in opened.absent.items():
            lacking[event, problem] = lacking.get((event, problem), 0) + 1
    for (event, problem), number in lacking.items():
        where = "" if number == len(boxes) else f" ({number} of {len(boxes)} boxes)"
        yield problem.check(f"{name} {event}", where)


def _idle(table: UncoreTable) -> NDArray[np.bool_]:
    """Rows whose group has never been on the hardware."""
    rows: NDArray[np.bool_] = (table.reasons == 0) & (table.running_ns == 0)
    return rows


def _never_ran(name: str, unit: Uncore, table: UncoreTable) -> Iterable[Check]:
    idle = _idle(table)
    for turn in turns_of(unit):
        mine = idle & np.isin(table.event, [table.events.index(event) for event in turn])
        if mine.any():
            boxes = len(
                {(p, b) for p, b in zip(table.packages[mine], table.boxes[mine], strict=True)}
            )
            text = _TAKEN.format(events="/".join(turn), boxes=boxes)
            yield Check(f"{name} {turn[0]}", Reason.TAKEN, text, FIND_OTHER)


_CLOSED = CounterProblem(Reason.SOURCE, "the uncore source has been closed")
# `check` lets groups run so long, and turns so many rounds, before it says that one does not: on a
# busy host they are late.
_SETTLE_S, _ROUNDS = 0.05, 5


class UncoreSource:
    """Counts every box of every package; opens them at the first read.

    Turns change between two readings, in a thread that starts with the first one and runs on any
    CPU of the process. Setting or reading a box that is on interrupts the CPU that the kernel
    counts it on. Thread-safe.
    """

    name = "uncore"
    inline = False

    def __init__(
        self,
        uarch: Uarch,
        *,
        root: Path = Path("/"),
        quiet_cpus: Collection[int] = frozenset(),
        kernel: Kernel | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Packages with boxes counted on a quiet CPU are left out."""
        self._clock_ns = clock_ns
        self._counters = UncoreCounters(
            uarch,
            kernel=kernel or host_kernel(),
            clock_ns=clock_ns,
            root=root,
            quiet_cpus=quiet_cpus,
        )
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._failed: Missing | None = None
        self._closed = False

    def read(self) -> UncoreTable | Missing:
        """Counts of all boxes until now; Missing if none can be counted."""
        with self._changed:
            if self._closed:
                return _CLOSED.missing
            table: UncoreTable | Missing = self._counters.read()
            # The turn that failed is tried again from here on.
            table, self._failed = self._failed or table, None
            if self._thread is None and self._counters.due_ns is not None:
                # A daemon: a system call that hangs must not keep nftop from ending.
                self._thread = threading.Thread(
                    target=self._take_turns, name="nftop-uncore-turns", daemon=True
                )
                self._thread.start()
            self._changed.notify()
            return table

    def detail(self, *, wanted: bool) -> None:
        """As `Detailing`."""
        self._counters.detail(wanted=wanted)

    @property
    def boxes(self) -> tuple[OpenBox, ...]:
        """The open boxes."""
        return self._counters.boxes

    @property
    def counter_reads(self) -> int:
        return self._counters.costs.reads

    @property
    def counter_interrupts(self) -> int:
        return self._counters.costs.interrupts

    def on_pollers(self, cpus: Collection[int], _topology: Topology) -> None:
        """As `PollerAware`: readings warn if counting disturbs one of these CPUs."""
        self._counters.set_pollers(cpus)

    def settled(self) -> UncoreTable | Missing:
        """A reading after every turn has run, if they do; takes some rounds at most."""
        table = self.read()
        for _ in range(_ROUNDS):
            if isinstance(table, UncoreTable) and _idle(table).any():
                time.sleep(max(self._counters.round_ns / 1e9, _SETTLE_S))
                table = self.read()
        return table

    def check(self) -> tuple[Check, ...]:
        """Opens the boxes, lets every turn run, and reports what is counted where.

        From then on events on demand are counted too.
        """
        self.detail(wanted=True)
        table = self.settled()
        with self._changed:
            if isinstance(table, Missing):
                return ((self._counters.problem or _CLOSED).check(self.name),)
            return uncore_checks(self.name, self._counters, table)

    def close(self) -> None:
        """Close every counter; a later read is Missing. Safe to call twice."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join(timeout=1.0)
        with self._changed:
            self._counters.close()

    def _turn(self) -> None:
        """Change turns; the next reading reports a failure, until then nothing turns."""
        try:
            self._counters.turn()
        except Exception as error:  # noqa: BLE001 - the boundary of the thread
            what = f"taking turns failed: {type(error).__name__}: {error}"
            self._failed = Missing(Reason.ERROR, what)

    def _take_turns(self) -> None:
        with self._changed:
            while not self._closed:
                due_ns = None if self._failed else self._counters.due_ns
                now_ns = self._clock_ns()
                if due_ns is not None and now_ns >= due_ns:
                    self._turn()
                else:
                    # Woken by every reading, which may have changed the pace.
                    self._changed.wait(None if due_ns is None else (due_ns - now_ns) / 1e9)


_DIE = re.compile(r"die([0-9]{1,4})")
_PORT = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:([0-9a-f]{2})\.([0-7])")
# Drivers and names of devices change when programs start; a look at a few hundred devices takes
# some ten milliseconds.
_DEVICES_EVERY_NS = 30_000_000_000
NO_IIO = CounterProblem(
    Reason.HARDWARE,
    "no counters of devices that nftop knows: Skylake and later Xeons have them (IIO), and nftop "
    "knows those of Skylake, Cascade Lake, Ice Lake, Sapphire and Emerald Rapids",
)
_NO_MAP = CounterProblem(
    Reason.HARDWARE,
    "the kernel does not show which root ports a stack serves (no uncore_iio_*/die* in sysfs): "
    "Linux does from 5.10 on, of Skylake, Cascade Lake and Ice Lake",
)
_NO_PMU = CounterProblem(
    Reason.HARDWARE,
    "this kernel has no PMU uncore_iio_0: guests have none, and a host needs the module "
    "intel_uncore",
    "sudo modprobe intel_uncore",
)
_DIES = CounterProblem(
    Reason.HARDWARE,
    "which package a stack belongs to is unknown: packages have several dies, or some are offline",
)
_OFF_STACK = Missing(Reason.HARDWARE, "its root bus {bus} belongs to no stack that is counted")
_ON_BUS = Missing(Reason.HARDWARE, "it is part of the CPU, behind no root port")
_CHIPSET = Missing(
    Reason.HARDWARE, "it is behind the chipset, whose devices a stack counts together only"
)


def stacks_of(pmu: str, topology: Topology, root: Path) -> Mapping[str, tuple[int, int]]:
    """Package and stack by root bus (`0000:3a`), as the kernel shows them; empty if it does not.

    `dieN` is the kernel's number of a die, and the topology has no such number: dies are taken to
    be numbered by package, ascending. Raises LookupError: packages of several dies, or another
    number of dies than in the topology, where all CPUs of some may be offline.
    """
    dies = sorted(
        {(info.package, info.die or 0) for info in topology.cpus if info.package is not None}
    )
    tree, stacks, numbered = SysTree(root), dict[str, tuple[int, int]](), set[int]()
    numbers = sorted(
        int(name.removeprefix(f"{pmu}_"))
        for name in tree.names(DEVICES)
        if re.fullmatch(rf"{pmu}_[0-9]{{1,4}}", name)
    )
    for stack in numbers:
        for name in tree.names(f"{DEVICES}/{pmu}_{stack}"):
            match = _DIE.fullmatch(name)
            bus = match and tree.text(f"{DEVICES}/{pmu}_{stack}/{name}")
            numbered |= {int(match[1])} if match else set()
            if match and bus and int(match[1]) < len(dies):
                stacks[bus.lower()] = (dies[int(match[1])][0], stack)
    if stacks and not len(numbered) == len(dies) == len(topology.packages):
        raise LookupError
    return stacks


class IioSource:
    """Counts the traffic of root ports with network devices, a box for each of their stacks.

    A stack with one such port is counted all the time; of several each has its share of it. The
    boxes are opened, multiplexed and read as those of source `uncore`. Thread-safe.
    """

    name = "iio"
    inline = False

    def __init__(
        self,
        uarch: Uarch,
        iio: Iio,
        *,
        topology: Topology,
        root: Path = Path("/"),
        quiet_cpus: Collection[int] = frozenset(),
        kernel: Kernel | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        """Packages with boxes counted on a quiet CPU are left out."""
        self._uarch, self._iio = uarch, iio
        self._topology, self._root = topology, root
        self._kernel, self._clock_ns, self._quiet = kernel, clock_ns, quiet_cpus
        self._ports: tuple[RootPort, ...] = ()
        # The boxes, and the reads and interrupts of those before; replaced at once.
        self._open: tuple[UncoreSource | None, int, int] = None, 0, 0
        self._lock = threading.Lock()  # of what follows
        self._counted: Mapping[tuple[int, int], set[int]] = {}
        self._due_ns = 0
        self._closed = False

    def read(self) -> PcieTable | Missing:
        """Counts of all ports until now; ports that are not counted have a reason."""
        with self._lock:
            return self._read()

    def _read(self) -> PcieTable | Missing:
        if self._closed:
            return Missing(Reason.SOURCE, "the iio source has been closed")
        now_ns = self._clock_ns()
        if now_ns >= self._due_ns:
            self._due_ns = now_ns + _DEVICES_EVERY_NS
            self._find()
        boxes, *_ = self._open
        if boxes is None:
            return PcieTable(self._ports, NO_COUNTS)
        counts = boxes.read()
        if isinstance(counts, Missing):
            ports = [
                port if port.problem else replace(port, problem=counts) for port in self._ports
            ]
            return PcieTable(tuple(ports), NO_COUNTS)
        # `uncore` already warns about polling CPUs; both use the same ones.
        return PcieTable(self._ports, replace(counts, warning=""))

    def soon(self) -> None:
        """As `Refreshable`."""
        self._due_ns = 0

    @property
    def counter_reads(self) -> int:
        boxes, reads, _ = self._open
        return reads + (boxes.counter_reads if boxes else 0)

    @property
    def counter_interrupts(self) -> int:
        boxes, _, interrupts = self._open
        return interrupts + (boxes.counter_interrupts if boxes else 0)

    def check(self) -> tuple[Check, ...]:
        """What is counted of which devices, and why others are not."""
        table = self.read()
        boxes, *_ = self._open
        if isinstance(table, Missing):
            return missing_check(self.name, table)
        if not table.ports:
            return (Check(self.name, Reason.PRESENT, "no network device is behind a root port"),)
        checks = []
        counted = [port for port in table.ports if port.problem is None]
        if counted:
            names = ", ".join(f"{port.address} ({_names(port)})" for port in counted)
            cpus = sorted({box.box.cpu for box in boxes.boxes} if boxes else ())
            turns = max(map(len, self._counted.values()))
            text = f"counts traffic behind {names}, by interrupts of CPU {format_cpu_list(cpus)}"
            text += f"; of a stack up to {turns} take turns" if turns > 1 else ""
            checks.append(Check(self.name, Reason.PRESENT, text))
        counts = boxes.settled() if boxes is not None else NO_COUNTS
        if isinstance(counts, UncoreTable) and (idle := _idle(counts)).any():
            at = zip(counts.packages[idle].tolist(), counts.boxes[idle].tolist(), strict=True)
            listed = ", ".join(f"{stack} of package {package}" for package, stack in sorted({*at}))
            text = f"the counters of stacks {listed} never ran; another program has them"
            checks.append(Check(f"{self.name} counters", Reason.TAKEN, text, FIND_OTHER))
        why: dict[Missing, list[str]] = {}
        for port in table.ports:
            if port.problem is not None:
                why.setdefault(port.problem, []).append(f"{port.address} ({_names(port)})")
        for problem, names_ in why.items():
            text = f"{problem.message}: {', '.join(names_)}"
            checks.append(Check(f"{self.name} devices", problem.reason, text))
        return tuple(checks)

    def close(self) -> None:
        """Close every counter. Safe to call twice."""
        with self._lock:
            self._closed = True
            self._replace_boxes(None)

    def _replace_boxes(self, new: UncoreSource | None) -> None:
        boxes, *_ = self._open
        self._open = new, self.counter_reads, self.counter_interrupts
        if boxes is not None:
            boxes.close()

    def _find(self) -> None:
        """Ports, their devices and stacks; boxes are opened anew if other ports have devices."""
        iio, why = self._iio, _NO_MAP.missing
        stacks: Mapping[str, tuple[int, int]] = {}
        try:
            stacks = stacks_of(iio.pmu, self._topology, self._root)
        except LookupError:
            why = _DIES.missing
        if not (self._root / DEVICES / f"{iio.pmu}_0").exists():
            why = _NO_PMU.missing
        self._ports = tuple(
            root_port(port, iio, stacks, why) for port in ports_with_networks(self._root)
        )
        counted: dict[tuple[int, int], set[int]] = {}
        for port in self._ports:
            if port.problem is None:
                counted.setdefault((port.package, port.stack), set()).add(port.number)
        if counted != self._counted:
            self._counted = counted
            self._replace_boxes(None)
            if counted:
                units = tuple(iio.unit(*at, counted[at]) for at in sorted(counted))
                self._replace_boxes(
                    UncoreSource(
                        replace(self._uarch, uncore=units),
                        root=self._root,
                        quiet_cpus=self._quiet,
                        kernel=self._kernel,
                        clock_ns=self._clock_ns,
                    )
                )


def root_port(
    port: PortDevices, iio: Iio, stacks: Mapping[str, tuple[int, int]], why: Missing
) -> RootPort:
    """The port with its stack; `why` there are no `stacks`, if there are none."""
    devices = tuple(port.devices)
    problem = why
    match = _PORT.fullmatch(port.address)
    if stacks and port.bus not in stacks:
        problem = replace(_OFF_STACK, detail=_OFF_STACK.detail.format(bus=port.bus))
    elif stacks and not port.is_port:
        problem = _ON_BUS
    elif stacks and match is not None:
        number = int(match[1], 16) - iio.first_device
        if 0 <= number < iio.ports and match[2] == "0":
            return RootPort(port.address, *stacks[port.bus], number, devices, port.others)
        problem = _CHIPSET
    return RootPort(port.address, UNKNOWN, UNKNOWN, UNKNOWN, devices, port.others, problem)


def _names(port: RootPort) -> str:
    return ", ".join(name for item in port.devices for name in item.interfaces or (item.address,))
