"""The ring of ticks: what graphs are drawn from."""

from __future__ import annotations

import math
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.column import Floats, column
from nftop.model.frame import Frame
from nftop.model.ids import Cpu, Package
from nftop.model.missing import Missing, Reason
from nftop.store.history.rings import HistorySeries, Ring, TickHistory
from tests.frames import SECOND_NS, START_NS, bare, frame, with_cells
from tests.traffic import with_traffic

GONE = Missing(Reason.STALE)


def _at(tick: float, value: float | None, interval_s: float | None = 1.0) -> Frame:
    """A frame `tick` seconds after the start, busy by `value` on CPU 0."""
    base = with_cells(bare(2), "busy_ratio", {0: GONE if value is None else value})
    return replace(base, monotonic_ns=START_NS + round(tick * SECOND_NS), interval_s=interval_s)


def _history(*frames: Frame, ticks: int = 600) -> TickHistory:
    history = TickHistory(ticks=ticks)
    for item in frames:
        history.append(item)
    return history


def _busy(
    history: TickHistory, points: int, span_s: float, until_s: float | None = None
) -> HistorySeries:
    until = None if until_s is None else START_NS + round(until_s * SECOND_NS)
    return history.series("busy_ratio", Cpu(0), points, span_s, until)


def _is(series: HistorySeries, *expected: float | None) -> bool:
    wanted = np.array([np.nan if value is None else value for value in expected], np.float32)
    return bool(np.array_equal(series, wanted, equal_nan=True))


def test_a_tick_a_point() -> None:
    history = _history(*(_at(tick, tick / 8) for tick in range(1, 6)))
    assert _is(_busy(history, 4, 4.0), 2 / 8, 3 / 8, 4 / 8, 5 / 8)
    assert _is(_busy(history, 7, 7.0)[1:], None, 1 / 8, 2 / 8, 3 / 8, 4 / 8, 5 / 8)


def test_before_the_first_tick_nothing_is_shown() -> None:
    history = _history(_at(1, 0.5, None), _at(2, 0.25))
    assert _is(_busy(history, 4, 4.0), None, None, 0.5, 0.25)


def test_a_missing_value_is_a_gap() -> None:
    history = _history(_at(1, 0.5), _at(2, None), _at(3, 0.25))
    assert _is(_busy(history, 3, 3.0), 0.5, None, 0.25)


def test_a_tick_speaks_for_the_time_since_the_one_before_and_no_more() -> None:
    late = _history(_at(1, 0.5), _at(4, 0.25, 3.0))
    assert _is(_busy(late, 4, 4.0), 0.5, 0.25, 0.25, 0.25), "a rate over three seconds"
    lost = _history(_at(1, 0.5), _at(4, 0.25, 1.0))
    assert _is(_busy(lost, 4, 4.0), 0.5, None, None, 0.25), "two ticks never came"


def test_several_ticks_a_point_are_their_mean() -> None:
    history = _history(_at(1, 0.0), _at(2, 0.5), _at(3, None), _at(4, 0.25))
    assert _is(_busy(history, 2, 4.0), 0.25, 0.25)


def test_issue_slots_are_kept_every_ten_seconds() -> None:
    history = TickHistory()
    for second in range(60):
        values = column(np.full(8, second / 100))
        base = frame(8, second, tma=True)
        columns = {**base.cpus.columns, "tma.memory_bound": values}
        history.append(replace(base, cpus=replace(base.cpus, columns=columns)))
    until = START_NS + 59 * SECOND_NS
    [kept] = history.cpu_matrix("tma.memory_bound", [Cpu(1)], 60, 60.0, until)
    assert kept[np.isfinite(kept)].tolist() == pytest.approx([0.0, 0.1, 0.2, 0.3, 0.4, 0.5])
    assert "tma.memory_bound" not in history


def test_the_ring_forgets_the_oldest() -> None:
    history = _history(*(_at(tick, tick / 16) for tick in range(1, 11)), ticks=4)
    series = _busy(history, 8, 8.0)
    assert _is(series[-3:], 8 / 16, 9 / 16, 10 / 16)
    assert np.isnan(series[:3]).all()


def test_a_frozen_view_does_not_see_what_came_after() -> None:
    history = _history(*(_at(tick, tick / 8) for tick in range(1, 6)))
    assert _is(_busy(history, 3, 3.0, until_s=3), 1 / 8, 2 / 8, 3 / 8)
    assert np.isnan(_busy(history, 3, 3.0, until_s=0)).all()


def test_after_the_last_tick_nothing_is_shown_yet() -> None:
    history = _history(_at(1, 0.5), _at(2, 0.25))
    assert _is(_busy(history, 4, 4.0, until_s=4), 0.5, 0.25, None, None)


