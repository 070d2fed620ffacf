"""Hosts with cpufreq, as files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.sources.trees import put, unpack

CAPTURES = Path(__file__).parents[2] / "data/cpufreq"  # its README says whose they are
CPU = "sys/devices/system/cpu"
POLICY = {
    "affected_cpus": "0",
    "scaling_driver": "intel_pstate",
    "scaling_governor": "powersave",
    "scaling_available_governors": "performance powersave",
    "scaling_min_freq": "800000",
    "scaling_max_freq": "3900000",
    "cpuinfo_min_freq": "800000",
    "cpuinfo_max_freq": "3900000",
    "base_frequency": "2100000",
    "energy_performance_preference": "balance_performance",
    "energy_performance_available_preferences": "default performance balance_performance",
}


def captured(name: str, into: Path) -> Path:
    """The files of one capture, under `into`."""
    return unpack(CAPTURES / f"{name}.tar.xz", into)


def host(
    root: Path,
    cpus: int = 4,
    base_khz: Mapping[int, int] | None = None,
    release: str = "6.1.0-13-amd64",
) -> Path:
    """intel_pstate on a host whose CPUs have a policy each, some with another base frequency."""
    put(root, {f"{CPU}/online": f"0-{cpus - 1}", "proc/sys/kernel/osrelease": release})
    for cpu in range(cpus):
        base = str((base_khz or {}).get(cpu, 2_100_000))
        files = {**POLICY, "affected_cpus": str(cpu), "base_frequency": base}
        put(root / CPU / f"cpufreq/policy{cpu}", files)
        (root / CPU / f"cpu{cpu}").mkdir()
        (root / CPU / f"cpu{cpu}/cpufreq").symlink_to(f"../cpufreq/policy{cpu}")
    put(root / CPU / "intel_pstate", {"status": "active", "no_turbo": "0", "max_perf_pct": "100"})
    mesh = {"min_freq_khz": "1200000", "max_freq_khz": "2400000"}
    put(root / CPU / "intel_uncore_frequency/package_00_die_00", mesh)
    return root


def set_to(root: Path, cpu: int, **files: str) -> None:
    """Other contents of a CPU's files."""
    put(root / CPU / f"cpufreq/policy{cpu}", files)
