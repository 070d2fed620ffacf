"""Columns: one metric of every CPU, as arrays of numbers and reasons.

A host has up to 512 CPUs, and a tick must cost numpy calls, not Python loops. A `Column` is a
float64 array and a uint8 array of `Reason`, both of shape (n,). Where the reason is not PRESENT
the value is NaN, so a mistake shows as NaN and never as a plausible number.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nftop.model.reading import Missing, Reading, Reason
from nftop.model.struct import dataclass, field

Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Reasons: TypeAlias = NDArray[np.uint8]

_PRESENT = np.uint8(Reason.PRESENT)  # reading the enumeration at every comparison is slower
_UNDEFINED, _IDLE = Missing(Reason.UNDEFINED), Missing(Reason.IDLE)


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One metric of n rows.

    Attributes:
        values: float64 (n,); NaN wherever `reasons` is not PRESENT.
        reasons: uint8 (n,), each a `Reason`.
        details: message by row, for rows with one of their own.
        by_reason: message by `Reason`, for all other rows.
    """

    values: Floats
    reasons: Reasons
    details: Mapping[int, str] = field(default_factory=dict)
    by_reason: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, row: int) -> Reading:
        """The value of one row, or its reason."""
        reason = Reason(int(self.reasons[row]))
        if reason is Reason.PRESENT:
            return float(self.values[row])
        detail = self.details.get(row) or self.by_reason.get(reason, "")
        return Missing(reason, detail)

    @property
    def present(self) -> Bools:
        """bool of shape (n,): which rows have a number."""
        return np.equal(self.reasons, _PRESENT)


def column(values: Floats, absent: Bools | None = None, why: Missing | None = None) -> Column:
    """A column from numbers; rows in `absent`, and any that are not finite, get `why`.

    `why` defaults to UNDEFINED. A non-finite number never enters a column.
    """
    values = np.asarray(values, dtype=np.float64)
    gone = ~np.isfinite(values) if absent is None else absent | ~np.isfinite(values)
    why = why or _UNDEFINED
    reasons = np.where(gone, np.uint8(why.reason), _PRESENT)
    by_reason = {int(why.reason): why.detail} if why.detail else {}
    return Column(np.where(gone, np.nan, values), reasons, by_reason=by_reason)


def missing(rows: int, why: Missing) -> Column:
    """A column without any number."""
    by_reason = {int(why.reason): why.detail} if why.detail else {}
    reasons = np.full(rows, why.reason, np.uint8)
    return Column(np.full(rows, np.nan), reasons, by_reason=by_reason)


def from_readings(readings: Mapping[int, Reading], rows: int, otherwise: Missing) -> Column:
    """A column from a sparse `{row: reading}`; all other rows get `otherwise`."""
    values = np.full(rows, np.nan)
    reasons = np.full(rows, np.uint8(otherwise.reason))
    details = {}
    for row, reading in readings.items():
        if isinstance(reading, Missing):
            reasons[row] = reading.reason
            # An empty detail must still hide `otherwise`'s when both have the same reason.
            details[row] = reading.message
        else:
            values[row] = reading
            reasons[row] = Reason.PRESENT
    by_reason = {int(otherwise.reason): otherwise.detail} if otherwise.detail else {}
    return Column(values, reasons, details, by_reason)


def where(condition: Bools, then: Column, other: Column) -> Column:
    """Rows of `then` where `condition` holds, else of `other`, with their reasons."""
    holds = np.count_nonzero(condition)
    if holds in (0, len(condition)):  # columns are immutable, so either can be shared
        return then if holds else other
    reasons = np.where(condition, then.reasons, other.reasons)
    details = {row: text for row, text in then.details.items() if condition[row]}
    details |= {row: text for row, text in other.details.items() if not condition[row]}
    by_reason = {}
    for reason in then.by_reason.keys() | other.by_reason.keys():
        ours, theirs = then.by_reason.get(reason, ""), other.by_reason.get(reason, "")
        if ours != theirs:
            rows = reasons == reason
            mine = rows & condition
            if not mine.any():
                ours = theirs
            elif (rest := rows & ~condition).any():
                # Each keeps its own sentence: one side's rows by name, so that both can.
                text = theirs or Reason(reason).sentence
                details = dict.fromkeys(rest.nonzero()[0].tolist(), text) | details
        by_reason[reason] = ours
    values = np.where(condition, then.values, other.values)
    return Column(values, reasons, details, by_reason)


def take(source: Column, rows: Sequence[int]) -> Column:
    """Some rows of a column, in the order given."""
    index = np.array(rows, dtype=np.int64)
    details = {new: source.details[row] for new, row in enumerate(rows) if row in source.details}
    return Column(source.values[index], source.reasons[index], details, source.by_reason)


def product(one: Column, other: Column) -> Column:
    """one * other; where either has no number its reason, `one`'s first."""
    both = one.present & other.present
    return where(both, column(one.values * other.values), where(one.present, other, one))


def first_of(preferred: Column, fallback: Column) -> Column:
    """`preferred` where it has a number, else `fallback`'s number, else `preferred`'s reason."""
    return where(preferred.present | ~fallback.present, preferred, fallback)


def ratio(numerator: Column, denominator: Column, zero: Missing | None = None) -> Column:
    """numerator / denominator; `zero` (default IDLE) where the denominator is 0.

    Where both are missing the numerator's reason wins.
    """
    zero = zero or _IDLE
    both = numerator.present & denominator.present
    divisor = np.where(both & (denominator.values > 0), denominator.values, np.nan)
    with np.errstate(over="ignore"):  # what overflows is not finite, and so becomes `zero`
        quotient = column(numerator.values / divisor, why=zero)
    return where(both, quotient, where(numerator.present, denominator, numerator))
