"""Frames as Prometheus reads them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.derive.fold import FoldState
from nftop.export.openmetrics import writer
from nftop.export.openmetrics.page import Tally, ending, page
from nftop.export.openmetrics.writer import (
    OF_CORES,
    OF_CPUS,
    OF_DEVICES,
    OF_GROUPS,
    OF_MONITORS,
    OF_NFS,
    OF_PACKAGES,
    MetricFamily,
    TextFormat,
    labels,
)
from nftop.model.frame import CounterCost, Finding, Frame
from nftop.model.ids import Cpu, L3Domain
from nftop.model.incident import Party, Price, Severity, Victim
from nftop.model.metrics.catalogue import METRICS
from nftop.model.metrics.metric import Unit
from nftop.model.metrics.nodes import NODE_METRICS
from nftop.model.missing import Missing, Reason
from nftop.model.rdt.rdt import Metered, MonitoringGroup
from nftop.render.base.text import printable
from nftop.sources.base import Focusing
from nftop.sources.pcm.document import parse_json, table_of
from nftop.sources.pcm.source import topology_of
from tests import frames
from tests.export.prometheus import Labels, Read, read
from tests.frames import about
from tests.peers.pcm_server import captures
from tests.rdt import MIB, frame_of, group, in_cache, table, values
from tests.render.incidents.scenes import incident
from tests.samples import HOST, fold, sample
from tests.sim.hosts import Frozen, S

_TABLES = (OF_CPUS, OF_CORES, OF_NFS, OF_PACKAGES, OF_DEVICES, OF_GROUPS, OF_MONITORS)
FAMILIES = [family for table in _TABLES for family in table.values()] + [
    var for var in vars(writer).values() if isinstance(var, MetricFamily)
]
# What each unit is called at the end of a name; the others are counts per something.
ENDS = {
    Unit.RATIO: "_ratio",
    Unit.CHANGE: "_ratio",
    Unit.HZ: "_hertz",
    Unit.BYTES: "_bytes",
    Unit.BYTES_PER_S: "_bytes_per_second",
    Unit.PACKETS_PER_S: "_packets_per_second",
    Unit.REQUESTS_PER_S: "_per_second",
    Unit.PER_S: "_per_second",
    Unit.PER_PACKET: "_per_packet",
    Unit.BYTES_PER_PACKET: "_bytes_per_packet",
    Unit.PACKETS: "_packets_per_batch",
    Unit.PER_CYCLE: "_per_cycle",
    Unit.CYCLES: "_cycles_per_packet",
    Unit.INSTRUCTIONS: "_instructions_per_packet",
    Unit.NS: "_seconds",
    Unit.WATTS: "_watts",
    Unit.JOULES: "_joules",
    Unit.DEGREES_C: "_celsius",
}


@pytest.fixture(scope="module")
def simulated() -> Frame:
    """A frame with numbers of all scopes, classes and boxes."""
    host = Frozen(cpus=16)
    return [host.tick(S) for _ in range(3)][-1]


def read_page(
    frame: Frame, form: TextFormat = TextFormat.OPENMETRICS, tally: Tally | None = None
) -> dict[str, Read]:
    text = page(frame, tally or Tally(), form) + ending({200: 3}, form)
    return read(text, openmetrics=form is TextFormat.OPENMETRICS)


def where(family: Read, **wanted: object) -> list[tuple[dict[str, str], float]]:
    pairs = {(name, str(value)) for name, value in wanted.items()}
    return [(dict(key), value) for key, value in family.samples.items() if pairs <= key]


def test_devices_have_their_root_port_and_network_functions() -> None:
    host = Frozen(cpus=44, processor="gold-6230n")
    frame = [host.tick(S) for _ in range(3)][-1]
    result = read_page(frame)
    known = {labels["root_port"]: labels for labels, _ in where(result[writer.DEVICE.sample])}
    assert len(known) == len(frame.devices) == 6
    for row in frame.devices:
        at = known[row.port.address]
        assert (at["device"], at["package"], at["stack"], at["port"]) == (
            row.name,
            str(row.port.package),
            str(row.port.stack),
            str(row.port.number),
        )
        ((_, wrote),) = where(
            result[OF_DEVICES["dma_write_bytes_per_s"].sample], root_port=row.port.address
        )
        assert wrote == row.readings["dma_write_bytes_per_s"]
    assert known["0000:90:00.0"]["nfs"] == "loop/testpmd"
    missed = where(result[writer.MISSING.sample], metric=OF_DEVICES["dma_miss_per_s"].sample)
    assert [(labels["reason"], count) for labels, count in missed] == [("hardware", 6)]
    taking_turns = where(result[writer.DEVICE_ESTIMATE.sample])
    assert {labels["root_port"] for labels, _ in taking_turns} == {"0000:10:00.0", "0000:10:02.0"}


def test_every_metric_of_the_catalogue_has_a_name() -> None:
    named = {("cpu", cpu) for cpu in OF_CPUS} | {("nf", nf) for nf in OF_NFS}
    named |= {("core", core) for core in OF_CORES}
    named |= {("package", package) for package in OF_PACKAGES} | {
        ("group", of_group) for of_group in OF_GROUPS
    }
    named |= {("device", of_device) for of_device in OF_DEVICES}
    assert named == {(metric.scope, metric.id) for metric in (*METRICS, *NODE_METRICS)}


def test_the_core_in_focus_has_its_nodes_and_probes() -> None:
    host = Frozen(cpus=16)
    for source in host.simulated.sources:
        if isinstance(source, Focusing):
            source.focus(Cpu(2))
    frame = [host.tick(S) for _ in range(3)][-1]
    assert frame.focus is not None
    known = read_page(frame)
    for name, family in OF_CORES.items():
        reading = frame.focus.readings[name]
        if isinstance(reading, Missing):
            assert family.sample not in known, name
        else:
            [(given, value)] = where(known[family.sample])
            assert given["cpu"] == "2"
            assert value == pytest.approx(reading * family.factor), name
    share = {f"tma.{node.name}": node.coverage for node in frame.focus.tree}["tma.dram_bound"]
    reports = where(known["nftop_core_coverage_ratio"], metric=OF_CORES["tma.dram_bound"].sample)
    assert reports[0][1] == share
    assert OF_CORES["tma.icache_misses"].sample == "nftop_core_topdown_icache_misses_ratio"
    assert OF_CORES["load_latency_ns"].sample == "nftop_core_load_latency_seconds"


def test_names_are_prometheus() -> None:
    assert not [item for item in FAMILIES if not re.fullmatch(r"nftop(_[a-z0-9]+)+", item.name)]
    assert max(Counter(entry.sample for entry in FAMILIES).values()) == 1
    types = {"counter", "gauge", "histogram", "summary", "untyped"}
    assert not [item.name for item in FAMILIES if types & set(item.name.split("_"))]
    # No family may be called what another's sample is called.
    assert max(Counter(n for entry in FAMILIES for n in {entry.name, entry.sample}).values()) == 1
    tables = {"cpu": OF_CPUS, "nf": OF_NFS, "package": OF_PACKAGES, "group": OF_GROUPS}
    wrong = [
        name
        for metric in METRICS
        if metric.scope in tables
        and not (name := tables[metric.scope][metric.id].name).endswith(ENDS[metric.unit])
    ]
    assert not wrong


def test_names_that_dashboards_rely_on() -> None:
    assert {
        OF_CPUS["cpp"].sample,
        OF_CPUS["ipc"].sample,
        OF_CPUS["busy_ratio"].sample,
        OF_CPUS["tma.memory_bound"].sample,
        OF_NFS["drop_packets_per_s"].sample,
        OF_PACKAGES["memory.read_bytes_per_s"].sample,
        OF_PACKAGES["energy_j"].sample,
        OF_GROUPS["occupancy_bytes"].sample,
        OF_MONITORS["occupancy_bytes"].sample,
    } == {
        "nftop_cpu_cycles_per_packet",
        "nftop_cpu_instructions_per_cycle",
        "nftop_cpu_busy_ratio",
        "nftop_cpu_topdown_memory_bound_ratio",
        "nftop_nf_drop_packets_per_second",
        "nftop_package_memory_read_bytes_per_second",
        "nftop_package_energy_joules_total",
        "nftop_group_occupancy_bytes",
        "nftop_monitor_occupancy_bytes",
    }


@pytest.mark.parametrize("form", TextFormat)
def test_the_page_has_the_frames_numbers_and_no_other(simulated: Frame, form: TextFormat) -> None:
    known = read_page(simulated, form)
    absent = {
        (entry["metric"], entry["reason"]): count for entry, count in where(known["nftop_missing"])
    }
    table = simulated.cpus
    for name, family in OF_CPUS.items():
        column = table.columns[name]
        reports = known[family.sample].samples if family.sample in known else {}
        present = {int(dict(key)["cpu"]): value for key, value in reports.items()}
        assert present == {
            info.cpu: reading
            for row, info in enumerate(table.topology.cpus)
            if not isinstance(reading := column[row], Missing)
        }
        for reason in Reason:
            if reason is not Reason.PRESENT:
                count = int((column.reasons == reason).sum())
                assert absent.get((family.sample, reason.key), 0) == count
    for nf in simulated.nfs:
        cpp = known["nftop_nf_cycles_per_packet"]
        assert where(cpp, nf=nf.name, pid=nf.pid)[0][1] == nf.readings["cpp"]
    for package in simulated.packages:
        reads = known["nftop_package_memory_read_bytes_per_second"]
        whole = package.readings["memory.read_bytes_per_s"]
        assert where(reads, package=package.package)[0][1] == whole
        boxes = where(known["nftop_memory_channel_read_bytes_per_second"], package=package.package)
        assert sum(value for _, value in boxes) == pytest.approx(whole)
    for item in simulated.groups:
        for cache in item.caches:
            used = where(known["nftop_group_occupancy_bytes"], group=item.name, l3=cache.l3)
            assert used[0][1] == cache.readings["occupancy_bytes"]


def test_what_is_simulated_reports_it_at_every_number_but_nftops_own(simulated: Frame) -> None:
    known = read_page(simulated)
    badge: Labels = frozenset({("badge", "SIMULATED")})
    for name, family in known.items():
        own = name.startswith("nftop_self")
        assert all((badge <= item) != own for item in family.samples), name
        assert family.help.startswith("SIMULATED: ") != own, name
    assert all(not badge & item for r in read_page(frames.frame()).values() for item in r.samples)


def test_pollers_and_their_clock() -> None:
    known = read_page(frames.frame())
    ((info, one),) = where(known["nftop_cpu_info"], cpu=2)
    assert one == 1.0
    assert info == {
        "cpu": "2",
        "core": "2",
        "package": "0",
        "l3": "0",
        "node": "0",
        "nf": "fwd",
        "pid": "4242",
        "thread": "dpdk-worker2",
        "direction": "rx",
        "cpp_clock": "core",
        "saturated": "false",
    }
    ((nf, _),) = where(known["nftop_nf_info"], nf="fwd")
    assert (nf["cpus"], nf["saturated"]) == ("1-2", "false")


@pytest.mark.parametrize("form", TextFormat)
@pytest.mark.parametrize("make", [frames.bare, frames.all_missing, frames.hostile])
def test_a_page_of_nothing_and_of_anything_can_be_read(make: object, form: TextFormat) -> None:
    assert callable(make)
    text = page(make(), Tally(), form) + ending({}, form)
    assert "nan" not in text.lower().replace("nanosecond", "")
    known = read(text, openmetrics=form is TextFormat.OPENMETRICS)
    assert known["nftop_frame_timestamp_seconds"].samples
    assert all(line == printable(line) for line in text.splitlines())


def test_absent_is_absent() -> None:
    known = read_page(frames.all_missing())
    tables = (OF_CPUS, OF_NFS, OF_PACKAGES, OF_GROUPS)
    assert not {value.sample for table in tables for value in table.values()} & known.keys()
    assert set(known["nftop_source_up"].samples.values()) == {0.0}
    assert set(known["nftop_nf_up"].samples.values()) == {0.0}
    assert where(known["nftop_missing"], metric="nftop_self_cpu_ratio") == []


def test_items_of_one_name_are_distinguished() -> None:
    base = frames.frame()
    one = replace(base.nfs[0], key="a", name="x\x1b")
    known = read_page(replace(base, nfs=(one, replace(one, key="b", name="x\x07"))))
    assert [item.get("twin") for item, _ in where(known["nftop_nf_up"], nf="x?")] == [None, "2"]


@settings(max_examples=30)
@given(st.text(max_size=20))
def test_any_text_is_one_label(text: str) -> None:
    known = read(f"# HELP a b\n# TYPE a gauge\na{{{labels(x=text, y=1)}}} 1.0\n", openmetrics=False)
    ((reports, _),) = where(known["a"])
    assert reports == ({"x": printable(text)} if text else {}) | {"y": "1"}


def test_second_choices_and_estimates_are_named(simulated: Frame) -> None:
    origins = {"links": "pcm", "memory.read_bytes_per_s": "pcm"}
    rows = tuple(
        replace(package, origins=origins, estimates=frozenset({"power_w"}))
        for package in simulated.packages
    )
    known = read_page(replace(simulated, packages=rows, notice="cut off", disagreement="by 7 %"))
    for metric in (
        "nftop_upi_link_sent_bytes_per_second",
        "nftop_upi_link_received_bytes_per_second",
        "nftop_package_memory_read_bytes_per_second",
    ):
        ((_, count),) = where(known["nftop_second_choice"], metric=metric, source="pcm")
        assert count == len(rows)
    assert len(where(known["nftop_package_estimate"], metric="nftop_package_power_watts")) == 2
    flags = [
        known[name].samples[frozenset({("badge", "SIMULATED")})]
        for name in ("nftop_notice", "nftop_sources_apart")
    ]
    assert flags == [1.0, 1.0]


def test_findings_are_1_with_labels_of_rule_and_entity(simulated: Frame) -> None:
    one = Finding("low-ipc", "core_ipc", about("cpu 1"), "IPC 1.45", 0)
    two = Finding("nf-memory", "mbm_total_bytes_per_s", about(f'class "{chr(10)}'), "x", 0)
    page = read_page(replace(simulated, findings=(one, two)), TextFormat.OPENMETRICS)
    known = [(dict(key), value) for key, value in page["nftop_finding"].samples.items()]
    assert [value for _, value in known] == [1.0, 1.0]
    assert {(item["rule"], item["where"], item["metric"]) for item, _ in known} == {
        ("low-ipc", "cpu 1", "core_ipc"),
        ("nf-memory", 'class "?', "mbm_total_bytes_per_s"),
    }
    assert "nftop_finding" not in read_page(simulated, TextFormat.OPENMETRICS)


def test_incidents_have_their_culprit_severity_begin_and_drops(simulated: Frame) -> None:
    one = incident()
    two = incident(2, severity=Severity.WARN, culprit=None, muted=True, price=Price())
    page = read_page(replace(simulated, incidents=(one, two)), TextFormat.OPENMETRICS)
    known = [dict(key) for key in page["nftop_incident_info"].samples]
    assert {
        (item["id"], item.get("culprit"), item.get("container"), item["muted"]) for item in known
    } == {
        (one.id, "qemu-system-x86", "vm gw1", "false"),
        (two.id, None, None, "true"),
    }
    values = {
        name: {dict(key)["id"]: value for key, value in page[name].samples.items()}
        for name in (
            "nftop_incident_severity",
            "nftop_incident_begin_timestamp_seconds",
            "nftop_incident_drop_packets_per_second",
        )
    }
    assert values == {
        "nftop_incident_severity": {one.id: 2.0, two.id: 1.0},
        "nftop_incident_begin_timestamp_seconds": {
            one.id: one.since_ns / 1e9,
            two.id: two.since_ns / 1e9,
        },
        "nftop_incident_drop_packets_per_second": {one.id: 7.23e6},
    }


def test_victims_have_the_labels_of_their_network_functions(simulated: Frame) -> None:
    one = simulated.nfs[0]
    again = replace(one, key="again")
    parties = [Party("nf", nf.name, nf.key, pid=nf.pid) for nf in (again, one)]
    gone = Party("nf", "old", "gone", pid=77)
    missing = Missing(Reason.SOURCE)
    victims = tuple(Victim(party, "cpp", missing, missing, missing) for party in (*parties, gone))
    frame = replace(simulated, nfs=(one, again), incidents=(incident(victims=victims),))
    page = read_page(frame, TextFormat.OPENMETRICS)
    mine = {"nf": one.name, "kind": one.kind, "pid": str(one.pid)}
    samples = [dict(key) for key in page["nftop_incident_victim_info"].samples]
    assert [
        {name: text for name, text in item.items() if name not in ("id", "badge")}
        for item in samples
    ] == [{**mine, "twin": "2"}, mine, {"nf": "old", "pid": "77"}]
    assert {item["id"] for item in samples} == {frame.incidents[0].id}
    assert {dict(key).get("twin") for key in page["nftop_nf_up"].samples} == {None, "2"}


def test_what_counting_cost_is_added_up() -> None:
    def costing(reads: float | Missing) -> Frame:
        base = frames.frame()
        cost = {"perf": CounterCost(reads, 3.0)}
        return replace(base, own=replace(base.own, counters_by_source=cost))

    tally = Tally()
    for reads in (Missing(Reason.WARMING), 5.0, Missing(Reason.RESET), 7.0):
        tally = tally.after(costing(reads), cpu_s=1.25)
    known = read_page(frames.frame(), tally=tally)
    assert known["nftop_self_pmu_reads_total"].samples == {frozenset({("source", "perf")}): 12}
    assert list(known["nftop_self_pmu_interrupts_total"].samples.values()) == [12]
    assert known["nftop_self_cpu_seconds_total"].samples == {frozenset(): 1.25}
    assert known["nftop_self_frames_total"].samples == {frozenset(): 4}
    assert list(known["nftop_self_http_responses_total"].samples.values()) == [3]


def test_classes_and_what_is_metered_within_them() -> None:
    monitor = MonitoringGroup("m1", 7, None, (Cpu(2),), (Metered(L3Domain(0), values(3 * MIB)),))
    vpp = replace(group("vpp", 1, (1,), in_cache(0, 0xF0, mba=50)), monitors=(monitor,))
    known = read_page(frame_of(replace(table(), groups=(vpp,))))
    ((may, _),) = where(known["nftop_group_may_info"], group="vpp", l3=0)
    assert (may["cbm"], may["mba"], may["mba_unit"]) == ("0f0", "50", "percent")
    ((info, _),) = where(known["nftop_group_info"], group="vpp")
    assert (info["clos"], info["cpus"]) == ("1", "1")
    used = where(known["nftop_monitor_occupancy_bytes"], group="vpp", monitor="m1", l3=0)
    assert [value for _, value in used] == [3 * MIB]
    assert "nftop_monitor_mbm_total_bytes_per_second" not in known
    warming = where(known["nftop_missing"], metric="nftop_monitor_mbm_total_bytes_per_second")
    assert [count for _, count in warming] == [1]


def test_a_host_by_its_sensor_server() -> None:
    one = table_of(parse_json(captures()["icx_2026-06_msr_persecond1.json"]), since_start=False)
    one = replace(one, accelerators=(("dsa 0", (("in.bytes", 2e6), ("out", -1.0))),))
    host = replace(HOST, remote="http://127.0.0.1:9738")
    (frame,) = fold(FoldState(host, topology_of(one)), sample(S, pcm=one))
    known = read_page(frame)
    ((mine, _),) = known["nftop_accelerator_per_second"].samples.items()
    assert mine == {("accelerator", "dsa 0"), ("counter", "in.bytes"), ("badge", "REMOTE")}
    ((info, _),) = where(known["nftop_host_info"])
    assert info["remote"] == "http://127.0.0.1:9738"
    metric = "nftop_package_memory_read_bytes_per_second"
    ((_, count),) = where(known["nftop_second_choice"], metric=metric, source="pcm")
    assert count == len(frame.packages)


def test_the_interval_is_reported_not_to_be_that_of_a_servers_rates(
    snapshot: SnapshotAssertion,
) -> None:
    assert "sensor server" in writer.INTERVAL.help
    assert writer.INTERVAL.help == snapshot


def test_a_vpp_s_drops_are_by_node_and_reason_and_no_other_error_is() -> None:
    host = Frozen("noisy", cpus=16)
    frame = [host.tick(S) for _ in range(3)][-1]
    (nf,) = (nf for nf in frame.nfs if nf.kind == "vpp")
    pages = read_page(frame)
    drops = where(pages["nftop_nf_drops_by_reason_per_second"], kind="vpp")
    by_reason = {(key["where"], key["reason"]): value for key, value in drops}
    assert set(by_reason) == {
        *product(("local0", "eth19/0/0", "eth19/0/1"), ("rx-miss", "rx-error", "rx-no-buf")),
        ("ip4-input", "bad_checksum"),
    }
    wrong = by_reason["ip4-input", "bad_checksum"]
    assert wrong > 0 and wrong == nf.readings["error_drops_per_s"]
    ((_, summed),) = where(pages["nftop_nf_error_drops_per_second"], kind="vpp")
    assert summed == wrong
