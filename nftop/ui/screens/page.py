"""Pages of text above a screen: any text, the help, and the doctor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar, TypeAlias

from textual import events
from textual.binding import BindingType
from textual.message import Message

from nftop.model.check import Check
from nftop.model.error_text import error_sentence
from nftop.model.ids import Cpu
from nftop.model.perf_tool import PerfTask
from nftop.render.base.line import Line, crop, paragraph, selected
from nftop.render.base.table import indented
from nftop.render.pages.doctor import doctor_lines
from nftop.render.pages.help import help_lines, perf_lines
from nftop.ui.change_control import ChangeControl
from nftop.ui.key_bindings import DOCTOR, HELP, PAGE, KeyRow, bindings
from nftop.ui.key_table import help_content
from nftop.ui.options import Options
from nftop.ui.screens.base import BannerScreen
from nftop.ui.screens.registry import screen_keys
from nftop.ui.widgets.lines import Lines

# Lines of a page, for a width in cells.
PageText: TypeAlias = Callable[[int], list[Line]]


class PageScreen(BannerScreen[int | None]):
    """Shows the text of `source`. A screen's key closes it with the screen's index."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(PAGE)
    KEYS: ClassVar[tuple[KeyRow, ...]] = PAGE
    TABLE: ClassVar[str] = "page"  # of `key_tables`
    PANEL: ClassVar[str] = "page"
    HAS_PROMPT: ClassVar[bool] = True
    # Whether keys of the main window's screens close it, and lead there.
    LEADS: ClassVar[bool] = True
    follows = True

    def __init__(
        self,
        source: Callable[[], PageText | None],
        options: Options,
        changes: ChangeControl,
        *,
        toggle: str = "",
        copied: tuple[str, ...] = (),
    ) -> None:
        """A page.

        Args:
            source: called at each drawing; None keeps the text.
            options: of the interface.
            changes: for the banner.
            toggle: key that opened the page and also closes it.
            copied: lines that `C` copies instead of the page.
        """
        super().__init__()
        if self.LEADS:
            self.bind_keys(screen_keys())
        self.changes = changes
        self._source = source
        self._text: PageText = source() or (lambda _width: [])
        self._toggle = toggle
        self._copied = copied
        self._options = options
        self.search = ""
        self._hit: int | None = None  # the line found last, which may be below the last `_top`

    @property
    def key_rows(self) -> tuple[KeyRow, ...]:
        return (*screen_keys(), *self.KEYS) if self.LEADS else self.KEYS

    def on_mouse_scroll_down(self) -> None:
        self._scroll(3)

    def on_mouse_scroll_up(self) -> None:
        self._scroll(-3)

    def on_key(self, event: events.Key) -> None:
        if not self.prompting and event.key == self._toggle:
            event.stop()
            event.prevent_default()
            self.dismiss()

    def answer(self, about: str, text: str) -> None:  # noqa: ARG002 - the search is its only prompt
        self.search = text
        self.find(1, from_top=True)

    def action_act(self, action: str, by: int) -> None:
        self._message = ""
        if action == "close":
            self.close()
        elif action == "screen":
            self.dismiss(by)
        elif action == "help":
            self.open_help(self.TABLE, self._options, self._back)
        elif action == "ask_find":
            self.ask("find", "find")
        elif action == "find_again":
            self.find(by)
            self.paint()
        elif action == "copy":
            self._copy()
        else:
            self._scroll(by * (max(1, self.size.height - 2) if action == "page" else 1))

    def _copy(self) -> None:
        wanted = self.search.casefold()
        lines = self._copied or [
            item.text.rstrip()
            for item in self._text(self.text_width)
            if wanted in item.text.casefold()
        ]
        self.copy(lines, f"{len(lines)} lines")

    def close(self) -> None:
        """Return to the screen below."""
        self.dismiss()

    def find(self, step: int, *, from_top: bool = False) -> None:
        """Scroll to the next or previous line that has the search."""
        if not self.search:
            self._message = "no search yet: / finds a text on this page"
            return
        texts = [item.text.casefold() for item in self._text(self.text_width)]
        here = self._top if self._hit is None else self._hit
        at = -1 if from_top else here
        ahead = range(at + 1, len(texts)) if step > 0 else range(at - 1, -1, -1)
        hit = next((index for index in ahead if self.search.casefold() in texts[index]), None)
        if hit is None:
            self._message = f"not found: {self.search}"
        else:
            self._top = self._hit = hit

    def marked(self, lines: list[Line]) -> list[Line]:
        """The lines with those marked that have the search."""
        wanted = self.search.casefold()
        if not wanted:
            return lines
        return [selected(item) if wanted in item.text.casefold() else item for item in lines]

    def _back(self, number: int | None) -> None:
        """Return from the help page, to a screen if `number` is given."""
        if number is None:
            self.paint()
        else:
            self.dismiss(number)

    def _scroll(self, lines: int) -> None:
        self._top += lines
        self._hit = None
        self.paint()

    def paint(self) -> None:
        taken = self.show_banner()
        if taken is None:
            return
        self._text = self._source() or self._text
        width, height = self.text_width, self.size.height - 1 - taken
        # A command may be wider than the screen; it is copied whole.
        lines = [crop(item, width) for item in self._text(width)]
        shown, position = self.in_view(lines, height)
        self.query_one("#page", Lines).show(indented(self.marked(shown)), max(0, height))
        self.show_footer(position=position, message=self._message)


