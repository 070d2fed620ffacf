"""What findings with one cause become: by memory, by traffic, by packets, in one class."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
from syrupy.assertion import SnapshotAssertion

from nftop.derive.findings.engine import FindingState, step_findings
from nftop.derive.findings.inputs import FindingInputs
from nftop.derive.findings.registry import all_rules
from nftop.derive.incidents.causes import CauseInputs, causes_of
from nftop.derive.incidents.parties import Cause, Parties
from nftop.model.column import column
from nftop.model.frame import Finding, Frame
from nftop.model.ids import Cpu
from nftop.model.incident import Severity
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.rdt.masks import Cbm
from nftop.model.sample import ProcessFacts
from tests.frames import about
from tests.sim.hosts import Frozen, S

VPP_PID = 5000
CROSSED = (
    Finding("cross-socket", "upi.received_bytes_per_s", about("package 0"), "14% of traffic", 0),
    Finding("cross-socket", "upi.received_bytes_per_s", about("package 1"), "13% of traffic", 0),
)


@lru_cache(maxsize=2)
def quiet(scenario: str = "healthy") -> Frame:
    host = Frozen(scenario, traffic=None)
    host.tick(0)
    frame = [host.tick(S) for _ in range(3)][-1]
    return replace(frame, findings=(), incidents=())


def causes(frame: Frame, *findings: Finding, **parties: object) -> tuple[Cause, ...]:
    now = replace(frame, findings=findings)
    return causes_of(CauseInputs(FindingInputs(now, {}), Parties(now, **parties)))  # type: ignore[arg-type]


def facts(pid: int, *node_bytes: tuple[int, int]) -> ProcessFacts:
    return ProcessFacts(pid, Cpu(1), "", "root", "", 0, None, node_bytes=node_bytes)


def with_group(frame: Frame, name: str, **readings: Reading) -> Frame:
    groups = []
    for group in frame.groups:
        caches = [
            replace(cache, readings={**cache.readings, **readings})
            if group.name == name and cache.l3 == 0
            else cache
            for cache in group.caches
        ]
        groups.append(replace(group, caches=tuple(caches)))
    return replace(frame, groups=tuple(groups))


def test_the_user_of_remote_memory_is_known_by_its_pages(snapshot: SnapshotAssertion) -> None:
    known = {
        VPP_PID: facts(VPP_PID, (0, 4 << 30), (1, 6 << 30)),
        6000: facts(6000, (0, 9 << 30), (1, 1 << 30)),
    }
    [cause] = causes(quiet(), *CROSSED, facts=known)
    assert cause.culprit is not None and cause.culprit.pid == VPP_PID
    assert cause.title == snapshot
    assert not cause.likely and cause.findings == CROSSED
    assert cause.memory, "pages of all NFs there are read"


def test_else_by_the_traffic_of_its_class_to_other_sockets(snapshot: SnapshotAssertion) -> None:
    frame = with_group(quiet(), "ovs", mbm_total_bytes_per_s=4e9, mbm_local_bytes_per_s=1e9)
    [cause] = causes(frame, *CROSSED)
    assert cause.culprit is not None and cause.culprit.group == "ovs"
    assert cause.title == snapshot
    few = with_group(quiet(), "ovs", mbm_total_bytes_per_s=4e8, mbm_local_bytes_per_s=1e8)
    [cause] = causes(few, *CROSSED)
    assert cause.culprit is not None and cause.culprit.kind == "device"


def test_devices_of_a_socket_are_most_likely_those_of_the_nf_with_two_thirds_of_the_packets() -> (
    None
):
    finding = Finding(
        "partial-writes", "pcie.rfo.total_per_s", about("package 1"), "66% of writes", 0
    )
    [cause] = causes(quiet(), finding)
    assert cause.culprit is not None and cause.culprit.name == "south/l3fwd"
    assert cause.likely and "72%" in cause.basis
    [cause] = causes(quiet(), replace(finding, subject=about("package 0")))
    assert cause.culprit is not None and cause.culprit.name == "devices of socket 0"
    assert not cause.likely and set(cause.nfs) == {"5000:9001", "6000:9002"}


def test_what_a_source_calls_normal_is_information_for_its_program_only() -> None:
    low = Finding("low-ipc", "core_ipc", about("cpu 23"), "IPC 1.45 of the core, below 1.75", 0)
    [cause] = causes(quiet(), low)
    assert cause.floor is Severity.INFO
    [cause] = causes(quiet(), replace(low, subject=about("cpu 1,45")))
    assert cause.floor is Severity.WARN and cause.culprit is not None
    assert cause.culprit.name == "vpp"
    spoiled = Finding("bad-speculation", "tma.bad_speculation", about("cpu 3,47"), "7% of slots", 0)
    assert [item.floor for item in causes(quiet(), spoiled)] == [Severity.INFO]


def with_busy(frame: Frame, group: str, *cpus: int) -> Frame:
    """CPUs that are busy in the class of vpp or another one, without an NF."""
    table = frame.cpus
    busy = table.columns["cpu_time_ratio"]
    values = busy.values.copy()
    groups = list(table.group)
    like = next(item for item in table.group if getattr(item, "name", "") == group)
    for cpu in cpus:
        row = table.topology.row_of[Cpu(cpu)]
        values[row], groups[row] = 0.95, like
    columns = {**table.columns, "cpu_time_ratio": replace(busy, values=values)}
    return replace(frame, cpus=replace(table, group=tuple(groups), columns=columns))


NOISY = Finding("noisy-neighbour", "mbm_total_bytes_per_s", about("class vpp, L3 0"), "30 GB/s", 0)


def test_a_busy_program_in_the_class_of_an_nf_is_its_neighbour() -> None:
    frame = with_group(with_busy(quiet(), "vpp", 10), "vpp", mbm_total_bytes_per_s=30e9)
    [cause] = causes(frame, NOISY)
    assert (cause.kind, cause.group, cause.l3) == ("neighbour", "vpp", 0)
    assert cause.culprit is not None and cause.culprit.cpus == (10,)
    assert cause.nfs == ("5000:9001",) and "30.0 GB/s" in cause.title


def test_neighbours_are_culprits_beyond_the_limit_in_effect_only() -> None:
    frame = with_group(quiet("burst"), "tenant", mbm_total_bytes_per_s=30e9)
    wide = [
        replace(cache, cbm=Cbm(0x1F, cache.cbm.width)) if isinstance(cache.cbm, Cbm) else cache
        for group in frame.groups
        if group.name == "/"
        for cache in group.caches
    ]
    groups = (
        replace(group, caches=tuple(wide)) if group.name == "/" else group for group in frame.groups
    )
    frame = with_group(replace(frame, groups=tuple(groups)), "/", mbm_total_bytes_per_s=3e9)
    for clear, culprits in ((7.5e9, ["tenant"]), (1.5e9, ["/", "tenant"]), (40e9, ["tenant"])):
        result = causes(frame, replace(NOISY, clear=clear))
        assert sorted(cause.group for cause in result) == culprits


def test_base_frequencies_are_of_the_package_and_of_cpus_that_have_one() -> None:
    frame = quiet()
    package = frame.topology.package_index
    base = np.where(package == 0, 2.7e9, 3.9e9)
    base[frame.topology.row_of[Cpu(1)]] = 2.1e9
    base[-1] = base[frame.topology.row_of[Cpu(2)]] = np.nan
    columns = {**frame.cpus.columns, "base_frequency_hz": column(base)}
    frame = replace(frame, cpus=replace(frame.cpus, columns=columns))
    slow = Finding("low-priority-core", "base_frequency_hz", about("cpu 1,45"), "x", 0)
    [cause] = causes(frame, slow)
    assert "2.1 GHz" in cause.title and cause.title.endswith("2.7")
    unknown = replace(slow, subject=about("cpu 2"))
    assert not any(char.isdigit() for cause in causes(frame, unknown) for char in cause.title)


def test_a_neighbour_stays_the_same_while_its_busy_cpus_change() -> None:
    keys = set()
    for cpus in ((10,), (10, 11), (11,), (9, 10, 11)):
        frame = with_group(with_busy(quiet(), "vpp", *cpus), "vpp", mbm_total_bytes_per_s=30e9)
        [cause] = causes(frame, NOISY)
        assert cause.culprit is not None and cause.culprit.cpus == cpus
        keys.add(cause.key)
    assert len(keys) == 1


def test_ways_that_two_victims_share_with_a_neighbour_count_once(
    snapshot: SnapshotAssertion,
) -> None:
    frame = with_group(quiet("burst"), "tenant", mbm_total_bytes_per_s=30e9)
    groups = {group.name: group for group in frame.groups}
    vpp = next(cache for cache in groups["vpp"].caches if cache.l3 == 0)
    # The class of ovs has the ways of vpp's.
    ovs = [
        replace(vpp, readings=cache.readings) if cache.l3 == 0 else cache
        for cache in groups["ovs"].caches
    ]
    frame = replace(
        frame,
        groups=tuple(
            replace(group, caches=tuple(ovs)) if group.name == "ovs" else group
            for group in frame.groups
        ),
    )
    result = (NOISY, replace(NOISY, subject=about("class ovs, L3 0")))
    [cause] = [item for item in causes(frame, *result) if item.group == "tenant"]
    assert len(cause.findings) == 2
    assert cause.title == snapshot


def test_a_finding_of_a_subject_that_has_left_is_no_error() -> None:
    for where in ("cpu 999", "nf nobody", "class nothing, L3 7", "package 9", "host"):
        for rule in (
            "low-ipc",
            "poller-waits",
            "busy-sibling",
            "noisy-neighbour",
            "ddio-misses",
            "cross-socket",
            "uneven-channels",
            "traffic-stopped",
            "gone",
            "drops",
            "low-priority-core",
        ):
            for cause in causes(quiet(), Finding(rule, "ipc", about(where), "text", 0)):
                assert cause.findings


def test_values_that_are_missing_leave_titles_without_numbers() -> None:
    absent = Missing(Reason.SOURCE)
    frame = with_group(quiet("burst"), "tenant", mbm_total_bytes_per_s=absent)
    noisy = Finding("noisy-neighbour", "mbm_total_bytes_per_s", about("class vpp, L3 0"), "x", 0)
    [cause] = causes(frame, noisy)
    assert cause.title == "through 2 shared ways" and cause.group == "tenant"
    ovs = next(nf for nf in frame.nfs if nf.kind == "ovs")
    names = ("ovs.upcalls_per_s", "ovs.lost_upcalls_per_s", "ovs.cache_hit_ratio")
    for known, title in (({}, "its flow tables missed"), ({names[0]: 7100.0}, "7.10k upcalls/s")):
        readings = {**ovs.readings, **dict.fromkeys(names, absent), **known}
        nfs = tuple(replace(nf, readings=readings) if nf is ovs else nf for nf in frame.nfs)
        lost = Finding("lost-upcalls", names[1], about(f"nf {ovs.name}", ovs.key), "x", 0)
        assert [one.title for one in causes(replace(frame, nfs=nfs), lost)] == [title]
    registers = Finding("mmio-reads", "mmio.read_per_s", about("package 0"), "x", 0)
    rows = (
        replace(row, readings={**row.readings, "mmio.read_per_s": absent}) for row in frame.packages
    )
    [cause] = causes(replace(frame, packages=tuple(rows)), registers)
    assert cause.title == "register reads, socket 0"


def test_throttling_harms_by_its_effect_on_pollers() -> None:
    frame = quiet()
    vpp = next(nf for nf in frame.nfs if nf.kind == "vpp")
    cpu, package = vpp.cpus[0], frame.topology.cpus[frame.topology.row_of[vpp.cpus[0]]].package
    hot = Finding("core-throttled", "throttles_per_s", about(f"cpu {cpu}"), "x", 0, began_ns=5 * S)
    whole = Finding("package-throttled", "throttles_per_s", about(f"package {package}"), "x", 0)
    [cause] = causes(frame, hot, whole)
    assert (cause.kind, cause.floor, len(cause.findings)) == ("throttled", Severity.WARN, 2)
    assert vpp.key in cause.nfs
    lost = Finding(
        "drops", "missed_packets_per_s", about(f"nf {vpp.name}", vpp.key), "x", 0, began_ns=6 * S
    )
    [cause] = causes(frame, hot, lost)
    assert [item.rule for item in cause.effects] == ["drops"]
    # Nothing polls there: it explains a number, and harms nothing.
    [cause] = causes(replace(frame, nfs=()), whole)
    assert (cause.floor, cause.nfs) == (Severity.INFO, ())


def test_a_core_and_a_package_that_throttle_are_findings_and_others_are_not() -> None:
    frame = quiet()
    row = next(at for at, name in enumerate(frame.cpus.nf) if name is not None)
    values = np.zeros(len(frame.cpus.nf))
    values[row] = 0.4
    table = replace(frame.cpus, columns={**frame.cpus.columns, "throttles_per_s": column(values)})
    packages = tuple(
        replace(item, readings={**item.readings, "throttles_per_s": 0.2 * (item.package == 1)})
        for item in frame.packages
    )
    state, shown = FindingState(), set[tuple[str, str]]()
    rules = [rule for rule in all_rules() if rule.id.endswith("throttled")]
    for second in range(6):
        now = replace(frame, cpus=table, packages=packages, monotonic_ns=second * S)
        state, findings = step_findings(state, now, {}, pace_s=1.0, rules=rules)
        shown = {(item.rule, item.where) for item in findings}
    cpu = frame.topology.cpus[row].cpu
    assert shown == {("core-throttled", f"cpu {cpu}"), ("package-throttled", "package 1")}
