"""A change of SST as single calls of the tool: fixed words, and numbers of our own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nftop.control.speed_select.state import OFF, ON
from nftop.model.change import Cell, Change, State
from nftop.sources.cpufreq.isst import PROGRAM, at_once

_VERBS: Mapping[str, str] = {ON: "enable", OFF: "disable"}
CLASSES = ("0", "1", "2", "3")


@dataclass(frozen=True, slots=True)
class Call:
    """One call, which gives all these cells this value: of one power domain, or CPUs."""

    cells: tuple[Cell, ...]
    value: str

    def delta(self, state: State) -> Mapping[Cell, str | None]:  # noqa: ARG002 - as `backend.Step`
        """What is different after it."""
        return dict.fromkeys(self.cells, self.value)

    @property
    def is_bf(self) -> bool:
        """Whether it is about SST-BF."""
        return self.cells[0].kind == "bf"

    @property
    def is_sound(self) -> bool:
        """Whether it is one that the tool may be called with at all."""
        kinds = {(cell.kind, cell.number >= 0) for cell in self.cells}
        if self.is_bf:
            return len(self.cells) == 1 and kinds == {("bf", True)} and self.value in _VERBS
        return kinds == {("cp_class", True)} and self.value in CLASSES

    def words(self, cpu: int | None) -> tuple[str, ...]:
        """For the tool; `cpu` is one of the power domain."""
        if self.is_bf:
            return ("-f", "json", "-c", f"{cpu:d}", "base-freq", _VERBS[self.value])
        some = ",".join(f"{cell.number:d}" for cell in self.cells)
        return ("-f", "json", "-c", some, "core-power", "assoc", "--clos", self.value)

    @property
    def shell(self) -> str:
        """As an operator would type it; of a power domain any CPU does."""
        if self.is_bf:
            verb = _VERBS.get(self.value, "")
            return (
                f"{PROGRAM} -c CPU base-freq {verb}  # CPU: one of package {self.cells[0].number}"
            )
        return f"{PROGRAM} {' '.join(self.words(None)[2:])}"


def calls(state: State, changes: Iterable[Change]) -> tuple[Call, ...]:
    """The calls that take a state through changes: classes by their number, then SST-BF."""
    wanted = [change for change in changes if change.new is not None and change.cell in state
              and state[change.cell] != change.new]  # fmt: skip
    classes: dict[str, list[int]] = {}
    for item in wanted:
        if item.cell.kind == "cp_class":
            classes.setdefault(str(item.new), []).append(item.cell.number)
    found = []
    for value, cpus in sorted(classes.items()):
        for some in at_once(sorted(cpus)):
            cells = tuple(Cell("cp_class", "", "", int(cpu)) for cpu in some.split(","))
            found.append(Call(cells, value))
    found += [Call((entry.cell,), str(entry.new)) for entry in wanted if entry.cell.kind == "bf"]
    return tuple(found)
