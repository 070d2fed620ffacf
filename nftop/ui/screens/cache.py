"""Cache screen: ways and users of every class, and the effect of the last change."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from nftop.derive.compare.verdict import Verdict, last_verdict
from nftop.derive.compare.window import ClassKey
from nftop.model.change import Noticed
from nftop.model.frame import Frame
from nftop.model.rdt.rdt import ROOT
from nftop.render.base.line import Line, clickable, selected
from nftop.render.base.table import scroll
from nftop.render.cache.class_cells import group_name
from nftop.render.cache.detail import Trends, class_lines
from nftop.render.cache.page import CachePage, page, upper, whole
from nftop.render.cache.table import MARKS as CLASS_MARKS
from nftop.render.cache.verdict import MARKS as VERDICT_MARKS
from nftop.render.cache.verdict import card
from nftop.render.cores.layout import above_text
from nftop.render.frame.header import ViewStatus
from nftop.render.pages.help import explain_class_lines
from nftop.ui.key_bindings import ALWAYS, CLASSES, EDIT, END, KeyRow
from nftop.ui.screens.registry import ScreenRow, register
from nftop.ui.screens.view import ScreenView
from nftop.ui.session_view import SessionView
from nftop.ui.widgets.lines import MainLayout


class CacheView(ScreenView):
    """Table of classes per cache; `chosen` is the class and cache under the cursor."""

    KEYS: ClassVar[tuple[KeyRow, ...]] = (*END, *CLASSES, *EDIT, *ALWAYS)

    def __init__(self, session: SessionView) -> None:
        super().__init__(session)
        self.chosen: ClassKey | None = None
        self._keys: tuple[ClassKey, ...] = ()
        self._top = 0
        self._room = 1
        # None: the verdict is first while it still collects samples.
        self._verdict_first: bool | None = None
        self._shows_verdict = False
        self._judged: tuple[int, tuple[Noticed, ...], Verdict | None] = (0, (), None)

    def paint(self, frame: Frame, status: ViewStatus, layout: MainLayout) -> tuple[str, bool]:
        session = self.session
        above, height, footer = above_text(frame, status, width=layout.width, height=layout.height)
        table = upper(frame, layout.text_width, session.own_changes, folded=session.view.folded)
        self._keys = tuple(dict.fromkeys(key for key in table.rows if key is not None))
        self._settle()
        width = layout.text_width
        shown = page(frame, table, width, height, self._lower(frame, width))
        self._room = shown.room
        body = [*shown.fixed, *self._scrolled(shown)]
        body += [Line()] * (height - len(body) - len(shown.lower))
        layout.show_text(above, [*body, *shown.lower], height)
        position = self._keys.index(self.chosen) + 1 if self.chosen in self._keys else 0
        return f"{position}/{len(self._keys)}", bool(footer)

    @property
    def editor_start(self) -> tuple[str, int | None]:
        return (ROOT, None) if self.chosen is None else self.chosen

    def explain(self, frame: Frame) -> Callable[[int], list[Line]] | None:
        if self.chosen is None:
            return None
        session = self.session
        verdict, own_changes = self._verdict(frame), session.own_changes
        trends = self._trends(frame)
        key = self.chosen
        about = f"Class {group_name(key[0])} in L3 {key[1]}"

        def text(width: int) -> list[Line]:
            detail = class_lines(frame, key, width, trends, own_changes)
            verdict_lines = [] if verdict is None else card(verdict, frame, width, own_changes)
            return explain_class_lines(frame, about, [*detail, *verdict_lines], width)

        return text

    def move(self, by: int) -> None:
        if self._keys:
            at = self._keys.index(self.chosen) if self.chosen in self._keys else 0
            self.chosen = self._keys[max(0, min(at + by, len(self._keys) - 1))]

    def select(self, row: int) -> None:
        if row < len(self._keys):
            self.chosen = self._keys[row]

    def page(self, pages: int) -> None:
        self.move(pages * max(1, self._room - 1))

    def next_cache(self, by: int) -> None:
        caches = list(dict.fromkeys(l3 for _, l3 in self._keys))
        if self.chosen in self._keys and self.chosen is not None:
            name, l3 = self.chosen
            wanted = caches[(caches.index(l3) + by) % len(caches)]
            rows = [key for key in self._keys if key[1] == wanted]
            self.chosen = (name, wanted) if (name, wanted) in rows else rows[0]

    def swap_card(self) -> None:
        if self._judged[2] is None:
            self.session.message = "no verdict: no change of classes observed yet"
        else:
            self._verdict_first = not self._shows_verdict

    def full_page(self, frame: Frame) -> Callable[[int], list[Line]] | None:
        verdict, own_changes = self._verdict(frame), tuple(self.session.own_changes)
        trends, key, first = self._trends(frame), self.chosen, self._shows_verdict

        def text(width: int) -> list[Line]:
            detail = [] if key is None else class_lines(frame, key, width, trends, own_changes)
            verdict_lines = [] if verdict is None else card(verdict, frame, width, own_changes)
            return whole(
                frame, (verdict_lines, detail) if first else (detail, verdict_lines), width
            )

        return text

    def _settle(self) -> None:
        """Keep the class selected; if it is gone, the first of its cache."""
        if self.chosen in self._keys:
            return
        same_cache = [
            key for key in self._keys if self.chosen is not None and key[1] == self.chosen[1]
        ]
        self.chosen = next(iter([*same_cache, *self._keys]), None)

    def _lower(self, frame: Frame, width: int) -> list[list[Line]]:
        session = self.session
        detail = []
        if self.chosen is not None:
            detail = class_lines(
                frame, self.chosen, width, self._trends(frame), session.own_changes
            )
        verdict = self._verdict(frame)
        if verdict is None:
            self._shows_verdict = False
            return [detail]
        first = self._verdict_first
        self._shows_verdict = not verdict.over if first is None else first
        both = [detail, card(verdict, frame, width, session.own_changes)]
        return both[::-1] if self._shows_verdict else both

    def _verdict(self, frame: Frame) -> Verdict | None:
        """Computed once per frame, since it takes as long as the rest; a final one only once."""
        at_ns, noticed, verdict = self._judged
        if noticed == frame.noticed and at_ns == frame.monotonic_ns:
            return verdict
        final = verdict is not None and verdict.over
        if not (final and noticed == frame.noticed and at_ns < frame.monotonic_ns):
            window = self.session.history.window(frame) if frame.noticed else None
            verdict = None if window is None else last_verdict(window, self.session.until_ns)
        self._judged = (frame.monotonic_ns, frame.noticed, verdict)
        return verdict

    def _scrolled(self, shown: CachePage) -> list[Line]:
        lines = list(shown.table)
        at = [index for index, key in enumerate(shown.keys) if key and key == self.chosen]
        first = last = self._top
        for index, key in enumerate(shown.keys):
            if key in self._keys:
                lines[index] = clickable(lines[index], "row", self._keys.index(key))
        if at:
            lines[at[0]] = selected(lines[at[0]])
            # The first and the last class bring the lines above or below them.
            first = 0 if self.chosen == self._keys[0] else at[0] - 1
            last = len(lines) - 1 if self.chosen == self._keys[-1] else at[-1]
        self._top = scroll(self._top, first, last, len(lines), shown.room)
        return lines[self._top : self._top + shown.room]

    def _trends(self, frame: Frame) -> Trends:
        past = partial(self.session.history.class_series, until_ns=frame.monotonic_ns)
        return Trends(past, self.session.feed.interval_s)


register(ScreenRow("cache", "3", "Cache", CacheView, marks=(*CLASS_MARKS, *VERDICT_MARKS)))
