"""Tables of text: columns as data, headers, cells, scrolling, and why cells are empty.

Every column ends with one cell that separates it from the next and holds its mark (`~`, the arrow
of the sort order), so that digits stay below digits. A table that is drawn again is not computed
again (`LastResults`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import Generic, ParamSpec, TypeAlias, TypeVar

from nftop.model.metrics.metric import Metric, Unit
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.struct import dataclass, replace
from nftop.render.base import format as fmt
from nftop.render.base.line import (
    Click,
    Line,
    Span,
    Tone,
    clickable,
    crop,
    line,
    paragraph,
    selected,
)
from nftop.render.base.text import cells, fit

EDGE = 1  # blank cells left of a table; its last column ends with one
# Spans of one cell: one, except for bars.
TableCell: TypeAlias = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column.

    Attributes:
        key: metric id, or a name that the cells of its table know.
        label: its header.
        width: cells it takes, including the one that separates it from the next.
        right: aligned right, as numbers are; else left, as names are.
        priority: lower stays longer on a narrow screen.
        metric: what rows are sorted by; None for a label.
        grows: cells it may take beyond `width` where there is room.
    """

    key: str
    label: str
    width: int
    right: bool = True
    priority: float = 0
    metric: Metric | None = None
    grows: int = 0


def fit_columns(
    columns: Sequence[TableColumn],
    width: int,
    *,
    last: frozenset[str] = frozenset(),
    least: int = 1,
    skip: bool = False,
) -> tuple[TableColumn, ...]:
    """The columns that fit, in their own order; those that grow share what is left, numbers first.

    Args:
        columns: in the order shown.
        width: cells there are.
        last: keys ranked behind all others.
        least: columns shown in any case.
        skip: go on behind a column that does not fit; else no column of lower rank is shown.
    """
    room, chosen = width, set[str]()
    for col in sorted(columns, key=lambda col: (col.key in last, col.priority)):
        if len(chosen) >= least and col.width > room:
            if skip:
                continue
            break
        chosen.add(col.key)
        room -= col.width
    more: dict[str, int] = {}
    for col in sorted(columns, key=lambda col: not col.right):
        if col.key in chosen:
            more[col.key] = max(0, min(room, col.grows))
            room -= more[col.key]
    return tuple(
        replace(col, width=col.width + more[col.key]) if more[col.key] else col
        for col in columns
        if col.key in chosen
    )


def chosen_columns(
    columns: Sequence[TableColumn], keys: Sequence[str], width: int
) -> tuple[TableColumn, ...]:
    """Columns chosen by the operator, in that order, as far as they fit; the first always stays.

    Args:
        columns: all columns there are.
        keys: of those chosen; unknown ones are left out.
        width: cells there are.
    """
    by_key = {col.key: col for col in columns}
    first = columns[0].key
    order = dict.fromkeys((first, *(key for key in keys if key in by_key)))
    ranked = [replace(by_key[key], priority=rank) for rank, key in enumerate(order)]
    return fit_columns(ranked, width, skip=True)


def header_line(
    columns: Sequence[TableColumn], sort: str | None = None, *, descending: bool = True
) -> Line:
    """The labels; an arrow marks the column that rows are sorted by, a click chooses another.

    `sort`: "" for rows as found; None for rows that cannot be sorted, whose labels take no click.
    """
    sorts = sort is not None
    labels = tuple((col.key if sorts else "", col.label, col.width, col.right) for col in columns)
    at = next((index for index, col in enumerate(columns) if col.key == sort), -1)
    return _header(labels, at, "▼" if descending else "▲")


@lru_cache(maxsize=32)  # drawn every tick
def _header(labels: tuple[tuple[str, str, int, bool], ...], at: int, arrow: str) -> Line:
    spans = []
    for index, (key, label, width, right) in enumerate(labels):
        mark = arrow if index == at else " "
        text = fit(label, width - 1, right=True) + mark if right else (label + mark).rstrip()
        click = Click("sort_by", key) if key else None
        spans.append(Span(fit(text, width), Tone.HEADER, click))
    return line(*spans, fill=Tone.HEADER)


def body_lines(
    columns: Iterable[TableColumn], cells: Callable[[TableColumn], Sequence[TableCell]]
) -> list[Line]:
    """A line per row; `cells` gives those of a column, a cell per row. Their text is printable."""
    by_column = [cells(col) for col in columns]
    return [Line(tuple(chain.from_iterable(row))) for row in zip(*by_column, strict=True)]


def indented(lines: Iterable[Line]) -> list[Line]:
    """The lines behind a blank column, which is on the ground of each."""
    result = []
    for whole in lines:
        is_cursor = whole.spans and whole.spans[0].tone is Tone.SELECTION
        blank = Span(" " * EDGE, Tone.SELECTION if is_cursor else Tone.PLAIN)
        result.append(Line((blank, *whole.spans), whole.fill, whole.click))
    return result


@lru_cache(maxsize=1024)  # names seldom change
def text_cell(text: str, width: int, *, right: bool = False, tone: Tone = Tone.PLAIN) -> Span:
    """A text in `width` cells, cut if it is too long."""
    return Span(fit(text, width - 1, right=right) + " ", tone)


def number_cell(
    reading: Reading,
    unit: Unit,
    width: int,
    *,
    bound: bool = False,
    estimate: bool = False,
    tone: Tone = Tone.PLAIN,
    fine: bool = False,
) -> Span:
    """A number in `width` cells with its mark in the last, or the mark of why there is none.

    `fine`: shares with one decimal, see `format.share`.
    """
    room = width - 1
    if isinstance(reading, Missing):
        return mark_cell(reading.reason, width)
    if fine and unit is Unit.RATIO:
        text = fmt.share(reading, room)
    else:
        text = fmt.printer(unit, room, bound=bound)(reading)
    return Span(text.rjust(room) + (fmt.ESTIMATE if estimate else " "), tone)


