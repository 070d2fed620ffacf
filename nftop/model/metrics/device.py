"""Traffic of devices by root port: what the units between devices and the mesh (IIO) count.

The four events are those of `perf iostat` (tools/perf/Documentation/perf-iostat.txt), here of each
part of a stack; which root port a stack serves is in uncore_iio_*/die* of sysfs
(Documentation/ABI/testing/sysfs-devices-mapping).
"""

from __future__ import annotations

from nftop.model.metrics.metric import Metric, Unit
from nftop.model.missing import Missing, Reason

_BEHIND = "All devices behind the root port together."
# By metric, the event of the CPU's table.
DEVICE_EVENTS = {
    "dma_write_bytes_per_s": "inbound_write",
    "dma_read_bytes_per_s": "inbound_read",
    "mmio_write_bytes_per_s": "outbound_write",
    "mmio_read_bytes_per_s": "outbound_read",
}
NO_MISSES = Missing(
    Reason.HARDWARE,
    "no counter has misses of a device: stacks count its bytes, and hits and misses in the "
    "last-level cache are counted for all devices of a socket (pcie.itom, pcie.pcirdcur)",
)


def _row(name: str, label: str, meaning: str, direction: str) -> Metric:
    return Metric(
        id=name,
        label=label,
        unit=Unit.BYTES_PER_S,
        scope="device",
        meaning=meaning,
        formula=f"4 * {DEVICE_EVENTS[name]}",
        origin=f"perf uncore_iio_N, {direction}, of the root port alone (ch_mask)",
    )


DEVICE_METRICS: tuple[Metric, ...] = (
    _row(
        "dma_write_bytes_per_s", "WRITE",
        f"Bytes per second that devices write to memory: received packets. {_BEHIND}",
        "UNC_IIO_DATA_REQ_OF_CPU.MEM_WRITE",
    ),
    _row(
        "dma_read_bytes_per_s", "READ",
        "Bytes per second that devices read from memory: packets to send, and descriptors. "
        f"{_BEHIND}",
        "UNC_IIO_DATA_REQ_OF_CPU.MEM_READ",
    ),
    _row(
        "mmio_write_bytes_per_s", "MMIO WR",
        f"Bytes per second that CPUs write to registers of devices: doorbells. {_BEHIND}",
        "UNC_IIO_DATA_REQ_BY_CPU.MEM_WRITE",
    ),
    _row(
        "mmio_read_bytes_per_s", "MMIO RD",
        "Bytes per second that CPUs read from registers of devices; each such read makes a core "
        f"wait. {_BEHIND}",
        "UNC_IIO_DATA_REQ_BY_CPU.MEM_READ",
    ),
    Metric(
        id="dma_miss_per_s", label="MISS", unit=Unit.REQUESTS_PER_S, scope="device",
        meaning="Requests of a device that miss the last-level cache. No CPU counts them by "
        "device; of all devices of a socket they are pcie.itom.miss_per_s and its like.",
        formula="none: no counter has it",
        origin="the vendor's event files, which have no such event",
        good="low",
    ),
)  # fmt: skip
