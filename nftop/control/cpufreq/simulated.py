"""The simulated host's frequencies as a part that can be changed: as intel_pstate has them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from nftop.control.backend import LockedError, RefusedError
from nftop.control.backends import CLASSES
from nftop.control.combined_gate import Joined
from nftop.control.cpufreq.backend import Frequencies, alike
from nftop.control.cpufreq.cpufreq import CPUFREQ
from nftop.control.cpufreq.operations import Write
from nftop.control.cpufreq.policies import Facts, Policy
from nftop.control.gate import PartGate
from nftop.control.simulated import PROGRAM, MemoryJournal, NearPending, SimulatedResctrl
from nftop.control.speed_select.backend import ISST, NOT_SIMULATED
from nftop.model.change import Cell, State
from nftop.sim.frequency import DRIVER, EPPS, GOVERNORS, Setting, altered
from nftop.sim.frequency import Frequencies as Simulated
from nftop.sim.world import World

# No path of this machine's: what is shown with it changes nothing if it is typed.
WHERE = "/SIMULATED/cpufreq"
_KHZ = 1000


@dataclass(frozen=True, slots=True)
class SimulatedFrequencies(Frequencies):
    """Refuses what the kernel would; the host's response is `sim.frequency`'s."""

    world: World
    held: threading.Lock = field(default_factory=threading.Lock)

    @property
    def identity(self) -> str:
        return f"simulated {CPUFREQ} {id(self.world)}"

    @property
    def where(self) -> str:
        return WHERE

    def facts(self) -> Facts:
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
        return Facts(
            policies,
            siblings={int(info.cpu): frozenset(info.siblings) for info in now.topology.cpus},
            nominal_khz=processor.base_hz // _KHZ,
            turbo=now.turbo,
            packages={int(info.cpu): info.package for info in now.topology.cpus},
        )

    def keepers(self) -> tuple[str, ...]:
        return ()

    def state(self) -> State:
        found: dict[Cell, str] = {}
        for cpu, setting in enumerate(self._now.settings):
            values = (
                ("governor", setting.governor), ("epp", setting.epp),
                ("min_khz", str(setting.min_hz // _KHZ)), ("max_khz", str(setting.max_hz // _KHZ)),
            )  # fmt: skip
            for kind, value in values:
                found[Cell(kind, "", str(cpu), cpu)] = value  # type: ignore[arg-type]
        return found

    def read(self, like: Iterable[Cell]) -> State:
        return alike(self.state(), like)

    def read_back(self, foreseen: State) -> State:
        return self.read(foreseen)

    def do(self, step: Write) -> None:
        cpu = step.cell.number

        def done(now: Simulated) -> Simulated:
            if not 0 <= cpu < len(now.settings):
                raise RefusedError(f"{step.shell}: No such file or directory")
            why, setting = _after(now.settings[cpu], step)
            if why:
                raise RefusedError(f"{step.shell}: the simulated kernel says: {why}")
            return altered(now, {cpu: setting})

        self.world.set_frequencies(done)

    @contextlib.contextmanager
    def lock(self, limit_s: float) -> Iterator[None]:
        if not self.held.acquire(timeout=limit_s):
            raise LockedError(f"another change has held the lock for {limit_s:g} s")
        try:
            yield
        finally:
            self.held.release()

    @property
    def _now(self) -> Simulated:
        return self.world.now().rdt.frequencies


def _after(setting: Setting, step: Write) -> tuple[str, Setting]:
    """What the kernel says against a write, and what is set after it."""
    value = step.value
    if step.cell.kind == "governor":
        return ("" if value in GOVERNORS else "Invalid argument"), replace(setting, governor=value)
    if step.cell.kind == "epp":
        if value not in EPPS:
            return "Invalid argument", setting
        busy = setting.governor == "performance" and value != "performance"
        return "Device or resource busy" * busy, replace(setting, epp=value)
    hz = int(value) * _KHZ
    if step.cell.kind == "min_khz":
        return "", replace(setting, min_hz=hz)
    return "", replace(setting, max_hz=hz)


def simulated_frequencies(world: World) -> PartGate[Frequencies]:
    """The gate of a simulated host's frequencies; its history begins and ends with it."""
    part: Frequencies = SimulatedFrequencies(world)
    return PartGate(part, MemoryJournal(), NearPending, PROGRAM)


def simulated_gates(world: World) -> Joined:
    """Of all parts of a simulated host, with one journal."""
    journal = MemoryJournal()
    frequencies: Frequencies = SimulatedFrequencies(world)
    return Joined(
        {
            CLASSES: PartGate(SimulatedResctrl(world), journal, NearPending, PROGRAM),
            CPUFREQ: PartGate(frequencies, journal, NearPending, PROGRAM),
        },
        {ISST: NOT_SIMULATED},
    )
