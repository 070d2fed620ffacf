"""The model as the document of a pcm-sensor-server on its host, renewed every tick.

It is started with PCM_NO_RDT=1, as beside cache classes. Counts of CPUs, memory and links are those
of the model. Power, temperatures and C-states are closed forms of these counts:

    package energy  = U t + k sum over its cores of (a core_clocks + b instructions) (f / f0)**2
    memory's energy = M t + c (bytes read and written)
    headroom        = T - r W_package - q W_core, whole degrees
    of a CPU:         C0 = ref_cycles / tsc, C6 = d (1 - its core's awake time), C1 the rest
    of a package:     C0 = 1 - product over its cores of (1 - awake time), C6 = d (1 - C0), C2 the
                      rest

with f the frequency of the cores while awake, f0 their base frequency: the cost a of an awake cycle
and b of an instruction grow with the square of the voltage, which is proportional to f; so power
grows with load and f**3. U is three tenths of the processor's specified power, and k makes the rest
of it what all cores take at f0 and two instructions per cycle: assumptions, as all constants are.
Device requests are absent, as in Debian's builds.

Links: PCM counts incoming data, and outgoing data and everything else, of which the model has only
one flit per incoming line, its request (an assumption): real links send more.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nftop.model.clock import NS_PER_S
from nftop.model.column import Floats
from nftop.model.missing import Missing, Reason
from nftop.model.pcm import CPU_FIELDS, LINK_FIELDS, PACKAGE_FIELDS, PCIE_EVENTS, PcmTable
from nftop.sim.model import Model
from nftop.sim.processor import Processor
from nftop.sim.rates import server_factor
from nftop.sim.uncore import LINE_BYTES, OF_PACKAGE_INDEX, package_counts
from nftop.sim.workloads import INDEX

_LEAST_NS = 100_000_000
_WARMING = Missing(Reason.WARMING, "the simulated server has not sampled for long enough")
UNCORE_RATIO, CYCLE_J, INSTRUCTION_J, BUSY_IPC = 0.3, 1.15e-9, 0.45e-9, 2.0
MEMORY_W, MEMORY_BYTE_J = 6.0, 0.2e-9
HEADROOM_C, PACKAGE_C_PER_W, CORE_C_PER_W = 62.0, 0.22, 1.5
DEEP_RATIO = 0.85
_UNCORE_HZ = 2.4e9
REQUEST_FLITS = 1


def pcm_table(model: Model, t_ns: int) -> PcmTable | Missing:
    """The second before `t_ns` since the model's start; WARMING at the start."""
    since_ns = max(0, t_ns - NS_PER_S)
    if t_ns - since_ns < _LEAST_NS:
        return _WARMING
    counted = model.exact(t_ns) - model.exact(since_ns)
    uncore = package_counts(model, t_ns) - package_counts(model, since_ns)
    cpus = model.layout.topology.cpus
    cores, core_of = np.unique([info.core or 0 for info in cpus], return_inverse=True)
    package_of_core = np.zeros(len(cores), dtype=np.int32)
    packages = np.array([info.package or 0 for info in cpus], dtype=np.int32)
    package_of_core[core_of] = packages
    sockets = np.array(model.layout.topology.packages, dtype=np.int32)
    seconds = (t_ns - since_ns) / NS_PER_S
    awake = np.zeros(len(cores))
    hz = model.frequencies[model.stretch(t_ns)].hz
    awake[core_of] = counted[:, INDEX["core_clocks"]] / (hz * seconds)
    awake = np.clip(awake, 0.0, 1.0)
    processor = model.scenario.processor
    core_j = core_joules(counted, core_of, hz, processor)
    of_cores = core_j, awake, package_of_core
    tsc = float(counted[:, INDEX["tsc"]].max())
    of_sockets = _of_packages(
        sockets, of_cores, uncore, seconds, tsc=tsc, uncore_watts=uncore_w(processor)
    )
    of_sockets[:, _PACKAGE["dram_reads"]] *= server_factor(model.scenario, t_ns)
    package_w = of_sockets[:, _PACKAGE["package_joules_consumed"]] / seconds
    warm_c = PACKAGE_C_PER_W * package_w[np.searchsorted(sockets, package_of_core)]
    headroom = np.floor(HEADROOM_C - warm_c - CORE_C_PER_W * core_j / seconds)
    # The server numbers cores within their package.
    first = np.array([np.flatnonzero(package_of_core == socket)[0] for socket in sockets])
    within = np.arange(len(cores)) - first[np.searchsorted(sockets, package_of_core)]
    return PcmTable(
        since_start=False,
        interval_us=(t_ns - since_ns) // 1000,
        cpus=np.arange(len(cpus), dtype=np.int32),
        cores=within[core_of].astype(np.int32),
        packages=packages,
        of_cpus=_of_cpus(counted, awake[core_of], headroom[core_of], hz),
        sockets=sockets,
        of_packages=of_sockets,
        links=np.array([(s, n) for s in sockets for n in range(processor.links)], dtype=np.int32),
        of_links=_of_links(uncore, processor.links, processor.line_flits),
        pcie=np.full((len(sockets), len(PCIE_EVENTS)), np.nan),
        cpu_fields=CPU_FIELDS,
        package_fields=PACKAGE_FIELDS,
        link_fields=LINK_FIELDS,
        events=PCIE_EVENTS,
    )


