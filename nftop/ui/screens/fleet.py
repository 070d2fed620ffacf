"""Fleet screen: all hosts of a Prometheus, a row each and network function; Enter opens one."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import ClassVar, NamedTuple

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message

from nftop.model.error_text import describe_error
from nftop.model.fleet import FleetFrame, FleetHost
from nftop.model.struct import dataclass, field, replace
from nftop.render.base.line import BLANK, Line, clickable, line, selected
from nftop.render.base.table import TableColumn, scroll
from nftop.render.base.text import printable
from nftop.render.fleet import (
    COLUMNS,
    FleetStatus,
    explain_fleet_lines,
    fleet_columns,
    fleet_findings_lines,
    fleet_header,
    fleet_lines,
    fleet_order_line,
    fleet_table_header,
    unmapped_lines,
    waiting_header,
)
from nftop.render.fleet_rows import FleetOrder, FleetRow, fleet_rows, matches
from nftop.session.fleet import LEAST_FLEET_S, MOST_FLEET_S, FleetFeed, RemoteAttempt
from nftop.store.user.fleet_hosts import FleetHosts
from nftop.ui.change_control import ChangeControl
from nftop.ui.key_bindings import FLEET, FLEET_PAGE, MOST, KeyRow, bindings
from nftop.ui.messages import FeedEnded, Wheel, WrongAnswerError
from nftop.ui.options import Options
from nftop.ui.screens.base import BannerScreen
from nftop.ui.screens.menu import SortMenu
from nftop.ui.screens.page import PageScreen, PageText
from nftop.ui.screens.view import SortState
from nftop.ui.widgets.lines import ChangeBanner, Footer, HeaderLines, Panels
from nftop.ui.widgets.prompt import Prompt

# Ages are drawn anew so often.
_AGES_S = 1.0
# Opening a host without any data for so long is stated.
_NO_DATA_NS = 15_000_000_000
# Lines of incidents: of the height, between these.
_LEAST_INCIDENTS, _MOST_INCIDENTS = 2, 6


@dataclass
class FleetMemory:
    """What outlasts a visit to a host: order, filter, selection, message."""

    order: FleetOrder = field(default_factory=FleetOrder)
    key: tuple[str, ...] | None = None
    message: str = ""


class FleetContext(NamedTuple):
    """What the screen works with.

    Attributes:
        source: the Prometheus, as shown.
        open_remote: begins to open the live recording of a host of ssh.
        clock_ns: CLOCK_MONOTONIC.
    """

    source: str
    hosts: FleetHosts
    open_remote: Callable[[str], RemoteAttempt]
    memory: FleetMemory
    clock_ns: Callable[[], int] = time.monotonic_ns


class OpenedHost(NamedTuple):
    """A host whose recording has begun to arrive."""

    host: FleetHost
    attempt: RemoteAttempt


class FleetReady(Message):
    """A new frame; replaces one not handled yet."""

    def __init__(self, frame: FleetFrame) -> None:
        self.frame = frame
        super().__init__()

    def can_replace(self, message: Message) -> bool:
        return isinstance(message, FleetReady)


class HostOpened(Message):
    """For the application: show this host."""

    def __init__(self, opened: OpenedHost) -> None:
        self.opened = opened
        super().__init__()


class AttemptEnded(Message):
    """A host's recording has begun, or `problem` says why not."""

    def __init__(self, opened: OpenedHost, problem: str) -> None:
        self.opened = opened
        self.problem = problem
        super().__init__()


