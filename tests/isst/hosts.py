"""A host of eight CPUs in two packages whose SST is the tests' tool, as a part of the gate."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nftop.control.cpufreq import cpufreq
from nftop.control.speed_select.backend import IsstCall, SpeedSelect
from nftop.model.missing import Missing, Reason
from nftop.sources.runtime.helper import ProgramOutput
from tests.control.hosts import Death
from tests.control.sst_trees import NOMINAL, make_tree
from tests.isst.tool import NAME, Domain, State, Tool, banner, siblings_of

HUNG = f"{NAME} did not end within 10 s"


@dataclass(frozen=True, slots=True)
class FakeSpeedSelect(SpeedSelect):
    """The real part, of a process that may be killed."""

    death: Death = field(default_factory=lambda: Death(-1, late=False))

    def do(self, step: IsstCall) -> None:
        self.death.surroundings(lambda: SpeedSelect.do(self, step))

    @contextlib.contextmanager
    def lock(self, limit_s: float) -> Iterator[None]:
        yield


def make_tool(root: Path, *, split: bool = False) -> Tool:
    """CPU 0, 1, 4, 5 are package 0, and 1 and 5 a favoured core of it; `split` by power domains."""
    make_tree(root, bases=(NOMINAL,) * 8)
    cpus = root / "sys/devices/system/cpu"
    for cpu in (2, 3, 6, 7):
        (cpus / f"cpu{cpu}/topology/physical_package_id").write_text("1\n")
    if split:
        domains = [
            Domain(0, [0, 4], [], domain=0),
            Domain(0, [1, 5], [1, 5], domain=1),
            Domain(1, [2, 3, 6, 7], [2, 6], domain=0),
        ]
    else:
        domains = [Domain(0, [0, 1, 4, 5], [1, 5]), Domain(1, [2, 3, 6, 7], [2, 6])]
    state = State(domains, dict.fromkeys(range(4), 3))
    return Tool(state, siblings_of(range(8), 4), root / cpufreq.FOLDER)


def component(root: Path, tool: Tool, death: Death | None = None) -> FakeSpeedSelect:
    """The part of that host, with the tool in this process."""

    def ask(words: Sequence[str]) -> ProgramOutput | Missing:
        end, message = tool.call(words)
        if end == "hang":
            return Missing(Reason.ERROR, HUNG)
        text = "" if end == "die" else json.dumps(message, indent=2)
        return ProgramOutput(-9 if end == "die" else 0, banner(tool.state.model), text)

    return FakeSpeedSelect(ask, root, root, 0.0, death=death or Death(-1, late=False))


def base_mhz(tool: Tool) -> list[int]:
    """Of every CPU, as the kernel has it."""
    assert tool.tree is not None
    files = [tool.tree / f"policy{cpu}/base_frequency" for cpu in range(8)]
    return [int(file.read_text()) // 1000 for file in files]
