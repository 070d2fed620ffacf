"""Memory devices as firmware lists them: SMBIOS structures of type 17.

Layout: DMTF DSP0134, 7.18. Files: the kernel's
Documentation/ABI/testing/sysfs-firmware-dmi-entries.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nftop.sources.host.sysfs import read_up_to

_ENTRY = re.compile(r"17-[0-9]{1,4}")
_SIZE_AT, _EXTENDED_AT, _TYPE_AT = 0x0C, 0x1C, 0x12
_UNKNOWN, _ELSEWHERE, _IN_KB = 0xFFFF, 0x7FFF, 0x8000
# Memory types that are no DIMM: ROM, flash and the like.
_FLASH = range(0x08, 0x0B)
_LIMIT_BYTES = 4096


@dataclass(frozen=True, slots=True)
class Dimms:
    """Slots of a host: how many hold a module of each size in MB, and how many none."""

    filled: Mapping[int, int]
    empty: int


def dimms(root: Path) -> Dimms | None:
    """The slots; None where firmware or kernel lists none.

    Raises:
        PermissionError: only root may read them.
    """
    folder = root / "sys/firmware/dmi/entries"
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if _ENTRY.fullmatch(entry.name))
    except (FileNotFoundError, NotADirectoryError):
        return None
    sizes = []
    for name in names:
        try:
            sizes.append(size_mb(read_up_to(os.fspath(folder / name / "raw"), _LIMIT_BYTES)))
        except FileNotFoundError:
            continue
    known = [size for size in sizes if size is not None]
    if not known:
        return None
    filled = Counter(size for size in known if size)
    return Dimms(dict(sorted(filled.items())), known.count(0))


def size_mb(raw: bytes) -> int | None:
    """Of one structure: 0 where the slot is empty, None where it does not say or is no DIMM's."""
    if len(raw) < _SIZE_AT + 2 or raw[0] != 17:
        return None
    if len(raw) > _TYPE_AT and raw[_TYPE_AT] in _FLASH:
        return None
    size = int.from_bytes(raw[_SIZE_AT : _SIZE_AT + 2], "little")
    if size == _UNKNOWN:
        return None
    if size == _ELSEWHERE:
        if len(raw) < _EXTENDED_AT + 4 or raw[1] < _EXTENDED_AT + 4:
            return None
        return int.from_bytes(raw[_EXTENDED_AT : _EXTENDED_AT + 4], "little") & 0x7FFFFFFF
    return (size & ~_IN_KB) // 1024 if size & _IN_KB else size
