"""Who runs where: the scan's choices on made-up processes, and real pollers on this machine."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reason
from nftop.model.sample import ProcessFacts, ThreadTable
from nftop.model.threads import ThreadRow
from nftop.sources.process import threads
from nftop.sources.process.facts import CulpritReader, FactsReader, process_facts
from nftop.sources.process.source import ProcessSource
from tests.waiting import until

S = 1_000_000_000
HOST_NS, OTHER_NS = "mnt:[4026531832]", "mnt:[4026532999]"


class FakeHost:
    """A /proc of files, and a clock."""

    def __init__(
        self,
        root: Path,
        facts: FactsReader | None = None,
        culprits: CulpritReader | None = None,
    ) -> None:
        self.root = root
        self.now_ns = 100 * S
        self.source = ProcessSource(root, clock=lambda: self.now_ns, facts=facts, culprits=culprits)
        self.thread(1, 1, "init")
        self.thread(99, 99, "nftop")
        (root / "proc/self").symlink_to("99")

    def thread(
        self,
        pid: int,
        tid: int,
        comm: str,
        *,
        allowed: str = "0-7",
        run_ns: int = 1,
        wait_ns: int = 0,
        start: int = 5000,
        kernel: bool = False,
        state: str = "S",
        namespace: str | None = HOST_NS,
    ) -> Path:
        """Create the thread, or write its files anew."""
        folder = self.root / f"proc/{pid}/task/{tid}"
        folder.mkdir(parents=True, exist_ok=True)
        fields = ["0"] * 50
        fields[0], fields[6], fields[19], fields[36] = state, "0", str(start), "7"
        if kernel:
            fields[6] = str(0x208040)
        (folder / "stat").write_text(f"{tid} ({comm}) {' '.join(fields)}\n")
        (folder / "schedstat").write_text(f"{run_ns} {wait_ns} 9\n")
        (folder / "status").write_text(
            f"Name:\t{comm}\nState:\t{state} (x)\nCpus_allowed_list:\t{allowed}\n"
            "voluntary_ctxt_switches:\t3\nnonvoluntary_ctxt_switches:\t4\n"
        )
        link = self.root / f"proc/{pid}/ns/mnt"
        if namespace is not None and not link.is_symlink():
            link.parent.mkdir(exist_ok=True)
            link.symlink_to(namespace)
        return folder

    def process(self, pid: int, threads: int, cpu_ticks: int, name: str = "main") -> None:
        """Write its own stat: the number of its threads, and what all of them have run."""
        fields = ["0"] * 50
        fields[0], fields[11], fields[17], fields[19] = "S", str(cpu_ticks), str(threads), "5000"
        (self.root / f"proc/{pid}/stat").write_text(f"{pid} ({name}) {' '.join(fields)}\n")

    def kill(self, pid: int) -> None:
        shutil.rmtree(self.root / f"proc/{pid}")

    def read(self, after_s: float = 0.0) -> ThreadTable:
        self.now_ns += int(after_s * S)
        table = self.source.read()
        assert isinstance(table, ThreadTable)
        return table

    def comms(self, after_s: float = 0.0) -> list[str]:
        return [row.comm for row in self.read(after_s).threads]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[FakeHost]:
    fake = FakeHost(tmp_path)
    yield fake
    fake.source.close()


def test_threads_with_a_role(host: FakeHost) -> None:
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
    assert host.source.check()[0].text == ("5 processes, 5 threads of network functions among them")


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


SPIN = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
open("/proc/self/comm", "wb").write(os.fsencode(sys.argv[2]))
print("ready", flush=True)
while True:
    pass
"""


