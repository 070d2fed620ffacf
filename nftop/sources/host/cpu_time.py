"""CPU time as the kernel accounts it: /proc/stat, proc(5)."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from nftop.model.reading import Missing, Reason
from nftop.model.sample import CpuTimes
from nftop.sources.base import Check

_FIELDS = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
# Enough for the lines of about 512 CPUs; doubled on a host that needs more.
_FIRST_READ_BYTES = 64 * 1024


class KernelSource:
    """Per-CPU time from one /proc/stat that stays open: one system call a tick."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._path = root / "proc/stat"
        self._handle: int | None = None
        self._size = _FIRST_READ_BYTES

    @property
    def name(self) -> str:
        return "kernel"

    @property
    def inline(self) -> bool:
        return True

    def read(self) -> CpuTimes | Missing:
        """Every online CPU's ticks now."""
        try:
            text = self._text()
        except PermissionError:
            return Missing(Reason.PERMISSION, f"{self._path} can't be read; run as root")
        except FileNotFoundError:
            return Missing(Reason.SOURCE, f"there is no {self._path}; is /proc mounted?")
        except OSError as error:
            self.close()
            return Missing(Reason.ERROR, f"{self._path}: {error.strerror}")
        try:
            return parse_cpu_times(text, os.sysconf("SC_CLK_TCK"))
        except ValueError as error:
            return Missing(Reason.ERROR, f"{self._path}: {error}")

    def check(self) -> tuple[Check, ...]:
        """Whether CPU times can be read, and for how many CPUs."""
        times = self.read()
        if isinstance(times, Missing):
            return (Check(self.name, times.reason, times.message, "mount -t proc proc /proc"),)
        return (Check(self.name, Reason.PRESENT, f"CPU times of {len(times.cpus)} online CPUs"),)

    def close(self) -> None:
        """Close the file; the next read opens it again."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def _text(self) -> bytes:
        if self._handle is None:
            self._handle = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        # The CPU lines come first and the kernel makes the whole text for any read, so one read
        # that holds them all is a consistent picture, and what follows need not be copied.
        while True:
            text = os.pread(self._handle, self._size, 0)
            if len(text) < self._size or b"\nintr" in text:
                return text
            self._size *= 2


def parse_cpu_times(text: bytes, ticks_per_s: int) -> CpuTimes:
    """The `cpuN` lines of /proc/stat as a table.

    Fields beyond `steal` (guest times, already within user and nice) are dropped; a kernel that
    has fewer gives fewer.

    Raises:
        ValueError: there is no such line, or they are not alike.
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
