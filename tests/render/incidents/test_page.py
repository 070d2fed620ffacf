"""The page of an incident."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.control.resctrl.remedy import remedy
from nftop.model.clock import clock_of
from nftop.model.incident import EvidenceLink, Incident, Price, Uncounted, VictimTrace
from nftop.model.missing import Missing, Reason
from nftop.model.remedy import DraftMask, Remedy, RemedyCheck
from nftop.render.base.line import Span, Tone
from nftop.render.base.text import ascii_only, cells
from nftop.render.cache.way_cells import HATCH
from nftop.render.incidents.page import (
    IncidentView,
    VictimTrend,
    incident_page_lines,
    no_incident_lines,
    trend_of_trace,
    trend_points,
)
from tests.command import lines_with
from tests.frames import SECOND_NS, WALL_NS, frame, nic_drops
from tests.rdt import frame_of, group, in_cache, table
from tests.render.incidents.scenes import frame_with, hostile, incident, victim

DRAFT = Remedy(
    "draft",
    "shrink tenant off the victims' ways",
    ("nftop cat set --group tenant --l3 0=3",),
    mask=DraftMask("tenant", incident().l3 or 0, 11, 0xFE, 0x3, 0x1FC, 0x600),  # type: ignore[arg-type]
    checks=(RemedyCheck(True, "side by side"), RemedyCheck(False, "shares 2 with others")),
    unproven="that the victims recover",
)


def view(one: Incident, width: int, plan: Remedy = DRAFT) -> IncidentView:
    points = trend_points(width)
    values = np.linspace(42e6, 38e6, points).astype(np.float32)
    trend = VictimTrend("fwd", values, 300.0, WALL_NS - 300 * SECOND_NS)
    return IncidentView(frame_with(one), one, plan, 1, 2, trend)


@pytest.mark.parametrize("width", [40, 80, 100, 120, 200, 400])
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    for one in (incident(), hostile(), incident(culprit=None, victims=(), until_ns=WALL_NS)):
        for item in incident_page_lines(view(one, width), width):
            assert item.width <= width
            assert cells(ascii_only(item.text)) == item.width
    assert all(item.width <= width for item in no_incident_lines(frame(8), width))


def test_what_is_dropped_before_its_cause_is_known_is_on_the_page() -> None:
    base = frame(8)
    fwd = replace(base.nfs[0], readings={**base.nfs[0].readings, **nic_drops(17.7e6)})
    text = "\n".join(item.text for item in no_incident_lines(replace(base, nfs=(fwd,)), 120))
    assert "17.7M drop/s" in text and f"{fwd.name} drops 17.7M/s" in text
    assert re.search(r"up to \d+ s and 3 ticks", text) and "so far" not in text
    quiet = replace(fwd, readings={**fwd.readings, **nic_drops(0.0)})
    assert "so far" in no_incident_lines(replace(base, nfs=(quiet,)), 120)[1].text


def test_the_page_has_the_story_in_its_order() -> None:
    text = "\n".join(item.text for item in incident_page_lines(view(incident(), 120), 120))
    wanted = (
        "1 of 2",
        "CULPRIT",
        "vm gw1",
        "pid 4242",
        "user libvirt-qemu",
        "VICTIMS",
        "before → now",
        "42.0 → 38.2",
        "-9%",
        "210 → 230",
        "+10%",
        "3.82M",
        "PRICE",
        "7.23M drop/s",
        "worst 7.35M",
        "936M packets lost",
        "WHY IT IS BELIEVED",
        "3 → fe",
        "48.0 GB/s of traffic",
        "MBM of COS3",
        "also checked",
        "✔ arriving load 0%",
        "? wait not counted",
        "A DRAFT THAT WOULD MEND IT",
        "nothing is applied by itself",
        "0fe",
        "003",
        "✔ side by side",
        "▲ shares 2 with others",
        "$ nftop cat set --group tenant --l3 0=3",
        "not proven: that the victims recover",
    )
    at = 0
    for component in wanted:
        at = text.find(component, at)
        assert at >= 0, (component, text)


def test_a_sweep_finds_the_width_of_the_draft_and_its_answer_is_shown_instead(
    snapshot: SnapshotAssertion,
) -> None:
    plan = replace(DRAFT, sweep="nftop cat sweep --group tenant")
    page = view(incident(), 120, plan)
    text = "\n".join(item.text for item in incident_page_lines(page, 120))
    assert lines_with(text, "cat sweep") == snapshot
    swept = replace(page, swept="a sweep in this session found 11 ways (L3 0 ffe00)")
    text = "\n".join(item.text for item in incident_page_lines(swept, 120))
    assert swept.swept in text
    assert "finds it" not in text


def test_the_ways_of_the_draft_are_drawn_from_the_highest_to_the_lowest() -> None:
    rows = [item.text for item in incident_page_lines(view(incident(), 80), 80)]
    now = next(row for row in rows if row.startswith(" now"))
    draft = next(row for row in rows if row.startswith(" draft"))
    assert now[14:] == " · " * 3 + f"{HATCH}t{HATCH}" * 6 + " t " + " · "
    assert draft[14:] == " · " * 3 + " - " * 6 + " t " + " + "


def test_ways_of_victims_are_named_in_the_row_of_the_mask() -> None:
    masks = {"vpp": 0x1E0, "tenant": 0xFE, "other": 0x3}
    groups = tuple(
        group(name, number, (number,), in_cache(0, mask))
        for number, (name, mask) in enumerate(masks.items(), start=1)
    )
    harmed = victim("vpp")
    one = incident(victims=(replace(harmed, party=replace(harmed.party, group="vpp")),))
    page = view(one, 120)
    frame = replace(page.frame, groups=frame_of(replace(table(), groups=groups)).groups)
    lines = incident_page_lines(replace(page, frame=frame), 120)
    (now,) = [item.text for item in lines if item.text.startswith(" now")]
    (draft,) = [item.text for item in lines if item.text.startswith(" draft")]
    assert now.rstrip().endswith("ways 5-7 of vpp")
    # Way 1 is another class's, too: it is shared in both masks.
    assert now[14:47] == " · " * 3 + f"{HATCH}t{HATCH}" * 7 + " · "
    assert draft[14:47] == " · " * 3 + " - " * 6 + f"{HATCH}t{HATCH}" + " + "


def is_drawn(span: Span) -> bool:
    return any("⠀" < char <= "⣿" for char in span.text)


def test_the_graph_is_in_the_tone_of_the_incident_while_it_lasts() -> None:
    one = incident()  # for 120 s of 300
    lines = incident_page_lines(view(one, 120), 120)
    toned = [span for item in lines for span in item.spans if is_drawn(span)]
    harmed = [span.text for span in toned if span.tone is Tone.BAD]
    assert harmed and {span.tone for span in toned} == {Tone.BAD, Tone.MUTED}
    cells = trend_points(120) // 2
    assert max(map(len, harmed)) == pytest.approx(cells * 120 / 300, abs=1)
    over = incident_page_lines(view(incident(until_ns=WALL_NS - 60 * SECOND_NS), 120), 120)
    longest = max(
        len(span.text)
        for item in over
        for span in item.spans
        if span.tone is Tone.BAD and is_drawn(span)
    )
    assert longest == pytest.approx(cells * 60 / 300, abs=1)


def test_evidence_has_the_time_of_its_numbers_only_if_it_is_another() -> None:
    def links(valued_ns: int) -> list[str]:
        begun_ns = WALL_NS - 60 * SECOND_NS
        link = EvidenceLink(begun_ns, "cause", "evidence", "mbm", valued_ns)
        page = view(replace(incident(), chain=(link,)), 120)
        page = replace(page, frame=replace(page.frame, wall_ns=WALL_NS))
        return [item.text for item in incident_page_lines(page, 120) if "evidence" in item.text]

    assert clock_of(WALL_NS - SECOND_NS) in links(WALL_NS - SECOND_NS)[0]
    assert clock_of(WALL_NS) not in links(WALL_NS)[0]
    assert all(len(row.rstrip()) == 119 for row in links(WALL_NS))


def test_blank_lines_go_from_the_top_if_room_is_short() -> None:
    page = view(incident(), 120)
    whole = incident_page_lines(page, 120)
    blank = [at for at, item in enumerate(whole) if not item.text]
    assert len(blank) == 3
    short = incident_page_lines(page, 120, len(whole) - 1)
    assert [at for at, item in enumerate(short) if not item.text] == [at - 1 for at in blank[1:]]
    assert all(item.text for item in incident_page_lines(page, 120, 10))


def test_a_frame_without_classes_has_advice_only() -> None:
    one = incident()
    plan = remedy(one, frame_with(one))
    assert (plan.kind, plan.commands) == ("advice", ())
    text = "\n".join(item.text for item in incident_page_lines(view(one, 80, plan), 80))
    assert "WHAT CAN BE DONE" in text and "$" not in text


def test_the_onset_is_drawn_for_as_long_as_an_incident_lasts() -> None:
    step = (*(42e6,) * 30, *(38e6,) * 30)
    trace = VictimTrace(
        "key fwd", WALL_NS - 7260 * SECOND_NS, 2.0, 64.0, onset=step, since=(38e6,) * 111
    )
    one = incident(since_ns=WALL_NS - 7200 * SECOND_NS)
    for width in (80, 120, 200):
        trend = trend_of_trace("fwd", trace, trend_points(width))
        whole = replace(view(one, width), trend=trend)
        rows = [item.text for item in incident_page_lines(whole, width)]
        axis = next(row for row in rows if "└" in row)
        assert axis.index("└") < axis.index("▶") < axis.index("┊")
        assert trend.onset is not None and np.nanmax(trend.onset.values) == np.float32(42e6)
        assert np.nanmax(trend.values) == np.float32(38e6)
        assert all(cells(row) <= width for row in rows)
        ends = rows[rows.index(axis) + 1]
        assert clock_of(trace.first_ns) in ends and "-1h58m" in ends and "now" in ends


def test_a_total_that_lacks_drops_is_marked_with_the_reason(snapshot: SnapshotAssertion) -> None:
    missing = (Uncounted("fwd", 4.0, "its socket was closed"), Uncounted("ovs", None, "no counter"))
    lines = incident_page_lines(view(replace(incident(), uncounted=missing), 99), 99)
    text = " ".join(" ".join(item.text for item in lines).split())
    assert text == snapshot


def price_of(one: Incident) -> str:
    rows = [item.text for item in incident_page_lines(view(one, 99), 99)]
    return rows[next(at for at, row in enumerate(rows) if row.startswith(" PRICE")) + 1].strip()


def text_of(one: Incident, width: int = 120) -> str:
    """Words of the page, with single blanks."""
    lines = incident_page_lines(view(one, width), width)
    return " ".join(" ".join(item.text for item in lines).split())


def test_what_ended_is_in_the_past_tense_with_its_worst_value_and_its_time(
    snapshot: SnapshotAssertion,
) -> None:
    chain = (
        EvidenceLink(WALL_NS, "cause", "cpu 1: waited 30.0%", "wait_ratio", current="; now 4.0%"),
    )
    uncounted = (Uncounted("ovs", None, "no counter"),)
    open_ = incident(title="took 30% of cpu 1", chain=chain, uncounted=uncounted)
    ended = incident(
        title="took 30% of cpu 1",
        chain=chain,
        uncounted=uncounted,
        until_ns=WALL_NS - 30 * SECOND_NS,
    )
    at = clock_of(ended.worst_ns)
    for text in (
        "before → now",
        "so far",
        "; now 4.0%",
        "drops is not",
        "IS BELIEVED",
    ):
        assert text in text_of(open_, 90)
        assert text not in text_of(ended, 90), text
    for text in (
        "took 30%",
        f"before → at its worst, {at}",
        f"dropped up to 7.35M/s at {at}",
        "packets lost in all",
        "1m30s, ended",
    ):
        assert text in text_of(ended, 90)
    nothing = incident(
        worst=Price(0.0), victims=(victim("fwd", 0.0, 0.0),), until_ns=WALL_NS, dropped=0.0
    )
    assert f"before → last, until {clock_of(WALL_NS)}" in text_of(nothing)
    assert text_of(nothing) == snapshot


def test_costs_have_their_name_and_the_mark_of_a_bound() -> None:
    bound = replace(victim(), bounds=(True, False))
    work = replace(victim("vpp"), cost="busy_cpp")
    assert "<210 → 230" in text_of(incident(victims=(bound,)))
    assert " CPP" in text_of(incident(victims=(bound,)))
    assert "bCPP" not in text_of(incident(victims=(bound,)))
    assert " bCPP " in text_of(incident(victims=(work,)))
    both = text_of(incident(victims=(bound, work)))
    assert "CPP or bCPP" in both and "CPP <210 → 230" in both and "bCPP 210 → 230" in both


def test_a_price_that_is_not_counted_is_not_nothing(snapshot: SnapshotAssertion) -> None:
    unknown = Missing(Reason.SOURCE, "no victim counts drops")
    bare = replace(incident(), worst=Price(), dropped=unknown, price=Price(unknown, unknown))
    blind = replace(victim(), drops_per_s=unknown)
    assert price_of(replace(bare, victims=(blind,))) == f"packets lost: {unknown.message}"
    assert price_of(replace(bare, victims=(victim(),))).endswith("not from this")
    assert "3.82M" in price_of(replace(bare, victims=(victim(), blind)))
    assert price_of(replace(bare, victims=(victim("fwd", 0.0, 0.0),))) == snapshot
    assert price_of(replace(bare, price=Price(0.0), victims=())) == snapshot


def test_a_total_without_a_rate_is_a_loss() -> None:
    for price, victims in (
        (Price(0.0), (victim("fwd", 0.0, 0.0),)),
        (Price(), ()),
    ):
        for until_ns, end in ((WALL_NS, "in all"), (None, "so far")):
            one = incident(price=price, worst=Price(0.0), victims=victims, until_ns=until_ns)
            assert price_of(one) == f"936M packets lost {end}"
    # No rate is too small to be one.
    [first, *_] = price_of(incident(price=Price(0.4), victims=(victim("fwd", 0.4, 0.4),))).split()
    assert first == "0.4"


def test_a_victim_of_unknown_change_is_not_unchanged() -> None:
    known = replace(victim(), metric="busy_cpp", change=0.1)
    for change, unchanged in ((0.1, True), (Missing(Reason.WARMING), False)):
        one = incident(victims=(replace(known, change=change),))
        text = "\n".join(item.text for item in incident_page_lines(view(one, 99), 99))
        assert ("unchanged" in text) is unchanged


def test_a_graph_needs_two_numbers() -> None:
    one = incident()
    bare = IncidentView(frame_with(one), one, DRAFT)
    few = VictimTrend("fwd", np.full(40, np.nan, np.float32), 300.0, 0)
    for item in (bare, IncidentView(frame_with(one), one, DRAFT, trend=few)):
        assert not any("└" in row.text for row in incident_page_lines(item, 120))


def graph_axis(one: Incident, trend: VictimTrend) -> tuple[str, str, str]:
    """Head, marks and ends of the graph."""
    rows = [item.text for item in incident_page_lines(replace(view(one, 80), trend=trend), 80)]
    at = next(number for number, text in enumerate(rows) if "└" in text)
    head = next(text for text in rows if " Mpps; " in text or text.endswith(" Mpps"))
    return head, rows[at].split("└")[1], rows[at + 1]


def test_the_graph_reports_what_it_draws_and_marks_begin_and_end() -> None:
    values = np.linspace(42e6, 38e6, 120).astype(np.float32)
    now = VictimTrend("fwd", values, 300.0, WALL_NS - 300 * SECOND_NS)
    head, marks, ends = graph_axis(incident(), now)  # it began 120 s ago
    assert "sent" in head and ends.endswith("now")
    assert marks.index("▶") == len(marks) * 180 // 300 and "◀" not in marks
    past = replace(now, first_ns=WALL_NS - 180 * SECOND_NS, span_s=150.0, sent=False)
    head, marks, ends = graph_axis(incident(until_ns=WALL_NS - 60 * SECOND_NS), past)
    assert "received" in head and "sent" not in head
    assert marks.index("▶") == len(marks) * 60 // 150
    assert marks.index("◀") == len(marks) * 120 // 150
    assert ends.split() == [clock_of(WALL_NS - s * SECOND_NS) for s in (180, 120, 30)]
