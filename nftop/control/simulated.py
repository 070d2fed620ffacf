"""Backends of the simulated host, with a journal in memory and a guard in a thread.

The transactions are those of any host. Nothing remains when this process ends.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from queue import Empty, Queue

from nftop.control.backend import CLASSES, AnyBackend, LockedError, RefusedError, after
from nftop.control.cpufreq.backend import FrequencyBackend, state_of_policies
from nftop.control.cpufreq.cpufreq import CPUFREQ
from nftop.control.cpufreq.operations import CpufreqWrite
from nftop.control.cpufreq.policies import CpufreqFacts, Policy
from nftop.control.gate import BackendGate, HostGate
from nftop.control.journal import BusyError, Journal
from nftop.control.journal_damage import DamagedJournalError
from nftop.control.journal_entry import Entry, Requester, finished
from nftop.control.rdt_limits import IoRule, LimitRule, MaskRule, Rules
from nftop.control.resctrl.backend import ClassBackend
from nftop.control.resctrl.operations import ENABLED, IO_FILES, ResctrlStep, cpus_in
from nftop.control.series import ALIVE, END, TRY, serve_series
from nftop.control.speed_select.backend import ISST, NOT_SIMULATED
from nftop.control.transaction import refused, serve
from nftop.control.wording import GUARD_IS_SLOW
from nftop.model.change import (
    POLICY_KINDS,
    Cell,
    Change,
    Outcome,
    Proposal,
    ReasonCode,
    Receipt,
    State,
)
from nftop.model.ids import format_cpu_list
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import MB, ROOT, split_path
from nftop.model.struct import dataclass, field, replace
from nftop.model.topology import Topology
from nftop.sim.classes import ALL_PERCENT, SimulatedClasses, numbered
from nftop.sim.frequency import DRIVER, EPPS, GOVERNORS, CoreSetting, altered
from nftop.sim.frequency import CoreFrequencies as Simulated
from nftop.sim.model import host_of
from nftop.sim.payloads import thread_table
from nftop.sim.world import World

# Not a path of this machine: a command that is shown, pasted, changes nothing.
CLASSES_PATH = "/SIMULATED/resctrl"
_ANSWER_S = 90.0
_SLOW = Receipt("failed", (GUARD_IS_SLOW.format(_ANSWER_S),), code=ReasonCode.GUARD_TIMEOUT)
FREQUENCIES_PATH = "/SIMULATED/cpufreq"
_KHZ = 1000


@contextlib.contextmanager
def _hold(lock: threading.Lock, limit_s: float) -> Iterator[None]:
    if not lock.acquire(timeout=limit_s):
        raise LockedError(f"another change has held the lock for {limit_s:g} s")
    try:
        yield
    finally:
        lock.release()


@dataclass(frozen=True, slots=True)
class SimulatedResctrl(ClassBackend):
    """Classes of the simulated host; refuses what the kernel would."""

    world: World
    held: threading.Lock = field(default_factory=threading.Lock)

    @property
    def identity(self) -> str:
        return f"simulated {id(self.world)}"

    @property
    def where(self) -> str:
        return CLASSES_PATH

    def state(self, threads: Iterable[Cell] = ()) -> State:
        wanted = frozenset(threads)
        state = self._classes.state
        return {c: value for c, value in state.items() if c.kind != "task" or c in wanted}

    def tasks(self, groups: Collection[str], tids: Collection[int]) -> Mapping[str, str]:
        return {
            cell.name: where
            for cell, where in self._classes.state.items()
            if cell.kind == "task"
            and (split_path(where)[0] in groups or int(cell.name.partition("@")[0]) in tids)
        }

    def rules(self) -> Rules:
        topology = self._topology
        classes = self._classes
        limits, io = classes.limits, {int(cache.id): classes.io(cache.id) for cache in topology.l3}
        return Rules(
            masks={"L3": MaskRule(classes.ways, limits.min_bits or 1, shareable=classes.io_bits)},
            limit=None
            if limits.mba_least is None
            else LimitRule(limits.mba_least, limits.mba_step or 1, ALL_PERCENT),
            closids=limits.closids,
            rmids=limits.rmids,
            io={l3: (ways.cbm.bits, ways.provenance) for l3, ways in io.items()},
            siblings={int(info.cpu): frozenset(info.siblings) for info in topology.cpus},
            io_alloc=_io_rule(classes),
        )

    def do(self, step: ResctrlStep) -> None:
        topology = self._topology

        def done(classes: SimulatedClasses) -> SimulatedClasses:
            is_io = step.operation in IO_FILES
            why = _bad_io(classes, step) if is_io else _refusal(classes, step, topology)
            if why:
                raise RefusedError(
                    f"{step.operation} of {step.group}: the simulated kernel says: {why}"
                )
            if step.task is not None and step.task not in classes.state:
                return classes  # a thread that ended needs no class
            state = after(classes.state, [step])
            return numbered(classes, state, [int(cache.id) for cache in topology.l3])

        self.world.change(done)

    def lock(self, limit_s: float) -> contextlib.AbstractContextManager[None]:
        return _hold(self.held, limit_s)

    def threads_of(self, pid: int) -> tuple[int, ...]:
        rows = thread_table(self.world.now().rdt.model, 0, 0).threads
        own = tuple(sorted(row.tid for row in rows if row.pid == pid))
        return own or tuple(row.tid for row in rows if row.tid == pid)

    @property
    def _classes(self) -> SimulatedClasses:
        return self.world.now().rdt.classes

    @property
    def _topology(self) -> Topology:
        return self.world.now().rdt.model.layout.topology


def _io_rule(classes: SimulatedClasses) -> IoRule | None:
    if classes.io_alloc is None:
        return None
    clos = (classes.limits.closids or 1) - 1
    holder = next((group for group, number in classes.clos.items() if number == clos), None)
    return IoRule("L3", clos, holder)


def _bad_io(classes: SimulatedClasses, step: ResctrlStep) -> str:
    """The kernel's error message for a write to io_alloc or io_alloc_cbm; "" if none."""
    rule = _io_rule(classes)
    if rule is None:
        return "No such file or directory"
    if step.operation == "io_cbm":
        if not classes.io_alloc:
            return "io_alloc is not enabled on L3"
        return next(filter(None, (_bad(classes, *value) for value in step.values.items())), "")
    switched_on = ENABLED in step.values.values() and not classes.io_alloc
    if switched_on and rule.holder is not None:
        return f"CLOSID (ctrl_hw_id) {rule.clos} for io_alloc is used by {rule.holder} group"
    return ""