def reading_tone(reading: object) -> Tone:
    return Tone.MISSING if isinstance(reading, Missing) else Tone.PLAIN


@lru_cache(maxsize=256)
def mark_cell(reason: Reason, width: int) -> Span:
    """The mark of a reason in `width` cells, aligned right."""
    return Span(f"{fmt.mark(reason, width - 1):>{width - 1}} ", Tone.MISSING)


def scroll(top: int, first: int, last: int, rows: int, height: int) -> int:
    """First row to show, moved from `top` as little as brings rows `first` to `last` into view."""
    return max(0, min(max(top, last - height + 1), first, rows - height))


def cut_lines(lines: Sequence[Line], height: int, width: int, hint: str) -> list[Line]:
    """The first `height` lines; where some are left out the last one counts them, with `hint`."""
    if len(lines) <= height:
        return list(lines)
    more = line(Span(f"+ {len(lines) - height + 1} more lines: {hint}", Tone.MUTED))
    return [*lines[: max(0, height - 1)], crop(more, width)][: max(0, height)]


def by_reason(readings: Iterable[tuple[str, object]]) -> dict[Missing, list[str]]:
    """Labels of the values that are missing, each label once, by their reason and message."""
    result: dict[Missing, list[str]] = {}
    for label, reading in readings:
        if isinstance(reading, Missing):
            labels = result.setdefault(Missing(reading.reason, reading.message), [])
            if label not in labels:
                labels.append(label)
    return result


def reason_lines(
    reasons: Mapping[Missing, Sequence[str]], width: int, tone: Tone = Tone.MUTED
) -> list[Line]:
    """Each reason behind its mark, once, with the labels of what lacks a value."""
    return [
        item
        for why, labels in reasons.items()
        for item in paragraph(
            f"{', '.join(labels)}: {why.message}" if labels else why.message,
            width,
            lead=line(Span(f"{why.reason.mark:<4}", Tone.MISSING)),
            tone=tone,
        )
    ]


def rule_line(title: str, note: str, width: int, *, tone: Tone = Tone.MUTED) -> Line:
    """Head of a section: its title, a thin rule, a note at the right."""
    left = crop(line(Span(title, Tone.STRONG), " "), width)
    room = width - left.width
    shown = f" {fit(note, min(cells(note), room - 4))}" if note and room > 4 else ""
    return line(left, Span("─" * (room - cells(shown)), Tone.FAINT), Span(shown, tone))


MENU_WIDTH = 30
_P = ParamSpec("_P")
_R = TypeVar("_R")
_KEPT = 2  # of the frame on screen, and of the one before, which a way back shows again
_LEAD = {True: "│> ", False: "│  "}


@dataclass(frozen=True, slots=True)
class MenuRow:
    """Row of a menu.

    Attributes:
        mark: before the label: state of the row.
        label, note: name and what stands right of it.
    """

    label: str
    mark: str = ""
    note: str = ""


def menu_lines(
    title: str, rows: Sequence[MenuRow], at: int, top: int, height: int
) -> tuple[list[Line], int]:
    """A title and the rows around the cursor in `height` lines of `MENU_WIDTH` cells.

    Returns:
        The lines, and the first row shown. A click on a row is the action `pick` with its index.
    """
    room = max(1, height - 1)
    top = scroll(top, at, at, len(rows), room)
    head = line(Span(fit(f"│ {title}", MENU_WIDTH), Tone.HEADER), fill=Tone.HEADER)
    lines = [head]
    for index in range(top, min(top + room, len(rows))):
        row = rows[index]
        text = f"{_LEAD[index == at]}{row.mark}{row.label}"
        left = max(0, MENU_WIDTH - len(row.note) - 1)
        drawn = crop(line(fit(text, left), Span(f"{row.note} ", Tone.MUTED)), MENU_WIDTH)
        drawn = clickable(drawn, "pick", index)
        lines.append(selected(drawn) if index == at else drawn)
    return lines, top


class LastResults(Generic[_P, _R]):
    """A function that keeps its last two results, by the identity of its arguments.

    Numbers, texts and tuples may be equal instead. Arguments must not change after a call, and two
    of each stay in memory. A key press draws the frame again that is on screen already: what it
    does not change isn't computed again.

    `key`: returns what a result depends on, if that is not each argument.
    """

    def __init__(
        self, work: Callable[_P, _R], key: Callable[_P, tuple[object, ...]] | None = None
    ) -> None:
        self._work = work
        self._key = key
        self._kept: list[tuple[tuple[object, ...], _R]] = []

    def __call__(self, *args: _P.args, **named: _P.kwargs) -> _R:
        of = (*args, *named.values()) if self._key is None else self._key(*args, **named)
        for at, (known, result) in enumerate(self._kept):
            if _same(known, of):
                if at:
                    self._kept.insert(0, self._kept.pop(at))
                return result
        result = self._work(*args, **named)
        self._kept = [(of, result), *self._kept[: _KEPT - 1]]
        return result


def _same(one: tuple[object, ...], other: tuple[object, ...]) -> bool:
    if len(one) != len(other):
        return False
    for a, b in zip(one, other, strict=True):  # in half the time of `all`
        if a is not b and not (isinstance(a, (int, str, tuple)) and type(a) is type(b) and a == b):
            return False
    return True