def test_points_keep_their_time() -> None:
    """A graph whose parts slid with every tick would shimmer."""
    history = _history(*(_at(tick, tick / 64) for tick in range(1, 20)))
    before = _busy(history, 6, 18.0)
    history.append(_at(20, 20 / 64))
    assert _is(_busy(history, 6, 18.0)[:5], *before[:5].tolist())


def test_going_back_in_time_starts_over() -> None:
    history = _history(_at(5, 0.5), _at(6, 0.5), _at(1, 0.25))
    assert np.count_nonzero(np.isfinite(_busy(history, 9, 9.0))) == 1


def test_cpus_that_stay_keep_their_history() -> None:
    small, large = bare(2), bare(4)
    history = _history(_at(1, 0.5))
    history.append(replace(large, monotonic_ns=START_NS + 2 * SECOND_NS, interval_s=1.0))
    assert _is(_busy(history, 2, 2.0), 0.5, 0.1)
    assert np.isnan(history.series("busy_ratio", Cpu(3), 2, 2.0)[0]), "CPU 3 was not there"
    history.append(replace(small, monotonic_ns=START_NS + 3 * SECOND_NS, interval_s=1.0))
    assert _is(_busy(history, 3, 3.0), 0.5, 0.1, 0.1)


def test_only_what_is_kept_can_be_requested() -> None:
    history = TickHistory(("cpp",))
    history.append(frame(8))
    assert "cpp" in history
    with pytest.raises(KeyError):
        history.series("ipc", Cpu(0), 10, 10.0)


def test_an_empty_history_is_a_gap() -> None:
    assert np.isnan(TickHistory().series("cpp", Cpu(0), 5, 10.0)).all()
    assert len(TickHistory().series("cpp", Cpu(0), 0, 10.0)) == 0


@given(
    st.lists(
        st.tuples(st.floats(0.05, 20.0), st.none() | st.floats(0, 1)), min_size=1, max_size=30
    ),
    st.integers(1, 60),
    st.floats(0.5, 300.0),
)
def test_points_are_gaps_or_within_what_was_measured(
    steps: list[tuple[float, float | None]], points: int, span_s: float
) -> None:
    times = np.cumsum([step for step, _ in steps]).tolist()
    frames = [_at(time, value, step) for time, (step, value) in zip(times, steps, strict=True)]
    series = _busy(_history(*frames), points, span_s)
    known = [value for _, value in steps if value is not None]
    shown = series[np.isfinite(series)]
    assert len(series) == points
    assert not len(shown) or (known and min(known) - 1e-6 <= shown.min())
    assert not len(shown) or shown.max() <= max(known) + 1e-6


def test_packages_have_a_history_of_their_own() -> None:
    history = TickHistory(ticks=10)
    for tick in range(20):
        history.append(with_traffic(frame(8, tick, packages=2)))
    last = with_traffic(frame(8, 19, packages=2)).packages
    for row in last:
        result = history.package_series("memory.read_bytes_per_s", row.package, 10, 10.0)
        assert result[-1] == pytest.approx(row.readings["memory.read_bytes_per_s"])
        assert len(result) == 10
    gone = history.package_series("mmio.read_per_s", last[1].package, 10, 10.0)
    assert np.isnan(gone).all(), "which that package can't count"
    assert np.isnan(history.package_series("mmio.read_per_s", Package(7), 10, 10.0)).all()


def test_frames_without_packages_are_a_gap_in_theirs() -> None:
    history = TickHistory()
    for tick in (0, 1, 5, 6):
        history.append(with_traffic(frame(8, tick)) if tick in (0, 6) else frame(8, tick))
    result = history.package_series("memory.read_bytes_per_s", Package(0), 6, 6.0)
    assert np.isnan(result[:-1]).all()
    assert np.isfinite(result[-1])


_STEPS = st.lists(
    st.tuples(
        st.integers(1, 40),  # tenths of a second since the tick before
        st.lists(st.sampled_from((math.nan, 0.0, 0.5, 1.0, 3.0)), min_size=3, max_size=3),
        st.integers(0, 60),  # tenths of a second from the tick back to where the graph ends
    ),
    min_size=1,
    max_size=60,
)


