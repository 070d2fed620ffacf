"""The strip under the header: its size, its graph, its events."""

from __future__ import annotations

import numpy as np
import pytest

from nftop.model.incident import Severity
from nftop.model.missing import Missing, Reason
from nftop.model.struct import replace
from nftop.model.timeline import EventKind, EventState, Strip, TimelineEvent, TimeSeries
from nftop.render.base.format import duration_text
from nftop.render.base.line import Line, Tone
from nftop.render.timeline.axis import Cells, TimeAxis, span_text
from nftop.render.timeline.strip import drops_span, strip_lines

S = 1_000_000_000
NOW_NS = 1_790_000_000 * S
NO_IMISSED = Missing(Reason.SOURCE, "vpp: no imissed")
SIZES = [(40, 1), (80, 1), (80, 3), (120, 3), (200, 4), (400, 3), (17, 1), (3, 2)]


def event(
    kind: EventKind, begin: int, end: int | None = None, severity: Severity = Severity.INFO
) -> TimelineEvent:
    ends = None if end is None else NOW_NS - end * S
    key = f"{kind}{begin}"
    return TimelineEvent(kind, key, NOW_NS - begin * S, ends, EventState.OPEN, severity)


def strip(
    cursor: int | None = None, unknown: Missing | None = None, *, drops: bool = True
) -> Strip:
    times = np.arange(NOW_NS - 600 * S, NOW_NS + 1, S)
    values = np.where(times >= NOW_NS - 120 * S, 7.2e6, 0).astype(np.float32)
    values[:] = values if drops else np.nan
    reasons = np.full(len(times), Reason.PRESENT if unknown is None else unknown.reason, np.uint8)
    return Strip(
        NOW_NS - 600 * S,
        NOW_NS,
        TimeSeries(times, values, reasons=reasons),
        unknown,
        (
            event("change", 480),
            event("incident", 400, 360, Severity.WARN),
            event("incident", 120, None, Severity.BAD),
            event("marker", 240, 240),
        ),
        None if cursor is None else NOW_NS - cursor * S,
    )


def toned(line: Line, tone: Tone) -> str:
    return "".join(text for text, shown, _ in line.spans if shown is tone)


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("cursor", [None, 130])
def test_it_has_its_lines_and_none_is_too_wide(
    width: int, height: int, cursor: int | None, *, ascii_only: bool
) -> None:
    for shown in (strip(cursor), strip(cursor, NO_IMISSED, drops=False)):
        lines = strip_lines(shown, width, height, ascii_only=ascii_only)
        assert len(lines) == height
        assert all(item.width <= width for item in lines)
        assert not ascii_only or all(item.text.replace("…", "").isascii() for item in lines)


def test_graph_has_its_loss_in_the_last_fifth_and_the_events_below() -> None:
    top, low, axis = strip_lines(strip(), 120, 3, ascii_only=False)
    loss = toned(top, Tone.BAD).strip()
    assert "7.20M" in loss and len(toned(low, Tone.BAD_DIM)) == pytest.approx(20, abs=1)
    text = axis.text
    cells = 120 - 21
    assert text.index("●") - 12 == pytest.approx(cells * 480 / 600, abs=1)
    assert text.index("◆") - 12 == pytest.approx(cells * 120 / 600, abs=1)
    assert text.index("⚑") - 12 == pytest.approx(cells * 360 / 600, abs=1)
    assert text.count("━") >= 19 + 5 and text.rstrip().endswith("now")
    assert toned(axis, Tone.BAD).startswith("●")


def test_one_line_has_events_and_drops() -> None:
    (only,) = strip_lines(strip(), 80, 1, ascii_only=False)
    assert "◆" in only.text and "▲" in only.text and "●" in only.text
    assert "7.20M" in only.text and "▆" in toned(only, Tone.BAD)


def test_cursor_is_in_graph_and_axis_and_its_number_is_shown() -> None:
    top, _, axis = strip_lines(strip(300), 120, 3, ascii_only=False)
    at = top.text.index("┃")
    assert at - 12 == (120 - 21) // 2
    assert toned(axis, Tone.ACCENT).count("5m00s") == 1
    assert top.text.rstrip().endswith(" 0")


