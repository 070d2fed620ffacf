"""Preview and confirmation of a change."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, TypeAlias

from textual.binding import BindingType
from textual.geometry import Size
from textual.message import Message

from nftop.control.gate_protocols import ClassGate
from nftop.control.resctrl.thread_monitors import monitor_name, propose_monitor
from nftop.model.change import Proposal
from nftop.model.frame import Frame, NfRow
from nftop.model.rdt.rdt import MbaUnit, cache_of_line
from nftop.model.struct import dataclass
from nftop.render.base.line import Line, Span, Tone, line
from nftop.render.base.table import indented
from nftop.render.editor.change import confirm_lines
from nftop.render.frame.header import alert_lines, badge_lines
from nftop.ui.change_control import ChangeControl
from nftop.ui.key_bindings import CONFIRM, KeyRow, bindings
from nftop.ui.options import Options
from nftop.ui.screens.base import BannerScreen
from nftop.ui.widgets.lines import Lines

# Returns a proposal and the changes it undoes; None: nothing to do.
PlanFunction: TypeAlias = Callable[[ClassGate], "tuple[Proposal, tuple[int, ...]] | None"]


@dataclass(frozen=True, slots=True)
class PreviewPlan:
    """A proposal as the confirmation page shows it.

    Attributes:
        proposal, undoes: for the gate.
        writes: in order.
        ways, unit: for the preview.
        foreign: changes by others since the operator's draft.
    """

    proposal: Proposal
    undoes: tuple[int, ...]
    writes: tuple[str, ...]
    ways: dict[str, int]
    unit: MbaUnit
    foreign: tuple[str, ...]


class PlanReady(Message):
    """The plan is ready; None if it failed, with the reason, or if there is nothing to do."""

    def __init__(self, planned: PreviewPlan | None, why: str = "") -> None:
        self.planned = planned
        self.why = why
        super().__init__()


class ConfirmScreen(BannerScreen[bool]):
    """Shows a plan; `y` applies it. Result: whether it was applied; None: nothing to do.

    The plan shown is the one applied: the gate refuses it if the host has changed meanwhile.
    """

    BINDINGS: ClassVar[list[BindingType]] = bindings(CONFIRM)
    KEYS: ClassVar[tuple[KeyRow, ...]] = CONFIRM
    PANEL: ClassVar[str] = "preview"

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
        """`frame`: names the host. `drift`: differences of a proposal's base from the draft's."""
        super().__init__()
        self.changes = changes
        self._title = title
        self._plan = plan
        self._drift = drift
        self._options = options
        self._badge = [] if frame is None else badge_lines(frame.host)
        self._planned: PreviewPlan | None = None
        self._why = "planning: the gate reads the host"
        # Lines of the plan shown so far, and lines that must be shown before it can be applied.
        self._seen, self._warned = 0, 0

    def on_mount(self) -> None:
        self.run_worker(self._make_plan, name="plan", thread=True, exit_on_error=False)

    def on_resize(self) -> None:
        self._seen = 0  # the lines have changed

    def on_plan_ready(self, message: PlanReady) -> None:
        if message.planned is None and not message.why:
            if self.is_current:
                self.dismiss(None)
                return
            message.why = "nothing to undo"
        self._planned, self._why, self._seen = message.planned, message.why, 0
        self.paint()

    def action_act(self, action: str, by: int) -> None:
        self._message = ""
        if action == "close":
            self.dismiss(False)  # noqa: FBT003 - the screen's answer
        elif action == "help":
            self.open_help("confirm", self._options)
        elif action == "copy":
            self._copy()
        elif action == "yes":
            self._confirm()
        else:
            page = max(1, self.size.height - 2) if action == "page" else 1
            self._top += by * page
            self.paint()

    def _copy(self) -> None:
        commands = () if self._planned is None else self._planned.proposal.commands
        if commands:
            self.copy(commands, "command")
        else:
            self.show_message("there is no command to copy")

    def paint(self) -> None:
        width, height = self.text_width, self.size.height
        taken = self.show_banner()
        if taken is None:
            return
        height -= 1 + taken
        lines = self._lines(width)
        self._top = max(0, min(self._top, len(lines) - height))
        shown = lines[self._top : self._top + max(0, height)]
        self.query_one("#preview", Lines).show(indented(shown), max(0, height))
        if self._planned is not None:
            # A `y` typed ahead must not confirm a plan that was not shown.
            self.call_after_refresh(self._is_painted, self._top + len(shown), self.size)
        position = f"{self._top + 1}-{self._top + len(shown)}/{len(lines)}"
        self.show_footer(position=position, message=self._message)

    def _is_painted(self, upto: int, size: Size) -> None:
        if size == self.size:
            self._seen = max(self._seen, upto)

    def _lines(self, width: int) -> list[Line]:
        badge = (item_or_gap for item in self._badge for item_or_gap in (item, " "))
        head = line(
            *badge,
            Span(self._title, Tone.STRONG),
            ": ",
            Span("y", Tone.ACCENT),
            " applies, ",
            Span("C", Tone.ACCENT),
            " copies",
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
        """Why the plan cannot be applied now; "" if it can."""
        if planned.proposal.refusals:
            return "it cannot be applied: see the reasons above"
        if planned.foreign:
            return (
                f"the host changed since the draft began: {', '.join(planned.foreign)}; "
                "Esc and r take it over"
            )
        if not planned.proposal.changes:
            return "nothing to change: the host is already as requested"
        if not self._options.rw:
            return "read-only: start nftop with --rw, or run the command above"
        phase = self.changes.state.phase
        busy = "" if phase == "none" else "the guard is still busy with the previous change"
        return (
            "the previous change is pending: K keeps it, u takes it back"
            if phase == "unkept"
            else busy
        )

    def _confirm(self) -> None:
        if self._planned is None:
            self.show_message("nothing to apply yet")
            return
        obstacle = self._obstacle(self._planned)
        if not obstacle and self._seen < self._warned:
            obstacle = (
                "warnings continue below: read them first"
                if self._seen
                else "the plan was not shown yet"
            )
        if obstacle or not self.changes.begin():
            self.show_message(obstacle or "nftop is ending")
            return
        planned, apply_and_settle = self._planned, self.changes.apply_and_settle
        self.changes.ways = {cache_of_line(name): ways for name, ways in planned.ways.items()}
        # A worker of the application: it outlives this screen.
        self.app.run_worker(
            lambda: apply_and_settle(planned.proposal, planned.undoes),
            name="change",
            thread=True,
            exit_on_error=False,
        )
        self.dismiss(True)  # noqa: FBT003 - the screen's answer

    def _make_plan(self) -> None:
        """In a thread: the gate reads files and may block."""
        gate = self.changes.gate
        try:
            result = None if gate is None else self._plan(gate)
            if gate is None or result is None:
                self.post_message(PlanReady(None))
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
            self.post_message(PlanReady(None, f"planning failed: {_why(error)}"))
            return
        self.post_message(PlanReady(planned))


def _why(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__


def monitor_preview(
    nf: NfRow, changes: ChangeControl, options: Options, frame: Frame | None
) -> ConfirmScreen | None:
    """Preview of a monitoring group of a network function's threads, or of its removal.

    None if no thread of it is known.
    """
    threads = [(item.tid, item.cpu) for item in nf.threads if item.tid is not None]
    if not threads:
        return None
    name = monitor_name(nf.name, nf.pid)
    monitored = any(item.monitor for item in nf.threads)
    return ConfirmScreen(
        f"Preview: {'no monitoring group' if monitored else 'monitoring group'} of {nf.name}",
        lambda gate: propose_monitor(gate, name, threads),
        changes,
        options,
        frame=frame,
    )
