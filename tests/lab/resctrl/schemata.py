"""The files schemata, size and mode, and who uses which way."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import TypeAlias

from tests.lab.resctrl.hardware import BandwidthAllocation, CacheAllocation
from tests.lab.resctrl.numbers import unsigned
from tests.lab.resctrl.state import (
    Group,
    Resctrl,
    Schema,
    begin,
    changed,
    controls,
    full_mask,
    name_width,
    refused,
    value_width,
    whole_line,
)
from tests.lab.tree import failed

Staged: TypeAlias = dict[tuple[str, int], int]
_U32 = (1 << 32) - 1


def show(state: Resctrl, group: Group) -> str:
    """The file schemata."""
    profile, width = state.profile, value_width(state)

    def text(schema: Schema, _: int, value: int) -> str:
        form = profile.cbm_format if schema.cache else profile.mb_format
        return form.format(value=value, width=width)

    return _lines(state, group, text)


def show_size(state: Resctrl, group: Group) -> str:
    """The file size: bytes of the ways; what a limit of bandwidth says stays as it is."""
    size_bytes = state.hardware.size_bytes

    def text(schema: Schema, domain: int, value: int) -> str:
        bytes_ = (
            size_bytes[domain] // _cat(state).ways * value.bit_count() if schema.cache else value
        )
        return f"{bytes_}"

    return _lines(state, group, text)


def write(state: Resctrl, group: Group, text: str) -> None:
    """A write to schemata: all lines are parsed, then all are applied.

    Limits in MBps are the exception: they hold as soon as they are parsed.
    """
    body = whole_line(text)
    begin(state, "schemata")
    staged: Staged = {}
    for line in body.split("\n"):
        name, colon, rest = line.partition(":")
        name = name.strip()
        if not colon:
            raise refused(state, "missing_colon")
        if not rest:
            raise refused(state, "missing_value", name=name)
        schema = next((item for item in state.schemas if item.name == name), None)
        if schema is None:
            raise refused(state, "unknown_resource", name=name)
        _parse(state, group, schema, rest, staged)
    for (name, domain), value in staged.items():
        group.values[name][domain] = value
    changed(state)


def write_mode(state: Resctrl, group: Group, text: str) -> None:
    """A write to mode. No CPU of the lab can lock a part of its cache."""
    mode = whole_line(text)
    begin(state, "mode")
    if mode == group.mode:
        return
    if mode == "shareable":
        group.mode = "shareable"
    elif mode == "exclusive":
        caches = [schema for schema in state.schemas if schema.cache]
        for schema in caches:
            for domain, mask in group.values[schema.name].items():
                if overlaps(state, group, schema, domain, mask):
                    raise refused(state, "schemata_overlap")
        if not caches:
            raise refused(state, "exclusive_without_cache")
        group.mode = "exclusive"
    elif mode == "pseudo-locksetup":
        raise refused(state, _why_no_lock(state, group))
    else:
        raise refused(state, "unknown_mode")


def overlaps(
    state: Resctrl,
    group: Group | None,
    schema: Schema,
    domain: int,
    mask: int,
    *,
    exclusive: bool = False,
) -> bool:
    """Whether a mask has ways of other groups or of I/O; `exclusive`: of exclusive groups only."""
    io_bits = state.io[domain] if state.io is not None and group is not None else 0
    if not exclusive and mask & (_cat(state).shareable_bits | io_bits):
        return True
    names = [schema.name] if schema.peer is None else [schema.name, schema.peer]
    return any(
        mask & other.values[name][domain]
        for other in controls(state)
        if other is not group and (other.mode == "exclusive" or not exclusive)
        for name in names
    )


def new_mask(state: Resctrl, schema: Schema, domain: int) -> int:
    """A new group's ways: I/O's, those that are shared and those that nobody has.

    Of these, the lowest that are side by side; 0 if there are none.
    """
    names = [schema.name] if schema.peer is None else [schema.name, schema.peer]
    mask = used = _cat(state).shareable_bits
    for other in controls(state):
        for name in names:
            used |= other.values[name][domain]
            if other.mode == "shareable":
                mask |= other.values[name][domain]
    if state.io is not None:  # a class that is neither shareable nor exclusive
        used |= state.io[domain]
    mask |= full_mask(state) & ~used
    lowest = mask & -mask
    return mask & ~(mask + lowest)


def bit_usage(state: Resctrl, schema: Schema) -> str:
    """The file bit_usage: a letter for every way of every domain, the highest first."""
    cat = _cat(state)

    def letter(domain: int, bit: int) -> str:
        modes = {
            group.mode for group in controls(state) if group.values[schema.name][domain] >> bit & 1
        }
        io_bits = 0 if state.io is None else state.io[domain]
        if (cat.shareable_bits | io_bits) >> bit & 1:
            return "X" if "shareable" in modes else "H"
        return "S" if "shareable" in modes else "E" if "exclusive" in modes else "0"

    return ";".join(
        f"{domain}=" + "".join(letter(domain, bit) for bit in reversed(range(cat.ways)))
        for domain in state.hardware.domains
    )


def _lines(state: Resctrl, group: Group, text: Callable[[Schema, int, int], str]) -> str:
    """A line for every schema, with `text` of its schema, domain and value."""
    width = name_width(state)
    bodies = {
        schema.name: ";".join(
            f"{domain}={text(schema, domain, value)}"
            for domain, value in group.values[schema.name].items()
        )
        for schema in state.schemas
    }
    return "".join(f"{name:>{width}}:{body}\n" for name, body in bodies.items())


def _parse(state: Resctrl, group: Group, schema: Schema, rest: str, staged: Staged) -> None:
    """The part of a line after its colon: `0=f0;1=ff`."""
    while rest:
        word, _, rest = rest.partition(";")
        left, equals, right = word.partition("=")
        domain = unsigned(left, 10)
        if not equals or domain is None:
            raise refused(state, "missing_equals")
        if domain not in state.hardware.domains:
            raise failed(errno.EINVAL)
        if (schema.name, domain) in staged:
            raise refused(state, "duplicate_domain", domain=domain)
        right = right.strip()
        if schema.cache:
            value = parse_mask(state, right)
            _check_overlap(state, group, schema, domain, value)
            staged[schema.name, domain] = value
        elif "mba_MBps" in state.options:
            group.values[schema.name][domain] = _mbps(state, right)
        else:
            staged[schema.name, domain] = _percent(state, right)


def parse_mask(state: Resctrl, word: str) -> int:
    """A mask that the hardware takes; the error of one that it does not."""
    cat, mask = _cat(state), unsigned(word, 16)
    if mask is None:
        raise refused(state, "not_hex", word=word)
    if mask == 0 or mask > full_mask(state):
        raise refused(state, "mask_range")
    lowest = mask & -mask
    if mask & (mask + lowest):
        raise refused(state, "not_contiguous", mask=mask)
    if mask.bit_count() < cat.min_bits:
        raise refused(state, "too_few_bits", bits=cat.min_bits)
    return mask


def _check_overlap(state: Resctrl, group: Group, schema: Schema, domain: int, mask: int) -> None:
    if overlaps(state, group, schema, domain, mask, exclusive=True):
        raise refused(state, "overlaps_exclusive")
    if group.mode == "exclusive" and overlaps(state, group, schema, domain, mask):
        raise refused(state, "overlaps_other")


def _percent(state: Resctrl, word: str) -> int:
    mba, value = _mba(state), unsigned(word, 10)
    if value is None:
        raise refused(state, "bad_mb", word=word)
    if not mba.minimum <= value <= 100:
        raise refused(state, "mb_range", value=value, low=mba.minimum, high=100)
    return _rounded(mba, value)


def _mbps(state: Resctrl, word: str) -> int:
    rounded = state.profile.mbps_rounded
    value = unsigned(word, 10, 64 if rounded else 32)
    if value is None:
        raise refused(state, "bad_mb", word=word)
    return _rounded(_mba(state), value) & _U32 if rounded else value


def _rounded(mba: BandwidthAllocation, value: int) -> int:
    return -(-value // mba.granularity) * mba.granularity


def _why_no_lock(state: Resctrl, group: Group) -> str:
    if group is state.root:
        return "pseudo_lock_root"
    return "pseudo_lock_cdp" if "cdp" in state.options else "pseudo_lock_unsupported"


def _cat(state: Resctrl) -> CacheAllocation:
    assert state.hardware.allocation is not None
    return state.hardware.allocation


def _mba(state: Resctrl) -> BandwidthAllocation:
    assert state.hardware.bandwidth is not None
    return state.hardware.bandwidth
