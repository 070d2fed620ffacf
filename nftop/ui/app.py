"""The application: shows the frames of a feed until it is stopped; its command palette."""

from __future__ import annotations

import asyncio
import difflib
import re
import sys
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.color import Color
from textual.command import CommandList, CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content
from textual.filter import LineFilter, Monochrome, NoColor
from textual.message import Message
from textual.timer import Timer, TimerCallback
from textual.types import IgnoreReturnCallbackType
from textual.widgets import Input
from textual.worker import Worker, WorkerState

from nftop.export.output import FAILURE, OK
from nftop.model.clock import show_utc
from nftop.model.error_text import describe_error, exhausted
from nftop.model.frame import Frame
from nftop.model.struct import dataclass
from nftop.render.base.text import printable
from nftop.render.frame.changes import outcome_text
from nftop.session.feed import Feed, FeedError, Player
from nftop.session.fleet import FleetFeed
from nftop.store.history.rings import TickHistory
from nftop.ui.change_control import ChangeControl
from nftop.ui.key_bindings import KeyRow
from nftop.ui.messages import ChangeMoved, FeedEnded, FrameReady, PastFrame, PromptAnswer
from nftop.ui.options import Options
from nftop.ui.screens.base import BannerScreen
from nftop.ui.screens.editor_opener import IN_THE_PAST
from nftop.ui.screens.main import MainScreen
from nftop.ui.screens.registry import import_opened
from nftop.ui.terminal_driver import LoopDriver
from nftop.ui.theme import THEMES, VARIABLES, theme_name

if TYPE_CHECKING:
    from nftop.ui.screens.fleet import FleetContext, HostOpened, OpenedHost


class GroundAsReverse(NoColor):
    """Removes colours; text on a ground, as Textual's cursors are, becomes reverse."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        marked = [
            Segment(text, _reversed(style), control) if style else Segment(text, style, control)
            for text, style, control in segments
        ]
        return super().apply(marked, background)


@lru_cache(maxsize=256)
def _reversed(style: Style) -> Style:
    ground = style.bgcolor
    return style if ground is None or ground.is_default else style + Style(reverse=True)


_NO_COLOR = GroundAsReverse()
_COUNT_DOWN_S = 0.5
_SWITCH_S = 0.0005
_LOAD, _LOAD_AFTER_S = "load", 0.05  # after the first frame, which the terminal draws meanwhile
_FEED = "feed"

# Keys that only move about; their names would fill the list.
_MOVES = frozenset({"move", "page", "last", "find_again", "app.command_palette"})


@dataclass(frozen=True, slots=True)
class PaletteCommand:
    """A command: its name with the keys that do the same, and what runs it."""

    name: str
    run: IgnoreReturnCallbackType


@dataclass(frozen=True, slots=True)
class ListedCommand:
    """A command in the palette's list, with the text it was listed for."""

    query: str
    run: IgnoreReturnCallbackType

    def __call__(self) -> Any:
        return self.run()


