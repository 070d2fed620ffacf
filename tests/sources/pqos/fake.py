"""Hardware as libpqos shows it: two caches of four CPUs, four classes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from nftop.model.ids import Cpu, L3Domain
from nftop.model.topology import CpuInfo, L3Cache, Topology
from nftop.sources.pqos.protocol import MsrState

MIB = 1 << 20
CPUS = {0: (0, 1, 4, 5), 2: (2, 3, 6, 7)}
TOPOLOGY = Topology(
    cpus=tuple(
        CpuInfo(
            cpu=Cpu(cpu),
            online=True,
            core=None,
            package=None,
            die=None,
            l3=L3Domain(int(cpu in CPUS[2])),
            node=None,
            siblings=(Cpu(cpu ^ 4),),
        )
        for cpu in range(8)
    ),
    l3=tuple(
        L3Cache(L3Domain(index), 11 * MIB, 11, tuple(map(Cpu, cpus)))
        for index, cpus in enumerate(CPUS.values())
    ),
)


class PqosError(Exception):
    """As the binding's."""


@dataclass
class Fake:
    """`Library`, as far as it is used, with faults to be told.

    Attributes:
        misplaces: a start that fails puts its CPUs into class 0, as the binding's fault does.
    """

    class_of: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(8), 0))
    rmid_of: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(8), 0))
    mask: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    limit: dict[tuple[int, int], int] = field(default_factory=dict)
    has_cdp: bool = False
    misplaces: bool = False
    fails: bool = False
    rmids_present: int = 16
    starts: int = 0
    moved: int = 0
    refuses: bool = False

    error: type[Exception] = PqosError

    @property
    def classes(self) -> Any:
        return SimpleNamespace(
            assoc_get=self.class_of.__getitem__, assoc_set=self.class_of.__setitem__
        )

    @property
    def monitors(self) -> Any:
        return SimpleNamespace(start=self._start, poll=self._poll)

    @property
    def masks(self) -> Any:
        def row(class_id: int, mask: int = 0, code_mask: int = 0, data_mask: int = 0) -> Any:
            return SimpleNamespace(
                class_id=class_id, values=[data_mask, code_mask] if data_mask else [mask]
            )

        return SimpleNamespace(COS=row, set=self._set_masks)

    @property
    def limits(self) -> Any:
        def row(class_id: int, mb_max: int) -> Any:
            return SimpleNamespace(class_id=class_id, mb_max=mb_max)

        return SimpleNamespace(COS=row, set=self._set_limits)

    def rmids(self, cores: Iterable[int]) -> dict[int, int]:
        return {core: self.rmid_of[core] for core in cores}

    def cat_id(self, cache: int) -> int:
        return {0: 10, 2: 11}[cache]

    def mba_id(self, cache: int) -> int:
        return {0: 20, 2: 21}[cache]

    def read_classes(self, quiet: Iterable[int] = ()) -> MsrState:
        whole = [0x7FF, 0x7FF] if self.has_cdp else [0x7FF]
        rows = {c: [self.mask.get((c, clos), whole) for clos in range(4)] for c in CPUS}
        return MsrState(
            cpus=CPUS,
            class_of={cpu: clos for cpu, clos in self.class_of.items() if cpu not in quiet},
            ways=11,
            way_bytes=MIB,
            contention=0x600,
            has_cdp=self.has_cdp,
            least=10,
            step=10,
            rmids=self.rmids_present,
            masks={c: tuple(row[0] for row in result) for c, result in rows.items()},
            codes={c: tuple(row[-1] for row in result) for c, result in rows.items()}
            if self.has_cdp
            else {},
            limits={c: tuple(self.limit.get((c, clos), 100) for clos in range(4)) for c in CPUS},
        )

    def _set_masks(self, number: int, rows: list[Any]) -> None:
        if self.refuses:
            raise PqosError("pqos_l3ca_set returned 1")
        cache = {10: 0, 11: 2}[number]
        self.mask |= {(cache, row.class_id): row.values for row in rows}

    def _set_limits(self, number: int, rows: list[Any]) -> None:
        cache = {20: 0, 21: 2}[number]
        self.limit |= {(cache, row.class_id): row.mb_max for row in rows}

    def _start(self, cores: list[int], events: list[str]) -> Any:
        assert events == ["l3_occup", "tmem_bw", "lmem_bw"]
        self.starts += 1
        if self.misplaces or self.fails:
            if self.misplaces:
                self.class_of |= dict.fromkeys(cores, 0)
            raise PqosError("pqos_mon_start returned 1")
        free = next(n for n in range(1, 99) if n not in self.rmid_of.values())
        self.rmid_of |= dict.fromkeys(cores, free)

        def stop() -> None:
            self.rmid_of |= dict.fromkeys(cores, 0)

        values = SimpleNamespace(llc=0, mbm_total_delta=0, mbm_local_delta=0)
        return SimpleNamespace(cores=cores, stop=stop, values=values)

    def _poll(self, handles: list[Any]) -> None:
        if self.fails:
            raise PqosError("pqos_mon_poll returned 1")
        for handle in handles:
            handle.values.llc = len(handle.cores) * 65536
            handle.values.mbm_total_delta = self.moved
            handle.values.mbm_local_delta = self.moved // 2
