"""The programs and libraries that ask CPUID what the lab is to answer."""

from __future__ import annotations

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
            data = path.read_bytes()
            if not data.startswith(b"\x7fELF"):
                continue
            try:
                copy = rewritten(data)
            except UnfitError as error:
                print(f"nftop's lab: {path} sees the real CPU: {error}", file=sys.stderr)
                continue
            if copy != data:
                result[path] = copy
    return result
