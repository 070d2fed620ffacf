"""Recordings of findings: a new one begins a recording that has the minutes before it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from nftop.model.frame import Finding, Frame
from nftop.model.incident import Severity
from nftop.model.struct import dataclass, replace
from nftop.store.recording.recorder import NO_ANSWER, Recorder, Recording
from nftop.store.recording.sink import Sink

# A recording ends after this multiple of `after_ns`, even if findings go on.
MOST_AFTER = 12


@dataclass(frozen=True, slots=True)
class RecordingTrigger:
    """When recordings begin and end.

    Attributes:
        rules: of findings that begin one; empty: incidents that harm. Muted ones never do.
        before_ns: time before it. after_ns: time after the last one that began meanwhile.
    """

    rules: frozenset[str]
    before_ns: int
    after_ns: int


@dataclass(slots=True, eq=False)
class _Run:
    """A recording; `ended` is set in the recorder's thread."""

    sink: Sink
    began_ns: int  # CLOCK_MONOTONIC
    findings: int = 0
    goes_on: bool = False
    ended: Recording | None = None

    def end(self, done: Recording) -> None:
        self.ended = done


class FindingRecorder:
    """Begins and ends the recordings of a session. For the thread of its frames.

    Attributes:
        count: recordings that were begun. incomplete: those of them that lack ticks.
    """

    def __init__(
        self,
        recorder: Recorder,
        trigger: RecordingTrigger,
        new_sink: Callable[[int], Sink],
        report: Callable[[Recording, int, bool], None],
    ) -> None:
        """Nothing is recorded before the first finding.

        Args:
            recorder: has a flight recorder, and takes every sample.
            trigger: when a recording begins and ends.
            new_sink: creates the sink of a new file from the finding's wall time, in ns.
            report: called after a recording has ended, with the number of its findings (or
                incidents) and whether they go on.
        """
        self._recorder, self._trigger = recorder, trigger
        self._new_sink, self._report = new_sink, report
        self._running: _Run | None = None
        self._unreported: deque[_Run] = deque()  # in the order of their begin, which is their end's
        self._until_ns = 0
        self._harmful: frozenset[str] = frozenset()
        self.count = self.incomplete = 0

    def on_finding(self, finding: Finding, wall_ns: int, monotonic_ns: int) -> None:
        """The first tick that has a finding, after its sample was taken."""
        self._recorder.record_finding(finding, wall_ns, monotonic_ns)
        if finding.rule in self._trigger.rules and not finding.is_muted:
            self._begin(wall_ns, monotonic_ns)

    def on_frame(self, frame: Frame) -> None:
        """Begin a recording if an incident harms, or end the one that runs."""
        if not self._trigger.rules:
            harmful = frozenset(
                item.id
                for item in frame.incidents
                if item.severity > Severity.INFO and not item.muted
            )
            for _ in harmful - self._harmful:
                self._begin(frame.wall_ns, frame.monotonic_ns)
            self._harmful = harmful
        run = self._running
        if run is not None:
            now_ns = frame.monotonic_ns
            longest_ns = run.began_ns + MOST_AFTER * self._trigger.after_ns
            run.goes_on = longest_ns <= now_ns < self._until_ns
            if now_ns >= min(self._until_ns, longest_ns):
                self._recorder.stop()
                self._running = None
        self._report_ended()

    def close(self) -> Recording | None:
        """Close the recorder, report every recording, and return the last one.

        A recording whose end the disk did not confirm is reported with that problem.
        """
        last = self._recorder.close()
        now = self._recorder.recording
        for run in self._unreported:
            if run.ended is None:  # the disk does not answer
                sink = run.sink
                state = Recording(sink.name, 0.0, sink.ticks, sink.size, sink.lost, "")
                state = now if now is not None and now.name == sink.name else state
                run.ended = replace(state, problem=NO_ANSWER, over=True)
        self._report_ended()
        return last

    def _begin(self, wall_ns: int, monotonic_ns: int) -> None:
        """Begin a recording, or prolong the one that runs and could be written so far."""
        if self._running is None or self._running.ended is not None:
            self._running = run = _Run(self._new_sink(wall_ns), monotonic_ns)
            self._unreported.append(run)
            self._recorder.start(run.sink, self._trigger.before_ns, run.end)
            self.count += 1
        self._running.findings += 1
        self._until_ns = monotonic_ns + self._trigger.after_ns

    def _report_ended(self) -> None:
        while self._unreported and (done := self._unreported[0].ended) is not None:
            run = self._unreported.popleft()
            self.incomplete += bool(done.lost or done.problem or not done.ticks)
            self._report(done, run.findings, run.goes_on)