@contextmanager
def poller(cpu: int, comm: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that spins on one CPU under this name, until killed."""
    command = [sys.executable, "-c", SPIN, str(cpu), comm]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            yield child
        finally:
            child.kill()


def rows_of(table: ThreadTable | Missing) -> dict[int, ThreadRow]:
    """The threads that are their process' only one, by process."""
    assert isinstance(table, ThreadTable)
    return {row.pid: row for row in table.threads if row.pid == row.tid}


def cpu_clock_ns(child: subprocess.Popen[bytes]) -> int:
    """The process' CPU time by its POSIX clock; see MAKE_PROCESS_CPUCLOCK in the kernel."""
    return time.clock_gettime_ns(~child.pid << 3 | 2)


def schedstat(child: subprocess.Popen[bytes]) -> tuple[int, int]:
    """What the kernel says of its run and wait time, in ns."""
    run_ns, wait_ns, _ = Path(f"/proc/{child.pid}/schedstat").read_text().split()
    return int(run_ns), int(wait_ns)


@pytest.mark.real
@pytest.mark.alone
def test_real_pollers() -> None:
    cpu = max(os.sched_getaffinity(0))
    odd = "[red]x[/] \x1b[2J"
    source = ProcessSource(scan_every_ns=200_000_000)

    def row_of(child: subprocess.Popen[bytes]) -> ThreadRow:
        """Its row, which is between what the kernel says before and after."""
        before = schedstat(child)
        row = rows_of(source.read())[child.pid]
        after = schedstat(child)
        assert row.wait_ns is not None
        assert before[0] <= row.run_ns <= after[0]
        assert before[1] <= row.wait_ns <= after[1]
        return row

    with poller(cpu, "rte-worker-1") as worker:
        began_ns = cpu_clock_ns(worker)
        first = row_of(worker)
        earliest_ns = cpu_clock_ns(worker)
        assert (first.role, first.role_index) == ("dpdk_lcore", 1)
        assert (first.allowed, first.last_cpu, first.container) == ((cpu,), cpu, False)
        until(lambda: cpu_clock_ns(worker) > earliest_ns + 300_000_000)
        latest_ns = cpu_clock_ns(worker)
        run_ns = row_of(worker).run_ns - first.run_ns
        # The kernel adds to schedstat with the timer's tick, 10 ms at the most.
        assert latest_ns - earliest_ns - 10_000_000 <= run_ns
        assert run_ns <= cpu_clock_ns(worker) - began_ns + 10_000_000
        with poller(cpu, odd) as other:
            until(lambda: other.pid in rows_of(source.read()))
            stranger = row_of(other)
            assert (stranger.comm, stranger.role, stranger.role_index) == (odd, "", None)
            # Two pollers share the CPU, so each waits.
            waited_ns = row_of(worker).wait_ns or 0
            until(lambda: schedstat(worker)[1] > waited_ns + 100_000_000)
            assert (row_of(worker).wait_ns or 0) > waited_ns + 100_000_000
        worker.kill()
        worker.wait()
        assert worker.pid not in rows_of(source.read())
    source.close()


@pytest.mark.real
@pytest.mark.parametrize("hidepid", [1, 2])
def test_real_hidepid_is_counted_not_ignored(hidepid: int) -> None:
    """An ordinary user beside one process of root's, in a PID namespace of their own."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("needs root and unshare to mount a /proc with hidepid")
    code = (
        "import os; from nftop.sources.process.source import ProcessSource\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "source = ProcessSource()\n"
        "print(source.read().hidden, source.check()[0].reason.key)\n"
    )
    # The last command keeps the shell from making way for python.
    script = f'mount -t proc -o hidepid={hidepid} proc /proc && "$1" -c "$2"; exit'
    command = ["unshare", "-m", "-p", "-f", "sh", "-c", script, "sh", sys.executable, code]
    root = Path(__file__).parents[3]
    result = subprocess.run(command, capture_output=True, text=True, cwd=root, check=False)
    if "mount:" in result.stderr or "unshare:" in result.stderr:
        pytest.skip(f"no /proc with hidepid can be mounted here: {result.stderr.strip()}")
    assert result.stdout.split() == ["1", "permission"], result.stderr


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of the threads' files that are opened."""
    names: list[str] = []
    real = threads._open

    def counted(path: str) -> int:
        names.append(path)
        return real(path)

    monkeypatch.setattr(threads, "_open", counted)
    return names


def test_ten_thousand_threads_that_come_and_go_do_not_make_numbers_old(
    host: FakeHost, opened: list[str]
) -> None:
    """Small scale: 200 threads, 20 a read. What a read costs is counted in files opened."""
    host.source = ProcessSource(host.root, threads_per_read=20, clock=lambda: host.now_ns)
    host.thread(50, 50, "vpp_wk_0", allowed="2", run_ns=0)

    def churn(tick: int) -> None:
        if tick:
            host.kill(200 + tick - 1)
        for number in range(200):
            host.thread(200 + tick, 10_000 * (tick + 1) + number, "worker")

    churn(0)
    host.read()
    complete = []
    for tick in range(1, 36):
        churn(tick)
        host.thread(50, 50, "vpp_wk_0", allowed="2", run_ns=tick * S)
        opened.clear()
        table = host.read(after_s=1.0)
        # Of a tenth of 201 threads stat and schedstat, and three files of the one that is watched.
        assert len(opened) <= 2 * 21 + 3
        (row,) = table.threads
        assert (row.run_ns, row.read_at_ns) == (tick * S, host.now_ns)
        complete.append(table.scanned_at_ns)
    assert len(set(complete)) >= 3  # passes come to their end all the same
    # A worker that starts is found by the next whole pass.
    host.thread(60, 60, "vpp_wk_1", allowed="3")
    results = [host.comms(after_s=1.0) for _ in range(25)]
    assert results[-1] == ["vpp_wk_0", "vpp_wk_1"]


def _several(host: FakeHost, count: int = 50) -> None:
    for tid in range(200, 200 + count):
        host.thread(200, tid, "worker")
    host.process(200, count, 100)
    host.read()
    host.read(after_s=1.0)  # compared with the first


def test_threads_of_a_quiet_process_are_not_read_again(host: FakeHost, opened: list[str]) -> None:
    _several(host)
    for _ in range(20):  # a hundred seconds
        opened.clear()
        host.read(after_s=5.0)
        assert [path for path in opened if "/200/task/" in path] == []


@pytest.mark.parametrize("change", ["runs", "thread more", "another thread"])
def test_threads_of_a_process_that_changes_are_read(
    host: FakeHost, opened: list[str], change: str
) -> None:
    _several(host)
    if change == "runs":
        host.process(200, 50, 100 + 30)  # 0.3 s
    elif change == "thread more":
        host.thread(200, 300, "vpp_wk_0", allowed="3")
        host.process(200, 51, 100)
    else:
        host.thread(200, 300, "vpp_wk_0", allowed="3")
        shutil.rmtree(host.root / "proc/200/task/249")
    opened.clear()
    names: list[str] = []
    # A change that neither the number of threads nor the CPU time shows: within 30 s and a pass.
    for _ in range(7 if change == "another thread" else 1):
        names = host.comms(after_s=5.0)
    assert f"{host.root}/proc/200/task/200/stat" in opened
    assert ("vpp_wk_0" in names) == (change != "runs")


def test_a_busy_process_with_very_many_threads_is_examined_now_and_then(
    host: FakeHost, opened: list[str]
) -> None:
    _several(host, 2000)
    looks = 0
    for tick in range(1, 19):  # 90 s
        host.process(200, 2000, 100 + 500 * tick)
        opened.clear()
        for _ in range(3):  # a pass is spread over these
            host.read(after_s=5 / 3)
        looks += f"{host.root}/proc/200/task/200/stat" in opened
    assert 3 <= looks <= 6


@pytest.mark.parametrize("interval_s", [0.5, 1.0, 5.0, 60.0])
def test_a_pass_over_many_threads_ends_in_time_at_any_interval(
    host: FakeHost, interval_s: float
) -> None:
    """Small scale: 300 threads, 5 a read: at 5 s a pass would take 300 s."""
    host.source = ProcessSource(host.root, threads_per_read=5, clock=lambda: host.now_ns)
    for number in range(300):
        host.thread(200, 200 + number, "worker")
    host.read()
    host.read(after_s=interval_s)  # the second pass begins
    began_ns = host.now_ns
    host.thread(60, 60, "vpp_wk_1", allowed="3")
    # One pass may be under way without it; before the next one there may be a pause of 5 s.
    while not host.comms(after_s=interval_s):
        assert host.now_ns - began_ns < (2 * 10 + 5 + 3 * interval_s) * S


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


def test_a_name_that_an_idle_process_took_is_seen(host: FakeHost) -> None:
    host.thread(60, 60, "python3")
    host.process(60, 1, 0, "python3")
    host.read()
    host.read(1)
    assert host.comms(40) == []
    host.process(60, 1, 0, "rte-worker-3")
    host.thread(60, 60, "rte-worker-3")
    assert host.comms(5) == ["rte-worker-3"]


def test_a_name_that_a_thread_of_an_idle_process_took_is_seen_in_time(host: FakeHost) -> None:
    host.thread(60, 60, "python3")
    host.thread(60, 61, "python3")
    host.process(60, 2, 0)
    host.read()
    host.read(1)
    host.thread(60, 61, "rte-worker-3")
    assert host.comms(40) == []
    assert "rte-worker-3" in host.comms(262)


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
            capture_output=True, text=True, check=True,
        ).stdout.split()  # fmt: skip
        now_s = time.time()
        process.communicate(b"\n")
    assert facts is not None
    assert facts.command == " ".join(command)[:512] and len(facts.command) == 512
    assert [str(facts.nice_value), facts.user] == listed[:2]
    assert facts.started_s is not None and abs(now_s - facts.started_s - int(listed[2])) < 5
    assert facts.cgroup == "" or facts.cgroup.startswith("/")
    assert process_facts(process.pid, Cpu(0)) is None
