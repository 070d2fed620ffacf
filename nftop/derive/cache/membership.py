"""The cache class that counts on each CPU, and where nftop's own reading of counters disturbs."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from nftop.derive.cache.table import Classes
from nftop.derive.threads import ThreadRate
from nftop.model.frame import CacheClass
from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.reading import Missing, Reason
from nftop.model.topology import Topology


def effective_classes(
    classes: Classes, threads: Sequence[ThreadRate], topology: Topology
) -> tuple[CacheClass | Missing, ...]:
    """The class of each CPU of the topology: of what polls there, else the CPU's own.

    A task in a group other than the root has its class wherever it runs, one in the root group its
    CPU's: the kernel's resctrl.rst, "Resource allocation rules".
    """
    found: dict[int, dict[str, CacheClass]] = {}
    for rate in threads:
        row = topology.row_of.get(rate.cpu) if rate.cpu is not None else None
        if row is not None and rate.polls:
            cpus_own = classes.of_cpus[row]
            own = classes.of_tasks.get(rate.thread.tid, cpus_own)
            if not isinstance(cpus_own, Missing) and not isinstance(own, Missing):
                found.setdefault(row, {})[own.name] = own
    rows = list(classes.of_cpus)
    for row, several in found.items():
        rows[row] = _one_of(list(several.values()))
    return tuple(rows)


def disturbed(classes: Classes, polling: Collection[Cpu]) -> str:
    """What to say where the kernel reads counters on a CPU that an NF polls on; "" where not."""
    cpus = [
        domain.read_on
        for domain in classes.domains
        if domain.read_on is not None and domain.read_on in polling
    ]
    if not cpus:
        return ""
    listed = format_cpu_list(cpus)
    return f"the kernel reads counters on polling CPU {listed}; --quiet-cpus {listed} stops that"


def _one_of(classes: list[CacheClass]) -> CacheClass | Missing:
    if len(classes) == 1:
        return classes[0]
    names = ", ".join(clos.name for clos in classes)
    return Missing(Reason.UNDEFINED, f"what polls here is in several classes: {names}")
