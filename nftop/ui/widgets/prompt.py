"""Text prompt on the bottom line."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Input, Static

from nftop.render.base.text import cells, printable, truncate
from nftop.ui.messages import PromptAnswer

_LEAST_INPUT = 12  # cells of typed text
_KEYS = "  Enter ok  Esc cancel"
_END = ": "


class Prompt(Horizontal):
    """Posts the text as a `PromptAnswer`: Enter the text, Esc None.

    It always exists, hidden, and takes the focus at once: text typed ahead or pasted after its key
    must not be taken for keys of the table.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False)]

    def __init__(self) -> None:
        super().__init__()
        self._about = ""
        self._label = ""

    def compose(self) -> ComposeResult:
        yield Static(markup=False, id="label")
        field = Input(compact=True, select_on_focus=False)
        field.cursor_blink = False
        yield field
        yield Static(_KEYS, markup=False, id="keys")

    def on_resize(self) -> None:
        self._show_label()

    def ask(self, about: str, label: str, value: str = "") -> None:
        """Show `label` and a text to edit; `about` is the subject of the answer."""
        self._about = about
        self._label = printable(label)
        self._show_label()
        field = self.query_one(Input)
        field.value = value
        field.cursor_position = len(value)
        self.display = True
        self.screen.set_focus(field)

    def _show_label(self) -> None:
        """Leave room for the text: without the keys, then with a shorter label."""
        room = self.screen.size.width - _LEAST_INPUT
        whole = cells(self._label) + len(_END)
        self.query_one("#keys").display = whole + len(_KEYS) <= room
        label = truncate(self._label, max(room - len(_END), 0))
        self.query_one("#label", Static).update(f"{label}{_END}" if label else "")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._answer(event.value)

    def action_leave(self) -> None:
        self._answer(None)

    def _answer(self, text: str | None) -> None:
        self.display = False
        self.screen.set_focus(None)
        self.post_message(PromptAnswer(self._about, text))
