"""The experiment under way: planned, run and ended in threads of its own; shared by all screens.

It changes the host through the gate only, as `change_control` does: a guard writes and restores.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Literal, TypeAlias

from nftop.control.gate_protocols import ClassGate, PendingSeries
from nftop.control.resctrl.sweep import SweepError, SweepRequest, plan_sweep
from nftop.derive.experiment.curve import curve_of
from nftop.derive.experiment.engine import ExperimentState
from nftop.model.change import Change, Proposal, Receipt
from nftop.model.error_text import error_sentence
from nftop.model.experiment import Curve, Experiment
from nftop.model.frame import Frame
from nftop.model.ids import L3Domain
from nftop.model.struct import dataclass, field, replace
from nftop.render.experiment.text import answer_text
from nftop.session.experiment import ExperimentHost, ExperimentResult, first_frame, run_experiment
from nftop.store.history.experiments import ExperimentLog, NoteStep

Stage: TypeAlias = Literal["none", "planning", "planned", "running", "ending", "done"]
# Without a frame for so long the experiment ends; the guard gives up earlier.
_SILENCE_S = 20.0
# Seconds between two drawings while only time passes.
_DRAW_S = 0.2
# Experiments need a reading every so many seconds: else the guard hears too little.
MOST_INTERVAL_S = 5.0
_SLOW = "an experiment needs a reading every {:g} s at least: d sets the delay"


@dataclass(frozen=True, slots=True)
class ExperimentView:
    """The experiment as screens show it.

    Attributes:
        stage: `planned`: it waits for the operator's word; `ending`: the guard restores.
        why: why there is no plan, or why it could not begin; "" otherwise.
        ways: of the caches, by line of schemata.
        curve: of the visits so far.
        result: once it is over.
        accelerated: it runs on a simulated host whose minutes take seconds.
        pace: of that host, as `ExperimentHost.pace`.
    """

    stage: Stage = "none"
    why: str = ""
    plan: Experiment | None = None
    ways: Mapping[str, int] = field(default_factory=dict)
    state: ExperimentState = field(default_factory=ExperimentState)
    curve: Curve = field(default_factory=lambda: Curve(()))
    result: ExperimentResult | None = None
    accelerated: bool = False
    pace: float = 1.0


class _FrameQueue:
    """Frames between two threads, in order."""

    def __init__(self) -> None:
        self._frames: deque[Frame] = deque()
        self._is_over = False
        self._condition = threading.Condition()

    def put(self, frame: Frame) -> None:
        with self._condition:
            if not self._is_over:
                self._frames.append(frame)
                self._condition.notify()

    def end(self) -> None:
        """No more frames are wanted."""
        with self._condition:
            self._is_over = True
            self._condition.notify()

    def get(self) -> Frame | None:
        """The next frame; None: it is over, or none has come for too long."""
        with self._condition:
            self._condition.wait_for(lambda: self._frames or self._is_over, _SILENCE_S)
            return None if self._is_over or not self._frames else self._frames.popleft()


def _queued(frames: _FrameQueue) -> Generator[Frame, None, None]:
    while (frame := frames.get()) is not None:
        yield frame


class ExperimentControl:
    """One experiment at a time. `prepare` and `run` block: call them in threads."""

    def __init__(
        self,
        gate: ClassGate | None,
        on_change: Callable[[], None],
        *,
        open_host: Callable[[], ExperimentHost] | None = None,
        wrote: Callable[[Sequence[Change], int], None] = lambda _changes, _began_ns: None,
        now_ns: Callable[[], int] = time.monotonic_ns,
        note: NoteStep | None = None,
    ) -> None:
        """`on_change`: called when `view` changes. `wrote`: receives writes to the host shown.

        `open_host`: the host to run on, if not the one shown, whose frames `take` receives.
        `now_ns`: the clock of these frames. `note`: notes steps in a recording.
        `gate`: None if nothing can be changed.
        """
        self.view = ExperimentView()
        self.gate = gate
        self._on_change = on_change
        self._open_host = open_host
        self._wrote = wrote
        self._now_ns = now_ns
        self._note = note
        self._host: ExperimentHost | None = None
        self._frames = _FrameQueue()
        self._lock = threading.Lock()
        self._drawn_s = 0.0
        self._number = 0  # of the plan requested last
        self._closing = False
        # By class the plan and the recommended setting of its last sweep.
        self._answers: Mapping[str, tuple[Experiment, int]] = {}

    @property
    def busy(self) -> bool:
        """Whether settings are being tried, or the state before them restored."""
        return self.view.stage in ("running", "ending")

    def take(self, frame: Frame) -> None:
        """A frame of the host shown; from any thread."""
        if self.busy:
            self._frames.put(frame)

    def prepare(self, request: SweepRequest, frame: Frame) -> None:
        """Plan a sweep: nothing is written. `frame`: of the host shown.

        A plan that is ready after another was requested, or dropped, is left out.
        """
        with self._lock:
            if self.view.stage in ("running", "ending"):
                return
            self._number += 1
            number = self._number
            self.view = ExperimentView("planning")
        self._drop_host()
        self._on_change()
        host: ExperimentHost | None = None
        frames = _FrameQueue()
        try:
            host = self._opened(frames)
            seen = first_frame(host) if host.accelerated else frame
            if seen is None or seen.elapsed_s > MOST_INTERVAL_S:
                raise SweepError(_SLOW.format(MOST_INTERVAL_S))
            gate = host.gate
            rules = gate.host.rules()
            plan = plan_sweep(request, seen, gate.host.state(), rules, gate.propose(()).identity)
        except Exception as error:  # noqa: BLE001 - the boundary: a sentence, whatever it is
            self._planned(number, host, frames, ExperimentView("none", why=error_sentence(error)))
            return
        ways = {line: rule.ways for line, rule in rules.masks.items()}
        view = ExperimentView(
            "planned", "", plan, ways, accelerated=host.accelerated, pace=host.pace()
        )
        self._planned(number, host, frames, view)

    def _planned(
        self, number: int, host: ExperimentHost | None, frames: _FrameQueue, view: ExperimentView
    ) -> None:
        """Show a plan, or why there is none, if it is the one requested last."""
        with self._lock:
            is_last = number == self._number and self.view.stage == "planning"
            if is_last:
                self.view = view
                self._host = host if view.stage == "planned" else None
                self._frames = frames
        if host is not None and not (is_last and view.stage == "planned"):
            host.stop()
            host.frames.close()
        self._on_change()

    def begin(self) -> bool:
        """Reserve the control for a run of the plan; True: call `run` for it."""
        with self._lock:
            if self.view.stage != "planned" or self._closing:
                return False
            self.view = replace(self.view, stage="running")
        self._on_change()
        return True

    def run(self) -> None:
        """Run the plan to its end; the state before it is restored."""
        host, plan = self._host, self.view.plan
        if host is None or plan is None:
            return
        gate = host.gate if host.accelerated else _ReportingGate(host.gate, self._wrote)
        try:
            log = None
            if self._note is not None:
                log = ExperimentLog(plan, self._note, accelerated=host.accelerated)
            result = run_experiment(plan, host.frames, gate, host.now_ns, self._moved, log=log)
        except Exception as error:  # noqa: BLE001 - the boundary: a sentence, whatever it is
            self._show(replace(self.view, stage="done", why=error_sentence(error)))
            return
        finally:
            host.frames.close()
        chosen = result.curve.recommended
        if chosen is not None and result.receipt.outcome == "reverted":
            self._answers = {**self._answers, plan.group: (plan, chosen)}
        self._show(
            replace(self.view, stage="done", state=result.state, curve=result.curve, result=result)
        )

    def other_width(self, group: str, l3: int, bits: int) -> str:
        """What the last sweep of a class found, if a mask has another width; else ""."""
        plan, chosen = self._answers.get(group, (None, 0))
        mask = 0 if plan is None else plan.settings[chosen].masks.get(L3Domain(l3), 0)
        if plan is None or not mask or mask.bit_count() == bits.bit_count():
            return ""
        return answer_text(plan, chosen, L3Domain(l3))

    def stop(self) -> None:
        """End it soon: the guard restores the state before it."""
        with self._lock:
            if self.view.stage == "running":
                self.view = replace(self.view, stage="ending")
        self._end_frames()
        self._on_change()

    def forget(self) -> None:
        """Drop the plan or the result."""
        with self._lock:
            if self.view.stage in ("running", "ending"):
                return
            self.view = ExperimentView()
        self._drop_host()
        self._on_change()

    def close(self) -> None:
        """The application ends: so does the experiment."""
        self._closing = True
        self._end_frames()

    def _end_frames(self) -> None:
        if self._host is not None:
            self._host.stop()

    def _opened(self, frames: _FrameQueue) -> ExperimentHost:
        """The host to run on; `frames`: of the host shown, which only its own stop ends."""
        if self._open_host is not None:
            return self._open_host()
        if self.gate is None:
            raise SweepError("this host cannot be changed from here")
        return ExperimentHost(_queued(frames), self.gate, frames.end, self._now_ns)

    def _drop_host(self) -> None:
        host, self._host = self._host, None
        if host is not None:
            host.stop()
            host.frames.close()

    def _moved(self, state: ExperimentState) -> None:
        """In the thread of the run, after every frame."""
        before, plan = self.view, self.view.plan
        if plan is None:
            return
        curve = before.curve
        news = len(state.visits) != len(before.state.visits)
        if news:
            curve = curve_of(plan, state.visits)
        with self._lock:
            self.view = replace(self.view, state=state, curve=curve)
        now_s = time.monotonic()
        if news or state.phase != before.state.phase or now_s - self._drawn_s >= _DRAW_S:
            self._drawn_s = now_s
            self._on_change()

    def _show(self, view: ExperimentView) -> None:
        with self._lock:
            self.view = view
        self._on_change()


class _ReportingGate:
    """A gate whose writes are reported, so that they are not attributed to others."""

    def __init__(self, gate: ClassGate, wrote: Callable[[Sequence[Change], int], None]) -> None:
        self._gate = gate
        self._wrote = wrote

    def begin_series(
        self, proposal: Proposal, settings: Sequence[Sequence[Change]]
    ) -> PendingSeries:
        return _ReportingSeries(self._gate.begin_series(proposal, settings), proposal, self._wrote)


class _ReportingSeries:
    """A series that reports each setting, and at the end what restores the state before it."""

    def __init__(
        self,
        series: PendingSeries,
        proposal: Proposal,
        wrote: Callable[[Sequence[Change], int], None],
    ) -> None:
        self._series = series
        self._proposal = proposal
        self._wrote = wrote
        self._is_over = False

    @property
    def receipt(self) -> Receipt:
        return self._series.receipt

    def try_setting(self, number: int) -> Receipt:
        began_ns = time.monotonic_ns()
        receipt = self._series.try_setting(number)
        self._wrote(receipt.changes, began_ns)
        return self._ended(receipt, began_ns)

    def alive(self) -> None:
        self._series.alive()

    def end(self) -> Receipt:
        began_ns = time.monotonic_ns()
        return self._ended(self._series.end(), began_ns)

    def settled(self, seconds: float) -> Receipt | None:
        began_ns = time.monotonic_ns()
        receipt = self._series.settled(seconds)
        return None if receipt is None else self._ended(receipt, began_ns)

    def _ended(self, receipt: Receipt, began_ns: int) -> Receipt:
        if receipt.outcome != "applied" and not self._is_over:
            self._is_over = True
            back = [Change(item.cell, item.new, item.old) for item in self._proposal.changes]
            self._wrote(back, began_ns)
        return receipt
