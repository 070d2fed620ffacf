"""The lines of the Traffic screen."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from syrupy.assertion import SnapshotAssertion

from nftop.export.json.frame import frame_json
from nftop.model.frame import DeviceRow, Frame, PackageRow, SourceState
from nftop.model.ids import Package
from nftop.model.metrics.device import DEVICE_EVENTS, NO_MISSES
from nftop.model.metrics.metric import Metric, Unit
from nftop.model.metrics.package import PACKAGE_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.pci_device import PcieDevice
from nftop.model.pcie import UNKNOWN, RootPort
from nftop.render.pages.batch_text import frame_text
from nftop.render.pages.help import explain_device_lines
from nftop.render.traffic.page import (
    TRAFFIC_METRICS,
    TrafficLines,
    TrafficRow,
    absence_lines,
    by_traffic,
    device_absences,
    device_lines,
    hit_ratio,
    sections,
    traffic,
)
from tests.frames import frame
from tests.sim.hosts import Frozen, S
from tests.traffic import NO_UNIT, TAKEN, with_traffic


def past(metric: str, package: Package, points: int, span_s: float) -> NDArray[np.float32]:
    """A ramp to 1e8 with a gap, whatever is asked for."""
    assert (
        metric in {package_metric.id for package_metric in PACKAGE_METRICS}
        and package >= 0
        and span_s >= points
    )
    values = np.linspace(0.0, 1e8, points, dtype=np.float32)
    values[points // 2] = np.nan
    return values


def drawn(frame: Frame, width: int) -> TrafficLines:
    return traffic(frame, width, past, 1.0)


def text_of(shown: TrafficLines) -> str:
    return "\n".join(line.text.rstrip() for line in shown.lines)


def host(packages: int) -> Frame:
    return with_traffic(frame(8 * packages, 20, packages=packages))


@pytest.mark.parametrize(
    ("packages", "width"), [(1, 80), (2, 80), (2, 120), (4, 80), (4, 200), (8, 120), (2, 40)]
)
def test_lines(packages: int, width: int, snapshot: SnapshotAssertion) -> None:
    assert text_of(drawn(host(packages), width)) == snapshot


@cache
def with_devices() -> Frame:
    """Cascade Lake's; one more port is behind the chipset, and a name is hostile."""
    demo = Frozen(cpus=44, processor="gold-6230n")
    seen = [demo.tick(S) for _ in range(3)][-1]
    why = Missing(Reason.HARDWARE, "behind the chipset")
    odd = PcieDevice("0000:01:00.0", "igb", ("e\x1b[1m",))
    port = RootPort("0000:00:1c.0", UNKNOWN, UNKNOWN, UNKNOWN, (odd,), 1, why)
    absent = dict.fromkeys(DEVICE_EVENTS, why) | {"dma_miss_per_s": NO_MISSES}
    row = DeviceRow(port, (), absent)
    return replace(seen, devices=(*seen.devices, row))


@pytest.mark.parametrize("width", [40, 80, 140])
def test_devices(width: int, snapshot: SnapshotAssertion) -> None:
    shown = with_devices()
    lines = [*device_lines(by_traffic(shown.devices), width), *device_absences(shown, width)]
    assert all(line.width <= width for line in lines)
    assert "\n".join(line.text.rstrip() for line in lines) == snapshot


def test_devices_are_behind_pcie_and_can_be_pointed_at() -> None:
    shown = traffic(with_devices(), 120, lambda *_: np.zeros(0, np.float32), 1.0)
    at = [index for index, row in enumerate(shown.rows) if isinstance(row, DeviceRow)]
    rows = by_traffic(with_devices().devices)
    assert [shown.rows[index] for index in at] == list(rows)
    moved = [row.readings["dma_write_bytes_per_s"] for row in rows]
    known = [value for value in moved if not isinstance(value, Missing)]
    assert known[0] == max(known) > 0 and known[-1] == min(known)
    assert at == list(range(at[0], at[0] + 7))
    above = next(row for row in reversed(shown.rows[: at[0]]) if isinstance(row, TrafficRow))
    assert above.main.id.startswith("pcie.")


