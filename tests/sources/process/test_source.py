"""Threads by role: what the scan chooses on made-up processes, and files that are mangled."""

from __future__ import annotations

import os
import resource
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reason
from nftop.model.threads import ThreadRow
from nftop.sources.process.source import ProcessSource
from tests.sources.process.fake_proc import OTHER_NS, FakeHost, S


def test_threads_with_a_role(host: FakeHost, snapshot: SnapshotAssertion) -> None:
    host.thread(50, 50, "dpdk-testpmd", allowed="0")
    host.thread(50, 51, "eal-intr-thread", allowed="0")
    host.thread(50, 52, "rte-worker-1", allowed="1", run_ns=744, wait_ns=143)
    host.thread(60, 60, "ovs-vswitchd")
    host.thread(60, 61, "telemetry-v2")
    host.thread(60, 62, "pmd-c04/id:8", allowed="4", namespace=OTHER_NS)
    host.thread(70, 70, "vpp_main", allowed="2", namespace=None)
    host.thread(70, 71, "vpp_wk_0", allowed="3", namespace=None)
    host.thread(80, 80, "rte-worker-9", kernel=True)
    host.thread(99, 98, "rte-worker-8")  # nftop's own
    host.thread(90, 90, "lcore-worker-2", state="Z")
    table = host.read()
    assert [(r.tid, r.role, r.role_index, r.program) for r in table.threads] == [
        (50, "dpdk_main", None, "dpdk-testpmd"),
        (52, "dpdk_lcore", 1, "dpdk-testpmd"),
        (62, "ovs_pmd", 4, "ovs-vswitchd"),
        (70, "vpp_main", None, "vpp_main"),
        (71, "vpp_worker", 0, "vpp_main"),
    ]
    worker = table.threads[1]
    assert worker == ThreadRow(
        pid=50,
        tid=52,
        start_ticks=5000,
        comm="rte-worker-1",
        program="dpdk-testpmd",
        role="dpdk_lcore",
        role_index=1,
        allowed=(Cpu(1),),
        last_cpu=Cpu(1),
        run_ns=744,
        wait_ns=143,
        voluntary=3,
        involuntary=4,
        container=False,
        read_at_ns=host.now_ns,
    )
    # ovs-vswitchd's first thread made the process' link, so it is the host's namespace.
    assert [r.container for r in table.threads] == [False, False, False, None, None]
    assert table.hidden == 0
    # The zombie is a process, but has no thread that does anything.
    assert host.source.check()[0].text == snapshot


def test_container_is_another_mount_namespace(host: FakeHost) -> None:
    host.thread(50, 50, "vpp_main", namespace=OTHER_NS)
    assert host.read().threads[0].container is True


def test_pollers_show_by_what_they_use(host: FakeHost) -> None:
    cases = {
        # name: CPUs, share of time run, share of time waited
        "alone": ("3", 1.0, 0.0),
        "squeezed": ("3", 0.2, 0.4),
        "pinned idle": ("3", 0.3, 0.1),
        "unpinned": ("0-7", 0.95, 0.0),
        "ordinary": ("0-7", 0.6, 0.3),
    }

    def use(seconds: float) -> None:
        for tid, (name, (allowed, run, wait)) in enumerate(cases.items(), 200):
            run_ns, wait_ns = (int(1000 * S + share * seconds * S) for share in (run, wait))
            host.thread(200, tid, name, allowed=allowed, run_ns=run_ns, wait_ns=wait_ns)

    use(0.0)
    assert host.comms() == []  # a poller shows by comparing two looks
    use(1.0)
    assert host.comms(after_s=1.0) == ["alone", "squeezed", "unpinned"]
    use(6.0)
    assert host.comms(after_s=5.0) == ["alone", "squeezed", "unpinned"]


def test_without_schedstat_clock_ticks_serve_and_waits_are_unknown(host: FakeHost) -> None:
    def spin(seconds: int) -> None:
        for tid, name in ((300, "vpp_wk_0"), (301, "poller")):
            folder = host.thread(300, tid, name, allowed="2")
            (folder / "schedstat").unlink()
            ticks = str(seconds * os.sysconf("SC_CLK_TCK"))
            fields = (folder / "stat").read_text().rpartition(") ")[2].split()
            fields[11] = ticks
            (folder / "stat").write_text(f"{tid} ({name}) {' '.join(fields)}\n")

    spin(10)
    host.read()
    spin(11)
    rows = host.read(after_s=1.0).threads
    assert [(row.comm, row.run_ns, row.wait_ns) for row in rows] == [
        ("vpp_wk_0", 11 * S, None),
        ("poller", 11 * S, None),
    ]