class FleetPage(PageScreen, inherit_bindings=False):
    """A page about the fleet."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(FLEET_PAGE)
    KEYS: ClassVar[tuple[KeyRow, ...]] = FLEET_PAGE
    TABLE: ClassVar[str] = "fleet_page"
    LEADS: ClassVar[bool] = False


class FleetScreen(BannerScreen[None]):
    """Shows the newest or the frozen frame."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(FLEET)
    KEYS: ClassVar[tuple[KeyRow, ...]] = FLEET

    def __init__(self, feed: FleetFeed, context: FleetContext, options: Options) -> None:
        super().__init__()
        self.changes = ChangeControl(None, lambda: None)
        self._feed, self._fleet, self._options = feed, context, options
        self._memory = context.memory
        self._newest: FleetFrame | None = None
        self._frozen: FleetFrame | None = None
        self._arranged: tuple[FleetFrame, FleetOrder] | None = None
        self._rows: list[FleetRow] = []
        self._columns: dict[int, tuple[TableColumn, ...]] = {}  # of these rows, by width
        self._at, self._page_rows = 0, 1
        self._search, self._ended = "", ""
        self._attempt: OpenedHost | None = None
        self._opened_ns = 0
        self._message, context.memory.message = context.memory.message, ""
        self._acts: Mapping[str, Callable[[int], object]] = {
            "open": lambda _: self._open(),
            "move": self._move,
            "page": lambda by: self._move(by * max(1, self._page_rows - 1)),
            "incident": lambda _: self._next_incident(),
            "find_again": self._find,
            "sort": self._cycle_sort,
            "sort_menu": lambda _: self._sort_menu(),
            "invert": lambda _: self.invert(),
            "explain": lambda _: self._explain(),
            "findings": lambda _: self._findings(),
            "pause": lambda _: self._pause(),
            "refresh": lambda _: self._feed.refresh(),
            "copy": lambda _: self._copy(),
            "clear": lambda _: self._clear(),
            "help": lambda _: self.open_help("fleet", self._options),
            "ask_find": lambda _: self.ask("find", "find host, NF, class or incident"),
            "ask_filter": lambda _: self.ask(
                "filter", "filter host, NF, class or incident", self._memory.order.filter
            ),
            "ask_delay": lambda _: self.ask(
                "delay", f"seconds between queries, now {self._feed.interval_s:g}"
            ),
        }

    def compose(self) -> ComposeResult:
        plain = self._options.ascii_only
        yield ChangeBanner(ascii_only=plain)
        yield HeaderLines(ascii_only=plain)
        yield Panels(ascii_only=plain)
        yield Footer(ascii_only=plain)
        yield Prompt()

    def on_mount(self) -> None:
        self.set_interval(_AGES_S, self._repaint_ages)

    def _repaint_ages(self) -> None:
        if self.is_current:
            self.paint()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's signature
        # Keys that open prompts are letters: inside a prompt they are typed.
        return not (self.prompting and str(next(iter(parameters), "")).startswith("ask_"))

    # Messages

    def on_fleet_ready(self, message: FleetReady) -> None:
        self._newest = message.frame
        self.paint()
        above = self.app.screen
        if above is not self and isinstance(above, BannerScreen) and above.follows:
            above.paint()

    def on_feed_ended(self, message: FeedEnded) -> None:
        self._ended = message.problem
        self.paint()

    def on_wheel(self, message: Wheel) -> None:
        self._move(message.by)
        self.paint()

    def answer(self, about: str, text: str) -> None:
        self._message = ""
        if about == "find":
            self._search = text
            self._find(1)
        elif about == "filter":
            self._memory.order = replace(self._memory.order, filter=text)
        else:
            self._set_delay(text)

    def on_attempt_ended(self, message: AttemptEnded) -> None:
        if self._attempt is not message.opened:
            message.opened.attempt.cancel()  # given up meanwhile
            return
        self._attempt = None
        if message.problem:
            self.show_message(f"{message.opened.host.name}: {message.problem}")
        else:
            self.app.post_message(HostOpened(message.opened))

    def on_unmount(self) -> None:
        if self._attempt is not None:
            self._attempt.attempt.cancel()

    def click(self, action: str, argument: int | str) -> None:
        if action == "row" and isinstance(argument, int):
            self._select(argument)
        elif action == "host":
            self._select_host(str(argument))
        elif action == "sort_by":
            self.sort_by(str(argument))
        else:
            super().click(action, argument)
        self.paint()

    def action_act(self, action: str, by: int) -> None:
        if action != "clear":
            self._message = ""
        self._acts[action](by)
        if self.is_current:
            self.paint()

    # Order, for the sort menu too

    @property
    def sorting(self) -> SortState | None:
        order = self._memory.order
        columns = {"": "harm"} | {col.key: col.label for col in COLUMNS if col.key != "event"}
        return SortState(tuple(columns.items()), order.sort, order.descending)

    def sort_by(self, key: str) -> None:
        order = self._memory.order
        if key not in dict(self.sorting.columns if self.sorting else ()):
            return
        if key == order.sort:
            self.invert()
        else:
            self._memory.order = replace(order, sort=key, inverted=False)

    def invert(self) -> None:
        order = self._memory.order
        self._memory.order = replace(order, inverted=not order.inverted)

    def _cycle_sort(self, step: int) -> None:
        shown = ["", *(col.key for col in self._columns_for(self.size.width) if col.key != "event")]
        now = self._memory.order.sort
        at = shown.index(now) if now in shown else 0
        self._memory.order = replace(
            self._memory.order, sort=shown[(at + step) % len(shown)], inverted=False
        )

    def _sort_menu(self) -> None:
        menu = SortMenu(lambda: self, self.paint, self._options, self.changes)
        self.app.push_screen(menu, lambda _: self.paint())

    # Selection

    @property
    def frame(self) -> FleetFrame | None:
        """The frame on screen."""
        return self._frozen or self._newest

    @property
    def _selected(self) -> FleetRow | None:
        return self._rows[self._at] if self._at < len(self._rows) else None

    def _arrange(self, frame: FleetFrame) -> None:
        """Rows of the frame in order; the selected one stays selected."""
        arranged = (frame, self._memory.order)
        if (
            self._arranged is not None
            and self._arranged[0] is frame
            and self._arranged[1] == arranged[1]
        ):
            return
        self._arranged = arranged
        self._rows = fleet_rows(frame, self._memory.order)
        self._columns = {}
        key = self._memory.key
        at = next((at for at, row in enumerate(self._rows) if row.key == key), None)
        if at is None:
            self._memory.key = None
            at = 0
        self._at = at

    def _columns_for(self, width: int) -> tuple[TableColumn, ...]:
        if width not in self._columns:
            self._columns = {width: fleet_columns(width, self._rows)}
        return self._columns[width]

    def _select(self, at: int) -> None:
        if self._rows:
            self._at = max(0, min(at, len(self._rows) - 1))
            # At the top nothing is held: what hurts most stays in view.
            self._memory.key = self._rows[self._at].key if self._at else None

    def _move(self, by: int) -> None:
        self._select(self._at + by if abs(by) < MOST else (0 if by < 0 else len(self._rows)))

    def _find(self, step: int) -> None:
        """Select the next or previous row with the search."""
        for away in range(1, len(self._rows) + 1) if self._search else ():
            at = (self._at + away * step) % len(self._rows)
            if matches(self._rows[at], self._search):
                self._select(at)
                return
        self._message = f"not found: {self._search}" if self._search else "no search yet (/)"

    def _next_incident(self) -> None:
        frame, row = self.frame, self._selected
        hosts = dict.fromkeys(item.host.instance for item in frame.incidents) if frame else {}
        shown = {item.host.instance for item in self._rows}
        names = [name for name in hosts if name in shown]
        if not names:
            self._message = "the filter hides all incidents" if hosts else "no incident is open"
            return
        last = "" if row is None else row.host.instance
        self._select_host(names[(names.index(last) + 1) % len(names) if last in names else 0])

    def _select_host(self, instance: str) -> None:
        at = next((at for at, row in enumerate(self._rows) if row.host.instance == instance), None)
        if at is None:
            self._message = "the filter hides this host"
        else:
            self._select(at)

    # Actions

    def _set_delay(self, text: str) -> None:
        try:
            seconds = float(text)
        except ValueError:
            seconds = 0.0
        if LEAST_FLEET_S <= seconds <= MOST_FLEET_S:
            self._feed.set_interval(seconds)
        else:
            raise WrongAnswerError(f"{LEAST_FLEET_S:g} to {MOST_FLEET_S:g} seconds are possible")

    def _pause(self) -> None:
        self._frozen = self._newest if self._frozen is None else None

    def _copy(self) -> None:
        text = self.selected_text()
        if text:
            self.copy([text], "row")
        else:
            self._message = "no row is selected"

    def _clear(self) -> None:
        """Give up opening a host; else clear the message, else the filter."""
        if self._attempt is not None:
            self._attempt.attempt.cancel()
            self._attempt = None
            self._message = "not opened"
        elif self._message:
            self._message = ""
        else:
            self._memory.order = replace(self._memory.order, filter="")

    def _explain(self) -> None:
        row = self._selected
        if row is None:
            self._message = "no row is selected"
            return
        key = row.key

        def source() -> PageText | None:
            now = next((item for item in self._rows if item.key == key), None)
            frame = self.frame
            return (
                None if now is None or frame is None else partial(explain_fleet_lines, frame, now)
            )

        self._show_page(source, "x")

    def _findings(self) -> None:
        self._show_page(
            lambda: None if self.frame is None else partial(fleet_findings_lines, self.frame), "F"
        )

    def _show_page(
        self, source: Callable[[], PageText | None], toggle: str, copied: tuple[str, ...] = ()
    ) -> None:
        page = FleetPage(source, self._options, self.changes, toggle=toggle, copied=copied)
        self.app.push_screen(page, lambda _: self.paint())

    def _open(self) -> None:
        """Begin to open the selected host; the answer is an `AttemptEnded`."""
        row = self._selected
        if row is None:
            self._message = "no row is selected"
            return
        if self._attempt is not None:
            return
        hosts, instance = self._fleet.hosts, row.host.instance
        destination = hosts.destination(instance)
        if destination is None:
            to_add = hosts.lines_to_add(instance)
            text = partial(unmapped_lines, row.host, str(hosts.path), to_add, hosts.unread)
            self._show_page(lambda: text, "enter", to_add)
            return
        self._opened_ns = self._fleet.clock_ns()
        opened = self._attempt = OpenedHost(row.host, self._fleet.open_remote(destination))
        self.run_worker(lambda: self._wait(opened), name="remote", thread=True, exit_on_error=False)

    def _wait(self, opened: OpenedHost) -> None:
        """In a thread."""
        try:
            problem = opened.attempt.wait()
        except Exception as error:  # noqa: BLE001 - the boundary: a sentence, whatever it is
            opened.attempt.cancel()
            problem = describe_error(error)
        self.post_message(AttemptEnded(opened, problem))

    # Drawing

    def paint(self) -> None:
        width, height = self.size
        if (taken := self.show_banner()) is None:
            return
        height -= taken
        frame = self.frame
        status = FleetStatus(
            self._fleet.source,
            self._feed.interval_s,
            self._fleet.clock_ns(),
            "LIVE" if self._frozen is None else "PAUSED",
            self._ended,
        )
        header = self.query_one(HeaderLines)
        if frame is None:
            header.show(waiting_header(status, width), height - 1)
            self.query_one(Panels).show([], 0)
            self.show_footer(message=self._shown_message)
            return
        self._arrange(frame)
        incidents = max(_LEAST_INCIDENTS, min(_MOST_INCIDENTS, height // 6 - 1))
        above = fleet_header(frame, status, width, incidents)[: max(1, height - 6)]
        order = self._memory.order
        above += [
            fleet_order_line(self._rows, order, width),
            fleet_table_header(self._columns_for(width), order, width),
        ]
        header.show(above, len(above))
        room = max(0, height - 1 - len(above))
        self.query_one(Panels).show(self._table(frame, width, room, status.now_ns), room)
        position = f"{self._at + 1}/{len(self._rows)}" if self._rows else "no rows"
        self.show_footer(position=position, message=self._shown_message)

    @property
    def _shown_message(self) -> str:
        if self._message or self._attempt is None:
            return self._message
        waits = self._fleet.clock_ns() - self._opened_ns > _NO_DATA_NS
        none = ": no data yet" * waits
        return f"opening {self._attempt.host.name[:40]} over ssh{none}; Esc gives up"

    def _table(self, frame: FleetFrame, width: int, height: int, now_ns: int) -> list[Line]:
        """Rows in view."""
        if not self._rows:
            wanted = printable(self._memory.order.filter)
            return [line(f" no row matches {wanted}" if wanted else "")]
        self._page_rows = max(1, height)
        self._top = scroll(self._top, self._at, self._at, len(self._rows), height)
        shown = self._rows[self._top : self._top + height]
        lines = fleet_lines(shown, self._columns_for(width), frame, now_ns)
        lines = [clickable(drawn, "row", self._top + at) for at, drawn in enumerate(lines)]
        at = self._at - self._top
        lines[at : at + 1] = [selected(drawn) for drawn in lines[at : at + 1]]
        return [*lines, *[BLANK] * (height - len(lines))]
