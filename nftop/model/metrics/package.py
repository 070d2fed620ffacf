"""Metrics of packages: memory, PCIe requests of devices, and what a packet takes of them."""

from __future__ import annotations

from typing import Literal

from nftop.model.metrics.metric import Metric, Unit
from nftop.model.metrics.probes import PAPER


def _metric(
    name: str, label: str, unit: Unit, meaning: str, good: Literal["high", "low"] | None = None
) -> Metric:
    return Metric(
        id=name,
        label=label,
        unit=unit,
        scope="package",
        meaning=meaning,
        formula=f"{name} of the CPU's table",
        origin="uncore events and formulas in nftop/uarch, by microarchitecture",
        good=good,
    )


def _requests(family: str, opcode: str, label: str, agent: str, what: str) -> tuple[Metric, ...]:
    def one(end: str, mark: str, which: str, good: Literal["high", "low"] | None = None) -> Metric:
        meaning = f"Requests of {agent} per second {what}, {which}."
        return _metric(
            f"{family}.{opcode}.{end}_per_s", f"{label}{mark}", Unit.REQUESTS_PER_S, meaning, good
        )

    return (
        one("hit", ".hit", "that found their line in the last-level cache", "high"),
        one("miss", ".mis", "that did not find their line in the last-level cache", "low"),
        one("total", "", "hits and misses together"),
    )


def _rate(name: str, label: str, meaning: str) -> Metric:
    # Often so few that a number in millions would say nothing.
    return _metric(name, label, Unit.PER_S, meaning)


_BYTES = Unit.BYTES_PER_S
_CODE, _DATA = "to read code (CRd)", "to read data (DRd)"
COUNTED_PACKAGE_METRICS: tuple[Metric, ...] = (
    _metric("memory.read_bytes_per_s", "MEM.rd", _BYTES, "Bytes read from memory per second."),
    _metric("memory.write_bytes_per_s", "MEM.wr", _BYTES, "Bytes written to memory per second."),
    _metric("pcie.read_bytes_per_s", "PCI.rd", _BYTES, "Bytes that devices read per second."),
    _metric("pcie.write_bytes_per_s", "PCI.wr", _BYTES, "Bytes that devices wrote per second, "
            "a part of a cache line counted as a whole one."),
    _metric(
        "pcie.ddio_hit_ratio",
        "DDIO",
        Unit.RATIO,
        "Share of devices' writes (ItoM, ItoMCacheNear where there is such, and RFO) that found "
        "their line in the last-level cache. The others had a line allocated for them, and another "
        "one thrown out: where it is low, packets wait in memory.",
        "high",
    ),
    *_requests("pcie", "itom", "ItoM", "devices", "to write whole cache lines (ItoM)"),
    *_requests("pcie", "rfo", "RFO", "devices", "to write parts of cache lines (RFO)"),
    *_requests("pcie", "pcirdcur", "RdC", "devices", "to read cache lines (PCIRdCur)"),
    *_requests(
        "pcie", "itomcachenear", "ICN", "devices",
        "to write parts of cache lines (ItoMCacheNear)",
    ),
    *_requests("pcie", "crd", "PCRd", "devices", _CODE),
    *_requests("pcie", "drd", "PDRd", "devices", _DATA),
    *_requests("llc", "crd", "CRd", "cores", _CODE),
    *_requests("llc", "drd", "DRd", "cores", _DATA),
    _rate(
        "mmio.read_per_s",
        "MMIO.rd",
        "Reads of devices' registers by cores per second (PRd, UCRdF). A core waits for each.",
    ),
    _rate(
        "mmio.write_per_s",
        "MMIO.wr",
        "Writes to devices' registers by cores per second (WiL): doorbells.",
    ),
    _rate(
        "mmio.combined_write_per_s",
        "MMIO.wc",
        "Combined writes to devices' memory by cores per second, of parts of lines and of whole "
        "ones (WCiL, WCiLF).",
    ),
    _metric(
        "upi.received_bytes_per_s",
        "UPI.in",
        _BYTES,
        "Bytes of data that came from other packages per second (UPI or QPI), over all links; "
        "without requests, responses and snoops.",
    ),
    _metric(
        "upi.sent_bytes_per_s",
        "UPI.out",
        _BYTES,
        "Bytes of data that went to other packages per second (UPI or QPI), over all links; "
        "without requests, responses and snoops.",
    ),
)  # fmt: skip

