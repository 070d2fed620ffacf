"""Raw events per cycle of each workload, from the tables of `workloads.toml`."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nftop.model.data_files import data_file
from nftop.model.struct import dataclass, replace

if TYPE_CHECKING:
    from nftop.model.column import Floats

# Quantities of a CPU, one column each. Those after `cycles` are per cycle of the thread; `core_`
# ones are of the physical core and depend on its sibling.
QUANTITIES: tuple[str, ...] = (
    "tsc", "ref_cycles", "cycles", "core_clocks", "distributed_clocks", "lone_ref_cycles",
    "instructions", "context_switches",
    "slots_not_delivered", "cycles_none_delivered", "uops_issued", "retire_slots",
    "recovery_cycles", "core_recovery_cycles", "mispredicts", "machine_clears", "macro_fused",
    "microcode_uops", "stalls_memory", "stalls_l1_miss", "stalls_l2_miss", "stalls_l3_miss",
    "loads_l2_hit", "loads_l1_miss", "stalls_total", "stalls_store", "one_port", "two_ports",
    "executed_few", "llc_misses", "cas_reads", "cas_writes", "itom_hit", "itom_miss", "rfo_hit",
    "rfo_miss", "itomcachenear_hit", "itomcachenear_miss", "pcirdcur_hit", "pcirdcur_miss",
    "remote_writes", "remote_reads", "mmio_writes", "mmio_reads",
    "drd_hit", "drd_miss", "crd_hit", "crd_miss",
    "packets", "missed", "frames", "emc_hits", "megaflow_hits", "upcalls", "lost_upcalls",
    "work_cycles", "run_ns", "wait_ns", "involuntary",
    "user_s", "system_s", "softirq_s",
)  # fmt: skip
INDEX: Mapping[str, int] = {name: index for index, name in enumerate(QUANTITIES)}

# Quantities that vary with the packet rate; fused pairs vary with instructions, so that the share
# of heavy operations is constant.
SWINGING: tuple[str, ...] = (
    "instructions", "packets", "frames", "emc_hits", "megaflow_hits", "upcalls", "lost_upcalls",
    "llc_misses", "cas_reads", "cas_writes", "itom_hit",
    "itom_miss", "rfo_hit", "rfo_miss", "itomcachenear_hit", "itomcachenear_miss",
    "pcirdcur_hit", "pcirdcur_miss", "remote_writes", "remote_reads", "mmio_writes",
    "drd_hit", "drd_miss", "crd_hit", "crd_miss",
)  # fmt: skip

_LINE_BYTES = 64
_SLOTS_PER_CYCLE = 4
# Share of I/O that misses the cache; the paper says only that DDIO is effective.
IO_MISS_RATIO = 0.005
# Requests of devices, each with hits and misses.
IO_REQUESTS = ("itom", "rfo", "itomcachenear", "pcirdcur")
# Share of partial line writes that later CPUs receive as ItoMCacheNear; an assumption.
_NEAR_RATIO = 0.95
# Share of devices' lines with buffers in the other package's memory.
REMOTE_RATIO = 0.01
# Two doorbells per burst, for received and sent packets; full bursts are assumed.
_MMIO_WRITES_PER_PACKET = 2 / 32
# Core data reads that hit, per line that a device reads: Figure 23 of the FD.io paper, 102 M / 45
# M; and hits per miss.
_DATA_READS_PER_PCIRDCUR = 102 / 45
_DATA_READ_HITS_PER_MISS = 2.0
# Code reads beyond a core's own caches; assumptions.
_CODE_READS_PER_INSTRUCTION, _CODE_MISS_RATIO = 2e-5, 0.01
# Latency of memory at 2.2 GHz, some 90 ns; an assumption.
_CYCLES_PER_MISS = 200.0
# Recovery is half the cost of bad speculation, some twenty cycles per incident.
_RECOVERY_SHARE, _CYCLES_PER_INCIDENT = 0.5, 20.0
# Shares of memory stalls on stores, and of core stalls with no port and one port busy.
_STORE_SHARE, _NO_PORT_SHARE, _ONE_PORT_SHARE = 0.1, 0.4, 0.4
# Stalls on loads; assumptions. Half of a memory access overlaps other work, and stalls are never
# all for memory. The rest is mostly for the last-level cache, where devices put descriptors and
# headers.
_EXPOSED_RATIO, _MEMORY_AT_MOST = 0.5, 0.9
_L1_WAIT_SHARE, _L2_WAIT_SHARE = 0.3, 0.1
# Latency of a load from the second and the last-level cache.
_CYCLES_PER_L2_HIT, _CYCLES_PER_L3_HIT = 14.0, 70.0


@dataclass(frozen=True, slots=True)
class Workload:
    """One column of the paper's tables, for a whole physical core.

    Attributes:
        ipc: instructions per core cycle.
        packets_per_cycle: 0 if it forwards nothing.
        slots: share of pipeline slots by node name, 0..1; the four of level 1 sum to 1.
        bytes_per_cycle: memory traffic.
        pcie_writes_per_packet, pcie_reads_per_packet: transactions.
        frame_lines: of the writes, those of whole lines at most.
    """

    ipc: float
    packets_per_cycle: float
    slots: Mapping[str, float]
    bytes_per_cycle: float
    pcie_writes_per_packet: float
    pcie_reads_per_packet: float
    frame_lines: float = 1.0


@functools.cache
def tables() -> Mapping[str, Any]:
    """`workloads.toml`: workloads by name, and `core_hz`."""
    return tomllib.loads(data_file(__package__, "workloads.toml").decode())


def core_hz() -> float:
    """Frequency of the paper's cores."""
    return float(tables()["core_hz"])


