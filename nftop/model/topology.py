"""What the host is made of: CPUs, cores, packages, last-level caches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from nftop.model.ids import Core, Cpu, L3Domain, Package
from nftop.model.struct import dataclass, field

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class CpuInfo:
    """One logical CPU.

    Attributes:
        core: index of its physical core, 0.. over the whole host in (package, die, core_id) order;
            None while the CPU is offline, since the kernel then hides its topology.
        siblings: the other logical CPUs of the same core, ascending; empty without SMT.
        l3: id of its last-level cache; None where the kernel names none.
        node: NUMA node; None where unknown.
        isolated: in `isolcpus`.
        nohz_full: in `nohz_full`.
        base_frequency_hz: the guaranteed frequency, in recordings of before source `cpufreq` was
            there to tell it; else None.
    """

    cpu: Cpu
    online: bool
    core: Core | None
    package: Package | None
    die: int | None
    l3: L3Domain | None
    node: int | None
    siblings: tuple[Cpu, ...] = ()
    isolated: bool = False
    nohz_full: bool = False
    base_frequency_hz: float | None = None


@dataclass(frozen=True, slots=True)
class L3Cache:
    """One last-level cache. `ways` is None where the kernel does not say."""

    id: L3Domain
    size_bytes: int
    ways: int | None
    cpus: tuple[Cpu, ...]


@dataclass(frozen=True)
class Topology:
    """Every CPU the kernel knows as present, ascending, and the caches they share."""

    cpus: tuple[CpuInfo, ...]
    l3: tuple[L3Cache, ...] = ()
    notes: tuple[str, ...] = field(default=())  # what could not be read, in sentences

    @cached_property
    def row_of(self) -> Mapping[int, int]:
        """Row of a CPU in every column of a frame."""
        return {info.cpu: row for row, info in enumerate(self.cpus)}

    @cached_property
    def grids(self) -> tuple[NDArray[np.intp], ...]:
        """A grid for each package: its cores, by L3, side by side, their threads below each other.

        Rows of every column of a frame, shape (threads, cores); -1 where a core has fewer threads.
        CPUs that are offline have no core and no place.
        """
        import numpy as np  # noqa: PLC0415 - the guard starts in half of the time without it

        cores: dict[tuple[int, int, int], list[int]] = {}
        for row, info in enumerate(self.cpus):
            if info.core is not None and info.package is not None:
                l3 = -1 if info.l3 is None else info.l3
                cores.setdefault((info.package, l3, info.core), []).append(row)
        packages: dict[int, list[list[int]]] = {package: [] for package in self.packages}
        for key, rows in sorted(cores.items()):
            packages[key[0]].append(rows)
        grids = []
        for mine in packages.values():
            grid = np.full((max(map(len, mine), default=0), len(mine)), -1, np.intp)
            for at, rows in enumerate(mine):
                grid[: len(rows), at] = rows
            grids.append(grid)
        return tuple(grid for grid in grids if grid.size)

    @cached_property
    def sibling_rows(self) -> NDArray[np.intp]:
        """intp (rows, most siblings a CPU has): the rows of each CPU's siblings, -1 where none."""
        import numpy as np  # noqa: PLC0415 - as above

        siblings = [[self.row_of[cpu] for cpu in info.siblings if cpu in self.row_of]
                 for info in self.cpus]  # fmt: skip
        rows = np.full((len(siblings), max(map(len, siblings), default=0)), -1, np.intp)
        for row, others in enumerate(siblings):
            rows[row, : len(others)] = others
        return rows

    @cached_property
    def core_index(self) -> NDArray[np.int64]:
        """int64 (rows,): the same number for the threads of one core.

        A CPU that is offline has a number of its own behind all others, so that arrays by core
        have an entry for it.
        """
        import numpy as np  # noqa: PLC0415 - as above

        known = [info.core for info in self.cpus if info.online and info.core is not None]
        cores = max(known, default=-1) + 1 + np.arange(len(self.cpus), dtype=np.int64)
        cores[self.has_core] = known
        return cores

    @cached_property
    def has_core(self) -> NDArray[np.bool_]:
        """bool (rows,): which CPUs are online and have a known core."""
        import numpy as np  # noqa: PLC0415 - as above

        return np.array([i.online and i.core is not None for i in self.cpus], np.bool_)

    @property
    def gaps(self) -> str:
        """What could not be read, in words; "" when all was."""
        return "; ".join(self.notes)

    @cached_property
    def packages(self) -> tuple[Package, ...]:
        return tuple(sorted({c.package for c in self.cpus if c.package is not None}))

    @cached_property
    def core_count(self) -> int:
        return len({c.core for c in self.cpus if c.core is not None})

    def with_siblings(self, cpus: Iterable[int]) -> frozenset[Cpu]:
        """The CPUs and every hyper-thread sibling of theirs; unknown CPUs are dropped."""
        rows = [self.cpus[self.row_of[cpu]] for cpu in cpus if cpu in self.row_of]
        return frozenset(cpu for info in rows for cpu in (info.cpu, *info.siblings))


@dataclass(frozen=True, slots=True)
class Host:
    """Who we are looking at.

    Attributes:
        name: host name.
        model: CPU model name as the kernel gives it.
        uarch: our name of the microarchitecture (`SKX`), `generic` where no table knows it.
        simulated: the numbers come from nftop's own model, not from hardware.
        remote: it is another host's sensor server that tells of it, at this address; "" here.
    """

    name: str
    model: str
    uarch: str
    simulated: bool = False
    remote: str = ""

    @property
    def lab(self) -> bool:
        """The kernel's interfaces are emulated here (`tests.lab`), as the CPU's name says."""
        return self.model.startswith("LAB:")

    @property
    def badge(self) -> str:
        """What must stand beside every number that this host's hardware did not give; else ""."""
        if self.simulated or self.lab:
            return "SIMULATED" if self.simulated else "LAB"
        return "REMOTE" if self.remote else ""
