"""The Timeline screen: its sections at every size, its numbers, what it does not know."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.model.change import Cell, Change
from nftop.model.frame import Frame, NfRow
from nftop.model.ids import Cpu
from nftop.model.incident import Incident, Party, Price, Severity, Victim
from nftop.model.missing import Missing, Reason
from nftop.model.timeline import EventState, Strip, TimelineEvent, TimeSeries
from nftop.render.base.line import Line, Tone
from nftop.render.timeline.page import (
    TimelineData,
    event_text,
    list_rows,
    timeline_lines,
    value_range,
)
from tests.frames import frame

S = 1_000_000_000
NOW_NS = 1_790_000_000 * S
SIZES = [(40, 4), (40, 12), (80, 18), (120, 31), (200, 45), (400, 95), (120, 1), (12, 3)]
NO_IMISSED = Missing(Reason.SOURCE, "vpp: no imissed")


def at(seconds: int) -> int:
    return NOW_NS - seconds * S


def incident() -> Incident:
    tenant = Party("process", "qemu", cpus=(Cpu(11), Cpu(12)), group="tenant", pid=8000)
    vpp = Party("nf", "vpp", key="vpp")
    victim = Victim(vpp, "tx_packets_per_s", 42e6, 38.2e6, -0.09)
    return Incident(
        "i1",
        Severity.BAD,
        "48.0 GB/s through shared ways",
        tenant,
        (victim,),
        Price(7.2e6),
        at(130),
        None,
        worst=Price(7.35e6),
        worst_ns=at(100),
        began_ns=frame(8, 9).monotonic_ns - 130 * S,
    )


def events() -> tuple[TimelineEvent, ...]:
    open_ = TimelineEvent(
        "incident",
        "i1",
        at(130),
        None,
        EventState.OPEN,
        Severity.BAD,
        incident=incident(),
        worst_drops_per_s=7.35e6,
        worst_ns=at(100),
    )
    ended = TimelineEvent(
        "incident",
        "i2",
        at(400),
        at(350),
        EventState.ENDED,
        Severity.WARN,
        incident=replace(incident(), id="i2", severity=Severity.WARN, culprit=None),
        worst_drops_per_s=1.1e6,
    )
    mask = (Change(Cell("schemata", "vpp", "L3", 0), "003", "0fe"),)
    change = TimelineEvent(
        "change", "c", at(480), None, EventState.IN_FORCE, changes=mask, since_ns=1, at_ns=2
    )
    marker = TimelineEvent("marker", "m", at(240), at(240), EventState.MOMENT, text="coffee\x1b[2J")
    return (change, ended, marker, open_)


def series(low: float, high: float) -> TimeSeries:
    times = np.arange(at(600), NOW_NS + 1, S)
    values = np.where(times >= at(130), high, low).astype(np.float32)
    return TimeSeries(times, values)


def data(*, then: Frame | None = None, known: bool = True, **fields: Any) -> TimelineData:
    cursor = None if then is None else then.wall_ns
    drops = series(0, 7.2e6) if known else TimeSeries()
    unknown = None if known else NO_IMISSED
    strip = Strip(at(600), NOW_NS, drops, unknown, events(), cursor)
    hours = Strip(at(14_400), NOW_NS, drops, unknown, events(), cursor)
    created = TimelineData(
        strip,
        series(200e6, 186e6) if known else TimeSeries(),
        series(2e9, 50.2e9) if known else TimeSeries(),
        hours,
        tuple(reversed(events())),
        "38m kept, 12 of 32 MiB",
        replace(frame(8, 9), wall_ns=NOW_NS),
        then=then,
    )
    return replace(created, **fields)


def past() -> Frame:
    return replace(frame(8, 3), wall_ns=at(120))


def text(lines: list[Line]) -> str:
    return "\n".join(line.text.rstrip() for line in lines)


@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize(("width", "height"), SIZES)
@pytest.mark.parametrize("kind", ["now", "past", "missing", "empty"])
def test_it_fits(width: int, height: int, kind: str, *, ascii_only: bool) -> None:
    shown = data(then=past() if kind == "past" else None, known=kind != "missing")
    if kind == "empty":
        nothing = Strip(at(600), NOW_NS)
        shown = replace(shown, strip=nothing, hours=nothing, events=())
    lines = timeline_lines(shown, width, height, ascii_only=ascii_only)
    assert len(lines) <= height and all(line.width <= width for line in lines)
    assert "\x1b" not in text(lines)
    assert 1 <= list_rows(shown, height) <= height
    assert not ascii_only or text(lines).replace("…", "").isascii()


def test_screen_of_the_past(snapshot: SnapshotAssertion) -> None:
    assert text(timeline_lines(data(then=past()), 120, 31, ascii_only=False)) == snapshot


def test_worst_begin_end_and_state_of_every_event_are_listed() -> None:
    rows = text(timeline_lines(data(), 120, 31, ascii_only=False)).split("\n")
    start = next(index for index, row in enumerate(rows) if "BEGIN" in row)
    listed = rows[start + 1 : start + 5]
    assert [row[1] for row in listed] == ["●", "⚑", "▲", "◆"]
    assert "qemu" in listed[0] and "2m10s" in listed[0] and listed[0].endswith("open")
    assert "drop/s" in listed[0] and "50s" in listed[2] and listed[2].endswith("ended")
    assert "0fe" in listed[3] and listed[3].endswith("in force")


def test_selected_row_is_marked_and_rows_can_be_clicked() -> None:
    lines = timeline_lines(data(selected=2), 120, 31, ascii_only=False)
    (row,) = [line for line in lines if line.fill is Tone.SELECTION]
    assert row.text[1] == "▲" and {span.click.argument for span in row.spans if span.click} == {2}


def test_list_is_scrolled() -> None:
    lines = timeline_lines(data(first=2, selected=3), 80, 7, ascii_only=False)
    assert "◆" in text(lines) and "coffee" not in text(lines)


def test_lane_goes_from_begin_to_end_and_a_graph_that_does_not_start_at_zero_reports_it() -> None:
    lines = timeline_lines(data(), 120, 31, ascii_only=False)
    lane = next(line for line in lines if line.text.startswith(" ▲"))
    begin = lane.text.index("▲", 3)
    cells = 120 - 17 - 8
    assert begin - 17 == pytest.approx(cells * 200 / 600, abs=1)
    assert lane.text.count("━") + 1 == pytest.approx(cells * 50 / 600, abs=2)
    sent = next(index for index, line in enumerate(lines) if "sent Mpps" in line.text)
    assert "200" in lines[sent].text and " 186" in lines[sent].text


def test_what_is_unknown_has_its_reason_not_zero() -> None:
    shown = text(timeline_lines(data(known=False), 120, 31, ascii_only=False))
    assert "[s] vpp: no imissed" in shown


def test_numbers_then_stand_next_to_those_of_now() -> None:
    then, now = past(), data().now
    then = replace(then, nfs=tuple(replaced(nf, 38.2e6) for nf in then.nfs))
    now = replace(now, nfs=tuple(replaced(nf, 42.0e6) for nf in now.nfs[:1]))
    shown = text(timeline_lines(data(then=then, now=now), 120, 31, ascii_only=False))
    rows = shown[shown.index("THEN") :].split("\n")[2:4]
    present, gone = sorted(rows, key=lambda row: now.nfs[0].name not in row)
    assert "38.2" in present and "42.0" in present
    assert "38.2" in gone and "  - " in gone, "an NF that is gone has no number now"


def replaced(nf: NfRow, sent: float) -> NfRow:
    return replace(nf, readings={**nf.readings, "tx_packets_per_s": sent})


def test_text_of_events_names_culprit_victim_and_author() -> None:
    change, ended, marker, open_ = events()
    assert "qemu (" in event_text(open_) and event_text(open_).endswith("vpp -9%")
    assert event_text(ended).startswith("48.0 GB/s")
    assert "by another program" in event_text(change)
    assert event_text(marker).startswith("marker coffee")


@pytest.mark.parametrize(
    ("values", "ends"),
    [([186, 200], (180, 200)), ([0, 5], (0, 5)), ([42.0, 42.0], (40, 44)), ([0, 0], (0, 1))],
)
def test_range_of_a_line_is_round_and_shows_the_change(
    values: list[float], ends: tuple[float, float]
) -> None:
    low, high = value_range(np.array([*values, np.nan], np.float32))
    assert low <= min(values) and high >= max(values)
    assert (low, high) == pytest.approx(ends, rel=0.1)
