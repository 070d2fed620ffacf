"""struct perf_event_attr: read by size as the kernel does, and refused as it does.

Layout of include/uapi/linux/perf_event.h; sizes and refusals those of `perf_copy_attr` in
kernel/events/core.c of Linux 6.1. What only sampling uses is checked no further than that.
"""

from __future__ import annotations

import errno
import functools
import struct
from dataclasses import dataclass

from tests.lab.tree import failed

# PERF_ATTR_SIZE_VER0, VER7 (Linux 6.1's own), and a page.
SMALLEST, KNOWN, LARGEST = 64, 128, 4096

FORMAT_ENABLED, FORMAT_RUNNING, FORMAT_ID, FORMAT_GROUP, FORMAT_LOST = (1 << i for i in range(5))
_FORMAT_END = 1 << 5
_SAMPLE_READ, _SAMPLE_END = 1 << 4, 1 << 25
_WORDS = struct.Struct("<IIQQQQQ")
_CONFIG1 = struct.Struct("<QQ")
_CONFIG1_AT = 56
_RESERVED = (("<H", 110), ("<I", 116))  # __reserved_2, __reserved_3

# The bit field, from bit 0 on; what is not named is not looked at.
_BITS = {
    "disabled": 0,
    "inherit": 1,
    "pinned": 2,
    "exclusive": 3,
    "exclude_user": 4,
    "exclude_kernel": 5,
    "exclude_hv": 6,
    "exclude_idle": 7,
    "freq": 10,
    "enable_on_exec": 12,
    "exclude_host": 19,
    "exclude_guest": 20,
    "remove_on_exec": 36,
    "sigtrap": 37,
}
_RESERVED_BITS = range(38, 64)
_EXCLUDING = tuple(name for name in _BITS if name.startswith("exclude_"))


@dataclass(frozen=True, slots=True)
class Attr:
    """What an event is asked to be.

    Attributes:
        pmu_type, config, config1, config2: which event.
        sample_period: or frequency, where `freq` is among the bits; 0: it only counts.
        read_format: FORMAT_* bits.
        bits: the names of those that are set, of _BITS.
    """

    pmu_type: int
    config: int
    config1: int
    config2: int
    sample_period: int
    sample_type: int
    read_format: int
    bits: frozenset[str]

    @property
    def pinned(self) -> bool:
        return "pinned" in self.bits

    @property
    def exclusive(self) -> bool:
        return "exclusive" in self.bits

    @property
    def sampling(self) -> bool:
        return self.sample_period != 0

    @property
    def excluding(self) -> bool:
        """Some time is not to be counted."""
        return any(name in self.bits for name in _EXCLUDING)


def size_of(head: bytes) -> int:
    """How many bytes the structure has that begins with these 8; 0 stands for the first version.

    Raises:
        OSError: E2BIG, and the kernel writes the size it knows into the caller's.
    """
    size = int.from_bytes(head[4:8], "little") or SMALLEST
    if not SMALLEST <= size <= LARGEST:
        raise failed(errno.E2BIG)
    return size


def cut(raw: bytes) -> bytes:
    """Of a structure's `size_of` bytes those that the kernel knows.

    Raises:
        OSError: E2BIG, as in `size_of`, if what it does not know is not zero.
    """
    if any(raw[KNOWN:]):
        raise failed(errno.E2BIG)
    return raw[:KNOWN]


@functools.lru_cache(maxsize=1024)  # the same event is opened on every CPU
def parse(known: bytes) -> Attr:
    """The structure of these bytes, of which `cut` has left no more than KNOWN.

    Raises:
        OSError: EINVAL.
    """
    whole = known.ljust(KNOWN, b"\0")
    pmu_type, _, config, period, sample_type, read_format, flags = _WORDS.unpack_from(whole)
    config1, config2 = _CONFIG1.unpack_from(whole, _CONFIG1_AT)
    bits = frozenset(name for name, bit in _BITS.items() if flags >> bit & 1)
    reserved = any(struct.unpack_from(item, whole, at)[0] for item, at in _RESERVED)
    if (
        reserved
        or any(flags >> bit & 1 for bit in _RESERVED_BITS)
        or sample_type >= _SAMPLE_END
        or read_format >= _FORMAT_END
        or {"remove_on_exec", "enable_on_exec"} <= bits
        or ("sigtrap" in bits and "remove_on_exec" not in bits)
        or ("freq" not in bits and period >> 63)
        or ("inherit" in bits and sample_type & _SAMPLE_READ)
    ):
        raise failed(errno.EINVAL)
    return Attr(pmu_type, config, config1, config2, period, sample_type, read_format, bits)