class NftopCommands(Provider):
    """Commands of the screen on which the palette was opened.

    A command matches if each word of the text begins one of its words. Without any match the first
    entry says so; below it are keys of other screens that match, which are only named, and commands
    that resemble the text, which run only if chosen.
    """

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        commands = list(self._commands())
        ranked = self.ranked(query)
        for rank, command in enumerate(ranked):
            shown = matcher.highlight(command.name)
            yield Hit(1.0 + len(ranked) - rank, shown, ListedCommand(query, command.run))
        if ranked:
            return
        near = near_commands(query, [command.name for command in commands])
        hint = ": did you mean" if near else ""
        note = f"no command {printable(query)!r}{hint}"
        show_message = partial(self._show_note, note)
        yield Hit(2.0, Content(note), ListedCommand(query, show_message), text=note)
        for key in self._elsewhere(query)[:_MOST_NEAR]:
            yield Hit(1.5, key, ListedCommand(query, partial(self._show_note, key)))
        for rank, name in enumerate(near):
            run = next(command.run for command in commands if command.name == name)
            yield Hit(1.0 - rank / 10, name, ListedCommand(query, run))

    async def discover(self) -> Hits:
        for command in self._commands():
            yield DiscoveryHit(command.name, ListedCommand("", command.run))

    def ranked(self, query: str) -> list[PaletteCommand]:
        """Commands that match a text, the best first."""
        matcher = self.matcher(query)
        matching = [item for item in self._commands() if matches_words(query, item.name)]
        return sorted(matching, key=lambda item: -matcher.match(item.name))

    def _elsewhere(self, query: str) -> list[str]:
        """Keys of other screens that match a text, with their screen."""
        from nftop.ui.key_table import key_tables, titles  # noqa: PLC0415 - of `page`, see registry.OPENED

        names = titles()
        return [
            f"{names[table]}: {key.shown} {key.help}"
            for table, keys in key_tables().items()
            for key in keys
            if key.action not in _MOVES and matches_words(query, key.help)
        ]

    def _show_note(self, note: str) -> None:
        if isinstance(self.screen, BannerScreen):
            self.screen.show_message(note.removesuffix(": did you mean"))

    def _commands(self) -> Iterator[PaletteCommand]:
        if isinstance(self.screen, BannerScreen):
            for key in self.screen.key_rows:
                if key.action not in _MOVES:
                    run = partial(self.screen.run_action, _action(key))
                    yield PaletteCommand(f"{key.help}  ({key.shown})", run)
        for theme in THEMES:
            paint = partial(setattr, self.app, "theme", theme.name)
            yield PaletteCommand(f"colours: {theme.name}", paint)


def matches_words(query: str, name: str) -> bool:
    """Whether each word of a text begins a word of a command's name."""
    words = _WORD.findall(name.casefold())
    wanted = _WORD.findall(query.casefold())
    return bool(wanted) and all(any(word.startswith(item) for word in words) for item in wanted)


def near_commands(query: str, names: Sequence[str]) -> list[str]:
    """Names with a word that resembles one of a text, the nearest first."""
    of_word: dict[str, list[str]] = {}
    for name in names:
        for word in _WORD.findall(name.casefold()):
            of_word.setdefault(word, []).append(name)
    close = [
        match
        for item in _WORD.findall(query.casefold())
        for match in difflib.get_close_matches(item, of_word, n=_MOST_NEAR)
    ]
    return list(dict.fromkeys(name for word in close for name in of_word[word]))[:_MOST_NEAR]


_WORD = re.compile(r"\w+")
_MOST_NEAR = 5


class NftopPalette(CommandPalette):
    """The palette; Enter runs nothing that was listed for another text than the one typed."""

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """The list follows the typing late: before it does, the text alone decides."""
        text = event.value.strip()
        hit = getattr(self.query_one(CommandList).highlighted_option, "hit", None)
        command = getattr(hit, "command", None)
        if isinstance(command, ListedCommand) and command.query == text:
            return
        event.prevent_default()
        event.stop()
        ranked = NftopCommands(self.app.screen_stack[-2]).ranked(text)
        if ranked:
            self.dismiss()
            self.app.call_later(ranked[0].run)


def _action(key: KeyRow) -> str:
    return key.action if "." in key.action else f"act({key.action!r}, {key.by})"


class Stoppable(Protocol):
    """A stream of frames, read in a thread."""

    def stop(self) -> None:
        """End it soon. Safe from any thread."""


