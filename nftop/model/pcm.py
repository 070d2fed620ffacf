"""Source `pcm`: what a pcm-sensor-server tells.

A payload as those in `model.sample`: numbers as the server wrote them, its sentinels included; what
they mean is `derive.pcm`'s. Names are the server's own in snake_case, the same in JSON and in its
text form. Source of names and units: Intel PCM's pcm-sensor-server, documents of 202302 and of
June 2026.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from nftop.model.column import Floats

C_STATES = 11  # CStateResidency[0] to [10], of cores and of packages
_RESIDENCIES = tuple(f"cstateresidency_{state}" for state in range(C_STATES))

# Of a thread: counts, then what is so now (occupancy in KiB, headroom in degrees), then averages
# over the document's interval (Hz, whole percent, ratios), then counts in MiB.
CPU_FIELDS: tuple[str, ...] = (
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
PACKAGE_FIELDS: tuple[str, ...] = (
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
LINK_FIELDS: tuple[str, ...] = ("incoming_data_traffic", "outgoing_data_and_non_data_traffic")
# Requests of devices and to them since the server's start, in every document.
PCIE_EVENTS: tuple[str, ...] = (
    "pcirdcur", "rfo", "crd", "drd", "itom", "itomcachenear", "prd", "ucrdf", "wil", "wcil",
    "wcilf",
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class PcmTable:
    """One document.

    Attributes:
        since_start: numbers are totals; else those of the last `interval_us`. PCIe requests are
            totals in any case.
        interval_us: the interval they are of; of totals the server's clock, CLOCK_MONOTONIC of its
            host.
        cpus: int32 (n,), logical CPUs, ascending. cores: int32 (n,), the server's number of each
            one's core within its package. packages: int32 (n,), the server's number of its package.
        of_cpus: float64 (n, len(CPU_FIELDS)), NaN where the document has no such number.
        sockets: int32 (s,), the server's numbers of packages, ascending.
        of_packages: float64 (s, len(PACKAGE_FIELDS)), as `of_cpus`.
        links: int32 (l, 2), package and number of each link.
        of_links: float64 (l, len(LINK_FIELDS)).
        pcie: float64 (s, len(PCIE_EVENTS)).
        accelerators: counts by device and counter, as the server names them (untrusted text).
        notes: what an operator should know of this server, in sentences.
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

    @property
    def gaps(self) -> str:
        """What an operator should know, in words; "" when nothing."""
        return "; ".join(self.notes)

    def of_cpu(self, field: str) -> Floats:
        """float64 (n,): one of `CPU_FIELDS`."""
        return self.of_cpus[:, CPU_FIELDS.index(field)]

    def of_package(self, field: str) -> Floats:
        """float64 (s,): one of `PACKAGE_FIELDS`."""
        return self.of_packages[:, PACKAGE_FIELDS.index(field)]

    def same_places(self, other: PcmTable) -> bool:
        """Whether rows of both are of the same CPUs, packages and links."""
        mine = (self.cpus, self.cores, self.packages, self.sockets, self.links)
        theirs = (other.cpus, other.cores, other.packages, other.sockets, other.links)
        return all(map(np.array_equal, mine, theirs))
