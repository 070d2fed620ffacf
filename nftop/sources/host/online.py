"""Which CPUs are online, asked at every tick: one pread of a descriptor kept open."""

from __future__ import annotations

import os
from pathlib import Path

from nftop.model.ids import Cpu, parse_cpu_list

_LONGEST_BYTES = 65_536  # sysfs gives a page at most; pages are up to 64 KiB


class OnlineCpus:
    """/sys/devices/system/cpu/online, parsed only when its text changes."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._path = root / "sys/devices/system/cpu/online"
        self._fd = -1
        self._text = b""
        self._cpus: tuple[Cpu, ...] = ()

    def read(self) -> tuple[Cpu, ...]:
        """The online CPUs, ascending.

        Raises:
            OSError: the file can't be read.
            ValueError: it holds no CPU list.
        """
        if self._fd < 0:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        text = os.pread(self._fd, _LONGEST_BYTES, 0)
        if text != self._text:
            self._cpus = parse_cpu_list(text.decode("ascii"))
            self._text = text
        return self._cpus

    def close(self) -> None:
        """Give the descriptor back; safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
