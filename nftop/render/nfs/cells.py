"""Small tables below a header of their own: their cells, and why numbers in them are absent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from nftop.model.metrics.metric import Unit
from nftop.model.reading import Missing, Reading, Reason
from nftop.render.base import format as fmt
from nftop.render.base.line import Line, Span, Tone, line, paragraph
from nftop.render.base.text import fit

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Column:
    """Attributes.

    label: its header. cells: with the one that keeps it off the next. right: numbers stand right.
    """

    label: str
    cells: int
    right: bool = True


@dataclass(frozen=True, slots=True)
class Shape(Generic[T]):
    """Attributes.

    name: of what there is a line each. row: the cells of one. readings: those of it, by label.
    """

    name: str
    columns: Sequence[Column]
    row: Callable[[T], list[Span]]
    readings: Sequence[tuple[str, Callable[[T], Reading]]]


def table_of(parts: Sequence[T] | Missing, shape: Shape[T], width: int) -> list[Line]:
    """Headers, a line each, and why numbers are absent; for what is not told only why."""
    name, columns, row, readings = shape.name, shape.columns, shape.row, shape.readings
    if isinstance(parts, Missing):
        if parts.reason is Reason.UNDEFINED:
            return []
        lead = line(Span(f"{parts.reason.mark:<4}", Tone.MISSING))
        return paragraph(f"{name}: {parts.message}", width, lead=lead, tone=Tone.DIM)
    if not parts:
        return []
    found: dict[Missing, dict[str, None]] = {}
    for part in parts:
        for label, of in readings:
            reading = of(part)
            if isinstance(reading, Missing) and reading.reason is not Reason.IDLE:
                why = Missing(reading.reason, reading.message)
                found.setdefault(why, {})[label] = None
    lines = [head_line(columns), *(Line(tuple(row(part))) for part in parts)]
    for why, labels in found.items():
        lead = line(Span(f"{why.reason.mark:<4}", Tone.MISSING))
        lines += paragraph(f"{', '.join(labels)}: {why.message}", width, lead=lead, tone=Tone.DIM)
    return lines


def fitting(columns: Sequence[tuple[Column, T]], width: int) -> list[tuple[Column, T]]:
    """The first of them, as many as fit."""
    shown, room = [], width
    for column, cell in columns:
        if column.cells > room:
            break
        shown.append((column, cell))
        room -= column.cells
    return shown


def head_line(columns: Sequence[Column]) -> Line:
    """The headers."""
    text = "".join(
        fit(column.label, column.cells - 1, right=column.right) + " " for column in columns
    )
    return line(Span(text, Tone.HEADER), fill=Tone.HEADER)


def text_cell(text: str, cells: int, *, right: bool = False) -> Span:
    """A text in so many cells, with the one that keeps it off the next."""
    return Span(fit(text, cells - 1, right=right) + " ", Tone.PLAIN)


def number_cell(
    reading: Reading, unit: Unit, cells: int, *, bound: bool = False, estimate: bool = False
) -> Span:
    """With its `~` in the cell that keeps it off the next."""
    text = fmt.cell(reading, unit, cells - 1, bound=bound)
    after = fmt.ESTIMATE if estimate else " "
    tone = Tone.MISSING if isinstance(reading, Missing) else Tone.PLAIN
    return Span(f"{text:>{cells - 1}}{after}", tone)
