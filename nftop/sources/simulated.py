"""The simulated host's sources: the model of `nftop.sim`, read at the clock's time.

They answer as the real ones of the same names do, and every `check` says that it is a simulation.
Nothing of the machine nftop runs on is looked at.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from typing import Any

from nftop.model.ids import Cpu
from nftop.model.reading import Reason
from nftop.model.struct import dataclass, replace
from nftop.model.topology import Host, Topology
from nftop.sim import payloads
from nftop.sim import scenario as scenarios
from nftop.sim.frequency import DRIVER, cpufreq_table
from nftop.sim.model import Model, model_of
from nftop.sim.network_functions import dpdk_table, ovs_table, vpp_table
from nftop.sim.pcm import pcm_table
from nftop.sim.processor import Processor
from nftop.sim.rdt import Rdt, rdt_of, resctrl_table
from nftop.sim.uncore import uncore_table
from nftop.sim.world import World
from nftop.sources.base import Check
from nftop.uarch import table as uarch_table


class _Simulated:
    """What all simulated sources share."""

    __slots__ = ()
    name: str
    text: str

    def check(self) -> tuple[Check, ...]:
        """That it works, and that it is simulated."""
        return (Check(self.name, Reason.PRESENT, f"SIMULATED: {self.text}"),)

    def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True, slots=True)
class SimulatedSource(_Simulated):
    """One source of the simulated host. `payload` reads it, `text` is what doctor says of it."""

    name: str
    payload: Callable[[], Any]
    text: str
    inline: bool = True

    def read(self) -> Any:
        """Its payload at the clock's time."""
        return self.payload()


@dataclass(slots=True)
class SimulatedCounters(_Simulated):
    """The simulated counters. `payload` reads them, and more of the CPUs it is given."""

    name: str
    payload: Callable[[frozenset[Cpu]], Any]
    text: str
    topology: Topology
    inline: bool = True
    focused: frozenset[Cpu] = frozenset()

    def read(self) -> Any:
        """Its payload at the clock's time."""
        return self.payload(self.focused)

    def focus(self, cpu: Cpu | None) -> None:
        """From the next reading on tell more of this CPU's core; with None of no core."""
        self.focused = self.topology.with_siblings(() if cpu is None else (cpu,))


@dataclass(slots=True)
class SimulatedProcesses(_Simulated):
    """The simulated threads. `payload` reads them, with the processes of a CPU described."""

    name: str
    payload: Callable[[Cpu | None], Any]
    text: str
    inline: bool = True
    selected: Cpu | None = None

    def read(self) -> Any:
        """Its payload at the clock's time."""
        return self.payload(self.selected)

    def focus_processes(self, cpu: Cpu | None) -> None:
        """From the next reading on describe the processes of this CPU; None: of no CPU."""
        self.selected = cpu


@dataclass(slots=True)
class SimulatedBoxes(_Simulated):
    """The simulated counters outside the cores. `payload` reads them, or all there are."""

    name: str
    payload: Callable[[bool], Any]
    text: str
    inline: bool = True
    detailed: bool = False

    def read(self) -> Any:
        """Its payload at the clock's time."""
        return self.payload(self.detailed)

    def detail(self, *, wanted: bool) -> None:
        """From the next reading on tell all that there is, or no longer."""
        self.detailed = wanted


@dataclass(frozen=True, slots=True)
class SimulatedHost:
    """The simulated host: identity, initial model, current state, sources."""

    host: Host
    model: Model
    world: World
    sources: tuple[SimulatedSource | SimulatedCounters | SimulatedProcesses | SimulatedBoxes, ...]
    uarch: uarch_table.Uarch


