"""What a machine's CPUs can do with their caches, as far as the kernel lets it be seen."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from nftop.model.topology import Topology

# The words of the kernel's boot parameter `rdt=`, and the events that need one each.
FEATURES = ("cmt", "mbmtotal", "mbmlocal", "l3cat", "l3cdp", "mba")
_EVENTS = {"cmt": "llc_occupancy", "mbmtotal": "mbm_total_bytes", "mbmlocal": "mbm_local_bytes"}


@dataclass(frozen=True, slots=True)
class CacheAllocation:
    """CAT of the last-level cache.

    Attributes:
        ways, min_bits: of a mask.
        shareable_bits: those that CPUID says I/O uses too.
        closids: classes; CDP halves them. cdp: whether there is CDP.
        io_alloc: whether the ways of I/O can be set, as AMD's SDCIAE lets the kernel do.
    """

    ways: int
    min_bits: int
    shareable_bits: int
    closids: int
    cdp: bool
    io_alloc: bool = False


@dataclass(frozen=True, slots=True)
class BandwidthAllocation:
    """MBA, in percent.

    Attributes:
        throttle: what threads of a core share: `max`, `per-thread` or `undefined`.
    """

    closids: int
    minimum: int
    granularity: int
    throttle: str


@dataclass(frozen=True, slots=True)
class Monitoring:
    """CMT and MBM.

    Attributes:
        rmids: how many, over all nodes of a cache that is divided into several.
        scale_bytes: what one step of a counter stands for.
        events: names of the files, in the kernel's order.
    """

    rmids: int
    scale_bytes: int
    events: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Hardware:
    """A host as resctrl sees it.

    Attributes:
        domain_of: the L3's id of every possible CPU.
        node_of: the id of its part of the L3: the same unless sub-NUMA clusters divide it.
        online: CPUs that are there.
        size_bytes: of each L3 by id.
        allocation, bandwidth, monitoring: None where the CPU lacks it or the kernel hides it.
    """

    domain_of: tuple[int, ...]
    node_of: tuple[int, ...]
    online: frozenset[int]
    size_bytes: Mapping[int, int]
    allocation: CacheAllocation | None
    bandwidth: BandwidthAllocation | None
    monitoring: Monitoring | None

    @property
    def domains(self) -> tuple[int, ...]:
        """Ids of the L3s, ascending."""
        return tuple(sorted(self.size_bytes))

    @property
    def nodes(self) -> tuple[int, ...]:
        """Ids of their parts, ascending."""
        return tuple(sorted(set(self.node_of)))

    def nodes_in(self, domain: int) -> tuple[int, ...]:
        """The parts of one L3."""
        pairs = zip(self.domain_of, self.node_of, strict=True)
        return tuple(sorted({node for of, node in pairs if of == domain}))


def hardware_of(
    table: Mapping[str, Any],
    topology: Topology,
    *,
    boot: Collection[str] | None = None,
) -> Hardware:
    """A machine's hardware from the `[resctrl]` table of its file.

    Args:
        table: as explained in `machines/skx-4.toml`; without `bandwidth` the CPU has no MBA.
        topology: its CPUs and caches.
        boot: words of the boot parameter `rdt=`, which show what the kernel hides; None: as the
            table has it.

    Raises:
        ValueError: a word that `rdt=` does not know, or CPUs without an L3.
    """
    shown = table["boot"] if boot is None else boot
    if not set(shown) <= set(FEATURES):
        raise ValueError(f"rdt= knows {', '.join(FEATURES)}, not all of {', '.join(shown)}")
    seen = (set(FEATURES) - set(table["hidden"])) | set(shown)
    domain_of = tuple(int(row.l3) for row in topology.cpus if row.l3 is not None)
    if len(domain_of) < len(topology.cpus):
        raise ValueError("resctrl needs a last-level cache for every CPU")
    events = tuple(file for word, file in _EVENTS.items() if word in seen)
    return Hardware(
        domain_of=domain_of,
        node_of=_nodes(topology, domain_of),
        online=frozenset(int(row.cpu) for row in topology.cpus if row.online),
        size_bytes={int(cache.id): cache.size_bytes for cache in topology.l3},
        allocation=(
            CacheAllocation(**table["allocation"], cdp="l3cdp" in seen) if "l3cat" in seen else None
        ),
        bandwidth=(
            BandwidthAllocation(**table["bandwidth"])
            if "mba" in seen and "bandwidth" in table
            else None
        ),
        monitoring=Monitoring(**table["monitoring"], events=events) if events else None,
    )


def _nodes(topology: Topology, domain_of: tuple[int, ...]) -> tuple[int, ...]:
    """The NUMA node of every CPU where an L3 serves several nodes, else its L3."""
    nodes = tuple(
        domain if row.node is None else int(row.node)
        for row, domain in zip(topology.cpus, domain_of, strict=True)
    )
    divided = len(set(zip(domain_of, nodes, strict=True))) > len(set(domain_of))
    return nodes if divided else domain_of
