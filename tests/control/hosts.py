"""The lab's resctrl in this process as a host of the gate, and journals that fail on order."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from nftop.control.backend import LockedError, RefusedError
from nftop.control.gate import BackendClassGate
from nftop.control.guard_client import start_guard
from nftop.control.journal_entry import Entry, entry_of, finished, text_of
from nftop.control.rdt_limits import IoRule, LimitRule, MaskRule, Rules
from nftop.control.resctrl.backend import ClassBackend
from nftop.control.resctrl.operations import DISABLED, ENABLED, IO_FILES, ResctrlStep
from nftop.model.change import Cell, Outcome, State
from nftop.model.rdt.rdt import ROOT, UNLIMITED_MBPS, group_path
from tests.lab.resctrl.state import controls, everything, io_closid
from tests.lab.tests.hosts import SMALL, Lab, lab

IDENTITY = "a-boot 7:1"
# Those whose lock is held now.
HELD: list[LabHost] = []


@dataclass
class LabHost(ClassBackend):
    """Implements `nftop.control.resctrl.backend.ClassBackend`.

    Attributes:
        writes: operations that were done, whatever came of them.
        locked_by: who else holds resctrl's lock; None: nobody.
        locks: how often it was had.
    """

    lab: Lab
    writes: int = 0
    locked_by: str | None = None
    identity: str = IDENTITY
    where: str = "/sys/fs/resctrl"
    locks: int = 0

    def state(self, threads: Iterable[Cell] = ()) -> State:
        cells: dict[Cell, str] = {}
        state = self.lab.state
        for group in controls(state):
            name = group.name or ROOT
            if group.name:
                cells[Cell("group", name)] = self._inode(name)
            cells[Cell("mode", name)] = group.mode
            cells |= {Cell("cpu", "", number=cpu): group_path(name) for cpu in group.cpus}
            for line, values in group.values.items():
                for domain, value in values.items():
                    text = f"{value:x}" if line != "MB" else f"{min(value, UNLIMITED_MBPS)}"
                    cells[Cell("schemata", name, line, domain)] = text
            for child in group.children.values():
                cells[Cell("monitor", name, child.name)] = self._inode(group_path(name, child.name))
                own = group_path(name, child.name)
                cells |= {Cell("cpu", "", number=cpu): own for cpu in child.cpus}
        self._add_io(cells)
        people = self.lab.people.by_id
        for cell in threads:
            tid, started = map(int, cell.name.split("@"))
            if tid in people and people[tid].started == started:
                cells[cell] = self._location(tid)
        return cells

    def tasks(self, groups: Collection[str], tids: Collection[int]) -> Mapping[str, str]:
        people = self.lab.people.by_id
        return {
            f"{tid}@{task.started}": self._location(tid)
            for tid, task in people.items()
            if tid in tids or (self._location(tid).partition("/")[0] or ROOT) in groups
        }

    def rules(self) -> Rules:
        hardware, state = self.lab.state.hardware, self.lab.state
        cat, mba = hardware.allocation, hardware.bandwidth
        assert cat is not None
        assert mba is not None
        closids = min(cat.closids // (2 if "cdp" in state.options else 1), mba.closids)
        io_rule = None
        if cat.io_alloc and state.profile.io_alloc:
            line = next(schema.name for schema in state.schemas if schema.cache)
            io_rule = IoRule(line, io_closid(state))
        return Rules(
            masks={
                schema.name: MaskRule(cat.ways, cat.min_bits, shareable=cat.shareable_bits)
                for schema in state.schemas
                if schema.cache
            },
            limit=LimitRule(mba.minimum, mba.granularity, 100),
            closids=closids,
            io={0: (cat.shareable_bits, "cpuid"), 1: (cat.shareable_bits, "cpuid")},
            siblings={cpu: frozenset({cpu ^ 4}) for cpu in range(8)},
            io_alloc=io_rule,
        )

    def do(self, step: ResctrlStep) -> None:
        self.writes += 1
        path = "" if step.group == ROOT else f"/{step.group}"
        path += f"/mon_groups/{step.monitor}" if step.monitor else ""
        try:
            if step.operation == "mkdir":
                self.lab.mkdir(path)
            elif step.operation == "rmdir":
                self.lab.rmdir(path)
            elif step.operation in IO_FILES:
                text = step.text.removesuffix("\n")
                self.lab.echo(text, f"/info/{step.info_folder}/{IO_FILES[step.operation]}")
            else:
                file = {"schemata": "schemata", "cpus": "cpus_list", "task": "tasks"}[
                    step.operation
                ]
                self.lab.echo(step.text.removesuffix("\n"), f"{path}/{file}")
        except OSError as error:
            if error.errno == errno.ESRCH and step.task is not None and not self._runs(step.task):
                return
            raise RefusedError(f"{self.lab.status}: {error}") from None

    def _add_io(self, cells: dict[Cell, str]) -> None:
        rule, state = self.rules().io_alloc, self.lab.state
        if rule is None:
            return
        cells[Cell("io_alloc", "", rule.line)] = ENABLED if state.io is not None else DISABLED
        for domain, bits in (state.io or {}).items():
            cells[Cell("io_cbm", "", rule.line, domain)] = f"{bits:x}"

    @contextlib.contextmanager
    def lock(self, limit_s: float) -> Iterator[None]:
        if self.locked_by is not None:
            raise LockedError(f"{self.locked_by} has held resctrl's lock for {limit_s:g} s")
        self.locks += 1
        HELD.append(self)
        try:
            yield
        finally:
            HELD.remove(self)

    def _runs(self, task: Cell) -> bool:
        """Whether a thread has not ended, as `Resctrl.do` asks after ESRCH."""
        return task in self.state([task])

    def _location(self, tid: int) -> str:
        for group in reversed(list(everything(self.lab.state))):
            member = self.lab.state.members.get(tid)
            if member is not None and member.group is group:
                parent = group.parent
                if parent is not None:
                    return group_path(parent.name or ROOT, group.name)
                return group.name or ROOT
        return ROOT

    def _inode(self, where: str) -> str:
        group, _, monitor = where.partition("/")
        path = f"/{group}" if group else ""
        return str(self.lab.tree.lookup(f"{path}/mon_groups/{monitor}" if monitor else path).inode)


def lab_host(
    kernel: str = "7.2", *options: str, closids: int = 8, io_alloc: bool = False
) -> LabHost:
    """A host of eight CPUs, two caches of eleven ways, and room for as many classes.

    `io_alloc`: its ways of I/O can be set, if the kernel knows that.
    """
    assert SMALL.bandwidth is not None
    assert SMALL.allocation is not None
    hardware = replace(SMALL, bandwidth=replace(SMALL.bandwidth, closids=closids))
    if io_alloc:  # the kernel needs the highest class of the cache
        of_cache = closids * (2 if "cdp" in options else 1)
        allocation = replace(SMALL.allocation, io_alloc=True, closids=of_cache)
        hardware = replace(hardware, allocation=allocation)
    return LabHost(lab(kernel, hardware, options))


def without_births(state: State) -> State:
    """A state with the numbers of directories that differ whenever they are made."""
    return {
        cell: "there" if cell.kind in ("group", "monitor") else value
        for cell, value in state.items()
    }


class KilledError(BaseException):
    """The process is gone: nobody catches this."""


@dataclass
class Death:
    """When it comes: before or after the n-th operation that changes something."""

    at: int
    late: bool
    seen: int = 0

    def surroundings(self, operation: Callable[[], None]) -> None:
        mine = self.seen == self.at
        self.seen += 1
        if mine and not self.late:
            raise KilledError
        operation()
        if mine:
            raise KilledError


@dataclass
class MortalHost(LabHost):
    """One whose process may be killed."""

    death: Death = field(default_factory=lambda: Death(-1, late=False))

    def do(self, step: ResctrlStep) -> None:
        self.death.surroundings(lambda: super(MortalHost, self).do(step))


@dataclass
class Stubborn(LabHost):
    """A host whose kernel refuses, or forgets, the n-th operation."""

    at: int = 0
    forgets: bool = False

    def do(self, step: ResctrlStep) -> None:
        self.at -= 1
        if self.at == -1:
            if self.forgets:
                return
            step = ResctrlStep(
                "schemata", step.group, step.monitor, values={Cell("schemata", "/", "L3", 9): "1"}
            )
        super().do(step)


@dataclass
class Disk:
    """What a journal has written, as text: it outlives whoever wrote it."""

    pending: str | None = None
    history: list[str] = field(default_factory=list)


@dataclass
class MemoryJournal:
    """A journal without files; `death` comes to who writes it."""

    disk: Disk
    death: Death = field(default_factory=lambda: Death(-1, late=False))
    persistent: bool = True

    def hold(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def holder(self) -> str:
        return ""

    def pending(self) -> Entry | None:
        return None if self.disk.pending is None else entry_of("pending", self.disk.pending)

    def history(self) -> tuple[Entry, ...]:
        return tuple(entry_of("history", item) for item in self.disk.history)

    def known(self) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
        return self.history(), ()

    def begin(self, entry: Entry) -> None:
        self.death.surroundings(lambda: setattr(self.disk, "pending", text_of(entry)))

    def record(self, entry: Entry, outcome: Outcome) -> None:
        self.death.surroundings(lambda: self.disk.history.append(text_of(finished(entry, outcome))))

    def forget(self) -> None:
        self.death.surroundings(lambda: setattr(self.disk, "pending", None))


def memory(disk: Disk, death: Death | None = None) -> MemoryJournal:
    """A journal on that disk, of a process that dies so."""
    return MemoryJournal(disk, death or Death(-1, late=False))


def gate_of(host: LabHost, disk: Disk) -> BackendClassGate:
    """Of this host; it only plans, since its journal is not one that a guard could open."""
    return BackendClassGate(host, memory(disk), start_guard, "nftop")


def mortal(host: LabHost, disk: Disk, death: Death) -> tuple[MortalHost, MemoryJournal]:
    """The same host and disk, of a process that dies so."""
    return MortalHost(host.lab, identity=host.identity, death=death), memory(disk, death)