def _refusal(classes: SimulatedClasses, step: ResctrlStep, topology: Topology) -> str:
    """The kernel's error message for a step (`fs/resctrl` of Linux 7.2); "" if none."""
    state = classes.state
    own = Cell("monitor" if step.monitor else "group", step.group, step.monitor)
    parent = step.group == ROOT or Cell("group", step.group) in state
    exists = own in state or (step.group == ROOT and not step.monitor)
    if step.operation == "mkdir" and (parent or not step.monitor):
        return "File exists" if exists else _no_room(classes, step)
    if not exists:
        return "No such file or directory"
    if step.operation == "rmdir":
        return "Operation not permitted" if step.group == ROOT and not step.monitor else ""
    if step.operation == "schemata":
        return next(filter(None, (_bad(classes, *value) for value in step.values.items())), "")
    if step.operation == "cpus":
        return _bad_cpus(state, step, topology)
    inside = step.task is None or split_path(state.get(step.task, ROOT))[0] == step.group
    return "" if inside or not step.monitor else "Can't move task to different control group"


def _no_room(classes: SimulatedClasses, step: ResctrlStep) -> str:
    kinds, limits = [cell.kind for cell in classes.state], classes.limits
    groups = 1 + kinds.count("group")
    if not step.monitor and groups + bool(classes.io_alloc) >= (limits.closids or 0):
        return "Out of CLOSIDs"
    return "Out of RMIDs" if groups + kinds.count("monitor") >= (limits.rmids or 0) else ""


def _bad(classes: SimulatedClasses, cell: Cell, value: str) -> str:
    ways, limits = classes.ways, classes.limits
    if cell not in classes.state:
        return f"Unknown or unsupported resource name {cell.name!r}, or no domain {cell.number}"
    if cell.name == MB:
        least, most = limits.mba_least or 0, ALL_PERCENT
        return (
            "" if least <= int(value) <= most else f"MB value {value} out of range [{least},{most}]"
        )
    bits = int(value, 16)
    if not 0 <= bits < 1 << ways:
        return f"Mask out of range: {value}"
    if bits.bit_count() < (limits.min_bits or 1):
        return f"Need at least {limits.min_bits} bits in the mask"
    return "" if Cbm(bits, ways).contiguous else f"The mask {value} has non-consecutive 1-bits"


