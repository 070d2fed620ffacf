"""Who else sets frequencies or governors on this host, as far as names tell.

A name is a hint: whoever is called so may have been told to leave frequencies alone. Services that
set them once and end are known by being enabled.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from nftop.model.sst import Keeper
from nftop.sources.process.scan import process_names

# What operators call them, by the name of their process (the kernel keeps 15 characters). Sources:
# the projects' own unit files and container images.
PROCESSES: Mapping[str, str] = MappingProxyType(
    {
        "tuned": "tuned",
        "power-node-agen": "Kubernetes power manager",
        "nodeagent": "Kubernetes power manager",
        "nri-resource-po": "NRI resource policy",
        "cri-resmgr": "CRI Resource Manager",
        "power-profiles-": "power-profiles-daemon",
        "tuned-ppd": "tuned",
        "thermald": "thermald",
        "cpufreqd": "cpufreqd",
        "auto-cpufreq": "auto-cpufreq",
        "intel-speed-sel": "intel-speed-select",
        "dpdk-l3fwd-powe": "DPDK l3fwd-power",
        "vm_power_manage": "DPDK vm_power_manager",
    }
)
# Units of systemd and init scripts that set frequencies when the host starts.
SERVICES: Mapping[str, str] = MappingProxyType(
    {
        "cpupower.service": "cpupower",
        "cpufrequtils.service": "cpufrequtils",
        "tlp.service": "TLP",
        "intel-speed-select.service": "intel-speed-select",
    }
)
_WANTS = ("multi-user.target.wants", "basic.target.wants", "sysinit.target.wants")


def read_keepers(root: Path = Path("/")) -> tuple[Keeper, ...]:
    """Those that run or are enabled now, by name. What can't be read is not seen."""
    return (*_running(root), *_enabled(root))


def _running(root: Path) -> list[Keeper]:
    try:
        names = process_names(os.fspath(root / "proc"))
    except OSError:
        return []
    return [
        Keeper(PROCESSES[comm], f"process {comm}", pid) for pid, comm in names if comm in PROCESSES
    ]


def _enabled(root: Path) -> list[Keeper]:
    found: dict[str, Keeper] = {}
    for folder in _WANTS:
        for unit, name in SERVICES.items():
            if os.path.lexists(root / "etc/systemd/system" / folder / unit):
                found.setdefault(unit, Keeper(name, f"{unit} is enabled", None))
    return list(found.values())