_CPU = {name: index for index, name in enumerate(CPU_FIELDS)}
_PACKAGE = {name: index for index, name in enumerate(PACKAGE_FIELDS)}
_COUNTED = {
    "instructions_retired_any": "instructions",
    "clock_unhalted_thread": "cycles",
    "clock_unhalted_ref": "ref_cycles",
    "invariant_tsc": "tsc",
    "l3_cache_misses": "llc_misses",
    "l2_cache_hits": "loads_l2_hit",
}
_ZEROS = (
    "bad_speculation", "retiring", "l3_cache_occupancy", "local_memory_bandwidth",
    "remote_memory_bandwidth",
)  # fmt: skip


def _of_links(uncore: NDArray[np.uint64], links: int, line_flits: int) -> Floats:
    """float64 (s * links, len(LINK_FIELDS)): a package's links share its traffic equally.

    Incoming are bytes of data; outgoing are data and requests, in flits of a line.
    """
    received, sent = (
        uncore[:, OF_PACKAGE_INDEX[name]].astype(np.float64)
        for name in ("link_lines_received", "link_lines_sent")
    )
    lines = {
        "incoming_data_traffic": received,
        "outgoing_data_and_non_data_traffic": sent + received * REQUEST_FLITS / line_flits,
    }
    table = np.full((len(uncore) * links, len(LINK_FIELDS)), np.nan)
    for field, count in lines.items():
        table[:, LINK_FIELDS.index(field)] = np.repeat(count * LINE_BYTES / links, links)
    return table


def uncore_w(processor: Processor) -> float:
    """Power of a package apart from its cores."""
    return UNCORE_RATIO * processor.tdp_w


def core_factor(processor: Processor) -> float:
    """Factor on `CYCLE_J` and `INSTRUCTION_J` with which all busy cores take the rest."""
    busy_core_w = processor.base_hz * (CYCLE_J + BUSY_IPC * INSTRUCTION_J)
    return (1.0 - UNCORE_RATIO) * processor.tdp_w / (processor.cores * busy_core_w)


def core_joules(
    counted: Floats, core_of: NDArray[np.int64], hz: Floats, processor: Processor
) -> Floats:
    """Energy of each core: float64 (cores,); `hz` is each CPU's frequency."""
    cores = int(core_of.max()) + 1
    # Each thread of a core has all of its clocks: read one.
    clocks, core_hz = np.zeros(cores), np.zeros(cores)
    core_hz[core_of] = hz
    clocks[core_of] = counted[:, INDEX["core_clocks"]]
    instructions = np.bincount(core_of, counted[:, INDEX["instructions"]], cores)
    factors = core_factor(processor) * (core_hz / processor.base_hz) ** 2
    joules: Floats = (CYCLE_J * clocks + INSTRUCTION_J * instructions) * factors
    return joules


