"""A host in memory whose classes can be changed, its gate, and the frames that show it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from nftop.control import recovery, transaction
from nftop.control.gate import BackendClassGate
from nftop.control.guard_client import start_guard
from nftop.control.journal import Journal
from nftop.control.journal_entry import Entry, Requester
from nftop.control.rdt_limits import Rules
from nftop.control.simulated import ThreadGuardedSeries
from nftop.derive.cache.table import CacheState, step_cache
from nftop.model.change import Action, Change, Proposal, Receipt, State
from nftop.model.frame import Frame, SourceState
from nftop.model.ids import Cpu, L3Domain
from nftop.model.missing import Reason
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import (
    ROOT,
    CacheDomain,
    GroupCache,
    IoWays,
    Limits,
    ResctrlGroup,
    ResctrlTable,
    split_path,
)
from nftop.model.sample import SourceReading
from tests.control.hosts import Disk, LabHost, lab_host, memory
from tests.frames import frame
from tests.rdt import MIB, values

WAYS, SIZE = 11, 16 * MIB
LATER_NS = 2**60


@dataclass
class MemoryPending:
    """As `gate.Pending`, without a process: the guard's part is done here, by the same code."""

    host: LabHost
    journal: Journal
    receipt: Receipt
    entry: Entry | None
    expired: threading.Event = field(default_factory=threading.Event)

    def keep(self) -> Receipt:
        return self._settle(transaction.keep)

    def revert(self) -> Receipt:
        return self._settle(recovery.revert)

    def settled(self, seconds: float) -> Receipt | None:
        if self.entry is None:
            return self.receipt
        return self.revert() if self.expired.wait(seconds) else None

    def _settle(self, how: Callable[[LabHost, Journal, Entry], Receipt]) -> Receipt:
        if self.entry is not None:
            self.receipt = how(self.host, self.journal, self.entry)
            self.entry = None
        return self.receipt


@dataclass
class MemoryGate:
    """A gate of a lab's host.

    `asked` are all proposals that apply was called with, `pending` what came of them, `threads` who
    called; while `free` is not set nothing it is asked is answered.
    """

    host: LabHost
    journal: Journal = field(default_factory=lambda: memory(Disk()))
    requested: list[Proposal] = field(default_factory=list)
    pending: list[MemoryPending] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)
    free: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.free.set()
        self._gate = BackendClassGate(self.host, self.journal, start_guard, "nftop")

    @property
    def program(self) -> str:
        return self._gate.program

    @property
    def persistent(self) -> bool:
        return self._gate.persistent

    def propose(self, actions: Sequence[Action], commands: tuple[str, ...] = ()) -> Proposal:
        self._wait()
        return self._gate.propose(actions, commands)

    def rules_for(self, proposal: Proposal) -> Rules:
        return self._gate.rules_for(proposal)

    def writes(self, proposal: Proposal) -> tuple[str, ...]:
        return self._gate.writes(proposal)

    def propose_undo(self) -> tuple[Proposal, tuple[int, ...]] | None:
        self._wait()
        return self._gate.propose_undo()

    def propose_reset(self) -> tuple[Proposal, tuple[int, ...]] | None:
        self._wait()
        return self._gate.propose_reset()

    def apply(
        self,
        proposal: Proposal,
        *,
        keep_within_s: float | None = 60.0,
        undoes: tuple[int, ...] = (),
    ) -> MemoryPending:
        self._wait()
        self.requested.append(proposal)
        requested = Requester("tester", undoes)
        receipt, entry = transaction.apply(self.host, self.journal, proposal, requested)
        self.pending.append(MemoryPending(self.host, self.journal, receipt, entry))
        if keep_within_s is None:
            self.pending[-1].keep()
        return self.pending[-1]

    def begin_series(
        self, proposal: Proposal, settings: Sequence[Sequence[Change]]
    ) -> ThreadGuardedSeries:
        """The guard is a thread, which runs the code of the guard's process."""
        self._wait()
        requester = Requester("tester")
        return ThreadGuardedSeries(self.host, self.journal, proposal, settings, requester)

    def _wait(self) -> None:
        self.threads.append(threading.current_thread())
        assert self.free.wait(60.0)


