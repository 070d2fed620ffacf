"""What every form of a file of counts is read into: rows, or why the file is none."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from nftop.model.reading import Missing, Reading, Reason

MAX_LINE = 100_000  # characters; a line of perf stat has a few hundred
_SHOWN = 60
# What perf stat --topdown writes to stderr, where its counts go too unless told otherwise.
_WARNINGS = ("nmi_watchdog enabled with topdown.", "Disable with echo 0 > ")
_UNCOUNTED = {
    # Every counter was taken, or what perf watched never ran.
    "<not counted>": Missing(Reason.SOURCE, "perf stat did not come to count it"),
    "<not supported>": Missing(Reason.HARDWARE, "perf stat could not count it there"),
}


class BadCountsError(ValueError):
    """A file that can't be read as counts; the text names the line and says why."""


class Form(Enum):
    """What the file turned out to be."""

    JSON = "JSON, event by event"
    PERF_JSON = "perf stat -j"
    PERF_CSV = "perf stat -x"


Part: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One event's count.

    Attributes:
        event: as the file calls it.
        count: already scaled for the time the event was not on a counter, as perf does.
        part: what was counted and when, by kind: ("interval", "1.000"), ("cpu", "CPU0"). Empty
            where the file knows one part only. Rows of different parts add up.
        running_ns: how long the event was on a counter; None where the file does not say.
        share: the share of the time in which it was, 0..1; None likewise.
    """

    event: str
    count: Reading
    part: Part = ()
    running_ns: int | None = None
    share: float | None = None


Rows: TypeAlias = tuple[Form, tuple[Row, ...]]


def count_of(text: str) -> Reading | None:
    """A count as perf prints it, or why it has none; None where the text is neither."""
    if text in _UNCOUNTED:
        return _UNCOUNTED[text]
    number = number_of(text)
    return number if number is not None and number >= 0 else None


def number_of(text: str) -> float | None:
    """A finite decimal number, None for any other text."""
    if not text.isascii() or "_" in text:
        return None
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def at_line(number: int, line: str, why: str) -> BadCountsError:
    """The error of a line, counted from 1."""
    shown = line.strip()
    shown = shown if len(shown) <= _SHOWN else f"{shown[: _SHOWN - 3]}..."
    return BadCountsError(f"line {number}: {why}: {shown}" if shown else f"line {number}: {why}")


def is_comment(line: str) -> bool:
    """A line that holds nothing: perf begins its files with `# started on ...`, or warns."""
    return not line.strip() or line.lstrip().startswith(("#", *_WARNINGS))
