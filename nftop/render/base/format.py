"""Numbers in cells of limited width, by the unit of the catalogue.

Three significant digits: 9.52, 95.2, 952, then with an SI prefix 9.52k, 95.2M. Units are in the
header. Shares are percent with one decimal below 10 %; changes have a sign and no decimal, and 0 %
has none. A number that does not fit loses decimals, then becomes a power of ten; if that does not
fit either the cell is filled with `#`. Only zero prints as zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache

from nftop.model.clock import clock_of
from nftop.model.frame import Finding
from nftop.model.incident import Incident
from nftop.model.metrics.metric import BOUND, Unit
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.number_text import COUNT, DIGITS, NO_CHANGE, PREFIXES, Form, number_texts

ESTIMATE = "~"

_EXACT_FROM = 0.0995  # below this shares have a decimal anyway
_MANIFOLD, _SHORT_OF_ALL = 9.0, 0.99  # from here on a change is a multiple; all but all


def number(value: float, unit: Unit, width: int) -> str:
    """`value` in its unit's format, in at most `width` columns of ASCII."""
    return printer(unit, width)(value)


def _number(value: float, unit: Unit, width: int) -> str:
    """`number` of any size."""
    if not math.isfinite(value):
        # Columns hold no such number: an error, not a value.
        return mark(Reason.ERROR, width)
    if unit is Unit.CHANGE:
        return _change(value, width)
    form = _FORMS[unit]
    scaled = value * form.factor
    texts = (item + form.suffix for item in number_texts(scaled, form))
    return next((item for item in texts if len(item) <= width), "#" * max(0, width))


def cell(
    reading: Reading, unit: Unit, width: int, *, bound: bool = False, estimate: bool = False
) -> str:
    """A reading in at most `width` columns: its number, or the mark of its reason.

    `bound`: an upper bound, with `<` before it. `estimate`: with `~` after it.
    """
    if isinstance(reading, Missing):
        return mark(reading.reason, width)
    if width - bound - estimate < 1:
        return "#" * max(0, width)
    text = printer(unit, width - estimate, bound=bound)(reading)
    return f"{text}{ESTIMATE}" if estimate else text


def _cell(value: float, unit: Unit, width: int, *, bound: bool) -> str:
    """`cell` of any number."""
    room = width - bound
    return (
        f"{BOUND if bound else ''}{_number(value, unit, room)}" if room > 0 else "#" * max(0, width)
    )


@lru_cache(maxsize=256)
def printer(unit: Unit, width: int, *, bound: bool = False) -> Callable[[float], str]:
    """`cell` for the numbers of one column, with its formats prepared.

    Nearly all numbers fit with three digits; others are left to `cell`.
    """
    if unit is Unit.CHANGE:
        return lambda value: _cell(value, unit, width, bound=bound)
    form, before = _FORMS[unit], BOUND if bound else ""
    suffix = form.suffix.replace("%", "%%")
    steps = [(end, 1.0, f"{before}%.{decimals}f{suffix}") for end, decimals in form.steps]
    steps += [
        (end, by, f"{before}%.{decimals}f{letter}{suffix}")
        for by, letter in PREFIXES
        for end, decimals in DIGITS
    ]
    factor, limit = form.factor, steps[-1][0] * steps[-1][1]
    least = 10.0 ** -form.steps[0][1]  # less could print as zero
    zero = _cell(0.0, unit, width, bound=bound)

    def printed(value: float) -> str:
        scaled = value * factor
        if least <= scaled < limit:
            for end, by, pattern in steps:
                if (shown := scaled / by) < end:
                    text = pattern % shown
                    if len(text) <= width:
                        return text
                    break
        return _cell(value, unit, width, bound=bound) if value else zero

    return printed


def share(ratio: float, width: int) -> str:
    """A share with one decimal; less than 1 never prints as 100 %: `>99.9%`."""
    text = f"{ratio:.1%}"
    text = ">99.9%" if ratio < 1 and text == "100.0%" else text
    exact = ratio >= _EXACT_FROM and len(text) <= width
    return text if exact else number(ratio, Unit.RATIO, width)


def mark(reason: Reason, width: int) -> str:
    """The mark of a reason; only its letter if three columns do not fit."""
    whole = reason.mark
    return whole if len(whole) <= width else whole.strip("[]")[: max(0, width)]


