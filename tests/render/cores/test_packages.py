"""The panel of memory and PCIe."""

from __future__ import annotations

from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.frame import Frame, PackageRow
from nftop.model.ids import Package
from nftop.model.metrics.package import PACKAGE_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.render.pages.batch_text import frame_text, package_lines
from tests.frames import frame


def _with_traffic() -> Frame:
    sizes = {
        "memory.read_bytes_per_s": 96.4e9,
        "memory.write_bytes_per_s": 52.1e6,
        "pcie.ddio_hit_ratio": 0.834,
    }
    full: dict[str, Reading] = {
        metric.id: sizes.get(metric.id, 1.5e8 / (1 + location))
        for location, metric in enumerate(PACKAGE_METRICS)
    }
    full |= {name: Missing(Reason.HARDWARE) for name in full if "itomcachenear" in name}
    none = Missing(Reason.PERMISSION, "run as root")
    component = {
        name: none if name.startswith("pcie") and not isinstance(value, Missing) else value
        for name, value in full.items()
    }
    shared = frozenset(name for name in full if name.startswith("pcie"))
    rows = (PackageRow(Package(0), full, shared), PackageRow(Package(1), component))
    return replace(frame(8, 3, packages=2), packages=rows)


@pytest.mark.parametrize("width", [120, 200])
def test_panel(width: int, snapshot: SnapshotAssertion) -> None:
    lines = package_lines(_with_traffic(), width)
    assert "\n".join(line.text for line in lines) == snapshot


@pytest.mark.parametrize("width", range(1, 140, 7))
def test_it_stays_within_its_width(width: int) -> None:
    assert all(line.width <= width for line in package_lines(_with_traffic(), width))


def test_no_noise_where_no_package_has_a_value() -> None:
    gone: dict[str, Reading] = {metric.id: Missing(Reason.SOURCE) for metric in PACKAGE_METRICS}
    empty = replace(frame(8, 3), packages=(PackageRow(Package(0), gone),))
    assert package_lines(empty, 200) == []
    assert frame_text(empty, 120, False) == frame_text(frame(8, 3), 120, False)
    assert "SOCKET" in frame_text(_with_traffic(), 120, False)
