"""What findings are about: CPUs, network functions, packages, cache classes, the host."""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from nftop.model.ids import Cpu, Package, format_cpu_list
from nftop.model.struct import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class Subject:
    """What a finding is about; equal by `kind` and `key`, whatever its name is now.

    Attributes:
        key: CPUs, `NfRow.key`, the number of a package, a class with its cache.
        name: `12`, `12,56` (one core), `vpp`, `0`, `vpp, L3 0` (untrusted text: names of groups
            and network functions); "" of the host.
        cpus: of a CPU or a core; empty of others. package: of a package; None of others.
    """

    kind: Literal["cpu", "nf", "package", "class", "host"]
    key: str = ""
    name: str = ""
    cpus: tuple[Cpu, ...] = ()
    package: Package | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Subject):
            return NotImplemented
        return self.key == other.key and self.kind == other.kind

    def __hash__(self) -> int:
        return hash((self.kind, self.key))

    @property
    def where(self) -> str:
        """As texts and exports name it: `cpu 12`, `nf vpp`, `host` (untrusted text)."""
        return f"{self.kind} {self.name}" if self.name else self.kind


@lru_cache(maxsize=4096)  # the same objects in every tick compare fast
def cpu_subject(*cpus: Cpu) -> Subject:
    """A CPU, or a core by its CPUs."""
    listed = format_cpu_list(cpus)
    return Subject("cpu", listed, listed, cpus)


HOST = Subject("host")


def package_subject(package: Package) -> Subject:
    return Subject("package", str(package), str(package), package=package)
