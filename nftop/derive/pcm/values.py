"""Values of a pcm-sensor-server: numbers, and sentinels for absent ones.

The server writes 0 or a sentinel for what its CPU can't count, and its differences may wrap around.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from nftop.model.column import Column, Floats, column, missing, where, withhold
from nftop.model.missing import Missing, Reason
from nftop.model.pcm import PcmTable
from nftop.model.struct import dataclass

# INT_MIN: no sensor; 100 more: the same after a subtraction; all bits set: an RDT counter that
# can't be read.
_SENTINELS = (-(2.0**31), 100 - 2.0**31, 2.0**64)
_WRAPPED = 2.0**63  # differences of counters that stepped back, taken without a sign
UNREPORTED = Missing(Reason.SOURCE, "this build of the server does not report it")
_ONLY_SINCE_START = Missing(
    Reason.SOURCE, "this server gives it as an average since its start only, so not of now"
)
NONE_HERE = Missing(Reason.HARDWARE, "the server reads 0 everywhere: it can't count it on this CPU")
_IMPOSSIBLE = Missing(Reason.ERROR, "the server gave a number that can't be")
_STEPPED_BACK = Missing(Reason.RESET, "a counter of the server's stepped back")
_BY_REASON: Mapping[int, str] = {
    int(why.reason): why.detail
    for why in (
        UNREPORTED,
        _IMPOSSIBLE,
        _STEPPED_BACK,
        Missing(Reason.HARDWARE, "the server says that this CPU or kernel can't tell it"),
    )
}


@dataclass(frozen=True, slots=True)
class DocumentPair:
    """A document with the previous one, if that is needed and comparable.

    `seconds`: divisor of the document's counts.
    """

    table: PcmTable
    before: PcmTable | None
    seconds: float

    @classmethod
    def of(cls, before: PcmTable | None, table: PcmTable) -> DocumentPair:
        """Pair of `table` and `before`, if both have totals of the same CPUs and sockets."""
        if not table.since_start:
            return cls(table, None, table.interval_us / 1e6)
        if before is None or not before.since_start or not before.same_layout(table):
            return cls(table, None, np.nan)
        return cls(table, before, (table.interval_us - before.interval_us) / 1e6)

    def rate(self, of: Callable[[PcmTable], Floats], *, zero_is_one: bool = False) -> Column:
        """Counts per second of a field; `zero_is_one` as in `without_sentinels`."""
        now = without_sentinels(of(self.table), zero_is_one=zero_is_one)
        if not self.table.since_start:
            return scaled(now, 1 / self.seconds)
        if self.before is None:
            return withhold(now, now.present, Missing(Reason.WARMING))
        if self.seconds <= 0:
            return withhold(now, now.present, _STEPPED_BACK)
        old = without_sentinels(of(self.before), zero_is_one=zero_is_one)
        counts = now.values - old.values
        with np.errstate(invalid="ignore"):
            back = now.present & (counts < 0)
        per_s = column(counts / self.seconds, why=Missing(Reason.WARMING))
        return withhold(where(now.present, per_s, now), back, _STEPPED_BACK)

    def average(self, values: Floats, factor: float = 1.0, *, zero_is_one: bool = False) -> Column:
        """The server's own average x `factor`; only in documents of the last second."""
        if self.table.since_start:
            return missing(len(values), _ONLY_SINCE_START)
        return scaled(without_sentinels(values, zero_is_one=zero_is_one), factor)


def without_sentinels(values: Floats, *, zero_is_one: bool = False) -> Column:
    """Numbers as written, with sentinels replaced by reasons.

    All zeros mean that the CPU can't count it, unless `zero_is_one` (0 is a number).
    """
    reasons = np.zeros(len(values), dtype=np.uint8)
    if len(values) and values.min() > 0 and values.max() < _WRAPPED:  # NaN fails both
        return Column(values.copy(), reasons, by_reason=dict(_BY_REASON))
    reasons[np.isnan(values)] = Reason.SOURCE
    with np.errstate(invalid="ignore"):
        reasons[(values < 0) | np.isinf(values)] = Reason.ERROR
        reasons[np.isfinite(values) & (values >= _WRAPPED)] = Reason.RESET
    for sentinel in _SENTINELS:
        reasons[values == sentinel] = Reason.HARDWARE
    zero = (values == 0) & (reasons == 0)
    by_reason = dict(_BY_REASON)
    if not zero_is_one and zero.any() and not np.any((values > 0) & (reasons == 0)):
        reasons[zero] = Reason.HARDWARE
        by_reason[int(NONE_HERE.reason)] = NONE_HERE.detail
    return Column(np.where(reasons == 0, values, np.nan), reasons, by_reason=by_reason)


def scaled(one: Column, factor: float) -> Column:
    return Column(one.values * factor, one.reasons, one.details, one.by_reason)


def within(one: Column, least: float, most: float) -> Column:
    """Numbers clipped to 0..1; ERROR beyond `least` and `most`, the server's rounding."""
    with np.errstate(invalid="ignore"):
        far = one.present & ((one.values < least) | (one.values > most))
    inside = Column(np.clip(one.values, 0.0, 1.0), one.reasons, one.details, one.by_reason)
    return withhold(inside, far, _IMPOSSIBLE)
