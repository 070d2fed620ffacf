"""All of a host: its policies, intel_pstate's own files, the limits of each package's mesh."""

from __future__ import annotations

import errno
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nftop.model.topology import CpuInfo, Topology
from tests.lab.cpufreq.policy import EPPS, Policy
from tests.lab.tree import failed

# What a lab's cpufreq may be. `own` is intel_pstate in active mode; `no-base` the same without HWP,
# which has neither base_frequency nor energy_performance_preference.
KINDS = ("own", "no-base", "acpi", "none")
PSTATE_GOVERNORS = ("performance", "powersave")
ACPI_GOVERNORS = (
    "conservative", "ondemand", "userspace", "powersave", "performance", "schedutil",
)  # fmt: skip
_STEP_KHZ = 100_000  # of the multiplier, of cores and mesh
_MOST_RATIO = 0x7F
# acpi-cpufreq's turbo is one more state, named 1 MHz above the one below.
_ACPI_TURBO_KHZ = 1_000


@dataclass(slots=True)
class Mesh:
    """One die's uncore frequency limits; kHz."""

    package: int
    die: int
    min_khz: int
    max_khz: int
    initial_min_khz: int
    initial_max_khz: int

    def ask(self, which: str, text: str) -> None:
        """Write `min` or `max`: whole multiples only; what can't be is passed over in silence."""
        if not re.fullmatch(r"\+?\d{1,10}\n?", text):
            raise failed(errno.EINVAL)
        ratio = int(text) // _STEP_KHZ
        if 0 < ratio <= _MOST_RATIO:
            setattr(self, f"{which}_khz", ratio * _STEP_KHZ)


@dataclass(slots=True)
class Cpufreq:
    """Attributes: policies by number; `pstate`: intel_pstate drives them; `hwp`: by HWP."""

    policies: Mapping[int, Policy]
    meshes: tuple[Mesh, ...]
    pstate: bool
    hwp: bool
    hardware_min_khz: int
    hardware_max_khz: int
    base_khz: int
    no_turbo: int = 0
    min_percent: int = 0
    max_percent: int = 100

    def set_no_turbo(self, text: str) -> None:
        self.no_turbo = min(max(_whole(text), 0), 1)

    def set_percent(self, which: str, text: str) -> None:
        """min_perf_pct and max_perf_pct: neither passes the other, nor the least there is."""
        requested = _whole(text)
        if which == "max":
            self.max_percent = min(max(requested, self.min_percent), 100)
        else:
            self.min_percent = min(max(requested, self.least_percent), self.max_percent)

    @property
    def least_percent(self) -> int:
        return math.ceil(self.hardware_min_khz * 100 / self.hardware_max_khz)

    def set_status(self, text: str) -> None:
        if text.strip() != "active":
            raise failed(errno.EBUSY if text.strip() in ("passive", "off") else errno.EINVAL)

    @property
    def turbo_percent(self) -> int:
        """turbo_pct: the share of states that are turbo."""
        states = self.state_count
        usual = (self.base_khz - self.hardware_min_khz) // _STEP_KHZ + 1
        return 100 - usual * 100 // states

    @property
    def state_count(self) -> int:
        return (self.hardware_max_khz - self.hardware_min_khz) // _STEP_KHZ + 1


def cpufreq_of(table: Mapping[str, Any], topology: Topology, kind: str) -> Cpufreq | None:
    """A host's cpufreq; None where `kind` says that it has none.

    Args:
        table: `cpufreq` of the machine: `min_khz`, `max_khz`, `base_khz`, `hwp`, `mesh_khz`; with
            SST-BF `high` (cores of each 20 of a package), `high_khz` and `low_khz`.
        topology: with every CPU online.
        kind: one of `KINDS`.
    """
    if kind == "none":
        return None
    low, high = table["mesh_khz"]
    meshes = tuple(Mesh(package, 0, low, high, low, high) for package in topology.packages)
    pstate = kind != "acpi"
    host = Cpufreq(
        policies={},
        meshes=meshes,
        pstate=pstate,
        hwp=pstate and table["hwp"] and kind == "own",
        hardware_min_khz=table["min_khz"],
        hardware_max_khz=table["max_khz"] if pstate else table["base_khz"] + _ACPI_TURBO_KHZ,
        base_khz=table["base_khz"],
    )
    host.min_percent = host.least_percent
    shared = [(info,) for info in topology.cpus] if pstate else _cores(topology)
    created = (_policy(host, table, topology, infos) for infos in shared)
    host.policies = {policy.number: policy for policy in created}
    return host


def _cores(topology: Topology) -> list[tuple[CpuInfo, ...]]:
    """acpi-cpufreq's policies: threads of a core share their frequency."""
    result: dict[int | None, list[CpuInfo]] = {}
    for info in topology.cpus:
        result.setdefault(info.core, []).append(info)
    return [tuple(value) for value in result.values()]


def _policy(
    host: Cpufreq, table: Mapping[str, Any], topology: Topology, infos: tuple[CpuInfo, ...]
) -> Policy:
    base = _base_khz(table, topology, infos[0])
    steps = range(host.hardware_min_khz, host.base_khz + 1, _STEP_KHZ)
    return Policy(
        number=infos[0].cpu,
        cpus=tuple(info.cpu for info in infos),
        driver="intel_pstate" if host.pstate else "acpi-cpufreq",
        governors=PSTATE_GOVERNORS if host.pstate else ACPI_GOVERNORS,
        governor="powersave" if host.pstate else "ondemand",
        hardware_min_khz=host.hardware_min_khz,
        hardware_max_khz=host.hardware_max_khz,
        base_khz=base if host.hwp else None,
        table_khz=() if host.pstate else (*steps, host.hardware_max_khz),
        ceiling_khz=lambda: base if host.pstate and host.no_turbo else host.hardware_max_khz,
        epp=EPPS["balance_performance"] if host.hwp else None,
    )


def _base_khz(table: Mapping[str, Any], topology: Topology, info: CpuInfo) -> int:
    if "high" not in table:
        return int(table["base_khz"])
    first = min(cpu.core or 0 for cpu in topology.cpus if cpu.package == info.package)
    of_high = ((info.core or 0) - first) % table["of"] in table["high"]
    return int(table["high_khz"] if of_high else table["low_khz"])


def _whole(text: str) -> int:
    """sscanf("%u") of a small number."""
    hit = re.match(r"\s*(\d{1,9})", text)
    if hit is None:
        raise failed(errno.EINVAL)
    return int(hit[1])


def is_active(policy: Policy, online: Callable[[], frozenset[int]]) -> bool:
    """Whether a policy has a CPU that is online."""
    return bool(online() & frozenset(policy.cpus))
