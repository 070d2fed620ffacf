"""Text prompt on the bottom line."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.widgets import Input, Static

from nftop.render.base.text import printable
from nftop.ui.messages import PromptAnswer


class Prompt(Horizontal):
    """Posts the text as a `PromptAnswer`: Enter the text, Esc None.

    It always exists, hidden, and takes the focus at once: text typed ahead or pasted after its key
    must not be taken for keys of the table.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False)]

    def __init__(self) -> None:
        super().__init__()
        self._about = ""

    def compose(self) -> ComposeResult:
        yield Static(markup=False, id="label")
        field = Input(compact=True, select_on_focus=False)
        field.cursor_blink = False
        yield field
        yield Static("  Enter ok  Esc cancel", markup=False, id="keys")

    def ask(self, about: str, label: str, value: str = "") -> None:
        """Show `label` and a text to edit; `about` is the subject of the answer."""
        self._about = about
        self.query_one("#label", Static).update(f"{printable(label)}: ")
        field = self.query_one(Input)
        field.value = value
        field.cursor_position = len(value)
        self.display = True
        self.screen.set_focus(field)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._answer(event.value)

    def action_leave(self) -> None:
        self._answer(None)

    def _answer(self, text: str | None) -> None:
        self.display = False
        self.screen.set_focus(None)
        self.post_message(PromptAnswer(self._about, text))