def _of_cpus(counted: Floats, awake: Floats, headroom: Floats, hz: Floats) -> Floats:
    """float64 (n, len(CPU_FIELDS)); 0 and NaN as such a server has them."""
    table = np.full((len(counted), len(CPU_FIELDS)), np.nan)
    for field, quantity in _COUNTED.items():
        table[:, _CPU[field]] = np.floor(counted[:, INDEX[quantity]])
    beyond_l2 = counted[:, INDEX["loads_l1_miss"]] - counted[:, INDEX["loads_l2_hit"]]
    table[:, _CPU["l2_cache_misses"]] = np.floor(beyond_l2)
    hits = np.maximum(beyond_l2 - counted[:, INDEX["llc_misses"]], 0.0)
    table[:, _CPU["l3_cache_hits"]] = np.floor(hits)
    table[:, _CPU["smi_count"]] = 0.0
    table[:, _CPU["core_frequency"]] = hz
    table[:, _CPU["thermal_headroom"]] = headroom
    # Skylake's top-down is all zeros there, and RDT's monitors are not read.
    table[:, [column for field, column in _CPU.items() if field.endswith("_bound")]] = 0.0
    for field in _ZEROS:
        table[:, _CPU[field]] = 0.0
    c0 = np.clip(counted[:, INDEX["ref_cycles"]] / counted[:, INDEX["tsc"]], 0.0, 1.0)
    c6 = DEEP_RATIO * (1.0 - np.maximum(awake, c0))
    tsc = counted[:, INDEX["tsc"]]
    _residencies(table, _CPU, {0: c0, 1: 1.0 - c0 - c6, 6: c6}, tsc)
    return table


def _of_packages(
    sockets: NDArray[np.int32],
    of_cores: tuple[Floats, Floats, NDArray[np.int32]],
    uncore: NDArray[np.uint64],
    seconds: float,
    *,
    tsc: float,
    uncore_watts: float,
) -> Floats:
    """float64 (s, len(PACKAGE_FIELDS)); `of_cores` are joules, awake shares and packages."""
    core_j, awake, package_of_core = of_cores
    table = np.full((len(sockets), len(PACKAGE_FIELDS)), np.nan)
    reads, writes = (
        uncore[:, OF_PACKAGE_INDEX[name]].astype(np.float64) * LINE_BYTES
        for name in ("cas_reads", "cas_writes")
    )
    cores_j = [core_j[package_of_core == socket].sum() for socket in sockets]
    asleep = np.array([np.prod(1.0 - awake[package_of_core == socket]) for socket in sockets])
    columns = {
        "dram_reads": reads,
        "dram_writes": writes,
        "persistent_memory_reads": 0.0,
        "persistent_memory_writes": 0.0,
        "package_joules_consumed": uncore_watts * seconds + np.array(cores_j),
        "dram_joules_consumed": MEMORY_W * seconds + MEMORY_BYTE_J * (reads + writes),
        "uncore_frequency_die_0": _UNCORE_HZ,
    }
    for field, values in columns.items():
        table[:, _PACKAGE[field]] = values
    c6 = DEEP_RATIO * asleep
    _residencies(table, _PACKAGE, {0: 1.0 - asleep, 2: asleep - c6, 6: c6}, tsc)
    return table


def _residencies(
    table: Floats, column_of: dict[str, int], states: dict[int, Floats], tsc: Floats | float
) -> None:
    """Shares of the time as counters that run with the TSC tell them: whole counts of `tsc`."""
    for name, column in column_of.items():
        head, _, state = name.rpartition("_")
        if head == "cstateresidency":
            share = np.clip(states.get(int(state), 0.0), 0.0, 1.0)
            table[:, column] = np.floor(share * tsc) / tsc