def open_gate(kernel: str = "7.2", *options: str, io_alloc: bool = False) -> MemoryGate:
    """VPP on CPUs 1 and 2, OVS on CPU 3, one of nftop's own, two caches of eleven ways.

    `io_alloc`: ways of I/O are set: the two highest.
    """
    host = lab_host(kernel, *options, io_alloc=io_alloc)
    if io_alloc:
        folder = "L3DATA" if "cdp" in options else "L3"
        host.lab.echo("1", f"/info/{folder}/io_alloc")
        host.lab.echo("0=600;1=600", f"/info/{folder}/io_alloc_cbm")
    line = "L3DATA" if "cdp" in options else "L3"
    host.lab.echo(f"{line}:0=f;1=7f", "/schemata")
    for name, masks, cpus in (
        ("vpp", "0=f0;1=f0", "1-2"),
        ("ovs", "0=180;1=700", "3"),
        ("nftop.batch", "0=f;1=f", "7"),
    ):
        host.lab.mkdir(f"/{name}")
        host.lab.echo(f"{line}:{masks}", f"/{name}/schemata")
        host.lab.echo(cpus, f"/{name}/cpus_list")
    return MemoryGate(host)


def table_of(state: State) -> ResctrlTable:
    """What the source would read of a host in this state; every class is as full as it can be."""
    names = [ROOT, *(cell.group for cell in state if cell.kind == "group")]

    def cpus(name: str) -> tuple[Cpu, ...]:
        return tuple(
            Cpu(cell.number)
            for cell, where in sorted(state.items())
            if cell.kind == "cpu" and split_path(where)[0] == name
        )

    def caches(name: str) -> tuple[GroupCache, ...]:
        result = {
            (cell.name, cell.number): value
            for cell, value in state.items()
            if cell.kind == "schemata" and cell.group == name
        }
        data = "L3" if ("L3", 0) in result else "L3DATA"
        return tuple(
            GroupCache(
                L3Domain(l3),
                mask := Cbm(int(result[data, l3], 16), WAYS),
                Cbm(int(result["L3CODE", l3], 16), WAYS) if data == "L3DATA" else None,
                int(result["MB", l3]),
                values(round(mask.bytes(SIZE)) - (MIB if name == ROOT else 0), 10**8, 10**8),
            )
            for l3 in (0, 1)
        )

    groups = tuple(
        ResctrlGroup(name, 100 + clos, clos, cpus(name), "shareable", caches(name))
        for clos, name in enumerate(names)
    )
    io = IoWays(Cbm(0x600, WAYS), "cpuid")
    domains = tuple(CacheDomain(L3Domain(l3), WAYS, SIZE, io) for l3 in (0, 1))
    return ResctrlTable(groups, domains, limits=Limits(closids=8, rmids=176))


def frame_at(state: State, tick: int = 0, *, simulated: bool = False) -> Frame:
    """A frame of eight CPUs in two packages with the classes of a state."""
    base = frame(8, tick, packages=2, simulated=simulated)
    # Read after whatever a test has read of the host by then.
    now_ns = base.monotonic_ns + LATER_NS
    sources = {**base.sources, "resctrl": SourceState(Reason.PRESENT, "", 0.1, 0.01)}
    base = replace(base, monotonic_ns=now_ns, sources=sources)
    reading = SourceReading(table_of(state), base.monotonic_ns, 0)
    _, classes = step_cache(CacheState(), reading, base.topology)
    return replace(
        base,
        groups=classes.groups,
        domains=classes.domains,
        limits=classes.limits,
        cpus=replace(base.cpus, group=classes.of_cpus),
    )
