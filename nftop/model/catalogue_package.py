"""The metrics of a package: its memory, and what devices ask of it over PCIe."""

from __future__ import annotations

from typing import Literal

from nftop.model.metric import Metric, Unit


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


def _requests(opcode: str, label: str, what: str) -> tuple[Metric, ...]:
    def one(end: str, mark: str, which: str, good: Literal["high", "low"] | None = None) -> Metric:
        meaning = f"Requests of devices per second {what}, {which}."
        return _metric(
            f"pcie.{opcode}.{end}_per_s", f"{label}{mark}", Unit.REQUESTS_PER_S, meaning, good
        )

    return (
        one("hit", ".hit", "that found their line in the last-level cache", "high"),
        one("miss", ".mis", "that did not find their line in the last-level cache", "low"),
        one("total", "", "hits and misses together"),
    )


_BYTES = Unit.BYTES_PER_S
PACKAGE_METRICS: tuple[Metric, ...] = (
    _metric("memory.read_bytes_per_s", "MEM.rd", _BYTES, "Bytes read from memory per second."),
    _metric("memory.write_bytes_per_s", "MEM.wr", _BYTES, "Bytes written to memory per second."),
    _metric("pcie.read_bytes_per_s", "PCI.rd", _BYTES, "Bytes that devices read per second."),
    _metric("pcie.write_bytes_per_s", "PCI.wr", _BYTES, "Bytes that devices wrote per second."),
    *_requests("itom", "ItoM", "to write whole cache lines (ItoM)"),
    *_requests("rfo", "RFO", "to write parts of cache lines (RFO)"),
    *_requests("pcirdcur", "RdC", "to read cache lines (PCIRdCur)"),
)
