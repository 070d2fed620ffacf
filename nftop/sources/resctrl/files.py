"""Reading one small file of resctrl: its text, or the reason why there is none."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from nftop.model.reading import Missing, Reason
from nftop.sources.host.sysfs import read_up_to

# More than any file but `tasks` has, on any host; that one has a line for every thread.
_LIMIT_BYTES = 1 << 16
TASKS_BYTES = 1 << 22

T = TypeVar("T")


def read_text(path: str, limit: int = _LIMIT_BYTES) -> str:
    """A file's text; OSError where it can't be read."""
    return read_up_to(path, limit).decode("ascii", "replace")


def read_as(path: str, parse: Callable[[str], T]) -> T | Missing:
    """A file as `parse` reads it, or why not: ERROR also where it makes no sense."""
    try:
        return parse(read_text(path))
    except OSError as error:
        return reason(path, error)
    except ValueError as error:
        return Missing(Reason.ERROR, f"{path}: {error}")


def read_if_there(path: str, parse: Callable[[str], T]) -> T | Missing | None:
    """As `read_as`; None where there is no such file, as every file of resctrl is optional."""
    found = read_as(path, parse)
    return None if isinstance(found, Missing) and found.reason is Reason.SOURCE else found


def reason(path: str, error: OSError) -> Missing:
    """Why a file can't be read: SOURCE where there is none, PERMISSION, else ERROR."""
    if error.errno in (errno.ENOENT, errno.ENODEV, errno.ENOTDIR):
        return Missing(Reason.SOURCE, f"there is no {path}")
    if error.errno in (errno.EACCES, errno.EPERM):
        return Missing(Reason.PERMISSION, f"{path} can't be read; run as root")
    return Missing(Reason.ERROR, f"{path}: {error.strerror}")


def folders(path: str) -> list[tuple[str, str]]:
    """Name and path of every directory in a directory, by name; OSError where it can't be listed.

    The name is to be shown: what is no UTF-8 in it is escaped.
    """
    with os.scandir(path) as entries:
        found = [entry for entry in entries if entry.is_dir(follow_symlinks=False)]
    return sorted((_shown(item.name), item.path) for item in found)


def inode(path: str) -> int | None:
    """A directory's inode; None where it is gone."""
    try:
        return Path(path).stat().st_ino
    except OSError:
        return None


def _shown(name: str) -> str:
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