_OF_ALL = (
    "Over the packets of all network functions that poll on the package; all devices and programs "
    "of the package count. There is no number where the packets of one of them are unknown, or "
    "the kernel's NICs there carry more than 5 % beside them ('~' from 0.1 % on, and where a "
    "poller is no known network function)."
)
_LINES = (
    "Counters count whole lines of 64 bytes, so 60 bytes of a 64-byte frame (without checksum) are "
    "one line."
)
_EQ23 = (
    f"{PAPER}, equation 23: A (frame) + B (receive descriptor, 16) + C (transmit descriptor, 16 a "
    "packet or 1 if one in 16 is written back) bytes; 64-byte frames: 81 bytes, 1.27 lines "
    "(Table 16). Measured there: 1.40 to 1.83 (Table 7), as a descriptor alone takes a line"
)
_EQ24 = (
    f"{PAPER}, equation 24: D (frame) + E + F (descriptors, 16 each) bytes. With D less the 4 "
    "bytes of checksum, as its text has it, 64-byte frames at 14.88 Mpps read 1369 MB/s; Table 16 "
    "prints 1429 MB/s, with the whole frame. nftop uses that of the table: 96 bytes, 1.50 lines. "
    f"{_LINES} Measured there: 1.50 to 1.78 (Table 7)"
)
_SECTION = f"{PAPER}, 3.4"


def _per_packet(
    name: str, label: str, meaning: str, *, formula: str, origin: str, unit: Unit = Unit.PER_PACKET
) -> Metric:
    return Metric(
        id=f"per_packet.{name}",
        label=label,
        unit=unit,
        scope="package",
        meaning=f"{meaning} {_OF_ALL}",
        formula=f"{formula} / packets_per_s of the package's network functions",
        origin=origin,
        good="low",
    )


_LINKS = f"{PAPER}, 3.4 and 4.6"
_MBM = "resctrl mon_data mbm_total_bytes, or MSRs (pqos)"
PER_PACKET_METRICS: tuple[Metric, ...] = (
    _per_packet(
        "pcie_writes", "PWR/pkt",
        "Lines that devices write for a packet, a part of a line counted as a whole one. None if "
        "there are fewer than packets received: those came by devices of another package, or by "
        "virtual ports.",
        formula="pcie.write_bytes_per_s / 64", origin=_EQ23,
    ),
    _per_packet(
        "pcie_partial_writes", "PART/pkt",
        "Writes of parts of lines by devices for a packet: descriptors, in most cases.",
        formula="(pcie.rfo.total_per_s + pcie.itomcachenear.total_per_s)",
        origin=f"{PAPER}, 8.1 and Table 17 (RFO)",
    ),
    _per_packet(
        "pcie_reads", "PRD/pkt", "Lines that devices read for a packet.",
        formula="pcie.read_bytes_per_s / 64", origin=_EQ24,
    ),
    _per_packet(
        "mmio_writes", "MMIO/pkt",
        "Writes to devices' registers by cores for a packet: two in 32 with full bursts.",
        formula="mmio.write_per_s", origin=f"{PAPER}, 8.1.2 and Table 17 (WiL)",
    ),
    _per_packet(
        "memory_read_bytes", "MRD/pkt", "Bytes read from memory for a packet.",
        formula="memory.read_bytes_per_s", origin=_SECTION, unit=Unit.BYTES_PER_PACKET,
    ),
    _per_packet(
        "memory_write_bytes", "MWR/pkt", "Bytes written to memory for a packet.",
        formula="memory.write_bytes_per_s", origin=_SECTION, unit=Unit.BYTES_PER_PACKET,
    ),
    _per_packet(
        "memory_bytes", "MEM/pkt", "Bytes read from and written to memory for a packet.",
        formula="(memory.read_bytes_per_s + memory.write_bytes_per_s)",
        origin=f"{PAPER}, 3.4 and Table 6 (MB/s over Mpps): 0.1 to 1.3; 31 with VPP's IPv4 routing",
        unit=Unit.BYTES_PER_PACKET,
    ),
    _per_packet(
        "nf_memory_bytes", "MNF/pkt",
        "Memory traffic of the cache classes in which network functions poll, for a packet; other "
        "CPUs of these classes count too, devices do not.",
        formula="sum(mbm_total_bytes_per_s of these classes)", origin=_MBM,
        unit=Unit.BYTES_PER_PACKET,
    ),
    _per_packet(
        "other_memory_bytes", "MOTH/pkt",
        "Memory traffic of the cache classes in which no network function polls, over the "
        "packets: what MEM/pkt has of others. From 5 % of the package's traffic on, MEM/pkt, "
        "MRD/pkt and MWR/pkt are marked '~'.",
        formula="sum(mbm_total_bytes_per_s of these classes)", origin=_MBM,
        unit=Unit.BYTES_PER_PACKET,
    ),
    _per_packet(
        "upi_received_bytes", "UPIi/pkt",
        "Bytes of data that come from other packages for a packet.",
        formula="upi.received_bytes_per_s", origin=_LINKS, unit=Unit.BYTES_PER_PACKET,
    ),
    _per_packet(
        "upi_sent_bytes", "UPIo/pkt", "Bytes of data that go to other packages for a packet.",
        formula="upi.sent_bytes_per_s", origin=_LINKS, unit=Unit.BYTES_PER_PACKET,
    ),
)  # fmt: skip