def names() -> tuple[str, ...]:
    """Workloads that forward packets."""
    return tuple(n for n, table in tables().items() if isinstance(table, dict) and "plain" in table)


def names_of_vpp() -> tuple[str, ...]:
    """Workloads with graph nodes, as VPP needs."""
    return tuple(name for name in names() if "nodes" in tables()[name])


@functools.cache
def load(name: str, *, ht: bool = False) -> Workload:
    """The workload called `name`; `ht`: run by both threads of a core.

    Raises:
        KeyError: unknown name.
    """
    table = tables()[name]
    row = table.get("ht" if ht else "plain", table)
    packets_per_cycle = row["mpps"] * 1e6 / core_hz() if "mpps" in row else 0.0
    packets_per_cycle = 1.0 / row["cpp"] if "cpp" in row else packets_per_cycle
    ipc = row["ipc"] if "ipc" in row else row["ipp"] * packets_per_cycle
    per_packet = table.get("memory_bytes_per_packet", 0.0)
    slots = {node: percent / 100 for node, percent in row["percent"].items()}
    rest = slots["retiring"] + slots["bad_speculation"] + slots["frontend_bound"]
    return Workload(
        ipc=ipc,
        packets_per_cycle=packets_per_cycle,
        slots=slots | {"backend_bound": 1.0 - rest},
        bytes_per_cycle=per_packet * packets_per_cycle + table.get("memory_bytes_per_cycle", 0.0),
        pcie_writes_per_packet=table.get("pcie_writes", 0.0),
        pcie_reads_per_packet=table.get("pcie_reads", 0.0),
    )


def with_frames(work: Workload, frame_bytes: int) -> Workload:
    """The workload with frames of this size, at the same cost.

    A NIC writes frame, receive descriptor and a 16th of a transmit descriptor, and reads the frame
    and two descriptors, as in the FD.io paper's Table 16; here lines in proportion to the bytes.
    """
    return replace(
        work,
        pcie_writes_per_packet=(frame_bytes + 17) / _LINE_BYTES,
        pcie_reads_per_packet=(frame_bytes + 32) / _LINE_BYTES,
        frame_lines=frame_bytes / _LINE_BYTES,
    )


def working_set_bytes(name: str) -> float:
    """Bytes of last-level cache that a thread of this workload fills if alone."""
    return float(tables()[name].get("working_set_kib", 0.0)) * 1024


def slowed(work: Workload, factor: float) -> Workload:
    """The workload with `factor` times the cycles per packet, all of them waiting.

    Instructions and slots are the same over more cycles; the added cycles are memory bound. A
    factor below 1 removes such waits, down to `least_cost`.
    """
    # Existing waits were partly hidden behind other work.
    cycles = _CYCLES_PER_MISS * (1.0 if factor > 1.0 else _EXPOSED_RATIO)
    slower = throttled(work, factor)
    # Each miss reads a line and writes one back.
    lines = 2 * _LINE_BYTES * (1.0 - 1.0 / factor) / cycles
    return replace(slower, bytes_per_cycle=max(slower.bytes_per_cycle + lines, 0.0))


def throttled(work: Workload, factor: float) -> Workload:
    """The workload with `factor` times the cycles, which wait for memory bandwidth."""
    slots = {node: share / factor for node, share in work.slots.items()}
    added = 1.0 - 1.0 / factor
    slots["backend_bound"] += added
    slots["memory_bound"] += added
    return replace(
        work,
        ipc=work.ipc / factor,
        packets_per_cycle=work.packets_per_cycle / factor,
        slots=slots,
        bytes_per_cycle=work.bytes_per_cycle / factor,
    )


def least_cost(work: Workload) -> float:
    """The factor (0..1] of `slowed` at which nothing waits for memory."""
    waiting = work.bytes_per_cycle / (2 * _LINE_BYTES) * _CYCLES_PER_MISS * _EXPOSED_RATIO
    return 1.0 - min(waiting, work.slots["memory_bound"])


