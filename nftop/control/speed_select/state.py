"""What the tool and the kernel say of a host's SST: what a proposal is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from nftop.model.change import Cell
from nftop.sources.cpufreq.isst import Domain

ON, OFF = "on", "off"


@dataclass(frozen=True, slots=True)
class Place:
    """Where an online CPU is, as the kernel says."""

    package: int
    die: int
    siblings: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Told:
    """Of one host.

    Attributes:
        model: the CPU's, as the tool has it; None where it does not say.
        domains: of the tool, ascending.
        places: of every online CPU.
        base_khz: the kernel's base frequency of each CPU, where it tells one.
        pinned_khz: of CPUs whose two limits are the same, those.
        turbo: whether turbo is allowed; None where not told.
    """

    model: int | None
    domains: tuple[Domain, ...]
    places: Mapping[int, Place]
    base_khz: Mapping[int, int] = field(default_factory=dict)
    pinned_khz: Mapping[int, int] = field(default_factory=dict)
    turbo: bool | None = None

    def of(self, package: int, die: int) -> tuple[Domain, ...]:
        """The power domains of a die."""
        return tuple(
            domain for domain in self.domains if (domain.package, domain.die) == (package, die)
        )

    def cpus(self, domain: Domain) -> tuple[int, ...]:
        """Online CPUs of a power domain; empty where nobody tells which they are."""
        if len(self.of(domain.package, domain.die)) == 1:
            die = (domain.package, domain.die)
            here = [cpu for cpu, item in self.places.items() if (item.package, item.die) == die]
            if here:
                return tuple(sorted(here))
        return tuple(sorted(cpu for cpu in domain.cpus if cpu in self.places))

    def with_siblings(self, cpus: Iterable[int]) -> tuple[int, ...]:
        """CPUs and the other threads of their cores."""
        asked = set(cpus)
        others = {other for cpu in asked & self.places.keys()
                  for other in self.places[cpu].siblings}  # fmt: skip
        return tuple(sorted(asked | others))


def bf_cell(domain: Domain) -> Cell:
    """Whether SST-BF is on there."""
    return Cell("bf", "", f"{domain.die}.{domain.domain}@{domain.level}", domain.package)


def bf_state(domains: Iterable[Domain]) -> dict[Cell, str]:
    """Of those that tell it."""
    return {
        bf_cell(domain): ON if domain.bf else OFF for domain in domains if domain.bf is not None
    }


def class_cell(cpu: int) -> Cell:
    """The SST-CP class of a CPU."""
    return Cell("cp_class", "", "", cpu)
