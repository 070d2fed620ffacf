"""Hosts that can be shown: this one, the simulated one, another one by its sensor server."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from nftop.cli.compose.accelerated import accelerated_host
from nftop.control.backend import CLASSES
from nftop.control.cpufreq.cpufreq import CPUFREQ
from nftop.control.gate import HostGate, missing_privilege, open_host_gate
from nftop.control.journal import FileJournal
from nftop.control.journal_status import notice
from nftop.derive.fold import FoldState, comparing
from nftop.model.baseline import Baselines
from nftop.model.check import Check
from nftop.model.frame import Finding
from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.missing import Missing
from nftop.model.nf.queue_map import QueueMap
from nftop.model.rule_settings import NO_SETTINGS, RuleSettings
from nftop.model.sample import Sample
from nftop.model.struct import dataclass, replace
from nftop.model.topology import Capacity, Host, Topology
from nftop.render.base.text import printable
from nftop.session.experiment import ExperimentHost
from nftop.session.live import Live
from nftop.sources.base import PollerAware, Refreshable, Source
from nftop.sources.host.topology import read_cpuid, read_host, read_topology
from nftop.sources.runtime.affinity import Affinity
from nftop.sources.runtime.self_usage import OwnSource
from nftop.uarch.table import GENERIC, Uarch, identify, load

if TYPE_CHECKING:
    from nftop.sources.pqos.source import PqosSource

_ROOT = Path("/")
# Real time between frames of the demo's experiment, whose curve grows before the operator's eyes.
_EXPERIMENT_PAUSE_S = 0.02
_READ_ONLY = "a sensor server is read-only: log in on its host to change it"


@dataclass(frozen=True, slots=True)
class OpenHost:
    """The sources of a host, and its topology at the start.

    Attributes:
        on_pollers: called with its polling CPUs, which nftop avoids.
        checks: doctor's checks that belong to no source.
        gate: changes it; `no_gate`, `no_frequencies`: why classes or frequencies can't be changed.
        notice: text to show besides the values.
        on_change: called after nftop has changed it: sources read their rare files next.
        experiment_host: opens the host on which experiments run; None: this one.
    """

    host: Host
    topology: Topology
    sources: tuple[Source, ...]
    uarch: Uarch
    on_pollers: Callable[[Collection[int], Topology], None]
    checks: tuple[Check, ...] = ()
    gate: HostGate | None = None
    no_gate: str = ""
    no_frequencies: str = ""
    notice: Callable[[], str] | None = None
    on_change: Callable[[], None] = lambda: None
    experiment_host: Callable[[], ExperimentHost] | None = None

    def feed(
        self,
        *,
        interval_s: float,
        cpus: tuple[Cpu, ...] | None = None,
        queue_map: QueueMap | None = None,
        soon_s: float | None = None,
        on_sample: Callable[[Sample], None] | None = None,
        on_finding: Callable[[Finding, int, int], None] | None = None,
        baselines: Baselines | None = None,
        rules: RuleSettings = NO_SETTINGS,
        on_baseline: Callable[[Baselines | None, int, int], None] | None = None,
    ) -> Live:
        """A live feed of its frames, with the arguments of `Live`; nftop avoids polling cores."""
        self.on_pollers((), self.topology)
        start = FoldState(self.host, self.topology, self.uarch, queue_map or {}, rules=rules)
        return Live(
            self.sources,
            comparing(start, baselines),
            interval_s,
            on_pollers=self.on_pollers,
            cpus=cpus,
            soon_s=soon_s,
            notice=self.notice,
            on_sample=on_sample,
            on_finding=on_finding,
            on_baseline=on_baseline,
        )


def open_host(
    cpus: tuple[Cpu, ...] | None = None,
    quiet_cpus: tuple[Cpu, ...] = (),
    *,
    tma_level: int = 2,
    pmu: str = "auto",
    pqos: str = "auto",
    memory_peak_gbs: float = 0.0,
) -> OpenHost:
    """The sources of this host; nothing is read or opened beyond the topology.

    No counter is opened on `quiet_cpus`, nor outside the cores of `cpus` if given. The other
    arguments are those of `Setup`. Raises ValueError: `cpus` or `quiet_cpus` names a CPU that is
    not here.
    """
    from nftop.sources.pqos.source import PqosSource  # noqa: PLC0415 - the demo has none of these
    from nftop.sources.registry import Setup, open_sources  # noqa: PLC0415 - likewise

    topology = read_topology(_ROOT)
    uarch = _uarch(topology)
    setup = Setup(
        _ROOT,
        topology,
        uarch,
        quiet_cpus,
        _not_counted(topology, cpus, quiet_cpus),
        tma_level,
        pmu,
        pqos,
        memory_bytes_per_s=memory_peak_gbs * 1e9,
    )
    sources = open_sources(setup)

    def on_pollers(pollers: Collection[int], here: Topology) -> None:
        # The last is nftop's own, which moves its threads off the pollers before uncore sources
        # choose the CPUs that they read on.
        for source in reversed(sources):
            if isinstance(source, PollerAware):
                source.on_pollers(pollers, here)

    def on_change() -> None:
        for source in sources:
            if isinstance(source, Refreshable):
                source.soon()

    gate, absent = _gate(next((item for item in sources if isinstance(item, PqosSource)), None))
    return OpenHost(
        read_host(_ROOT, uarch.name),
        topology,
        sources,
        uarch,
        on_pollers,
        tuple(setup.checks),
        gate=gate,
        no_gate=absent.get(CLASSES, ""),
        no_frequencies=absent.get(CPUFREQ, ""),
        notice=partial(notice, FileJournal()),
        on_change=on_change,
    )


def _gate(msrs: PqosSource | None) -> tuple[HostGate | None, Mapping[str, str]]:
    """The gate of this host, and why backends are missing; `msrs` if they have the classes."""
    if missing_privilege():
        return None, dict.fromkeys((CLASSES, CPUFREQ), missing_privilege())
    refused = None if msrs is None else msrs.refused
    gate, absent = open_host_gate({} if refused is None else {CLASSES: refused.message})
    return gate, absent


def _uarch(topology: Topology) -> Uarch:
    cpuid = read_cpuid(_ROOT)
    name = GENERIC if cpuid is None else identify(*cpuid)
    return load(name).with_smt(on=any(info.siblings for info in topology.cpus))


def open_demo(options: argparse.Namespace) -> OpenHost:
    """The simulated host; nftop's own cost is real, and its affinity stays as it is.

    Raises ValueError: no such scenario, or a CPU that the host can't have.
    """
    from nftop.control.simulated import simulated_gates  # noqa: PLC0415 - only for the demo
    from nftop.sources.simulated import simulated_host  # noqa: PLC0415

    demo = simulated_host(
        options.scenario,
        options.simulated_cpus,
        processor=options.simulated_host,
        name=options.host_name,
        not_counted=lambda topology: _not_counted(topology, options.cpu_list, options.quiet_cpus),
        turns=options.tma_level > 1,
    )
    topology = demo.model.layout.topology
    if options.memory_peak_gbs:
        peak = options.memory_peak_gbs * 1e9
        capacity = replace(topology.capacity or Capacity(), memory_bytes_per_s=peak)
        topology = replace(topology, capacity=capacity)
    sources: tuple[Source, ...] = (*demo.sources, OwnSource((), Affinity()))
    return OpenHost(
        demo.host,
        topology,
        sources,
        demo.uarch,
        lambda _pollers, _topology: None,
        gate=simulated_gates(demo.world),
        experiment_host=partial(
            accelerated_host, options, like=demo.world, pause_s=_EXPERIMENT_PAUSE_S
        ),
    )


def open_remote(options: argparse.Namespace) -> OpenHost:
    """The host of the sensor server at `options.pcm`, as far as the server describes it.

    Raises:
        ValueError: bad URL, or a CPU that the host does not have.
        ConnectionError: the server does not answer.
    """
    from nftop.sources.pcm import source as pcm  # noqa: PLC0415 - likewise
    from nftop.sources.pcm.client import parse_url  # noqa: PLC0415 - of other hosts only

    try:
        address = parse_url(options.pcm)
    except ValueError as error:
        raise ValueError(f"--pcm {printable(options.pcm)}: {error}") from None
    server = pcm.PcmSource(address)
    first = server.read()
    if isinstance(first, Missing):
        raise ConnectionError(first.message)
    topology = pcm.topology_of(first)
    _not_counted(topology, options.cpu_list, options.quiet_cpus)
    own = OwnSource((), Affinity())
    host = Host(address.shown, "unknown CPU", GENERIC, remote=options.pcm)
    sources = (server, pcm.PcmTopologySource(server), own)
    return OpenHost(
        host,
        topology,
        sources,
        load(GENERIC),
        lambda _pollers, _topology: None,
        no_gate=_READ_ONLY,
        no_frequencies=_READ_ONLY,
    )


def open_requested(options: argparse.Namespace) -> OpenHost:
    """The host selected on the command line. Raises ValueError, ConnectionError as above."""
    if options.scenario is not None:
        return open_demo(options)
    if options.pcm is not None:
        return open_remote(options)
    return open_host(
        options.cpu_list,
        options.quiet_cpus,
        tma_level=options.tma_level,
        pmu=options.pmu,
        pqos=options.pqos,
        memory_peak_gbs=options.memory_peak_gbs,
    )


def _not_counted(
    topology: Topology, cpus: tuple[Cpu, ...] | None, quiet_cpus: tuple[Cpu, ...]
) -> frozenset[int]:
    """CPUs without hardware counters; ValueError for a CPU that the host does not have.

    All threads of the cores of `cpus` are counted: top-down is per core.
    """
    for wanted in (cpus or (), quiet_cpus):
        unknown = [cpu for cpu in wanted if cpu not in topology.row_of]
        if unknown:
            raise ValueError(f"this host has no CPU {format_cpu_list(unknown)}")
    hidden = topology.row_of.keys() - topology.with_siblings(cpus) if cpus else frozenset()
    return frozenset({*quiet_cpus, *hidden})
