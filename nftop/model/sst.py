"""Source `cpufreq`: how fast each CPU may run, and which cores the hardware favours (SST).

For who builds on this:

- `CpufreqTable` is the payload of source `cpufreq`; a sample has it as any other.
- Limits are as they are read back: what is in effect, after the kernel's clamping, and not what was
  asked for. A request that was clamped comes back when what clamped it goes: raising
  `scaling_max_freq` may raise `scaling_min_freq` with it.
- SST-BF: high-priority cores are fixed in silicon. `priorities` is the one place that tells them,
  from base frequencies that differ within a package.
- SST-CP has classes of its own, 0 to 3, which are never resctrl's: say "SST-CP class".
- `Keeper`: who else sets frequencies on this host, to be named before anything is changed.

All frequencies are Hz as whole numbers; the kernel's files have kHz, so `hz // 1000` is what it
shows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Literal, TypeAlias

from nftop.model.ids import Cpu, Package, format_cpu_list
from nftop.model.reading import Missing, Reason
from nftop.model.struct import dataclass

Priority: TypeAlias = Literal["high", "low"]
# Whether a feature of SST is on; None: this tool or platform does not tell.
Switch: TypeAlias = bool | None

NOT_READ = Missing(Reason.SOURCE, "no source tells of frequencies here")


@dataclass(frozen=True, slots=True)
class CpuFrequency:
    """What cpufreq tells of one online CPU. None: the driver has no such file.

    Attributes:
        policy: the number of its policy, `policyN`. One policy may be that of several CPUs
            (acpi-cpufreq): what is set for one is set for all of `together`.
        together: the online CPUs of its policy (`affected_cpus`), itself among them.
        driver: `intel_pstate`, `intel_cpufreq` (its passive mode), `acpi-cpufreq`, ...
        governor, governors: the one in use, and those it may be set to. Untrusted text.
        epp, epps: energy_performance_preference likewise; raw numbers are decimal texts.
        min_hz, max_hz: the limits in effect (`scaling_min_freq`, `scaling_max_freq`).
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
    """intel_pstate as a whole.

    Attributes:
        status: `active`, `passive` or `off`.
        turbo: whether turbo is allowed (`no_turbo` is 0); None where not told.
        min_percent, max_percent: `min_perf_pct`, `max_perf_pct`, limits over all CPUs, in percent
            of the highest frequency.
    """

    status: str
    turbo: bool | None
    min_percent: int | None
    max_percent: int | None


@dataclass(frozen=True, slots=True)
class UncoreLimits:
    """The limits of one die's mesh (intel_uncore_frequency); None where there is no such file.

    `initial_*` are those that were found when the driver was loaded.
    """

    package: Package
    die: int
    min_hz: int | None
    max_hz: int | None
    initial_min_hz: int | None
    initial_max_hz: int | None


@dataclass(frozen=True, slots=True)
class SstPackage:
    """SST of one package (one die of it, where there are more), as intel-speed-select tells it.

    Attributes:
        level: the SST-PP level in use; None where there are none.
        bf, tf, cp: SST-BF, SST-TF and SST-CP: on, off, or not told.
        bf_supported, tf_supported, cp_supported: the platform has them at this level.
        bf_high: the CPUs it names as high-priority.
        bf_high_hz, bf_low_hz: their and the others' base frequency with SST-BF.
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
        """Whether the tool can: not on Cascade Lake, where firmware does and there is no SST-CP."""
        return bool(self.bf_supported and self.cp_supported and self.bf is not None)


@dataclass(frozen=True, slots=True)
class SstState:
    """What intel-speed-select told.

    Attributes:
        packages: ascending by package and die.
        cp_class: SST-CP class of each CPU; empty where SST-CP is off or not told.
        read_at_ns: CLOCK_MONOTONIC when it was asked: seldom.
    """

    packages: tuple[SstPackage, ...]
    cp_class: Mapping[int, int]
    read_at_ns: int


@dataclass(frozen=True, slots=True)
class Keeper:
    """Somebody else who sets frequencies or governors here.

    Attributes:
        name: what operators call it: `tuned`.
        seen: as what it was seen, with the process' name as untrusted text.
        pid: the process; None where it is a service that has done its work and ended.
    """

    name: str
    seen: str
    pid: int | None


@dataclass(frozen=True, slots=True)
class CpuSetting:
    """What is set for one CPU, in a frame, or why that is unknown.

    Attributes:
        priority: which of SST-BF's two kinds of cores it is.
        driver, governor, epp: as in `CpuFrequency`; untrusted text.
        cp_class: its SST-CP class.
        together: other CPUs for which all this is set together with it.
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
        cpus: one row for each online CPU that has a policy, ascending.
        without: online CPUs that have none.
        pstate: None where intel_pstate is not loaded.
        uncore: by package and die; empty where the driver is not loaded.
        sst: what intel-speed-select told, or why nothing.
        keepers: who else sets frequencies here.
        hybrid: cores are of different kinds, whose base frequencies differ without SST-BF.
        base_read_at_ns: CLOCK_MONOTONIC when base frequencies and uncore limits of all were read:
            seldom, since the kernel interrupts the CPU for each. Those of a CPU whose limits have
            changed since may be newer.
        notes: what could not be read, in sentences.
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
        """The rows by CPU."""
        return {row.cpu: row for row in self.cpus}

    @property
    def gaps(self) -> str:
        """What could not be read, and who else sets frequencies, in words; "" when nothing."""
        without = f"CPU {format_cpu_list(self.without)} has no cpufreq" if self.without else ""
        names = ", ".join(dict.fromkeys(keeper.name for keeper in self.keepers))
        others = f"{names} may set frequencies here too" if names else ""
        return "; ".join(filter(None, (without, *self.notes, others)))


def priorities(base: Iterable[tuple[Cpu, Package | None, float | None]]) -> Mapping[Cpu, Priority]:
    """SST-BF's two kinds of cores; of packages where all have one base frequency nothing.

    Args:
        base: of each CPU its package and base frequency, None where not known.

    Source: the kernel's `base_frequency` is the guaranteed frequency of each CPU, which SST-BF
    makes higher for some (intel/CommsPowerManagement, sst_bf.md).
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
