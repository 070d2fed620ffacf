"""Class editor: a draft of all masks, edited by keys and applied after a preview."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import ClassVar

from textual import events
from textual.binding import BindingType
from textual.message import Message

from nftop.control.gate_protocols import ClassGate
from nftop.control.rdt_limits import Rules
from nftop.control.resctrl import draft as drafts
from nftop.control.resctrl.draft import Draft
from nftop.derive.compare.settling import Term
from nftop.derive.compare.verdict import Verdict, verdict_of
from nftop.derive.compare.window import Window
from nftop.model.change import IO_GROUP, ClassAction, State
from nftop.model.frame import Frame
from nftop.model.rdt.rdt import ROOT
from nftop.model.struct import replace
from nftop.render.base.line import Line, line
from nftop.render.base.table import indented
from nftop.render.base.text import printable
from nftop.render.cache.class_cells import group_name
from nftop.render.cache.verdict import card, graph_lines
from nftop.render.editor.model import EditorState, MaskRow
from nftop.render.editor.page import diff_lines, editor_lines, where_text
from nftop.render.editor.rows import clicked_way
from nftop.render.frame.header import alert_lines, badge_lines
from nftop.ui.change_control import ChangeControl
from nftop.ui.editor_model import AppliedOutcome, EditorModel, drift_of, has_masks
from nftop.ui.key_bindings import EDITOR, KeyRow, bindings
from nftop.ui.messages import WrongAnswerError
from nftop.ui.options import Options
from nftop.ui.screens.base import BannerScreen
from nftop.ui.screens.confirm import ConfirmScreen
from nftop.ui.screens.experiment import ExperimentScreen
from nftop.ui.screens.page import PageScreen, PageText
from nftop.ui.session_view import SessionView
from nftop.ui.widgets.lines import Lines

_LOCKED = "read-only: preview only; start nftop with --rw to apply"
_NO_FRAME = "waiting for the first tick"
NO_PROFILES = "no profiles: {} cat export -o ~/.config/nftop/profiles/NAME.toml"
# Questions about a changed draft, answered by one key.
_QUESTIONS = {
    "close": "keep the draft until nftop ends? y keeps it, n drops it, Esc stays here",
    "quit": "quit and drop the draft? y quits, n or Esc stays here",
}

_EDGES_FROM = 100  # cells


class HostRead(Message):
    """State of the host at `read_at_ns`, or `why` it could not be read.

    `number`: of the reading, in the order of requests. `fate`: outcome of the applied draft then.
    """

    def __init__(
        self,
        number: int,
        fate: AppliedOutcome,
        state: State | None,
        rules: Rules | None,
        why: str = "",
    ) -> None:
        self.number = number
        self.fate: AppliedOutcome = fate
        self.state = state
        self.rules = rules
        self.why = why
        self.read_at_ns = time.monotonic_ns()
        super().__init__()


class EditorScreen(BannerScreen[EditorModel | None]):
    """Result: the model, if its draft is to be kept."""

    follows = True

    BINDINGS: ClassVar[list[BindingType]] = bindings(EDITOR)
    KEYS: ClassVar[tuple[KeyRow, ...]] = EDITOR
    PANEL: ClassVar[str] = "editor"
    HAS_PROMPT: ClassVar[bool] = True

    def __init__(
        self,
        gate: ClassGate,
        changes: ChangeControl,
        session: SessionView,
        options: Options,
        *,
        group: str = ROOT,
        l3: int | None = None,
        model: EditorModel | None = None,
        wanted: Sequence[ClassAction] = (),
    ) -> None:
        """`group`, `l3`: initial class and cache. `model`: one that was kept.

        `wanted`: actions to begin the draft with.
        """
        super().__init__()
        self.changes = changes
        self._gate = gate
        self._session = session
        self._options = options
        self._begins = (group, l3)
        self._wanted = tuple(wanted)
        self._model = model
        self._why = "reading the classes of the host"
        self._message = ""  # while there is no model
        self._question = ""  # of `_QUESTIONS`
        # Numbers of readings: last requested, last used, last requested before applying.
        self._requested, self._read_last, self._requested_before = 0, 0, 0
        self._seen = changes.state.changed
        # What the verdict was computed for, the verdict and its window.
        self._judged_for: tuple[int, int, Term] | None = None
        self._judged: tuple[Verdict, Window] | None = None
        self._acts: Mapping[str, Callable[[], object]] = {
            "preview": self._preview,
            "diff": self._diff,
            "sweep": self._sweep,
            "help": lambda: self.open_help("editor", self._options),
            "reload": self._read,
            "copy": self._copy,
            "close": lambda: self._leave("close"),
            "quit": lambda: self._leave("quit"),
            "ask_limit": lambda: self.ask("limit", f"memory bandwidth of {self._named()}"),
            "ask_cpus": lambda: self.ask("cpus", f"CPUs into {self._named()} (4 or 0-3,8)"),
            "ask_profile": self._ask_profile,
            "ask_name": lambda: self.ask("name", "name of the new class: nftop"),
        }

    def on_mount(self) -> None:
        self._read()

    @property
    def text_width(self) -> int:
        """All cells of a narrow screen, whose ways and costs are worth more than blank columns."""
        return self.size.width if self.size.width < _EDGES_FROM else super().text_width

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's signature
        # The selection stays until a question is answered.
        return not ((self.prompting or self._question) and action == "act")

    def on_host_read(self, message: HostRead) -> None:
        if message.number < self._read_last:
            return  # a newer reading was used already
        self._read_last = message.number
        if message.state is None or message.rules is None:
            self._why = message.why
            if self._model is not None:
                self._model.message = message.why
        elif not has_masks(message.rules, message.state):
            self._why = "no cache of this host can be allocated by class"
            if self._model is not None:
                self._model.message = self._why
        elif self._model is not None:
            fate = message.fate if message.number > self._requested_before else "open"
            self._model.reload(message.state, message.rules, message.read_at_ns, fate)
        else:
            group, l3 = self._begins
            self._model = EditorModel(
                message.state,
                message.rules,
                self._gate.host.where,
                self._gate.program,
                read_at_ns=message.read_at_ns,
                group=group,
                l3=l3,
                profiles=self._options.profiles,
            )
            if self._wanted:
                self._model.begin_with(self._wanted)
        self.paint()

    def answer(self, about: str, text: str) -> None:
        model = self._model
        if model is None:
            return
        before, model.message = model.draft, ""
        model.answers[about](text)
        refused = about != "profile" or text not in model.profiles
        if refused and model.message and model.draft is before:
            why, model.message = model.message, ""
            raise WrongAnswerError(why)

    def on_key(self, event: events.Key) -> None:
        if self._question:
            if event.key.lower() in ("y", "n", "escape"):
                # The key answers the question only; K and u always work.
                event.stop()
                self._left(event.key.lower())
            event.prevent_default()

    def action_act(self, action: str, by: int) -> None:
        model, self._message = self._model, ""
        if model is None:
            if action in ("close", "quit", "help", "reload"):
                self._acts[action]()
            return
        model.message = ""
        if action in model.acts:
            model.acts[action](by)
        else:
            self._acts[action]()
        if self.is_current:
            self.paint()

    def click(self, action: str, argument: int | str) -> None:
        if self.prompting or self._question:
            return
        if isinstance(argument, int):
            self.action_act(action, argument)
        elif self._model is not None:
            self._model.pick(*clicked_way(argument), toggle=action == "toggle_at")
            self.paint()

    def show_message(self, message: str) -> None:
        self._message = message
        if self._model is not None:
            self._model.message = message
        self.paint()

    def paint(self) -> None:
        width, height = self.text_width, self.size.height
        taken = self.show_banner()
        if taken is None:
            return
        if self.changes.state.changed != self._seen:
            # Applied or reverted: the draft has another base now.
            self._seen = self.changes.state.changed
            self._read()
        room = max(0, height - 1 - taken)
        frame, model = self._session.newest, self._model
        message, spot = "", ""
        if frame is None or model is None:
            badge = [] if frame is None else badge_lines(frame.host)
            head = line(*badge, " " * bool(badge), "CAT editor")
            # On a large host the classes are read before the first frame.
            why = self._why if model is None else _NO_FRAME
            lines = [head, *alert_lines(why, width=width)]
            message = self._message
        else:
            model.see(frame)
            editor = self._board(model, frame)
            graph = partial(self._graph, frame, width)
            lines = editor_lines(
                editor,
                frame,
                width,
                room,
                card=self._card(frame, width),
                graph=graph,
                brief=partial(self._card, frame, width, brief=True),
            )
            message, spot = model.message, where_text(editor)
        if self._question:
            message, spot = _QUESTIONS[self._question], ""
        self.query_one("#editor", Lines).show(
            indented(lines) if width < self.size.width else lines, room
        )
        self.show_footer(position=spot, message=message)

    # Actions of keys

    def _ask_profile(self) -> None:
        names = ", ".join(map(printable, self._options.profiles))
        if names:
            self.ask("profile", f"profile to take into the draft ({names})")
        else:
            self.show_message(NO_PROFILES.format(self._gate.program))

    def _preview(self) -> None:
        model = self._model
        if model is not None and not model.draft.changed:
            model.message = "the draft has no changes"
        elif model is not None:
            draft = model.draft  # a thread plans it
            screen = ConfirmScreen(
                "Preview of the draft",
                lambda gate: (gate.propose(drafts.actions(draft), draft.plan.commands), ()),
                self.changes,
                self._options,
                frame=self._session.newest,
                drift=partial(drift_of, draft),
            )
            self.app.push_screen(screen, partial(self._previewed, model, draft))

    def _previewed(self, model: EditorModel, draft: Draft, confirmed: bool | None) -> None:  # noqa: FBT001 - the preview's answer
        if confirmed:
            model.applied, self._requested_before = draft, self._requested
        self.paint()

    def _diff(self) -> None:
        def source() -> PageText | None:
            model, frame = self._model, self._session.newest
            if model is None or frame is None:
                return None
            editor = self._board(model, frame)
            return lambda width: diff_lines(editor, frame, self._card(frame, width), width)

        page = PageScreen(source, self._options, self.changes, toggle="d")
        self.app.push_screen(page, lambda _: self.paint())

    def _sweep(self) -> None:
        """Open the experiment with the selected class; its answer is added to the draft."""
        model, frame = self._model, self._session.newest
        if model is None or frame is None:
            return
        screen = ExperimentScreen(model.selection.group, self.changes, self._session, self._options)
        self.app.push_screen(screen, partial(self._swept, model))

    def _swept(self, model: EditorModel, wanted: Sequence[ClassAction] | None) -> None:
        if wanted:
            model.begin_with(wanted)
        self._read()
        self.paint()

    def _leave(self, how: str) -> None:
        if how == "close" and self.changes.dismiss():
            return
        if self._model is not None and self._model.draft.changed:
            self._question = how
        elif how == "quit":
            self.app.call_next(self.app.run_action, "app.quit")
        else:
            # An applied draft may still be reverted.
            self.dismiss(self._model if self._model is not None and self._model.applied else None)

    def _left(self, key: str) -> None:
        """Handle the answer to the question."""
        how, self._question = self._question, ""
        if how == "close" and key != "escape":
            self.dismiss(self._model if key == "y" else None)
        elif how == "quit" and key == "y":
            self.app.call_next(self.app.run_action, "app.quit")
            self.paint()
        else:
            self.paint()

    # Helpers

    def _named(self) -> str:
        return "" if self._model is None else group_name(self._model.selection.group)

    def _board(self, model: EditorModel, frame: Frame) -> EditorState:
        locked = "" if self._options.rw else _LOCKED
        state = self.changes.state
        number = None if state.receipt is None else state.receipt.number
        waits = ""
        if state.phase in ("unkept", "settling"):
            which = "the change" if number is None else f"change {number}"
            waits = f"waits until {which} is kept or taken back: one change at a time"
        # The banner reports nftop's own change.
        notice = frame.notice if self.changes.state.phase == "none" else ""
        editor = model.editor_state(
            frame, locked=locked, waits=waits, keep_within_s=self.changes.keep_within_s
        )
        at, swept = editor.selection, ""
        if at.cache == "L3" and at.group != IO_GROUP:
            bits = editor.bits(MaskRow(at.group, at.line))
            swept = self.changes.experiment.other_width(at.group, at.domain, bits)
        return replace(editor, trouble=(*editor.trouble, *[notice] * bool(notice)), swept=swept)

    def _verdict(self, frame: Frame) -> tuple[Verdict, Window] | None:
        """Verdict on the last applied change and what it rests on; computed once per frame."""
        applied = self.changes.state.applied
        if applied is None:
            return None
        term = Term(applied.until_ns, applied.taken_back_ns)
        wanted = (frame.monotonic_ns, applied.at_ns, term)
        if self._judged_for != wanted:
            window = self._session.history.window(frame)
            verdict = verdict_of(window, applied.at_ns, applied.groups, term)
            self._judged_for, self._judged = wanted, (verdict, window)
        return self._judged

    def _card(self, frame: Frame, width: int, *, brief: bool = False) -> list[Line]:
        """The verdict as lines."""
        verdict_and_window, applied = self._verdict(frame), self.changes.state.applied
        if verdict_and_window is None or applied is None:
            return []
        verdict, own = verdict_and_window[0], self._session.own_changes
        return card(verdict, frame, width, own, applied.number, brief=brief)

    def _graph(self, frame: Frame, width: int, height: int) -> list[Line]:
        verdict_and_window, applied = self._verdict(frame), self.changes.state.applied
        if verdict_and_window is None or applied is None:
            return []
        verdict, window = verdict_and_window
        term = Term(applied.until_ns, applied.taken_back_ns)
        return graph_lines(window, verdict, term, width, height, number=applied.number)

    def _copy(self) -> None:
        """Copy the draft's commands to the clipboard of the terminal (OSC 52)."""
        model = self._model
        commands = () if model is None or not model.draft.changed else model.draft.plan.commands
        if commands:
            what = "command" if len(commands) == 1 else f"{len(commands)} commands"
            self.copy(commands, what)
        else:
            self.show_message("no command to copy: the draft has no changes")

    def _read(self) -> None:
        self._requested += 1
        number, state = self._requested, self.changes.state
        over: AppliedOutcome = "kept" if state.kept else "back"
        fate: AppliedOutcome = over if state.phase == "none" else "open"
        self.run_worker(
            lambda: self._read_host(number, fate),
            name="read",
            group="read",
            thread=True,
            exit_on_error=False,
        )

    def _read_host(self, number: int, fate: AppliedOutcome) -> None:
        """In a thread: the gate reads files."""
        try:
            state, rules = self._gate.host.state(), self._gate.host.rules()
        except Exception as error:  # noqa: BLE001 - the boundary: a sentence, whatever it is
            why = str(error) or type(error).__name__
            self.post_message(HostRead(number, fate, None, None, f"cannot read the classes: {why}"))
            return
        self.post_message(HostRead(number, fate, state, rules))
