"""The Cores screen: who polls where, how busy, at what cost per packet."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen

from nftop.model.frame import Frame
from nftop.render.browse import Place, find, move, settle
from nftop.render.columns import Col, columns_for
from nftop.render.detail import trend_metric
from nftop.render.footer import footer_line, where
from nftop.render.header import Status, time_of_day, waiting_lines
from nftop.render.layout import Parts, share_out
from nftop.render.map import map_metric
from nftop.render.pages import explain_lines, help_lines
from nftop.render.rows import Rows, View, arrange
from nftop.session.feed import Feed
from nftop.store.history import History
from nftop.ui.keys import CORES, HINTS, bindings, help_rows
from nftop.ui.messages import Answer, FeedEnded, FrameReady, LineClicked, Wheel
from nftop.ui.options import Options
from nftop.ui.screens.page import PageScreen
from nftop.ui.widgets.cpu_table import CpuTableView
from nftop.ui.widgets.detail import Detail
from nftop.ui.widgets.footer import Footer
from nftop.ui.widgets.header import Header
from nftop.ui.widgets.panels import Panels
from nftop.ui.widgets.prompt import Prompt

LEAST_DELAY_S, MOST_DELAY_S = 0.1, 3600.0


class CoresScreen(Screen[None]):
    """Shows the newest frame, or the one it was frozen at, as the operator asked to see it."""

    AUTO_FOCUS: ClassVar[str | None] = ""
    BINDINGS: ClassVar[list[BindingType]] = bindings(CORES)

    def __init__(self, feed: Feed, history: History, options: Options) -> None:
        super().__init__()
        self._feed = feed
        self._history = history
        self._options = options
        self._newest: Frame | None = None
        self._frozen: Frame | None = None
        self._ended: FeedEnded | None = None
        self._view = View()
        self._place = Place()
        self._rows = Rows((), 0)
        self._body_height = 1
        self._sought = ""
        self._message = ""
        self._asking = False

    def compose(self) -> ComposeResult:
        plain = self._options.ascii_only
        yield Header(ascii_only=plain)
        yield CpuTableView(ascii_only=plain)
        yield Panels(ascii_only=plain)
        yield Detail(ascii_only=plain)
        yield Footer(ascii_only=plain)
        yield Prompt()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 - Textual's signature
        # The keys of prompts are letters too: within one they are typed.
        return not (self._asking and action.startswith("ask_"))

    # What comes in

    def on_frame_ready(self, message: FrameReady) -> None:
        self._newest = message.frame
        if self._frozen is None:
            self._paint()

    def on_feed_ended(self, message: FeedEnded) -> None:
        self._ended = message
        self._paint()

    def on_resize(self) -> None:
        self._paint()

    def on_line_clicked(self, message: LineClicked) -> None:
        if message.line < 0:
            self._sort_at(message.x)
        elif self._place.top + message.line < len(self._rows.shown):
            self.action_move(self._place.top + message.line - self._place.index)

    def on_wheel(self, message: Wheel) -> None:
        self.action_move(message.by)

    def on_answer(self, message: Answer) -> None:
        self._asking = False
        self._paint()
        if message.text is not None:
            answers = {"find": self._find, "filter": self._filter, "delay": self._delay}
            answers[message.about](message.text.strip())

    # Keys

    def action_move(self, by: int) -> None:
        if self._frame is not None:
            self._message = ""
            self._place = move(self._place, by, self._frame.cpus, self._rows, self._body_height)
            self._paint()

    def action_page(self, pages: int) -> None:
        self.action_move(pages * self._body_height)

    def action_sort(self, step: int) -> None:
        keys = [col.key for col in self._columns()]
        at = keys.index(self._view.sort) if self._view.sort in keys else -step
        self._look(sort=keys[(at + step) % len(keys)], inverted=False)

    def action_invert(self) -> None:
        self._look(inverted=not self._view.inverted)

    def action_fold(self) -> None:
        self._look(folded=not self._view.folded)

    def action_clear(self) -> None:
        self._look(filter="")

    def action_pause(self) -> None:
        self._frozen = self._newest if self._frozen is None else None
        self._paint()

    def action_ask_find(self) -> None:
        self._ask("find", "find thread, NF or CPU")

    def action_find_again(self, step: int) -> None:
        if self._sought:
            self._go_to_match(step)

    def action_ask_filter(self) -> None:
        self._ask("filter", "filter thread, NF or CPUs", self._view.filter)

    def action_ask_delay(self) -> None:
        self._ask("delay", f"seconds between ticks, now {self._feed.interval_s:g}")

    def action_explain(self) -> None:
        frame = self._frame
        if frame is not None and self._rows.shown:
            row = self._rows.shown[self._place.index]
            metric = trend_metric(frame.cpus, row, self._view.sort)
            text = partial(explain_lines, frame, row, metric)
            self.app.push_screen(PageScreen(text, self._options))

    def action_help(self) -> None:
        self.app.push_screen(PageScreen(partial(help_lines, help_rows()), self._options))

    # What they do

    @property
    def _frame(self) -> Frame | None:
        """The frame on screen."""
        return self._frozen or self._newest

    def _look(self, **changes: object) -> None:
        self._view = replace(self._view, **changes)  # type: ignore[arg-type]
        self._message = ""
        self._paint()

    def _columns(self) -> tuple[Col, ...]:
        return columns_for(self.size.width, self._frame.cpus if self._frame else None)

    def _sort_at(self, x: int) -> None:
        """Sort by the column whose header was clicked; the other way if it already is."""
        for col in self._columns():
            if 0 <= x < col.width:
                same = col.key == self._view.sort
                self._look(sort=col.key, inverted=same and not self._view.inverted)
            x -= col.width

    def _ask(self, about: str, label: str, value: str = "") -> None:
        self._asking = True
        self._paint()
        self.query_one(Prompt).ask(about, label, value)

    def _find(self, text: str) -> None:
        self._sought = text
        if text:
            self._go_to_match(1)

    def _go_to_match(self, step: int) -> None:
        if self._frame is None:
            return
        by = find(self._place, self._sought, step, self._frame.cpus, self._rows)
        if by is not None:
            self.action_move(by)
            return
        hidden = ", i shows all CPUs" if self._rows.folded else ""
        self._say(f"not found: {self._sought}{hidden}")

    def _filter(self, text: str) -> None:
        self._look(filter=text)

    def _delay(self, text: str) -> None:
        try:
            seconds = float(text)
        except ValueError:
            seconds = 0.0
        if LEAST_DELAY_S <= seconds <= MOST_DELAY_S:
            self._feed.set_interval(seconds)
            self._say("")
        else:
            self._say(f"the delay must be {LEAST_DELAY_S:g} to {MOST_DELAY_S:g} seconds")

    def _say(self, message: str) -> None:
        self._message = message
        self._paint()

    # Drawing

    def _status(self) -> Status:
        if self._ended is not None:
            problem = self._ended.problem
            return Status("STOPPED" if problem else "ENDED", None, problem)
        if self._frozen is not None:
            return Status(f"PAUSED at {time_of_day(self._frozen)}")
        return Status("LIVE", self._feed.interval_s)

    def _paint(self) -> None:
        width, height = self.size
        frame = self._frame
        if not width or not height:
            return
        if frame is None:
            self.query_one(Header).show(waiting_lines(self._status(), width), height)
            return
        self._rows = arrange(frame.cpus, self._view)
        parts = share_out(
            frame,
            self._status(),
            map_metric(frame.cpus, self._view.sort),
            rows=self._rows.lines,
            width=width,
            height=height,
            sought=self._view.filter,
        )
        self._body_height = max(1, parts.table - 1)
        self._place = settle(self._place, frame.cpus, self._rows, self._body_height)
        self._paint_parts(frame, parts)

    def _paint_parts(self, frame: Frame, parts: Parts) -> None:
        width = self.size.width
        self.query_one(Header).show(parts.top, len(parts.top))
        self.query_one(CpuTableView).show_rows(
            frame.cpus,
            self._view,
            self._rows,
            columns=columns_for(width, frame.cpus),
            place=self._place,
            height=parts.table,
        )
        self.query_one(Panels).show(parts.panels, len(parts.panels))
        if self._rows.shown and parts.detail:
            self.query_one(Detail).show_row(
                frame,
                self._rows.shown[self._place.index],
                self._view.sort,
                self._history,
                interval_s=self._feed.interval_s,
                width=width,
                height=parts.detail,
            )
        else:
            self.query_one(Detail).show([], parts.detail)
        spot = where(self._view, self._place.top, self._body_height, len(self._rows.shown))
        foot = footer_line(HINTS, spot, width, self._message)
        # A prompt takes the footer's line.
        self.query_one(Footer).show([foot], 0 if self._asking else parts.footer)
