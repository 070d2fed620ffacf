"""CPU times from /proc/stat: made-up and real."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.missing import Missing, Reason
from nftop.model.sample import CpuTimes
from nftop.sources.host.cpu_time import KernelSource, parse_cpu_times

HEAD = "cpu  7132 0 4833 170517 708 0 160 14 0 0\n"
TAIL = "intr 524580 0 0 15\nctxt 1153061\nbtime 1\nsoftirq 1 2 3\n"
TICKS = st.integers(0, 2**64 - 1)
FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")


def stat_text(table: dict[int, list[int]]) -> bytes:
    lines = (f"cpu{cpu} {' '.join(map(str, ticks))}\n" for cpu, ticks in sorted(table.items()))
    return (HEAD + "".join(lines) + TAIL).encode()


@given(
    st.integers(1, 12).flatmap(
        lambda width: st.dictionaries(
            st.integers(0, 8191), st.lists(TICKS, min_size=width, max_size=width), min_size=1
        )
    )
)
def test_every_online_cpu_and_full_64_bits(table: dict[int, list[int]]) -> None:
    times = parse_cpu_times(stat_text(table), 100)
    width = min(8, len(next(iter(table.values()))))
    assert times.cpus.tolist() == sorted(table)
    assert times.fields == FIELDS[:width]
    assert times.ticks.tolist() == [table[cpu][:width] for cpu in sorted(table)]
    assert times.ticks.dtype == np.uint64


@given(st.data())
def test_mangled_text_raises_value_error_or_is_a_table(data: st.DataObject) -> None:
    good = stat_text({cpu: [cpu, 2, 3, 4, 5, 6, 7, 8, 9, 10] for cpu in range(3)})
    cut = data.draw(st.integers(0, len(good)))
    junk = data.draw(st.binary(max_size=12))
    skip = data.draw(st.integers(0, 90))
    try:
        times = parse_cpu_times(good[:cut] + junk + good[cut + skip :], 100)
    except ValueError:
        return
    assert times.ticks.shape == (len(times.cpus), len(times.fields))


@pytest.mark.parametrize(
    "text",
    [
        b"",
        HEAD.encode(),
        b"cpu 1 2\ncpu0 1 2\ncpu1 1\n",
        b"cpu 1 2\ncpu0 1 -2\n",
        b"cpu 1 2\ncpu0 1 x\n",
        b"cpu 1 2\ncpu1 1 2\ncpu0 1 2\n",
        b"cpu 1 2\ncpu0 1 2",  # cut: the last number may have lost digits
    ],
)
def test_what_is_no_table_is_an_error_and_no_number(tmp_path: Path, text: bytes) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_bytes(text)
    source = KernelSource(tmp_path)
    missing = source.read()
    assert isinstance(missing, Missing)
    assert missing.reason is Reason.ERROR
    source.close()


def test_absent_and_later_present(tmp_path: Path) -> None:
    source = KernelSource(tmp_path)
    missing = source.read()
    assert isinstance(missing, Missing)
    assert missing.reason is Reason.SOURCE
    assert source.check()[0].reason is Reason.SOURCE
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_bytes(stat_text({0: [1, 2, 3, 4]}))
    assert isinstance(source.read(), CpuTimes)
    source.close()


def test_a_text_longer_than_the_buffer_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    table = {cpu: [2**63 + cpu] * 10 for cpu in range(1024)}
    (tmp_path / "proc/stat").write_bytes(stat_text(table))
    source = KernelSource(tmp_path)
    times = source.read()
    assert isinstance(times, CpuTimes)
    assert times.ticks[:, 7].tolist() == [2**63 + cpu for cpu in range(1024)]
    source.close()


def test_cpus_may_come_and_go(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    stat = tmp_path / "proc/stat"
    source = KernelSource(tmp_path)
    for cpus in ({0, 1, 2}, {0, 2}, {0, 1, 2, 3}):
        stat.write_bytes(stat_text({cpu: [1, 2, 3, 4] for cpu in cpus}))
        times = source.read()
        assert isinstance(times, CpuTimes)
        assert times.cpus.tolist() == sorted(cpus)
    source.close()


@pytest.mark.real
@pytest.mark.alone
def test_this_host_counts_our_own_work() -> None:
    """A thread that spins on one CPU shows there, tick for tick, in a file that stays open."""
    source = KernelSource()
    before_affinity = os.sched_getaffinity(0)
    cpu = max(before_affinity)
    os.sched_setaffinity(0, {cpu})
    try:
        began_s = time.monotonic()
        before, began_ns = source.read(), time.thread_time_ns()
        while time.thread_time_ns() < began_ns + 300_000_000:
            pass
        used_ns = time.thread_time_ns() - began_ns
        after, took_s = source.read(), time.monotonic() - began_s
    finally:
        os.sched_setaffinity(0, before_affinity)
    assert isinstance(before, CpuTimes)
    assert isinstance(after, CpuTimes)
    row = before.cpus.tolist().index(cpu)
    # Signed: idle and iowait may step back a little, proc(5).
    grown = (after.ticks.astype(int) - before.ticks.astype(int))[row] / after.ticks_per_s
    busy_s = grown.sum() - grown[FIELDS.index("idle")] - grown[FIELDS.index("iowait")]
    # The others on this CPU may add to it, rounding to ticks may take two away.
    assert busy_s >= used_ns / 1e9 - 2 / after.ticks_per_s
    assert grown.sum() <= took_s + 0.15
    source.close()
    source.close()
    assert isinstance(source.read(), CpuTimes)
    source.close()