def _utilisation(name: str, label: str, meaning: str, formula: str, origin: str) -> Metric:
    return Metric(
        id=f"utilisation.{name}_ratio",
        label=label,
        unit=Unit.RATIO,
        scope="package",
        meaning=meaning,
        formula=formula,
        origin=origin,
        good="low",
    )


_OF_MEMORY = (
    "channels x transfers x 8 bytes, by SMBIOS (type 17: modules up to the family's channels, "
    "configured speed of the slowest), or --memory-peak (memory_peak_gbs in the configuration), "
    "else the fastest that the CPU family supports ('~': a lower bound); FD.io paper, 7.1: some 70 "
    "GB/s on a Xeon E5-2699 v4"
)
_OF_LINKS = (
    "links x transfers x 2 bytes in a direction (3 bytes from Sapphire Rapids on), at the CPU "
    "family's highest published speed ('~': a lower bound)"
)
_OF_SLOTS = (
    "sysfs current_link_speed x current_link_width x coding (8/10, 128/130), of all slots with "
    "network devices on the package's NUMA nodes"
)
_ALL_SLOTS = (
    "Of several slots it is the mean, and other devices' requests count too; headers of PCI "
    "Express packets do not."
)
UTILISATION_METRICS: tuple[Metric, ...] = (
    _utilisation(
        "memory", "MEM%", "Share of its peak bandwidth that memory has, read and written.",
        "(memory.read_bytes_per_s + memory.write_bytes_per_s) / peak", _OF_MEMORY,
    ),
    _utilisation(
        "pcie_read", "PRD%", "Share of the NICs' slots that devices' reads take of their "
        f"bandwidth. {_ALL_SLOTS}", "pcie.read_bytes_per_s / sum of slots", _OF_SLOTS,
    ),
    _utilisation(
        "pcie_write", "PWR%", "Share of the NICs' slots that devices' writes take of their "
        f"bandwidth. {_ALL_SLOTS}", "pcie.write_bytes_per_s / sum of slots", _OF_SLOTS,
    ),
    _utilisation(
        "upi_received", "UPIin%", "Share of its links that data from other packages take, "
        "without requests, responses and snoops.", "upi.received_bytes_per_s / peak", _OF_LINKS,
    ),
    _utilisation(
        "upi_sent", "UPIout%", "Share of its links that data to other packages take, without "
        "requests, responses and snoops.", "upi.sent_bytes_per_s / peak", _OF_LINKS,
    ),
)  # fmt: skip

PACKAGE_METRICS: tuple[Metric, ...] = (
    *COUNTED_PACKAGE_METRICS,
    *PER_PACKET_METRICS,
    *UTILISATION_METRICS,
)
