"""Series of a Prometheus become hosts, network functions, incidents and findings."""

from __future__ import annotations

from typing import get_args
from unittest.mock import Mock

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nftop.derive import fleet
from nftop.derive.findings.registry import all_rules
from nftop.derive.fleet import (
    GONE_FOR_NS,
    FleetState,
    cause_title,
    finding_title,
    step,
)
from nftop.model.fleet import FLEET_METRICS, FleetFrame, FleetLabels, FleetSample, FleetSeries
from nftop.model.incident import CAUSE_TITLES, CauseKind, Severity
from nftop.model.missing import Missing, Reason
from nftop.model.struct import replace
from nftop.render.fleet import (
    COLUMNS,
    FleetStatus,
    explain_fleet_lines,
    fleet_columns,
    fleet_findings_lines,
    fleet_header,
    fleet_lines,
)
from nftop.render.fleet_rows import FleetOrder, fleet_rows
from tests.fleet import WALL_S, host_frame, page_of, sample_of, three_hosts

S = 1_000_000_000


def frame_of(sample: FleetSample) -> FleetFrame:
    return step(FleetState(), sample)[1]


def series(value: float = 1.0, /, **labels: str) -> FleetSeries:
    return FleetSeries(msgspec.convert(labels, FleetLabels), value)


def sample(**families: tuple[FleetSeries, ...]) -> FleetSample:
    return FleetSample(0, 0, WALL_S, 0.0, 0, families)


def test_numbers_are_those_of_the_hosts() -> None:
    frame = frame_of(sample_of(three_hosts()))
    assert [host.name for host in frame.hosts] == ["core-1", "edge-07", "edge-08"]
    hosts = {
        "edge-07": host_frame("edge-07", "noisy", 20),
        "edge-08": host_frame("edge-08", "slow"),
        "core-1": host_frame("core-1"),
    }
    assert len(frame.nfs) == sum(len(host.nfs) for host in hosts.values())
    for row in frame.nfs:
        (nf,) = [nf for nf in hosts[row.host.name].nfs if nf.name == row.name]
        assert (row.kind, row.pid) == (nf.kind, str(nf.pid))
        assert row.saturated is nf.saturated
        assert row.cpp_clock == (nf.cpp_clock or "")
        for name in FLEET_METRICS:
            own, reading = nf.readings[name], row.readings[name]
            if isinstance(own, Missing):
                assert isinstance(reading, Missing)
            else:
                assert reading == pytest.approx(own)
    for host in frame.hosts:
        assert (host.state, host.age_s, host.badge) == ("up", 3.0, "SIMULATED")
    wanted = {
        (name, item.id, item.severity)
        for name, host in hosts.items()
        for item in host.incidents
        if not item.muted
    }
    assert {(item.host.name, item.id, item.severity) for item in frame.incidents} == wanted
    assert len(frame.findings) == sum(len(host.findings) for host in hosts.values())
    assert frame.incidents[0].severity is Severity.BAD
    assert frame.incidents[0].drops_per_s == max(
        item.drops_per_s for item in frame.incidents if not isinstance(item.drops_per_s, Missing)
    )


def test_victims_and_findings_are_with_their_rows() -> None:
    frame = frame_of(sample_of(three_hosts()))
    rows = {(nf.host.name, nf.name): nf for nf in frame.nfs}
    assert rows["edge-07", "vpp"].severity is Severity.BAD
    assert rows["edge-07", "vpp"].events[0] == CAUSE_TITLES["neighbour"]
    assert rows["edge-08", "vpp"].severity is Severity.BAD
    assert not any(nf.events for nf in frame.nfs if nf.host.name == "core-1")


def test_a_host_that_is_down_or_gone_stays_for_a_while() -> None:
    pages: dict[str, str | None] = dict(three_hosts())
    state, _ = step(FleetState(), sample_of(pages, monotonic_ns=10 * S))
    pages["edge-08:9739"] = None
    del pages["core-1:9739"]
    state, frame = step(state, sample_of(pages, monotonic_ns=20 * S))
    hosts = {host.name: host for host in frame.hosts}
    assert {name: host.state for name, host in hosts.items()} == {
        "edge-07": "up",
        "edge-08": "down",
        "core-1": "gone",
    }
    assert hosts["edge-07"].since_ns == 10 * S
    assert hosts["edge-08"].since_ns == hosts["core-1"].since_ns == 20 * S
    for name in ("edge-08", "core-1"):
        age = hosts[name].age_s
        assert isinstance(age, Missing)
        assert age.reason is Reason.STALE
    assert {nf.host.name for nf in frame.nfs} == {"edge-07"}
    state, frame = step(state, sample_of(pages, monotonic_ns=30 * S))
    assert {host.since_ns for host in frame.hosts if host.state == "down"} == {20 * S}
    state, frame = step(state, sample_of(pages, monotonic_ns=11 * S + GONE_FOR_NS))
    assert [host.name for host in frame.hosts] == ["edge-07", "edge-08"]
    assert set(state.hosts) == set(pages)


