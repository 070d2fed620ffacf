"""Data sources: id, payload, what each measures and needs.

Recordings, screens and outputs use these rows; openers are registered in `nftop.sources.registry`.
"""

from __future__ import annotations

from collections.abc import Iterator

from nftop.model.nf.netdev import NetdevTable
from nftop.model.nf.ovs import OvsTable
from nftop.model.nf.vpp import VppTable
from nftop.model.pcie import PcieTable
from nftop.model.pcm import PcmTable
from nftop.model.rdt.rdt import ResctrlTable
from nftop.model.sample import CounterTable, CpuTimes, DpdkTable, SelfUse, ThreadTable
from nftop.model.sst import CpufreqTable
from nftop.model.struct import dataclass
from nftop.model.topology import Topology
from nftop.model.uncore import UncoreTable


@dataclass(frozen=True, slots=True)
class SourceKind:
    """One data source.

    Attributes:
        id: name in samples, recordings and outputs.
        payload: type of its readings. Recordings describe it; `gaps` of a reading is a text.
        measures: contents of its readings.
        needs: privileges or programs required; "" for none.
        shown: the header always shows its state, else only if it is not `ok`.
    """

    id: str
    payload: type
    measures: str
    needs: str = ""
    shown: bool = True


_KINDS: dict[str, SourceKind] = {}


def register_kind(kind: SourceKind) -> None:
    """Add a row, before the first recording is written or read.

    Raises:
        ValueError: the id is taken.
    """
    if kind.id in _KINDS:
        raise ValueError(f"two sources are called {kind.id}")
    _KINDS[kind.id] = kind


def kinds() -> Iterator[SourceKind]:
    return iter(tuple(_KINDS.values()))


def payloads() -> tuple[type, ...]:
    return tuple(dict.fromkeys(kind.payload for kind in kinds()))


def always_shown(source: str) -> bool:
    """Whether the header shows a source that works."""
    return source not in _KINDS or _KINDS[source].shown


_ROOT = "root, or CAP_PERFMON"
for _kind in (
    SourceKind("perf", CounterTable, "hardware counters of each CPU", _ROOT),
    SourceKind("uncore", UncoreTable, "counters of memory controllers, links and devices", _ROOT),
    SourceKind("iio", PcieTable, "traffic of devices by root port", _ROOT, shown=False),
    SourceKind("kernel", CpuTimes, "time of each CPU by use, from /proc/stat"),
    SourceKind("netdev", NetdevTable, "counters of network interfaces", "netlink"),
    SourceKind("processes", ThreadTable, "polling threads and their run time", "root for all"),
    SourceKind("dpdk", DpdkTable, "ports and lcores of DPDK applications", "telemetry socket"),
    SourceKind("ovs", OvsTable, "PMD threads of Open vSwitch", "control socket"),
    SourceKind("vpp", VppTable, "nodes and interfaces of VPP", "vpp-papi, stats socket"),
    SourceKind("resctrl", ResctrlTable, "cache classes and their monitors", "resctrl mounted"),
    SourceKind("pqos", ResctrlTable, "the same through MSRs, without resctrl", "root, libpqos"),
    SourceKind("cpufreq", CpufreqTable, "frequencies, their limits and Speed Select"),
    SourceKind("power", UncoreTable, "energy, C-states and throttling", _ROOT, shown=False),
    SourceKind("pcm", PcmTable, "values of a PCM sensor server", "pcm-sensor-server"),
    SourceKind("topology", Topology, "CPUs, caches and nodes", shown=False),
    SourceKind("self", SelfUse, "CPU time and affinity of nftop", shown=False),
):
    register_kind(_kind)