def test_text_of_a_frame_has_the_devices_behind_its_packages() -> None:
    text = frame_text(with_devices(), 140, False).split("\n")
    at = next(index for index, item in enumerate(text) if item.startswith("Devices GB/s"))
    lines = device_lines(by_traffic(with_devices().devices), 140)
    assert text[at : at + 8] == [item.text.rstrip() for item in lines]
    assert not any(item.startswith("Devices") for item in frame_text(host(1), 140, False))


@pytest.mark.parametrize("port", ["0000:10:00.0", "0000:00:1c.0"])
def test_a_device_is_explained(port: str, snapshot: SnapshotAssertion) -> None:
    row = next(row for row in with_devices().devices if row.port.address == port)
    lines = explain_device_lines(with_devices(), row, 80)
    assert all(line.width <= 80 for line in lines)
    assert "\n".join(line.text.rstrip() for line in lines[:16]) == snapshot


def test_a_device_with_little_traffic_has_digits() -> None:
    (row, *_) = with_devices().devices
    for value, text in ((3.21e6, "3.2MB/s"), (412e3, "412kB/s"), (0.0, " 0"), (2e9, "2.00")):
        readings = {**row.readings, "mmio_write_bytes_per_s": value}
        one = replace(row, readings=readings, estimates=frozenset())
        assert text in device_lines((one,), 140)[1].text


def test_no_devices_have_a_reason() -> None:
    base = host(1)
    first = next(line for line in absence_lines(base, 200)[1:])
    assert first.text.endswith("(IIO: Skylake and later Xeons)")
    demo = Frozen(cpus=8).tick(S)
    missing = json.loads(frame_json(demo))["devices_missing"]
    assert missing["reason"] == "source" and "IIO" in missing["detail"]
    assert json.loads(frame_json(with_devices()))["devices_missing"] is None
    assert [line.text[:3] for line in device_absences(base, 200)] == ["[s]"]
    for reason, mark in ((Reason.PRESENT, "-  "), (Reason.ERROR, "[e]")):
        state = SourceState(reason, "it failed", 0.0, 0.0)
        sources = {**base.sources, "iio": state}
        (line,) = device_absences(replace(base, sources=sources), 200)
        assert line.text[:3] == mark


def test_every_metric_of_the_catalogue_is_listed_once() -> None:
    shown = [metric for section in sections() for row in section.rows for metric in row.metrics]
    assert sorted(metric.id for metric in shown) == sorted(
        traffic_metric.id for traffic_metric in TRAFFIC_METRICS
    )
    assert set(TRAFFIC_METRICS) >= set(PACKAGE_METRICS)
    rows = [row for row in drawn(host(1), 120).rows if isinstance(row, TrafficRow)]
    assert {metric for row in rows for metric in row.metrics} == set(PACKAGE_METRICS)


def test_a_new_metric_is_placed_by_its_id() -> None:
    def one(name: str, unit: Unit) -> Metric:
        return Metric(name, name[-8:], unit, "package", "meaning", "formula", "origin")

    result = sections(
        (
            one("power_w", Unit.RATIO),
            one("pcie.write_bytes_per_s", Unit.BYTES_PER_S),
            one("pcie.xyz.hit_per_s", Unit.REQUESTS_PER_S),
            one("pcie.xyz.total_per_s", Unit.REQUESTS_PER_S),
            one("cxl.read_bytes_per_s", Unit.BYTES_PER_S),
        )
    )
    assert [(item.title, item.cells, [row.label for row in item.rows]) for item in result] == [
        ("package", ("",), ["power w"]),
        ("PCIe", ("",), ["write"]),
        ("PCIe", ("hit", "all", "hit%"), ["xyz"]),
        ("cxl", ("",), ["read"]),
    ]


@given(st.integers(1, 9), st.integers(1, 240))
def test_it_stays_within_its_width(packages: int, width: int) -> None:
    shown = drawn(host(packages), width)
    assert all(line.width <= width for line in shown.lines)
    assert len(shown.lines) == len(shown.rows)


