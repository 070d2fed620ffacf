"""CPUs, cores, packages and last-level caches of the host."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from nftop.model.ids import Core, Cpu, L3Domain, Package
from nftop.model.number_text import counted
from nftop.model.struct import dataclass, field

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class CpuInfo:
    """One logical CPU.

    Attributes:
        core: index of its physical core, 0.. over the host in (package, die, core_id) order; None
            while the CPU is offline, since the kernel then hides its topology.
        siblings: the other logical CPUs of the core, ascending.
        l3: id of its last-level cache, or None.
        node: NUMA node; None if unknown.
        isolated, nohz_full: in the kernel's parameters `isolcpus`, `nohz_full`.
        base_frequency_hz: guaranteed frequency, in recordings older than source `cpufreq`; else
            None.
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
    """One last-level cache. `ways` is None if unknown."""

    id: L3Domain
    size_bytes: int
    ways: int | None
    cpus: tuple[Cpu, ...]


@dataclass(frozen=True, slots=True)
class NicSlot:
    """Slot of a network device: bytes per second of its link in one direction.

    `node`: NUMA node of the device; None if unknown.
    """

    address: str
    node: int | None
    bytes_per_s: float


@dataclass(frozen=True, slots=True)
class Capacity:
    """Facts from which the peak bandwidths of packages are computed; 0 is unknown.

    Attributes:
        memory_modules: of the host. memory_transfers_per_s: of the slowest of them.
        memory_bytes_per_s: peak of a package that the operator gives.
        nic_slots: of network devices.
    """

    memory_modules: int = 0
    memory_transfers_per_s: float = 0.0
    memory_bytes_per_s: float = 0.0
    nic_slots: tuple[NicSlot, ...] = ()


