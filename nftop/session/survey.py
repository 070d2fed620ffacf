"""Reads a recording in the background, for its timeline: markers, totals, then incidents."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from nftop.model.clock import NS_PER_S
from nftop.model.frame import Frame
from nftop.model.rule_settings import RuleSettings
from nftop.session.interval import last_tick_ns
from nftop.session.reader import Tape
from nftop.store.format.records import Marker
from nftop.store.history.events import HOURS_KEPT, EventHistory
from nftop.store.reading.bytes import Readable
from nftop.store.reading.scan import Scan
from nftop.store.reading.seek import next_position, positions

# Share of a CPU that it takes at most, and CPU time in all.
SHARE = 0.25
MOST_CPU_S = 120.0
# Longer recordings show some ticks of each minute before all are folded.
SAMPLED_FROM_NS = 1_800_000_000_000
_SAMPLED_TICKS = 3
# Records without samples are read in groups of so many.
_AT_ONCE = 256


def events_of(data: Readable) -> EventHistory:
    """An empty history whose totals cover all of a recording, hours of a pipe. Raises OSError."""
    if data.piped:
        return EventHistory()
    first = next_position(data, data.first)
    if first is None:
        return EventHistory()
    span_s = max(0, last_tick_ns(data) - first.point.wall_ns) // NS_PER_S
    return EventHistory(step_ns=(1 + span_s // (HOURS_KEPT * 3600)) * NS_PER_S)


class RecordingSurvey:
    """One recording's events and totals, for an `EventHistory`."""

    def __init__(
        self,
        data: Readable,
        events: EventHistory,
        rules: RuleSettings,
        *,
        wait: Callable[[float], bool] | None = None,
        cpu_s: Callable[[], float] = time.thread_time,
    ) -> None:
        """Nothing is read before `start`.

        Args:
            data: the recording, for this reader alone; it is closed at the end.
            events: filled.
            rules: settings of rules that incidents are found with.
            wait: waits so many seconds; returns whether to end. Default: real time.
            cpu_s: CPU time of this thread so far.
        """
        self._data = data
        self._events = events
        self._rules = rules
        self._stopped = threading.Event()
        self._wait = wait or self._stopped.wait
        self._cpu_s = cpu_s
        self._used_s = 0.0
        self._thread = threading.Thread(target=self.run, name="nftop-survey", daemon=True)

    def start(self) -> None:
        """Read it in a thread of its own."""
        self._thread.start()

    def stop(self) -> None:
        """End soon."""
        self._stopped.set()
        self._data.stop()
        if self._thread.is_alive():
            self._thread.join()

    def run(self) -> None:
        """Read it: markers of all of it, totals of its minutes, then incidents tick by tick."""
        self._events.scanned_ns = 0
        try:
            first = next_position(self._data, self._data.first)
            self._events.scanned_ns = 0 if first is None else first.point.wall_ns
            if first is None or not self._markers():
                return
            long = last_tick_ns(self._data) - first.point.wall_ns >= SAMPLED_FROM_NS
            if (not long or self._minutes()) and self._incidents():
                self._events.scanned_ns = None
        except (InterruptedError, OSError):
            return  # what is known so far stays
        finally:
            self._data.close()

    def _markers(self) -> bool:
        scan, began_s, number = Scan(self._data, samples=False), self._cpu_s(), 0
        while (item := scan.next()) is not None:
            if isinstance(item, Marker):
                self._events.mark(item.text, item.wall_ns, kind=item.kind, detail=item.detail)
            number += 1
            if number % _AT_ONCE == 0 and not self._pause(began_s):
                return False
            began_s = self._cpu_s() if number % _AT_ONCE == 0 else began_s
        return True

    def _minutes(self) -> bool:
        """A few ticks behind each seek point: drops and traffic, without incidents."""
        tape = Tape(self._data)
        for position in positions(self._data, self._data.first):
            if position.point.end:
                continue
            began_s = self._cpu_s()
            tape.restart(position)
            for tick in range(_SAMPLED_TICKS):
                shown = tape.forward()
                if shown is not None and tick:
                    self._take(shown.frame, incidents=False)
            if not self._pause(began_s):
                return False
        return True

    def _incidents(self) -> bool:
        """Every tick in order; whether all of them were folded."""
        tape = Tape(self._data)
        tape.rules = self._rules
        while True:
            began_s = self._cpu_s()
            shown = tape.forward()
            if shown is None:
                return True
            self._take(shown.frame, incidents=True)
            self._events.scanned_ns = shown.wall_ns
            if not self._pause(began_s) or self._used_s > MOST_CPU_S:
                return False

    def _take(self, frame: Frame, *, incidents: bool) -> None:
        self._events.append(frame, incidents=incidents)

    def _pause(self, began_s: float) -> bool:
        """Keep to the share of a CPU; whether to go on."""
        used_s = max(0.0, self._cpu_s() - began_s)
        self._used_s += used_s
        return not self._wait(used_s * (1 / SHARE - 1)) and not self._stopped.is_set()
