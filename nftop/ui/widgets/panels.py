"""What there is below the table of CPUs, or all of a screen without one."""

from __future__ import annotations

from textual import events

from nftop.ui.messages import WHEEL_LINES, Wheel
from nftop.ui.widgets.lines import Lines


class Panels(Lines):
    """Lines of `render.panels`, or those of a screen of text."""

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        event.stop()
        self.post_message(Wheel(WHEEL_LINES))

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        event.stop()
        self.post_message(Wheel(-WHEEL_LINES))