def simulated_host(
    scenario: str = "default",
    cpus: int = 88,
    *,
    not_counted: Callable[[Topology], Collection[int]] = lambda _: (),
    clock_ns: Callable[[], int] = time.monotonic_ns,
    turns: bool = True,
) -> SimulatedHost:
    """A host that starts now, by `clock_ns`: CLOCK_MONOTONIC unless it is frozen or stepped.

    Args:
        scenario: a name of `sim.scenario.names()`.
        cpus: 2 to 512.
        not_counted: of the host's topology, the CPUs that get no hardware counters.
        turns: count level 2 of top-down too, in groups that take turns.
        clock_ns: the clock; a test's own stands still until it is told to go on.

    Raises:
        ValueError: there is no such scenario, or the host can't have so many CPUs, or
            `not_counted` says so.
    """
    model = model_of(scenarios.load(scenario), cpus)
    topology = model.layout.topology
    processor = model.scenario.processor
    table = uarch_table.load(processor.uarch).with_smt(
        on=any(info.siblings for info in topology.cpus)
    )
    # Its counters are all free, so the plan that comes first is the one that is counted.
    uarch = replace(table, plans=table.plans[:1])
    boxes = [turn for unit in uarch.uncore for turn in (*unit.turns, *unit.on_demand)]
    uncore = [event for turn in boxes for event in turn]
    groups = uarch.plans[0].groups if turns else uarch.plans[0].groups[:1]
    quiet = frozenset(not_counted(topology))
    world = World(rdt_of(model), clock_ns)

    def now(read: Callable[[Rdt, int, int], Any]) -> Callable[[], Any]:
        def at_clock() -> Any:
            moment = world.now()
            return read(moment.rdt, moment.t_ns, moment.at_ns)

        return at_clock

    def counted(focus: frozenset[Cpu]) -> Any:
        moment = world.now()
        return payloads.focused_table(
            moment.rdt.model, moment.t_ns, uarch, quiet, turns=turns, focus=focus
        )

    def threads(selected: Cpu | None) -> Any:
        moment = world.now()
        return payloads.thread_table(moment.rdt.model, moment.t_ns, moment.at_ns, selected)

    def outside(detailed: bool) -> Any:  # noqa: FBT001 - as `SimulatedBoxes` calls it
        moment = world.now()
        return uncore_table(moment.rdt.model, moment.t_ns, uarch, detailed=detailed)

    size = (
        f"{len(topology.packages)} packages, {topology.core_count} cores, "
        f"{len(topology.cpus)} CPUs; scenario {model.scenario.name}: {model.scenario.title}"
    )
    names = {placed.task.name for placed in model.layout.placed}
    absent = [task.name for task in model.scenario.tasks if task.name not in names]
    if absent:
        size += f"; too small for {', '.join(absent)}: --cpus gives it more"
    sources = (
        SimulatedCounters(
            "perf",
            counted,
            f"counts {', '.join(dict.fromkeys(name for group in groups for name in group))}; "
            f"{len(groups)} groups of them take turns",
            topology,
        ),
        SimulatedSource(
            "kernel", now(lambda rdt, t_ns, _: payloads.cpu_times(rdt.model, t_ns)), "CPU times"
        ),
        SimulatedProcesses(
            "processes",
            threads,
            _listed("threads of", (placed.name for placed in model.layout.placed)),
        ),
        SimulatedSource(
            "dpdk",
            now(lambda rdt, t_ns, at_ns: dpdk_table(rdt.model, t_ns, at_ns)),
            _listed("applications", (app.prefix for app in dpdk_table(model, 0, 0).apps)),
        ),
        SimulatedSource(
            "ovs",
            now(lambda rdt, t_ns, at_ns: ovs_table(rdt.model, t_ns, at_ns)),
            _listed("vswitchds", (switch.rundir for switch in ovs_table(model, 0, 0).switches)),
        ),
        SimulatedSource(
            "vpp",
            now(lambda rdt, t_ns, at_ns: vpp_table(rdt.model, t_ns, at_ns)),
            _listed("segments", (instance.socket for instance in vpp_table(model, 0, 0).instances)),
        ),
        SimulatedBoxes(
            "uncore",
            outside,
            f"counts {', '.join(uncore)}",
        ),
        SimulatedSource(
            "resctrl",
            now(lambda rdt, t_ns, _: resctrl_table(rdt, t_ns)),
            f"cache classes {', '.join(group.name for group in model.scenario.groups)}",
        ),
        SimulatedSource(
            "pcm",
            now(lambda rdt, t_ns, _: pcm_table(rdt.model, t_ns)),
            "a pcm-sensor-server: power, temperatures, C-states, hit ratios, memory and links",
        ),
        SimulatedSource(
            "cpufreq",
            now(lambda rdt, _, __: cpufreq_table(rdt.frequencies, world.start_ns)),
            f"{DRIVER}, every CPU between {_limits(processor)} GHz at the start",
        ),
        SimulatedSource("topology", lambda: topology, size),
    )
    host = Host("demo", f"simulated {processor.title}", uarch.name, simulated=True)
    return SimulatedHost(host, model, world, sources, uarch)


def _limits(processor: Processor) -> str:
    return " and ".join(f"{hz / 1e9:.1f}" for hz in processor.start_hz)


def _listed(what: str, names: Iterable[str]) -> str:
    return f"{what} {', '.join(names) or 'none'}"
