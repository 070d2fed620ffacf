"""Lines of the fleet screen: order, sums, incidents, absent numbers, hostile labels."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.derive.fleet import FleetState, step
from nftop.model.fleet import FLEET_METRICS, FleetFrame, FleetLabels, FleetSeries
from nftop.model.incident import Severity
from nftop.model.missing import Missing
from nftop.model.struct import replace
from nftop.render.base.line import Click, Line, Tone
from nftop.render.base.text import ascii_only, cells
from nftop.render.fleet import (
    COLUMNS,
    FleetStatus,
    explain_fleet_lines,
    fleet_columns,
    fleet_findings_lines,
    fleet_header,
    fleet_incidents,
    fleet_lines,
    fleet_order_line,
    fleet_table_header,
    fleet_text,
    unmapped_lines,
    waiting_header,
)
from nftop.render.fleet_rows import FleetOrder, FleetRow, fleet_rows, matches
from tests.fleet import sample_of, three_hosts
from tests.frames import HOSTILE

S = 1_000_000_000
STATUS = FleetStatus("prom:9090", 10.0, 5 * S)
WIDTHS = (1, 8, 20, 40, 79, 80, 120, 200, 400)


def frame() -> FleetFrame:
    return step(FleetState(), sample_of(three_hosts()))[1]


def one_down() -> FleetFrame:
    state, _ = step(FleetState(), sample_of(three_hosts(), monotonic_ns=-60 * S))
    return step(state, sample_of({**three_hosts(), "edge-08:9739": None}))[1]


def hostile() -> FleetFrame:
    """Every label is hostile: escapes, markup, options, shell."""
    texts = (*HOSTILE, "-oProxyCommand=reboot", "$(reboot)`x`", "[bold red]x[/]", "x" * 4000)
    every = FleetLabels.__struct_fields__
    rows = [
        FleetSeries(FleetLabels(**dict.fromkeys(every, text)), value)
        for text, value in zip(texts, range(len(texts)), strict=True)
    ]
    keys = (
        "up",
        "host",
        "time",
        "nf",
        "nf_up",
        "finding",
        "incident",
        "severity",
        "begin",
        "drops",
        *FLEET_METRICS,
    )
    sample = replace(
        sample_of({}), series={key: tuple(rows) for key in keys}, notes=(HOSTILE[0], "\x1b[2J")
    )
    ones = tuple(replace(row, value=1.0) for row in rows)
    sample = replace(sample, series={**sample.series, "up": ones, "finding": ones})
    return replace(step(FleetState(), sample)[1], problem=HOSTILE[1])


def whole(shown: FleetFrame, width: int, order: FleetOrder | None = None) -> list[Line]:
    """All lines of the screen."""
    order = order or FleetOrder()
    rows = fleet_rows(shown, order)
    columns = fleet_columns(width, rows)
    return [
        *fleet_header(shown, STATUS, width, 3),
        fleet_order_line(rows, order, width),
        fleet_table_header(columns, order, width),
        *fleet_lines(rows, columns, shown, STATUS.now_ns),
    ]


def names(shown: FleetFrame, sort: str, *, inverted: bool = False) -> list[tuple[str, str]]:
    rows = fleet_rows(shown, FleetOrder(sort, inverted))
    return [(row.host.name, "" if row.nf is None else row.nf.name) for row in rows]


def number(row: FleetRow, key: str) -> float | None:
    reading = row.host.age_s if row.nf is None else row.nf.readings[key]
    return None if isinstance(reading, Missing) else reading


@pytest.mark.parametrize("width", [80, 120])
def test_lines(width: int, snapshot: SnapshotAssertion) -> None:
    lines = whole(one_down(), width)
    assert "\n".join(item.text.rstrip() for item in lines) == snapshot


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("make", [frame, one_down, hostile])
def test_no_line_is_wider_than_the_screen_and_all_are_printable(make: object, width: int) -> None:
    assert callable(make)
    shown = make()
    lines = fleet_incidents(shown, width, 5)
    if width >= 40:  # narrower ones are cut by the widget
        lines += [*whole(shown, width), *fleet_text(shown, STATUS, width)]
        lines += fleet_findings_lines(shown, width)
        for row in fleet_rows(shown, FleetOrder())[:5]:
            lines += explain_fleet_lines(shown, row, width)
    for item in lines:
        assert item.text.isprintable()
        assert cells(item.text) <= width, item.text
        assert ascii_only(item.text).isascii()


def test_the_order_is_by_harm_as_on_one_host() -> None:
    rows = fleet_rows(frame(), FleetOrder())
    harms = [row.harm for row in rows]
    assert harms == sorted(harms, reverse=True)
    assert [(row.host.name, row.nf and row.nf.name) for row in rows[:2]] == [
        ("edge-08", "vpp"),
        ("edge-07", "vpp"),
    ]
    assert all((row.harm == 0) is not bool(row.nf and row.nf.events) for row in rows)
    # A host that is down is worse than one without harm, and lost packets are worse than that.
    down = [row.host.name for row in fleet_rows(one_down(), FleetOrder())]
    lossy = [row for row in fleet_rows(one_down(), FleetOrder()) if row.harm >= 4]
    assert down.index("edge-08") == len(lossy)


@pytest.mark.parametrize("key", [col.key for col in COLUMNS if col.metric is not None])
@pytest.mark.parametrize("inverted", [False, True])
def test_rows_without_a_number_are_last_in_both_orders(key: str, inverted: bool) -> None:
    rows = fleet_rows(one_down(), FleetOrder(key, inverted))
    numbers = [None if row.nf is None else number(row, key) for row in rows]
    known = [item for item in numbers if item is not None]
    assert numbers[: len(known)] == sorted(known, reverse=not inverted)


def test_names_are_sorted_from_a_to_z() -> None:
    hosts = [host for host, _ in names(frame(), "host")]
    assert hosts == sorted(hosts)
    assert [host for host, _ in names(frame(), "host", inverted=True)] == hosts[::-1]
    nfs = [nf for _, nf in names(frame(), "nf")]
    assert nfs == sorted(nfs)


@pytest.mark.parametrize(
    ("search", "count"),
    [("EDGE-07", 4), ("vpp", 3), ("noisy", 3), ("", 12), ("9739", 12), ("nothing-like-it", 0)],
)
def test_the_filter_matches_names_targets_classes_and_incidents(search: str, count: int) -> None:
    shown = frame()
    rows = fleet_rows(shown, FleetOrder(filter=search))
    assert len([row for row in fleet_rows(shown, FleetOrder()) if matches(row, search)]) == count
    if search != "vpp":  # a class of that name is another NF's too
        assert len(rows) == count


def test_incidents_count_those_left_out() -> None:
    shown = frame()
    count = len(shown.incidents)
    lines: list[Line] = []
    for rows in (1, 2, 4):
        lines = fleet_incidents(shown, 120, rows)
        assert len(lines) == rows
        assert lines[-1].text.rstrip().endswith(f"+{count - rows}")
    assert lines[0].click == Click("host", shown.incidents[0].host.instance)
    assert any(span.tone is Tone.BAD for span in lines[0].spans)


def test_no_incident_is_no_claim_where_numbers_lack() -> None:
    well = step(FleetState(), sample_of({"a": three_hosts()["core-1:9739"]}))[1]
    assert fleet_incidents(well, 80, 1)[0].spans[1].tone is Tone.GOOD
    down = step(FleetState(), sample_of({"a": three_hosts()["core-1:9739"], "b": None}))[1]
    assert fleet_incidents(down, 80, 1)[0].spans[1].tone is Tone.WARN
    nothing = step(FleetState(), sample_of({}))[1]
    assert "--job" in fleet_incidents(nothing, 80, 1)[0].text


def test_losses_and_information_are_never_no_harm() -> None:
    well = step(FleetState(), sample_of({"a": three_hosts()["core-1:9739"]}))[1]
    losing = replace(
        well,
        nfs=tuple(
            replace(nf, readings={**nf.readings, "drop_packets_per_s": 3.0}) for nf in well.nfs
        ),
    )
    (text,) = (item.text for item in fleet_incidents(losing, 80, 1))
    assert (
        text.strip() == f"\u25b2 {len(well.nfs)} network functions with losses, no incident of them"
    )
    note = replace(frame().incidents[0], host=well.hosts[0], severity=Severity.INFO)
    noted = fleet_incidents(replace(well, incidents=(note,)), 80, 2)
    assert not any(span.tone is Tone.GOOD for item in noted for span in item.spans)
    assert noted[0].click == Click("host", "a")


def test_an_overdue_answer_is_not_live() -> None:
    shown = replace(frame(), monotonic_ns=0, took_s=0.5)
    for age_s, mode in ((11, "LIVE"), (12, "LATE"), (22, "STALE")):
        text = fleet_header(shown, replace(STATUS, now_ns=age_s * S), 120, 0)[0].text
        assert [item for item in ("LIVE", "LATE", "STALE") if item in text.split()] == [mode]


def test_long_labels_are_cut_and_the_root_class_has_its_name() -> None:
    shown = frame()
    nf = replace(shown.nfs[0], host=replace(shown.nfs[0].host, name="h" * 5000), group="/")
    row = FleetRow(nf.host, nf, 0.0)
    page = [item.text for item in explain_fleet_lines(replace(shown, nfs=(nf,)), row, 80)]
    assert len("".join(page)) < 4000
    assert [text.split() for text in page if text.startswith("cache class")] == [
        ["cache", "class", "default"],
    ]


def test_the_header_has_states_sums_and_ages() -> None:
    shown = one_down()
    text = fleet_header(shown, STATUS, 120, 0)[0].text
    sums = [
        sum(value for nf in shown.nfs if not isinstance(value := nf.readings[key], Missing))
        for key in ("tx_packets_per_s", "drop_packets_per_s")
    ]
    assert "3 hosts, 1 down" in text
    assert f"{sums[0] / 1e6:,.0f} Mpps" in text
    assert "8.44M drop/s" in text and 8.435e6 < sums[1] < 8.445e6
    assert "prom:9090 5s ago" in text
    late = fleet_header(shown, replace(STATUS, now_ns=90 * S), 120, 0)[0]
    assert [span.tone for span in late.spans if "ago" in span.text] == [Tone.BAD]
    assert "waiting for prom:9090" in waiting_header(STATUS, 80)[0].text


def test_many_notes_leave_room_for_the_table() -> None:
    shown = replace(frame(), notes=tuple(f"note {at}" for at in range(40)))
    lines = [item.text for item in fleet_header(shown, STATUS, 80, 0)]
    assert lines[1:] == ["! note 0", "! note 1", "! and 38 more (x)"]
    page = [
        item.text for item in explain_fleet_lines(shown, fleet_rows(shown, FleetOrder())[0], 80)
    ]
    assert page[-40:] == list(shown.notes)


def test_a_bound_and_an_estimate_have_their_marks() -> None:
    shown = frame()
    rows = fleet_rows(shown, FleetOrder())
    cpp = [col for col in fleet_columns(120, rows) if col.key == "cpp"]
    texts = [item.text.strip() for item in fleet_lines(rows, cpp, shown, 0)]
    for row, text in zip(rows, texts, strict=True):
        assert row.nf is not None
        assert text.startswith("<") is (row.nf.saturated is not True)


def test_how_a_host_is_added_is_stated_with_its_target_as_text() -> None:
    host = replace(frame().hosts[0], instance="-oProxyCommand=x\x1b", name="\x1b[2J")
    to_add = ("[fleet.hosts]", '"a" = "HOST"')
    lines = unmapped_lines(host, "/home/me/config.toml", to_add, ("/etc/x\x1b: no",), 80)
    assert all(item.text.isprintable() for item in lines)
    assert [item.text for item in lines if item.text in to_add] == list(to_add)
    assert any("/etc/x" in item.text for item in lines)


def test_of_a_host_that_is_down_nothing_is_known() -> None:
    state, _ = step(FleetState(), sample_of(three_hosts(), monotonic_ns=-60 * S))
    absent = {**three_hosts(), "edge-08:9739": None}
    state, _ = step(state, sample_of(absent, monotonic_ns=-22 * S))
    shown = step(state, sample_of(absent, monotonic_ns=0))[1]
    rows = {row.host.name: row for row in fleet_rows(shown, FleetOrder())}
    page = [item.text for item in explain_fleet_lines(shown, rows["edge-08"], 80)]
    assert sum("down 22s or more" in text for text in page) == 3
    assert sum("not known" in text for text in page) == 2
    page = [item.text for item in explain_fleet_lines(shown, rows["core-1"], 80)]
    assert not any("not known: the host" in text or "or more" in text for text in page)


def test_without_an_answer_nothing_is_live() -> None:
    for shown in (frame(), step(FleetState(), sample_of({}))[1]):
        late = replace(shown, problem="no Prometheus listens")
        for live, text in (
            (True, fleet_header(shown, STATUS, 120, 2)[0].text),
            (True, fleet_text(shown, STATUS, 160)[0].text),
            (False, fleet_header(late, STATUS, 120, 2)[0].text),
            (False, fleet_text(late, STATUS, 160)[0].text),
        ):
            assert ("LIVE" in text, "NO ANSWER" in text) == (live, not live)
