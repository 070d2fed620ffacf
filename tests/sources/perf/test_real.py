"""PerfSource on this machine's kernel: real counters, real hotplug, a real lack of privilege."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from nftop.model.ids import Cpu
from nftop.model.missing import Missing, Reason
from nftop.model.sample import CounterTable
from nftop.sources.perf.source import PerfSource
from nftop.uarch import table as uarch_table
from tests.real.machine import bound_to

pytestmark = [pytest.mark.real, pytest.mark.alone]

REPOSITORY = Path(__file__).parents[3]
READ_FORMAT = "|".join(
    f"PERF_FORMAT_{name}" for name in ("TOTAL_TIME_ENABLED", "TOTAL_TIME_RUNNING", "GROUP")
)
MSR_TSC = Path("/sys/bus/event_source/devices/msr/events/tsc")


def counted(source: PerfSource) -> CounterTable:
    table = source.read()
    if isinstance(table, Missing) and table.reason is Reason.PERMISSION:
        pytest.skip(f"needs root: {table.message}")
    assert isinstance(table, CounterTable), table
    return table


def present(table: CounterTable, event: str) -> bool:
    return not table.reasons[:, table.events.index(event)].any()


@pytest.fixture
def source() -> Iterator[PerfSource]:
    perf = PerfSource()
    yield perf
    perf.close()


def run_child(code: str, *prefix: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*prefix, sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        cwd=REPOSITORY,
    )


# The clock of a CPU and what is rare beside it: every kernel counts these, and no counter is taken.
TURNS = """
name = "x"
title = "x"
[events]
clock = { type = "software", config = 0 }
switches = { type = "software", config = 3 }
faults = { type = "software", config = 2 }
migrations = { type = "software", config = 4 }
[plans.main]
events = ["clock", "switches"]
needs = ["clock"]
turns = [["clock", "faults"], ["clock", "migrations"]]
"""


def test_a_group_counts_while_it_is_its_turn_and_stands_still_otherwise() -> None:
    """Its leader alone is stopped and started, and the others of the group follow."""
    perf = PerfSource(uarch=uarch_table.parse(TURNS))
    try:
        tables = [counted(perf)]
        for _ in range(6):
            time.sleep(0.02)
            perf.turn()
            time.sleep(0.01)
            tables.append(counted(perf))
    finally:
        perf.close()
    clocks = [index for index, event in enumerate(tables[0].events) if event == "clock"]
    assert tables[0].group[clocks].tolist() == [0, 1, 2]
    for number, (before, after) in enumerate(pairwise(tables)):
        ran = (after.running_ns - before.running_ns).astype(np.int64)
        mine, other = 1 + number % 2, 2 - number % 2
        assert (ran[:, 0] > 0).all() and (ran[:, mine] > 0).all()
        assert not ran[:, other].any()
        still = after.group == other
        assert (after.values[:, still] == before.values[:, still]).all()
        # In all the time one of them was to run, and none is multiplexed.
        passed = (after.enabled_ns - before.enabled_ns).astype(np.int64)
        assert (passed == ran.sum(axis=1)[:, None]).all()
    # The clock of a CPU is read a moment before or after that of its group.
    counts = tables[-1].values[:, clocks].astype(np.float64)
    assert counts == pytest.approx(tables[-1].running_ns.astype(np.float64), rel=0.2)


def test_the_time_stamp_counter_runs_at_one_rate(source: PerfSource) -> None:
    if not MSR_TSC.exists():
        pytest.skip("this kernel has no msr/tsc/")
    # A host that takes the machine's CPU away between the two clocks of one read spoils that read:
    # of several measurements one must be undisturbed.
    spreads = []
    for _ in range(10):
        rates = np.array(rates_of_the_tsc(source))
        # Two intervals and every CPU agree: the group's clock and the counter are read as one.
        spreads.append(float(np.ptp(rates) / np.mean(rates)))
        if spreads[-1] < 1e-3:
            return
    pytest.fail(f"the counter and its clock never agreed: {spreads}")


def rates_of_the_tsc(source: PerfSource) -> list[np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Cycles per second of two intervals, each of shape (CPUs,)."""
    tables, began, ended = [], [], []
    for _ in range(3):
        began.append(time.monotonic_ns())
        tables.append(counted(source))
        ended.append(time.monotonic_ns())
        time.sleep(0.4)
    assert present(tables[0], "tsc")
    column = tables[0].events.index("tsc")
    rates = []
    for index in range(2):
        old, new = tables[index : index + 2]
        enabled = (new.enabled_ns - old.enabled_ns).astype(float).reshape(-1)
        rates.append((new.values - old.values)[:, column] / enabled * 1e9)
        # No further apart than the calls' outer edges, no nearer than their inner ones.
        assert enabled.max() <= (ended[index + 1] - began[index]) * 1.001
        assert enabled.min() >= (began[index + 1] - ended[index]) * 0.999
    return rates


