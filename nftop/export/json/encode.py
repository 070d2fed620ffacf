"""JSON text that is safe to print on a terminal; absent values are null and named in `missing`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from nftop.model.missing import Missing
from nftop.model.terminal_text import escaped_json


def json_bytes(value: object) -> bytes:
    r"""`value` as UTF-8 JSON, in one line; what a terminal would obey is escaped as \uXXXX."""
    encoded = msgspec.json.encode(value)
    if encoded.isascii() and b"\x7f" not in encoded:
        return encoded
    return escaped_json(encoded.decode()).encode()


def picked(row: object, names: str) -> dict[str, Any]:
    """Attributes of a record by name; `names` are separated by blanks."""
    return {name: getattr(row, name) for name in names.split()}


def with_missing(named: Mapping[str, Any], readings: Mapping[str, Any]) -> dict[str, Any]:
    """`named`, then `readings`: a value, or null and its reason in `missing`, under each name."""
    numbers = {name: None if isinstance(r, Missing) else r for name, r in readings.items()}
    reasons = {name: r.reason.key for name, r in readings.items() if isinstance(r, Missing)}
    return {**named, **nested(numbers), "missing": reasons}


def nested(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """`tma.retiring` becomes `retiring` within `tma`, at any depth; names without a dot stay."""
    result: dict[str, Any] = {}
    for name, number in numbers.items():
        within = result
        if "." in name:
            *groups, name = name.split(".")  # noqa: PLW2901
            for group in groups:
                within = within.setdefault(group, {})
        within[name] = number
    return result


def rfc3339(wall_ns: int) -> str:
    """UTC with milliseconds: `2026-01-31T03:12:00.250Z`."""
    moment = datetime.fromtimestamp(wall_ns // 1_000_000_000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{wall_ns // 1_000_000 % 1000:03d}Z"
