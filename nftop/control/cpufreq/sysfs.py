"""The files of cpufreq, beneath one directory: paths come from numbers, and no link is followed."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from pathlib import Path

FOLDER = "sys/devices/system/cpu/cpufreq"
_PREFIX = "policy"
_LONGEST = 4096
# What a policy says that has gone, or whose CPUs are all offline.
_GONE = (errno.ENOENT, errno.EBUSY, errno.ENODEV, errno.EINVAL)
_FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC | os.O_NOFOLLOW


@contextlib.contextmanager
def opened(root: Path) -> Iterator[int]:
    """The directory. Raises OSError: FileNotFoundError where this host has none."""
    handle = os.open(root / FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield handle
    finally:
        os.close(handle)


def numbers(tree: int) -> tuple[int, ...]:
    """Of every policy, ascending."""
    names = [name.removeprefix(_PREFIX) for name in os.listdir(tree) if name.startswith(_PREFIX)]
    return tuple(sorted(int(name) for name in names if name.isascii() and name.isdigit()))


def read(tree: int, policy: int, file: str) -> str | None:
    """A file's text without blanks at its ends; None where there is none, or nothing in use."""
    try:
        with _in(tree, policy, file, os.O_RDONLY) as handle:
            return os.read(handle, _LONGEST).decode("ascii", "replace").strip()
    except OSError as error:
        if error.errno in _GONE:
            return None
        raise


def write(tree: int, policy: int, file: str, text: str) -> None:
    """At one go. Raises OSError, the kernel's refusal among them."""
    with _in(tree, policy, file, os.O_WRONLY) as handle:
        data = text.encode("ascii")
        if os.write(handle, data) != len(data):
            raise OSError(errno.EIO, "the kernel took only a part of what was written")


@contextlib.contextmanager
def _in(tree: int, policy: int, file: str, access: int) -> Iterator[int]:
    folder = os.open(f"{_PREFIX}{policy:d}", _FOLDER_FLAGS, dir_fd=tree)
    try:
        handle = os.open(file, access | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder)
        try:
            yield handle
        finally:
            os.close(handle)
    finally:
        os.close(folder)