def test_ages_are_by_the_clock_of_prometheus() -> None:
    page = page_of(host_frame("core-1"))
    for evaluated_s, age in ((WALL_S + 60, 60.0), (WALL_S - 4, 0.0)):
        assert frame_of(sample_of({"a": page}, evaluated_s=evaluated_s)).hosts[0].age_s == age
    ahead = frame_of(sample_of({"a": page}, evaluated_s=WALL_S - 10)).hosts[0].age_s
    assert isinstance(ahead, Missing)
    assert ahead.reason is Reason.ERROR


def test_hosts_of_one_name_are_called_by_their_targets() -> None:
    page = page_of(host_frame("core-1"))
    frame = frame_of(sample_of({"a:1": page, "b:1": page}))
    assert [host.name for host in frame.hosts] == ["a:1", "b:1"]
    assert [host.name for host in frame_of(sample_of({"a:1": page})).hosts] == ["core-1"]


def test_doubled_series_count_once_with_a_note() -> None:
    good, again = sample_of(three_hosts()), sample_of(three_hosts())
    rows_twice = {key: (*rows, *again.series[key]) for key, rows in good.series.items()}
    doubled = replace(good, series=rows_twice)
    once, twice = frame_of(good), frame_of(doubled)
    assert len(rows_twice["up"]) == 6
    assert replace(twice, notes=()) == once
    assert not once.notes
    (note,) = twice.notes
    assert "doubled (instance core-1:9739, edge-07:9739, edge-08:9739)" in note


def test_of_two_targets_the_first_counts_with_all_its_numbers() -> None:
    nf = {"instance": "a", "nf": "vpp", "kind": "vpp", "pid": "1"}
    mine = {"instance": "a", "id": "x-1"}
    frame = frame_of(
        sample(
            up=(series(instance="a"),),
            nf=(series(**nf, cpus="1"), series(**nf, cpus="2")),
            nf_up=(series(1.0, **nf), series(0.0, **nf)),
            cpp=(series(100.0, **nf), series(200.0, **nf)),
            incident=(series(**mine, kind="load"), series(**mine, kind="nf")),
            severity=(series(2.0, **mine), series(1.0, **mine)),
            begin=(series(5.0, **mine), series(6.0, **mine)),
            drops=(series(7.0, **mine), series(8.0, **mine)),
        )
    )
    (row,), (incident,) = frame.nfs, frame.incidents
    assert (row.cpus, row.readings["cpp"], row.problem) == ("1", 100.0, None)
    assert (incident.kind, incident.severity) == ("load", Severity.BAD)
    assert (incident.since_s, incident.drops_per_s) == (5.0, 7.0)
    assert "7 series are doubled (instance a)" in frame.notes[0]


def test_two_targets_of_an_instance_are_a_note() -> None:
    read = sample(up=(series(instance="a"),), targets=(series(2.0, instance="a"),))
    (note,) = frame_of(read).notes
    assert note.startswith("1 series is doubled (instance a)")


def test_a_host_that_is_down_has_no_numbers_of_before() -> None:
    """Prometheus that was restarted answers with old samples for 5 minutes."""
    good = sample_of(three_hosts())
    ups = tuple(
        series(float(row.labels.instance != "edge-07:9739"), instance=row.labels.instance)
        for row in good.series["up"]
    )
    frame = frame_of(replace(good, series={**good.series, "up": ups}))
    assert [host.name for host in frame.hosts if host.state == "down"] == ["edge-07:9739"]
    hosts = [row.host for row in frame.nfs] + [row.host for row in frame.incidents]
    hosts += [row.host for row in frame.findings]
    assert {host.instance for host in hosts} == {"core-1:9739", "edge-08:9739"}