@dataclass(frozen=True)
class Topology:
    """All present CPUs, ascending, and their caches; `capacity` is None if nothing read it."""

    cpus: tuple[CpuInfo, ...]
    l3: tuple[L3Cache, ...] = ()
    notes: tuple[str, ...] = field(default=())  # what could not be read, in sentences
    capacity: Capacity | None = None

    @cached_property
    def row_of(self) -> Mapping[int, int]:
        """Row of a CPU in every column of a frame."""
        return {info.cpu: row for row, info in enumerate(self.cpus)}

    @cached_property
    def _row_table(self) -> NDArray[np.int64]:
        import numpy as np  # noqa: PLC0415 - the guard starts in half of the time without it

        table = np.full(max(self.row_of, default=-1) + 2, -1, np.int64)
        table[[*self.row_of]] = [*self.row_of.values()]
        return table

    def rows_of(self, cpus: NDArray[np.integer]) -> NDArray[np.int64]:
        """int64, shape of `cpus`: their rows, -1 for CPUs that are not here."""
        import numpy as np  # noqa: PLC0415 - as above

        table = self._row_table
        known = (cpus >= 0) & (cpus < len(table))
        return table[np.where(known, cpus, -1)]  # the last entry is of none

    def positions_of(self, packages: NDArray[np.integer]) -> NDArray[np.int64]:
        """int64, shape of `packages`: their positions in `packages`, -1 for those not here."""
        import numpy as np  # noqa: PLC0415 - as above

        known = np.array([*self.packages, np.iinfo(np.int64).max])  # the last is of none
        at = np.searchsorted(known, packages)
        return np.where(known[at] == packages, at, -1)

    @cached_property
    def grids(self) -> tuple[NDArray[np.intp], ...]:
        """For each package its cores by L3, side by side, with their threads in a column.

        Rows of a frame's columns, shape (threads, cores); -1 if a core has fewer threads. Offline
        CPUs are not included.
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
        """intp (rows, most siblings of a CPU): rows of each CPU's siblings, -1 for none."""
        import numpy as np  # noqa: PLC0415 - as above

        siblings = [
            [self.row_of[cpu] for cpu in info.siblings if cpu in self.row_of] for info in self.cpus
        ]
        rows = np.full((len(siblings), max(map(len, siblings), default=0)), -1, np.intp)
        for row, others in enumerate(siblings):
            rows[row, : len(others)] = others
        return rows

    @cached_property
    def core_index(self) -> NDArray[np.int64]:
        """int64 (rows,): same number for the threads of one core; offline CPUs have unique ones."""
        import numpy as np  # noqa: PLC0415 - as above

        known = [info.core for info in self.cpus if info.online and info.core is not None]
        cores = max(known, default=-1) + 1 + np.arange(len(self.cpus), dtype=np.int64)
        cores[self.has_core] = known
        return cores

    @cached_property
    def by_core(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """Rows by core for ufunc.reduceat: in order of cores; where each begins; core of each row.

        intp (rows,), (cores,), (rows,).
        """
        import numpy as np  # noqa: PLC0415 - as above

        cores, core_of = np.unique(self.core_index, return_inverse=True)
        order = np.argsort(core_of, kind="stable")
        return order, np.searchsorted(core_of[order], np.arange(len(cores))), core_of

    @cached_property
    def has_core(self) -> NDArray[np.bool_]:
        """bool (rows,): which CPUs are online and have a known core."""
        import numpy as np  # noqa: PLC0415 - as above

        return np.array([i.online and i.core is not None for i in self.cpus], np.bool_)

    @property
    def gaps(self) -> str:
        """What could not be read, a text; "" if nothing."""
        return "; ".join(self.notes)

    @cached_property
    def packages(self) -> tuple[Package, ...]:
        return tuple(sorted({c.package for c in self.cpus if c.package is not None}))

    @cached_property
    def package_index(self) -> NDArray[np.intp]:
        """intp (rows,): index of each CPU's package in `packages`; their number if unknown."""
        import numpy as np  # noqa: PLC0415 - as above

        index_of: dict[Package | None, int] = {}
        index_of |= {package: index for index, package in enumerate(self.packages)}
        return np.array([index_of.get(c.package, len(index_of)) for c in self.cpus], np.intp)

    @property
    def size(self) -> str:
        """`2 packages, 44 cores, 88 CPUs`."""
        packages, cores = counted(len(self.packages), "package"), counted(self.core_count, "core")
        return f"{packages}, {cores}, {counted(len(self.cpus), 'CPU')}"

    @cached_property
    def core_count(self) -> int:
        return len({c.core for c in self.cpus if c.core is not None})

    def with_siblings(self, cpus: Iterable[int]) -> frozenset[Cpu]:
        """The CPUs and their hyper-thread siblings; unknown CPUs are dropped."""
        rows = [self.cpus[self.row_of[cpu]] for cpu in cpus if cpu in self.row_of]
        return frozenset(cpu for info in rows for cpu in (info.cpu, *info.siblings))


# Names that a simulated host may have.
HOST_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
# Values of the options of `nftop demo` that a recording may name.
_DEMO_VALUES = {
    "--scenario": re.compile(r"[a-z0-9][a-z0-9-]{0,31}"),
    "--host": re.compile(r"[a-z0-9][a-z0-9-]{0,31}"),
    "--host-name": HOST_NAME,
    "--cpus": re.compile(r"[1-9][0-9]{0,3}"),
}


@dataclass(frozen=True, slots=True)
class Host:
    """The host that is observed.

    Attributes:
        model: CPU model name as the kernel gives it.
        uarch: nftop's name of the microarchitecture (`SKX`), `generic` if unknown.
        simulated: numbers come from nftop's model, not from hardware.
        remote: address of the sensor server that reports another host; "" here.
        demo_options: options of `nftop demo` that give this simulated host again (untrusted text).
    """

    name: str
    model: str
    uarch: str
    simulated: bool = False
    remote: str = ""
    demo_options: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        """First words of command lines for this host.

        Options that `nftop demo` does not have are left out, all of them: a recording may hold any.
        """
        if not self.simulated:
            return "nftop"
        words = self.demo_options
        names, values = words[::2], words[1::2]
        valid = (
            len(names) == len(values) == len(set(names))
            and all(name in _DEMO_VALUES for name in names)
            and all(map(lambda name, value: _DEMO_VALUES[name].fullmatch(value), names, values))
        )
        return shlex.join(("nftop", "demo", *words)) if valid else "nftop demo"

    @property
    def lab(self) -> bool:
        """Whether the kernel's interfaces are emulated (`tests.lab`), by the CPU model name."""
        return self.model.startswith("LAB:")

    @property
    def badge(self) -> str:
        """Label of every output unless this host's hardware gave the numbers; else ""."""
        if self.simulated or self.lab:
            return "SIMULATED" if self.simulated else "LAB"
        return "REMOTE" if self.remote else ""
