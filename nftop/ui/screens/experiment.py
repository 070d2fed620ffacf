"""An experiment on screen: what it will do, the curve as it grows, the offer at its end."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar

from textual.binding import BindingType

from nftop.control.resctrl.sweep import SweepRequest, set_actions, set_command
from nftop.derive.experiment.curve import curve_of
from nftop.derive.experiment.engine import ExperimentState
from nftop.model.change import ClassAction
from nftop.model.experiment import Curve, Experiment
from nftop.model.rdt.rdt import class_name
from nftop.model.struct import replace
from nftop.render.base.line import Line, Span, Tone, line
from nftop.render.base.table import indented
from nftop.render.experiment.page import CourseFacts, course_lines, plan_lines
from nftop.render.experiment.text import accelerated_text, trial_text
from nftop.render.frame.header import alert_lines, badge_lines
from nftop.store.history.experiments import RecordedExperiment
from nftop.ui.change_control import ChangeControl
from nftop.ui.experiment_control import ExperimentView
from nftop.ui.key_bindings import EXPERIMENT, TIME, KeyRow, Mode, bindings
from nftop.ui.options import Options
from nftop.ui.screens.base import BannerScreen
from nftop.ui.session_view import SessionView
from nftop.ui.widgets.lines import Lines

_LOCKED = "read-only: this is what it would do; start nftop with --rw to start it"
_PENDING = "one change at a time: the present one is to be kept or taken back first"
# Moving in time is for recordings.
_LIVE_KEYS = tuple(row for row in EXPERIMENT if row not in TIME)
_ACCELERATED = " ACCELERATED "
_NOTE = "a simulated host of its own"


class ExperimentScreen(BannerScreen[tuple[ClassAction, ...] | None]):
    """Result: actions for the draft, if the offer is taken."""

    follows = True

    BINDINGS: ClassVar[list[BindingType]] = bindings(EXPERIMENT)
    PANEL: ClassVar[str] = "experiment"
    HAS_PROMPT: ClassVar[bool] = True

    def __init__(
        self,
        group: str,
        changes: ChangeControl,
        session: SessionView,
        options: Options,
        *,
        recorded: Callable[[], RecordedExperiment | None] | None = None,
    ) -> None:
        """`group`: directory of the class to sweep. `recorded`: of a recording, as far as it is."""
        super().__init__()
        self.changes = changes
        self._control = changes.experiment
        self._recorded = recorded
        self._curve: tuple[RecordedExperiment | None, Curve] = None, Curve(())
        self._session = session
        self._options = options
        self._request = SweepRequest(group)
        self._chosen = 0
        # Lines of the plan shown so far, and those that must be before it can start.
        self._seen, self._masks = 0, 0
        self._acts: Mapping[str, Callable[[int], object]] = {
            "start": lambda _: self._start(),
            "close": lambda _: self._close(),
            "draft": self._draft,
            "copy": lambda _: self._copy(),
            "again": lambda _: self._prepare(),
            "swap": lambda _: self._swap(),
            "help": lambda _: self.open_help("experiment", self._options),
            "ask_ways": lambda _: self._ask("ways", "numbers of ways to try (1-8)"),
            "ask_watch": lambda _: self._ask("watch", "network functions to watch (vpp,ovs)"),
        }

    def on_mount(self) -> None:
        if self._recorded is None and not self._control.busy:
            self._prepare()

    def on_resize(self) -> None:
        self._seen = 0  # the lines have changed

    @property
    def modes(self) -> set[Mode]:
        view, modes = self._view, super().modes
        if view.stage == "planned":
            modes.add("planned")
        elif view.stage in ("running", "ending"):
            modes.add("running")
        elif view.stage == "done":
            modes.add("measured")
            if self._offers(0) is not None:
                modes.add("offer")
        return modes

    @property
    def key_rows(self) -> tuple[KeyRow, ...]:
        if self._recorded is not None:
            return EXPERIMENT
        if not self._control.busy:
            return _LIVE_KEYS
        return tuple(
            replace(row, hint=("Esc", "end it, restore")) if row.action == "close" else row
            for row in _LIVE_KEYS
        )

    def action_act(self, action: str, by: int) -> None:
        self._message = ""
        if action in self._acts:
            self._acts[action](by)
        else:
            self._top += by * (max(1, self.size.height - 2) if action == "page" else 1)
        if self.is_current:
            self.paint()

    def paint(self) -> None:
        taken = self.show_banner()
        if taken is None:
            return
        width, height = self.text_width, max(0, self.size.height - 1 - taken)
        view = self._view
        lines = (
            self._recorded_lines(width, height)
            if self._recorded is not None
            else self._lines(view, width, height)
        )
        shown, position = self.in_view(lines, height)
        self.query_one("#experiment", Lines).show(indented(shown), height)
        if view.stage == "planned" and view.plan is not None:
            # A `y` typed ahead must not start what was not shown.
            self.call_after_refresh(self._is_painted, view.plan, self._top + len(shown))
        position = position if len(lines) > height else ""
        self.show_footer(position=position, message=self._message)

    # Drawing

    @property
    def _view(self) -> ExperimentView:
        return self._control.view

    @property
    def _badges(self) -> list[Line]:
        frame = self._session.newest
        badges = [] if frame is None else badge_lines(frame.host)
        accelerated = [line(Span(_ACCELERATED, Tone.BADGE))] * self._view.accelerated
        return [*badges, *accelerated]

    def _lines(self, view: ExperimentView, width: int, height: int) -> list[Line]:
        if view.plan is None or (view.why and view.stage != "done"):
            badges = [item for badge in self._badges for item in (badge, " ")]
            head = line(
                *badges, Span("Experiment: sweep of ", Tone.STRONG), class_name(self._request.group)
            )
            why = view.why or "planning: measuring the network functions, reading the classes"
            return [head, *alert_lines(why, width=width)]
        if view.stage == "planned":
            lines, self._masks = plan_lines(
                view.plan,
                view.ways,
                width,
                self._badges,
                obstacle=self._obstacle(),
                note=f"{_NOTE}, {accelerated_text(view.plan, view.pace)}" * view.accelerated,
            )
            return lines
        lines = course_lines(self._facts(view, view.plan), width, height)
        return [*lines, *(alert_lines(view.why, width=width) if view.why else [])]

    def _recorded_lines(self, width: int, height: int) -> list[Line]:
        known = None if self._recorded is None else self._recorded()
        if known is None:
            return alert_lines("the experiment has not begun yet", width=width)
        if known.plan.kind == "try":
            head = f"try {known.plan.settings[1].label} against now: {len(known.visits)} visits"
            return [line(head), *map(line, trial_text(known.plan, known.visits, width))]
        if known != self._curve[0]:
            self._curve = known, curve_of(known.plan, known.visits)
        last = known.visits[-1] if known.visits else None
        state = ExperimentState(
            phase="ended" if known.ended else "measuring",
            round=0 if last is None else last.round,
            setting=-1 if last is None else last.setting,
            visits=known.visits,
            ended=known.ended,
            detail=known.detail,
        )
        curve = self._curve[1]
        if known.ended not in (None, "clear", "rounds"):
            curve = replace(curve, recommended=None, tolerated=None, decided=False)
        frame = self._session.newest
        badges = [] if frame is None else badge_lines(frame.host)
        badges += [line(Span(_ACCELERATED, Tone.BADGE))] * known.accelerated
        facts = CourseFacts(
            known.plan,
            state,
            curve,
            outcome=known.outcome,
            chosen=self._chosen,
            badges=badges,
            recorded=True,
        )
        return course_lines(facts, width, height)

    def _facts(self, view: ExperimentView, plan: Experiment) -> CourseFacts:
        receipt = None if view.result is None else view.result.receipt
        chosen = self._offers(0)
        command = ""
        if chosen is not None and plan.settings[chosen].changes and self._control.gate is not None:
            command = set_command(plan, chosen, self._control.gate.program)
        outcome = "" if receipt is None else receipt.outcome
        return CourseFacts(
            plan,
            view.state,
            view.curve,
            outcome=outcome or ("failed" if view.stage == "done" else ""),
            sentences=() if receipt is None else receipt.sentences,
            chosen=self._chosen,
            command=command,
            badges=self._badges,
            ending=view.stage == "ending",
        )

    def _is_painted(self, plan: Experiment, upto: int) -> None:
        if plan is self._view.plan:
            self._seen = max(self._seen, upto)

    def _obstacle(self) -> str:
        """Why it cannot start; "" if it can."""
        if not self._options.rw:
            return _LOCKED
        return _PENDING if self.changes.state.phase != "none" else ""

    def _offers(self, by: int) -> int | None:
        """The recommended setting, or with `by` the one within the tolerance; None: neither."""
        view = self._view
        if view.stage != "done" or view.result is None:
            return None
        if view.result.receipt.outcome != "reverted":
            return None
        curve = view.result.curve
        return curve.tolerated if by else curve.recommended

    # Actions of keys

    def _prepare(self) -> None:
        frame = self._session.newest
        if self._control.busy:
            self.show_message("it runs: Esc ends it")
            return
        self._seen = self._top = 0
        if frame is None or self._recorded is not None:
            why = "waiting for the first tick" if frame is None else "this is a recording"
            self.show_message(why)
            return
        # A new order each time; the plan shows its seed.
        request = replace(self._request, seed=frame.wall_ns % 1_000_000)
        program = "" if self._control.gate is None else self._control.gate.program
        request = replace(request, commands=(_command(request, program),))
        self.app.run_worker(
            partial(self._control.prepare, request, frame),
            name="experiment-plan",
            thread=True,
            exit_on_error=False,
        )

    def _start(self) -> None:
        obstacle = self._obstacle()
        if self._view.stage != "planned":
            obstacle = "there is no plan to start"
        elif not obstacle and self._seen < self._masks:
            obstacle = "masks continue below: read them first" if self._seen else "not shown yet"
        if obstacle or not self._control.begin():
            self.show_message(obstacle or "nftop is ending")
            return
        self._top = 0
        # A worker of the application: it outlives this screen.
        self.app.run_worker(self._control.run, name="experiment", thread=True, exit_on_error=False)

    def _close(self) -> None:
        if self._recorded is not None:
            self.dismiss(None)
        elif self._control.busy:
            self._control.stop()
        else:
            self._control.forget()
            self.dismiss(None)

    def _draft(self, by: int) -> None:
        view, setting = self._view, self._offers(by)
        if setting is None or view.plan is None:
            self.show_message("there is no recommended mask")
            return
        if not view.plan.settings[setting].changes:
            self.show_message("that is the present mask: there is nothing to change")
            return
        actions = set_actions(view.plan, setting)
        self._control.forget()
        self.dismiss(actions)

    def _copy(self) -> None:
        view = self._view
        command = "" if view.plan is None else self._facts(view, view.plan).command
        if command:
            self.copy([command], "command")
        else:
            self.show_message("there is no command to copy")

    def _swap(self) -> None:
        self._chosen += 1

    def _ask(self, about: str, label: str) -> None:
        if self._recorded is not None or self._view.stage not in ("planned", "none"):
            self.show_message("it runs or is over: T plans it again")
            return
        self.ask(about, label)

    def answer(self, about: str, text: str) -> None:
        if about == "watch":
            names = tuple(filter(None, (name.strip() for name in text.split(","))))
            self._request = replace(self._request, watch=names)
        else:
            low, _, high = text.partition("-")
            numbers = (low.strip(), (high or low).strip())
            if text and not all(item.isascii() and item.isdigit() for item in numbers):
                self._message = f"{text!r} is not N-M, numbers of ways such as 1-8"
                return
            widths = (int(numbers[0]), int(numbers[1])) if text else None
            if widths is not None and not 1 <= widths[0] < widths[1] <= 64:
                self._message = "1 to 64 ways, two at least, the least first, such as 1-8"
                return
            self._request = replace(self._request, widths=widths)
        self._prepare()


def _command(request: SweepRequest, program: str) -> str:
    """The equivalent command line, for the history."""
    words = ["cat", "sweep", "--group", class_name(request.group)]
    if request.widths is not None:
        words += ["--ways", "{}-{}".format(*request.widths)]
    if request.watch:
        words += ["--watch", ",".join(request.watch)]
    return f"{program} {shlex.join([*words, '--seed', str(request.seed)])}"
