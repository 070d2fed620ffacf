"""Incidents in the lines that every screen has for them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.findings.rule import si
from nftop.model.incident import Party, Price, Severity, Victim
from nftop.model.metrics.metric import Unit
from nftop.model.missing import Missing, Reading, Reason
from nftop.render.base import format as fmt
from nftop.render.base.line import Click, Tone
from nftop.render.base.text import ascii_only, cells
from nftop.render.incidents.line import (
    GLYPHS,
    change_text,
    harm_text,
    has_no_values,
    incident_age,
    incident_lines,
)
from tests.frames import SECOND_NS, START_NS, WALL_NS, nic_drops
from tests.render.incidents.scenes import CULPRIT, frame_with, hostile, incident, timed, victim
from tests.sim.hosts import Frozen

SIZES = [(20, 1), (40, 1), (40, 2), (80, 1), (80, 2), (120, 2), (200, 2), (400, 3)]


@pytest.mark.parametrize(("width", "rows"), SIZES)
def test_the_number_of_lines_is_exact_and_none_is_wider(width: int, rows: int) -> None:
    scenes = [
        frame_with(),
        frame_with(incident()),
        frame_with(incident(), hostile(), incident(3), incident(4, severity=Severity.INFO)),
        frame_with(past=(incident(until_ns=WALL_NS - 5 * SECOND_NS),)),
        frame_with(incident(culprit=None, victims=(), title="x" * 500)),
    ]
    for frame in scenes:
        lines = incident_lines(frame, width, rows)
        assert len(lines) == rows
        for item in lines:
            assert item.width <= width
            assert cells(ascii_only(item.text)) == item.width and "?" not in ascii_only("●▲✔→⏎")
    assert incident_lines(frame_with(), width, 0) == []


def test_a_line_has_culprit_activity_victims_price_age_and_keys(
    snapshot: SnapshotAssertion,
) -> None:
    [item] = incident_lines(frame_with(incident()), 140, 1)
    assert item.text == snapshot
    assert item.text.endswith(" Tab")
    for text in ("48.0 GB/s through 6 shared ways", "fwd -9% vpp -2%", "7.23M drop/s", "2m00s"):
        assert text in item.text
    assert item.click == Click("incident", "neighbour-00000001")
    tones = {span.text.strip(): span.tone for span in item.spans}
    assert tones["●"] is Tone.BAD


def test_machine_and_pid_come_before_further_victims_and_the_first_before_them(
    snapshot: SnapshotAssertion,
) -> None:
    culprit = replace(CULPRIT, container="")
    heads = ((96, "tenant (vm gw1, pid 4242)"), (88, "tenant (vm gw1)"))
    for width, head in heads:
        [item] = incident_lines(frame_with(incident()), width, 1)
        assert item.text.startswith(f" ● {head} 48.0 GB/s")
        assert item.text == snapshot
    [item] = incident_lines(frame_with(incident(culprit=culprit)), 120, 1)
    assert item.text.startswith(" ● tenant (qemu-system-x86, pid 4242")
    alone = incident(
        culprit=culprit, kind="waiting", title="took 30% of cpu 68", victims=(victim(),)
    )
    [item] = incident_lines(frame_with(alone), 80, 1)
    assert item.text == snapshot


def test_in_80_columns_culprit_worst_victim_and_price_are_left() -> None:
    [item] = incident_lines(frame_with(incident()), 80, 1)
    for text in ("tenant (vm gw1) 48.0 GB/s  ", "→ fwd -9%", "7.23M drop/s"):
        assert text in item.text


def test_a_title_ends_with_a_clause_before_its_culprit_loses_a_name() -> None:
    for title, shown in (
        ("ran beside cpu 23, its hyper-thread 90% busy", "ran beside cpu 23"),
        (
            "had 60% of its memory on another socket (sockets 0, 1)",
            "had 60% of its memory on another socket",
        ),
    ):
        [item] = incident_lines(frame_with(incident(title=title, victims=(victim(),))), 92, 1)
        assert item.text.startswith(f" ● tenant (vm gw1) {shown} ")
    [item] = incident_lines(frame_with(incident()), 40, 1)
    assert item.text.startswith(" ● tenant 48.0 GB/s ")


def test_the_last_line_counts_the_rest_and_muted_ones_are_not_shown() -> None:
    others = [incident(number, severity=Severity.WARN) for number in (2, 3, 4)]
    lines = incident_lines(frame_with(incident(), *others), 120, 2)
    assert lines[1].text.endswith("+2")
    lines = incident_lines(frame_with(incident(muted=True), *others), 120, 3)
    assert [item.click and item.click.argument for item in lines] == [
        f"neighbour-{number:08x}" for number in (2, 3, 4)
    ]
    assert lines[-1].text.endswith(" 1 muted") and lines[-1].width <= 120


def test_muted_incidents_are_counted_and_acknowledged_ones_come_behind() -> None:
    lines = incident_lines(frame_with(incident(muted=True)), 120, 2)
    assert lines[0].text.startswith(" ✔ no harm") and "1 incident muted" in lines[0].text
    known = incident(acknowledged=True)
    lines = incident_lines(frame_with(known, incident(2)), 120, 2)
    assert [item.click and item.click.argument for item in lines] == [incident(2).id, known.id]
    assert Tone.BAD not in {span.tone for span in lines[1].spans}


def test_what_ended_stays_two_minutes_behind_what_is_open(snapshot: SnapshotAssertion) -> None:
    past = incident(9, until_ns=WALL_NS - 30 * SECOND_NS)
    lines = incident_lines(frame_with(past=(past,)), 120, 2)
    assert lines[0].text == snapshot
    assert lines[1].click == Click("incident", past.id)
    assert lines[1].text == snapshot
    assert {span.tone for span in lines[1].spans} == {Tone.PLAIN, Tone.MUTED, Tone.ACCENT}
    (key,) = [span.text for span in lines[1].spans if span.tone is Tone.ACCENT]
    assert key.strip() == "Tab"
    note = incident(3, severity=Severity.INFO)
    lines = incident_lines(frame_with(incident(), note, past=(past,)), 120, 3)
    assert [item.click and item.click.argument for item in lines] == [
        incident().id,
        past.id,
        note.id,
    ]
    old = incident(9, until_ns=WALL_NS - 130 * SECOND_NS)
    assert incident_lines(frame_with(past=(old,)), 120, 2)[1].text == ""


def test_drops_are_never_below_a_line_that_all_is_well(snapshot: SnapshotAssertion) -> None:
    plain = frame_with()
    values: tuple[Reading, ...] = (8e6, 4.4e5, Missing(Reason.STALE))
    nfs = tuple(
        replace(nf, readings={**nf.readings, **nic_drops(drops)})
        for nf, drops in zip(plain.nfs, values, strict=False)
    )
    note = incident(severity=Severity.INFO)
    for incidents in ((), (note,)):
        frame = replace(frame_with(*incidents), nfs=nfs)
        first, second = incident_lines(frame, 120, 2)
        assert first.text == snapshot
        assert Tone.GOOD not in {span.tone for span in first.spans}
        assert bool(second.text) is bool(incidents)
    muted = incident_lines(replace(frame_with(incident(muted=True)), nfs=nfs), 120, 1)
    assert muted[0].text == snapshot


def test_notes_and_what_ended_are_not_called_no_incident() -> None:
    note = incident(severity=Severity.INFO)
    for frame in (frame_with(note), frame_with(past=(timed(replace(note, until_ns=WALL_NS)),))):
        text = incident_lines(frame, 120, 1)[0].text
        assert text.startswith(" ✔ no harm") and "incident" not in text
    assert "; 1 note" in incident_lines(frame_with(note), 120, 1)[0].text


def test_a_function_that_is_within_noise_is_no_victim_worth_a_name(
    snapshot: SnapshotAssertion,
) -> None:
    unknown = replace(victim("odd", 0.0, 0.0), change=Missing(Reason.WARMING))
    same = victim("same", 0.019, 0.0)
    dearer = replace(victim("vpp", 0.03, 0.0), metric="busy_cpp")
    one = incident(victims=(same, dearer, victim("fwd", -0.01, 9.0), unknown))
    [item] = incident_lines(frame_with(one), 160, 1)
    assert item.text == snapshot
    [item] = incident_lines(frame_with(incident(victims=(same, unknown))), 160, 1)
    assert "→ same odd 7.23M" in item.text


def test_more_packets_and_lower_cost_are_no_harm() -> None:
    more = victim("fwd", 1.39, 0.0)
    cheaper = replace(victim("vpp", -0.3, 0.0), metric="busy_cpp")
    [item] = incident_lines(frame_with(incident(victims=(more, cheaper))), 160, 1)
    assert "139" not in item.text and "+" not in item.text.partition("→")[2]


def test_without_a_culprit_the_victim_is_named_and_the_cause_is_not_known() -> None:
    one = incident(culprit=None, victims=(victim(),), title="forwards 22% of its usual 15.57 Mpps")
    [item] = incident_lines(frame_with(one), 160, 1)
    assert item.text.startswith(" ● fwd forwards 22%") and "cause not known" in item.text
    assert item.text.count("fwd") == 1


def test_a_healthy_host_reports_what_watches_it() -> None:
    lines = incident_lines(frame_with(), 120, 2)
    assert lines[0].text.startswith(" ✔ nothing hurts")
    assert "3 pollers" in lines[0].text and lines[1].text == ""


def test_what_a_process_harms_itself_is_not_named_twice() -> None:
    one = victim()
    own = incident(culprit=Party("nf", "fwd", key=one.party.key), victims=(one,), kind="nf")
    [item] = incident_lines(frame_with(own), 120, 1)
    assert item.text.count("fwd") == 1 and "-9%" in item.text


def test_packets_that_are_not_sent_are_a_price_without_drops() -> None:
    [item] = incident_lines(frame_with(incident(price=Price(0.0, 2.5e6))), 120, 1)
    assert "2.50M pps lost" in item.text
    unknown = Missing(Reason.SOURCE)
    [item] = incident_lines(frame_with(incident(price=Price(unknown, unknown))), 120, 1)
    assert "/s" not in item.text.partition("→")[2]


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.02, "0+"), (0.2, "0.2"), (12.4, "12.4"), (999, "999"), (999.8, "1.00k"),
     (63e4, "630k"), (3.82e6, "3.82M"), (42.04e6, "42.0M"), (999.6e6, "1.00G"), (1.5e12, "1.50T")],
)  # fmt: skip
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert si(value) == text == fmt.number(value, Unit.PER_S, 8)


def test_ages_and_changes() -> None:
    assert incident_age(incident(), START_NS) == "2m00s"
    assert incident_age(incident(until_ns=WALL_NS - SECOND_NS), START_NS) == "ended 1s ago"
    assert [change_text(value) for value in (-0.091, 0.004, -0.004, 0.12, -0.996, 12)] == [
        "-9%",
        "0%",
        "0%",
        "+12%",
        "-99%",
        "x13",
    ]
    assert change_text(Missing(Reason.WARMING)) == ""


def test_a_frame_without_values_is_not_called_healthy() -> None:
    host = Frozen("healthy", traffic=None)
    first, second = host.tick(0), host.tick(SECOND_NS)
    assert has_no_values(first) and not has_no_values(second)
    for width, rows in SIZES[1:]:
        [head, *_] = incident_lines(first, width, rows)
        assert "no values yet" in head.text and "nothing hurts" not in head.text
    assert "nothing hurts" in incident_lines(second, 80, 1)[0].text


@pytest.mark.parametrize("reason", [Reason.ERROR, Reason.PERMISSION, Reason.SOURCE])
def test_a_frame_with_unknown_drops_is_not_reported_as_healthy(reason: Reason) -> None:
    base = frame_with()
    why = Missing(reason, "the counters can't be read")
    nfs = [replace(nf, readings={**nf.readings, "drop_packets_per_s": why}) for nf in base.nfs]
    [head] = incident_lines(replace(base, nfs=tuple(nfs)), 120, 1)
    assert head.text.startswith(f" {GLYPHS[Severity.INFO]} ") and why.detail in head.text
    # One that is known is watched.
    assert "3 pollers" in incident_lines(replace(base, nfs=(base.nfs[0], *nfs[1:])), 120, 1)[0].text


def test_a_host_without_a_network_function_is_not_reported_as_healthy() -> None:
    base = frame_with()
    none = replace(base, nfs=(), cpus=replace(base.cpus, nf=(None,) * len(base.cpus)))
    [head] = incident_lines(none, 120, 1)
    assert head.text.startswith(f" {GLYPHS[Severity.INFO]} ") and "F9" in head.text


def test_more_packets_are_no_harm() -> None:
    more = replace(victim(), change=0.01, drops_per_s=3_900.0)
    [head] = incident_lines(frame_with(incident(victims=(more,))), 120, 1)
    assert "+1%" not in head.text and more.party.name in head.text


def test_more_packets_and_cheaper_ones_are_no_harm() -> None:
    party = Party("nf", "vpp", key="1")
    changes = {
        ("tx_packets_per_s", 139.0): "",
        ("cpp", -0.9): "",
        ("tx_packets_per_s", -0.09): "-9%",
        ("cpp", 0.1): "+10%",
    }
    for (metric, change), text in changes.items():
        assert harm_text(Victim(party, metric, 1.0, 1.0, change)) == text
