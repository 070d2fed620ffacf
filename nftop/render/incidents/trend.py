"""Values of the graph on the page of an incident."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nftop.model.incident import VictimTrace
from nftop.model.struct import dataclass

# Cells from which the page has two columns, and the part of them that the left one has.
TWO_COLUMNS_FROM = 100
LEFT_SHARE = 0.62


@dataclass(frozen=True, slots=True, eq=False)
class VictimTrend:
    """Throughput of the first victim over time.

    Attributes:
        values: float32 (points,), packets per second, oldest first; NaN where unknown.
        span_s: from the first to the last.
        first_ns: wall time of the first.
        sent: what it sent; else what it received.
        onset: the onset, on a time axis of its own, before these values; None if it is in them.
    """

    name: str
    values: NDArray[np.float32]
    span_s: float
    first_ns: int
    sent: bool = True
    onset: VictimTrend | None = None


def trend_points(width: int) -> int:
    """Values of the graph on a page of this width: two a cell."""
    graph = width - int(width * LEFT_SHARE) - 9 if width >= TWO_COLUMNS_FROM else width - 10
    return 2 * max(graph, 4)


# Share of the graph that has the onset, if the rest has another time axis.
_ONSET_SHARE = 1 / 3


def trend_of_trace(name: str, trace: VictimTrace, points: int) -> VictimTrend:
    """The onset, and what followed until the end of a trace, for `trend_points`."""
    onset = np.array([np.nan if item is None else item for item in trace.onset], np.float32)
    since = np.array([np.nan if item is None else item for item in trace.since], np.float32)
    onset_s = len(onset) * trace.onset_step_s
    if not len(since):
        values = _resampled(onset, points)
        return VictimTrend(name, values, onset_s, trace.first_ns, trace.sent)
    room = 2 * int(points * _ONSET_SHARE / 2)
    head = VictimTrend(name, _resampled(onset, room), onset_s, trace.first_ns, trace.sent)
    rest = _resampled(since, points - room - 2)  # a cell separates them
    first_ns = trace.first_ns + round(onset_s * 1e9)
    return VictimTrend(name, rest, len(since) * trace.step_s, first_ns, trace.sent, head)


def _resampled(values: NDArray[np.float32], points: int) -> NDArray[np.float32]:
    """Means of so many equal spans; values are repeated where there are fewer."""
    edges = np.arange(points + 1) * len(values) / points
    first = edges[:-1].astype(np.intp)
    after = np.maximum(np.ceil(edges[1:]).astype(np.intp), first + 1)
    spans = (values[low:high] for low, high in zip(first, after, strict=True))
    known = (span[np.isfinite(span)] for span in spans)
    return np.array([span.mean() if len(span) else np.nan for span in known], np.float32)