class HelpScreen(PageScreen, inherit_bindings=False):
    """Keys and marks of a screen; `/` searches those of all screens."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(HELP)
    KEYS: ClassVar[tuple[KeyRow, ...]] = HELP
    follows = False

    def __init__(self, screen: str, options: Options, changes: ChangeControl) -> None:
        """`screen`: a table of `key_tables`."""
        self._content = help_content(screen)
        super().__init__(lambda: self._lines, options, changes)

    def _lines(self, width: int) -> list[Line]:
        return help_lines(*self._content, self.search, width)

    def find(self, step: int, *, from_top: bool = False) -> None:  # noqa: ARG002 - as a page's
        """The page has only lines that match."""
        self._top = 0

    def marked(self, lines: list[Line]) -> list[Line]:
        return lines

    def close(self) -> None:
        """Clear the search; without one return to the screen below."""
        if self.search:
            self.search, self._top = "", 0
            self.paint()
        else:
            self.dismiss()


class PerfAnswered(Message):
    """What perf of the host can do for a core, or `why` that is not known."""

    def __init__(self, tasks: Sequence[PerfTask], why: str = "") -> None:
        self.tasks = tasks
        self.why = why
        super().__init__()


class PerfScreen(PageScreen):
    """Commands of perf for a core, of which `C` copies all; `tasks` asks the host, in a thread."""

    def __init__(
        self,
        tasks: Callable[[], Sequence[PerfTask]],
        cpu: Cpu,
        options: Options,
        changes: ChangeControl,
    ) -> None:
        self._ask, self._cpu = tasks, cpu
        self._tasks: Sequence[PerfTask] = ()
        super().__init__(lambda: self._lines, options, changes, toggle="Y")

    def on_mount(self) -> None:
        # It starts perf, which takes time.
        self.run_worker(self._run, name="perf", thread=True, exit_on_error=False)

    def on_perf_answered(self, message: PerfAnswered) -> None:
        self._tasks, self._message = message.tasks, message.why
        self.paint()

    def _run(self) -> None:
        """In a thread."""
        try:
            answer = PerfAnswered(self._ask())
        except Exception as error:  # noqa: BLE001 - the boundary: a sentence, whatever it is
            answer = PerfAnswered((), f"cannot ask perf: {error_sentence(error)}")
        self.post_message(answer)

    def _lines(self, width: int) -> list[Line]:
        return perf_lines(self._cpu, self._tasks, width)

    def _copy(self) -> None:
        wanted = self.search.casefold()
        commands = [
            item for task in self._tasks for item in task.commands if wanted in item.casefold()
        ]
        if commands:
            self.copy(commands, "command" if len(commands) == 1 else f"{len(commands)} commands")
        else:
            self.show_message("there is no command to copy")


class HostExamined(Message):
    """The checks, or `why` there are none."""

    def __init__(self, checks: Sequence[Check], caveat: str, why: str = "") -> None:
        self.checks = checks
        self.caveat = caveat
        self.why = why
        super().__init__()


class DoctorScreen(PageScreen, inherit_bindings=False):
    """The checks of `examine`, which runs in a thread, once at a time."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(DOCTOR)
    KEYS: ClassVar[tuple[KeyRow, ...]] = DOCTOR
    TABLE: ClassVar[str] = "doctor"

    def __init__(
        self,
        examine: Callable[[], tuple[Sequence[Check], str]],
        options: Options,
        changes: ChangeControl,
    ) -> None:
        self._examine = examine
        self._runs = False
        self._report: PageText = partial(paragraph, "examining the host")
        super().__init__(lambda: self._report, options, changes, toggle="f9")

    def on_mount(self) -> None:
        self._again()

    def action_act(self, action: str, by: int) -> None:
        if action == "again":
            self._again()
            self.paint()
        else:
            super().action_act(action, by)

    def on_host_examined(self, message: HostExamined) -> None:
        self._runs, self._message = False, message.why
        checks, caveat = message.checks, message.caveat
        if checks:

            def text(width: int) -> list[Line]:
                return doctor_lines(checks, caveat, width)

            self._report = text
        self.paint()

    def _again(self) -> None:
        if self._runs:
            return
        self._runs, self._message = True, "examining the host"
        self.run_worker(self._run, name="doctor", thread=True, exit_on_error=False)

    def _run(self) -> None:
        """In a thread: it reads the host and waits."""
        try:
            checks, caveat = self._examine()
        except Exception as error:  # noqa: BLE001 - the boundary: a sentence, whatever it is
            self.post_message(
                HostExamined((), "", f"cannot examine the host: {error_sentence(error)}")
            )
            return
        self.post_message(HostExamined(checks, caveat))
