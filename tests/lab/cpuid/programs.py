"""The programs and libraries that ask CPUID what the lab is to answer."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.lab.cpuid.rewrite import UnfitError, rewritten

_LIBRARIES = ("usr/lib", "usr/lib/x86_64-linux-gnu", "usr/local/lib")
_PROGRAMS = ("usr/sbin", "usr/bin", "usr/local/sbin", "usr/local/bin")
_PATHS = (
    *((folder, "libpqos.so.*") for folder in _LIBRARIES),
    *((folder, name) for folder in _PROGRAMS for name in ("pcm", "pcm-sensor-server")),
)


def changed_copies(root: Path = Path("/")) -> Mapping[Path, bytes]:
    """Changed copies by the path of the file, which is no link; what has no CPUID is not there."""
    result = {}
    for folder, pattern in _PATHS:
        for path in sorted((root / folder).glob(pattern)):
            if path.is_symlink() or not path.is_file():
                continue
            try:
                copy = _changed_copy(path, path.stat().st_mtime_ns)
            except UnfitError as error:
                print(f"nftop's lab: {path} sees the real CPU: {error}", file=sys.stderr)
                continue
            if copy is not None:
                result[path] = copy
    return result


@functools.lru_cache(maxsize=32)  # a process may start many labs
def _changed_copy(path: Path, _changed_at_ns: int) -> bytes | None:
    """Contents with each CPUID replaced; None if there is none.

    The time of the last change is part of the key that results are kept by.
    """
    data = path.read_bytes()
    if not data.startswith(b"\x7fELF"):
        return None
    copy = rewritten(data)
    return copy if copy != data else None
