"""The simulated host's sources: the model of `nftop.sim`, read at the clock's time.

They have the names and payloads of the real sources, and read nothing of this machine.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from typing import Any

from nftop.model.check import Check
from nftop.model.frame import Focus
from nftop.model.ids import Cpu
from nftop.model.missing import Reason
from nftop.model.struct import dataclass, field, replace
from nftop.model.topology import Host, Topology
from nftop.sim import payloads
from nftop.sim import scenario as scenarios
from nftop.sim.frequency import DRIVER, cpufreq_table
from nftop.sim.model import DEMO_NAME, Model, host_of, model_of
from nftop.sim.network_functions import dpdk_table, ovs_table, vpp_table
from nftop.sim.pcm import pcm_table
from nftop.sim.power import power_table
from nftop.sim.rdt import Rdt, rdt_of, resctrl_table
from nftop.sim.uncore import pcie_table, uncore_table
from nftop.sim.world import World
from nftop.uarch import table as uarch_table


@dataclass(slots=True)
class SimulatedView:
    """What the simulated sources measure in more detail: a core, processes of a CPU, all boxes."""

    topology: Topology
    core: frozenset[Cpu] = frozenset()
    node: str = ""
    processes: Focus = field(default_factory=Focus)
    detailed: bool = False
    everything: bool = False


@dataclass(slots=True)
class SimulatedSource:
    """One source of the simulated host: `payload` reads it at the clock's time."""

    name: str
    payload: Callable[[], Any]
    text: str
    view: SimulatedView
    inline: bool = True

    def read(self) -> Any:
        return self.payload()

    def check(self) -> tuple[Check, ...]:
        """One line, marked as a simulation."""
        return (Check(self.name, Reason.PRESENT, f"SIMULATED: {self.text}"),)

    def close(self) -> None:
        """Nothing is held."""


class SimulatedCounters(SimulatedSource):
    """The simulated counters of cores."""

    def focus(self, cpu: Cpu | None, node: str = "") -> None:
        """As `Focusing`."""
        self.view.node = node
        self.view.core = self.view.topology.with_siblings(() if cpu is None else (cpu,))


class SimulatedProcesses(SimulatedSource):
    """The simulated threads."""

    def focus_processes(self, cpu: Cpu | None) -> None:
        """As `ProcessFocusing`."""
        self.view.processes = replace(self.view.processes, processes=cpu)

    def focus_culprits(self, cpus: Collection[Cpu], memory: Collection[Cpu]) -> None:
        """As `CulpritFocusing`."""
        self.view.processes = replace(
            self.view.processes, culprits=tuple(cpus), memory=tuple(memory)
        )


class SimulatedBoxes(SimulatedSource):
    """The simulated counters outside the cores."""

    def detail(self, *, wanted: bool) -> None:
        """As `Detailing`."""
        self.view.detailed = wanted


class SimulatedPorts(SimulatedSource):
    """The simulated counters of ports."""

    def everything(self, *, wanted: bool) -> None:
        """As `CounterFocusing`."""
        self.view.everything = wanted


@dataclass(frozen=True, slots=True)
class SimulatedHost:
    """The simulated host: identity, initial model, current state, sources."""

    host: Host
    model: Model
    world: World
    sources: tuple[SimulatedSource, ...]
    uarch: uarch_table.Uarch


def simulated_host(
    scenario: str = "default",
    cpus: int | None = None,
    *,
    processor: str = "",
    name: str | None = None,
    not_counted: Callable[[Topology], Collection[int]] = lambda _: (),
    clock_ns: Callable[[], int] = time.monotonic_ns,
    turns: bool = True,
) -> SimulatedHost:
    """A host of 2 to 512 CPUs that starts now, by `clock_ns` (CLOCK_MONOTONIC by default).

    `scenario` is a name of `sim.scenario.names()`; `processor` one of `sim.processor.names()`, or
    "" for the scenario's; `name` its own, by default `DEMO_NAME`; `cpus` None: as many as two such
    processors have. `not_counted` returns the CPUs without hardware counters; with `turns`, level 2
    of top-down is counted too, in multiplexed groups. Raises ValueError: no such scenario,
    processor or number of CPUs, or `not_counted` raises it.
    """
    played = scenarios.load(scenario, processor)
    model = model_of(played, played.processor.cpus if cpus is None else cpus)
    topology = model.layout.topology
    table = uarch_table.load(played.processor.uarch).with_smt(
        on=any(info.siblings for info in topology.cpus)
    )
    # All simulated counters are free, so the first plan is the one counted.
    uarch = replace(table, plans=table.plans[:1])
    model = replace(model, name=name or DEMO_NAME)
    world = World(rdt_of(model), clock_ns)
    view = SimulatedView(topology)
    payload_of = _payloads(world, uarch, frozenset(not_counted(topology)), view, turns=turns)
    texts = _texts(model, uarch, turns=turns)
    kinds = {
        "perf": SimulatedCounters,
        "processes": SimulatedProcesses,
        "uncore": SimulatedBoxes,
        "dpdk": SimulatedPorts,
    }
    sources = tuple(
        kinds.get(key, SimulatedSource)(key, payload, texts[key], view)
        for key, payload in payload_of.items()
    )
    host = host_of(model)
    return SimulatedHost(host, model, world, sources, uarch)


