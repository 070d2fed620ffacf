"""CPU time as the kernel accounts it: /proc/stat, proc(5)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from nftop.model.check import Check
from nftop.model.missing import Missing, Reason
from nftop.model.sample import CpuTimes
from nftop.sources.base import missing_check
from nftop.sources.host.sysfs import unreadable

_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
# Enough for the lines of about 512 CPUs; doubled on a host that needs more.
_FIRST_READ_BYTES = 64 * 1024


class KernelSource:
    """Per-CPU time from one /proc/stat that stays open: one system call a tick."""

    name = "kernel"
    inline = True

    def __init__(self, root: Path = Path("/")) -> None:
        self._path = root / "proc/stat"
        self._handle: int | None = None
        self._size = _FIRST_READ_BYTES

    def read(self) -> CpuTimes | Missing:
        """Ticks of every online CPU."""
        try:
            return parse_cpu_times(self._text(), os.sysconf("SC_CLK_TCK"))
        except (OSError, ValueError) as error:
            if isinstance(error, OSError):
                self.close()
            return unreadable(self._path, error)

    def check(self) -> tuple[Check, ...]:
        times = self.read()
        if isinstance(times, Missing):
            return missing_check(self.name, times, "mount -t proc proc /proc")
        return (Check(self.name, Reason.PRESENT, f"CPU times of {len(times.cpus)} online CPUs"),)

    def close(self) -> None:
        """Close the file; the next read opens it again."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _text(self) -> bytes:
        if self._handle is None:
            self._handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        # The kernel makes the whole text for any read, and the CPU lines come first: one read that
        # holds them all is consistent.
        while True:
            text = os.pread(self._handle, self._size, 0)
            if len(text) < self._size or b"\nintr" in text:
                return text
            self._size *= 2


def parse_cpu_times(text: bytes, ticks_per_s: int) -> CpuTimes:
    """The `cpuN` lines of /proc/stat as a table.

    Guest times, which user and nice include, are dropped. Older kernels have fewer fields. Raises
    ValueError: there is no such line, or the lines differ in their number of fields.
    """
    start = text.find(b"\ncpu") + 1  # after the line that sums all CPUs up
    if start == 0:
        raise ValueError("it lists no CPU")
    end = text.find(b"\n", text.rfind(b"\ncpu") + 1)
    lines = text[start:end]
    rows = lines.count(b"\n") + 1
    # 0.16 ms on 512 CPUs, a quarter of int() per word.
    numbers = np.fromstring(lines.replace(b"cpu", b""), dtype=np.uint64, sep=" ")
    columns = len(lines.partition(b"\n")[0].split())
    if end < 0 or columns < 2 or numbers.size != rows * columns:
        raise ValueError("its CPU lines can't be read")
    table = numbers.reshape(rows, columns)
    fields = _FIELDS[: columns - 1]
    cpus = table[:, 0].astype(np.int32)
    if np.any(np.diff(cpus) <= 0):
        raise ValueError("its CPU lines are not in order")
    return CpuTimes(cpus, fields, table[:, 1 : len(fields) + 1].copy(), ticks_per_s)
