"""Whether PyPI's pqos fits the libpqos that it would load: one reads the other's structures.

A pair that does not fit reads garbage or crashes, so it is known before the first call. Which do
was tried: 4.3 to 4.5 of both fit each other, 5.0 fits 5.0 only, and there is no binding for later
libraries.
"""

from __future__ import annotations

import re
from pathlib import Path

_VERSION = re.compile(r"(\d+)\.(\d+)(?:\.\d+)*")
_PATH = re.compile(r"(/\S*/libpqos\.so\.(\d+)\.(\d+)(?:\.\d+)*)$", re.MULTILINE)
# The binding's versions, from and to, the library's, and the name that the binding asks for.
_FITTING = (
    ((4, 3), (4, 5), (4, 3), (4, 5), "libpqos.so.4"),
    ((5, 0), (5, 0), (5, 0), (5, 0), "libpqos.so.5"),
)
INSTALL = "pip install 'nftop[pqos]'"


def binding_version() -> tuple[int, int] | None:
    """Of PyPI's pqos; None where there is none."""
    from importlib import metadata  # noqa: PLC0415 - it takes long to import

    try:
        found = _VERSION.match(metadata.version("pqos"))
    except metadata.PackageNotFoundError:
        return None
    return None if found is None else (int(found[1]), int(found[2]))


def unfit(binding: tuple[int, int] | None, maps: Path = Path("/proc/self/maps")) -> str:
    """Why the two don't fit, or one is missing; "" if they do, and the library is then loaded.

    Args:
        binding: its version.
        maps: where the kernel tells what this process has loaded.
    """
    if binding is None:
        return f"PyPI's pqos is not installed: {INSTALL}"
    row = next((row for row in _FITTING if row[0] <= binding <= row[1]), None)
    if row is None:
        return f"PyPI's pqos {_text(binding)} fits no libpqos that nftop knows: {INSTALL}"
    _, _, least, most, name = row
    import ctypes  # noqa: PLC0415 - in the process that loads it only

    try:
        ctypes.CDLL(name)  # loads it, and calls nothing in it
    except OSError:
        return (
            f"there is no {name}, which PyPI's pqos {_text(binding)} wants: "
            "apt-get install intel-cmt-cat, or the binding that fits the one there is"
        )
    return unfit_library(maps.read_text(encoding="utf-8", errors="replace"), binding, least, most)


def unfit_library(
    maps: str, binding: tuple[int, int], least: tuple[int, int], most: tuple[int, int]
) -> str:
    """Why the library in a text of /proc/PID/maps does not fit; its file's name has its version."""
    found = _PATH.search(maps)
    if found is None:
        return "the file of libpqos does not tell its version, so whether it fits is not known"
    version = int(found[2]), int(found[3])
    if least <= version <= most:
        return ""
    return (
        f"{found[1]} does not fit PyPI's pqos {_text(binding)}, which takes {_text(least)} to "
        f"{_text(most)}: its structures would be misread"
    )


def _text(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
