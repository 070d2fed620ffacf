"""Facts of selected processes, and what ran on the CPUs of an incident."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from nftop.model.ids import Cpu
from nftop.model.sample import ProcessFacts
from nftop.sources.process.facts import process_facts
from tests.sources.process.fake_proc import FakeHost, S
from tests.waiting import until


def test_processes_of_the_selected_cpu_are_described_once(tmp_path: Path) -> None:
    calls: list[tuple[int, int]] = []

    def facts(pid: int, cpu: Cpu) -> ProcessFacts | None:
        calls.append((pid, cpu))
        return None if pid == 70 else ProcessFacts(pid, cpu, "x -l 1", "dpdk", "/a", 5, 1.0)

    host = FakeHost(tmp_path, facts)
    host.thread(50, 50, "dpdk-testpmd", allowed="0")
    host.thread(50, 52, "rte-worker-1", allowed="1")
    host.thread(60, 61, "rte-worker-1", allowed="1")
    host.thread(70, 71, "vpp_wk_0", allowed="1")
    assert host.read().facts == () and not calls
    host.source.focus_processes(Cpu(1))
    host.read(1)
    table = host.read(1)
    assert [(item.pid, item.cpu, item.nice_value) for item in table.facts] == [
        (50, 1, 5),
        (60, 1, 5),
    ]
    assert calls == [(50, 1), (60, 1), (70, 1)]
    host.source.focus_processes(Cpu(0))
    assert [(item.pid, item.cpu) for item in host.read(1).facts] == [(50, 0)]
    host.source.focus_processes(None)
    assert host.read(1).facts == ()
    host.source.close()


def on_cpu(folder: Path, cpu: int) -> None:
    """Make a thread one that ran last on this CPU."""
    head, _, tail = (folder / "stat").read_text().rpartition(") ")
    fields = tail.split()
    fields[36] = str(cpu)
    (folder / "stat").write_text(f"{head}) {' '.join(fields)}\n")


def test_what_ran_on_the_cpus_of_an_incident_is_listed_and_described_once(tmp_path: Path) -> None:
    calls: list[tuple[int, int, bool]] = []

    def culprit(pid: int, cpu: Cpu, memory: bool) -> ProcessFacts:
        calls.append((pid, cpu, memory))
        return ProcessFacts(pid, cpu, "", "ci", "/a", 0, 1.0, name=f"p{pid}", container="a.service")

    host = FakeHost(tmp_path, culprits=culprit)
    host.thread(50, 50, "rte-worker-2", allowed="2")
    for pid, comm, cpu in ((60, "backup", 2), (70, "cron", 3), (80, "idle-one", 2)):
        on_cpu(host.thread(pid, pid, comm, run_ns=S), cpu)
    assert host.read().uses == ()
    host.read(1)
    host.source.focus_culprits((Cpu(2),), ())
    on_cpu(host.thread(60, 60, "backup", run_ns=S + S // 2), 2)
    on_cpu(host.thread(70, 70, "cron", run_ns=2 * S), 3)
    on_cpu(host.thread(80, 80, "idle-one", run_ns=S + 1000), 2)
    # A pass follows at once, not after five seconds.
    table = host.read(2)
    assert [(use.cpu, use.pid, use.name, use.run_ns) for use in table.uses] == [
        (2, 60, "backup", S // 2)
    ]
    assert 2 * S <= table.uses[0].over_ns <= 3 * S
    assert {item.pid for item in table.culprits} == {50, 60}
    host.read(1)
    assert sorted(calls) == [(50, 2, False), (60, 2, False)], "each once"
    host.source.focus_culprits((Cpu(2),), (Cpu(2),))
    host.read(1)
    assert sorted(calls)[1:] == [(50, 2, True), (60, 2, False)], "memory of pollers only"
    host.source.focus_culprits((), ())
    table = host.read(1)
    assert (table.uses, table.culprits) == ((), ())
    host.source.close()


@pytest.mark.parametrize("quiet_ticks", [0, 8])
def test_a_culprit_that_was_quiet_has_its_whole_share(tmp_path: Path, quiet_ticks: int) -> None:
    """Its threads were last read 25 s ago; what it ran until the last check is left out."""
    host = FakeHost(tmp_path, culprits=lambda *_: None)
    for pid, name in ((60, "backup"), (61, "steady")):
        on_cpu(host.thread(pid, pid, name, run_ns=1), 2)
        host.process(pid, 1, 0)
    host.read()
    host.read(1)
    host.source.focus_culprits((Cpu(2),), ())
    for pass_ in range(1, 6):
        host.process(60, 1, min(pass_, 2) * quiet_ticks // 2)
        assert host.read(5).uses == ()
    before_ns = quiet_ticks * 10_000_000
    host.process(60, 1, quiet_ticks + 200)
    host.process(61, 1, 60)
    on_cpu(host.thread(60, 60, "backup", run_ns=2 * S + before_ns), 2)
    on_cpu(host.thread(61, 61, "steady", run_ns=6 * S // 10), 2)
    host.source.focus_culprits((Cpu(2), Cpu(3)), ())
    uses = host.read(2).uses
    assert [use.pid for use in uses] == [60, 61], "by share"
    assert uses[0].run_ns / uses[0].over_ns == pytest.approx(1.0)
    assert uses[1].run_ns / uses[1].over_ns == pytest.approx(0.3)
    host.source.close()


def test_a_kernel_thread_that_runs_on_such_a_cpu_is_listed(tmp_path: Path) -> None:
    host = FakeHost(tmp_path, culprits=lambda *_: None)
    host.thread(50, 50, "rte-worker-2", allowed="2")
    on_cpu(host.thread(9, 9, "kworker/2:1", kernel=True), 2)
    host.read()
    host.read(1)
    host.source.focus_culprits((Cpu(2),), ())
    host.read(2)  # the first pass that looks at kernel threads
    folder = host.thread(9, 9, "kworker/2:1", kernel=True)
    on_cpu(folder, 2)
    head, _, tail = (folder / "stat").read_text().rpartition(") ")
    fields = tail.split()
    fields[12] = "60"  # clock ticks in the kernel
    (folder / "stat").write_text(f"{head}) {' '.join(fields)}\n")
    uses = [use for _ in range(6) for use in host.read(1).uses]
    assert {(use.pid, use.name, use.run_ns) for use in uses} == {(9, "kworker/2:1", 600_000_000)}
    host.source.close()


def test_facts_of_a_real_process_are_those_of_ps() -> None:
    command = [sys.executable, "-c", "input()", "caf\u00e9 \x1b[31m", "x" * 600]
    with subprocess.Popen(["nice", "-n", "7", *command], stdin=subprocess.PIPE) as process:
        # Its name is another before its arguments are.
        started = sys.executable.encode()
        until(lambda: Path(f"/proc/{process.pid}/cmdline").read_bytes().startswith(started))
        facts = process_facts(process.pid, Cpu(0))
        listed = subprocess.run(
            ["ps", "-o", "ni=,user:32=,etimes=", "-p", str(process.pid)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        now_s = time.time()
        process.communicate(b"\n")
    assert facts is not None
    assert facts.command == " ".join(command)[:512] and len(facts.command) == 512
    assert [str(facts.nice_value), facts.user] == listed[:2]
    assert facts.started_s is not None and abs(now_s - facts.started_s - int(listed[2])) < 5
    assert facts.cgroup == "" or facts.cgroup.startswith("/")
    assert process_facts(process.pid, Cpu(0)) is None