def test_victims_are_known_by_more_than_their_names() -> None:
    nfs = [
        {"instance": "a", "nf": "l3fwd, vpp", "kind": "dpdk", "pid": "1"},
        {"instance": "a", "nf": "vpp", "kind": "vpp", "pid": "2"},
        {"instance": "a", "nf": "vpp", "kind": "vpp", "pid": "3"},
        {"instance": "a", "nf": "vpp", "kind": "vpp", "pid": "3", "twin": "2"},
    ]
    frame = frame_of(
        sample(
            up=(series(instance="a"),),
            nf=tuple(series(**nf) for nf in nfs),
            incident=(series(instance="a", id="x", kind="load", victims="vpp, l3fwd, vpp"),),
            victim=tuple(series(id="x", **nfs[at]) for at in (0, 3)),
        )
    )
    assert [bool(nf.events) for nf in frame.nfs] == [True, False, False, True]
    assert [item.name for item in frame.incidents[0].victims] == ["vpp", "l3fwd, vpp"]


def test_victims_have_the_order_of_the_label() -> None:
    """By name, not by the first text that has it."""
    names = ("vpp-1", "vpp-10", "vpp")
    frame = frame_of(
        sample(
            up=(series(instance="a"),),
            incident=(series(instance="a", id="x", kind="load", victims="vpp-10, vpp, vpp-1"),),
            victim=tuple(series(instance="a", id="x", nf=name) for name in names),
        )
    )
    assert [item.name for item in frame.incidents[0].victims] == ["vpp-10", "vpp", "vpp-1"]


def test_an_incident_without_victims_is_of_its_host_alone() -> None:
    nfs = tuple(series(instance=item, nf="vpp", kind="vpp") for item in ("a", "b"))
    ups = tuple(series(instance=item) for item in ("a", "b"))
    frame = frame_of(sample(up=ups, nf=nfs, incident=(series(instance="a", id="x", kind="host"),)))
    assert all(nf.severity is None and not nf.events for nf in frame.nfs)
    rows = fleet_rows(frame, FleetOrder())
    assert [(row.host.instance, row.nf is None) for row in rows] == [
        ("a", True),
        ("a", False),
        ("b", False),
    ]
    assert [item.id for item in rows[0].incidents] == ["x"]
    assert rows[0].harm > rows[1].harm == 0.0
    info = sample(
        up=ups,
        nf=nfs,
        incident=(series(instance="a", id="x", kind="host"),),
        severity=(series(0.0, instance="a", id="x"),),
    )
    assert [row.nf is None for row in fleet_rows(frame_of(info), FleetOrder())] == [False] * 2


def test_a_network_function_with_old_counters_has_a_reason() -> None:
    info = {"instance": "a", "nf": "vpp", "kind": "vpp", "pid": "1"}
    up = series(0.0, **info)
    frame = frame_of(sample(up=(series(instance="a"),), nf=(series(**info),), nf_up=(up,)))
    problem = frame.nfs[0].problem
    assert problem is not None
    assert problem.reason is Reason.STALE
    assert all(isinstance(item, Missing) for item in frame.nfs[0].readings.values())


def test_what_another_version_exports_is_shown_by_its_id() -> None:
    frame = frame_of(
        sample(
            up=(series(instance="a"),),
            nf=(series(instance="a", nf="vpp", kind="vpp", cpus="bad list"),),
            incident=(series(instance="a", id="x-1", kind="magnets", victims="vpp"),),
            victim=(series(instance="a", id="x-1", nf="vpp", kind="vpp"),),
            severity=(series(7.0, instance="a", id="x-1"),),
            finding=(
                series(instance="a", rule="magnets-near", where="cpu 3"),
                series(instance="b", rule="drops", where="nf vpp"),
            ),
        )
    )
    assert frame.nfs[0].events == ("magnets",)
    assert frame.incidents[0].severity is Severity.WARN
    assert [(item.rule, item.host.instance) for item in frame.findings] == [("magnets-near", "a")]
    assert finding_title("magnets-near") == "magnets-near"
    assert all(finding_title(rule.id) == rule.title for rule in all_rules())


def test_every_kind_of_cause_has_a_title() -> None:
    assert set(CAUSE_TITLES) == set(get_args(CauseKind))
    assert cause_title("neighbour") == CAUSE_TITLES["neighbour"]


def test_a_finding_of_a_cpu_concerns_its_pollers() -> None:
    nfs = (series(instance="a", nf="vpp", cpus="1-4"), series(instance="a", nf="ovs", cpus="5"))
    finding = series(instance="a", rule="shared-cpu", where="cpu 3")
    muted = series(instance="a", rule="drops", where="nf ovs", muted="true")
    frame = frame_of(sample(up=(series(instance="a"),), nf=nfs, finding=(finding, muted)))
    assert {nf.name: nf.events for nf in frame.nfs} == {
        "vpp": (finding_title("shared-cpu"),),
        "ovs": (),
    }


