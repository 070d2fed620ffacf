"""Metrics of packages: memory, and PCIe requests of devices."""

from __future__ import annotations

from typing import Literal

from nftop.model.metrics.metric import Metric, Unit


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
PACKAGE_METRICS: tuple[Metric, ...] = (
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
