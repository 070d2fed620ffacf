"""Shapes of the values that a recording can contain, and their description in its header.

A shape can be written as msgpack, so that a recording contains its own: a word (`int`, `float`,
`text`, `bool`, `none`, `array`), or a list of a word and shapes: `["list", S]`, `["items", S, ...]`
for a tuple of fixed length, `["set", S]`, `["map", K, V]`, `["one_of", S, ...]` and
`["record", NAME]`, whose fields the header has by name.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache, partial
from typing import Any, Literal, NewType, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from nftop.model.missing import Missing, Reason
from nftop.model.rdt.masks import Cbm
from nftop.model.sources import payloads
from nftop.model.struct import field_names, is_dataclass

Shape: TypeAlias = str | tuple[Any, ...]
Fields: TypeAlias = tuple[tuple[str, Shape], ...]

# Limit of a shape's parts, a record's fields, and records; nftop's have some 30 at most.
_MOST_FIELDS = 1 << 9

_WORDS: Mapping[Any, str] = {
    int: "int", float: "float", str: "text", bool: "bool", type(None): "none",
    Reason: "int",
}  # fmt: skip


def shape_of(hint: Any) -> Shape:
    """The shape of a type's values. Raises TypeError: a recording can't contain such a type."""
    if isinstance(hint, NewType):
        return shape_of(hint.__supertype__)
    if hint in _WORDS:
        return _WORDS[hint]
    if is_dataclass(hint):
        return ("record", hint.__name__)
    return _shape_of_generic(hint, get_origin(hint), get_args(hint))


def _shape_of_generic(hint: Any, origin: Any, inner: tuple[Any, ...]) -> Shape:
    if origin is Literal:
        return _one_of({shape_of(type(item)) for item in inner})
    if origin in (Union, types.UnionType):
        return _one_of({shape_of(item) for item in inner})
    if origin in (np.ndarray, NDArray):  # from numpy 2.5 on an alias is an origin of its own
        return "array"
    if origin is tuple:
        listed = inner[-1:] == (...,)
        return ("list", shape_of(inner[0])) if listed else ("items", *map(shape_of, inner))
    if origin is frozenset:
        return ("set", shape_of(inner[0]))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return ("map", *map(shape_of, inner))
    raise TypeError(f"a recording can't hold a {hint}")


def _one_of(shapes: set[Shape]) -> Shape:
    flat = {
        member for shape in shapes for member in (shape[1:] if shape[0] == "one_of" else (shape,))
    }
    return next(iter(flat)) if len(flat) == 1 else ("one_of", *sorted(flat, key=str))


@lru_cache(maxsize=1)
def classes() -> Mapping[str, type]:
    """Every record by name: the payloads of `model.sources` and all types within them."""
    raw: dict[str, type] = {Missing.__name__: Missing, Cbm.__name__: Cbm}
    pending = list(payloads())
    while pending:
        kind = pending.pop()
        if raw.setdefault(kind.__name__, kind) is not kind:
            raise TypeError(f"two types are called {kind.__name__}")
        pending += [type_ for type_ in _types_within(kind) if type_.__name__ not in raw]
    return raw


@lru_cache(maxsize=1)
def described() -> Mapping[str, Fields]:
    """The fields of every record by its name, in the order in which they are written."""
    return {name: _fields(kind) for name, kind in sorted(classes().items())}


_hints = cache(partial(get_type_hints, include_extras=True))  # cheaper; no type here is Annotated


def _fields(kind: type) -> Fields:
    hints = _hints(kind)
    return tuple((name, shape_of(hints[name])) for name in field_names(kind))


def _types_within(kind: type) -> Iterator[type]:
    hints = _hints(kind)
    for name in field_names(kind):
        yield from _dataclasses(hints[name])


def _dataclasses(hint: Any) -> Iterator[type]:
    if is_dataclass(hint):
        yield hint
    for inner in get_args(hint):
        yield from _dataclasses(inner)


def shape_read(raw: Any) -> Shape:
    """Decode a shape of a recording. Raises ValueError."""
    if isinstance(raw, str):
        return raw
    whole = isinstance(raw, list) and 2 <= len(raw) <= _MOST_FIELDS
    if not whole or not isinstance(raw[0], str):
        raise ValueError("no shape of a value")
    return (raw[0], *map(shape_read, raw[1:]))


def records_read(raw: Any) -> Mapping[str, Fields]:
    """Decode the fields of records of a recording. Raises ValueError."""
    if not isinstance(raw, dict) or not all(
        len(value) <= _MOST_FIELDS for value in (raw, *raw.values())
    ):
        raise ValueError("no shapes of records")
    return {
        str(name): tuple((str(field), shape_read(shape)) for field, shape in written)
        for name, written in raw.items()
    }
