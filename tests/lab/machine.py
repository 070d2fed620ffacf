"""The machines of the lab: one TOML file each, a table for each interface that needs to know."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

_FOLDER = Path(__file__).parent / "machines"
# What can become of a machine's PMUs: changes of its tables, by table. In a guest Linux looks for
# none outside the cores.
PMUS: Mapping[str, Mapping[str, Mapping[str, Any]]] = MappingProxyType(
    {
        "own": {},
        # Of a host whose kernel has not loaded the modules of PMUs outside the cores.
        "cores": {"perf": {"uncore": "none"}},
        # Of a guest: no PERF_METRICS. Up to Linux 6.13 sysfs shows its events all the same.
        "no-metrics": {"perf": {"uncore": "none", "metrics": False}},
        "hidden-metrics": {
            "perf": {"uncore": "none", "metrics": False, "metrics_shown": False},
        },
        # Of a kernel that does not know yet which events of the model need the frontend's register.
        "late-registers": {"perf": {"late_registers": False}},
        # Of a guest that has none at all; APERF and MPERF are not for guests either.
        "none": {
            "perf": {"pmu": "none", "uncore": "none", "msrs": ["tsc"], "nmi_watchdog": False},
        },
        # Of a model that neither this kernel nor nftop knows.
        "unknown": {
            "perf": {"pmu": "generic", "uncore": "generic"},
            "cpuinfo": {"name": "Intel(R) Xeon(R) 0000", "model": 254, "stepping": 0},
        },
        # Another vendor's, which only counters and /proc/cpuinfo say.
        "amd": {
            "perf": {"pmu": "amd", "uncore": "none"},
            "cpuinfo": {
                "vendor": "AuthenticAMD",
                "name": "AMD EPYC 7543 32-Core Processor",
                "family": 25,
                "model": 1,
                "stepping": 1,
            },
        },
    }
)


@dataclass(frozen=True, slots=True)
class Machine:
    """A virtual server.

    Attributes:
        name: as on the command line: `skx-4` (stepping 4), `skx-7`, `icx`.
        uarch: nftop's name for its microarchitecture, `SKX`; the tables that its counters follow.
        scenario: that it has unless told otherwise.
        tables: the rest of its file by interface: `cpuinfo`, `perf`, `resctrl`. Each is parsed by
            the code that serves that interface.
    """

    name: str
    uarch: str
    scenario: str
    tables: Mapping[str, Mapping[str, Any]]

    @property
    def cpuid(self) -> str:
        """As perf(1) names it and takes it from PERF_CPUID: `GenuineIntel-6-55-4`."""
        own = self.tables["cpuinfo"]
        return f"{vendor(self)}-{own['family']}-{own['model']:X}-{own['stepping']:X}"


def vendor(machine: Machine) -> str:
    """As CPUID has it: `GenuineIntel`."""
    return str(machine.tables["cpuinfo"].get("vendor", "GenuineIntel"))


def names() -> tuple[str, ...]:
    """The machines there are, sorted."""
    return tuple(sorted(path.stem for path in _FOLDER.glob("*.toml")))


def load(name: str) -> Machine:
    """The machine called `name`; ValueError if there is none."""
    if name not in names():
        raise ValueError(f"no machine is called {name!r}; there are {', '.join(names())}")
    raw = tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    return Machine(name, raw.pop("uarch"), raw.pop("scenario", "default"), raw)


def with_tables(machine: Machine, changes: Mapping[str, Mapping[str, Any]]) -> Machine:
    """The machine with some values of its tables changed, as `PMUS` has them."""
    changed = {name: {**machine.tables[name], **values} for name, values in changes.items()}
    return replace(machine, tables={**machine.tables, **changed})
