"""Columns: one metric of every CPU, as arrays of numbers and reasons; blocks of many metrics.

A host has up to 512 CPUs, and a tick must cost numpy calls, not Python loops. A `Column` is a
float64 array and a uint8 array of `Reason`, both of shape (n,); a `Block` has them for m metrics,
of shape (m, n). Where the reason is not PRESENT the value is NaN, so a mistake shows as NaN and
never as a plausible number. Both are immutable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from nftop.model.missing import Missing, Reading, Reason
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
        reason = self.reasons.item(row)
        if not reason:  # PRESENT
            return self.values.item(row)
        return _missing(reason, self.details.get(row) or self.by_reason.get(reason, ""))

    @property
    def present(self) -> Bools:
        """bool of shape (n,): which rows have a number."""
        return np.equal(self.reasons, _PRESENT)


def has_reason(codes: NDArray[np.integer[Any]], reasons: tuple[int, ...]) -> Bools:
    """True where a code, a uint8, is one of `reasons`. For a tick's columns faster than np.isin."""
    among: Bools = _codes_of(reasons)[codes]
    return among


@lru_cache(maxsize=32)
def _codes_of(reasons: tuple[int, ...]) -> Bools:
    among = np.zeros(256, np.bool_)
    among[list(reasons)] = True
    return among


@lru_cache(maxsize=1024)  # few reasons stand in many rows, tick after tick
def _missing(reason: int, detail: str) -> Missing:
    return Missing(Reason(reason), detail)


def column(values: Floats, absent: Bools | None = None, why: Missing | None = None) -> Column:
    """A column from numbers; rows in `absent`, and any that are not finite, get `why`.

    `why` defaults to UNDEFINED. A non-finite number never enters a column.
    """
    values = np.asarray(values, dtype=np.float64)
    gone = ~np.isfinite(values) if absent is None else absent | ~np.isfinite(values)
    why = why or _UNDEFINED
    reasons = np.where(gone, np.uint8(why.reason), _PRESENT)
    return Column(np.where(gone, np.nan, values), reasons, by_reason=_messages(why))


@lru_cache(maxsize=256)
def missing(rows: int, why: Missing) -> Column:
    """A column without any number; the same object for the same arguments."""
    values, reasons = np.full(rows, np.nan), np.full(rows, why.reason, np.uint8)
    values.flags.writeable = reasons.flags.writeable = False
    return Column(values, reasons, by_reason=_messages(why))


def _messages(why: Missing) -> dict[int, str]:
    return {int(why.reason): why.detail} if why.detail else {}


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
    return Column(values, reasons, details, _messages(otherwise))


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


def withhold(source: Column, gone: Bools, why: Missing) -> Column:
    """The column with `why` in the rows `gone`, as `where(gone, missing(...), source)`."""
    count = np.count_nonzero(gone)
    if count in (0, len(gone)):
        return missing(len(gone), why) if count else source
    values = np.where(gone, np.nan, source.values)
    reasons = np.where(gone, np.uint8(why.reason), source.reasons)
    return Column(values, reasons, *_withheld_messages(source, gone, why))


def _withheld_messages(
    source: Column, gone: Bools, why: Missing
) -> tuple[Mapping[int, str], Mapping[int, str]]:
    """`details` and `by_reason` of a column of which some rows are withheld."""
    details = {row: text for row, text in source.details.items() if not gone[row]}
    text = source.by_reason.get(why.reason, "")
    if text == why.detail:
        return details, source.by_reason
    others = np.flatnonzero((source.reasons == why.reason) & ~gone).tolist()
    details = dict.fromkeys(others, text or why.reason.sentence) | details
    return details, {**source.by_reason, int(why.reason): why.detail}


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


class Block(Mapping[str, Column]):
    """Metrics of the same n rows: one row of the arrays per metric.

    As a mapping it gives the `Column` of a metric, a view of the arrays. The arrays are read-only.

    Attributes:
        floats: float64 (m, n); NaN wherever `reasons` is not PRESENT.
        reasons: uint8 (m, n), each a `Reason`.
        details, by_reason: messages of each metric, as in `Column`.
    """

    __slots__ = ("_columns", "_row_of", "by_reason", "details", "floats", "reasons")

    def __init__(
        self,
        names: Sequence[str],
        floats: Floats,
        reasons: Reasons,
        details: Sequence[Mapping[int, str]],
        by_reason: Sequence[Mapping[int, str]],
    ) -> None:
        """Takes the arrays over and makes them read-only; `names` are the metrics of their rows."""
        floats.flags.writeable = reasons.flags.writeable = False
        self.floats, self.reasons = floats, reasons
        self.details, self.by_reason = details, by_reason
        self._row_of = {name: row for row, name in enumerate(names)}
        self._columns: dict[str, Column] = {}

    @classmethod
    def of(cls, columns: Mapping[str, Column]) -> Block:
        """A copy of columns of one length; a block itself is returned as it is."""
        if isinstance(columns, Block):
            return columns
        given = columns.values()
        shape = len(given), len(next(iter(given), ()))
        values = np.array([own.values for own in given], np.float64).reshape(shape)
        reasons = np.array([own.reasons for own in given], np.uint8).reshape(shape)
        details, by_reason = [own.details for own in given], [own.by_reason for own in given]
        return cls(tuple(columns), values, reasons, details, by_reason)

    def __getitem__(self, name: str) -> Column:
        known = self._columns.get(name)
        if known is None:
            row = self._row_of[name]
            known = Column(
                self.floats[row], self.reasons[row], self.details[row], self.by_reason[row]
            )
            self._columns[name] = known
        return known

    def __contains__(self, name: object) -> bool:
        return name in self._row_of

    def __iter__(self) -> Iterator[str]:
        return iter(self._row_of)

    def __len__(self) -> int:
        return len(self._row_of)

    def rows_of(self, names: Sequence[str]) -> list[int]:
        """Rows of the arrays that these metrics have.

        Raises:
            KeyError: a metric is not in the block.
        """
        return [self._row_of[name] for name in names]

    def numbers(self, names: Sequence[str]) -> NDArray[np.object_]:
        """object (len(names), n): Python floats, None where there is no number."""
        rows = self.rows_of(names)
        numbers = self.floats[rows].astype(object)
        numbers[self.reasons[rows] != _PRESENT] = None
        return numbers

    def take(self, rows: Sequence[int]) -> Block:
        """Some of the n rows, in the order given."""
        index = np.array(rows, dtype=np.intp)
        details = [
            {new: own[row] for new, row in enumerate(rows) if row in own} if own else own
            for own in self.details
        ]
        values, reasons = self.floats[:, index], self.reasons[:, index]
        return Block(tuple(self), values, reasons, details, self.by_reason)

    def withheld(self, gone: Bools, why: Missing) -> Block:
        """A copy with `why` where `gone`, bool (m, n)."""
        if not gone.any():
            return self
        messages = [
            _withheld_messages(column, gone[row], why)
            if gone[row].any()
            else (column.details, column.by_reason)
            for row, column in enumerate(map(self.__getitem__, self))
        ]
        details, by_reason = zip(*messages, strict=True)
        values = np.where(gone, np.nan, self.floats)
        reasons = np.where(gone, np.uint8(why.reason), self.reasons)
        return Block(tuple(self), values, reasons, details, by_reason)
