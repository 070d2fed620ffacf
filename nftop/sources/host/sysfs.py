"""Small text files of sysfs and procfs, read so that their contents never raise."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
from collections.abc import Iterable
from pathlib import Path

from nftop.model.ids import Cpu, format_cpu_list, parse_cpu_list
from nftop.model.missing import Missing, Reason

_MASK = re.compile(r"[0-9a-fA-F]{1,8}(,[0-9a-fA-F]{8})*")
_NUMBER = re.compile(r"-?[0-9]{1,12}")
_ABSENT = (FileNotFoundError, NotADirectoryError)
_LIMIT_BYTES = 1 << 16  # longer than any of these files on 8192 CPUs
_COMM_BYTES = 64


class SysTree:
    """A folder of small text files.

    Unreadable files and invalid contents are noted; absent files are not.
    """

    def __init__(self, base: Path) -> None:
        self._base = os.fspath(base)
        self._notes: dict[tuple[str, str], list[Cpu]] = {}

    def note(self, what: str, why: str, cpu: Cpu | None = None) -> None:
        """Note that `what` of `cpu` (of the host if None) failed."""
        self._notes.setdefault((what, why), []).extend([] if cpu is None else [cpu])

    def notes(self) -> tuple[str, ...]:
        """One sentence per kind of failure, with its CPUs."""
        return tuple(
            f"{what}{' of CPU ' + format_cpu_list(cpus) if cpus else ''} {why}"
            for (what, why), cpus in self._notes.items()
        )

    def text(self, path: str, limit: int = _LIMIT_BYTES, cpu: Cpu | None = None) -> str | None:
        """The stripped text; None if the file is absent or can't be read."""
        try:
            data = read_up_to(f"{self._base}/{path}", limit)
        except _ABSENT:
            return None
        except OSError as error:
            self.note(_label(path, cpu), f"can't be read: {error.strerror}", cpu)
            return None
        return data.decode("ascii", "replace").strip(" \t\n\0")

    def names(self, path: str) -> list[str]:
        """Names in a folder; empty if it is absent or can't be read."""
        try:
            with os.scandir(f"{self._base}/{path}") as entries:
                return [entry.name for entry in entries]
        except _ABSENT:
            return []
        except OSError as error:
            self.note(path, f"can't be listed: {error.strerror}")
            return []

    def number(self, path: str, cpu: Cpu | None = None) -> int | None:
        """A decimal number; None if absent, unreadable or negative (the kernel's "unknown")."""
        text = self.text(path, cpu=cpu)
        if text is None:
            return None
        if not _NUMBER.fullmatch(text):
            self.note(_label(path, cpu), "is not a number", cpu)
            return None
        return int(text) if int(text) >= 0 else None

    def cpus(self, path: str, cpu: Cpu | None = None) -> tuple[Cpu, ...] | None:
        """CPUs of a list or mask; None if absent or unreadable."""
        text = self.text(path, cpu=cpu)
        if text is None:
            return None
        # A mask that was never allocated (nohz_full not in use) is printed as "  (null)".
        if text == "(null)":
            return ()
        name = path.rpartition("/")[2]
        is_list = name.endswith("list") or name in {"present", "online", "isolated", "nohz_full"}
        try:
            return parse_cpu_list(text) if is_list else parse_cpu_mask(text)
        except ValueError:
            self.note(_label(path, cpu), "is not a list of CPUs", cpu)
            return None

    def members(self, directory: str, names: Iterable[str], cpu: Cpu) -> set[Cpu] | None:
        """CPUs of the first of the files `names` that lists `cpu`."""
        for name in names:
            listed = self.cpus(f"{directory}/{name}", cpu)
            if listed is not None and cpu in listed:
                return set(listed)
        return None


def parse_cpu_mask(text: str) -> tuple[Cpu, ...]:
    """CPUs of a kernel mask: hexadecimal words of 32 bits, the highest first (`00ff,0000000f`).

    Raises ValueError: the text is not such a mask.
    """
    if not _MASK.fullmatch(text):
        raise ValueError(f"{text[:80]!r} is not a CPU mask")
    bits = int(text.replace(",", ""), 16)
    return tuple(Cpu(cpu) for cpu in range(bits.bit_length()) if bits >> cpu & 1)


def read_up_to(path: str, limit: int) -> bytes:
    """A file's first `limit` bytes. Raises OSError."""
    # Unbuffered: thousands of files are read at start. Non-blocking in case of a pipe. In a loop:
    # sysfs returns a page at a time.
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        data = b""
        while len(data) < limit and (chunk := os.read(handle, limit - len(data))):
            data += chunk
        return data
    finally:
        os.close(handle)


_PATIENCE_S, _MOST_STUCK = 0.2, 4
_reads: set[str] = set()  # paths that threads read; those of other processes' memory may hang