def test_a_host_with_any_number_of_series_costs_no_more_than_they_are() -> None:
    """In proportion to series and not to pairs of them, and other hosts are not left out."""
    mine, count = {"instance": "liar:1"}, 110
    victims = tuple(str(index) for index in range(count))
    parsed = Mock(wraps=fleet._bits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fleet, "_bits", parsed)
        patch.setattr(fleet, "_MOST_OF_HOST", 100)
        frame = frame_of(
            sample(
                up=(series(instance="liar:1"), series(instance="ours:1")),
                nf=(
                    *(series(**mine, nf=name, kind="dpdk", cpus="0-16383") for name in victims),
                    series(instance="ours:1", nf="vpp", kind="vpp", cpus="3"),
                ),
                finding=(
                    *(series(**mine, rule=name, where=f"cpu 0-{name}") for name in victims),
                    series(instance="ours:1", rule="low-ipc", where="cpu 3"),
                ),
                incident=(series(**mine, id="i", kind="neighbour", victims="x, " * (1 << 20)),),
                victim=tuple(series(**mine, id="i", nf=name, kind="dpdk") for name in victims),
            )
        )
    assert parsed.call_count <= 2 * count + 2
    assert len(frame.nfs) == len(frame.findings) == 101
    assert len(frame.incidents[0].victims) == 100
    assert frame.nfs[-1].name == "vpp"
    assert len(frame.nfs[-1].events) == 1
    assert frame.nfs[0].severity is Severity.WARN
    assert len(frame.nfs[0].events) == fleet._MOST_TITLES
    assert [note.split()[0] for note in frame.notes] == ["10"] * 3


def test_muted_incidents_are_left_out() -> None:
    item = series(instance="a", id="x", kind="nf", muted="true")
    assert not frame_of(sample(up=(series(instance="a"),), incident=(item,))).incidents


_TEXTS = st.sampled_from(["", "a", "b", "vpp", "nf vpp", "cpu 1-3", "1-4", "cpu x", "true", "drops",
                          "neighbour", "a, vpp", "\x1b[2J", "x" * 300])  # fmt: skip
_SERIES = st.builds(
    FleetSeries,
    st.builds(FleetLabels, **dict.fromkeys(FleetLabels.__struct_fields__, _TEXTS)),
    st.sampled_from([0.0, 1.0, 2.0, -1.0, 0.5, 1e9, WALL_S, -1e308, 1e308, 5e-324]),
)
_KEYS = ("up", "host", "time", "nf", "nf_up", "finding", "incident", "victim", "severity", "begin",
         "drops", *FLEET_METRICS)  # fmt: skip


@given(
    st.lists(st.dictionaries(st.sampled_from(_KEYS), st.lists(_SERIES, max_size=4)), max_size=3),
    st.sampled_from([WALL_S, float("nan"), 1.0, 1e11]),
    st.sampled_from([1, 40, 80, 120]),
)
@settings(max_examples=150)
def test_any_series_give_a_frame_and_a_screen(
    samples: list[dict[str, list[FleetSeries]]], evaluated_s: float, width: int
) -> None:
    state = FleetState()
    status = FleetStatus("prom", 10.0, 3 * S)
    for families in samples:
        read = sample(**{key: tuple(rows) for key, rows in families.items()})
        state, frame = step(state, replace(read, evaluated_s=evaluated_s))
        rows = fleet_rows(frame, FleetOrder())
        assert len({row.key for row in rows if row.nf is not None}) == len(frame.nfs)
        for col in COLUMNS:
            assert col.key == "event" or len(fleet_rows(frame, FleetOrder(col.key))) == len(rows)
        lines = [
            *fleet_header(frame, status, width, 3),
            *fleet_lines(rows, fleet_columns(width, rows), frame, 3 * S),
            *(item for row in rows[:2] for item in explain_fleet_lines(frame, row, width)),
            *fleet_findings_lines(frame, width),
        ]
        assert all(item.text.isprintable() for item in lines)


def test_nothing_at_all_is_a_frame() -> None:
    frame = frame_of(replace(sample(), evaluated_s=float("nan")))
    assert (frame.hosts, frame.nfs, frame.notes) == ((), (), ())
