"""Power, C-states and throttling: by the kernel's counters, else by a pcm-sensor-server.

RAPL: Intel SDM volume 3, "RAPL Interfaces", through the PMU `power` (the kernel extends the 32 bits
of the registers). Residencies: PMUs `cstate_core` and `cstate_pkg`
(Documentation/ABI/testing/sysfs-bus-event_source-devices, arch/x86/events/intel/cstate.c).
Throttling: thermal_throttle of sysfs (arch/x86/kernel/cpu/mce/therm_throt.c).
"""

from __future__ import annotations

from typing import Literal

from nftop.model.metrics.metric import Metric, Unit

_SLOWLY = "Read every 5 s."
_CORES_SLOWLY = (
    f"{_SLOWLY} Not read on cores that poll, which a reading would interrupt: they never sleep."
)
_Good = Literal["high", "low"] | None


def _row(
    scope: Literal["cpu", "package"],
    name: str,
    label: str,
    unit: Unit,
    meaning: str,
    *,
    formula: str,
    origin: str,
    good: _Good = None,
) -> Metric:
    return Metric(
        id=name,
        label=label,
        unit=unit,
        scope=scope,
        meaning=meaning,
        formula=formula,
        origin=origin,
        good=good,
        optional=scope == "cpu",
    )


def _state(scope: Literal["cpu", "package"], state: int, meaning: str) -> Metric:
    pmu = "cstate_core" if scope == "cpu" else "cstate_pkg"
    return _row(
        scope,
        f"c{state}_ratio",
        f"{'C' if scope == 'cpu' else 'PC'}{state}",
        Unit.RATIO,
        f"{meaning} {_CORES_SLOWLY if scope == 'cpu' else ''}".strip(),
        formula="residency / TSC",
        origin=f"perf {pmu}/c{state}-residency/, else pcm-sensor-server: CStateResidency[{state}]",
    )


def _watts(name: str, label: str, event: str, field: str, meaning: str) -> Metric:
    return _row(
        "package",
        name,
        label,
        Unit.WATTS,
        meaning,
        formula="delta(energy) / time",
        origin=f"RAPL, perf power/{event}/, else pcm-sensor-server: {field}",
    )


def _joules(name: str, label: str, event: str, power: str, what: str) -> Metric:
    return _row(
        "package",
        name,
        label,
        Unit.JOULES,
        f"Energy that {what} taken while nftop watched. Of a sensor server it is an estimate "
        f"without the time in which the server was silent for more than 5 s, or two and a half "
        "samples if that is longer. A sum goes on with the source that it began with.",
        formula=f"delta(energy) since the start; of the server: sum of {power} x time",
        origin=f"RAPL, perf power/{event}/, else pcm-sensor-server",
    )


_THROTTLED = "Read every 5 s. 0 is as it should be."
COUNTED_POWER_CPU_METRICS: tuple[Metric, ...] = (
    _row(
        "cpu", "c0_ratio", "C0", Unit.RATIO,
        "Share of time this CPU was executing (C0): 100 % on a poller.",
        formula="ref_cycles / TSC", origin="perf, else pcm-sensor-server: CStateResidency[0]",
    ),
    _row(
        "cpu", "c1_ratio", "C1", Unit.RATIO,
        f"Share of time this CPU was halted (C1). {_CORES_SLOWLY}",
        formula="1 - average c0_ratio - c3_ratio - c6_ratio, of one interval between readings",
        origin="perf, else pcm-sensor-server: CStateResidency[1]",
    ),
    _state(
        "cpu", 3,
        "Share of time this core slept without its caches (C3): Haswell and Broadwell only.",
    ),
    _state(
        "cpu", 6, "Share of time this core slept deeply (C6), from which it takes long to wake.",
    ),
    _row(
        "cpu", "throttles_per_s", "THRTL/s", Unit.PER_S,
        f"How often per second the core began to run slower because it was too hot. {_THROTTLED}",
        formula="delta(count) / time", origin="thermal_throttle/core_throttle_count", good="low",
    ),
)  # fmt: skip

COUNTED_POWER_PACKAGE_METRICS: tuple[Metric, ...] = (
    _watts(
        "power_w", "PKG.W", "energy-pkg", "Package Joules Consumed",
        "Power that the package takes, without its memory.",
    ),
    _joules("energy_j", "PKG.kJ", "energy-pkg", "power_w", "the package has"),
    _joules("dram_energy_j", "DRAM.kJ", "energy-ram", "dram_power_w", "the package's memory has"),
    _watts(
        "dram_power_w", "DRAM.W", "energy-ram", "DRAM Joules Consumed",
        "Power that the package's memory takes.",
    ),
    _row(
        "package", "c0_ratio", "PC0", Unit.RATIO, "Share of time the package was awake (C0).",
        formula="1 - c2_ratio - c3_ratio - c6_ratio",
        origin="perf cstate_pkg, else pcm-sensor-server: CStateResidency[0]",
    ),
    _state(
        "package", 2,
        "Share of time the package was on its way to sleep, or waited for others' access to its "
        "memory (C2).",
    ),
    _state(
        "package", 3,
        "Share of time the package slept lightly (C3): Haswell and Broadwell only.",
    ),
    _state("package", 6, "Share of time the package slept (C6)."),
    _row(
        "package", "throttles_per_s", "PTHRTL/s", Unit.PER_S,
        f"How often per second the package began to run slower because it was too hot. "
        f"{_THROTTLED}",
        formula="delta(count) / time", origin="thermal_throttle/package_throttle_count",
        good="low",
    ),
)  # fmt: skip