@given(_STEPS, st.sampled_from(((4, 4.0), (5, 20.0), (3, 0.5))), st.integers(2, 12))
def test_a_matrix_from_tick_to_tick_is_that_of_a_ring_that_computes_it_at_once(
    steps: list[tuple[int, list[float], int]], graph: tuple[int, float], ticks: int
) -> None:
    (points, span_s), keys = graph, ("c", "a", "none")
    rows, later_rows = {"a": 0, "b": 1, "c": 2}, {"c": 0, "a": 1, "d": 2}
    ring, now_ns, kept = Ring(("x",), 600), START_NS, []
    for count, (later, values, back) in enumerate(steps):
        now_ns += later * SECOND_NS // 10
        kept.append((now_ns, rows if count < ticks else later_rows, np.array([values])))
        ring.append(now_ns, 0, kept[-1][1], kept[-1][2])
        for until_ns in (now_ns, now_ns - back * SECOND_NS // 10, None, now_ns + SECOND_NS):
            once = Ring(("x",), 600)
            for time_ns, row_of, one in kept:
                once.append(time_ns, 0, row_of, one)
            expected = once.matrix("x", keys, points, span_s, until_ns)
            result = ring.matrix("x", keys, points, span_s, until_ns)
            np.testing.assert_allclose(result, expected, rtol=1e-6)
            result[:] = -1  # the caller's own


def test_a_matrix_survives_no_change_of_rows_and_back() -> None:
    rows, others, ring = {"a": 0}, {"b": 0}, Ring(("x",), 600)
    for tick in range(1, 6):
        ring.append(START_NS + tick, 0, rows, np.array([[float(tick)]]))
    assert ring.matrix("x", ("a",), 1, 1e6)[0, 0] == 3.0
    ring.append(START_NS + 6, 0, others, np.array([[50.0]]))
    for tick in (7, 8):
        ring.append(START_NS + tick, 0, rows, np.array([[10.0 * tick]]))
    expected = ring.series("x", "a", 1, 1e6)
    assert _is(ring.matrix("x", ("a",), 1, 1e6)[0], *expected.tolist())
    assert expected[0] == 75.0


def test_a_value_of_more_ticks_than_are_kept_is_the_mean_of_those() -> None:
    ring = Ring(("x",), 4)
    for tick in range(1, 9):
        ring.append(START_NS + tick, 0, {"a": 0}, np.array([[tick]]))
        until_ns = START_NS + tick
        result = ring.matrix("x", ("a",), 2, 1e6, until_ns)
        assert result[0, -1] == ring.series("x", "a", 2, 1e6, until_ns)[-1]


def _values(rng: np.random.Generator, metrics: int, rows: int) -> Floats:
    """One tick: of the rows a third stays, a third is absent or minus zero, a third is noise."""
    values = np.full((metrics, rows), 0.1)
    values[:, 1::3] = np.where(rng.random(values[:, 1::3].shape) < 0.5, np.nan, -0.0)
    values[:, 2::3] = rng.normal(size=values[:, 2::3].shape)
    return values


@pytest.mark.parametrize("rows", [3, 90, 512])
def test_packing_changes_no_bit_whatever_was_dropped_or_moved(rows: int) -> None:
    rng, kept, ring = np.random.default_rng(rows), list[HistorySeries](), Ring(("x", "y"), 150)
    row_of = {f"cpu{row}": row for row in range(rows)}
    moved = {"new": 0} | {f"cpu{row}": rows - row for row in range(rows)}  # upside down
    for tick in range(1, 380):
        if tick == 200:  # all rows go on with their past
            absent = np.full((2, 1), np.nan, np.float32)
            kept = [np.hstack((absent, item[:, ::-1])) for item in kept]
        now = row_of if tick < 200 else moved
        values = _values(rng, 2, len(now))
        kept.append(values.astype(np.float32))
        ring.append(tick, 1, now, values)
        if tick % 9 == 0 or tick in (199, 200, 201):
            track, expected = ring.track(tick), np.array(kept[-150:])
            assert track.values.tobytes() == expected.tobytes()
            assert ring.oldest_ns == max(1, tick - 149)
            points = len(expected)
            line = ring.series("y", "cpu2", points, points / 1e9)
            np.testing.assert_allclose(line, expected[:, 1, now["cpu2"]], atol=1e-6)
    ring.append(1, 1, moved, kept[-1].astype(np.float64))
    assert ring.track(9).values.tobytes() == kept[-1].tobytes(), "an earlier time starts anew"


def test_values_that_stay_or_are_absent_take_little_memory() -> None:
    rng, row_of = np.random.default_rng(1), {row: row for row in range(512)}
    ring, raw_bytes = Ring([f"m{at}" for at in range(8)], 600), 4 * 600 * 8 * 512
    tracemalloc.start()
    for tick in range(1, 1200):
        ring.append(tick, 1, row_of, _values(rng, 8, 512))
    held_bytes, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert held_bytes < 0.5 * raw_bytes, "half of them are noise"
