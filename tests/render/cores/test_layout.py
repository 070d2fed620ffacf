"""How the Cores screen is shared out."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from hypothesis import given
from hypothesis import strategies as st

from nftop.model.frame import Frame, PackageRow
from nftop.model.ids import Package
from nftop.model.metrics.catalogue import cpu_metric
from nftop.model.metrics.package import PACKAGE_METRICS
from nftop.render.cores.layout import LEAST_WIDTH, ScreenSections, share_out
from nftop.render.frame.header import ViewStatus
from tests.frames import frame

CPP = cpu_metric("cpp")


@cache
def full(cpus: int) -> Frame:
    """Every part has something to show."""
    traffic = {metric.id: 1e9 for metric in PACKAGE_METRICS}
    rows = tuple(PackageRow(Package(package), traffic) for package in (0, 1))
    return replace(frame(cpus, packages=2, tma=True), packages=rows)


def text_of(parts: ScreenSections) -> str:
    return "\n".join(line.text for line in (*parts.top, *parts.panels))


@given(st.integers(1, 300), st.integers(1, 100), st.integers(0, 512), st.sampled_from([4, 88, 512]))
def test_the_parts_fill_the_screen_exactly(width: int, height: int, rows: int, cpus: int) -> None:
    parts = share_out(full(cpus), ViewStatus(), CPP, rows=rows, width=width, height=height)
    each = (len(parts.top), parts.table, len(parts.panels), parts.detail, parts.footer)
    assert min(each) >= 0
    assert sum(each) == height
    assert parts.table >= min(2, height)
    if width >= LEAST_WIDTH:
        assert all(line.width <= width for line in (*parts.top, *parts.panels))


def test_a_large_screen_shows_every_part() -> None:
    parts = share_out(full(88), ViewStatus(), CPP, rows=20, width=200, height=50)
    assert all(word in text_of(parts) for word in ("dpdk", "SOCKET", "MAP CPP"))
    assert (parts.table, parts.detail >= 6) == (21, True)


def test_the_table_and_the_selected_cpu_come_first() -> None:
    small = share_out(full(88), ViewStatus(), CPP, rows=20, width=80, height=24)
    assert "SOCKET" not in text_of(small)
    assert "MAP" not in text_of(small)
    assert small.table >= 8
    assert small.detail >= 6
    middle = share_out(full(88), ViewStatus(), CPP, rows=20, width=120, height=36)
    assert "SOCKET" in text_of(middle)
    assert "MAP" in text_of(middle)
    assert middle.table >= 8


def test_the_table_takes_no_more_than_its_rows() -> None:
    parts = share_out(full(88), ViewStatus(), CPP, rows=3, width=120, height=60)
    assert parts.table == 5, "and no fewer than five lines"
    assert sum((len(parts.top), 5, len(parts.panels), parts.detail, 1)) == 60


@given(st.integers(1, 60), st.integers(1, 12))
def test_no_screen_is_without_its_badge(width: int, height: int) -> None:
    simulated = replace(full(88), host=replace(full(88).host, simulated=True))
    parts = share_out(simulated, ViewStatus(), CPP, rows=9, width=width, height=height)
    assert parts.top[0].text.startswith(" SIMULATED "[: max(0, width - 1)])
