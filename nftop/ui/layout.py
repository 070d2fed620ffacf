"""The widgets of the main screen, which its views draw on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nftop.render.base.line import Line
from nftop.ui.widgets.cpu_table import CpuTableView
from nftop.ui.widgets.detail import Detail
from nftop.ui.widgets.header import Header
from nftop.ui.widgets.panels import Panels


@dataclass(frozen=True, slots=True)
class Stage:
    """Attributes.

    width, height: of the screen, in cells and lines; the last line is the footer's.
    """

    width: int
    height: int
    header: Header
    table: CpuTableView
    panels: Panels
    detail: Detail

    def show_text(self, top: Sequence[Line], body: Sequence[Line], room: int) -> None:
        """Draw a header and below it `room` lines of text, and nothing else."""
        self.header.show(top, len(top))
        self.table.show([], 0)
        self.panels.show(body, room)
        self.detail.show([], 0)
