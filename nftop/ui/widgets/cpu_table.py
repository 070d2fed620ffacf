"""The table of CPUs: headers, then the rows in view, with the selected one marked."""

from __future__ import annotations

from collections.abc import Sequence

from textual import events

from nftop.model.frame import CpuTable
from nftop.render.base.line import selected
from nftop.render.cores.columns import Col
from nftop.render.cores.cursor import Place
from nftop.render.cores.rows import Rows, View
from nftop.render.cores.table import body_lines, header_line
from nftop.ui.messages import WHEEL_LINES, LineClicked, Wheel
from nftop.ui.widgets.lines import Lines


class CpuTableView(Lines):
    """Draws the rows in view only, so 512 CPUs cost what fits on the screen."""

    def show_rows(
        self,
        cpus: CpuTable,
        view: View,
        rows: Rows,
        *,
        columns: Sequence[Col],
        place: Place,
        height: int,
    ) -> None:
        """Draw the rows around `place` in `height` lines, headers included."""
        body = body_lines(cpus, rows, columns, place.top, height - 1)
        if rows.shown:
            at = place.index - place.top
            body[at : at + 1] = [selected(line) for line in body[at : at + 1]]
        self.show([header_line(columns, view), *body], height)

    def on_click(self, event: events.Click) -> None:
        self.post_message(LineClicked(event.y - 1, event.x))

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.post_message(Wheel(WHEEL_LINES))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.post_message(Wheel(-WHEEL_LINES))