def cache_sensitivity(name: str, otherwise: float) -> float:
    """Relative increase of a packet's cost without cache; see `rdt`."""
    return float(tables()[name].get("cache_sensitivity", otherwise))


def per_cycle(work: Workload) -> Floats:
    """Events per core cycle, shape (len(QUANTITIES),).

    Each count is what makes the vendor's top-down formulas for Skylake-SP give `work.slots` back;
    of a formula with several unknowns the shares above settle the rest.
    """
    lines = work.bytes_per_cycle / _LINE_BYTES / 2  # as many are read as written
    values = _pipeline(work) | _stalls(work, lines) | _traffic(work, lines)
    import numpy as np  # noqa: PLC0415 - `cat show` needs none of it

    vector = np.zeros(len(QUANTITIES))
    for name, value in values.items():
        vector[INDEX[name]] = value
    return vector


def _pipeline(work: Workload) -> dict[str, float]:
    slots, width = work.slots, _SLOTS_PER_CYCLE
    bad, retiring = slots["bad_speculation"], slots["retiring"]
    recovery = bad * _RECOVERY_SHARE
    incidents = bad * _RECOVERY_SHARE / _CYCLES_PER_INCIDENT
    mispredicted = min(slots["mispredicts"] / bad, 1.0)
    return {
        "cycles": 1.0,
        "instructions": work.ipc,
        "slots_not_delivered": width * slots["frontend_bound"],
        "cycles_none_delivered": slots["fetch_latency"],
        "uops_issued": width * (retiring + bad - recovery),
        "retire_slots": width * retiring,
        "recovery_cycles": recovery,
        "mispredicts": incidents * mispredicted,
        "machine_clears": incidents * (1.0 - mispredicted),
        "macro_fused": work.ipc + width * (slots["heavy"] - retiring),
        # Microcode uops are discarded in the same proportion as all.
        "microcode_uops": width * slots["heavy"] * (retiring + bad - recovery) / retiring,
    }


def _stalls(work: Workload, lines: float) -> dict[str, float]:
    slots = work.slots
    memory = min(slots["memory_bound"], slots["backend_bound"])
    core = slots["backend_bound"] - memory
    waiting = memory * (1.0 - _STORE_SHARE)
    memory_wait = min(lines * _CYCLES_PER_MISS * _EXPOSED_RATIO, waiting * _MEMORY_AT_MOST)
    cache_wait = waiting - memory_wait
    l3_wait = cache_wait * (1.0 - _L1_WAIT_SHARE - _L2_WAIT_SHARE)
    l2_loads = cache_wait * _L2_WAIT_SHARE / _CYCLES_PER_L2_HIT
    return {
        "stalls_memory": waiting,
        "stalls_l1_miss": memory_wait + cache_wait * (1.0 - _L1_WAIT_SHARE),
        "stalls_l2_miss": memory_wait + l3_wait,
        "stalls_l3_miss": memory_wait,
        "loads_l2_hit": l2_loads,
        "loads_l1_miss": l2_loads + l3_wait / _CYCLES_PER_L3_HIT + lines,
        "stalls_total": waiting + core * _NO_PORT_SHARE,
        "stalls_store": memory * _STORE_SHARE,
        "one_port": core * _ONE_PORT_SHARE,
        "two_ports": core * (1.0 - _NO_PORT_SHARE - _ONE_PORT_SHARE) / slots["retiring"],
        "executed_few": core * (1.0 - _NO_PORT_SHARE),
    }


def _traffic(work: Workload, lines: float) -> dict[str, float]:
    packets = work.packets_per_cycle
    writes, reads = work.pcie_writes_per_packet, work.pcie_reads_per_packet
    partial = packets * max(writes - work.frame_lines, 0.0)
    return {
        "llc_misses": lines,
        "cas_reads": lines,
        "cas_writes": lines,
        **_hits("itom", packets * min(writes, work.frame_lines)),
        **_hits("rfo", partial * (1 - _NEAR_RATIO)),
        **_hits("itomcachenear", partial * _NEAR_RATIO),
        **_hits("pcirdcur", packets * reads),
        "remote_writes": packets * writes * REMOTE_RATIO,
        "remote_reads": packets * reads * REMOTE_RATIO,
        "mmio_writes": packets * _MMIO_WRITES_PER_PACKET,
        "drd_hit": packets * reads * _DATA_READS_PER_PCIRDCUR + lines * _DATA_READ_HITS_PER_MISS,
        "drd_miss": lines,
        **_hits("crd", work.ipc * _CODE_READS_PER_INSTRUCTION, _CODE_MISS_RATIO),
        "packets": packets,
    }


def _hits(kind: str, requests: float, miss_ratio: float = IO_MISS_RATIO) -> dict[str, float]:
    return {f"{kind}_hit": requests * (1 - miss_ratio), f"{kind}_miss": requests * miss_ratio}
