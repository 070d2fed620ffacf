"""Base of all screens: the banner of a pending change, and messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import ClassVar, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingsMap

from nftop.render.base.line import Line, Tone
from nftop.render.base.table import EDGE, LastResults
from nftop.render.base.text import printable
from nftop.render.frame.footer import footer_line
from nftop.ui.change_control import ChangeControl
from nftop.ui.key_bindings import KeyRow, Mode, bindings, hints, named
from nftop.ui.messages import Clicked, PromptAnswer, WrongAnswerError
from nftop.ui.options import Options
from nftop.ui.widgets.lines import ChangeBanner, Footer, Lines, LineScreen
from nftop.ui.widgets.prompt import Prompt

Result = TypeVar("Result")
_last_hints, _last_footer = LastResults(hints), LastResults(footer_line)


class BannerScreen(LineScreen[Result]):
    """Screen with the banner of a pending change and a footer.

    Attributes:
        KEYS: keys that work on this screen.
        PANEL: id of the lines between banner and footer.
        HAS_PROMPT: it has a prompt.
        prompting: a prompt has the footer's line.
        changes: control of the pending change.
        follows: redrawn with every frame.
    """

    AUTO_FOCUS: ClassVar[str | None] = ""
    KEYS: ClassVar[tuple[KeyRow, ...]] = ()
    PANEL: ClassVar[str] = ""
    HAS_PROMPT: ClassVar[bool] = False
    prompting: bool = False
    changes: ChangeControl
    follows: bool = False
    _options: Options
    _message: str = ""
    _label: str = ""  # of the prompt
    _top: int = 0  # the first line in view

    def compose(self) -> ComposeResult:
        plain = self._options.ascii_only
        yield ChangeBanner(ascii_only=plain)
        yield Lines(ascii_only=plain, id=self.PANEL)
        yield Footer(ascii_only=plain)
        if self.HAS_PROMPT:
            yield Prompt()

    def on_resize(self) -> None:
        self.paint()

    def on_key(self, event: events.Key) -> None:
        if not self.prompting:
            self.show_unbound(event)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's signature
        # The key that opens the prompt is typed inside it.
        return not (self.prompting and action == "act")

    def ask(self, about: str, label: str, value: str = "") -> None:
        """Open the prompt; `answer` gets the text unless the operator leaves it."""
        self.prompting, self._label = True, label
        self.paint()
        self.query_one(Prompt).ask(about, label, value)

    def on_prompt_answer(self, message: PromptAnswer) -> None:
        self.prompting = False
        # Times are of all screens: the application has the answer.
        if message.text is not None and message.about != "seek":
            try:
                self.answer(message.about, message.text.strip())
            except WrongAnswerError as error:
                # What is typed on must not be taken for keys.
                label = self._label
                self.ask(message.about, f"{error} - {label}", message.text)
                self._label = label
                return
        self.paint()

    def answer(self, about: str, text: str) -> None:
        """Use the answer to a prompt; `about` is its subject. Raises WrongAnswerError."""
        raise NotImplementedError

    def show_banner(self) -> int | None:
        """Draw the banner; returns its lines, or None while the screen cannot be drawn.

        Messages may arrive before the screen is composed or while it is torn down.
        """
        banner, footer = self.query_one_optional(ChangeBanner), self.query_one_optional(Footer)
        if banner is None or footer is None or not self.size:
            return None
        lines = self.changes.lines(*self.size)
        banner.show(lines, len(lines))
        return len(lines)

    @property
    def text_width(self) -> int:
        """Cells of a line between the blank columns at both edges."""
        return max(0, self.size.width - 2 * EDGE)

    def bind_keys(self, keys: Iterable[KeyRow]) -> None:
        """Bind keys of this screen that are known only when it is created."""
        self._bindings.key_to_bindings.update(BindingsMap(bindings(keys)).key_to_bindings)

    @property
    def modes(self) -> set[Mode]:
        """State on which hints of keys depend."""
        return {"pending"} if self.changes.state.phase == "unkept" else set()

    @property
    def key_rows(self) -> tuple[KeyRow, ...]:
        """Keys that work on this screen now, for the footer and the command palette."""
        return self.KEYS

    def open_help(
        self, name: str, options: Options, back: Callable[[int | None], None] | None = None
    ) -> None:
        """Open the help of a table of keys; `back` gets the screen chosen there, or None."""
        from nftop.ui.screens.page import HelpScreen  # noqa: PLC0415 - it is a screen itself

        page = HelpScreen(name, options, self.changes)
        self.app.push_screen(page, back or (lambda _: self.paint()))

    def show_footer(self, *, position: str = "", message: str = "", height: int = 1) -> None:
        """Draw the keys that work now, or a message; nothing while a prompt has their line."""
        footer = self.query_one(Footer)
        shown = _last_hints(self.key_rows, tuple(sorted(self.modes)))
        foot = _last_footer(
            shown, self.size.width, position=position, message=message, ascii_only=footer.ascii_only
        )
        footer.show([foot], 0 if self.prompting else height)

    async def on_clicked(self, message: Clicked) -> None:
        """Do what the key with this action does."""
        message.stop()
        if "." in message.action:
            await self.run_action(message.action)
        elif self.is_current:
            self.click(message.action, message.argument)

    def click(self, action: str, argument: int | str) -> None:
        """Run an action that was clicked."""
        if isinstance(argument, int):
            self.action_act(action, argument)

    def action_act(self, action: str, by: int) -> None:
        """Run the action of a key; `by` is `KeyRow.by`."""
        raise NotImplementedError

    def copy(self, lines: Sequence[str], what: str) -> None:
        """Copy lines to the terminal's clipboard and say so.

        Refused if a line has a character that is not shown as it is: it would be pasted unseen.
        """
        if any(printable(text) != text for text in lines):
            self.show_message(f"not copied: {what} has characters that cannot be shown")
            return
        self.app.copy_to_clipboard("\n".join(lines))
        self.show_message(f"copied {what}: {lines[0]}" if len(lines) == 1 else f"copied {what}")

    def selected_text(self) -> str:
        """Text of the line under the cursor, as drawn; "" if none is."""
        for widget in self.query(Lines):
            for shown in widget.lines:
                tones = {shown.fill, *(span.tone for span in shown.spans)}
                if Tone.SELECTION in tones:
                    return shown.text.strip()
        return ""

    def show_unbound(self, event: events.Key) -> None:
        """Report a printable key that is not bound on this screen."""
        if event.is_printable and event.key not in self._bindings.key_to_bindings:
            self.show_message(f"{named(event.character)} does nothing here (?: keys)")

    def paint(self) -> None:
        """Draw the screen."""
        raise NotImplementedError

    def show_message(self, message: str) -> None:
        """Show a message until the next key."""
        self._message = message
        self.paint()

    def in_view(self, lines: Sequence[Line], height: int) -> tuple[list[Line], str]:
        """Lines in view, from `_top` on, which is kept within them, and their position, as text."""
        height = max(0, height)
        self._top = max(0, min(self._top, len(lines) - height))
        shown = list(lines[self._top : self._top + height])
        return shown, f"{self._top + 1}-{self._top + len(shown)}/{len(lines)}"