def test_context_switches_are_those_created(source: PerfSource) -> None:
    cpu = min(os.sched_getaffinity(0))
    rounds = 2_000
    before = counted(source)
    first, second = threading.Semaphore(0), threading.Semaphore(0)

    def play(mine: threading.Semaphore, other: threading.Semaphore) -> None:
        os.sched_setaffinity(0, {cpu})  # of this thread only
        for _ in range(rounds):
            other.release()
            mine.acquire()

    players = [
        threading.Thread(target=play, args=pair) for pair in ((first, second), (second, first))
    ]
    for player in players:
        player.start()
    for player in players:
        player.join(timeout=180)
    after = counted(source)
    assert present(after, "context_switches")
    row = after.cpus.tolist().index(cpu)
    column = after.events.index("context_switches")
    created = int(after.values[row, column] - before.values[row, column])
    assert rounds <= created < 100 * rounds


def test_hardware_events_count_or_report_why(source: PerfSource) -> None:
    counted(source)
    time.sleep(0.1)
    table = counted(source)
    for event in ("cycles", "instructions"):
        column = table.events.index(event)
        if table.reasons[:, column].any():
            assert set(table.reasons[:, column]) <= {Reason.HARDWARE, Reason.TAKEN}
            assert table.details[event]
            assert not table.values[:, column].any()
        else:
            assert table.values[:, column].all()


@pytest.fixture
def switch() -> Iterator[Path]:
    # Taking a CPU offline unbinds for good whatever is bound to it: only a machine made for tests
    # may be treated so, and only while nobody polls there.
    if not {"CI", "NFTOP_TEST_HOTPLUG"} & os.environ.keys():
        pytest.skip("takes cpu1 offline, which unbinds threads: NFTOP_TEST_HOTPLUG=1 allows it")
    if someone := bound_to(Cpu(1)):
        pytest.skip(f"cpu1 can't be taken offline here: {someone} is bound to it")
    path = Path("/sys/devices/system/cpu/cpu1/online")
    if not os.access(path, os.W_OK):
        pytest.skip("cpu1 can't be taken offline here: its online file is not writable")
    try:
        path.write_text("0")
    except OSError as error:
        pytest.skip(f"cpu1 can't be taken offline here: {error.strerror}")
    finally:
        path.write_text("1")
    try:
        yield path
    finally:
        path.write_text("1")


@pytest.mark.parametrize("plans", [slice(None), slice(-1, None)], ids=["all", "one event"])
def test_a_real_cpu_leaves_and_returns(switch: Path, plans: slice) -> None:
    generic = uarch_table.load()
    chosen = uarch_table.Uarch("x", "x", generic.events, generic.plans[plans])
    source = PerfSource(uarch=chosen)
    try:
        assert 1 in counted(source).cpus
        switch.write_text("0")
        gone = counted(source)
        assert 1 not in gone.cpus
        assert 0 in gone.cpus
        switch.write_text("1")
        assert 1 in counted(source).cpus
        back = counted(source)
        row = back.cpus.tolist().index(1)
        assert 0 < back.enabled_ns[row, 0] < back.enabled_ns[0, 0]

        # Away and back between two ticks: the online file says nothing, the group does.
        switch.write_text("0")
        switch.write_text("1")
        # A group of one event can't come up short: its clock first shows the time it still ran.
        blinked = counted(source)
        if len(chosen.plans) == 1 and blinked.reasons[row, -1] == Reason.PRESENT:
            blinked = counted(source)
        assert set(blinked.reasons[row]) == {Reason.RESET}
        assert blinked.enabled_ns[row, 0] == 0
        table = counted(source)
        assert table.reasons[row, table.events.index("context_switches")] == Reason.PRESENT
        assert 0 < table.enabled_ns[row, 0] < back.enabled_ns[0, 0]
    finally:
        source.close()