@pytest.mark.parametrize("packages", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("width", [80, 120, 200])
def test_every_package_is_present_with_hits_and_misses_together(packages: int, width: int) -> None:
    text = text_of(drawn(host(packages), width))
    for number in range(packages):
        assert f"s{number} " in text
    titles = [row for row in text.splitlines() if row.startswith("PCIe M req/s")]
    assert sum(title.count("all") for title in titles) == packages


def test_narrow_terminals_lose_hits_before_totals() -> None:
    heads = [
        next(row for row in text_of(drawn(host(packages), 80)).splitlines() if "req/s" in row)
        for packages in (2, 3, 4)
    ]
    assert ["hit " in head for head in heads] == [True, False, False]
    assert ["miss" in head for head in heads] == [True, False, False]
    assert all("all" in head and "hit%" in head for head in heads)


def test_why_numbers_are_absent_is_reported_below_with_where() -> None:
    text = text_of(drawn(host(2), 120))
    words = " ".join(text.split())
    assert f"MMIO.wc on s1: {NO_UNIT.message}" in words
    assert f"channel 3 on s0: {TAKEN.message}" in words
    base = host(2)
    why = Missing(Reason.PERMISSION, "needs CAP_PERFMON")
    gone = tuple(PackageRow(row.package, dict.fromkeys(row.readings, why)) for row in base.packages)
    text = text_of(drawn(replace(base, packages=gone), 120))
    assert " ".join(text.split()).count("needs CAP_PERFMON") == 1
    assert " on s" not in text
    assert "[p]" in text


def test_a_frame_without_packages_reports_it() -> None:
    assert "names no package" in text_of(drawn(replace(host(1), packages=()), 80))


REQUESTS = next(row for section in sections() for row in section.rows if row.label == "ItoM")


@pytest.mark.parametrize(
    ("hit", "total", "ratio"),
    [
        (30.0, 40.0, 0.75),
        (0.0, 0.0, Missing(Reason.IDLE)),
        (NO_UNIT, 1.0, NO_UNIT),
        (1.0, NO_UNIT, NO_UNIT),
        (40.0, 39.9, 1.0),  # counted one after the other, so hits may be ahead
    ],
)
def test_hit_ratio(hit: Reading, total: Reading, ratio: Reading) -> None:
    readings = {"pcie.itom.hit_per_s": hit, "pcie.itom.miss_per_s": 1.0}
    row = PackageRow(Package(0), {**readings, "pcie.itom.total_per_s": total})
    assert hit_ratio(row, REQUESTS.metrics) == ratio


def test_rows_that_this_hardware_cannot_fill_are_but_named_below() -> None:
    def without(component: str, why: Missing, *, of: range = range(2)) -> Frame:
        base = host(2)
        packages = tuple(
            replace(
                row,
                readings={
                    name: why if component in name and at in of else reading
                    for name, reading in row.readings.items()
                },
            )
            for at, row in enumerate(base.packages)
        )
        return replace(base, packages=packages)

    def labels(shown: Frame) -> list[str]:
        return [row.label for row in drawn(shown, 120).rows if isinstance(row, TrafficRow)]

    whole = labels(host(2))
    assert "ItoMCacheNear" in whole
    gone = Missing(Reason.HARDWARE, "not on this CPU")
    left = labels(without("itomcachenear", gone))
    assert left == [label for label in whole if label != "ItoMCacheNear"]
    shown = drawn(without("mmio.", gone), 120)
    assert f"MMIO.rd, MMIO.wr, MMIO.wc: {gone.message}" in text_of(shown)
    assert "MMIO  " not in text_of(shown)
    assert len(shown.lines) == len(shown.rows)
    assert labels(without("itomcachenear", gone, of=range(1))) == whole, "one package has it"
    assert labels(without("itomcachenear", Missing(Reason.WARMING))) == whole
    assert labels(without("", gone)) == whole, "all of them, where nothing can be"
