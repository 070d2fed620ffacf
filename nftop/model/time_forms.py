"""How times and spans are typed; without the imports that reading a time of day needs."""

from __future__ import annotations

import re

DAY_S = 86_400
_UNITS_S = {"": 1, "s": 1, "m": 60, "h": 3600, "d": DAY_S}
_SPAN = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)([smhd]?)")


def time_forms(zone: str) -> str:
    """Formats of times; those without a zone are in `zone`."""
    return f"HH:MM:SS ({zone}), 2026-01-31T03:12:07Z, +30s, -5m, start or end"


def span_ns(text: str) -> int:
    """Nanoseconds of `30`, `30s`, `5m`, `2h`, `1d`. Raises ValueError."""
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no span of time, such as 30s, 5m or 2h")
    return round(float(match[1]) * _UNITS_S[match[2]] * 1_000_000_000)
