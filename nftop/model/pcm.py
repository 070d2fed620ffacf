"""Source `pcm`: a pcm-sensor-server's document.

Numbers are as written by the server, sentinels included; `derive.pcm` interprets them. Names are
the server's in snake_case, equal for JSON and text. Source of names and units: Intel PCM's
pcm-sensor-server, documents of 202302 and of June 2026.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nftop.model.column import Floats
from nftop.model.missing import Missing, Reason
from nftop.model.struct import dataclass
from nftop.model.topology import Topology

# The server samples once a second, so it is read at most once a second.
REQUEST_INTERVAL_S = 0.75
C_STATES = 11  # CStateResidency[0] to [10], of cores and of packages
_RESIDENCIES = tuple(f"cstateresidency_{state}" for state in range(C_STATES))

# The names `FIRST_...` are those of recordings that have none of their own: they never change.
#
# Of a thread: counts, then what is so now (occupancy in KiB, headroom in degrees), then averages
# over the document's interval (Hz, whole percent, ratios), then counts in MiB.
FIRST_CPU_FIELDS: tuple[str, ...] = (
    "instructions_retired_any",
    "clock_unhalted_thread",
    "clock_unhalted_ref",
    "invariant_tsc",
    "l3_cache_misses",
    "l3_cache_hits",
    "l2_cache_misses",
    "l2_cache_hits",
    "smi_count",
    "l3_cache_occupancy",
    "thermal_headroom",
    "core_frequency",
    "frontend_bound",
    "bad_speculation",
    "backend_bound",
    "retiring",
    "fetch_latency_bound",
    "fetch_bandwidth_bound",
    "branch_misprediction_bound",
    "machine_clears_bound",
    "memory_bound",
    "core_bound",
    "heavy_operations_bound",
    "light_operations_bound",
    *_RESIDENCIES,
    "local_memory_bandwidth",
    "remote_memory_bandwidth",
)
# Of a package: bytes, joules, then averages (Hz, whole percent, ratios).
FIRST_PACKAGE_FIELDS: tuple[str, ...] = (
    "dram_reads",
    "dram_writes",
    "persistent_memory_reads",
    "persistent_memory_writes",
    "package_joules_consumed",
    "dram_joules_consumed",
    "uncore_frequency_die_0",
    "local_memory_request_ratio",
    *_RESIDENCIES,
)
# Of a link to another package: bytes.
FIRST_LINK_FIELDS: tuple[str, ...] = ("incoming_data_traffic", "outgoing_data_and_non_data_traffic")
# Requests of devices and to them since the server's start, in every document.
FIRST_PCIE_EVENTS: tuple[str, ...] = (
    "pcirdcur", "rfo", "crd", "drd", "itom", "itomcachenear", "prd", "ucrdf", "wil", "wcil",
    "wcilf",
)  # fmt: skip
# What is taken from a document now, in this order. More names may come in any place.
CPU_FIELDS = FIRST_CPU_FIELDS
PACKAGE_FIELDS = FIRST_PACKAGE_FIELDS
LINK_FIELDS = FIRST_LINK_FIELDS
PCIE_EVENTS = FIRST_PCIE_EVENTS


@dataclass(frozen=True, slots=True, eq=False)
class PcmTable:
    """One document.

    Attributes:
        since_start: numbers are totals, else those of the last `interval_us`. `pcie` are totals
            always.
        interval_us: of totals CLOCK_MONOTONIC of the server's host.
        cpus: int32 (n,), logical CPUs, ascending. cores, packages: int32 (n,), the server's
            numbers.
        of_cpus: float64 (n, len(cpu_fields)), NaN if absent.
        sockets: int32 (s,), the server's numbers of packages, ascending.
        of_packages: float64 (s, len(package_fields)), NaN if absent.
        links: int32 (l, 2), package and number of each link.
        of_links: float64 (l, len(link_fields)).
        pcie: float64 (s, len(events)), requests of devices.
        accelerators: counts by device and counter (untrusted text).
        notes: facts about this server for the operator, sentences.
        cpu_fields, package_fields, link_fields, events: names of the columns above.
    """

    since_start: bool
    interval_us: int
    cpus: NDArray[np.int32]
    cores: NDArray[np.int32]
    packages: NDArray[np.int32]
    of_cpus: Floats
    sockets: NDArray[np.int32]
    of_packages: Floats
    links: NDArray[np.int32]
    of_links: Floats
    pcie: Floats
    accelerators: tuple[tuple[str, tuple[tuple[str, float], ...]], ...] = ()
    notes: tuple[str, ...] = ()
    cpu_fields: tuple[str, ...] = FIRST_CPU_FIELDS
    package_fields: tuple[str, ...] = FIRST_PACKAGE_FIELDS
    link_fields: tuple[str, ...] = FIRST_LINK_FIELDS
    events: tuple[str, ...] = FIRST_PCIE_EVENTS

    @property
    def gaps(self) -> str:
        return "; ".join(self.notes)

    def of_cpu(self, field: str) -> Floats:
        """float64 (n,): one of `CPU_FIELDS`, NaN if absent."""
        return column_of(self.of_cpus, self.cpu_fields, field)

    def of_package(self, field: str) -> Floats:
        """float64 (s,): one of `PACKAGE_FIELDS`, NaN if absent."""
        return column_of(self.of_packages, self.package_fields, field)

    def of_link(self, field: str) -> Floats:
        """float64 (l,): one of `LINK_FIELDS`, NaN if absent."""
        return column_of(self.of_links, self.link_fields, field)

    def same_layout(self, other: PcmTable) -> bool:
        """Whether both tables have the same CPUs, sockets, links and column names."""
        mine = (self.cpus, self.cores, self.packages, self.sockets, self.links)
        theirs = (other.cpus, other.cores, other.packages, other.sockets, other.links)
        return self._names == other._names and all(map(np.array_equal, mine, theirs))

    @property
    def _names(self) -> tuple[tuple[str, ...], ...]:
        return self.cpu_fields, self.package_fields, self.link_fields, self.events


def column_of(table: Floats, names: Sequence[str], name: str) -> Floats:
    """float64 (n,): the column of a name, NaN if absent; `table` is (n, len(names))."""
    known = names[: table.shape[1]]  # a recording may say anything
    return table[:, known.index(name)] if name in known else np.full(len(table), np.nan)


ANOTHERS = Missing(
    Reason.SOURCE,
    "the server's CPUs and packages are not this host's, so its numbers are not used; "
    "nftop --pcm URL shows them by themselves",
)


def rows_of(
    table: PcmTable, topology: Topology
) -> tuple[NDArray[np.int64] | None, NDArray[np.int64] | None]:
    """Row in the table of each CPU and each package of the topology, -1 for none.

    (None, None) unless the server has the topology's CPUs, all online ones included, in the same
    packages; package numbers may differ.
    """
    row_of = {int(cpu): row for row, cpu in enumerate(table.cpus.tolist())}
    online = {int(info.cpu) for info in topology.cpus if info.online}
    if not online <= row_of.keys() <= topology.row_of.keys():
        return None, None
    rows = np.array([row_of.get(int(info.cpu), -1) for info in topology.cpus], dtype=np.int64)
    pairs = {
        (info.package, int(table.packages[row]))
        for info, row in zip(topology.cpus, rows.tolist(), strict=True)
        if info.package is not None and row >= 0
    }
    if not len(pairs) == len({ours for ours, _ in pairs}) == len({its for _, its in pairs}):
        return None, None
    socket_of = dict(pairs)
    row_of_socket = {int(socket): index for index, socket in enumerate(table.sockets.tolist())}
    packages = [row_of_socket.get(socket_of.get(package, -1), -1) for package in topology.packages]
    return rows, np.array(packages, dtype=np.int64)
