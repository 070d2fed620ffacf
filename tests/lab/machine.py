"""The machines of the lab: one TOML file each, a table for each interface that needs to know."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent / "machines"


@dataclass(frozen=True, slots=True)
class Machine:
    """A virtual server.

    Attributes:
        name: as on the command line: `skx-4` (stepping 4), `skx-7`, `icx`.
        uarch: nftop's name for its microarchitecture, `SKX`; the tables that its counters follow.
        tables: the rest of its file by interface: `cpuinfo`, `perf`, `resctrl`. Each is parsed by
            the code that serves that interface.
    """

    name: str
    uarch: str
    tables: Mapping[str, Mapping[str, Any]]

    @property
    def cpuid(self) -> str:
        """As perf(1) names it and takes it from PERF_CPUID: `GenuineIntel-6-55-4`."""
        own = self.tables["cpuinfo"]
        return f"GenuineIntel-{own['family']}-{own['model']:X}-{own['stepping']:X}"


def names() -> tuple[str, ...]:
    """The machines there are, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def load(name: str) -> Machine:
    """The machine called `name`; ValueError if there is none."""
    if name not in names():
        raise ValueError(f"no machine is called {name!r}; there are {', '.join(names())}")
    raw = tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    return Machine(name, raw.pop("uarch"), raw)
