"""The doctor command: threads that poll, its page and its JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.cli.commands.doctor import pollers, report_json, report_text
from nftop.model.check import Check
from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reason
from nftop.model.sample import ThreadTable
from nftop.model.threads import ThreadRow
from nftop.model.topology import CpuInfo, Host, Topology
from nftop.sources.host.topology import read_topology
from nftop.sources.process.source import ProcessSource

HERE = Host("here", "Xeon", "SKX")


def thread(
    tid: int, at_s: float, run_s: float, *, role: str = "", cpus: tuple[int, ...] = (2,)
) -> ThreadRow:
    return ThreadRow(
        pid=tid,
        tid=tid,
        start_ticks=1,
        comm="worker",
        program=f"p{tid}",
        role=role,
        role_index=None,
        allowed=tuple(map(Cpu, cpus)),
        last_cpu=Cpu(cpus[0]),
        run_ns=int(run_s * 1e9),
        wait_ns=0,
        voluntary=0,
        involuntary=0,
        container=False,
        read_at_ns=int(at_s * 1e9),
    )


def test_workers_poll_by_trade_and_others_by_their_time() -> None:
    def table(scan: int) -> ThreadTable:
        now = scan * 0.6
        rows = (
            thread(1, now, 0.0, role="dpdk_lcore"),
            thread(2, now, 0.0, role="vpp_main"),
            thread(3, now, now, cpus=(4,)),
            thread(4, now, now, cpus=(5, 6)),
            thread(5, now, 0.1 * scan),
        )
        # What has no name of a poller is seen from the second look on.
        return ThreadTable(rows if scan else rows[:2], 0, int(now * 1e9))

    tables = iter([table(0), table(1), table(2)])
    waits: list[float] = []
    result = pollers(lambda: next(tables), Topology(()), waits.append)
    assert [(item.pid, item.cpu, item.pinned, item.kind) for item in result] == [
        (1, 2, True, "dpdk"),
        (3, 4, True, ""),
        (4, 5, False, ""),
    ]
    assert waits == [0.6, 0.6]


def test_on_cpus_without_a_tick_it_observes_for_longer() -> None:
    info = CpuInfo(Cpu(0), True, None, None, None, None, None, nohz_full=True)
    waits: list[float] = []
    missing = Missing(Reason.SOURCE, "there is no /proc")
    assert pollers(lambda: missing, Topology((info,)), waits.append) == ()
    assert waits == [1.1, 1.1]


@pytest.mark.real
def test_a_busy_thread_is_detected_where_it_is_pinned() -> None:
    cpu = min(os.sched_getaffinity(0))
    code = f"import os\nos.sched_setaffinity(0, [{cpu}])\nprint(1, flush=True)\nwhile True: pass"
    source = ProcessSource(Path("/"))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as busy:
        try:
            assert busy.stdout is not None
            busy.stdout.readline()
            topology = read_topology()
            # On a loaded machine it may take more than one examination.
            scans = (pollers(source.read, topology) for _ in range(20))
            mine = next(item for result in scans for item in result if item.pid == busy.pid)
            assert (mine.cpu, mine.pinned) == (cpu, True)
        finally:
            busy.kill()
            source.close()


CHECKS = [
    Check("perf", Reason.PRESENT, "counts"),
    Check("host turbo", Reason.PRESENT, "turbo is on", "echo 1", "it varies", advised=False),
    Check("host tick", Reason.HARDWARE, "this kernel can't", why="each tick"),
]


def test_text_is_the_page_and_has_an_ascii_form(snapshot: SnapshotAssertion) -> None:
    lines = report_text(CHECKS, HERE, 80, ascii_only=False).splitlines()
    assert lines[0] == snapshot
    assert [item[:12] for item in lines if item.startswith(("✔", "▲", "·"))] == [
        "✔ perf      ",
        "▲ host turbo",
        "· host tick ",
    ]
    plain = report_text(CHECKS, HERE, 80, ascii_only=True)
    assert plain.isascii() and "+ perf" in plain


def test_json_reports_the_same() -> None:
    result = json.loads(report_json(CHECKS, HERE))["checks"]
    assert result[0] == {"name": "perf", "state": "ok", "text": "counts", "why": None, "fix": None}
    assert (result[1]["state"], result[1]["why"], result[1]["fix"]) == (
        "tune",
        "it varies",
        "echo 1",
    )
    assert (result[2]["state"], result[2]["why"]) == ("hardware", "each tick")