def read_in_time(path: str, limit: int) -> bytes:
    """As `read_up_to`, of a file for which the kernel locks a process' memory, such as `cmdline`.

    A process can hold its own lock for ever. Raises OSError: TimeoutError after 0.2 s, and at once
    while that read, or four others, have not ended.
    """
    result: list[bytes | OSError] = []

    def read() -> None:
        try:
            result.append(read_up_to(path, limit))
        except OSError as error:
            result.append(error)
        finally:
            _reads.discard(path)

    if path not in _reads and len(_reads) < _MOST_STUCK:
        _reads.add(path)
        thread = threading.Thread(target=read, name="nftop-read", daemon=True)
        thread.start()
        thread.join(_PATIENCE_S)
    got = result[0] if result else TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT), path)
    if isinstance(got, OSError):
        raise got
    return got


def entries(path: str | Path) -> list[str]:
    """Names in a folder; empty if it is absent or can't be read."""
    with contextlib.suppress(OSError), os.scandir(path) as items:
        return [item.name for item in items]
    return []


def numbered(path: str | Path) -> list[int]:
    """Numeric names in a folder, ascending: pids of /proc, tids of a task folder.

    Raises OSError.
    """
    with os.scandir(path) as items:
        return sorted(int(item.name) for item in items if item.name.isdecimal())


def comm(process: str | Path) -> str:
    """Name of a process or thread by its folder in /proc, untrusted text. Raises OSError."""
    return read_up_to(f"{process}/comm", _COMM_BYTES).decode("utf-8", "replace").removesuffix("\n")


def writable_name(name: str) -> str:
    """A name that the kernel gave, as every writer of UTF-8 takes it: other bytes are escaped."""
    if name.isascii():
        return name
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def link_target(path: str | Path) -> str:
    """Target of a symbolic link; "" if it can't be read."""
    try:
        return os.readlink(path)  # noqa: PTH115 - read for thousands of descriptors
    except OSError:
        return ""


def unreadable(path: str | Path, error: OSError | ValueError) -> Missing:
    """Why a file gives no value: SOURCE if absent, PERMISSION if closed to nftop, else ERROR."""
    if not isinstance(error, OSError):
        return Missing(Reason.ERROR, f"{path}: {error}")
    if error.errno in (errno.ENOENT, errno.ENODEV, errno.ENOTDIR):
        return Missing(Reason.SOURCE, f"there is no {path}")
    if error.errno in (errno.EACCES, errno.EPERM):
        return Missing(Reason.PERMISSION, f"{path} can't be read; run as root")
    return Missing(Reason.ERROR, f"{path}: {error.strerror}")


def _label(path: str, cpu: Cpu | None) -> str:
    """The path in a note: without the CPU, so that notes merge."""
    return path if cpu is None else path.removeprefix(f"cpu/cpu{cpu}/")


class OpenFile:
    """A file of procfs or sysfs that is read at every tick, so it stays open.

    `records`: the kernel prints it record by record (seq_file with more than one), so a short read
    need not be its end.
    """

    def __init__(self, path: str, limit: int = _LIMIT_BYTES, *, records: bool = True) -> None:
        self._path, self._limit, self._records = path, limit, records
        self._fd = -1
        self._size = 0  # of the last text: no larger buffer is made than is needed

    def read(self) -> bytes:
        """All of it, at most `limit` bytes. Raises OSError; the next call opens it again."""
        try:
            if self._fd < 0:
                self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
            data = b""
            while len(data) < self._limit:
                room = max(min(2 * self._size, self._limit) - len(data), 4096)
                chunk = os.pread(self._fd, room, len(data))
                data += chunk
                if not chunk or not (self._records or len(chunk) >= room):
                    break
        except OSError:
            self.close()
            raise
        self._size = len(data)
        return data[: self._limit]

    def close(self) -> None:
        """Close the descriptor; safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


class OnlineCpus:
    """/sys/devices/system/cpu/online, parsed only when its text changes."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._path = root / "sys/devices/system/cpu/online"
        self._fd = -1
        self._text = b""
        self._cpus: tuple[Cpu, ...] = ()

    def read(self) -> tuple[Cpu, ...]:
        """The online CPUs, ascending. OSError: unreadable; ValueError: it holds no CPU list."""
        if self._fd < 0:
            self._fd = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
        text = os.pread(self._fd, _LIMIT_BYTES, 0)
        if text != self._text:
            self._cpus = parse_cpu_list(text.decode("ascii"))
            self._text = text
        return self._cpus

    def latest(self) -> tuple[Cpu, ...]:
        """As `read`; the last result (at first none) if it can't be read now."""
        with contextlib.suppress(OSError, ValueError):
            return self.read()
        return self._cpus

    def close(self) -> None:
        """Close the descriptor; safe to call twice."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
