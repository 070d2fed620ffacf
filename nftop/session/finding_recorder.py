"""Recordings of findings: a new one begins a recording that has the minutes before it."""

from __future__ import annotations

from collections.abc import Callable

from nftop.model.frame import Finding, Frame
from nftop.model.incident import Severity
from nftop.model.struct import dataclass
from nftop.store.recording.recorder import Recorder, Recording
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
            new_sink: a new file, by the wall time of the finding.
            report: called after a recording has ended, with the number of its findings (or
                incidents) and whether they go on.
        """
        self._recorder, self._trigger = recorder, trigger
        self._new_sink, self._report = new_sink, report
        self._began_ns: int | None = None  # of the recording that runs, CLOCK_MONOTONIC
        self._until_ns = 0
        self._findings = 0
        self._goes_on = False
        self._harmful: frozenset[str] = frozenset()
        self._reported: Recording | None = None
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
        if self._began_ns is None:
            self._report_ended()
            return
        now_ns = frame.monotonic_ns
        longest_ns = self._began_ns + MOST_AFTER * self._trigger.after_ns
        self._goes_on = longest_ns <= now_ns < self._until_ns
        if now_ns >= min(self._until_ns, longest_ns):
            self._recorder.stop()
            self._began_ns = None
        elif self._recorder.recording is None and self._recorder.last is not self._reported:
            # It could not be written; the next finding tries again.
            self._began_ns = None
            self._report_ended()

    def close(self) -> None:
        """End the recording that runs, and wait for its end."""
        self._recorder.close()
        self._began_ns = None
        self._report_ended()

    def _begin(self, wall_ns: int, monotonic_ns: int) -> None:
        """Begin a recording, or prolong the one that runs."""
        if self._began_ns is None:
            self._report_ended()
            self._recorder.start(self._new_sink(wall_ns), self._trigger.before_ns)
            self._began_ns, self._findings = monotonic_ns, 0
            self.count += 1
        self._findings += 1
        self._until_ns = monotonic_ns + self._trigger.after_ns

    def _report_ended(self) -> None:
        last = self._recorder.last
        if last is not None and last is not self._reported:
            self._reported = last
            self.incomplete += bool(last.lost or last.problem or not last.ticks)
            self._report(last, self._findings, self._goes_on)
