"""Main screen: keys, prompts, editors and the footer around the view that is up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from textual import events
from textual.app import ComposeResult

from nftop.model.change import OwnChange
from nftop.model.frame import Focus, Frame
from nftop.model.perf_tool import perf_tasks
from nftop.model.replay_position import FASTEST, SLOWEST
from nftop.model.struct import replace
from nftop.render.frame.footer import Tab, Tabs
from nftop.render.frame.header import waiting_lines
from nftop.session.feed import Feed, PastControl, Player
from nftop.store.history.rings import TickHistory
from nftop.ui.change_control import ChangeControl
from nftop.ui.key_bindings import MOST, KeyRow, Mode, named
from nftop.ui.messages import (
    FeedEnded,
    FrameReady,
    NoticePosted,
    PastFrame,
    Wheel,
    WrongAnswerError,
)
from nftop.ui.options import Options
from nftop.ui.recording_keys import GOING_BACK, RecordingKeys
from nftop.ui.rule_control import RuleControl
from nftop.ui.screens.base import BannerScreen
from nftop.ui.screens.editor_opener import EditorOpener
from nftop.ui.screens.registry import DRILL_DOWN, main_keys, position, screen_keys, screens
from nftop.ui.screens.view import ScreenView
from nftop.ui.session_view import SessionView, focus_request
from nftop.ui.widgets.lines import (
    ChangeBanner,
    CpuDetail,
    CpuTableView,
    Footer,
    HeaderLines,
    MainLayout,
    Panels,
)
from nftop.ui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from nftop.ui.screens.page import PageText

LEAST_DELAY_S, MOST_DELAY_S = 0.1, 3600.0


class ViewPrompts:
    """Prompts of find, filter and delay; messages go to `SessionView.message`.

    Attributes:
        questions: prompts by action: subject, label and initial text.
        answers: handlers of prompts by subject.
    """

    def __init__(self, session: SessionView, view: Callable[[], ScreenView]) -> None:
        """`view` returns the view on screen."""
        self._session = session
        self._view = view
        self.questions: Mapping[str, Callable[[], tuple[str, str, str] | None]] = {
            "ask_find": lambda: ("find", "find thread, NF or CPU", ""),
            "ask_filter": lambda: ("filter", "filter thread, NF or CPUs", session.view.filter),
            "ask_delay": self._ask_delay,
        }
        self.answers: Mapping[str, Callable[[str], None]] = {
            "find": self._find,
            "filter": lambda text: session.change_view(filter=text),
            "delay": self._delay,
        }

    def _find(self, text: str) -> None:
        self._session.search = text
        self._view().find_next(1)

    def _ask_delay(self) -> tuple[str, str, str]:
        feed = self._session.feed
        now = f"now {feed.interval_s:g}"
        if isinstance(feed, Player):
            speed = 1.0 if feed.position is None else feed.position.speed
            now = f"now {feed.interval_s / speed:.3g}: changes the replay's speed"
        return "delay", f"seconds between ticks, {now}", ""

    def _delay(self, text: str) -> None:
        try:
            seconds = float(text)
        except ValueError:
            seconds = 0.0
        if LEAST_DELAY_S <= seconds <= MOST_DELAY_S:
            feed = self._session.feed
            if isinstance(feed, Player):
                speed = min(max(feed.interval_s / seconds, SLOWEST), FASTEST)
                self._session.message = f"the replay's speed is {speed:.3g}x (+ and - change it)"
            feed.set_interval(seconds)
        else:
            raise WrongAnswerError(f"{LEAST_DELAY_S:g} to {MOST_DELAY_S:g} seconds are possible")


class MainScreen(BannerScreen[None]):
    """Shows the newest or the frozen frame in the current view."""

    HAS_PROMPT: ClassVar[bool] = True
    _counting = False  # the page of all counters of ports is open
    _held: Frame | None = None  # waits for keys that were read

    def __init__(
        self, feed: Feed, history: TickHistory, options: Options, changes: ChangeControl
    ) -> None:
        super().__init__()
        self._rows, self._keys = screens(), main_keys()
        self.bind_keys(self._keys)
        self.changes = changes
        self._feed = feed
        self._options = options
        time = feed if isinstance(feed, Player) else options.past
        self._session = SessionView(feed, history, time, options.events)
        if options.columns is not None:
            self._session.columns = dict(options.columns.chosen)
        self._views: tuple[ScreenView, ...] = tuple(row.view(self._session) for row in self._rows)
        self._up = 0
        self._focus = Focus()
        self._unhandled: dict[int, events.Key] = {}  # keys that were read, by identity
        self._rule_control = RuleControl(
            feed, options, lambda: self.app, lambda: self._session.frame
        )
        rules = options.rules
        self._session.message = options.message or ("" if rules is None else rules.problem)
        self._editing = EditorOpener(self, self._session, options)
        self._recording_keys = RecordingKeys(self._session, options, self._post_notice)
        self._prompts = ViewPrompts(self._session, lambda: self._view)
        self._questions = {**self._prompts.questions, **self._recording_keys.questions}
        # Actions of keys; the argument is `KeyRow.by`.
        self._acts: Mapping[str, Callable[[int], object]] = {
            "move": self._move,
            "last": lambda _: self._last(),
            "page": lambda by: self._move(by, paged=True),
            "sort": lambda by: self._view.cycle_sort(by),  # noqa: PLW0108 - the view changes
            "sort_menu": lambda _: self._sort_menu(),
            "columns": lambda _: self._columns(),
            "group": lambda _: self._view.group(),
            "jump": lambda by: self._view.next_cache(by),  # noqa: PLW0108 - the view changes
            "swap": lambda _: self._view.swap_card(),
            "screen": self._show,
            "open": lambda _: self._open(),
            "invert": lambda _: self._view.invert(),
            "fold": lambda _: self._session.change_view(folded=not self._session.view.folded),
            "find_again": lambda by: self._view.find_next(by),  # noqa: PLW0108 - the view changes
            **self._recording_keys.acts,
            "record": self._record,
            **{name: partial(self._ask, name) for name in self._questions},
            "clear": lambda _: self._clear(),
            "explain": lambda _: self._explain(),
            "counters": lambda _: self._counters(),
            "findings": lambda _: self._findings(),
            "doctor": lambda _: self._doctor(),
            "perf": lambda _: self._perf(),
            "copy": lambda _: self._copy(),
            "incident": lambda _: self._incident(),
            "edit": lambda _: self._edit(),
            "sweep": lambda _: self.show_message(self._editing.sweep(*self._view.editor_start)),
            "help": lambda _: self._help(),
            "meter": lambda _: self.show_message(self._editing.monitor(self._view)),
            "choose": lambda _: self._view.choose_workload(),
        }

    def compose(self) -> ComposeResult:
        plain = self._options.ascii_only
        yield ChangeBanner(ascii_only=plain)
        yield HeaderLines(ascii_only=plain)
        yield CpuTableView(ascii_only=plain)
        yield Panels(ascii_only=plain)
        yield CpuDetail(ascii_only=plain)
        yield Footer(ascii_only=plain)
        yield Prompt()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's signature
        # Keys that open prompts are letters: inside a prompt they are typed.
        return not (self.prompting and str(next(iter(parameters), "")).startswith("ask_"))

    @property
    def frame(self) -> Frame | None:
        """The frame on screen."""
        return self._session.frame

    @property
    def in_the_past(self) -> bool:
        """Whether the screen shows a moment of the past of a live session."""
        return self._session.past is not None

    def set_own_changes(
        self, own_changes: tuple[OwnChange, ...], until_ns: int | None = None
    ) -> None:
        """Set the class changes written here, and the deadline of a pending one."""
        self._session.written, self._session.until_ns = own_changes, until_ns

    # Messages

    def key_read(self, key: events.Key) -> None:
        """Note a key that waits for its action. Called in the driver's thread."""
        self._unhandled[id(key)] = key

    def key_handled(self, key: events.Key) -> None:
        """Show the frame that waited for the last key."""
        if self._unhandled.pop(id(key), None) is not None and self._held is not None:
            self.call_later(self._show_held)

    def on_frame_ready(self, message: FrameReady) -> None:
        # A key is answered first, on the frame that is drawn already; not by every frame.
        if self._unhandled and self._held is None and self._session.newest is not None:
            self._held = message.frame
            return
        self._held = None
        self._show_frame(message.frame)

    def _show_held(self) -> None:
        if self._held is not None and not self._unhandled:
            frame, self._held = self._held, None
            self._show_frame(frame)

    def _show_frame(self, frame: Frame) -> None:
        before, self._session.newest = self._session.newest, frame
        news = before is None or before.notice != frame.notice
        if self._session.frozen is None or news:
            self.paint()
        above = self.app.screen
        if isinstance(above, BannerScreen) and above.follows:
            above.paint()

    def _post_notice(self, text: str) -> None:
        """From any thread."""
        self.post_message(NoticePosted(text))

    def on_notice_posted(self, message: NoticePosted) -> None:
        self._session.message = message.text
        self.paint()
        above = self.app.screen
        if above is not self and isinstance(above, BannerScreen):
            above.show_message(message.text)

    def on_past_frame(self, message: PastFrame) -> None:
        time = self._session.time
        if not isinstance(time, PastControl) or message.generation != time.generation:
            return  # of a way back that was left
        self._session.past = message.frame
        came = self._session.message == GOING_BACK
        if came:
            self._session.message = ""
        if time.problem:
            self._session.message = time.problem
        self.paint()
        above = self.app.screen
        if above is not self and isinstance(above, BannerScreen) and above.follows:
            if came:
                above.show_message(self._session.message)
            else:
                above.paint()

    def move_in_time(self, action: Literal["shift", "step", "marker"], by: int) -> str:
        """Do what a key of the recording's does; returns why not, "" if it does."""
        self._session.message = ""
        self._recording_keys.acts[action](by)
        return self._session.message

    def ask_seek(self, screen: BannerScreen[Any]) -> None:
        """Ask on a screen for a moment to go to, or say there why none can be gone to."""
        self._session.message = ""
        question = self._recording_keys.ask_seek()
        if question is None:
            screen.show_message(self._session.message)
        else:
            screen.ask(*question)

    def seek(self, text: str) -> str:
        """Go to a moment as it was typed; returns why not, "" if it does."""
        self._session.message = ""
        self._recording_keys.seek_text(text.strip())
        return self._session.message

    def on_feed_ended(self, message: FeedEnded) -> None:
        self._session.ended = message.problem
        self.paint()

    def click(self, action: str, argument: int | str) -> None:
        if action == "row" and isinstance(argument, int):
            self._view.select(argument)
            self.paint()
        elif action == "incident":
            self._incident(str(argument))
        elif action == "moment":
            self._session.message = ""
            self._recording_keys.seek(int(argument))
            self.paint()
        elif action == "sort_by":
            self._view.sort_by(str(argument))
            self.paint()
        else:
            super().click(action, argument)

    def on_wheel(self, message: Wheel) -> None:
        self._view.wheel(message.by)
        self.paint()

    def show_unbound(self, event: events.Key) -> None:
        if event.is_printable and event.key not in self._bindings.key_to_bindings:
            self.show_message(
                f"no screen {event.key}"
                if event.key in "123456789"
                else f"{named(event.character)} does nothing (?: keys)"
            )

    def answer(self, about: str, text: str) -> None:
        self._session.message = ""
        {**self._prompts.answers, **self._recording_keys.answers}[about](text)

    def action_act(self, action: str, by: int) -> None:
        """Run the action of a key if the current view has it."""
        if action not in ("screen", "open") and action not in {
            key.action for key in self._view.KEYS
        }:
            keys = ", ".join(dict.fromkeys(key.shown for key in self._keys if key.action == action))
            self.show_message(f"{keys}: not a key of the {self._up_title} screen (?: keys)")
            return
        if action != "clear":
            self._session.message = ""
        self._acts[action](by)
        self.paint()

    # Actions

    @property
    def _view(self) -> ScreenView:
        """The view on screen."""
        return self._views[self._up]

    @property
    def _up_title(self) -> str:
        return self._rows[self._up].title

    def _move(self, by: int, *, paged: bool = False) -> None:
        (self._view.page if paged else self._view.move)(by)

    def _last(self) -> None:
        if not self._session.to_now():
            self._move(MOST)

    def _record(self, by: int) -> None:
        if self._view.KEEPS_PAST and self._options.past is not None:
            self._ask("ask_keep", by)
        else:
            self._recording_keys.acts["record"](by)

    def _sort_menu(self) -> None:
        """Open the menu of columns to sort by; what it changes is seen beside it."""
        from nftop.ui.screens.menu import SortMenu  # noqa: PLC0415 - see registry.OPENED

        self.app.push_screen(
            SortMenu(lambda: self._view, self.paint, self._options, self.changes),
            lambda _: self.paint(),
        )

    def _columns(self) -> None:
        from nftop.ui.screens.menu import ColumnMenu  # noqa: PLC0415 - see registry.OPENED

        state = self._view.columns
        if state is None:
            return
        self.app.push_screen(
            ColumnMenu(self._view, state, self.paint, self._options, self.changes),
            lambda _: self.paint(),
        )

    def _show(self, number: int) -> None:
        self._up = number

    def _clear(self) -> None:
        """Clear receipt, message and filter, one per call; then the first screen."""
        if self._session.to_now() or self.changes.dismiss() or self._view.back():
            return
        if self._session.view.filter:
            self._session.change_view(filter="")
        elif self._session.message:
            self._session.message = ""
        else:
            self._up = 0

    def _explain(self) -> None:
        frame = self._session.frame
        if frame is None:
            return
        view = self._view
        if view.explain(frame) is None:
            why = f"nothing to explain: no row of the {self._up_title} screen is selected"
            self.show_message(why)
            return
        self._page(view.explain, "x")

    def _counters(self) -> None:
        """Open the page of all counters of ports, which are kept while it is open."""
        frame, view = self._session.frame, self._view
        if frame is None:
            return
        if view.counters(frame) is None:
            self.show_message("no network function is selected")
            return
        self._counting = True
        self._request_focus()
        self._page(view.counters, "o")

    def _findings(self) -> None:
        """Open the page of findings; it follows the frames unless paused."""
        from nftop.ui.screens.incident import FindingsScreen  # noqa: PLC0415 - see registry.OPENED

        if self._session.frame is not None:
            screen = FindingsScreen(self._session, self._options, self.changes, self._rule_control)
            self.app.push_screen(screen, self._back)

    def _incident(self, chosen: str = "") -> None:
        """Open the page of an incident by id, or of the worst one."""
        from nftop.ui.screens.incident import IncidentScreen  # noqa: PLC0415 - see registry.OPENED

        screen = IncidentScreen(
            self._session,
            self._options,
            self.changes,
            self._rule_control,
            self._editing,
            chosen=chosen,
        )
        self.app.push_screen(screen, self._back)

    def _copy(self) -> None:
        text = self.selected_text()
        if text:
            self.copy([text], "row")
        else:
            self.show_message("no row is selected")

    def _doctor(self) -> None:
        from nftop.ui.screens.page import DoctorScreen  # noqa: PLC0415 - see registry.OPENED

        examine = self._options.examine
        if examine is None:
            self.show_message("no doctor here: a replay reads nothing of a host")
        else:
            self.app.push_screen(DoctorScreen(examine, self._options, self.changes), self._back)

    def _perf(self) -> None:
        """Open the page of perf's commands for the selected core."""
        from nftop.ui.screens.page import PerfScreen  # noqa: PLC0415 - see registry.OPENED

        tool, frame, row = self._options.perf_tool, self._session.frame, self._session.row
        if tool is None:
            self.show_message("no commands of perf here: they are for a live host")
        elif frame is None or row is None:
            self.show_message("no CPU is selected")
        else:
            cpu, pid = frame.cpus.topology.cpus[row].cpu, frame.cpus.nf_pid[row]
            together = next((nf.cpus for nf in frame.nfs if nf.pid == pid), ())
            screen = PerfScreen(
                lambda: perf_tasks(cpu, together, tool()), cpu, self._options, self.changes
            )
            self.app.push_screen(screen, self._back)

    def _open(self) -> None:
        """Open the full page of the view if it has one, else the drill-down screen."""
        if self._view.enter():
            return
        view, frame = self._view, self._session.frame
        if frame is None or view.full_page(frame) is None:
            if position(DRILL_DOWN) == self._up:
                self.show_message(f"Enter opens nothing on the {self._up_title} screen")
            self._show(position(DRILL_DOWN))
        else:
            self._page(view.full_page, "enter")

    def _edit(self) -> None:
        edit = self._editing.priority if self._view.EDITS == "priority" else self._editing.classes
        why = edit(self._view)
        if why:
            self.show_message(why)

    def _help(self) -> None:
        self.open_help(self._rows[self._up].id, self._options, self._back)

    def _page(self, text_of: Callable[[Frame], PageText | None], toggle: str) -> None:
        """Open a page about the frame on screen; it follows the frames."""
        from nftop.ui.screens.page import PageScreen  # noqa: PLC0415 - see registry.OPENED

        def source() -> PageText | None:
            frame = self._session.frame
            return None if frame is None else text_of(frame)

        page = PageScreen(source, self._options, self.changes, toggle=toggle)
        self._session.pinned = True
        self.app.push_screen(page, self._back)

    def _back(self, number: int | None) -> None:
        """Return from a page, to another screen if `number` is given."""
        self._counting = self._session.pinned = False
        self._request_focus()
        if number is not None:
            self._show(number)
            self.paint()

    def _ask(self, name: str, _by: int) -> None:
        question = self._questions[name]()
        if question is not None:
            self.ask(*question)

    def show_message(self, message: str) -> None:
        self._session.message = message
        self.paint()

    # Drawing

    def paint(self) -> None:
        with self.at_once():
            self._paint()

    def _paint(self) -> None:
        width, height = self.size
        session = self._session
        taken = self.show_banner()
        if taken is None:
            return
        height -= taken
        status = replace(
            session.status,
            tabs=self._tabs,
            unlocked=self._options.rw and self.changes.gate is not None and not self.in_the_past,
        )
        if self.changes.state.phase != "none":
            status = replace(status, notice="")  # the banner reports nftop's own change
        if session.frame is None:
            self.query_one(HeaderLines).show(waiting_lines(status, width), height)
            return
        spot, has_footer = self._view.paint(session.frame, status, self._layout(width, height))
        self._request_focus()
        self.show_footer(position=spot, message=session.message, height=int(has_footer))

    @property
    def _tabs(self) -> Tabs:
        tabs = tuple(Tab(row.keys[0], row.title, row.short or row.title) for row in self._rows)
        filters = any(key.action == "ask_filter" for key in self._view.KEYS)
        search = self._session.view.filter if filters else None
        sick = self._session.sick if self._view.COUNTS_SICK else None
        order = self._view.sorting
        if order is None:
            return Tabs(tabs, self._up, search=search, sick=sick)
        return Tabs(tabs, self._up, order.label, order.descending, search, sick)

    @property
    def key_rows(self) -> tuple[KeyRow, ...]:
        return (*screen_keys(), *self._view.KEYS)

    @property
    def modes(self) -> set[Mode]:
        modes = super().modes
        modes.add("replay" if self._recording_keys.replays else "live")
        if self._session.past is not None:
            modes.add("past")
        elif self.changes.gate is not None:
            modes.add("edits")
        if self._options.recorder is not None:
            modes.add("records")
        return modes

    def _layout(self, width: int, height: int) -> MainLayout:
        return MainLayout(
            width,
            height,
            self.query_one(HeaderLines),
            self.query_one(CpuTableView),
            self.query_one(Panels),
            self.query_one(CpuDetail),
        )

    def _request_focus(self) -> None:
        """Request counting of what the view shows, and of nothing else."""
        frame = self._session.frame
        if frame is None:
            return
        stays = self._session.frozen is not None or self._session.past is not None
        of_view = replace(self._view.focus, counters=self._counting)
        wanted = focus_request(self._focus, of_view, frame.topology, stays=stays)
        if wanted != self._focus:
            self._focus = wanted
            self._feed.set_focus(wanted)
