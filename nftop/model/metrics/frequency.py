"""The metrics of how fast a CPU may run, and what stands beside them as words."""

from __future__ import annotations

from nftop.model.metrics.metric import Metric, Unit

_CPUFREQ = "sysfs, cpufreq/{}"
_SELDOM = (
    "Read at the start, every ten minutes, and when this CPU's limits change: the kernel "
    "interrupts the CPU for it."
)

FREQUENCY_METRICS: tuple[Metric, ...] = (
    Metric(
        id="base_frequency_hz",
        label="BASE",
        unit=Unit.HZ,
        scope="cpu",
        meaning="The frequency that the hardware guarantees this core when all are busy: with "
        f"SST-BF higher on some and lower on the others. {_SELDOM}",
        formula="base_frequency x 1000",
        origin=_CPUFREQ.format("base_frequency (intel_pstate with HWP)"),
    ),
    Metric(
        id="min_frequency_hz",
        label="MIN",
        unit=Unit.HZ,
        scope="cpu",
        meaning="The lowest frequency that this CPU may be given, as the kernel has it in effect. "
        "Where it is the highest too, the CPU is pinned to it.",
        formula="scaling_min_freq x 1000",
        origin=_CPUFREQ.format("scaling_min_freq"),
    ),
    Metric(
        id="max_frequency_hz",
        label="MAX",
        unit=Unit.HZ,
        scope="cpu",
        meaning="The highest frequency that this CPU may be given, as the kernel has it in effect.",
        formula="scaling_max_freq x 1000",
        origin=_CPUFREQ.format("scaling_max_freq"),
    ),
)

# Words, of `CpuTable.settings`.
SETTING_METRICS: tuple[Metric, ...] = (
    Metric(
        id="sst_priority",
        label="SST",
        unit=Unit.TEXT,
        scope="cpu",
        meaning="H on SST-BF's high-priority cores, whose base frequency is higher than that of "
        "others in their package, L on the others. Which they are is fixed in silicon: a workload "
        "can be moved, a core can't be made another.",
        formula="high where base_frequency_hz is the highest of its package, low elsewhere; none "
        "where all are alike",
        origin=_CPUFREQ.format("base_frequency"),
    ),
    Metric(
        id="governor",
        label="GOVERNOR",
        unit=Unit.TEXT,
        scope="cpu",
        meaning="Who chooses the frequency between the limits. With intel_pstate, powersave is the "
        "driver's own choice by load and no low speed; performance stays at the highest.",
        formula="as it stands",
        origin=_CPUFREQ.format("scaling_governor"),
    ),
    Metric(
        id="epp",
        label="EPP",
        unit=Unit.TEXT,
        scope="cpu",
        meaning="Energy-performance preference: what the hardware is to favour while it chooses "
        "the frequency. What was set last is shown; under the governor performance the kernel "
        "uses performance whatever it is.",
        formula="as it stands",
        origin=_CPUFREQ.format("energy_performance_preference"),
    ),
    Metric(
        id="sst_cp_class",
        label="CP",
        unit=Unit.TEXT,
        scope="cpu",
        meaning="SST-CP class of this core, 0 to 3: whose power counts first where it is short. "
        "Nothing to do with cache classes (COS).",
        formula="as it stands",
        origin="intel-speed-select core-power get-assoc",
    ),
)
