"""Numbers of three significant digits as text, for screens and for texts of findings."""

from __future__ import annotations

from collections.abc import Iterator

from nftop.model.struct import dataclass

MORE_THAN_0 = "0+"  # too small to print; `<` would make a bound of it

NO_CHANGE = 0.005  # smaller changes are 0 %
PREFIXES = ((1e3, "k"), (1e6, "M"), (1e9, "G"), (1e12, "T"))


def _fixed(value: float, decimals: int) -> str:
    text = f"{value:.{decimals}f}"
    if -0.5 <= value <= 0.5 and not text.strip("-0."):
        return "0" if value == 0 else MORE_THAN_0
    return text


@dataclass(frozen=True, slots=True)
class Form:
    """How a unit prints: value x factor, with the decimals of the first step whose end is above."""

    factor: float
    steps: tuple[tuple[float, int], ...]
    suffix: str = ""


# Ends below which a number has so many decimals: three significant digits.
DIGITS = ((9.995, 2), (99.95, 1), (999.5, 0))


def number_texts(value: float, form: Form) -> Iterator[str]:
    """`value` by its form, then with fewer decimals, then with a prefix, then as a power of ten."""
    size = abs(value)
    decimals = next((decimals for end, decimals in form.steps if size < end), None)
    if decimals is not None:
        for fewer in range(decimals, -1, -1):
            yield _fixed(value, fewer)
    for factor, suffix in PREFIXES:
        scaled = size / factor
        if 0.9995 <= scaled < 999.5:
            decimals = next(decimals for end, decimals in DIGITS if scaled < end)
            for fewer in range(decimals, -1, -1):
                yield f"{value / factor:.{fewer}f}{suffix}"
    yield f"{value:.0e}".replace("e+0", "e").replace("e+", "e")


# What is counted, or measured no better, has at most one decimal.
COUNT = Form(1.0, ((99.95, 1), (999.5, 0)))


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 way`, `2 ways`; `plural`: of a noun that takes more than an s."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