class TerminalApp(App[None]):
    """What all applications of nftop share: themes, command palette, signals, quitting.

    Attributes:
        first: the screen of the feed's frames.
    """

    first: BannerScreen[None]

    CSS_PATH = "nftop.tcss"
    TITLE = "nftop"
    ENABLE_COMMAND_PALETTE = True
    COMMANDS: ClassVar[set[type[Provider] | Callable[[], type[Provider]]]] = {NftopCommands}
    ALLOW_SELECT = False
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "quit_at_once", show=False, priority=True),
        Binding("ctrl+z", "suspend_process", show=False, priority=True),
        # Not on screens with a prompt in use: there it is a character of the text.
        Binding("colon,ctrl+p", "command_palette", show=False),
    ]

    def __init__(self, feed: Stoppable, options: Options, consume: Callable[[], object]) -> None:
        """`consume`: runs in a thread; gives the frames to the screen until the feed is stopped."""
        self._options = options
        self._consume_feed = consume
        super().__init__(driver_class=LoopDriver)
        show_utc(utc=self._options.utc)
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = theme_name(
            self._options.theme,
            self.console.color_system,
            color=self._options.color,
            light_ground=self._options.light_ground,
        )
        # Widgets of Textual's own then mark what is chosen in reverse.
        self.no_color = not self._options.color
        self._stream = feed
        self._loop: asyncio.AbstractEventLoop | None = None

    def on_mount(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.push_screen(self.first)
        self.run_worker(self._consume_feed, name=_FEED, thread=True, exit_on_error=False)

    def set_timer(
        self,
        delay: float,
        callback: TimerCallback | None = None,
        *,
        name: str | None = None,
        pause: bool = False,
    ) -> Timer:
        """Create a timer, as Textual does, whose only tick is never skipped.

        Textual skips ticks that are late. On a busy host the only tick of a timer can be late when
        it starts; that of a new terminal size, after 8 ms, would take all later sizes with it.
        """
        timer = super().set_timer(delay, callback, name=name, pause=pause)
        timer._skip = False  # noqa: SLF001 - an argument of `Timer` that `set_timer` does not pass
        return timer

    def get_theme_variable_defaults(self) -> dict[str, str]:
        # Textual parses the stylesheet before nftop's own theme is set.
        return dict(VARIABLES)

    def panic(self, *renderables: Any) -> None:
        self._return_code = FAILURE  # Textual would leave it unset
        super().panic(*renderables)

    def exit(self, result: None = None, return_code: int = OK, message: Any = None) -> None:
        # A key that is read after a fault ends nftop no other way.
        super().exit(result, return_code or self._return_code or OK, message)

    def leave(self, code: int) -> None:
        """Exit with this code soon. Safe from any thread."""
        self._stream.stop()
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop was closed
                self._loop.call_soon_threadsafe(self.exit, None, code)

    def on_unmount(self) -> None:
        self._stream.stop()

    def get_line_filters(self) -> Sequence[LineFilter]:
        # Textual also obeys an empty NO_COLOR; `Options` decides instead.
        filters = super().get_line_filters()
        kept = [item for item in filters if not isinstance(item, (NoColor, Monochrome))]
        return kept if self._options.color else [*kept, _NO_COLOR]

    @staticmethod
    def failed(event: Worker.StateChanged) -> str:
        """Why the worker of the feed ended; "" if it was stopped, or has not ended."""
        error = event.worker.error
        if event.state is not WorkerState.ERROR or error is None:
            return ""
        if isinstance(error, FeedError):
            return str(error)
        if limit := exhausted(error):
            return f"no more frames: {limit}"
        text = f"{type(error).__name__}: {error}".removesuffix(": ")
        return f"internal error, no more frames: {text}"

    def action_command_palette(self) -> None:
        if not isinstance(self.screen, CommandPalette):
            self.push_screen(NftopPalette(placeholder="command", id="--command-palette"))

    def action_quit_at_once(self) -> None:
        """Quit; a change that is not kept is taken back."""
        self.exit()


class NftopApp(TerminalApp):
    """Args of `__init__`.

    feed: source of frames; read in a thread, stopped when the application ends.
    history: receives every frame before it is shown; a player fills it itself.
    options: of the interface.
    later: called in a thread after the first frame; reads files that no drawing may open.
    """

    def __init__(
        self,
        feed: Feed,
        history: TickHistory,
        *,
        options: Options | None = None,
        later: Sequence[Callable[[], object]] = (),
    ) -> None:
        super().__init__(feed, options or Options(), self._consume)
        self._later = later
        self._not_loaded = ""
        self._feed = feed
        self._history = history
        self._countdown: Timer | None = None
        self._quit_warned = False  # of the change that is not kept
        self.changes = ChangeControl(
            self._options.gate,
            self._post_change,
            experiment_host=self._options.experiment_host,
            note=None if self._options.recorder is None else self._options.recorder.experiment,
        )
        self.first = self._main = MainScreen(feed, history, self._options, self.changes)

    def on_mount(self) -> None:  # Textual calls that of `TerminalApp` next
        # The feed's thread computes frames: it gives way to a key sooner than in 5 ms.
        sys.setswitchinterval(_SWITCH_S)
        if self._options.past is not None:
            self._options.past.listen(self._show_past)

    @property
    def exit_message(self) -> str:
        """After `run`: outcome of a change that was pending and is not as requested; else ""."""
        left = self.changes.left
        if left is None:
            return self._not_loaded
        head = "the change" if left.outcome == "kept" else "the change was not kept"
        return f"{head}: {outcome_text(left)}"

    def on_unmount(self) -> None:
        self._feed.stop()
        if self._options.past is not None:
            self._options.past.close()
        self.changes.close()

    def _post_message(self, message: Message) -> Coroutine[Any, Any, bool]:
        # The driver's thread calls it for a key while this one may draw a frame.
        if isinstance(message, events.Key):
            self._main.key_read(message)
        return super()._post_message(message)

    async def on_event(self, event: events.Event) -> None:
        if not isinstance(event, events.Key) or event.is_forwarded:
            await super().on_event(event)
            return
        try:
            if not await self._answer(event):
                await super().on_event(event)
        finally:
            self._main.key_handled(event)

    async def _answer(self, event: events.Key) -> bool:
        """Run the binding of a key on the main screen; False: Textual is to find what handles it.

        Textual would send it to the screen, behind a frame that waits there, and from there back.
        """
        if self._top is not self._main or self._main.prompting or not self.app_focus:
            return False
        if self.focused is not None or self._main.maximized is not None:
            return False
        return await self._check_bindings(event.key, priority=True) or await self._check_bindings(
            event.key
        )

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.worker.name == _LOAD and event.worker.error is not None:
            self._not_loaded = describe_error(event.worker.error)
            self.exit(return_code=FAILURE)
        if event.worker.name == _FEED and event.state in (WorkerState.SUCCESS, WorkerState.ERROR):
            self._main.post_message(FeedEnded(self.failed(event)))

    def action_shift_time(self, seconds: int) -> None:
        """Go so many seconds forward in time, or back."""
        if (top := self._top) is not None:
            top.show_message(self._main.move_in_time("shift", seconds))

    def action_step_time(self, ticks: int) -> None:
        """Go so many ticks forward in time, or back."""
        if (top := self._top) is not None:
            top.show_message(self._main.move_in_time("step", ticks))

    def action_to_event(self, step: int) -> None:
        """Go to the next event of the timeline, or the previous one."""
        if (top := self._top) is not None:
            top.show_message(self._main.move_in_time("marker", step))

    def action_ask_seek(self) -> None:
        """Ask for a moment to go to."""
        if isinstance(self.screen, BannerScreen) and self.screen.HAS_PROMPT:
            self._main.ask_seek(self.screen)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's signature
        # Inside a prompt its key is typed.
        return action != "ask_seek" or not getattr(self.screen, "prompting", False)

    def on_prompt_answer(self, message: PromptAnswer) -> None:
        """Of any screen: the one question that all of them have is about time."""
        if message.about == "seek" and message.text is not None:
            self._show_note(self._main.seek(message.text))

    async def action_quit(self) -> None:
        """Quit; while a change is not kept only when repeated."""
        warning = self.changes.quit_warning
        if not warning or self._quit_warned:
            self.exit()
            return
        self._quit_warned = True
        self._show_note(warning)

    # Changes of the host

    def action_keep(self) -> None:
        if not self.changes.keep():
            self._show_note(self.changes.nothing_to_keep())

    def action_take_back(self) -> None:
        if not self.changes.take_back():
            self._show_note("no change is pending; u undoes the last one that was kept")

    def action_undo(self) -> None:
        """Revert the pending change; without one, preview the undo of the last kept change."""
        from nftop.ui.screens.confirm import ConfirmScreen  # noqa: PLC0415 - see registry.OPENED

        if self.changes.take_back():
            return
        gate = self.changes.gate
        if gate is None:
            self._show_note(
                f"no undo: {self._options.no_gate or 'this host cannot be changed from here'}"
            )
        elif self._main.in_the_past:
            self._show_note(IN_THE_PAST)
        elif isinstance(self.screen, ConfirmScreen):
            self._show_note("this is a preview: y or Esc")
        else:
            preview = ConfirmScreen(
                "Preview: undo the last change",
                lambda gate: gate.propose_undo(),
                self.changes,
                self._options,
                frame=self._main.frame,
            )
            self.push_screen(preview, self._previewed_undo)

    def _previewed_undo(self, applied: bool | None) -> None:  # noqa: FBT001 - the preview's answer
        self._repaint()
        if applied is None:
            self._show_note("nothing to undo: no change of nftop stands on this host")

    def on_change_moved(self) -> None:
        state = self.changes.state
        if not self.changes.quit_warning:
            self._quit_warned = False
        if state.phase == "none" and self._countdown is not None:
            self._countdown.stop()
            self._countdown = None
        elif state.phase != "none" and self._countdown is None:
            self._countdown = self.set_interval(_COUNT_DOWN_S, self._repaint)
        applied = state.applied
        self._main.set_own_changes(
            self.changes.own_changes, None if applied is None else applied.until_ns
        )
        if state.receipt is not None and state.receipt.outcome == "kept":
            self.changes.dismiss()
            self._show_note(outcome_text(state.receipt))
        self._repaint()

    def _post_change(self) -> None:
        """Called from the thread of a change, which may outlive the screen."""
        self.post_message(ChangeMoved())

    @property
    def _top(self) -> BannerScreen[Any] | None:
        """The screen that is shown; None: one without a banner, or none, as when leaving."""
        screens = self.screen_stack
        return screens[-1] if screens and isinstance(screens[-1], BannerScreen) else None

    def _repaint(self) -> None:
        if (top := self._top) is not None:
            top.paint()

    def _show_note(self, message: str) -> None:
        if (top := self._top) is not None:
            top.show_message(message)

    def _show_past(self, frame: Frame | None) -> None:
        """Called from the thread of the past."""
        past = self._options.past
        if past is not None:
            self._main.post_message(PastFrame(frame, past.generation))

    def _consume(self) -> None:
        try:
            self._pass_on()
        finally:
            self.changes.experiment.stop()

    def _pass_on(self) -> None:
        """Give every frame to the history, the screens and the experiment."""
        remembers, is_first = isinstance(self._feed, Player), True
        for frame in self._feed.frames():
            if not remembers:
                self._history.append(frame)
                self._options.events.append(frame)
            self.changes.experiment.take(frame)
            self._main.post_message(FrameReady(frame))
            if is_first:
                self._main.call_after_refresh(self.set_timer, _LOAD_AFTER_S, self._load)
                is_first = False

    def _load(self) -> None:
        """Import and read what the first frame did not need, while there are descriptors for it."""

        def load() -> None:
            for step in (*self._later, import_opened):
                step()

        self.run_worker(load, name=_LOAD, thread=True, exit_on_error=False)


class FleetApp(TerminalApp):
    """The fleet screen.

    Attributes:
        opened: the host that the operator opened, with its recording; None: he quit.
    """

    def __init__(self, feed: FleetFeed, context: FleetContext, options: Options) -> None:
        from nftop.ui.screens.fleet import FleetScreen  # noqa: PLC0415 - of this application only

        super().__init__(feed, options, self._consume)
        self.opened: OpenedHost | None = None
        self.first = self._fleet = FleetScreen(feed, context, options)
        self._frames = feed.frames()  # here: a stop before the consumer runs counts

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        if event.worker.name == _FEED and (problem := self.failed(event)):
            self._fleet.post_message(FeedEnded(problem))

    def on_host_opened(self, message: HostOpened) -> None:
        """Leave the terminal to the host's own screens."""
        self.opened = message.opened
        self.exit()

    async def action_quit(self) -> None:
        self.exit()

    def _consume(self) -> None:
        from nftop.ui.screens.fleet import FleetReady  # noqa: PLC0415 - of this application only

        for frame in self._frames:
            self._fleet.post_message(FleetReady(frame))