def test_between_scans_only_known_threads_are_read(host: FakeHost) -> None:
    host.thread(50, 50, "vpp_wk_0", allowed="2", run_ns=10)
    first = host.read()
    second = host.read(after_s=1.0)  # the second scan comes at once, to tell pollers
    host.thread(60, 60, "vpp_wk_1", allowed="3")
    host.thread(50, 50, "vpp_wk_0", allowed="2", run_ns=20)
    between = host.read(after_s=4.9)
    assert [(r.comm, r.run_ns) for r in between.threads] == [("vpp_wk_0", 20)]
    assert (first.scanned_at_ns, second.scanned_at_ns) == (100 * S, 101 * S)
    assert between.scanned_at_ns == 101 * S
    assert host.comms(after_s=0.1) == ["vpp_wk_0", "vpp_wk_1"]


@pytest.mark.parametrize("keep", [True, False])
def test_a_recycled_tid_is_another_thread(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch, keep: bool
) -> None:
    if not keep:
        monkeypatch.setattr(resource, "getrlimit", lambda _: (5, 5))
    host.thread(50, 50, "vpp_wk_0", allowed="2-3", start=5000)
    host.read()
    host.read(after_s=1.0)
    host.thread(50, 50, "vpp_wk_0", allowed="2-3", start=9000)
    assert host.read(after_s=1.0).threads == ()
    assert [row.start_ticks for row in host.read(after_s=5.0).threads] == [9000]


def test_a_process_that_ends_is_gone_without_descriptors_left(host: FakeHost) -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    host.thread(50, 50, "vpp_wk_0", allowed="2")
    host.thread(60, 60, "vpp_wk_1", allowed="3")
    host.read()
    host.kill(60)
    host.thread(50, 50, "vpp_wk_0", allowed="2", state="Z")
    assert [row.tid for row in host.read(after_s=0.1).threads if row.tid == 50] == []
    assert host.read(after_s=5.0).threads == ()
    assert len(list(Path("/proc/self/fd").iterdir())) == before
    host.thread(50, 50, "vpp_wk_0", allowed="2")
    host.read(after_s=5.0)
    host.source.close()
    host.source.close()
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_what_may_not_be_seen_is_counted(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    host.thread(50, 50, "vpp_wk_0", allowed="2")
    host.thread(60, 60, "secret")
    scandir = os.scandir

    def guarded(path: Any) -> Any:
        if str(path).endswith("/60/task"):
            raise PermissionError(1, "Operation not permitted")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", guarded)
    table = host.read()
    assert (len(table.threads), table.hidden) == (1, 1)
    check = host.source.check()[0]
    assert check.reason is Reason.PERMISSION
    assert "1 more " in check.text
    host.kill(1)  # hidepid=2: not even listed
    assert host.read(after_s=5.0).hidden == 2


def test_no_proc_is_a_reason(tmp_path: Path) -> None:
    source = ProcessSource(tmp_path)
    missing = source.read()
    assert isinstance(missing, Missing)
    assert missing.reason is Reason.SOURCE
    assert source.check()[0].reason is Reason.SOURCE


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    mangled=st.dictionaries(
        st.sampled_from(["stat", "status", "schedstat"]),
        st.one_of(st.none(), st.binary(max_size=60)),
        min_size=1,
    ),
    before_first=st.booleans(),
)
def test_mangled_files_cost_only_their_thread(
    tmp_path_factory: pytest.TempPathFactory,
    mangled: dict[str, bytes | None],
    before_first: bool,
) -> None:
    host = FakeHost(tmp_path_factory.mktemp("host"))
    bad = host.thread(50, 51, "rte-worker-1", allowed="1")
    host.thread(50, 52, "rte-worker-2", allowed="2")
    if not before_first:
        host.read()
    for name, data in mangled.items():
        (bad / name).unlink() if data is None else (bad / name).write_bytes(data)
    assert "rte-worker-2" in host.comms(after_s=0.1)
    assert "rte-worker-2" in host.comms(after_s=5.0)
    host.source.close()
