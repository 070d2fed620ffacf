"""Threads of this machine, as the scan reads them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from nftop.model.threads import ThreadRow
from nftop.sources.process.source import ProcessSource
from tests.sources.process.fake_proc import rows_of
from tests.waiting import until

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