def test_without_privilege_it_reports_which_one_is_missing() -> None:
    paranoid = Path("/proc/sys/kernel/perf_event_paranoid").read_text().strip()
    if os.geteuid() != 0 or int(paranoid) <= 0:
        pytest.skip("needs root, to give it up, and perf_event_paranoid above 0")
    done = run_child(
        "import codecs, os\n"
        "from nftop.sources.perf.source import PerfSource\n"
        "source = PerfSource()\n"
        "codecs.lookup('ascii'), codecs.lookup('utf-8')\n"  # nobody may not read the interpreter's
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "answer = source.read()\n"
        "print(answer.reason.key, answer.detail, source.counter_reads)\n"
        "print(source.check()[0].fix)\n"
    )
    reports, fix = done.stdout.splitlines()
    assert reports.startswith("permission ")
    assert "CAP_PERFMON" in reports
    assert "perf_event_paranoid" in reports and f"it is {paranoid}" in reports
    assert reports.endswith(" 0")
    assert "sudo nftop" in fix


def test_strace_sees_one_read_a_cpu_and_tick_and_nothing_else(tmp_path: Path) -> None:
    strace = shutil.which("strace")
    if strace is None:
        pytest.skip("needs strace")
    trace = tmp_path / "trace"
    ticks = 7
    done = run_child(
        "from nftop.sources.perf.source import PerfSource\n"
        "import os, sys\n"
        "source = PerfSource()\n"
        "table = source.read()\n"
        "if not hasattr(table, 'cpus'): sys.exit(print(table.sentence))\n"
        "os.path.exists('/mark-steady')\n"
        f"for _ in range({ticks}): source.read()\n"
        "os.path.exists('/mark-end')\n"
        "print(len(table.cpus), source.counter_reads)\n"
        "source.close()\n",
        *(strace, "-f", "-y", "-v", "-o", str(trace)),
    )
    words = done.stdout.split()
    if len(words) != 2:
        pytest.skip(f"needs root: {done.stdout.strip()}")
    cpus, reads = map(int, words)
    assert reads == cpus * (ticks + 1)
    before, steady = trace.read_text().split("/mark-steady", 1)
    steady, after = steady.split("/mark-end", 1)
    calls = re.findall(r"^\d+ +(\w+)\((\d+<[^>]*>+)?", steady.split("\n", 1)[1], re.MULTILINE)
    on_perf = [name for name, target in calls if "[perf_event]" in target]
    assert on_perf == ["readv"] * (cpus * ticks)
    # Beside the counters: one look at the online CPUs a tick.
    rest = [name for name, target in calls if "[perf_event]" not in target]
    assert rest.count("pread64") == ticks
    assert set(rest) <= {"pread64", "stat", "newfstatat", "mmap", "munmap", "brk", "madvise"}

    opens = [line for line in before.splitlines() if " perf_event_open(" in line]
    assert opens
    for line in opens:
        for component in (
            "sample_period=0",
            "inherit=0",
            "exclude_kernel=0",
            "freq=0",
            "pinned=0",
            f"read_format={READ_FORMAT},",
            "PERF_FLAG_FD_CLOEXEC",
        ):
            assert component in line
        leads = re.search(r"\}, -1, \d+, -1, PERF_FLAG", line) is not None
        assert ("disabled=1" in line) is leads
    opened = len([line for line in opens if re.search(r"= \d+<", line)])
    closed = len(re.findall(r" close\(\d+<anon_inode:\[perf_event\]>", before + after))
    assert opened == closed
