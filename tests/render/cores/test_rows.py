"""Moving about: what is selected is a CPU, wherever its row goes."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.ids import Cpu
from nftop.render.cores.rows import (
    CpuRows,
    CpuView,
    Cursor,
    arrange,
    find,
    move,
    rows_in_view,
    settle,
)
from tests.frames import frame

CPUS = frame(64).cpus
ALL = arrange(CPUS, CpuView(folded=False))


def test_the_selection_follows_its_cpu_when_the_order_changes() -> None:
    location = move(settle(Cursor(), CPUS, ALL, 10), 2, CPUS, ALL, 10)
    assert location.cpu == 3
    turned = arrange(CPUS, CpuView("busy_ratio", folded=False, inverted=True))
    again = settle(location, CPUS, turned, 10)
    assert again.cpu == 3
    assert turned.shown[again.index] == 3


def test_a_cpu_that_is_gone_gives_way_to_the_row_where_it_was() -> None:
    location = Cursor(Cpu(40), index=40, top=35, held=True)
    folded = arrange(CPUS, CpuView())
    assert settle(location, CPUS, folded, 10) == Cursor(Cpu(3), 2, 0, held=True)


def test_without_a_selection_the_worst_row_is_selected_and_on_top() -> None:
    start = settle(Cursor(), CPUS, ALL, 10)
    harm = np.zeros(len(CPUS))
    harm[40] = 4.0
    worse = arrange(CPUS, CpuView(folded=False), harm)
    assert settle(start, CPUS, worse, 10) == Cursor(Cpu(40), 0, 0)
    assert settle(start, CPUS, worse, 10, pinned=True).cpu == start.cpu == 1
    chosen = move(start, 0, CPUS, ALL, 10)
    assert chosen.held and settle(chosen, CPUS, worse, 10).cpu == 1


@given(
    st.lists(st.integers(-80, 80), max_size=12),
    st.integers(1, 70),
    st.sampled_from(
        [CpuView(), CpuView(folded=False), CpuView(filter="nobody"), CpuView(filter="0-9")]
    ),
)
def test_the_selected_row_is_always_in_view(steps: list[int], height: int, view: CpuView) -> None:
    rows = arrange(CPUS, view)
    location = settle(Cursor(), CPUS, rows, height)
    for step in steps:
        location = move(location, step, CPUS, rows, height)
        if not rows.shown:
            assert location == Cursor()
            continue
        in_view = rows_in_view(rows, height)
        assert location.top <= location.index < location.top + in_view
        assert 0 <= location.top <= max(0, len(rows.shown) - in_view)
        assert CPUS.topology.cpus[rows.shown[location.index]].cpu == location.cpu


def test_the_line_that_counts_the_rest_takes_a_line_of_the_body() -> None:
    rows = arrange(CPUS, CpuView())
    assert rows_in_view(rows, 2) == 1
    assert move(settle(Cursor(), CPUS, rows, 2), 99, CPUS, rows, 2).top == 2
    whole = arrange(CPUS, CpuView(folded=False))
    assert rows_in_view(whole, len(whole.shown)) == len(whole.shown)
    assert rows_in_view(whole, len(whole.shown) - 1) == len(whole.shown) - 2


def test_harm_comes_first_and_unfolds() -> None:
    harm = np.zeros(len(CPUS))
    harm[40], harm[2] = 4.0, 1.0
    rows = arrange(CPUS, CpuView(), harm)
    assert rows.shown[:2] == (40, 2)
    assert 40 not in rows.folded
    assert arrange(CPUS, CpuView(), harm).without({40}).shown[0] == 2


def test_search_wraps_at_the_ends() -> None:
    start = settle(Cursor(), CPUS, ALL, 10)
    assert find(start, "worker", 1, CPUS, ALL) == 1
    assert find(start, "vpp", 1, CPUS, ALL) == 2
    assert find(start, "vpp", -1, CPUS, ALL) == 2
    assert find(Cursor(Cpu(2), 1), "worker", 1, CPUS, ALL) == -1
    assert find(Cursor(Cpu(3), 2), "vpp", 1, CPUS, ALL) == 0, "itself, where nothing else matches"
    assert find(start, "63", 1, CPUS, ALL) == 63
    assert find(start, "nobody", 1, CPUS, ALL) is None
    assert find(Cursor(), "x", 1, CPUS, CpuRows(())) is None


def test_rows_move_up_to_the_end_of_the_view_and_all_stay_once() -> None:
    rows = CpuRows(tuple(range(12)), frozenset(range(8, 12)), (12, 13))
    up = rows.lifted((9, 7), 6)
    assert up.shown == (0, 1, 2, 3, 9, 7, 4, 5, 6, 8, 10, 11)
    # A culprit is not dim; the rows behind stay as they were.
    assert (up.idle, up.folded) == (frozenset({8, 10, 11}), (12, 13))
    assert rows.without({8, 3, 13}).idle == {9, 10, 11}
    assert rows.lifted((9, 7, 8), 6).shown[:6] == (0, 1, 2, 3, 9, 7), "a third of the view"
    assert rows.lifted((9,), 2).shown == rows.shown, "the victims are the view"
