"""Opens the sources of this host: one row per source, in the order of a sample.

A new source takes its package, a row here and one in `nftop.model.sources`; code outside of nftop
calls `register` and `register_kind` instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeAlias

from nftop.model.check import Check
from nftop.model.ids import Cpu
from nftop.model.struct import dataclass, field
from nftop.model.topology import Topology
from nftop.sources.base import Counting, Helped, Source
from nftop.sources.cpufreq.source import CpufreqSource
from nftop.sources.dpdk.source import DpdkSource
from nftop.sources.host.cpu_time import KernelSource
from nftop.sources.host.topology import TopologySource
from nftop.sources.netdev.source import NetdevSource
from nftop.sources.nf_session.discovery import Views
from nftop.sources.ovs.source import OvsSource
from nftop.sources.pcm.client import PORT
from nftop.sources.pcm.source import PcmSource
from nftop.sources.perf.source import PerfSource
from nftop.sources.power.source import PowerSource
from nftop.sources.pqos.source import PqosSource, offered
from nftop.sources.process.source import ProcessSource
from nftop.sources.pyperf.source import choose
from nftop.sources.resctrl.source import UARCHS as IIO_REGISTER_UARCHS
from nftop.sources.resctrl.source import ResctrlSource
from nftop.sources.runtime.affinity import Affinity
from nftop.sources.runtime.http_client import Address
from nftop.sources.runtime.self_usage import OwnSource
from nftop.sources.uncore.source import NO_IIO, IioSource, UncoreSource
from nftop.sources.vpp.source import VppSource
from nftop.uarch.table import Uarch


@dataclass(frozen=True, slots=True)
class Setup:
    """What openers need."""

    root: Path
    topology: Topology
    uarch: Uarch
    quiet_cpus: tuple[Cpu, ...] = ()  # CPUs on which no counter may be read
    uncounted_cpus: Collection[int] = ()  # CPUs without hardware counters: quiet or not shown
    tma_level: int = 2  # level of top-down; above 1 counter groups are multiplexed
    pmu: str = "auto"  # source of counters, one of `pyperf.source.WAYS`
    pqos: str = "auto"  # use of MSRs where the kernel has no resctrl, one of `pqos.source.WAYS`
    memory_bytes_per_s: float = 0.0  # peak of a package's memory that the operator gives, or 0
    affinity: Affinity = field(default_factory=Affinity)
    views: Views = field(default_factory=Views)
    opened: list[Source] = field(default_factory=list)  # the sources opened so far
    checks: list[Check] = field(default_factory=list)  # on sources that were not opened


Opener: TypeAlias = Callable[[Setup], Source | None]


def open_sources(setup: Setup) -> tuple[Source, ...]:
    """Open every registered source; nothing is read yet."""
    for opener in _OPENERS.values():
        source = opener(setup)
        if source is not None:
            setup.opened.append(source)
    return tuple(setup.opened)


def register(source: str, opener: Opener) -> None:
    """Add a source before `self`, which reads the costs of the others.

    Its id needs a row in `nftop.model.sources`. The opener returns None if the host does not have
    the source. Raises ValueError: the id is registered.
    """
    if source in _OPENERS:
        raise ValueError(f"two sources are called {source}")
    own = _OPENERS.pop(_SELF)
    _OPENERS.update({source: opener, _SELF: own})


def _open_perf(setup: Setup) -> Source:
    groups = PerfSource(
        root=setup.root,
        uarch=setup.uarch,
        quiet_cpus=setup.uncounted_cpus,
        turns=setup.tma_level > 1,
        threads_of=lambda cpu: setup.topology.with_siblings((cpu,)),
    )
    choice = choose(
        setup.pmu, groups, setup.uarch, root=setup.root, quiet_cpus=setup.uncounted_cpus
    )
    setup.checks.extend(choice.checks)
    return choice.source


def _open_resctrl(setup: Setup) -> Source:
    return ResctrlSource(
        setup.root,
        setup.topology,
        quiet_cpus=setup.quiet_cpus,
        io_register=setup.uarch.name in IIO_REGISTER_UARCHS,
        affinity=setup.affinity,
    )


def _open_pqos(setup: Setup) -> Source | None:
    if not offered(setup.root):
        return None
    return PqosSource(setup.root, setup.topology, way=setup.pqos, quiet_cpus=setup.quiet_cpus)


def _open_iio(setup: Setup) -> Source | None:
    if setup.uarch.iio is None:
        setup.checks.append(NO_IIO.check("iio"))
        return None
    return IioSource(
        setup.uarch,
        setup.uarch.iio,
        topology=setup.topology,
        root=setup.root,
        quiet_cpus=setup.quiet_cpus,
    )


def _open_self(setup: Setup) -> Source:
    return OwnSource(
        [source for source in setup.opened if isinstance(source, Counting)],
        setup.affinity,
        [source for source in setup.opened if isinstance(source, Helped)],
    )


_SELF = "self"
_OPENERS: dict[str, Opener] = {
    "perf": _open_perf,
    # Packages are counted whole: only quiet CPUs are left out.
    "uncore": lambda at: UncoreSource(at.uarch, root=at.root, quiet_cpus=at.quiet_cpus),
    "iio": _open_iio,
    "kernel": lambda at: KernelSource(at.root),
    "netdev": lambda at: NetdevSource(at.root),
    "processes": lambda at: ProcessSource(at.root),
    "dpdk": lambda at: DpdkSource(views=at.views),
    "ovs": lambda at: OvsSource(views=at.views),
    "vpp": lambda at: VppSource(views=at.views),
    "resctrl": _open_resctrl,
    "pqos": _open_pqos,
    "cpufreq": lambda at: CpufreqSource(at.root, quiet_cpus=at.quiet_cpus),
    "power": lambda at: PowerSource(at.root, quiet_cpus=at.quiet_cpus),
    "pcm": lambda at: PcmSource(Address("127.0.0.1", PORT), root=at.root),
    "topology": lambda at: TopologySource(at.root, at.memory_bytes_per_s),
    _SELF: _open_self,
}
