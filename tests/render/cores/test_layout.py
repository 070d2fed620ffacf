"""How the Cores screen is shared out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.frame import Frame, PackageRow
from nftop.model.ids import Package
from nftop.model.metrics.package import PACKAGE_METRICS
from nftop.model.owner import Owner
from nftop.render.base.table import EDGE, header_line
from nftop.render.cores.columns import columns_for
from nftop.render.cores.harm import SICK, RowTrends, nfs_by_harm
from nftop.render.cores.layout import (
    LEAST_WIDTH,
    Histories,
    ScreenSections,
    _worst_l3,
    graph_lines_of,
    share_out,
)
from nftop.render.cores.nfs import nf_columns_of
from nftop.render.frame.header import ViewStatus
from tests.frames import frame, nic_drops, with_cells
from tests.rdt import frame_of, table
from tests.sim.hosts import Frozen, S


def nothing(_metric: str, keys: object, points: int, _span_s: float) -> np.ndarray:
    """No history."""
    rows = (len(keys), points) if isinstance(keys, (list, tuple)) else (points,)
    return np.full(rows, np.nan, np.float32)


PAST = Histories(RowTrends(), nothing, nothing)


@cache
def full(cpus: int) -> Frame:
    """Every part has something to show."""
    traffic = {metric.id: 1e9 for metric in PACKAGE_METRICS}
    rows = tuple(PackageRow(Package(package), traffic) for package in (0, 1))
    return replace(frame(cpus, packages=2, tma=True), packages=rows)


def text_of(sections: ScreenSections) -> str:
    return "\n".join(line.text for line in (*sections.top, *sections.panels))


@given(st.integers(1, 300), st.integers(1, 100), st.integers(0, 512), st.sampled_from([4, 88, 512]))
def test_the_sections_fill_the_screen_exactly(
    width: int, height: int, rows: int, cpus: int
) -> None:
    sections = share_out(full(cpus), ViewStatus(), PAST, rows=rows, width=width, height=height)
    row = (
        len(sections.top),
        sections.table,
        len(sections.panels),
        sections.detail,
        sections.footer,
    )
    assert min(row) >= 0
    assert sum(row) == height
    assert sections.table >= min(2, height)
    if width >= LEAST_WIDTH:
        assert all(line.width <= width for line in (*sections.top, *sections.panels))


def test_a_large_screen_shows_every_section() -> None:
    sections = share_out(full(88), ViewStatus(), PAST, rows=20, width=200, height=60)
    assert all(word in text_of(sections) for word in ("DROP/s", "SOCKET", "MAP CPP"))
    assert (sections.table >= 21, sections.detail >= 1) == (True, True)


def test_a_small_screen_keeps_functions_and_cpus() -> None:
    small = share_out(full(88), ViewStatus(), PAST, rows=20, width=80, height=24)
    assert "SOCKET" not in text_of(small)
    assert "DROP/s" in text_of(small)
    assert small.table >= 8
    middle = share_out(full(88), ViewStatus(), PAST, rows=20, width=120, height=36)
    assert "SOCKET" in text_of(middle)
    assert middle.table >= 8
    assert middle.detail == 1


@pytest.mark.parametrize(("scenario", "l3"), [("default", 1), ("healthy", 0)])
def test_where_one_cache_fits_it_is_that_of_the_worst_network_function(
    scenario: str, l3: int
) -> None:
    host = Frozen(scenario, cpus=88, traffic=None)
    shown = [host.tick(0), host.tick(S)][-1]
    for width, height in ((80, 24), (120, 36), (200, 50)):
        panels = share_out(shown, ViewStatus(), PAST, rows=20, width=width, height=height).panels
        text = "\n".join(item.text for item in panels)
        caches = [number for number in (0, 1) if f"L3 {number} " in text]
        assert caches == ([0, 1] if width == 200 else [l3])
        assert width < 200 or text.index("L3 0 ") < text.index("L3 1 ")


def test_the_worst_may_be_an_unprivileged_users() -> None:
    """It comes behind those of root."""
    host = Frozen("default", cpus=88, traffic=None)
    shown = [host.tick(0), host.tick(S)][-1]
    worst = _worst_l3(shown, RowTrends())
    sick = next(nf for nf, harm in nfs_by_harm(shown, RowTrends()) if harm >= SICK)
    owned = replace(sick, owner=Owner(1000, "eve", privileged=False, reason="other_user"))
    nfs = tuple(owned if nf is sick else nf for nf in shown.nfs)
    assert nfs_by_harm(replace(shown, nfs=nfs), RowTrends())[-1][0] is owned
    assert _worst_l3(replace(shown, nfs=nfs), RowTrends()) == worst == 1


def test_positions_do_not_depend_on_what_happens() -> None:
    calm, drops = full(88), dict(full(88).nfs[0].readings) | nic_drops(1e6)
    sick = replace(calm, nfs=(replace(calm.nfs[0], readings=drops), *calm.nfs[1:]))
    for size in ((80, 24), (120, 36), (200, 50)):
        shares = [
            share_out(item, ViewStatus(), PAST, rows=20, width=size[0], height=size[1])
            for item in (calm, sick)
        ]
        lengths = [(len(p.top), p.table, len(p.panels), p.detail, p.footer) for p in shares]
        assert lengths[0] == lengths[1]


@given(st.integers(1, 60), st.integers(1, 12))
def test_no_screen_is_without_its_badge(width: int, height: int) -> None:
    simulated = replace(full(88), host=replace(full(88).host, simulated=True))
    sections = share_out(simulated, ViewStatus(), PAST, rows=9, width=width, height=height)
    assert sections.top[0].text.strip().startswith("SIMULATED"[: max(0, width - 3)])


def test_the_filter_reaches_the_graphs() -> None:
    shown = full(8)
    drawn = "\n".join(item.text for item in graph_lines_of(shown, nothing, nothing, 200, 40))
    names = [nf.name for nf in shown.nfs]
    assert all(f"{name}, Mpps" in drawn for name in names)
    one = graph_lines_of(shown, nothing, nothing, 200, 40, search=names[0])
    text = "\n".join(item.text for item in one)
    assert f"{names[0]}, Mpps" in text and f"{names[1]}, Mpps" not in text
    assert graph_lines_of(shown, nothing, nothing, 200, 40, search="none of them") == []


def test_the_title_of_a_graph_keeps_the_note_of_its_axis_and_a_space_before_the_number() -> None:
    def steady(_metric: str, keys: Sequence[str], points: int, _span_s: float) -> np.ndarray:
        return np.linspace(40e6, 41e6, len(keys) * points).reshape(len(keys), points)

    shown = replace(full(8), packages=())
    names = ["vpp", "north/l3fwd-of-one"]
    nfs = tuple(replace(nf, name=name) for nf, name in zip(shown.nfs, names, strict=True))
    shown = replace(shown, nfs=nfs)
    title = graph_lines_of(shown, steady, nothing, 100, 8)[0].text
    assert title.count("not from 0 ") == 2 and "…" not in title
    long = replace(shown, nfs=(replace(nfs[0], name="north/" + 60 * "x"),))
    assert "…  not from 0 " in graph_lines_of(long, steady, nothing, 60, 8)[0].text


@pytest.mark.parametrize(
    ("begun_s", "span"), [(20, "1 min"), (61, "1.5 min"), (130, "3 min"), (420, "7 min"),
        (430, "10 min"), (600, "10 min")],
)  # fmt: skip
def test_graphs_early_in_a_session_begin_with_it(begun_s: float, span: str) -> None:
    def young(_metric: str, keys: Sequence[str], points: int, span_s: float) -> np.ndarray:
        """Constant since so many seconds, unknown before."""
        ages_s = span_s * np.arange(points - 1, -1, -1) / points
        return np.tile(np.where(ages_s < begun_s, 40e6, np.nan), (len(keys), 1))

    shown = replace(full(8), packages=())
    title, *_, bottom = (item.text for item in graph_lines_of(shown, young, nothing, 200, 9))
    assert title.count(f"  {span}  ") == 2
    # Two graphs share all of the width.
    assert bottom.count("┤") == 2 and bottom.index("┤", 40) > 80


@pytest.mark.parametrize("width", [120, 200])
def test_network_functions_and_cpus_have_their_class_in_the_same_column_at_the_edge(
    width: int,
) -> None:
    shown = frame_of(table())
    columns = columns_for(width, shown.cpus, trends=True)
    drawn = share_out(shown, ViewStatus(), PAST, rows=8, width=width, height=50)
    (head,) = [item.text for item in drawn.top if "DROP/s" in item.text]
    cpus = header_line(columns).text
    assert columns[-1].key == "group"
    assert head.index("CLASS") == EDGE + cpus.index("CLASS") >= width - 14
    # The graph has what the numbers leave.
    (trend,) = [item for item in nf_columns_of(shown, width) if item.key == "trend"]
    assert trend.width >= (19 if width == 120 else width - 130)


def test_functions_that_are_alike_are_in_the_order_of_their_cpus() -> None:
    shown = with_cells(frame(8), "wait_ratio", {3: 0.0})
    quiet = [replace(nf, readings={**nf.readings, **nic_drops(0.0)}) for nf in shown.nfs]
    ranked = nfs_by_harm(replace(shown, nfs=tuple(reversed(quiet))), RowTrends())
    assert [min(nf.cpus) for nf, _ in ranked] == sorted(min(nf.cpus) for nf in quiet)
    assert len(ranked) > 1 and ranked[0][0] is not quiet[-1]