def _payloads(
    world: World,
    uarch: uarch_table.Uarch,
    quiet: frozenset[int],
    view: SimulatedView,
    *,
    turns: bool,
) -> dict[str, Callable[[], Any]]:
    """What reads each source, in the order of a sample."""

    def now(read: Callable[[Rdt, int, int], Any]) -> Callable[[], Any]:
        def at_clock() -> Any:
            moment = world.now()
            return read(moment.rdt, moment.t_ns, moment.at_ns)

        return at_clock

    iio = uarch.iio
    return {
        "perf": now(
            lambda rdt, t_ns, _: payloads.focused_table(
                rdt.model, t_ns, uarch, quiet, turns=turns, focus=view.core, node=view.node
            )
        ),
        "kernel": now(lambda rdt, t_ns, _: payloads.cpu_times(rdt.model, t_ns)),
        "processes": now(
            lambda rdt, t_ns, at_ns: payloads.thread_table(rdt.model, t_ns, at_ns, view.processes)
        ),
        "dpdk": now(
            lambda rdt, t_ns, at_ns: dpdk_table(rdt.model, t_ns, at_ns, everything=view.everything)
        ),
        "ovs": now(lambda rdt, t_ns, at_ns: ovs_table(rdt.model, t_ns, at_ns)),
        "vpp": now(lambda rdt, t_ns, at_ns: vpp_table(rdt.model, t_ns, at_ns)),
        "uncore": now(
            lambda rdt, t_ns, _: uncore_table(rdt.model, t_ns, uarch, detailed=view.detailed)
        ),
        **(
            {}
            if iio is None
            else {"iio": now(lambda rdt, t_ns, _: pcie_table(rdt.model, t_ns, uarch, iio))}
        ),
        "resctrl": now(lambda rdt, t_ns, _: resctrl_table(rdt, t_ns)),
        "power": now(lambda rdt, t_ns, _: power_table(rdt.model, t_ns)),
        "pcm": now(lambda rdt, t_ns, _: pcm_table(rdt.model, t_ns)),
        "cpufreq": now(lambda rdt, _, __: cpufreq_table(rdt.frequencies, world.start_ns)),
        "topology": lambda: view.topology,
    }


def _texts(model: Model, uarch: uarch_table.Uarch, *, turns: bool) -> dict[str, str]:
    """What doctor shows of each source."""
    topology, layout, scenario = model.layout.topology, model.layout, model.scenario
    groups = uarch.plans[0].groups if turns else uarch.plans[0].groups[:1]
    counted = dict.fromkeys(name for group in groups for name in group)
    boxes = [turn for unit in uarch.uncore for turn in (*unit.turns, *unit.on_demand)]
    limits = " and ".join(f"{hz / 1e9:.1f}" for hz in scenario.processor.start_hz)
    size = f"{topology.size}; scenario {scenario.name}: {scenario.title}"
    names = {placed.task.name for placed in layout.placed}
    absent = [task.name for task in scenario.tasks if task.name not in names]
    if absent:
        size += f"; too small for {', '.join(absent)}: give it more CPUs with --cpus"
    switches = ovs_table(model, 0, 0).switches
    return {
        "perf": f"counts {', '.join(counted)}; {len(groups)} groups of them take turns",
        "kernel": "CPU times",
        "processes": _listed("threads of", (placed.name for placed in layout.placed)),
        "dpdk": _listed("applications", (app.prefix for app in dpdk_table(model, 0, 0).apps)),
        "ovs": _listed("vswitchds", (switch.rundir for switch in switches)),
        "vpp": _listed("segments", (item.socket for item in vpp_table(model, 0, 0).instances)),
        "uncore": f"counts {', '.join(event for turn in boxes for event in turn)}",
        "iio": "traffic of network devices by root port",
        "resctrl": f"cache classes {', '.join(group.name for group in scenario.groups)}",
        "power": "energy of packages and memory, C-states, throttling",
        "pcm": "a pcm-sensor-server: power, temperatures, C-states, hit ratios, memory and links",
        "cpufreq": f"{DRIVER}, every CPU between {limits} GHz at the start",
        "topology": size,
    }


def _listed(what: str, names: Iterable[str]) -> str:
    return f"{what} {', '.join(names) or 'none'}"
