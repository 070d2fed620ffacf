"""Source `cpufreq`: frequency limits of each CPU, and Intel Speed Select (SST).

- Limits are read back: as in effect after the kernel's clamping, not as requested. A clamped
  request returns when the clamp goes: raising `scaling_max_freq` may raise `scaling_min_freq`.
- SST-BF: high-priority cores are fixed in silicon; `priorities` finds them by base frequencies
  that differ within a package.
- SST-CP classes 0 to 3 are not resctrl's: say "SST-CP class".
- `Keeper`: another program that sets frequencies here, named before anything is changed.

Frequencies are integers in Hz; the kernel's files have kHz.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Literal, TypeAlias

from nftop.model.ids import Cpu, Package, format_cpu_list
from nftop.model.missing import Missing, Reason
from nftop.model.struct import dataclass

Priority: TypeAlias = Literal["high", "low"]
# Whether a feature of SST is on; None: not reported by this tool or platform.
Switch: TypeAlias = bool | None

NOT_READ = Missing(Reason.SOURCE, "no source reports frequencies here")


@dataclass(frozen=True, slots=True)
class CpuFrequency:
    """cpufreq of one online CPU; None if the driver has no such file.

    Attributes:
        policy: number of its policy, `policyN`; one policy may have several CPUs (acpi-cpufreq).
        together: online CPUs of the policy (`affected_cpus`), itself included.
        driver: `intel_pstate`, `intel_cpufreq` (its passive mode), `acpi-cpufreq`, ...
        governor, governors: current and available ones. Untrusted text.
        epp, epps: energy_performance_preference likewise; raw numbers are decimal texts.
        min_hz, max_hz: limits in effect (`scaling_min_freq`, `scaling_max_freq`).
        hardware_min_hz, hardware_max_hz: `cpuinfo_min_freq`, `cpuinfo_max_freq`.
        base_hz: the guaranteed frequency (`base_frequency`).
    """

    cpu: Cpu
    policy: int
    together: tuple[Cpu, ...]
    driver: str | None
    governor: str | None
    governors: tuple[str, ...]
    epp: str | None
    epps: tuple[str, ...]
    min_hz: int | None
    max_hz: int | None
    hardware_min_hz: int | None
    hardware_max_hz: int | None
    base_hz: int | None


@dataclass(frozen=True, slots=True)
class PstateDriver:
    """State of intel_pstate.

    Attributes:
        status: `active`, `passive` or `off`.
        turbo: whether turbo is allowed (`no_turbo` is 0); None if unknown.
        min_percent, max_percent: `min_perf_pct`, `max_perf_pct`, limits of all CPUs in percent of
            the highest frequency.
    """

    status: str
    turbo: bool | None
    min_percent: int | None
    max_percent: int | None


@dataclass(frozen=True, slots=True)
class UncoreLimits:
    """Mesh frequency limits of one die (intel_uncore_frequency); None if there is no such file.

    `initial_*`: at the time the driver was loaded.
    """

    package: Package
    die: int
    min_hz: int | None
    max_hz: int | None
    initial_min_hz: int | None
    initial_max_hz: int | None


@dataclass(frozen=True, slots=True)
class SstPackage:
    """SST of one package or die, from intel-speed-select.

    Attributes:
        level: current SST-PP level; None if there are none.
        bf, tf, cp: whether SST-BF, SST-TF and SST-CP are on; None if unknown.
        bf_supported, tf_supported, cp_supported: the platform has them at this level.
        bf_high: high-priority CPUs.
        bf_high_hz, bf_low_hz: base frequencies of these and of the other CPUs with SST-BF on.
    """

    package: Package
    die: int
    level: int | None
    bf: Switch
    tf: Switch
    cp: Switch
    bf_supported: Switch
    tf_supported: Switch
    cp_supported: Switch
    bf_high: tuple[Cpu, ...]
    bf_high_hz: int | None
    bf_low_hz: int | None

    @property
    def can_switch_bf(self) -> bool:
        """Whether the tool can; on Cascade Lake, without SST-CP, only firmware can."""
        return bool(self.bf_supported and self.cp_supported and self.bf is not None)


@dataclass(frozen=True, slots=True)
class SstState:
    """Output of intel-speed-select.

    Attributes:
        packages: ascending by package and die.
        cp_class: SST-CP class of each CPU; empty if SST-CP is off or unknown.
        read_at_ns: CLOCK_MONOTONIC when it was read, which is rarely.
    """

    packages: tuple[SstPackage, ...]
    cp_class: Mapping[int, int]
    read_at_ns: int


@dataclass(frozen=True, slots=True)
class Keeper:
    """Another program that sets frequencies or governors here.

    Attributes:
        name: its common name, as `tuned`.
        seen: how it was detected, with its process name (untrusted text).
        pid: its process; None if it is a service that has ended.
    """

    name: str
    seen: str
    pid: int | None


@dataclass(frozen=True, slots=True)
class CpuSetting:
    """Frequency settings of one CPU, or why they are unknown.

    Attributes:
        priority: its kind of core under SST-BF.
        driver, governor, epp: as in `CpuFrequency`; untrusted text.
        cp_class: its SST-CP class.
        together: other CPUs of the same policy.
    """

    priority: Priority | Missing
    driver: str | Missing
    governor: str | Missing
    epp: str | Missing
    cp_class: int | Missing
    together: tuple[Cpu, ...] = ()


@dataclass(frozen=True)
class CpufreqTable:
    """Source `cpufreq`.

    Attributes:
        cpus: one row per online CPU with a policy, ascending.
        without: online CPUs without one.
        pstate: None if intel_pstate is not loaded.
        uncore: by package and die; empty if the driver is not loaded.
        sst: output of intel-speed-select, or why there is none.
        keepers: other programs that set frequencies here.
        hybrid: core types differ, and so do base frequencies without SST-BF.
        base_read_at_ns: CLOCK_MONOTONIC when all base frequencies and uncore limits were read:
            rarely, since the kernel interrupts the CPU for each. CPUs whose limits changed may be
            newer.
        notes: what could not be read, sentences.
    """

    cpus: tuple[CpuFrequency, ...]
    without: tuple[Cpu, ...]
    pstate: PstateDriver | None
    uncore: tuple[UncoreLimits, ...]
    sst: SstState | Missing
    keepers: tuple[Keeper, ...]
    hybrid: bool
    base_read_at_ns: int
    notes: tuple[str, ...] = ()

    @cached_property
    def row_of(self) -> Mapping[int, CpuFrequency]:
        return {row.cpu: row for row in self.cpus}

    @property
    def gaps(self) -> str:
        """What could not be read, and other programs that set frequencies; "" if nothing."""
        without = f"CPU {format_cpu_list(self.without)} has no cpufreq" if self.without else ""
        names = ", ".join(dict.fromkeys(keeper.name for keeper in self.keepers))
        others = f"{names} may set frequencies here too" if names else ""
        return "; ".join(filter(None, (without, *self.notes, others)))


def priorities(base: Iterable[tuple[Cpu, Package | None, float | None]]) -> Mapping[Cpu, Priority]:
    """SST-BF priority of CPUs; none for packages whose CPUs have one base frequency.

    Args:
        base: CPU, package and base frequency (None if unknown).

    Source: SST-BF raises the kernel's `base_frequency` of some CPUs (intel/CommsPowerManagement,
    sst_bf.md).
    """
    packages: dict[Package, dict[Cpu, float]] = {}
    for cpu, package, hz in base:
        if package is not None and hz is not None:
            packages.setdefault(package, {})[cpu] = hz
    priorities: dict[Cpu, Priority] = {}
    for known in packages.values():
        most = max(known.values())
        if min(known.values()) < most:
            priorities |= {cpu: "high" if hz == most else "low" for cpu, hz in known.items()}
    return priorities
