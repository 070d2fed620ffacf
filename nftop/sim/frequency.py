"""Frequencies of simulated cores by their limits, and the cpufreq table.

`response` computes the frequency of one CPU. `CoreFrequencies` has limits, governor and preference
of every CPU; `altered` derives another, which `World.set_frequencies` applies. Counts, packets and
power follow:

- A packet costs the same cycles at any frequency, so packets per second are proportional to it. The
  talk has no numbers to the contrary; for packets that wait for memory this is optimistic.
- The load offered to a task does not change: a slower core drops more, a faster one idles more.
- A core runs at the highest frequency that one of its threads requests.
- Power is modelled in `pcm`: by load and the third power of the frequency.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from nftop.model.column import Floats
from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reason
from nftop.model.sst import CpufreqTable, CpuFrequency, PstateDriver, UncoreLimits
from nftop.model.struct import dataclass, replace
from nftop.model.topology import Topology
from nftop.sim.processor import Processor

GOVERNORS = ("performance", "powersave")
EPPS = ("default", "performance", "balance_performance", "balance_power", "power")
DRIVER = "intel_pstate"


@dataclass(frozen=True, slots=True)
class CoreSetting:
    """Settings of one CPU, in Hz, as read back: within its limits, in order."""

    min_hz: int
    max_hz: int
    governor: str = "powersave"
    epp: str = "balance_performance"


@dataclass(frozen=True, slots=True, eq=False)
class CoreFrequencies:
    """Frequency settings of the host and their effect.

    Attributes:
        settings: by CPU. base_hz: the guaranteed frequency of each.
        turbo: whether it is allowed.
        hz: float64 (n,), frequency of each CPU's core while busy.
    """

    processor: Processor
    topology: Topology
    settings: tuple[CoreSetting, ...]
    base_hz: tuple[int, ...]
    turbo: bool
    hz: Floats


def response(setting: CoreSetting, *, base_hz: int, all_core_hz: int, turbo: bool = True) -> float:
    """The frequency (Hz) at which a CPU runs while it is awake.

    The hardware grants the request up to all-core turbo, and never less than the guaranteed
    frequency, which SST-BF raises on some cores: so min = max = 2.7 GHz on a high-priority core and
    2.1 GHz on the others hold, as in the talk. The request is the upper limit under either
    governor, since a poller is always busy; that other CPUs do the same under powersave is an
    assumption.
    """
    granted = max(all_core_hz, base_hz) if turbo else base_hz
    most = min(setting.max_hz, granted)
    return float(max(most, min(setting.min_hz, granted)))


def first_frequencies(processor: Processor, topology: Topology) -> CoreFrequencies:
    """At the start: every CPU within the processor's `start_hz`."""
    setting = CoreSetting(*processor.start_hz)
    core_index = _core_index(topology)
    base = tuple(processor.guaranteed_hz(core_index[info.cpu]) for info in topology.cpus)
    return _with(processor, topology, (setting,) * len(base), base, turbo=True)


def altered(
    before: CoreFrequencies, settings: Mapping[int, CoreSetting], *, turbo: bool | None = None
) -> CoreFrequencies:
    """With other settings of some CPUs; limits are clamped to the processor's.

    `turbo`: whether it is allowed from now on; None: unchanged.
    """
    every = list(before.settings)
    for cpu, setting in settings.items():
        every[cpu] = _within(setting, before.processor)
    allowed = before.turbo if turbo is None else turbo
    return _with(before.processor, before.topology, tuple(every), before.base_hz, turbo=allowed)


def _within(setting: CoreSetting, processor: Processor) -> CoreSetting:
    """Clamped as by the kernel's cpufreq_verify_within_limits."""
    least = min(max(setting.min_hz, processor.min_hz), processor.max_hz)
    most = min(max(setting.max_hz, processor.min_hz), processor.max_hz)
    return replace(setting, min_hz=min(least, most), max_hz=most)


def _with(
    processor: Processor,
    topology: Topology,
    settings: tuple[CoreSetting, ...],
    base_hz: tuple[int, ...],
    *,
    turbo: bool,
) -> CoreFrequencies:
    requested_hz = [
        response(setting, base_hz=base, all_core_hz=processor.all_core_hz, turbo=turbo)
        for setting, base in zip(settings, base_hz, strict=True)
    ]
    threads = ((info.cpu, *info.siblings) for info in topology.cpus)
    hz = np.array([max(requested_hz[cpu] for cpu in cpus) for cpus in threads], np.float64)
    return CoreFrequencies(processor, topology, settings, base_hz, turbo, hz)


def _core_index(topology: Topology) -> Mapping[int, int]:
    """Index of every CPU's core in its package, from 0."""
    first: dict[int | None, int] = {}
    for info in topology.cpus:
        core = info.core or 0
        first[info.package] = min(first.get(info.package, core), core)
    return {info.cpu: (info.core or 0) - first[info.package] for info in topology.cpus}


# Limits of the mesh frequency, which is at the upper one (`pcm`); assumptions.
_MESH_HZ = (1_200_000_000, 2_400_000_000)
_NO_TOOL = Missing(Reason.SOURCE, "the simulated host has no intel-speed-select")


def cpufreq_table(frequencies: CoreFrequencies, at_ns: int) -> CpufreqTable:
    """Every CPU with its own policy, as with intel_pstate; `at_ns` is the time of the read."""
    processor = frequencies.processor
    rows = zip(frequencies.settings, frequencies.base_hz, strict=True)
    return CpufreqTable(
        cpus=tuple(
            CpuFrequency(
                cpu=Cpu(cpu),
                policy=cpu,
                together=(Cpu(cpu),),
                driver=DRIVER,
                governor=setting.governor,
                governors=GOVERNORS,
                epp=setting.epp if processor.has_epp else None,
                epps=EPPS if processor.has_epp else (),
                min_hz=setting.min_hz,
                max_hz=setting.max_hz,
                hardware_min_hz=processor.min_hz,
                hardware_max_hz=processor.max_hz,
                base_hz=base_hz,
            )
            for cpu, (setting, base_hz) in enumerate(rows)
        ),
        without=(),
        pstate=PstateDriver(
            "active", frequencies.turbo, -(-100 * processor.min_hz // processor.max_hz), 100
        ),
        uncore=tuple(
            UncoreLimits(package, 0, *_MESH_HZ, *_MESH_HZ)
            for package in frequencies.topology.packages
        ),
        sst=_NO_TOOL,
        keepers=(),
        hybrid=False,
        base_read_at_ns=at_ns,
    )
