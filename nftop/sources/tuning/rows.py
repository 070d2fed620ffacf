"""The checks of the host, one row each, with their references."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from nftop.model.reading import Reason
from nftop.model.struct import dataclass
from nftop.model.topology import Topology
from nftop.sources.base import Check
from nftop.sources.tuning import cores, devices
from nftop.sources.tuning.look import HostFinding, Look, Poller

# The papers: "Benchmarking and Analysis of Software Data Planes", and "Deterministic Network
# Functions Virtualization with Intel Resource Director Technology".
_SDP, _RDT = "data planes paper", "RDT paper"


@dataclass(frozen=True, slots=True)
class HostCheck:
    """A row: its name after `host`, why it matters with a reference, and its function."""

    name: str
    why: str
    look: Callable[[Look], Iterable[HostFinding]]


ROWS: tuple[HostCheck, ...] = (
    HostCheck(
        "isolation",
        f"another task on a core that polls takes its time ({_SDP}, 10.1: 1.3; {_RDT}, 2.3.2)",
        cores.isolation,
    ),
    HostCheck(
        "tick",
        f"frequent ticks cost latency ({_RDT}, 2.3.2; {_SDP}, 10.1: 1.3 asks for low jitter "
        "without naming ticks)",
        cores.tick,
    ),
    HostCheck(
        "rcu",
        f"the kernel's deferred work runs on the core otherwise ({_RDT}, 2.3.2)",
        cores.callbacks,
    ),
    HostCheck(
        "c-states",
        "without deep states performance is more consistent, and the rate without drops better "
        f"({_SDP}, 10.1: 1.1); they cost latency ({_RDT}, 2.3.1)",
        cores.idle_states,
    ),
    HostCheck(
        "turbo",
        f"a frequency that changes makes performance inconsistent ({_SDP}, 10.1: 1.1; {_RDT}, "
        "2.3.1)",
        cores.turbo,
    ),
    HostCheck(
        "governor",
        f"speed states that change do so too ({_SDP}, 10.1: 1.1; {_RDT}, 2.3.1)",
        cores.governor,
    ),
    HostCheck(
        "clock source",
        f"a TSC that seems unreliable is checked continuously, which costs latency ({_RDT}, 2.3.2)",
        cores.clock_source,
    ),
    HostCheck(
        "huge pages",
        f"they reduce page faults and TLB misses ({_RDT}, 2.3.2 and C.2.1)",
        devices.huge_pages,
    ),
    HostCheck(
        "memory channels",
        f"bandwidth grows with the number of channels ({_SDP}, 10.1: 1.5), which are to be used "
        "uniformly (10.2: 2.3)",
        devices.channels,
    ),
    HostCheck(
        "clusters",
        f"where memory is not used equally on all sockets, Cluster-on-Die is to be off ({_SDP}, "
        "10.1: 1.6)",
        devices.clusters,
    ),
    HostCheck(
        "nic",
        f"cores, memory and device on one node for the best latency ({_RDT}, 2.3.2); a NIC on one "
        f"socket and its application on both is one cause of traffic between them ({_SDP}, 9.2)",
        devices.nodes,
    ),
    HostCheck(
        "nic link",
        f"payload of 256 bytes, reads of 512 or more, no ASPM ({_SDP}, 10.1: 1.2)",
        devices.links,
    ),
    HostCheck(
        "nmi watchdog",
        f"off on the paper's host ({_RDT}, C.2.1); it keeps a counter from top-down, too",
        cores.watchdog,
    ),
    HostCheck(
        "irqbalance",
        f"it spreads interrupts over all cores ({_RDT}, 2.3.2: disable it; C.2.1: disabled there)",
        cores.balancer,
    ),
    HostCheck(
        "interrupts",
        f"they belong on other cores than those that poll ({_RDT}, 2.3.2)",
        cores.interrupts,
    ),
)


def host_checks(
    root: Path, topology: Topology, pollers: tuple[Poller, ...] = ()
) -> tuple[Check, ...]:
    """Every row, as doctor's lines. Never raises: a check that fails says so."""
    return tuple(check for row in ROWS for check in _run(row, Look(root, topology, pollers)))


def _run(row: HostCheck, look: Look) -> Iterator[Check]:
    """One row, on a look of its own, so that what could not be read is said of this row."""
    name = f"host {row.name}"
    try:
        findings = tuple(row.look(look))
    except Exception as error:  # noqa: BLE001 - the boundary: no check may stop another
        yield Check(name, Reason.ERROR, f"{type(error).__name__}: {error}", why=row.why)
        return
    notes = look.tree.notes()
    for item in findings:
        text = "; ".join([item.text, *notes]) if item is findings[-1] else item.text
        full = f"{name} {item.of}" if item.of else name
        yield Check(full, item.reason, text, item.fix, why=row.why, advised=item.advised)