def _bad_cpus(state: State, step: ResctrlStep, topology: Topology) -> str:
    unknown = step.cpus - {int(info.cpu) for info in topology.cpus}
    if unknown:
        return f"Can only assign online CPUs, not {format_cpu_list(unknown)}"
    if step.monitor and step.cpus - cpus_in(state, step.group):
        return "Can only add CPUs to mongroup that belong to parent"
    if step.group == ROOT and not step.monitor and cpus_in(state, ROOT) - step.cpus:
        return "Can't drop CPUs from default group"
    return ""


@dataclass(frozen=True, slots=True)
class MemoryJournal:
    under_way: list[Entry] = field(default_factory=list)
    done: list[Entry] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def persistent(self) -> bool:
        return False

    @contextlib.contextmanager
    def hold(self) -> Iterator[None]:
        if not self.lock.acquire(blocking=False):
            raise BusyError("a change is under way: it is to be kept or taken back first")
        try:
            yield
        finally:
            self.lock.release()

    def holder(self) -> str:
        return "this process" if self.lock.locked() else ""

    def pending(self) -> Entry | None:
        return self.under_way[-1] if self.under_way else None

    def history(self) -> tuple[Entry, ...]:
        return tuple(self.done)

    def known(self) -> tuple[tuple[Entry, ...], tuple[str, ...]]:
        return self.history(), ()

    def begin(self, entry: Entry) -> None:
        self.under_way[:] = [entry]

    def record(self, entry: Entry, outcome: Outcome) -> None:
        self.done.append(finished(entry, outcome))

    def forget(self) -> None:
        self.under_way.clear()


class ThreadGuardedChange:
    """A `PendingChange` whose guard is a thread; thread-safe."""

    def __init__(
        self,
        host: AnyBackend,
        journal: Journal,
        proposal: Proposal,
        requester: Requester,
        keep_within_s: float | None,
    ) -> None:
        self._condition = threading.Condition()
        self._receipts: list[Receipt] = []
        self._word = threading.Event()
        self._stays = False
        self._ended = threading.Event()

        def guard() -> None:
            try:
                with journal.hold():
                    serve(
                        host,
                        journal,
                        proposal,
                        requester,
                        keep_within_s,
                        answer=self._answer,
                        kept=lambda seconds: self._word.wait(seconds) and self._stays,
                    )
            except (BusyError, DamagedJournalError, OSError) as error:
                self._answer(refused(error))
            except Exception as error:  # noqa: BLE001 - the client waits for a receipt
                message = f"{type(error).__name__}: {error}"
                self._answer(Receipt("failed", (message,), code=ReasonCode.ERROR))
            finally:
                self._ended.set()

        threading.Thread(target=guard, name="nftop-guard", daemon=True).start()
        with self._condition:
            self._condition.wait_for(lambda: bool(self._receipts), _ANSWER_S)
        if self.receipt.outcome != "applied" or keep_within_s is None:
            self.settled(_ANSWER_S)

    @property
    def receipt(self) -> Receipt:
        return self._receipts[-1] if self._receipts else _SLOW

    def keep(self) -> Receipt:
        return self._settle(stays=True)

    def revert(self) -> Receipt:
        return self._settle(stays=False)

    def settled(self, seconds: float) -> Receipt | None:
        return self.receipt if self._ended.wait(seconds) else None

    def _settle(self, *, stays: bool) -> Receipt:
        with self._condition:
            if not self._word.is_set():  # the first call counts
                self._stays = stays
                self._word.set()
        return self.settled(_ANSWER_S) or _SLOW

    def _answer(self, receipt: Receipt | None) -> None:
        with self._condition:
            if receipt is not None:
                self._receipts.append(receipt)
            self._condition.notify_all()


class ThreadGuardedSeries:
    """A `PendingSeries` whose guard is a thread."""

    def __init__(
        self,
        host: AnyBackend,
        journal: Journal,
        proposal: Proposal,
        settings: Sequence[Sequence[Change]],
        requester: Requester,
    ) -> None:
        self._words: Queue[bytes] = Queue()
        self._answers: Queue[Receipt] = Queue()
        self._ended = False

        def answer(receipt: Receipt | None) -> None:
            if receipt is not None:
                self._answers.put(receipt)

        def word(seconds: float) -> bytes | None:
            try:
                return self._words.get(timeout=seconds)
            except Empty:
                return None

        def guard() -> None:
            try:
                with journal.hold():
                    serve_series(
                        host, journal, proposal, settings, requester, answer=answer, word=word
                    )
            except (BusyError, DamagedJournalError, OSError) as error:
                answer(refused(error))

        threading.Thread(target=guard, name="nftop-guard", daemon=True).start()
        self.receipt = self._next(_ANSWER_S) or _SLOW

    def try_setting(self, number: int) -> Receipt:
        return self._request(TRY + f" {number}".encode())

    def alive(self) -> None:
        self._words.put(ALIVE)

    def end(self) -> Receipt:
        return self._request(END)

    def settled(self, seconds: float) -> Receipt | None:
        if not self._ended:
            self._next(seconds)
        return self.receipt if self._ended else None

    def _request(self, word: bytes) -> Receipt:
        if not self._ended:
            self._words.put(word)
            self.receipt = self._next(_ANSWER_S) or _SLOW
        return self.receipt

    def _next(self, seconds: float) -> Receipt | None:
        try:
            receipt = self._answers.get(timeout=max(seconds, 1e-3))
        except Empty:
            return None
        self.receipt, self._ended = receipt, receipt.outcome != "applied"
        return receipt


