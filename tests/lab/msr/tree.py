"""/dev/cpu: a folder for each CPU that is online, with the files of modules `msr` and `cpuid`.

arch/x86/kernel/msr.c and cpuid.c of Linux 6.1: the offset is the register's number, or leaf and
subleaf; what is read and written is 8 or 16 bytes, or several of them; opening `msr` takes
CAP_SYS_RAWIO.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Protocol

from tests.lab.cpuid import leaves
from tests.lab.tree import Caller, Entry, Handle, failed

_WORD = struct.Struct("<Q")
_LEAF = struct.Struct("<4I")
_FILES = ("cpuid", "msr")


class Bank(Protocol):
    """Registers of every CPU. Both raise OSError EIO where the hardware would fault."""

    def read(self, cpu: int, number: int) -> int:
        """One of them."""

    def write(self, cpu: int, number: int, value: int) -> None:
        """One of them."""


@dataclass(frozen=True, slots=True)
class _Msr:
    bank: Bank
    cpu: int

    def read(self, size: int, offset: int) -> bytes:
        if size % _WORD.size:
            raise failed(errno.EINVAL)
        value = self.bank.read(self.cpu, offset & 0xFFFFFFFF)
        return _WORD.pack(value) * (size // _WORD.size)

    def write(self, data: bytes, offset: int) -> int:
        if len(data) % _WORD.size:
            raise failed(errno.EINVAL)
        for (value,) in _WORD.iter_unpack(data):
            self.bank.write(self.cpu, offset & 0xFFFFFFFF, value)
        return len(data)

    def ioctl(self, request: int, argument: int, data: bytearray | None) -> int:
        raise failed(errno.ENOTTY)

    def close(self) -> None:
        """Nothing is held."""


@dataclass(frozen=True, slots=True)
class _Cpuid:
    cpu: leaves.Cpu

    def read(self, size: int, offset: int) -> bytes:
        if size % _LEAF.size:
            raise failed(errno.EINVAL)
        leaf, subleaf = offset & 0xFFFFFFFF, offset >> 32
        return b"".join(
            _LEAF.pack(*leaves.answer(self.cpu, leaf + more, subleaf))
            for more in range(size // _LEAF.size)
        )

    def write(self, data: bytes, offset: int) -> int:
        raise failed(errno.EINVAL)

    def ioctl(self, request: int, argument: int, data: bytearray | None) -> int:
        raise failed(errno.ENOTTY)

    def close(self) -> None:
        """Nothing is held."""


class DeviceTree:
    """/dev/cpu."""

    def __init__(
        self, bank: Bank, cpus: Sequence[leaves.Cpu], online: Callable[[], Collection[int]]
    ) -> None:
        """`cpus` are all that there can be, 0.. on."""
        self._bank, self._cpus, self._online = bank, cpus, online

    def lookup(self, path: str) -> Entry:
        if path == "/":
            return Entry(folder=True, mode=0o755, inode=1)
        cpu, file = self._location(path)
        if file is None:
            return Entry(folder=True, mode=0o755, inode=2 + 3 * cpu)
        mode = 0o600 if file == "msr" else 0o444
        return Entry(folder=False, mode=mode, inode=3 + 3 * cpu + _FILES.index(file))

    def names(self, path: str) -> Sequence[str]:
        if path == "/":
            return tuple(map(str, sorted(self._online())))
        self._location(path)
        return _FILES

    def open(self, path: str, flags: int, caller: Caller) -> Handle:
        cpu, file = self._location(path)
        if file is None:
            raise failed(errno.EISDIR)
        return _Msr(self._bank, cpu) if file == "msr" else _Cpuid(self._cpus[cpu])

    def mkdir(self, path: str, mode: int, caller: Caller) -> None:
        raise failed(errno.EPERM)

    def rmdir(self, path: str, caller: Caller) -> None:
        raise failed(errno.EPERM)

    def rename(self, old: str, new: str, caller: Caller) -> None:
        raise failed(errno.EPERM)

    def _location(self, path: str) -> tuple[int, str | None]:
        """The CPU of a path and its file, if it is one; ENOENT where there is neither."""
        number, _, file = path[1:].partition("/")
        if not number.isdecimal() or int(number) not in self._online():
            raise failed(errno.ENOENT)
        if file and file not in _FILES:
            raise failed(errno.ENOENT)
        return int(number), file or None
