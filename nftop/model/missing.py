"""A reading is a number or the reason why there is none.

Nothing replaces a missing number: no zero, no NaN on screen, no empty cell. `Reason` lists why a
number can be missing; `Missing` adds a message.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from enum import IntEnum
from typing import TypeAlias

from nftop.model.struct import dataclass


class Reason(IntEnum):
    """Why a value is absent; `PRESENT` (0) if it is not.

    Columns and recordings hold the integer: never renumber.
    """

    PRESENT = 0
    SOURCE = 1
    HARDWARE = 2
    PERMISSION = 3
    TAKEN = 4
    WARMING = 5
    IDLE = 6
    RESET = 7
    STALE = 8
    ERROR = 9
    UNDEFINED = 10

    @property
    def key(self) -> str:
        """Name in JSON and CSV: `source`, `hardware`, ..., `ok` for PRESENT."""
        return "ok" if self is Reason.PRESENT else self.name.lower()

    @property
    def mark(self) -> str:
        """Text of a cell without a number, at most three ASCII characters."""
        return _MARKS[self]

    @property
    def sentence(self) -> str:
        """General meaning, for the legend and where there is no message."""
        return _SENTENCES[self]


_MARKS = {
    Reason.PRESENT: "",
    Reason.SOURCE: "[s]",
    Reason.HARDWARE: "[h]",
    Reason.PERMISSION: "[p]",
    Reason.TAKEN: "[b]",
    Reason.WARMING: "[w]",
    Reason.IDLE: ".",
    Reason.RESET: "[r]",
    Reason.STALE: "[o]",
    Reason.ERROR: "[e]",
    Reason.UNDEFINED: "-",
}

_SENTENCES = {
    Reason.PRESENT: "",
    Reason.SOURCE: "no source gives it here",
    Reason.HARDWARE: "this CPU or kernel can't count it",
    Reason.PERMISSION: "needs a privilege",
    Reason.TAKEN: "another program holds the counter",
    Reason.WARMING: "needs one more tick",
    Reason.IDLE: "no work, so no ratio",
    Reason.RESET: "the counter restarted",
    Reason.STALE: "too old",
    Reason.ERROR: "the source failed",
    Reason.UNDEFINED: "not defined for this row",
}


@dataclass(frozen=True, slots=True)
class Missing:
    """An absent value: its reason and an optional message."""

    reason: Reason
    detail: str = ""

    def __post_init__(self) -> None:
        if self.reason is Reason.PRESENT:
            raise ValueError("a missing value needs a reason")

    @property
    def message(self) -> str:
        return self.detail or self.reason.sentence


Reading: TypeAlias = float | Missing
_UNDEFINED, _IDLE = Missing(Reason.UNDEFINED), Missing(Reason.IDLE)
_BEYOND = Missing(Reason.ERROR, "larger than any number")


def number_or(reading: Reading, otherwise: float) -> float:
    """The number, or another one if it is absent."""
    return otherwise if isinstance(reading, Missing) else reading


def total(readings: Iterable[Reading], of_nothing: Missing | None = None) -> Reading:
    """The sum, or the first missing summand; `of_nothing` (default UNDEFINED) without summands."""
    summed: float | None = None
    for reading in readings:
        if isinstance(reading, Missing):
            return reading
        summed = reading if summed is None else summed + reading
    return (of_nothing or _UNDEFINED) if summed is None else summed


def quotient(numerator: Reading, denominator: Reading) -> Reading:
    """numerator / denominator; IDLE if the denominator is 0, ERROR if the result is not finite."""
    if isinstance(numerator, Missing):
        return numerator
    if isinstance(denominator, Missing):
        return denominator
    if not denominator > 0:
        return _IDLE
    ratio = numerator / denominator
    return ratio if math.isfinite(ratio) else _BEYOND


def product(one: Reading, other: Reading) -> Reading:
    """one x other, or the first missing factor."""
    if isinstance(one, Missing):
        return one
    return other if isinstance(other, Missing) else one * other
