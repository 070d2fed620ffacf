"""Recorder of a live session: a thread of its own; the session never waits for it."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

from nftop.model.baseline import Baselines
from nftop.model.frame import Finding
from nftop.model.ids import format_cpu_list
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import ROOT, ResctrlGroup, ResctrlTable
from nftop.model.reading import Missing
from nftop.model.sample import Sample
from nftop.model.struct import dataclass, field, replace
from nftop.store.format.encoder import Chunk, Encoder
from nftop.store.format.records import BASELINE, Gap, Header, Marker
from nftop.store.recording.sink import Sink
from nftop.store.user.baselines import plain


def changes(before: ResctrlTable, after: ResctrlTable) -> tuple[str, ...]:
    """A sentence for each: masks, limits, CPUs, and groups that came or went. Not threads.

    Names in them are untrusted text.
    """
    old, new = ({group.name: group for group in table.groups} for table in (before, after))
    return tuple(_sentences(old, new))


def _sentences(old: Mapping[str, ResctrlGroup], new: Mapping[str, ResctrlGroup]) -> Iterator[str]:
    for name in old.keys() | new.keys():
        shown = "the root group" if name == ROOT else name
        if name not in new:
            yield f"{shown} is gone"
        elif name not in old or old[name].inode != new[name].inode:
            yield f"{shown} is new: {', '.join(_settings(new[name]).values())}"
        else:
            yield from _of_group(shown, _settings(old[name]), _settings(new[name]))


def _of_group(shown: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[str]:
    for key, text in new.items():
        if key in old and old[key] != text:
            yield f"{shown}: {old[key]} -> {text.removeprefix(f'{key} ')}"


def _settings(group: ResctrlGroup) -> dict[str, str]:
    """What is set in a group, by what it is."""
    facts = {"CPUs": f"CPUs {format_cpu_list(group.cpus) or 'none'}"}
    for cache in group.caches:
        for word, mask in (("L3", cache.cbm), ("L3 code", cache.code)):
            if isinstance(mask, Cbm):
                key = f"{word} {cache.l3}"
                facts[key] = f"{key} {mask.hex}"
        if not isinstance(cache.mba, Missing):
            key = f"MBA {cache.l3}"
            facts[key] = f"{key} {cache.mba}"
    for item in group.l2:
        facts[f"L2 {item.l2}"] = f"L2 {item.l2} {item.cbm.hex}"
    return facts


# Samples that may wait to be written: what comes then is lost, and counted.
_WAITING = 64
# What is kept of the past, for who starts recording when it has happened: this long, this much.
PAST_NS, PAST_BYTES = 600_000_000_000, 32 << 20
_WHOLE_S = 5.0

_Job: TypeAlias = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Recording:
    """How a recording does.

    Attributes:
        name: of the file.
        seconds: the time it covers, the past included.
        ticks, size: samples and bytes written. lost: samples that were not.
        problem: why nothing is written now; "" while it is.
        over: nothing more will be, for the `problem`.
        before_s: of `seconds`, those that were over when it was begun.
    """

    name: str
    seconds: float
    ticks: int
    size: int
    lost: int
    problem: str
    over: bool = False
    before_s: float = 0.0


@dataclass(slots=True)
class _Frame:
    """A zstd frame of the past."""

    began_ns: int
    chunks: list[Chunk] = field(default_factory=list)
    size: int = 0


class Recorder:
    """Takes every sample of a session, and writes it where it is told to.

    Methods are safe from any thread and never wait, `close` aside.
    """

    def __init__(
        self, header: Header, *, past_ns: int = PAST_NS, past_bytes: int = PAST_BYTES
    ) -> None:
        """Up to `past_bytes` of the last `past_ns` are kept in memory, encoded; 0: nothing is."""
        self._encoder = Encoder(header)
        self._past_ns, self._past_bytes = past_ns, past_bytes
        self._past: deque[_Frame] = deque()
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0
        self._number = 0
        self._dropped = 0
        self._before_ns = 0
        self._sink: Sink | None = None
        self._reported_lost = 0  # of the sink's, what its gaps say so far
        self._since_ns = self._newest_ns = 0
        self._last: tuple[Sink, Recording] | None = None
        self._classes: ResctrlTable | None = None
        self._acted = False
        self._thread = threading.Thread(target=self._run, name="nftop-recorder", daemon=True)
        self._thread.start()

    def take(self, sample: Sample) -> None:
        """Record it. Where too many are waiting it is lost, and the recording says so."""
        with self._lock:
            number, self._number = self._number, self._number + 1
            if self._waiting >= _WAITING:
                self._dropped += 1
                return
            self._waiting += 1
            dropped, self._dropped = self._dropped, 0
        self._jobs.put(lambda: self._sampled(number, sample, dropped))

    def mark(self, text: str, wall_ns: int | None = None) -> None:
        """A marker of the operator's, now or at another time."""
        self._note("marker", text, wall_ns)

    def acted(self, text: str, *, classes: bool) -> None:
        """Something the operator has had nftop change: cache classes, or something else."""
        if classes:
            self._jobs.put(self._acts)
        self._note("action", text, None)

    def record_finding(self, finding: Finding, wall_ns: int, monotonic_ns: int) -> None:
        """A finding that the tick of this time is the first to have; after `take` of its sample."""
        text = f"{finding.where}: {finding.text} [{finding.rule}]"
        detail = {"rule": finding.rule, "where": finding.where, "since_ns": finding.since_ns}
        marker = Marker("finding", wall_ns, monotonic_ns, text, detail)
        self._jobs.put(lambda: self._put(self._encoder.note(marker, wall_ns, monotonic_ns)))

    def kept(self, baselines: Baselines | None, wall_ns: int, monotonic_ns: int) -> None:
        """The operator has kept a baseline, None: forgotten it; it counts for what is taken next.

        The times are those of the next sample.
        """
        number = 0 if baselines is None else len(baselines.nfs)
        text = f"baseline of {number} network function{'s' * (number != 1)} kept"
        text = "baseline forgotten" if baselines is None else text
        detail = {"baselines": plain(baselines)}
        marker = Marker(BASELINE, wall_ns, monotonic_ns, text, detail)

        def noted() -> None:
            self._encoder.kept(baselines)
            self._put(self._encoder.note(marker, wall_ns, monotonic_ns))

        self._jobs.put(noted)

    def start(self, sink: Sink) -> None:
        """Record into this from now on, and first what is kept of the past."""
        self._jobs.put(lambda: self._begin(sink))

    def stop(self) -> None:
        """End the recording that is under way."""
        self._jobs.put(self._end)

    def close(self) -> Recording | None:
        """Write all that waits, end the recording, and say what became of it; None: there was none.

        Waits no longer than a disk that answers needs; where it does not answer, that is the
        recording's problem.
        """
        self._jobs.put(None)
        self._thread.join(timeout=_WHOLE_S)
        now = self.recording if self._thread.is_alive() else None
        if now is None:
            return self.last
        return replace(now, problem=f"no answer for {_WHOLE_S:.0f} s, so its end may be missing")

    @property
    def recording(self) -> Recording | None:
        """The recording that is under way; None where there is none."""
        sink = self._sink
        return None if sink is None else self._state(sink)

    @property
    def last(self) -> Recording | None:
        """The last that ended; None where none has."""
        return self._last[1] if self._last else None

    @property
    def broken(self) -> OSError | None:
        """What ended the recording for good; None where nothing has."""
        sink = self._sink or (self._last[0] if self._last else None)
        return None if sink is None else sink.broken

    # In the thread

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                job()
            except Exception as error:  # noqa: BLE001 - the boundary: it must not end unnoticed
                self._fail(error)
        self._end()

    def _fail(self, error: Exception) -> None:
        """nftop's own fault: what is written so far is whole, and the recording ends there."""
        self._encoder.restart()
        self._past.clear()
        if self._sink is not None:
            self._sink.problem = f"nftop's own fault: {type(error).__name__}: {error}"
            self._sink.broken = OSError(self._sink.problem)
            self._end()

    def _sampled(self, number: int, sample: Sample, dropped: int) -> None:
        try:
            self._write(number, sample, dropped)
        finally:
            with self._lock:
                self._waiting -= 1

    def _write(self, number: int, sample: Sample, dropped: int) -> None:
        self._newest_ns = sample.monotonic_ns
        if not self._since_ns:
            self._since_ns = sample.monotonic_ns
        self._retry(sample)
        if dropped:
            why = "writing took longer than sampling"
            self._put(self._encoder.note(Gap(dropped, why), sample.wall_ns, sample.monotonic_ns))
        for text in self._changed(sample):
            marker = Marker("change", sample.wall_ns, sample.monotonic_ns, text)
            self._put(self._encoder.note(marker, sample.wall_ns, sample.monotonic_ns))
        self._put(self._encoder.tick(number, sample))

    def _retry(self, sample: Sample) -> None:
        """Begin a frame where a file can't go on without one."""
        sink = self._sink
        if sink is None or not sink.wants_start:
            return
        self._encoder.restart()
        lost, size = sink.lost - self._reported_lost, sink.size
        if lost:
            gap = Gap(lost, f"it could not be written: {sink.problem}")
            self._put(self._encoder.note(gap, sample.wall_ns, sample.monotonic_ns))
        # A gap that could not be written either tells nobody.
        if sink.size > size:
            self._reported_lost += lost

    def _changed(self, sample: Sample) -> tuple[str, ...]:
        """What is different in the cache classes; nothing at first."""
        reading = sample.readings.get("resctrl")
        if reading is None or not isinstance(reading.value, ResctrlTable):
            return ()
        before, self._classes = self._classes, reading.value
        acted, self._acted = self._acted, False
        if before is None or before is reading.value:
            return ()
        own = " (beside a change by this nftop)" if acted else ""
        return tuple(f"{change}{own}" for change in changes(before, reading.value))

    def _note(self, kind: str, text: str, wall_ns: int | None) -> None:
        now_ns, mono_ns = time.time_ns(), time.monotonic_ns()
        marker = Marker(kind, now_ns if wall_ns is None else wall_ns, mono_ns, text)

        def noted() -> None:
            self._put(self._encoder.note(marker, now_ns, mono_ns))

        self._jobs.put(noted)

    def _acts(self) -> None:
        self._acted = True

    def _put(self, chunk: Chunk) -> None:
        if self._sink is not None:
            self._sink.write(chunk)
            if self._sink.broken is not None:
                self._end()
        if not self._past_bytes:
            return
        if chunk.starts:
            self._past.append(_Frame(chunk.after.monotonic_ns))
        if self._past:
            self._past[-1].chunks.append(chunk)
            self._past[-1].size += len(chunk.data)
        self._forget(chunk.after.monotonic_ns)

    def _forget(self, now_ns: int) -> None:
        """Let go of what is too old or too much, whole frames at a time."""
        while self._past and (
            sum(frame.size for frame in self._past) > self._past_bytes
            or (len(self._past) > 1 and now_ns - self._past[1].began_ns > self._past_ns)
        ):
            if len(self._past) == 1:
                self._encoder.restart()  # what follows would lack its beginning
            self._past.popleft()

    def _begin(self, sink: Sink) -> None:
        self._end()
        self._since_ns = self._past[0].began_ns if self._past else 0
        self._before_ns = self._newest_ns - self._since_ns if self._past else 0
        self._sink, self._reported_lost = sink, 0
        if not self._past:
            self._encoder.restart()
        for frame in self._past:
            for chunk in frame.chunks:
                sink.write(chunk)
        if sink.broken is not None:
            self._end()

    def _end(self) -> None:
        sink = self._sink
        if sink is not None:
            sink.finish()
            self._last = sink, self._state(sink)
            self._sink = None

    def _state(self, sink: Sink) -> Recording:
        covered_ns = self._newest_ns - self._since_ns if self._since_ns else 0
        return Recording(
            sink.name,
            max(covered_ns, 0) / 1e9,
            sink.ticks,
            sink.size,
            sink.lost,
            sink.problem,
            over=sink.broken is not None,
            before_s=max(self._before_ns, 0) / 1e9,
        )