def worded(reading: Reading, unit: Unit, *, bound: bool = False) -> str:
    """A reading with its unit, `14.88 Mpps`, or its mark; `bound`: as `cell`."""
    word = _WORDS.get(unit, "")
    if not isinstance(reading, Missing):
        scaled = _SCALED.get(unit, ())
        factor, word = next((item for item in scaled if abs(reading) < item[2]), (1.0, word, 0))[:2]
        reading *= factor
    text = cell(reading, unit, 12, bound=bound)
    return text if isinstance(reading, Missing) else f"{text} {word}".rstrip()


def way_mib(size_bytes: float) -> str:
    """Size of a cache way in MiB, with three digits."""
    return f"{size_bytes / 2**20:.3g}"


def _change(ratio: float, width: int) -> str:
    """`+20%`, from ten times on `x10`; less than half a percent is `0%`, only -1 is -100%."""
    if abs(ratio) < NO_CHANGE:
        shown = ["0%", "0"]
    elif ratio >= _MANIFOLD:
        shown = [f"x{item}" for item in number_texts(ratio + 1, _MULTIPLE)]
    else:
        sign, size = "+" if ratio > 0 else "-", abs(ratio)
        size = size if ratio > 0 or ratio <= -1 else min(size, _SHORT_OF_ALL)
        shown = [f"{sign}{100 * size:.0f}%"]
    return next((item for item in shown if len(item) <= width), "#" * max(0, width))


_PLAIN = Form(1.0, DIGITS)
_MULTIPLE = Form(1.0, ((999.5, 0),))
_FORMS: Mapping[Unit, Form] = {
    Unit.RATIO: Form(100.0, ((9.95, 1), (1e15, 0)), "%"),
    Unit.PER_CYCLE: _PLAIN,
    Unit.CYCLES: COUNT,
    Unit.INSTRUCTIONS: COUNT,
    Unit.PACKETS_PER_S: Form(1e-6, ((0.9995, 3), *DIGITS)),
    Unit.PER_S: COUNT,
    Unit.REQUESTS_PER_S: Form(1e-6, ((0.9995, 3), *DIGITS)),
    Unit.PER_PACKET: _PLAIN,
    Unit.BYTES_PER_PACKET: _PLAIN,
    Unit.PACKETS: _PLAIN,
    Unit.NS: COUNT,
    Unit.HZ: Form(1e-9, DIGITS),
    Unit.BYTES_PER_S: Form(1e-9, DIGITS),
    Unit.BYTES: Form(2.0**-20, COUNT.steps),
    Unit.WATTS: COUNT,
    Unit.JOULES: Form(1e-3, COUNT.steps),
    Unit.DEGREES_C: Form(1.0, ((1e15, 0),)),
}

_WORDS: Mapping[Unit, str] = {
    Unit.RATIO: "",
    Unit.CHANGE: "",
    Unit.PER_CYCLE: "per cycle",
    Unit.CYCLES: "cycles",
    Unit.INSTRUCTIONS: "instructions",
    Unit.PACKETS_PER_S: "Mpps",
    Unit.PER_S: "per second",
    Unit.REQUESTS_PER_S: "million/s",
    Unit.PER_PACKET: "per packet",
    Unit.BYTES_PER_PACKET: "bytes per packet",
    Unit.PACKETS: "packets",
    Unit.NS: "ns",
    Unit.HZ: "GHz",
    Unit.BYTES_PER_S: "GB/s",
    Unit.BYTES: "MiB",
    Unit.WATTS: "W",
    Unit.JOULES: "kJ",
    Unit.DEGREES_C: "degrees C",
}


# Of a unit in words: factor, word, and the end of what is printed so.
_SCALED: Mapping[Unit, tuple[tuple[float, str, float], ...]] = {
    Unit.NS: (
        (1.0, "ns", 999.5),
        (1e-3, "us", 999.5e3),
        (1e-6, "ms", 999.5e6),
        (1e-9, "s", math.inf),
    ),
}


def duration_text(seconds: float) -> str:
    """Two units, rounded: `40s`, `2m10s`, `1h05m`, `3d02h`."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86_400:
        return f"{whole // 3600}h{whole // 60 % 60:02d}m"
    return f"{whole // 86_400}d{whole // 3600 % 24:02d}h"


def since_text(item: Finding | Incident) -> str:
    """When it began, or the time before which it began."""
    return f"since {'before ' * item.is_bound}{clock_of(item.since_ns)}"
