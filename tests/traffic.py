"""Frames whose packages have memory, devices and links."""

from __future__ import annotations

from dataclasses import replace

from nftop.model.frame import BoxTraffic, Frame, PackageRow
from nftop.model.ids import Package
from nftop.model.metrics.metric import Metric, Unit
from nftop.model.metrics.package import PACKAGE_METRICS
from nftop.model.missing import Missing, Reading, Reason

NO_UNIT = Missing(Reason.HARDWARE, "this CPU's uncore can't tell")
TAKEN = Missing(Reason.TAKEN, "another program holds the counters of uncore_imc")


def with_traffic(base: Frame, *, channels: int = 4, links: int = 2) -> Frame:
    """`base` with numbers in every package; they differ by package and tick.

    Requests of devices are estimates. Package 1 and above can't count MMIO, and one channel of
    package 0 is another program's.
    """
    tick = (base.monotonic_ns // 1_000_000_000) % 60
    return replace(
        base,
        packages=tuple(
            _package(Package(number), tick, channels, links) for number in base.topology.packages
        ),
    )


def _package(package: Package, tick: int, channels: int, links: int) -> PackageRow:
    share = (1 + tick / 60) / (1 + package)
    readings: dict[str, Reading] = {
        metric.id: _reading(metric, index, share) for index, metric in enumerate(PACKAGE_METRICS)
    }
    for metric in PACKAGE_METRICS:
        if metric.id.endswith(".total_per_s"):
            head = metric.id.removesuffix("total_per_s")
            hit, miss = (readings[f"{head}{end}_per_s"] for end in ("hit", "miss"))
            assert isinstance(hit, float) and isinstance(miss, float)
            readings[metric.id] = hit + miss
        if package and metric.id.startswith("mmio."):
            readings[metric.id] = NO_UNIT
    return PackageRow(
        package,
        readings,
        frozenset(name for name in readings if name.startswith("pcie.") and "bytes" not in name),
        tuple(_channel(number, package, share) for number in range(channels)),
        tuple(BoxTraffic(number, 4.5e9 * share, 3e9 * share) for number in range(links)),
    )


def _reading(metric: Metric, index: int, share: float) -> float:
    if metric.unit is Unit.RATIO:
        return 0.973 / (1 + share)
    sizes = {Unit.BYTES_PER_S: 4e10, Unit.PER_PACKET: 60.0, Unit.BYTES_PER_PACKET: 900.0}
    return sizes.get(metric.unit, 1.5e8) * share / (1 + index)


def _channel(number: int, package: Package, share: float) -> BoxTraffic:
    if number == 3 and not package:
        return BoxTraffic(number, TAKEN, TAKEN)
    return BoxTraffic(number, 6e9 * share, 2e9 * share / (1 + number))
