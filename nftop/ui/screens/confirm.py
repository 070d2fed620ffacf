"""The preview of a change, and the one place where it is confirmed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeAlias

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message

from nftop.control.interface import ClassGate
from nftop.model.change import Proposal
from nftop.model.frame import Frame
from nftop.model.rdt.rdt import MbaUnit
from nftop.model.struct import dataclass
from nftop.render.base.line import Line, line
from nftop.render.editor.change import confirm_lines
from nftop.render.frame.header import alert_lines, badge_lines, footer_line
from nftop.ui.keys import CONFIRM, CONFIRM_HINTS, bindings
from nftop.ui.options import Options
from nftop.ui.pending_change import ChangeControl
from nftop.ui.screens.base import BannerScreen
from nftop.ui.screens.page import keys_page
from nftop.ui.widgets.lines import Lines
from nftop.ui.widgets.panels import ChangeBanner, Footer

# A proposal and the changes that it takes back; None where there is nothing to do.
PlanFunction: TypeAlias = Callable[[ClassGate], "tuple[Proposal, tuple[int, ...]] | None"]


@dataclass(frozen=True, slots=True)
class PreviewPlan:
    """Attributes.

    proposal, undoes: for the gate. writes: what would be written, in its order.
    ways, unit: for the preview. foreign: what is another than the operator has seen, sentences.
    """

    proposal: Proposal
    undoes: tuple[int, ...]
    writes: tuple[str, ...]
    ways: dict[str, int]
    unit: MbaUnit
    foreign: tuple[str, ...]


class PlanReady(Message):
    """The gate has planned; `planned` is None where it could not, or had nothing to."""

    def __init__(self, planned: PreviewPlan | None, why: str = "") -> None:
        self.planned = planned
        self.why = why
        super().__init__()


class ConfirmScreen(BannerScreen[bool]):
    """Shows what would be done; `y` has it done. Gives whether it was asked for.

    What is confirmed is what is shown: it was planned once, and the gate does it only while the
    host is as it was then.
    """

    AUTO_FOCUS: ClassVar[str | None] = ""
    BINDINGS: ClassVar[list[BindingType]] = bindings(CONFIRM)

    def __init__(
        self,
        title: str,
        plan: PlanFunction,
        changes: ChangeControl,
        options: Options,
        *,
        frame: Frame | None,
        drift: Callable[[Proposal], Sequence[str]] = lambda _: (),
    ) -> None:
        """`frame`: whose host it is. `drift`: what a proposal starts from that was not seen."""
        super().__init__()
        self.changes = changes
        self._title = title
        self._plan = plan
        self._drift = drift
        self._options = options
        self._badge = [] if frame is None else badge_lines(frame.host)
        self._planned: PreviewPlan | None = None
        self._why = "planning: the gate reads the host"
        self._message = ""
        self._top = 0
        # So many lines of the plan have been on the screen, and of so many the last has to be.
        self._seen, self._warned = 0, 0

    def compose(self) -> ComposeResult:
        plain = self._options.ascii_only
        yield ChangeBanner(ascii_only=plain)
        yield Lines(ascii_only=plain, id="preview")
        yield Footer(ascii_only=plain)

    def on_mount(self) -> None:
        self.run_worker(self._make_plan, name="plan", thread=True, exit_on_error=False)

    def on_resize(self) -> None:
        self._seen = 0  # lines are others now
        self.paint()

    def on_plan_ready(self, message: PlanReady) -> None:
        self._planned, self._why, self._seen = message.planned, message.why, 0
        self.paint()

    def action_act(self, action: str, by: int) -> None:
        self._message = ""
        if action == "close":
            self.dismiss(False)  # noqa: FBT003 - the screen's answer
        elif action == "help":
            keys = keys_page(CONFIRM, self._options, self.changes)
            self.app.push_screen(keys, lambda _: self.paint())
        elif action == "yes":
            self._confirm()
        else:
            page = max(1, self.size.height - 2) if action == "page" else 1
            self._top += by * page
            self.paint()

    def on_key(self, event: events.Key) -> None:
        self.say_unbound(event)

    def say(self, message: str) -> None:
        self._message = message
        self.paint()

    def paint(self) -> None:
        width, height = self.size
        taken = self.show_banner()
        if taken is None:
            return
        height -= 1 + taken
        lines = self._lines(width)
        self._top = max(0, min(self._top, len(lines) - height))
        shown = lines[self._top : self._top + max(0, height)]
        self.query_one("#preview", Lines).show(shown, max(0, height))
        if self._planned is not None:
            # A `y` that was typed ahead is about no plan that anybody has seen.
            self.call_after_refresh(self._is_painted, self._top + len(shown), self.size)
        position = f"{self._top + 1}-{self._top + len(shown)}/{len(lines)}"
        self.query_one(Footer).show([footer_line(CONFIRM_HINTS, position, width, self._message)], 1)

    def _is_painted(self, upto: int, size: Size) -> None:
        if size == self.size:
            self._seen = max(self._seen, upto)

    def _lines(self, width: int) -> list[Line]:
        head = line(
            *(item_or_gap for item in self._badge for item_or_gap in (item, " ")), self._title
        )
        if self._planned is None:
            return [head, *alert_lines(self._why, width=width)]
        planned = self._planned
        lines, warned = confirm_lines(
            planned.proposal,
            planned.writes,
            width,
            ways=planned.ways,
            unit=planned.unit,
            obstacle=self._obstacle(planned),
            keep_within_s=self.changes.keep_within_s,
        )
        self._warned = 1 + warned
        return [head, *lines]

    def _obstacle(self, planned: PreviewPlan) -> str:
        """Why `y` does nothing; "" where it applies."""
        if planned.proposal.refusals:
            return "it can't be done, for the reasons above"
        if planned.foreign:
            return (
                f"the host changed since the draft began: {', '.join(planned.foreign)}; "
                "Esc and r take it over"
            )
        if not planned.proposal.changes:
            return "there is nothing to change: it is so already"
        if not self._options.rw:
            return "read-only: start nftop with --rw to apply it, or give the command above"
        phase = self.changes.standing.phase
        busy = "" if phase == "none" else "the guard is still busy with the change before"
        return "the change before waits: K keeps it, u takes it back" if phase == "unkept" else busy

    def _confirm(self) -> None:
        if self._planned is None:
            self.say("there is nothing to apply yet")
            return
        obstacle = self._obstacle(self._planned)
        if not obstacle and self._seen < self._warned:
            obstacle = (
                "what speaks against it goes on below: read it first"
                if self._seen
                else "the plan was not on the screen yet"
            )
        if obstacle or not self.changes.begin():
            self.say(obstacle or "nftop is about to end")
            return
        planned, serve = self._planned, self.changes.serve
        # The application's: it outlives this screen.
        self.app.run_worker(
            lambda: serve(planned.proposal, planned.undoes),
            name="change",
            thread=True,
            exit_on_error=False,
        )
        self.dismiss(True)  # noqa: FBT003 - the screen's answer

    def _make_plan(self) -> None:
        """In a thread: a gate reads files, and may wait."""
        gate = self.changes.gate
        try:
            result = None if gate is None else self._plan(gate)
            if gate is None or result is None:
                self.post_message(PlanReady(None, "there is nothing to take back"))
                return
            proposal, undoes = result
            rules = gate.rules_for(proposal)
            planned = PreviewPlan(
                proposal,
                undoes,
                gate.writes(proposal) if not proposal.refusals else (),
                {line: rule.ways for line, rule in rules.masks.items()},
                "percent" if rules.limit is None else rules.limit.unit,
                tuple(self._drift(proposal)),
            )
        except Exception as error:  # noqa: BLE001 - the boundary: a sentence, whatever it is
            self.post_message(PlanReady(None, f"it can't be planned: {_why(error)}"))
            return
        self.post_message(PlanReady(planned))


def _why(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__
