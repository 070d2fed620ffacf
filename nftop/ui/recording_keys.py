"""Keys of recording, replay and baselines."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

from nftop.model.baseline import LEAST_TICKS
from nftop.model.clock import NS_PER_S, shown_zone
from nftop.model.replay_position import Position
from nftop.model.time_forms import span_ns
from nftop.render.frame.header import recorded, recording_text
from nftop.render.timeline.axis import span_text
from nftop.session.feed import PastControl, Player, TimeControl
from nftop.session.time_spec import forms, moment_ns, zone_name
from nftop.store.recording.recorder import Recording
from nftop.ui.messages import WrongAnswerError
from nftop.ui.options import Options
from nftop.ui.session_view import SessionView

_NO_PAST = "nothing of the past is kept here"
GOING_BACK = "going back: the minute before that moment is computed again"
_MOST_KEPT_NS = 86_400 * NS_PER_S
_OFFERED_S = 600
_NO_RECORDER = "a replay cannot be recorded: copy its file"


class RecordingKeys:
    """Actions on recorder and player; messages go to `SessionView.message`.

    Those of other threads, once a recording or report is written, go to `report`.

    Attributes:
        replays: whether the feed is a replay.
        acts: actions by name.
        questions: prompts by action: subject, label and initial text; None: no prompt.
        answers: handlers of prompts by subject.
    """

    def __init__(
        self, session: SessionView, options: Options, report: Callable[[str], None]
    ) -> None:
        self._session = session
        self._report = report
        self._recorder, self._new_sink = options.recorder, options.new_sink
        self._write_report = options.report
        self._player = session.feed if isinstance(session.feed, Player) else None
        self._events = options.events
        self.replays = self._player is not None
        self._marked_ns = 0
        self._baseline_kept = False  # by the last key for baselines
        session.recording = self._state
        self.acts: Mapping[str, Callable[[int], object]] = {
            "pause": self._pause,
            "record": self._record,
            "step": self._in_time(lambda control, by: control.step(by)),
            "marker": self._in_time(lambda control, by: control.to_marker(by)),
            "faster": self._in_time(lambda control, by: control.faster(by)),
            "shift": self._in_time(lambda control, by: control.shift(by * NS_PER_S)),
            "baseline": lambda by: self._baseline(keep=by > 0),
        }
        self.questions: Mapping[str, Callable[[], tuple[str, str, str] | None]] = {
            "ask_mark": self._ask_mark,
            "ask_keep": self._ask_keep,
            "ask_report": self._ask_report,
        }
        self.answers: Mapping[str, Callable[[str], None]] = {
            "mark": self._mark,
            "keep": lambda text: self._keep(text, self._kept),
            "report": lambda text: self._keep(text, self._kept_for_report),
        }

    def _state(self) -> str:
        shown = self._recording()
        if shown is None:
            return ""
        return recording_text(
            shown.seconds, shown.lost, shown.problem, over=shown.over, before_s=shown.before_s
        )

    def _recording(self) -> Recording | None:
        """The recording that runs, or the last one if it failed."""
        if self._recorder is None:
            return None
        now, last = self._recorder.recording, self._recorder.last
        return last if now is None and last is not None and last.over else now

    def _in_time(self, do: Callable[[TimeControl, int], None]) -> Callable[[int], None]:
        def act(by: int) -> None:
            control = self._session.time
            if control is None:
                self._session.message = _NO_PAST
                return
            do(control, by)
            if isinstance(control, PastControl):
                going = GOING_BACK if control.active and self._session.past is None else ""
                self._session.message = control.problem or going

        return act

    def _pause(self, _: int) -> None:
        if self._player is None:
            self._session.pause()
        else:
            self._player.pause()

    def _record(self, _: int) -> None:
        if self._recorder is None or self._new_sink is None:
            self._session.message = _NO_RECORDER
            return
        now = self._recorder.recording
        if now is not None and not now.over:
            self._recorder.stop()
            self._session.message = recorded(_name_first(now.name), now.ticks, now.size)
            return
        sink = self._new_sink()
        self._session.message = f"recording into {sink.name}"
        self._recorder.start(sink, on_end=self._failed)

    def _failed(self, done: Recording) -> None:
        """In the recorder's thread: a recording has ended, perhaps before its first sample."""
        if done.over and not done.ticks:
            self._session.message = f"nothing recorded into {done.name}: {done.problem}"

    def _ask_keep(self) -> tuple[str, str, str] | None:
        control = self._session.time
        if self._recorder is None or not isinstance(control, PastControl):
            self._session.message = _NO_RECORDER
            return None
        kept_s = control.kept.seconds
        label = f"past to keep as a recording (5m, 90s), of {span_text(kept_s)} kept"
        return "keep", label, keep_default(kept_s)

    def _ask_report(self) -> tuple[str, str, str] | None:
        question = self._ask_keep()
        if question is None or self._write_report is None:
            return None
        _, label, initial = question
        return "report", label.replace("keep as a recording", "report"), initial

    def _keep(self, text: str, done: Callable[[Recording], None]) -> None:
        try:
            # A number alone is minutes.
            keep_ns = span_ns(f"{text}m" if text[-1:].isdigit() else text)
        except ValueError:
            keep_ns = 0
        if self._recorder is None or self._new_sink is None or not 0 < keep_ns <= _MOST_KEPT_NS:
            raise WrongAnswerError(f"no span of time, such as 5m or 90s: {text}")
        sink = self._new_sink()
        self._session.message = f"writing {sink.name}"
        self._recorder.keep(sink, keep_ns, done)

    def _kept(self, done: Recording) -> None:
        """In the recorder's thread."""
        name = _name_first(done.name)
        text = recorded(name, done.ticks, done.size)
        self._report(f"{name}: {done.problem}" if done.problem else text)

    def _kept_for_report(self, done: Recording) -> None:
        """In the recorder's thread; the report is written in another one."""
        self._kept(done)
        if self._write_report is not None and done.ticks and not done.problem:
            self._report(f"writing the report of {_name_first(done.name)}")
            self._write_report(done.name, self._report)

    def _baseline(self, *, keep: bool) -> None:
        """Of the newest ticks, even if the screen is frozen; not while it shows the past."""
        if self._session.past is not None:
            self._session.message = "a baseline is of now: End returns to now"
            return
        self._session.feed.baseline(keep=keep)
        if keep:
            message = (
                f"vs.base compares with the last ticks, {LEAST_TICKS} at least; B forgets them"
            )
        elif self._player is not None:
            message = "from the next tick on: the recording's own baseline, if any"
        else:
            newest = self._session.newest
            # The newest frame lacks a baseline that was kept since.
            had = self._baseline_kept or (newest is not None and newest.baselines is not None)
            message = "baseline forgotten" if had else "no baseline to forget: b keeps one"
        self._baseline_kept = keep
        self._session.message = message

    def _ask_mark(self) -> tuple[str, str, str] | None:
        if self._recorder is None:
            self._session.message = _NO_RECORDER
            return None
        # The marker is of the time of the key press.
        self._marked_ns = time.time_ns()
        return "mark", "marker's text, if any", ""

    def _mark(self, text: str) -> None:
        if self._recorder is None:
            return
        self._recorder.mark(text, self._marked_ns)
        self._events.mark(text, self._marked_ns)
        running = self._recording()
        problem = "" if running is None else running.problem
        more = f" on screen, not in the recording: {problem}" if problem else ""
        more += "; R records it with the last minutes" * (running is None)
        self._session.message = f"marked{more}"

    def ask_seek(self) -> tuple[str, str, str] | None:
        """The question for a moment; None and a message if there is no past."""
        if self._session.time is None:
            self._session.message = _NO_PAST
            return None
        zone = zone_name(shown_zone())
        return "seek", f"go to (03:12:07 {zone}, +30s from start, -5m from end, start, end)", ""

    def seek_text(self, text: str) -> None:
        """Go to a moment as an operator writes it."""
        control = self._session.time
        here = None if control is None else self._reach(control)
        if control is None or here is None or not text:
            return
        try:
            self.seek(moment_ns(text, here, shown_zone()))
        except ValueError:
            self._session.message = f"no time: {forms(shown_zone())}"

    def seek(self, wall_ns: int) -> None:
        """Go to a moment; the message says if nothing is kept of it."""
        self._in_time(lambda control, at_ns: control.seek(at_ns))(wall_ns)

    def _reach(self, control: TimeControl) -> Position | None:
        """What can be gone to, and where it is now; None before there is anything."""
        if not isinstance(control, PastControl):
            return control.position
        size = control.kept
        return Position(size.last_ns, size.first_ns, size.last_ns, 0) if size.ticks else None


def keep_default(kept_s: float) -> str:
    """Ten minutes, or all that is kept where that is less: whole minutes, else whole seconds."""
    whole = min(math.ceil(kept_s), _OFFERED_S)
    return f"{whole}s" if whole % 60 else f"{whole // 60}m"


def _name_first(path: str) -> str:
    """A file's name before its folder, which a narrow screen cuts."""
    folder, _, name = path.rpartition("/")
    return f"{name} in {folder}" if folder else name
