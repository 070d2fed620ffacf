"""What strace wrote, counted."""

from __future__ import annotations

from tests.strace import Calls, calls_of

LOG = """\
12    readv(4<anon_inode:[perf_event]>, [{iov_base="...", iov_len=152}], 1) = 152
12    read(9</sys/fs/lab/live/perf/event,1677,-1,1,0,0,BAAAAIgA>, "..", 104) = 104
13    read(6</sys/devices/system/cpu/online>, "0-7\\n", 63) = 4
12    ioctl(4<anon_inode:[perf_event]>, PERF_EVENT_IOC_DISABLE, 1) = 0
12    ioctl(1</dev/pts/0>, TCGETS, 0x7ffd) = -1 ENOTTY
12    <... readv resumed>, [{iov_base="...", iov_len=152}], 1) = 152
12    --- SIGCHLD {si_signo=SIGCHLD} ---
12    +++ exited with 0 +++
"""


def test_reads_and_ioctls_of_counters_and_every_call() -> None:
    assert calls_of(LOG) == Calls(reads=2, controls=1, total=5)


def test_counters_of_other_units_are_reported_by_their_type() -> None:
    assert calls_of(LOG, outside=range(4, 5)) == Calls(reads=1, controls=1, total=5)
