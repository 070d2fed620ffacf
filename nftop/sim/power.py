"""Energy and residencies of the simulated host since its start, and the table of source `power`.

By the forms that `pcm` states, added up over the stretches of the model; a package is asleep while
all its cores are, by their mean shares of a stretch. Nothing is ever too hot.
"""

from __future__ import annotations

import numpy as np

from nftop.model.clock import NS_PER_S
from nftop.model.column import Floats
from nftop.model.missing import Reason
from nftop.model.sample import Counts
from nftop.model.struct import dataclass
from nftop.model.uncore import NOT_ON_POLLERS, POWER_EVENTS, SLOW_POWER_EVENTS, SLOWLY, UncoreTable
from nftop.sim.model import Model
from nftop.sim.pcm import DEEP_RATIO, MEMORY_BYTE_J, MEMORY_W, core_joules, uncore_w
from nftop.sim.uncore import LINE_BYTES, OF_PACKAGE_INDEX, package_counts
from nftop.sim.workloads import INDEX

_JOULE = 2.0**32  # counts
_SLOW_NS = 5 * NS_PER_S


@dataclass(frozen=True, slots=True)
class PowerCounts:
    """Counts until a time: energies in 2**-32 J, times in clocks of the TSC.

    Attributes:
        packages: by event, uint64 (packages,).
        cores: likewise of the core of each CPU, uint64 (cpus,).
    """

    packages: dict[str, Counts]
    cores: dict[str, Counts]


def power_counts(model: Model, t_ns: int) -> PowerCounts:
    """Counts until `t_ns` since the model's start."""
    topology, processor = model.layout.topology, model.scenario.processor
    _, core_of = np.unique([info.core or 0 for info in topology.cpus], return_inverse=True)
    package_of = np.array([info.package or 0 for info in topology.cpus])
    cores = int(core_of.max()) + 1
    core_j, awake_s, asleep_s = np.zeros(cores), np.zeros(cores), np.zeros(len(topology.packages))
    last, counted, since_s = model.stretch(t_ns), np.zeros_like(model.before[0]), 0.0
    of_core, package_of_core = np.zeros(cores), np.zeros(cores, np.int64)
    package_of_core[core_of] = package_of
    for at in range(last + 1):
        until_ns = t_ns if at == last else model.starts_ns[at + 1]
        until = model.exact(t_ns) if at == last else model.before[at + 1]
        hz = model.frequencies[at].hz
        core_j += core_joules(until - counted, core_of, hz, processor)
        of_core[core_of] = (until - counted)[:, INDEX["core_clocks"]] / hz
        awake_s += of_core
        share = np.zeros(cores)
        share[core_of] = np.clip(model.steady[at][:, INDEX["core_clocks"]] / hz, 0.0, 1.0)
        asleep = [np.prod(1.0 - share[package_of_core == item]) for item in topology.packages]
        asleep_s += np.array(asleep) * (until_ns / NS_PER_S - since_s)
        counted, since_s = until, until_ns / NS_PER_S
    lines = package_counts(model, t_ns)
    moved = lines[:, OF_PACKAGE_INDEX["cas_reads"]] + lines[:, OF_PACKAGE_INDEX["cas_writes"]]
    package_j = [core_j[package_of_core == item].sum() for item in topology.packages]
    deep = DEEP_RATIO * asleep_s
    core_c6 = DEEP_RATIO * np.maximum(t_ns / NS_PER_S - awake_s, 0.0)[core_of]
    tsc_hz = float(processor.tsc_hz)
    zero = np.zeros(len(topology.packages), np.uint64)
    return PowerCounts(
        {
            "energy_pkg": _counts(
                uncore_w(processor) * t_ns / NS_PER_S + np.array(package_j), _JOULE
            ),
            "energy_ram": _counts(
                MEMORY_W * t_ns / NS_PER_S + MEMORY_BYTE_J * LINE_BYTES * moved.astype(np.float64),
                _JOULE,
            ),
            "package_c2": _counts(asleep_s - deep, tsc_hz),
            "package_c3": zero,
            "package_c6": _counts(deep, tsc_hz),
            "package_throttles": zero,
        },
        {
            "core_c3": np.zeros(len(package_of), np.uint64),
            "core_c6": _counts(core_c6, tsc_hz),
            "core_throttles": np.zeros(len(package_of), np.uint64),
        },
    )


def _counts(amounts: Floats, per_unit: float) -> Counts:
    """Whole counts, which wrap at 64 bits."""
    return np.fmod(np.floor(amounts * per_unit), 2.0**64).astype(np.uint64)


def power_table(model: Model, t_ns: int) -> UncoreTable:
    """Of packages now, of cores as of the last whole 5 s; cores that poll are not read."""
    topology = model.layout.topology
    seldom_ns = t_ns - t_ns % _SLOW_NS
    now, seldom = power_counts(model, t_ns), power_counts(model, seldom_ns)
    polled = topology.with_siblings(cpu for placed in model.layout.placed for cpu in placed.cpus)
    rows: list[tuple[int, int, int, int, int, int]] = []
    for event, name in enumerate(POWER_EVENTS):
        throttles = name.endswith("throttles")
        if name in now.packages:
            of, at_ns = (seldom, seldom_ns) if throttles else (now, t_ns)
            for package, value in zip(topology.packages, of.packages[name].tolist(), strict=True):
                rows.append((package, 0, event, value, 0, at_ns))
            continue
        for row, info in enumerate(topology.cpus):
            absent = not throttles and info.cpu in polled
            if throttles or not info.siblings or info.cpu < min(info.siblings):
                reason = int(Reason.SOURCE) if absent else 0
                value = 0 if absent else int(seldom.cores[name][row])
                clock_ns = 0 if absent else seldom_ns
                rows.append((info.package or 0, info.cpu, event, value, reason, clock_ns))
    columns = [list(column) for column in zip(*rows, strict=True)]
    return UncoreTable(
        events=POWER_EVENTS,
        packages=np.array(columns[0], np.int32),
        boxes=np.array(columns[1], np.int32),
        event=np.array(columns[2], np.int32),
        values=np.array(columns[3], np.uint64),
        reasons=np.array(columns[4], np.uint8),
        enabled_ns=np.array(columns[5], np.uint64),
        running_ns=np.array(columns[5], np.uint64),
        details={
            name: {int(Reason.SOURCE): NOT_ON_POLLERS, int(Reason.WARMING): SLOWLY}
            for name in SLOW_POWER_EVENTS
        },
        extras=frozenset(POWER_EVENTS) - {"energy_pkg"},
        round_ns=_SLOW_NS,
    )