def test_drops_that_are_unknown_are_not_zero() -> None:
    head, *_ = strip_lines(strip(None, NO_IMISSED, drops=False), 120, 3, ascii_only=False)
    assert "vpp: no imissed" in head.text
    (one,) = strip_lines(strip(None, NO_IMISSED, drops=False), 80, 1, ascii_only=False)
    assert "vpp" in one.text and "[s]" in one.text


def test_number_without_some_functions_is_a_lower_bound() -> None:
    top, *_ = strip_lines(strip(None, NO_IMISSED), 120, 3, ascii_only=False)
    assert "≥7.20M" in top.text


def test_the_number_at_a_moment_has_its_own_bound_and_a_gap_has_none() -> None:
    whole = strip(60)
    reasons = np.where(whole.drops.times_ns < NOW_NS - 300 * S, Reason.PERMISSION, Reason.PRESENT)
    drops = replace(whole.drops, reasons=reasons.astype(np.uint8))
    assert drops_span(replace(whole, drops=drops, unknown=NO_IMISSED)).text == "7.20M"
    earlier = replace(whole, drops=drops, cursor_ns=NOW_NS - 400 * S)
    assert drops_span(earlier).text == "≥0"
    few = np.r_[0:200, 500:601]
    gap = TimeSeries(drops.times_ns[few], drops.values[few])
    for back, text in ((401, "0"), (399, "0"), (350, "-"), (100, "7.20M")):
        shown = replace(whole, drops=gap, cursor_ns=NOW_NS - back * S)
        assert drops_span(shown).text == text
        assert (drops_span(shown).tone is Tone.BAD) == (text == "7.20M")
    nothing = replace(drops, values=np.full_like(drops.values, np.nan))
    unknown = replace(whole, drops=nothing, cursor_ns=NOW_NS - 400 * S)
    assert drops_span(unknown).text == Reason.PERMISSION.mark
    assert drops_span(unknown).tone is not Tone.BAD


def test_interval_is_filled_where_ticks_are_rare_and_a_gap_stays() -> None:
    axis = TimeAxis(0, 600 * S, 100)
    times = np.array([0, 60, 120, 180, 480, 540], np.int64) * S
    values = axis.worst(TimeSeries(times, np.ones(6, np.float32)), 100)
    assert np.isfinite(values[:30]).all()
    assert np.isnan(values[32:50]).all()
    assert np.isfinite(values[80:90]).all()


@pytest.mark.parametrize(
    ("seconds", "text"), [(9, "9s"), (130, "2m10s"), (3900, "1h05m"), (180_000, "2d02h")]
)
def test_age(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_wide_characters_take_two_cells_and_do_not_shift_what_follows() -> None:
    row = Cells("-" * 10, Tone.FAINT)
    row.put(1, "網絡", Tone.MUTED)
    row.put(8, "x", Tone.BAD)
    assert row.line(ascii_only=False).text == "-網絡---x-"
    row.put(2, "y", Tone.BAD)
    row.put(9, "網", Tone.BAD)
    row.put(-1, "網", Tone.BAD)
    shown = row.line(ascii_only=False)
    assert (shown.text, shown.width) == ("  y絡---x ", 10)


@pytest.mark.parametrize(
    ("seconds", "text"), [(30, "30s"), (160, "2m40s"), (80, "1m20s"), (600, "10m"), (7200, "2h")]
)
def test_spans_of_time_have_one_form(seconds: float, text: str) -> None:
    assert span_text(seconds) == text


@pytest.mark.parametrize(("width", "height", "left"), [(80, 1, 6), (120, 3, 12)])
def test_click_on_a_cell_of_the_axis_is_its_moment(width: int, height: int, left: int) -> None:
    shown = strip()
    axis = TimeAxis(shown.first_ns, shown.last_ns, width - left - (13 if height == 1 else 9))
    for drawn in strip_lines(shown, width, height, ascii_only=False):
        for cell in (0, 17, axis.cells - 1):
            click = drawn.click_at(left + cell)
            assert click is not None and click.action == "moment"
            assert axis.cell(int(click.argument)) == cell
        assert drawn.click_at(left - 1) is None and drawn.click_at(left + axis.cells) is None
