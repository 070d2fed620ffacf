"""Timeline screen: what happened, when, and how bad it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from nftop.model.frame import Frame
from nftop.model.struct import replace
from nftop.model.timeline import Strip, TimelineEvent
from nftop.render.base.line import Line
from nftop.render.base.table import scroll
from nftop.render.cores.layout import above_text
from nftop.render.frame.header import ViewStatus
from nftop.render.timeline.axis import span_text
from nftop.render.timeline.page import MARKS, TimelineData, list_rows, timeline_lines
from nftop.session.feed import PastControl, Player
from nftop.store.history.events import HOURS_KEPT
from nftop.ui.key_bindings import ALWAYS, END, TIMELINE, KeyRow
from nftop.ui.screens.registry import ScreenRow, register
from nftop.ui.screens.view import ScreenView
from nftop.ui.session_view import SessionView
from nftop.ui.widgets.lines import MainLayout

_HOURS_NS = HOURS_KEPT * 3_600_000_000_000


class TimelineView(ScreenView):
    """Graphs, lanes, and the list of events with a cursor; Enter goes to the selected one."""

    KEYS: ClassVar[tuple[KeyRow, ...]] = (*END, *TIMELINE, *ALWAYS)
    KEEPS_PAST: ClassVar[bool] = True

    def __init__(self, session: SessionView) -> None:
        super().__init__(session)
        self._selected: str | None = None  # key of an event, which keeps its row while others come
        self._at = self._top = 0
        self._rows = 1
        self._events: tuple[TimelineEvent, ...] = ()

    def paint(self, frame: Frame, status: ViewStatus, layout: MainLayout) -> tuple[str, bool]:
        session = self.session
        strip = status.strip
        # Its own graphs say what the strip does.
        status = replace(status, strip=None)
        above, room, footer = above_text(frame, status, width=layout.width, height=layout.height)
        hours = self._hours(frame, strip)
        window = strip or hours
        self._events = tuple(reversed(hours.events))
        keys = [event.key for event in self._events]
        if self._selected in keys:
            self._at = keys.index(self._selected)
        data = TimelineData(
            window,
            session.events.series("sent_packets_per_s", window.first_ns, window.last_ns),
            session.events.series("memory_bytes_per_s", window.first_ns, window.last_ns),
            hours,
            self._events,
            self._kept(),
            session.newest or frame,
            then=session.past,
            own_changes=session.own_changes,
        )
        self._rows = max(1, list_rows(data, room))
        self.move(0)
        last = max(0, len(self._events) - 1)
        self._top = scroll(self._top, self._at, min(self._at, last), last + 1, self._rows)
        data = replace(data, first=self._top, selected=self._at)
        lines = timeline_lines(data, layout.width, room, ascii_only=layout.header.ascii_only)
        layout.show_text(above, lines, room, indent=False)
        spot = f"{self._at + 1}/{len(self._events)}" if self._events else "no events"
        return spot, bool(footer)

    def explain(self, frame: Frame) -> Callable[[int], list[Line]] | None:  # noqa: ARG002 - optional
        return None

    def enter(self) -> bool:
        """Go to the moment of the selected event."""
        time, session = self.session.time, self.session
        if not self._events:
            session.message = "no event to go to"
        elif time is None:
            session.message = "nothing of the past is kept here"
        else:
            time.seek(self._events[self._at].begin_ns)
            if isinstance(time, PastControl):
                session.message = time.problem
        return True

    def move(self, by: int) -> None:
        self._at = max(0, min(self._at + by, len(self._events) - 1))
        self._selected = self._events[self._at].key if self._events and (by or self._at) else None

    def select(self, index: int) -> None:
        self.move(index - self._at)

    def page(self, pages: int) -> None:
        self.move(pages * max(1, self._rows - 1))

    def _hours(self, frame: Frame, strip: Strip | None) -> Strip:
        """All that is kept: hours of a live session, or the whole recording."""
        if strip is not None and strip.whole:
            return strip
        now_ns = (self.session.newest or frame).wall_ns
        events = self.session.events
        oldest_ns = now_ns if events.first_ns is None else events.first_ns
        begun_ns = min(oldest_ns, now_ns - 600_000_000_000)
        cursor_ns = None if self.session.past is None else self.session.past.wall_ns
        return events.strip(now_ns, span_ns=min(now_ns - begun_ns, _HOURS_NS), cursor_ns=cursor_ns)

    def _kept(self) -> str:
        time = self.session.time
        if isinstance(self.session.feed, Player):
            return "the whole recording"
        if not isinstance(time, PastControl):
            return "no samples of the past are kept"
        size = time.kept
        mib, most = size.size_bytes / 2**20, size.budget_bytes / 2**20
        return f"samples of {span_text(size.seconds)} kept, {mib:.1f} of {most:.0f} MiB"


register(ScreenRow("timeline", "5", "Timeline", TimelineView, short="Time", marks=MARKS))
