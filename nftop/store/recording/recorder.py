"""Recorder of a live session: a thread of its own; the session never waits for it."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from nftop.derive.fold import FoldState, checkpoint
from nftop.model.baseline import Baselines
from nftop.model.frame import Finding
from nftop.model.ids import format_cpu_list
from nftop.model.missing import Missing
from nftop.model.number_text import counted
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import ROOT, IoWays, ResctrlGroup, ResctrlTable
from nftop.model.sample import Sample
from nftop.model.struct import dataclass, replace
from nftop.store.format.encoder import Chunk, Encoder
from nftop.store.format.records import (
    BASELINE,
    EXPERIMENT,
    OWN_SUFFIX,
    DroppedTicks,
    Header,
    Marker,
    Note,
)
from nftop.store.history.flight import FlightRecorder
from nftop.store.reading.seekpoint import unpacked
from nftop.store.recording.sink import Sink
from nftop.store.user.baselines import plain


def changes(before: ResctrlTable, after: ResctrlTable) -> tuple[str, ...]:
    """A sentence (untrusted names) per changed mask, limit, CPU list or group; none for threads.

    Also of the ways of I/O.
    """
    old, new = ({group.name: group for group in table.groups} for table in (before, after))
    sentences = []
    for name in old.keys() | new.keys():
        shown = "the root group" if name == ROOT else name
        if name not in new:
            sentences.append(f"{shown} is gone")
            continue
        settings = _settings(new[name])
        if name not in old or old[name].inode != new[name].inode:
            sentences.append(f"{shown} is new: {', '.join(settings.values())}")
            continue
        was = _settings(old[name])
        sentences += [
            f"{shown}: {was[key]} -> {text.removeprefix(f'{key} ')}"
            for key, text in settings.items()
            if was.get(key, text) != text
        ]
    io = [_io_settings(table) for table in (before, after)]
    sentences += [
        f"ways of I/O: {io[0].get(key, f'{key} not set')} -> {text.removeprefix(f'{key} ')}"
        for key, text in io[1].items()
        if io[0].get(key) != text
    ]
    return tuple(sentences)


def _io_settings(table: ResctrlTable) -> dict[str, str]:
    """Text of the ways of I/O by cache, with their origin."""
    facts = {}
    for domain in table.domains:
        key = f"L3 {domain.l3}"
        if isinstance(domain.io, IoWays):
            facts[key] = f"{key} {domain.io.cbm.hex} ({domain.io.origin})"
    return facts


def _settings(group: ResctrlGroup) -> dict[str, str]:
    """Text of each setting of a group by its name."""
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


# Samples that may wait to be written; later ones are lost, and counted.
_WAITING = 64
# A new recording includes so much of the past by default.
PAST_NS = 600_000_000_000
# The flight recorder keeps at most one sample in this time.
FLIGHT_STEP_NS = 1_000_000_000
_WHOLE_S = 5.0
NO_ANSWER = f"no answer for {_WHOLE_S:.0f} s, so its end may be missing"

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


OnEnd: TypeAlias = Callable[[Recording], None]


class Recorder:
    """Takes every sample of a session: into the flight recorder, and into a recording.

    Both are encoded once; a recording has its own encoder only if its pace exceeds the flight
    recorder's. Methods may be called from any thread and never wait, except `close`.
    """

    def __init__(
        self, header: Header, *, flight: FlightRecorder | None = None, past_ns: int = PAST_NS
    ) -> None:
        """Recordings include up to `past_ns` of what `flight` has; None: nothing of the past."""
        self._encoder = Encoder(header)
        self._flight, self._past_ns = flight, past_ns
        self._own: Encoder | None = None  # of the recording, where it has more than the flight
        self._own_number = 0
        self._flown_ns: int | None = None  # of the newest sample in the flight recorder
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._waiting = 0
        self._number = 0
        self._dropped = 0
        self._before_ns = 0
        self._sink: Sink | None = None
        self._on_end: OnEnd = lambda _: None  # of the sink
        self._reported_lost = 0  # part of the sink's `lost` that is in gaps
        self._since_ns = self._newest_ns = 0
        self._last: tuple[Sink, Recording] | None = None
        self._classes: ResctrlTable | None = None
        self._acted = False
        self._thread = threading.Thread(target=self._run, name="nftop-recorder", daemon=True)
        self._thread.start()

    def take(self, sample: Sample, state: FoldState | None = None) -> None:
        """Record a sample. If too many are waiting it is lost, which the recording reports.

        `state`: of the fold before it; the flight recorder keeps some, to fold on from them.
        """
        with self._lock:
            if self._waiting >= _WAITING:
                self._dropped += 1
                return
            self._waiting += 1
            dropped, self._dropped = self._dropped, 0
        self._jobs.put(lambda: self._sampled(sample, state, dropped))

    def mark(self, text: str, wall_ns: int | None = None) -> None:
        """Add a marker of the operator, now or at another time."""
        self._note("marker", text, wall_ns)

    def acted(self, text: str, *, classes: bool) -> None:
        """Record a change that the operator made with nftop; `classes`: of cache classes."""
        if classes:
            self._jobs.put(self._acts)
        self._note("action", text, None)

    def experiment(
        self, text: str, detail: Mapping[str, Any], wall_ns: int = 0, monotonic_ns: int = 0
    ) -> None:
        """Note a step of an experiment, now or at the time of a sample."""
        marker = Marker(
            EXPERIMENT, wall_ns or time.time_ns(), monotonic_ns or time.monotonic_ns(), text, detail
        )
        self._jobs.put(lambda: self._put_note(marker, marker.wall_ns, marker.monotonic_ns))

    def record_finding(self, finding: Finding, wall_ns: int, monotonic_ns: int) -> None:
        """Note the first tick that has a finding, after `take` of its sample."""
        text = f"{finding.where}: {finding.text} [{finding.rule}]"
        detail = {"rule": finding.rule, "where": finding.where, "since_ns": finding.since_ns}
        marker = Marker("finding", wall_ns, monotonic_ns, text, detail)
        self._jobs.put(lambda: self._put_note(marker, wall_ns, monotonic_ns))

    def record_result(
        self, text: str, detail: Mapping[str, Any], wall_ns: int, monotonic_ns: int
    ) -> None:
        """Note what a command has measured; `text` for the operator, `detail` for programs."""
        marker = Marker("marker", wall_ns, monotonic_ns, text, detail)
        self._jobs.put(lambda: self._put_note(marker, wall_ns, monotonic_ns))

    def kept(self, baselines: Baselines | None, wall_ns: int, monotonic_ns: int) -> None:
        """Note that a baseline was kept, or dropped (None); the times are the next sample's."""
        number = 0 if baselines is None else len(baselines.nfs)
        text = f"baseline of {counted(number, 'network function')} kept"
        text = "baseline forgotten" if baselines is None else text
        detail = {"baselines": plain(baselines)}
        marker = Marker(BASELINE, wall_ns, monotonic_ns, text, detail)

        def noted() -> None:
            for encoder in self._encoders:
                encoder.kept(baselines)
            self._put_note(marker, wall_ns, monotonic_ns)

        self._jobs.put(noted)

    def start(self, sink: Sink, past_ns: int | None = None, on_end: OnEnd = lambda _: None) -> None:
        """Record into this from now on, and first so much of the past; None: the default.

        `on_end` is called in the recorder's thread when this recording has ended.
        """
        past_ns = self._past_ns if past_ns is None else past_ns
        self._jobs.put(lambda: self._begin(sink, past_ns, on_end))

    def keep(self, sink: Sink, past_ns: int, done: Callable[[Recording], None]) -> None:
        """Write so much of the past as a recording of its own, whatever is being recorded.

        `done` is called in the recorder's thread.
        """
        self._jobs.put(lambda: self._keep(sink, past_ns, done))

    def stop(self) -> None:
        """End the current recording."""
        self._jobs.put(self._end)

    def close(self) -> Recording | None:
        """Write all that waits, and end the recording; None if there was none.

        Waits a limited time; a disk that does not answer is reported as the recording's problem.
        """
        self._jobs.put(None)
        self._thread.join(timeout=_WHOLE_S)
        now = self.recording if self._thread.is_alive() else None
        if now is None:
            return self.last
        return replace(now, problem=NO_ANSWER)

    @property
    def recording(self) -> Recording | None:
        """The current recording; None if there is none."""
        sink = self._sink
        return None if sink is None else self._state(sink)

    @property
    def last(self) -> Recording | None:
        """Most recently finished recording, or None."""
        return self._last[1] if self._last else None

    @property
    def broken(self) -> OSError | None:
        """Error that ended the recording; None if there is none."""
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
        """Handle an internal error: the recording ends, and is complete up to here."""
        self._encoder.restart()
        if self._flight is not None:
            self._flight.clear()
        if self._sink is not None:
            self._sink.problem = f"nftop's own fault: {type(error).__name__}: {error}"
            self._sink.broken = OSError(self._sink.problem)
            self._end()

    def _sampled(self, sample: Sample, state: FoldState | None, dropped: int) -> None:
        try:
            self._write(sample, state, dropped)
        finally:
            with self._lock:
                self._waiting -= 1

    def _write(self, sample: Sample, state: FoldState | None, dropped: int) -> None:
        self._newest_ns = sample.monotonic_ns
        if not self._since_ns:
            self._since_ns = sample.monotonic_ns
        self._retry(sample)
        if dropped:
            why = "writing took longer than sampling"
            self._put_note(DroppedTicks(dropped, why), sample.wall_ns, sample.monotonic_ns)
            self._number += dropped
            self._own_number += dropped
        for text in self._changed(sample):
            marker = Marker("change", sample.wall_ns, sample.monotonic_ns, text)
            self._put_note(marker, sample.wall_ns, sample.monotonic_ns)
        self._put_tick(sample, state)

    def _put_tick(self, sample: Sample, state: FoldState | None) -> None:
        """Encode a sample for the flight recorder if it is due, and for the recording."""
        due = self._is_due(sample)
        if not due and self._sink is not None and self._own is None:
            self._own, self._own_number = self._encoder.fork(), self._number
        if self._own is not None:
            number, self._own_number = self._own_number, self._own_number + 1
            self._write_chunk(self._own.tick(number, sample))
        if due:
            number, self._number = self._number, self._number + 1
            self._put(self._encoder.tick(number, sample), state)

    def _is_due(self, sample: Sample) -> bool:
        """Whether the flight recorder keeps this sample; without one every sample is encoded."""
        if self._flight is None:
            return True
        if self._flown_ns is not None:
            passed_ns = sample.monotonic_ns - self._flown_ns
            # Ticks are not exact to the nanosecond.
            early_ns = min(sample.interval_ns, FLIGHT_STEP_NS) // 2
            if 0 <= passed_ns < FLIGHT_STEP_NS - early_ns:
                return False
        self._flown_ns = sample.monotonic_ns
        return True

    @property
    def _encoders(self) -> tuple[Encoder, ...]:
        return (self._encoder,) if self._own is None else (self._encoder, self._own)

    def _put_note(self, note: Note, wall_ns: int, monotonic_ns: int) -> None:
        if self._own is not None:
            self._write_chunk(self._own.note(note, wall_ns, monotonic_ns))
        self._put(self._encoder.note(note, wall_ns, monotonic_ns))

    def _retry(self, sample: Sample) -> None:
        """Begin a frame if a file can't continue without one."""
        sink = self._sink
        if sink is None or not sink.wants_start:
            return
        (self._own or self._encoder).restart()
        lost, size = sink.lost - self._reported_lost, sink.size
        if lost:
            gap = DroppedTicks(lost, f"it could not be written: {sink.problem}")
            self._put_note(gap, sample.wall_ns, sample.monotonic_ns)
        # A failed note of a gap is not reported again.
        if sink.size > size:
            self._reported_lost += lost

    def _changed(self, sample: Sample) -> tuple[str, ...]:
        """Changes of the cache classes since the last sample; empty for the first."""
        reading = sample.readings.get("resctrl")
        if reading is None or not isinstance(reading.value, ResctrlTable):
            return ()
        before, self._classes = self._classes, reading.value
        acted, self._acted = self._acted, False
        if before is None or before is reading.value:
            return ()
        own = OWN_SUFFIX if acted else ""
        return tuple(f"{change}{own}" for change in changes(before, reading.value))

    def _note(self, kind: str, text: str, wall_ns: int | None) -> None:
        now_ns, mono_ns = time.time_ns(), time.monotonic_ns()
        marker = Marker(kind, now_ns if wall_ns is None else wall_ns, mono_ns, text)

        def noted() -> None:
            self._put_note(marker, now_ns, mono_ns)

        self._jobs.put(noted)

    def _acts(self) -> None:
        self._acted = True

    def _put(self, chunk: Chunk, state: FoldState | None = None) -> None:
        """A chunk of the flight recorder's encoder."""
        if self._own is None:
            self._write_chunk(chunk)
        if self._flight is None:
            return
        begins = chunk.ticks and (chunk.starts or self._flight.wants_state)
        kept = checkpoint(state) if begins and state is not None else None
        if not self._flight.append(chunk, kept):
            self._encoder.restart()  # what follows would lack its beginning

    def _write_chunk(self, chunk: Chunk) -> None:
        """Write a chunk to the recording, if there is one."""
        if self._sink is not None:
            self._sink.write(chunk)
            if self._sink.broken is not None:
                self._end()

    def _begin(self, sink: Sink, past_ns: int, on_end: OnEnd) -> None:
        self._end()
        since_ns = max(self._newest_ns - past_ns, 0)
        chunks = () if self._flight is None or past_ns <= 0 else self._flight.chunks(since_ns)
        self._sink, self._on_end, self._reported_lost = sink, on_end, 0
        self._since_ns = self._before_ns = 0
        for chunk in chunks:
            sink.write(chunk)
            if sink.ticks and not self._since_ns:  # of a full disk the first may not be written
                self._since_ns = _first_ns(chunk)
                self._before_ns = self._newest_ns - self._since_ns
        if not self._since_ns:
            self._encoder.restart()
        if sink.broken is not None:
            self._end()

    def _keep(self, sink: Sink, past_ns: int, done: Callable[[Recording], None]) -> None:
        since_ns, first_ns = max(self._newest_ns - past_ns, 0), 0
        for chunk in () if self._flight is None else self._flight.chunks(since_ns):
            sink.write(chunk)
            if sink.ticks and not first_ns:  # of a full disk the first may not be written
                first_ns = _first_ns(chunk)
        sink.finish()
        seconds = (self._newest_ns - first_ns) / 1e9 if first_ns else 0.0
        over = sink.broken is not None
        done(Recording(sink.name, seconds, sink.ticks, sink.size, sink.lost, sink.problem, over))

    def _end(self) -> None:
        sink = self._sink
        if sink is not None:
            sink.finish()
            self._last = sink, self._state(sink)
            self._sink = self._own = None
            self._on_end(self._last[1])

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


def _first_ns(chunk: Chunk) -> int:
    """CLOCK_MONOTONIC of the first sample of a chunk that starts a frame."""
    point = unpacked(chunk.data)
    return 0 if point is None else point.monotonic_ns
