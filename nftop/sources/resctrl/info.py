"""Contents of `info`: what can be allocated, how many classes, what is metered."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import Event, IoWays, Limits
from nftop.model.reading import Missing, Reason
from nftop.model.struct import dataclass
from nftop.sources.resctrl.files import folders, read_optional
from nftop.sources.resctrl.tree import (
    parse_bit_usage,
    parse_domains,
    parse_features,
    parse_mask,
    parse_number,
)

T = TypeVar("T")
_NO_IO_WAYS = Missing(
    Reason.SOURCE, "CPUID reports no ways that devices write into, and no register was read"
)


@dataclass(frozen=True, slots=True)
class Info:
    """Contents of `info` now.

    Attributes:
        resources: names of what can be allocated: `L3` or `L3CODE` and `L3DATA`, `L2`..., `MB`.
        ways: of an L3; None if L3 can't be allocated. l2_ways: of an L2.
        shareable_bits: CPUID's hint at the ways of I/O in an L3.
        io_alloc: by L3 the mask that io_alloc has set for I/O; empty if off or absent.
        usage: `bit_usage` of the L3 by domain; with CDP that of data.
        events: what is metered; empty if nothing is.
        notes: what could not be read, a sentence each.
    """

    resources: frozenset[str]
    limits: Limits
    ways: int | None
    l2_ways: int | None
    shareable_bits: int | None
    io_alloc: Mapping[int, int]
    usage: Mapping[int, str]
    events: tuple[Event, ...]
    notes: tuple[str, ...]

    def io(self, l3: int, register: Cbm | None) -> IoWays | Missing:
        """Ways of I/O in a cache: by io_alloc if it is on, else the register, else CPUID.

        `register` is IIO LLC WAYS; None if it could not be read.
        """
        if self.ways is None:
            return Missing(Reason.HARDWARE, "the kernel reports no ways of this cache")
        whole = (1 << self.ways) - 1
        if l3 in self.io_alloc:
            return IoWays(Cbm(self.io_alloc[l3] & whole, self.ways), "io_alloc")
        if register is not None:
            return IoWays(register, "register")
        if not self.shareable_bits:
            return _NO_IO_WAYS
        return IoWays(Cbm(self.shareable_bits & whole, self.ways), "cpuid")


class _Reader:
    """Files of info, and what was wrong with them."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.notes: list[str] = []

    def read(self, name: str, parse: Callable[[str], T]) -> T | None:
        """A file as parsed; None where it is absent or, with a note, can't be read."""
        value = read_optional(f"{self._path}/{name}", parse)
        if isinstance(value, Missing):
            self.notes.append(value.message)
            return None
        return value

    def numbers(self, folders: Iterable[str], name: str) -> list[int]:
        values = (self.read(f"{folder}/{name}", parse_number) for folder in folders)
        return [item for item in values if item is not None]


def read_info(path: str) -> Info:
    """The `info` of a mount. Raises OSError: it can't be listed."""
    here = frozenset(name for name, _ in folders(path))
    resources = frozenset(
        name for name in here if name == "MB" or (name[:2] in {"L2", "L3"} and "_" not in name)
    )
    files = _Reader(path)
    l3 = next((name for name in ("L3", "L3DATA") if name in here), "L3")
    l2 = next((name for name in ("L2", "L2DATA") if name in here), "L2")
    closids = files.numbers(sorted(resources), "num_closids")
    io_alloc = _io_alloc(files, l3)
    limits = Limits(
        # io_alloc has the highest class for I/O, so that no group can have it.
        closids=min(closids) - bool(io_alloc) if closids else None,
        rmids=files.read("L3_MON/num_rmids", parse_number),
        min_bits=files.read(f"{l3}/min_cbm_bits", parse_number),
        sparse=files.read(f"{l3}/sparse_masks", lambda text: parse_number(text) > 0),
        cdp="L3CODE" in here,
        mba_least=files.read("MB/min_bandwidth", parse_number),
        mba_step=files.read("MB/bandwidth_gran", parse_number),
    )
    return Info(
        resources=resources,
        limits=limits,
        ways=_ways(files, l3),
        l2_ways=_ways(files, l2),
        shareable_bits=files.read(f"{l3}/shareable_bits", parse_mask),
        io_alloc=io_alloc,
        usage=files.read(f"{l3}/bit_usage", parse_bit_usage) or {},
        events=files.read("L3_MON/mon_features", parse_features) or (),
        notes=tuple(files.notes),
    )


def _ways(files: _Reader, resource: str) -> int | None:
    mask = files.read(f"{resource}/cbm_mask", parse_mask)
    return mask.bit_length() if mask else None


def _io_alloc(files: _Reader, l3: str) -> Mapping[int, int]:
    # The kernel shows the masks only while it is on.
    if files.read(f"{l3}/io_alloc", str.strip) != "enabled":
        return {}

    def parse(text: str) -> Mapping[int, int]:  # the line may begin with the resource's name
        return parse_domains(text.rpartition(":")[2].strip(), 16)

    return files.read(f"{l3}/io_alloc_cbm", parse) or {}
