"""Reads all sources once per tick; no source holds up another."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from nftop.model.reading import Missing, Reason
from nftop.model.sample import Sample, SourceReading
from nftop.model.struct import dataclass, replace
from nftop.sources.base import Source, Turning

_T = TypeVar("_T")
# A source that takes longer than this gets company if others wait behind it.
STALL_S = 0.02
_JOIN_S = 1.0


def read_source(source: Source) -> SourceReading[Any]:
    """One reading with its time. An exception becomes an ERROR reading."""
    started_ns = time.monotonic_ns()
    value = _attempt(source, source.read)
    took_ns = time.monotonic_ns() - started_ns
    return SourceReading(value, started_ns + took_ns // 2, took_ns)


def _attempt(source: Source, work: Callable[[], _T]) -> _T | Missing:
    """Call a method of a source; ERROR if it raises."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - the boundary: no source may stop another
        return Missing(Reason.ERROR, f"{source.name}: {type(error).__name__}: {error}")


@dataclass(slots=True, eq=False)
class _Slot:
    """A source that may block, with its last reading."""

    source: Source
    latest: SourceReading[Any]
    requested: bool = False
    requested_at: int = 0  # number of the request that has waited longest
    running: bool = False
    closed: bool = False


class BlockingSources:
    """Sources that may block, read by one helper thread, the oldest request and the quickest first.

    While a source takes longer than STALL_S and others are queued behind it, or some still wait
    since the request before, another thread reads those; it ends when the queue is empty. So a
    source that hangs delays the others by STALL_S.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        warming = Missing(Reason.WARMING, "it has not answered yet")
        started_ns = time.monotonic_ns()
        self._slots = [_Slot(item, SourceReading(warming, started_ns, 0)) for item in sources]
        self._lock = threading.Lock()
        self._work = threading.Condition(self._lock)
        self._idle = threading.Condition(self._lock)
        self._threads: set[threading.Thread] = set()
        self._requests = 0
        self._last_start_ns = started_ns
        self._stopped = False

    @property
    def latest(self) -> dict[str, SourceReading[Any]]:
        """The last reading of every source; WARMING if it never gave one."""
        return {slot.source.name: slot.latest for slot in self._slots}

    def request(self) -> None:
        """Request a reading of every source; one under way is followed by another."""
        with self._lock:
            self._requests += 1
            for slot in self._slots:
                if not slot.requested:
                    slot.requested, slot.requested_at = True, self._requests
            if self._slots and not self._threads:
                self._start()
            self._relieve()
            self._work.notify()

    def wait(self, timeout_s: float) -> None:
        """Wait for all requested readings, but not longer than `timeout_s`."""
        deadline_s = time.monotonic() + timeout_s
        with self._lock:
            while any(slot.requested or slot.running for slot in self._slots):
                left_s = deadline_s - time.monotonic()
                if left_s <= 0:
                    return
                self._idle.wait(min(left_s, STALL_S) if self._queue() else left_s)
                self._relieve()

    def close(self) -> None:
        """Close every source in a thread of its own; one that hangs, after its reading."""
        with self._lock:
            self._stopped = True
            threads = [*self._threads]
            for slot in self._slots:
                if slot.running or slot.closed:
                    continue
                slot.closed = True
                closing = threading.Thread(
                    target=_attempt, args=(slot.source, slot.source.close), daemon=True
                )
                with contextlib.suppress(RuntimeError):  # no thread: what is open ends with nftop
                    closing.start()
                    threads.append(closing)
            self._work.notify_all()
        deadline_s = time.monotonic() + _JOIN_S
        for thread in threads:
            thread.join(max(deadline_s - time.monotonic(), 0.0))

    def _queue(self) -> list[_Slot]:
        return [slot for slot in self._slots if slot.requested and not slot.running]

    def _busy(self) -> bool:
        """Whether every thread is reading."""
        return sum(slot.running for slot in self._slots) >= len(self._threads)

    def _relieve(self) -> None:
        """Start a thread if a source stalls the queue, or if the queue outlasts a request."""
        stalled = time.monotonic_ns() - self._last_start_ns >= STALL_S * 1e9
        queue = self._queue()
        late = any(slot.requested_at < self._requests for slot in queue)
        if queue and (stalled or late) and self._busy():
            self._start()

    def _start(self) -> None:
        # A daemon: a source stuck in the kernel must not keep nftop from ending.
        permanent = not self._threads
        thread = threading.Thread(
            target=self._run, kwargs={"permanent": permanent}, name="nftop-helper", daemon=True
        )
        self._last_start_ns = time.monotonic_ns()
        try:
            thread.start()
        except RuntimeError:  # no more threads: the queue waits for the source that stalls it
            if permanent:
                raise
        else:
            self._threads.add(thread)

    def _run(self, *, permanent: bool) -> None:
        while (slot := self._next(permanent=permanent)) is not None:
            reading = read_source(slot.source)
            with self._lock:
                slot.latest, slot.running, slot.closed = reading, False, self._stopped
                if not any(item.requested or item.running for item in self._slots):
                    self._idle.notify_all()
            if slot.closed:
                _attempt(slot.source, slot.source.close)

    def _next(self, *, permanent: bool) -> _Slot | None:
        """The next source to read; None: the thread ends."""
        with self._lock:
            while not self._stopped:
                queue = self._queue()
                if queue:
                    slot = min(queue, key=lambda item: (item.requested_at, item.latest.took_ns))
                    slot.requested, slot.running = False, True
                    self._last_start_ns = time.monotonic_ns()
                    return slot
                if not permanent:
                    break
                self._work.wait()
            self._threads.discard(threading.current_thread())
            return None


class Sampler:
    """Takes a `Sample` from a set of sources.

    Readings of sources that may block are requested first, the others are read meanwhile. Sources
    that answer within the grace time are in the same sample; of the others the last reading goes
    in, with its age.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        self._inline = [source for source in sources if source.inline]
        self._blocking = BlockingSources([source for source in sources if not source.inline])
        self._failed: dict[str, Missing] = {}

    @property
    def turning(self) -> bool:
        """Some source wants `turn` before the next sample."""
        return any(isinstance(source, Turning) and source.turning for source in self._inline)

    def turn(self) -> None:
        """Start the last part of the tick; an exception shows in the source's next reading."""
        for source in self._inline:
            if isinstance(source, Turning) and source.turning:
                failure = _attempt(source, source.turn)
                if failure is not None:
                    self._failed[source.name] = failure

    def sample(self, interval_s: float, grace_s: float) -> Sample:
        """One sample; returns at most `grace_s` after the inline sources were read.

        `interval_s` is the pace, which the sample carries.
        """
        monotonic_ns, wall_ns = time.monotonic_ns(), time.time_ns()
        self._blocking.request()
        readings = {source.name: read_source(source) for source in self._inline}
        for name, why in self._failed.items():
            readings[name] = replace(readings[name], value=why)
        self._failed.clear()
        self._blocking.wait(grace_s)
        readings.update(self._blocking.latest)
        return Sample(wall_ns, monotonic_ns, int(interval_s * 1e9), readings)

    def close(self) -> None:
        """Close every source."""
        for source in self._inline:
            source.close()
        self._blocking.close()
