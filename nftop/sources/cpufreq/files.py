"""What sysfs says of frequencies, by cost: some of these files interrupt the CPU they are of.

Cached by the kernel: limits, governor, driver, and from Linux 5.10 on the preference. Read from
registers, by an interrupt of that CPU: base_frequency (intel_pstate: HWP_CAPABILITIES or _CPC), the
preference before 5.10, and the limits of the mesh (of one CPU of the die, until TPMI).

Sources: drivers/cpufreq/cpufreq.c and intel_pstate.c, drivers/platform/x86/intel/uncore-frequency/;
Documentation/admin-guide/pm/{cpufreq,intel_pstate,intel_uncore_frequency_scaling}.rst.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from nftop.model.ids import Cpu, Package
from nftop.model.sst import CpuFrequency, Keeper, PstateDriver, UncoreLimits
from nftop.model.struct import dataclass
from nftop.sources.host.sysfs import SysTree
from nftop.sources.process.scan import process_names

_POLICY = re.compile(r"policy(\d{1,6})")
_DIE = re.compile(r"package_(\d{1,4})_die_(\d{1,4})")
_RELEASE = re.compile(r"(\d+)\.(\d+)")
_KHZ = 1000
_WORD_BYTES = 64
_CACHED_EPP_FROM = (5, 10)


@dataclass(frozen=True, slots=True)
class FrequencyLimits:
    """Values that may change at any time and cost no interrupt; fields as in `CpuFrequency`."""

    governor: str | None
    min_hz: int | None
    max_hz: int | None


class FrequencyFiles:
    """/sys/devices/system/cpu of a host. Nothing raises; invalid contents are noted."""

    def __init__(self, root: Path) -> None:
        self._base = os.fspath(root / "sys/devices/system/cpu")
        self._root = root
        self.tree = SysTree(Path(self._base))

    def policy_of(self, cpu: Cpu) -> int | None:
        """Number of its policy; None if it has none."""
        try:
            target = Path(self._base, f"cpu{cpu}/cpufreq").readlink()
        except FileNotFoundError:
            return None
        except OSError:  # no link: a folder of its own, as before Linux 4.3
            return cpu
        hit = _POLICY.fullmatch(target.name)
        return int(hit[1]) if hit else cpu

    def settings(self, cpu: Cpu, policy: int) -> CpuFrequency | None:
        """Settings of a policy, from the files of one CPU; None if not in use (CPUs offline)."""
        at = f"cpu{cpu}/cpufreq"
        driver = self._word(f"{at}/scaling_driver", cpu)
        high = self._hz(f"{at}/cpuinfo_max_freq", cpu)
        if driver is None and high is None:
            return None
        words = self._words(f"{at}/affected_cpus", cpu)
        return CpuFrequency(
            cpu=cpu,
            policy=policy,
            together=tuple(Cpu(int(word)) for word in words if word.isdecimal()) or (cpu,),
            driver=driver,
            governor=None,
            governors=self._words(f"{at}/scaling_available_governors", cpu),
            epp=None,
            epps=self._words(f"{at}/energy_performance_available_preferences", cpu),
            min_hz=None,
            max_hz=None,
            hardware_min_hz=self._hz(f"{at}/cpuinfo_min_freq", cpu),
            hardware_max_hz=high,
            base_hz=None,
        )

    def limits(self, cpu: Cpu) -> FrequencyLimits:
        at = f"cpu{cpu}/cpufreq"
        return FrequencyLimits(
            self._word(f"{at}/scaling_governor", cpu),
            self._hz(f"{at}/scaling_min_freq", cpu),
            self._hz(f"{at}/scaling_max_freq", cpu),
        )

    def epp(self, cpu: Cpu) -> str | None:
        return self._word(f"cpu{cpu}/cpufreq/energy_performance_preference", cpu)

    def base_hz(self, cpu: Cpu) -> int | None:
        return self._hz(f"cpu{cpu}/cpufreq/base_frequency", cpu)

    @property
    def epp_is_cached(self) -> bool:
        """Whether reading the preference interrupts no CPU."""
        release = SysTree(self._root / "proc").text("sys/kernel/osrelease") or ""
        hit = _RELEASE.match(release)
        return hit is not None and (int(hit[1]), int(hit[2])) >= _CACHED_EPP_FROM

    @property
    def hybrid(self) -> bool:
        """Whether the CPU has cores of two kinds."""
        return bool(SysTree(self._root / "sys/devices").text("cpu_atom/cpus"))

    def pstate(self) -> PstateDriver | None:
        status = self._word("intel_pstate/status", None)
        if status is None:
            return None
        no_turbo = self.tree.number("intel_pstate/no_turbo")
        return PstateDriver(
            status=status,
            turbo=None if no_turbo is None else no_turbo == 0,
            min_percent=self.tree.number("intel_pstate/min_perf_pct"),
            max_percent=self.tree.number("intel_pstate/max_perf_pct"),
        )

    def uncore(self) -> tuple[UncoreLimits, ...]:
        """By package and die."""
        limits = []
        folder = "intel_uncore_frequency"
        for hit in filter(None, map(_DIE.fullmatch, self.tree.names(folder))):
            names = ("min_freq_khz", "max_freq_khz", "initial_min_freq_khz", "initial_max_freq_khz")
            values = (self._hz(f"{folder}/{hit[0]}/{name}", None) for name in names)
            limits.append(UncoreLimits(Package(int(hit[1])), int(hit[2]), *values))
        return tuple(sorted(limits, key=lambda item: (item.package, item.die)))

    def _hz(self, path: str, cpu: Cpu | None) -> int | None:
        khz = self.tree.number(path, cpu)
        return khz * _KHZ if khz else None

    def _word(self, path: str, cpu: Cpu | None) -> str | None:
        words = (self.tree.text(path, _WORD_BYTES, cpu) or "").split()
        return words[0] if words else None

    def _words(self, path: str, cpu: Cpu) -> tuple[str, ...]:
        return tuple((self.tree.text(path, cpu=cpu) or "").split())


# Programs that may set frequencies, by process name (15 characters), and services that set them
# once at the start. A name is only a hint: a program may be configured to leave frequencies alone.
# Sources: the projects' unit files and container images.
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
    """Programs that run and services that are enabled now. Unreadable files are ignored."""
    names: list[tuple[int, str]] = []
    with contextlib.suppress(OSError):
        names = process_names(os.fspath(root / "proc"))
    running = [
        Keeper(PROCESSES[comm], f"process {comm}", pid) for pid, comm in names if comm in PROCESSES
    ]
    units = root / "etc/systemd/system"
    enabled = {
        unit: Keeper(name, f"{unit} is enabled", None)
        for folder in _WANTS
        for unit, name in SERVICES.items()
        if os.path.lexists(units / folder / unit)
    }
    return (*running, *enabled.values())
