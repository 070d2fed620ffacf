"""Frequency policies as the kernel reports them, and rows to show."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from nftop.model.change import Cell, Kind, State
from nftop.model.ids import Cpu, Package, format_cpu_list
from nftop.model.sst import Priority, priorities
from nftop.model.struct import dataclass, field


@dataclass(frozen=True, slots=True)
class Policy:
    """One policy in use: of one CPU, or of several with a common frequency.

    Attributes:
        number: `policyN`.
        cpus: all of them, offline ones included (`related_cpus`).
        driver: as `scaling_driver` has it.
        governors: the available ones.
        least_khz, most_khz: the hardware's limits (`cpuinfo_*_freq`).
        base_khz: the guaranteed frequency (`base_frequency`); None if not reported.
    """

    number: int
    cpus: tuple[int, ...]
    driver: str
    governors: tuple[str, ...]
    least_khz: int
    most_khz: int
    base_khz: int | None

    @property
    def name(self) -> str:
        """Its CPUs as in its cells."""
        return format_cpu_list(self.cpus)

    def cell(self, kind: Kind) -> Cell:
        return Cell(kind, "", self.name, self.number)

    def clamped(self, khz: int) -> int:
        return max(self.least_khz, min(khz, self.most_khz))


@dataclass(frozen=True, slots=True)
class CpufreqFacts:
    """Facts of a host.

    Attributes:
        policies: those in use, ascending by number.
        offline: CPUs that are present and offline.
        siblings: by CPU the others of its core.
        nominal_khz: the marked frequency (P1); None if unknown.
        why_none: why there are no policies.
        turbo: whether turbo is allowed; None if unknown.
        packages: by CPU; None if unknown.
        hybrid: cores are of different kinds, whose base frequencies differ without SST-BF.
    """

    policies: tuple[Policy, ...]
    offline: frozenset[int] = frozenset()
    siblings: Mapping[int, frozenset[int]] = field(default_factory=dict)
    nominal_khz: int | None = None
    why_none: str = ""
    turbo: bool | None = None
    packages: Mapping[int, Package | None] = field(default_factory=dict)
    hybrid: bool = False

    @property
    def priorities(self) -> Mapping[Cpu, Priority]:
        """Priority of online CPUs with SST-BF; empty if it is off."""
        return {} if self.hybrid else priorities(self._bases())

    def high_khz(self, cpu: int) -> int:
        """Highest base frequency in a CPU's package; 0 if unknown."""
        package = self.packages.get(cpu)
        return max((khz or 0 for _, other, khz in self._bases() if other == package), default=0)

    def _bases(self) -> Iterator[tuple[Cpu, Package | None, int | None]]:
        for policy in self.policies:
            for cpu in policy.cpus:
                if cpu not in self.offline:
                    yield Cpu(cpu), self.packages.get(cpu), policy.base_khz

    def of(self, cpu: int) -> Policy | None:
        return next((policy for policy in self.policies if cpu in policy.cpus), None)

    def with_siblings(self, cpus: Collection[int]) -> tuple[int, ...]:
        """These CPUs and their online siblings."""
        both = {*cpus, *(sibling for cpu in cpus for sibling in self.siblings.get(cpu, ()))}
        return tuple(sorted(both - (self.offline - set(cpus))))


@dataclass(frozen=True, slots=True)
class CoreSettings:
    """One online CPU; None: not reported by its driver.

    Attributes:
        siblings: the other threads of its core.
        priority: that of SST-BF; None if it is off.
        together: all CPUs of its frequency policy, if that has more than one.
        min_khz, max_khz: in effect; least_khz, most_khz: the hardware's.
        pinned: both limits are its base frequency.
    """

    cpu: int
    siblings: tuple[int, ...]
    together: tuple[int, ...]
    driver: str
    priority: Priority | None
    base_khz: int | None
    min_khz: int | None
    max_khz: int | None
    least_khz: int
    most_khz: int
    governor: str | None
    epp: str | None
    pinned: bool


def cores(facts: CpufreqFacts, state: State) -> tuple[CoreSettings, ...]:
    """A row for each online CPU that has a policy, ascending."""
    kinds = facts.priorities
    rows: list[CoreSettings] = []
    for policy in facts.policies:
        low, high = (state.get(policy.cell(kind)) for kind in ("min_khz", "max_khz"))
        base = policy.base_khz
        rows += [
            CoreSettings(
                cpu=cpu,
                siblings=tuple(sorted(facts.siblings.get(cpu, ()))),
                together=policy.cpus if len(policy.cpus) > 1 else (),
                driver=policy.driver,
                priority=kinds.get(Cpu(cpu)),
                base_khz=base,
                min_khz=None if low is None else int(low),
                max_khz=None if high is None else int(high),
                least_khz=policy.least_khz,
                most_khz=policy.most_khz,
                governor=state.get(policy.cell("governor")),
                epp=state.get(policy.cell("epp")),
                pinned=base is not None and low == high == str(base),
            )
            for cpu in policy.cpus
            if cpu not in facts.offline
        ]
    return tuple(sorted(rows, key=lambda row: row.cpu))
