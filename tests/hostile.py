"""Recordings whose numbers or texts are hostile, made of honest ones of the simulated host."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import force_setattr

from nftop.export.csv import frame_csv
from nftop.export.json.frame import frame_json
from nftop.export.openmetrics.page import Tally, page
from nftop.export.openmetrics.writer import TextFormat
from nftop.model.sample import Sample
from nftop.render.pages.batch_text import frame_text
from nftop.session.reader import Tape
from nftop.store.format.encoder import Chunk, Encoder
from nftop.store.format.records import Header
from nftop.store.format.zstd import FRAME_END
from nftop.store.reading.seekpoint import packed
from tests.recordings import joined, taken
from tests.store.reading.test_scan import Bytes

Field: TypeAlias = tuple[str, str]
Change: TypeAlias = Callable[[Any], Any]

# What no bound of hardware allows, and what is only just a number.
NUMBERS: tuple[int | float, ...] = (
    -1, 10**9, (1 << 63) - 1, -(1 << 63), float("nan"), float("inf"), -float("inf"), 1e308, 0.5,
)  # fmt: skip
# ESC and BEL, the C1 form of CSI, bidi controls, zero-width characters, separators of lines.
ESCAPES = "\x1b]0;owned\x07\x1b[31m\x9b2J\u202e\u2066\u2069\u200e\u200f\u061c\u200b\ufeff\u2028\r"


def number_fields(value: object) -> set[Field]:
    """Every field of a record within `value` that holds a number, a few or an array of them."""
    return {
        (kind, name)
        for kind, name, inner in _fields(value)
        if isinstance(inner, int | float | np.ndarray) or _numbers(inner)
    }


def _numbers(value: object) -> bool:
    return isinstance(value, tuple) and any(isinstance(item, int) for item in value)


def _fields(value: object) -> Iterator[tuple[str, str, Any]]:
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            inner = getattr(value, field.name)
            yield type(value).__name__, field.name, inner
            yield from _fields(inner)
    elif isinstance(value, tuple | list):
        for inner in value:
            yield from _fields(inner)
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _fields(inner)


def changed(value: Any, change: Callable[[str, str, Any], Any]) -> Any:
    """The value with `change(record, field, inner)` in place of every field of every record."""
    if isinstance(value, Struct):
        result = copy(value)
        for name in value.__struct_fields__:
            inner = changed(getattr(value, name), change)
            # Past __init__: a record refuses some of this itself.
            force_setattr(result, name, change(type(value).__name__, name, inner))
        return result
    if isinstance(value, tuple):
        return tuple(changed(item, change) for item in value)
    if isinstance(value, Mapping):
        return {key: changed(item, change) for key, item in value.items()}
    return value


def hostile_number(value: Any, number: float) -> Any:
    """The value with this number in its place, or in every place of a tuple or an array."""
    if isinstance(value, np.ndarray):
        with np.errstate(all="ignore"):
            kind = value.dtype.kind
            if kind == "f":
                return np.full_like(value, number)
            whole = int(number) if np.isfinite(number) and abs(number) < 1e19 else (1 << 63) - 1
            bits = 8 * value.dtype.itemsize
            return np.full(value.shape, whole % (1 << bits), f"u{bits // 8}").view(value.dtype)
    if isinstance(value, tuple):
        return tuple(hostile_number(item, number) for item in value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return value
    if isinstance(value, int) and (not np.isfinite(number) or number != int(number)):
        return number  # a float where a whole number is promised
    return int(number) if isinstance(value, int) and abs(number) < 1e18 else number


def with_number(sample: Sample, field: Field, number: float) -> Sample:
    """The sample with a number in every place of one field."""

    def change(record: str, name: str, inner: Any) -> Any:
        return hostile_number(inner, number) if (record, name) == field else inner

    return _with(sample, change)


def with_texts(sample: Sample, text: str) -> Sample:
    """The sample with `text` behind everything that is text from outside."""

    def change(_record: str, _name: str, inner: Any) -> Any:
        return _with_text(inner, text)

    return _with(sample, change)


# Words of the model's own, which nothing but nftop writes.
_OWN_WORDS = frozenset(
    {"percent", "MBps", "GBps/8", "cpuid", "register", "io_alloc", "shareable", "exclusive"}
)


def _with_text(value: Any, text: str) -> Any:
    if isinstance(value, str):
        return value if value in _OWN_WORDS else value + text
    if isinstance(value, tuple) and value and all(isinstance(item, str) for item in value):
        return value
    return value


def _with(sample: Sample, change: Callable[[str, str, Any], Any]) -> Sample:
    readings = {
        name: replace(reading, value=changed(reading.value, change))
        for name, reading in sample.readings.items()
    }
    return replace(sample, readings=readings)


def recording(header: Header, samples: Sequence[Sample]) -> bytes:
    """A finished recording of these samples."""
    encoder = Encoder(header)
    chunks: list[Chunk] = [encoder.tick(number, sample) for number, sample in enumerate(samples)]
    return joined(chunks) + FRAME_END + packed(chunks[-1].after)


@lru_cache(maxsize=8)
def honest(ticks: int = 3, cpus: int = 2) -> tuple[Header, tuple[Sample, ...]]:
    """What to spoil."""
    session = taken(ticks, cpus=cpus)
    return session.header, session.samples


_NO_NUMBER = re.compile(r"^.* -?(?:inf|nan)$", re.MULTILINE)


def fold_all() -> int:
    """Fold and write sessions with a hostile number in each field of each payload, by turns."""
    header, (first, second, third) = honest()
    payloads = {name: reading.value for name, reading in second.readings.items()}
    results = sorted(number_fields(payloads))
    for turn, field in enumerate(results):
        spoilt = with_number(second, field, NUMBERS[turn % len(NUMBERS)])
        tape = Tape(Bytes(recording(header, [first, spoilt, third])))
        tape.forward()  # the honest one
        while (shown := tape.forward()) is not None:
            frame_json(shown.frame)
            frame_csv(shown.frame)
            frame_text(shown.frame, 240, ascii_only=True, mode="REPLAY")
            text = page(shown.frame, Tally(), TextFormat.OPENMETRICS)
            assert not _NO_NUMBER.findall(text), field
    return len(results)
