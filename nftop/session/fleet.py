"""Frames of a fleet: a thread reads, at intervals; screens get the newest frame."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator
from typing import Protocol

from nftop.derive.fleet import FleetState, step
from nftop.model.error_text import describe_error
from nftop.model.fleet import FleetFrame, FleetSample
from nftop.model.missing import Missing
from nftop.model.struct import replace

LEAST_FLEET_S, MOST_FLEET_S = 2.0, 3600.0
# The least pause is half a reading's time, doubled by each failure in a row, at most this.
_MOST_PAUSE_S = 60.0


class RemoteAttempt(Protocol):
    """An attempt to open another host's live recording."""

    def wait(self) -> str:
        """Wait for its beginning; "" if it came, else why not. Ends soon after `cancel`."""

    def cancel(self) -> None:
        """Give up, also what has begun. Safe from any thread, and twice; never waits."""


class _Reading:
    """Events that one consumer of frames and its thread share.

    Attributes:
        stopped: consumer and thread must end.
        due: the next reading does not wait for its time.
        fresh: there is a frame that was not given yet, or `stopped` is set.
    """

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self.due = threading.Event()
        self.fresh = threading.Event()


class FleetFeed:
    """Reads again and again while frames are consumed.

    A reading may take long; `stop` ends `frames` at once all the same, and the thread after it.

    Args of `__init__`:
        read: one reading, or why there is none; called in a thread of this feed's.
        interval_s: between the beginnings of two readings, more if they are slow.
        clock_s: CLOCK_MONOTONIC.
    """

    def __init__(
        self,
        read: Callable[[], FleetSample | Missing],
        interval_s: float,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read, self._interval_s, self._clock_s = read, interval_s, clock_s
        self._lock = threading.Lock()
        self._state = FleetState()
        self._frame: FleetFrame | None = None
        self._current = _Reading()

    @property
    def interval_s(self) -> float:
        return self._interval_s

    def set_interval(self, seconds: float) -> None:
        """Change the interval and read at once."""
        self._interval_s = seconds
        self.refresh()

    def refresh(self) -> None:
        """Read at once; while a reading is under way, after its end."""
        self._current.due.set()

    def frames(self) -> Generator[FleetFrame, None, None]:
        """Yield the present frame, if any, then the newest one after each reading; one consumer.

        `stop` ends it from the call on; it reads from the first `next` on.
        """
        self._current = _Reading()
        return self._frames(self._current)

    def _frames(self, reading: _Reading) -> Generator[FleetFrame, None, None]:
        if self._frame is not None:
            reading.fresh.set()
        # A daemon: a look-up of a name may not end.
        threading.Thread(target=self._run, args=(reading,), name="nftop-fleet", daemon=True).start()
        while True:
            reading.fresh.wait()
            reading.fresh.clear()
            if reading.stopped.is_set():
                return
            with self._lock:
                frame = self._frame
            if frame is not None:
                yield frame

    def stop(self) -> None:
        """End `frames`; another call begins anew, with what is known."""
        self._current.stopped.set()
        self._current.due.set()
        self._current.fresh.set()

    def _run(self, reading: _Reading) -> None:
        failures = 0
        while not reading.stopped.is_set():
            began_s = self._clock_s()
            try:
                sample = self._read()
                problem = sample.message if isinstance(sample, Missing) else ""
            except Exception as error:  # noqa: BLE001 - the boundary: a sentence, whatever it is
                sample, problem = None, describe_error(error)
            with self._lock:
                if reading.stopped.is_set():
                    return
                if isinstance(sample, FleetSample):
                    self._state, self._frame = step(self._state, sample)
                else:
                    self._frame = _without(self._frame, problem)
            reading.fresh.set()
            failures = failures + 1 if problem else 0
            took_s = self._clock_s() - began_s
            pause_s = min(took_s / 2 * 2.0 ** min(failures, 10), _MOST_PAUSE_S)
            reading.due.wait(max(pause_s, self._interval_s - took_s))
            reading.due.clear()


def _without(frame: FleetFrame | None, problem: str) -> FleetFrame:
    """The last frame, with why there is no newer one."""
    if frame is None:
        frame = FleetFrame(time.time_ns(), time.monotonic_ns())
    return replace(frame, problem=problem)