@dataclass(frozen=True, slots=True)
class SimulatedFrequencies(FrequencyBackend):
    """Frequencies of the simulated host; refuses what the kernel would."""

    world: World
    held: threading.Lock = field(default_factory=threading.Lock)

    @property
    def identity(self) -> str:
        return f"simulated {CPUFREQ} {id(self.world)}"

    @property
    def where(self) -> str:
        return FREQUENCIES_PATH

    def facts(self) -> CpufreqFacts:
        now = self._now
        processor = now.processor
        policies = tuple(
            Policy(
                number=cpu,
                cpus=(cpu,),
                driver=DRIVER,
                governors=GOVERNORS,
                least_khz=processor.min_hz // _KHZ,
                most_khz=processor.max_hz // _KHZ,
                base_khz=base_hz // _KHZ,
            )
            for cpu, base_hz in enumerate(now.base_hz)
        )
        return CpufreqFacts(
            policies,
            siblings={int(info.cpu): frozenset(info.siblings) for info in now.topology.cpus},
            nominal_khz=processor.base_hz // _KHZ,
            turbo=now.turbo,
            packages={int(info.cpu): info.package for info in now.topology.cpus},
        )

    def keepers(self) -> tuple[str, ...]:
        return ()

    def state(self) -> State:
        state: dict[Cell, str] = {}
        for cpu, setting in enumerate(self._now.settings):
            limits = (str(hz // _KHZ) for hz in (setting.min_hz, setting.max_hz))
            values = (setting.governor, setting.epp, *limits)
            for kind, value in zip(POLICY_KINDS, values, strict=True):
                state[Cell(kind, "", str(cpu), cpu)] = value
        return state

    def read(self, like: Iterable[Cell]) -> State:
        return state_of_policies(self.state(), like)

    def do(self, step: CpufreqWrite) -> None:
        cpu = step.cell.number

        def done(now: Simulated) -> Simulated:
            if not 0 <= cpu < len(now.settings):
                raise RefusedError(f"{step.shell}: No such file or directory")
            why, setting = _after(now.settings[cpu], step)
            if why:
                raise RefusedError(f"{step.shell}: the simulated kernel says: {why}")
            return altered(now, {cpu: setting})

        self.world.set_frequencies(done)

    def lock(self, limit_s: float) -> contextlib.AbstractContextManager[None]:
        return _hold(self.held, limit_s)

    @property
    def _now(self) -> Simulated:
        return self.world.now().rdt.frequencies


def _after(setting: CoreSetting, step: CpufreqWrite) -> tuple[str, CoreSetting]:
    """The kernel's error message for a write, and the setting after it."""
    value = step.value
    if step.cell.kind == "governor":
        return ("" if value in GOVERNORS else "Invalid argument"), replace(setting, governor=value)
    if step.cell.kind == "epp":
        if value not in EPPS:
            return "Invalid argument", setting
        busy = setting.governor == "performance" and value != "performance"
        return "Device or resource busy" * busy, replace(setting, epp=value)
    hz = int(value) * _KHZ
    is_min = step.cell.kind == "min_khz"
    return "", replace(setting, min_hz=hz) if is_min else replace(setting, max_hz=hz)


def simulated_gates(world: World) -> HostGate:
    program = host_of(world.now().rdt.model).program
    guarded = MemoryJournal(), ThreadGuardedChange, program, ThreadGuardedSeries
    frequencies: FrequencyBackend = SimulatedFrequencies(world)
    return HostGate(
        {
            CLASSES: BackendGate(SimulatedResctrl(world), *guarded),
            CPUFREQ: BackendGate(frequencies, *guarded),
        },
        {ISST: NOT_SIMULATED},
    )
