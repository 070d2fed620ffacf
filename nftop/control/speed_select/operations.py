"""Facts of SST, and a change as single calls of the tool: fixed words and checked numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nftop.model.change import Cell, Change, State
from nftop.model.struct import dataclass, field
from nftop.sources.cpufreq.isst import PROGRAM, Domain, at_once

ON, OFF = "on", "off"
_VERBS: Mapping[str, str] = {ON: "enable", OFF: "disable"}
CLASSES = ("0", "1", "2", "3")


@dataclass(frozen=True, slots=True)
class CpuLocation:
    package: int
    die: int
    siblings: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class SstFacts:
    """SST of a host.

    Attributes:
        model: of the CPU, as the tool reports it; None if not reported.
        domains: of the tool, ascending.
        places: of every online CPU.
        base_khz: base frequencies of CPUs that the kernel reports.
        pinned_khz: limits of CPUs whose two limits are the same.
        turbo: whether turbo is allowed; None if unknown.
    """

    model: int | None
    domains: tuple[Domain, ...]
    places: Mapping[int, CpuLocation]
    base_khz: Mapping[int, int] = field(default_factory=dict)
    pinned_khz: Mapping[int, int] = field(default_factory=dict)
    turbo: bool | None = None

    def of(self, package: int, die: int) -> tuple[Domain, ...]:
        return tuple(row for row in self.domains if (row.package, row.die) == (package, die))

    def cpus(self, domain: Domain) -> tuple[int, ...]:
        """Online CPUs of a power domain; empty if unknown."""
        if len(self.of(domain.package, domain.die)) == 1:
            die = (domain.package, domain.die)
            here = [cpu for cpu, item in self.places.items() if (item.package, item.die) == die]
            if here:
                return tuple(sorted(here))
        return tuple(sorted(cpu for cpu in domain.cpus if cpu in self.places))

    def with_siblings(self, cpus: Iterable[int]) -> tuple[int, ...]:
        requested = set(cpus)
        others = {other for cpu in requested & self.places.keys()
                  for other in self.places[cpu].siblings}  # fmt: skip
        return tuple(sorted(requested | others))


def bf_cell(domain: Domain) -> Cell:
    """Cell: whether SST-BF is on in a power domain."""
    return Cell("bf", "", f"{domain.die}.{domain.domain}@{domain.level}", domain.package)


def bf_state(domains: Iterable[Domain]) -> dict[Cell, str]:
    """State of SST-BF in the power domains that report it."""
    return {bf_cell(row): ON if row.bf else OFF for row in domains if row.bf is not None}


def class_cell(cpu: int) -> Cell:
    """Cell: the SST-CP class of a CPU."""
    return Cell("cp_class", "", "", cpu)


@dataclass(frozen=True, slots=True)
class IsstCall:
    """One call, which sets one power domain or several CPUs to a value."""

    cells: tuple[Cell, ...]
    value: str

    def delta(self, state: State) -> Mapping[Cell, str | None]:  # noqa: ARG002 - as `backend.BackendStep`
        return dict.fromkeys(self.cells, self.value)

    @property
    def is_bf(self) -> bool:
        return self.cells[0].kind == "bf"

    @property
    def is_sound(self) -> bool:
        kinds = {(cell.kind, cell.number >= 0) for cell in self.cells}
        if self.is_bf:
            return len(self.cells) == 1 and kinds == {("bf", True)} and self.value in _VERBS
        return kinds == {("cp_class", True)} and self.value in CLASSES

    def words(self, cpu: int | None) -> tuple[str, ...]:
        """Arguments of the tool; `cpu` is one of the power domain."""
        if self.is_bf:
            return ("-f", "json", "-c", f"{cpu:d}", "base-freq", _VERBS[self.value])
        some = ",".join(f"{cell.number:d}" for cell in self.cells)
        return ("-f", "json", "-c", some, "core-power", "assoc", "--clos", self.value)

    @property
    def shell(self) -> str:
        """Shell command; for a power domain with any of its CPUs."""
        if self.is_bf:
            verb, package = _VERBS.get(self.value, ""), self.cells[0].number
            return f"{PROGRAM} -c CPU base-freq {verb}  # CPU: one of package {package}"
        return f"{PROGRAM} {' '.join(self.words(None)[2:])}"


def calls(state: State, changes: Iterable[Change]) -> tuple[IsstCall, ...]:
    """Calls for changes of a state: classes by number, then SST-BF."""
    wanted = [change for change in changes if change.new is not None and change.cell in state
              and state[change.cell] != change.new]  # fmt: skip
    classes: dict[str, list[int]] = {}
    for item in wanted:
        if item.cell.kind == "cp_class":
            classes.setdefault(str(item.new), []).append(item.cell.number)
    return (
        *(
            IsstCall(tuple(class_cell(int(cpu)) for cpu in some.split(",")), value)
            for value, cpus in sorted(classes.items())
            for some in at_once(sorted(cpus))
        ),
        *(IsstCall((item.cell,), str(item.new)) for item in wanted if item.cell.kind == "bf"),
    )
