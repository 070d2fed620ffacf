"""What is measured against: the same table as a DataTable, and Textual with nothing on it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial

from rich.text import Text
from textual.app import ComposeResult
from textual.widgets import DataTable

from nftop.model.frame import Frame
from nftop.render.base.line import Line, Tone
from nftop.render.cores.columns import columns_for
from nftop.render.cores.rows import CpuView, arrange
from nftop.render.cores.table import body_lines
from tests.bench.terminal import Cost, Counted, ticking

_STYLES = {
    Tone.MUTED: "dim",
    Tone.MISSING: "dim",
    Tone.BAD: "bold red",
    Tone.FRONTEND: "yellow",
    Tone.SPECULATION: "magenta",
    Tone.BACKEND: "red",
    Tone.MEMORY: "red",
    Tone.CORE: "blue",
    Tone.RETIRING: "green",
}
_VIEW = CpuView(folded=False)


class Table(Counted):
    """Every CPU's row in a DataTable, each cell updated every tick as its manual has it."""

    def __init__(self, frames: Sequence[Frame], width: int) -> None:
        super().__init__()
        self._labels = [col.label for col in columns_for(width, frames[0].cpus)]
        self._cells = [cells_of(frame, width) for frame in frames]
        self._at = 0

    def compose(self) -> ComposeResult:
        yield DataTable(cursor_type="row")

    def on_mount(self) -> None:
        table = self.query_one(DataTable)
        for at, label in enumerate(self._labels):
            table.add_column(label, key=str(at))
        for row, cells in enumerate(self._cells[0]):
            table.add_row(*cells, key=str(row))
        table.focus()

    def tick(self) -> None:
        table = self.query_one(DataTable)
        before, self._at = self._cells[self._at], self._at + 1
        pairs = zip(before, self._cells[self._at], strict=True)
        for row, (old, new) in enumerate(pairs):
            for column, (was, cell) in enumerate(zip(old, new, strict=True)):
                if was != cell:
                    table.update_cell(str(row), str(column), cell)


def table_ticks(frames: list[Frame], size: tuple[int, int], warm: int) -> Cost:
    """A tick of the DataTable, its cells made beforehand."""
    app = Table(frames, size[0])
    # Not from the thread of the loop: an application's callbacks run with its context.
    ticks = [partial(app.call_later, app.tick) for _ in frames[1:]]
    return asyncio.run(ticking(app, ticks, size=size, warm=warm))


def cells_of(frame: Frame, width: int) -> list[list[Text]]:
    """Our own table's cells, by row, as rich texts."""
    columns = columns_for(width, frame.cpus)
    rows = arrange(frame.cpus, _VIEW)
    lines = body_lines(frame.cpus, rows, columns, 0, len(rows.shown))
    return [_cut(line, [col.width for col in columns]) for line in lines]


def _cut(line: Line, widths: Sequence[int]) -> list[Text]:
    whole = Text()
    for text, tone, _ in line.spans:
        whole.append(text, _STYLES.get(tone, ""))
    ends = [sum(widths[: at + 1]) for at in range(len(widths) - 1)]
    cells = list(whole.divide(ends))
    for cell in cells:
        cell.rstrip()
    return cells
