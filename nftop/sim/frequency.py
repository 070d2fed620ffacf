"""How fast simulated cores run, by what is set for them: the host's answer to a change of limits.

`response` is that answer for one CPU, pure: whoever changes the simulated host (a gate) has limits,
governor and preference of CPUs in `Frequencies`, makes another with `altered`, and gives it to
`World.set_frequencies`. Counts, packets and power follow by themselves:

- A packet costs the same cycles at any frequency: packets per second go with it. The talk shows no
  numbers to say otherwise; where a packet waits for memory it is too good.
- What a task is offered stays, so that a slower core drops and a faster one polls idly.
- A core runs at the fastest that any of its threads asks for.
- Power is `pcm`'s: it goes with load and with the third power of the frequency.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from nftop.model.column import Floats
from nftop.model.struct import dataclass, replace
from nftop.model.topology import CpuInfo, Topology
from nftop.sim.processor import Processor

GOVERNORS = ("performance", "powersave")
EPPS = ("default", "performance", "balance_performance", "balance_power", "power")
DRIVER = "intel_pstate"


@dataclass(frozen=True, slots=True)
class Setting:
    """What is set for one CPU, in Hz, as it would be read back: within its limits, in order."""

    min_hz: int
    max_hz: int
    governor: str = "powersave"
    epp: str = "balance_performance"


@dataclass(frozen=True, slots=True, eq=False)
class Frequencies:
    """What is set on the host, and what comes of it.

    Attributes:
        settings: by CPU. base_hz: the guaranteed frequency of each.
        turbo: whether more than that may be granted.
        hz: float64 (n,), what a busy core of each CPU runs at.
    """

    processor: Processor
    topology: Topology
    settings: tuple[Setting, ...]
    base_hz: tuple[int, ...]
    turbo: bool
    hz: Floats


def response(
    setting: Setting,
    *,
    base_hz: int,
    all_core_hz: int,
    turbo: bool = True,
) -> float:
    """The frequency (Hz) at which a CPU runs while it is awake.

    The hardware grants what is asked for up to what turbo gives all cores at once, and never less
    than it guarantees, which with SST-BF is more on some cores: so min = max = 2.7 GHz on a
    high-priority core and 2.1 GHz on the others hold, as in the talk, and without limits all run
    at the same. Under either governor that is the upper limit, since a poller is always busy; that
    others don't run slower under powersave, whatever the preference, is the model's.
    """
    granted = max(all_core_hz, base_hz) if turbo else base_hz
    most = min(setting.max_hz, granted)
    return float(max(most, min(setting.min_hz, granted)))


def first_frequencies(processor: Processor, topology: Topology) -> Frequencies:
    """As they are at the start: every CPU between the processor's `start_hz`."""
    setting = Setting(*processor.start_hz)
    places = _places(topology)
    base = tuple(processor.guaranteed_hz(places[info.cpu]) for info in topology.cpus)
    return _with(processor, topology, (setting,) * len(base), base, turbo=True)


def altered(
    before: Frequencies, settings: Mapping[int, Setting], *, turbo: bool | None = None
) -> Frequencies:
    """With other settings of some CPUs; limits are cut to what the processor can, in order.

    `turbo`: whether it is allowed from now on; None: as before.
    """
    every = list(before.settings)
    for cpu, setting in settings.items():
        every[cpu] = _within(setting, before.processor)
    allowed = before.turbo if turbo is None else turbo
    return _with(before.processor, before.topology, tuple(every), before.base_hz, turbo=allowed)


def _within(setting: Setting, processor: Processor) -> Setting:
    """As the kernel reads it back: cpufreq_verify_within_limits."""
    least = min(max(setting.min_hz, processor.min_hz), processor.max_hz)
    most = min(max(setting.max_hz, processor.min_hz), processor.max_hz)
    return replace(setting, min_hz=min(least, most), max_hz=most)


def _with(
    processor: Processor,
    topology: Topology,
    settings: tuple[Setting, ...],
    base_hz: tuple[int, ...],
    *,
    turbo: bool,
) -> Frequencies:
    requested_hz = [
        response(setting, base_hz=base, all_core_hz=processor.all_core_hz, turbo=turbo)
        for setting, base in zip(settings, base_hz, strict=True)
    ]
    hz = np.array([_of_core(info, requested_hz) for info in topology.cpus], np.float64)
    return Frequencies(processor, topology, settings, base_hz, turbo, hz)


def _of_core(info: CpuInfo, requested_hz: Sequence[float]) -> float:
    return max(requested_hz[cpu] for cpu in (info.cpu, *info.siblings))


def _places(topology: Topology) -> Mapping[int, int]:
    """Of every CPU which core of its package it is, from 0 on."""
    first: dict[int | None, int] = {}
    for info in topology.cpus:
        core = info.core or 0
        first[info.package] = min(first.get(info.package, core), core)
    return {info.cpu: (info.core or 0) - first[info.package] for info in topology.cpus}
