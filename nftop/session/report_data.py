"""What a report of an interval says: series, means, events and verdicts, of its folded ticks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nftop.derive.cache.changes import together
from nftop.derive.compare.verdict import Verdict, last_verdict
from nftop.model.frame import Frame, NfRow
from nftop.model.incident import Incident
from nftop.model.missing import Missing, Reading
from nftop.model.struct import dataclass, field, replace
from nftop.model.timeline import TimelineEvent
from nftop.session.interval import Cut, ticks
from nftop.session.reader import REPORT_NS, ReplayedTick
from nftop.store.format.records import Marker
from nftop.store.history.events import EventHistory
from nftop.store.history.rings import SampleRings

POINTS = 240
# Samples that a verdict may need: two minutes before a change, three after it.
_VERDICT_TICKS = 600
# Subjects of each kind that have series, those seen first; a recording may have any number.
MOST_SUBJECTS = 64

NF_METRICS = (
    "rx_packets_per_s", "tx_packets_per_s", "drop_packets_per_s", "cpp", "busy_cpp", "ipp", "ipc",
)  # fmt: skip
CLASS_METRICS = ("occupancy_bytes", "mbm_total_bytes_per_s")
PACKAGE_METRICS = (
    "memory.read_bytes_per_s", "memory.write_bytes_per_s",
    "pcie.read_bytes_per_s", "pcie.write_bytes_per_s",
)  # fmt: skip


class SubjectKey(NamedTuple):
    """Network function by `NfRow.key`, cache class by group and L3, or package, as text."""

    kind: str
    key: str
    number: int = -1


@dataclass(slots=True, eq=False)
class SubjectMeans:
    """Metrics of a subject over the interval, in `POINTS` equal parts.

    Attributes:
        name: of the subject (untrusted text).
        sums, counts: float64 and int64 (metrics, POINTS).
    """

    name: str
    metrics: tuple[str, ...]
    sums: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))

    def __post_init__(self) -> None:
        self.sums = np.zeros((len(self.metrics), POINTS))
        self.counts = np.zeros((len(self.metrics), POINTS), np.int64)

    def put(self, point: int, values: Mapping[str, Reading]) -> None:
        """Add one tick; missing values are left out."""
        for row, metric in enumerate(self.metrics):
            value = values.get(metric)
            if value is None or isinstance(value, Missing) or not np.isfinite(value):
                continue
            self.sums[row, point] += value
            self.counts[row, point] += 1

    def series(self, metric: str) -> NDArray[np.float64]:
        """Means by part of the interval (POINTS,), NaN without a value."""
        row = self.metrics.index(metric)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(self.counts[row] > 0, self.sums[row] / self.counts[row], np.nan)

    def mean(self, metric: str) -> float | None:
        """Mean of all ticks that have a value; None without one."""
        row = self.metrics.index(metric)
        count = int(self.counts[row].sum())
        return float(self.sums[row].sum()) / count if count else None


@dataclass(frozen=True, slots=True)
class ChangeVerdict:
    """A change of classes and the verdict on it, with the frame it was judged at."""

    verdict: Verdict
    frame: Frame


@dataclass(frozen=True, slots=True)
class ReportData:
    """An interval of a recording.

    Attributes:
        cut: the interval, with its losses.
        first, last: its first and last frame.
        ticks: number of its frames.
        subjects: means by subject, in order of appearance.
        left_out: number of subjects beyond `MOST_SUBJECTS` of a kind. nfs_left_out: of these, the
            network functions.
        events: incidents, changes, markers, by begin.
        verdicts: on its changes of cache classes, oldest first.
        nfs: last row of each network function.
        bounded: keys of network functions that were not saturated in every tick: their mean CPP is
            an upper bound.
    """

    cut: Cut
    first: Frame
    last: Frame
    ticks: int
    subjects: Mapping[SubjectKey, SubjectMeans]
    left_out: int
    nfs_left_out: int
    events: tuple[TimelineEvent, ...]
    verdicts: tuple[ChangeVerdict, ...]
    nfs: Mapping[str, NfRow]
    bounded: frozenset[str]


class _Verdicts:
    """Verdict on every change: taken at the last tick before the next change."""

    def __init__(self) -> None:
        self._rings = SampleRings(_VERDICT_TICKS)
        self._before: Frame | None = None
        self._changed_at_ns: int | None = None
        self.judged: list[ChangeVerdict] = []

    def take(self, frame: Frame) -> None:
        joined = together(frame.noticed)
        changed_at_ns = joined[-1].at_ns if joined else None
        if self._before is not None and changed_at_ns != self._changed_at_ns:
            first = joined[-1].since_ns if joined else 0
            if self._changed_at_ns is None or first > self._changed_at_ns:
                self.judge()
        self._rings.append(frame, round(frame.elapsed_s * 1e9))
        self._before, self._changed_at_ns = frame, changed_at_ns

    def judge(self) -> None:
        """The verdict at the last tick, if there was a change."""
        if self._before is None or self._changed_at_ns is None:
            return
        verdict = last_verdict(self._rings.window(self._before))
        if verdict is not None:
            self.judged.append(ChangeVerdict(verdict, self._before))


class _Happened:
    """Events of an interval, with incidents that began in it and were found after its end."""

    def __init__(self, to_ns: int) -> None:
        self.events = EventHistory()
        self._to_ns = to_ns
        self._late: dict[str, Incident] = {}

    def mark(self, marker: Marker) -> None:
        if marker.kind == "marker":
            self.events.mark(marker.text, marker.wall_ns)

    def late(self, shown: ReplayedTick) -> None:
        begun = (item for item in shown.frame.incidents if item.since_ns <= self._to_ns)
        self._late = {item.id: item for item in begun} | self._late

    def end(self, last: Frame) -> None:
        """Add those found late to the last frame of the interval."""
        for item in (*last.incidents, *last.past_incidents):
            self._late.pop(item.id, None)
        self.events.append(replace(last, incidents=(*last.incidents, *self._late.values())))


def collect(cut: Cut, pause: Callable[[], None] = lambda: None) -> ReportData | None:
    """Read an interval; None if no tick is in it.

    `pause` is called after every tick. Raises OSError, and InterruptedError if reading is stopped.
    """
    happened = _Happened(cut.to_ns)
    verdicts = _Verdicts()
    subjects: dict[SubjectKey, SubjectMeans] = {}
    nfs: dict[str, NfRow] = {}
    bounded: set[str] = set()
    beyond: set[SubjectKey] = set()
    of_kind = Counter[str]()  # subjects by kind
    first: Frame | None = None
    last: Frame | None = None
    count = 0
    span_ns = max(1, cut.to_ns - cut.from_ns)
    for shown in ticks(cut, happened.mark, fold_ns=REPORT_NS, on_later=happened.late):
        frame = shown.frame
        point = min(POINTS - 1, max(0, (shown.wall_ns - cut.from_ns) * POINTS // span_ns))
        for key, name, metrics, values in _values(frame):
            means = subjects.get(key)
            if means is None:
                if of_kind[key.kind] >= MOST_SUBJECTS:
                    beyond.add(key)
                    continue
                of_kind[key.kind] += 1
                means = subjects[key] = SubjectMeans(name, metrics)
            means.put(point, values)
        nfs |= {nf.key: nf for nf in frame.nfs if SubjectKey("nf", nf.key) in subjects}
        bounded |= _bounded(frame) & nfs.keys()
        happened.events.append(frame)
        verdicts.take(frame)
        first, last, count = first or frame, frame, count + 1
        pause()
    if first is None or last is None:
        return None
    happened.end(last)
    verdicts.judge()
    return ReportData(
        cut=cut,
        first=first,
        last=last,
        ticks=count,
        subjects=subjects,
        left_out=len(beyond),
        nfs_left_out=sum(key.kind == "nf" for key in beyond),
        events=happened.events.events(cut.from_ns, cut.to_ns),
        verdicts=tuple(
            item
            for item in verdicts.judged
            if item.verdict.noticed and item.verdict.noticed[-1].wall_ns >= cut.from_ns
        ),
        nfs=nfs,
        bounded=frozenset(bounded),
    )


def _bounded(frame: Frame) -> set[str]:
    """Network functions whose cost in this tick may have empty polls in it."""
    return {
        nf.key
        for nf in frame.nfs
        if nf.saturated is not True and not isinstance(nf.readings["cpp"], Missing)
    }


def _values(
    frame: Frame,
) -> Iterator[tuple[SubjectKey, str, tuple[str, ...], Mapping[str, Reading]]]:
    for nf in frame.nfs:
        yield SubjectKey("nf", nf.key), nf.name, NF_METRICS, nf.readings
    for group in frame.groups:
        for cache in group.caches:
            key = SubjectKey("class", group.name, cache.l3)
            yield key, group.name, CLASS_METRICS, cache.readings
    for row in frame.packages:
        key = SubjectKey("package", str(row.package), row.package)
        yield key, str(row.package), PACKAGE_METRICS, row.readings
