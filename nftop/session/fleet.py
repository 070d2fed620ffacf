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


class RemoteAttempt(Protocol):
    """An attempt to open another host's live recording."""

    def wait(self) -> str:
        """Wait for its beginning; "" if it came, else why not. Ends soon after `cancel`."""

    def cancel(self) -> None:
        """Give up, also what has begun. Safe from any thread, and twice; never waits."""


class _Reading:
    """What one consumer of frames and its thread share.

    Attributes:
        stopped: neither goes on.
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
        interval_s: between the beginnings of two readings.
    """

    def __init__(self, read: Callable[[], FleetSample | Missing], interval_s: float) -> None:
        self._read = read
        self._interval_s = interval_s
        self._lock = threading.Lock()
        self._state = FleetState()
        self._frame: FleetFrame | None = None
        self._now = _Reading()

    @property
    def interval_s(self) -> float:
        return self._interval_s

    def set_interval(self, seconds: float) -> None:
        """Change the pace, which begins with a reading as `refresh` has it."""
        self._interval_s = seconds
        self._now.due.set()

    def refresh(self) -> None:
        """Read at once; while a reading is under way, after its end."""
        self._now.due.set()

    def frames(self) -> Generator[FleetFrame, None, None]:
        """The last frame, if any, then every newest one; one consumer at a time."""
        now = self._now = _Reading()
        if self._frame is not None:
            now.fresh.set()
        # A daemon: a look-up of a name may not end.
        threading.Thread(target=self._run, args=(now,), name="nftop-fleet", daemon=True).start()
        while True:
            now.fresh.wait()
            now.fresh.clear()
            if now.stopped.is_set():
                return
            with self._lock:
                frame = self._frame
            if frame is not None:
                yield frame

    def stop(self) -> None:
        """End `frames`; another call begins anew, with what is known."""
        self._now.stopped.set()
        self._now.due.set()
        self._now.fresh.set()

    def _run(self, now: _Reading) -> None:
        while not now.stopped.is_set():
            began_s = time.monotonic()
            try:
                sample = self._read()
                problem = sample.message if isinstance(sample, Missing) else ""
            except Exception as error:  # noqa: BLE001 - the boundary: a sentence, whatever it is
                sample, problem = None, describe_error(error)
            with self._lock:
                if now.stopped.is_set():
                    return
                if isinstance(sample, FleetSample):
                    self._state, self._frame = step(self._state, sample)
                else:
                    self._frame = _without(self._frame, problem)
            now.fresh.set()
            now.due.wait(max(0.0, began_s + self._interval_s - time.monotonic()))
            now.due.clear()


def _without(frame: FleetFrame | None, problem: str) -> FleetFrame:
    """The last frame, with why there is no newer one."""
    if frame is None:
        frame = FleetFrame(time.time_ns(), time.monotonic_ns())
    return replace(frame, problem=problem)
