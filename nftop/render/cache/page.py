"""The Cache screen: its table, and below it what is to be said of a class and of a change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nftop.derive.cache.changes import groups_in, together
from nftop.derive.compare.settling import Term
from nftop.derive.compare.verdict import Verdict, verdict_of
from nftop.derive.compare.window import ClassKey, Window
from nftop.model.change import Made
from nftop.model.frame import Frame
from nftop.render.base.line import BLANK, Line, Span, Tone, crop, line
from nftop.render.cache.detail import absence_lines, budget_line, level_2_lines
from nftop.render.cache.table import Table, cache_table
from nftop.render.cache.verdict import lines as verdict_lines
from nftop.render.cache.verdict import summary
from nftop.render.frame.header import badge_lines, time_of_day
from nftop.render.frame.observed_changes import noticed_line

# Lines that the table keeps for itself, and that make the lower part worth its place.
_TABLE_LEAST, _LOWER_LEAST = 6, 4
_MOST_CHANGES = 2


@dataclass(frozen=True, slots=True)
class Page:
    """Attributes.

    fixed: lines that stay on top: what is taken of what there is, and the table's header.
    table: lines of the table, of which `room` are in view; the key of those of a class.
    lower: lines below it.
    """

    fixed: tuple[Line, ...]
    table: tuple[Line, ...]
    keys: tuple[ClassKey | None, ...]
    room: int
    lower: tuple[Line, ...]


def upper(frame: Frame, width: int, made: Sequence[Made], *, folded: bool) -> Table:
    """The table, and below its last cache second-level caches and why numbers are absent."""
    found = cache_table(frame, width, made, folded=folded)
    more = [*level_2_lines(frame, width)]
    absent = absence_lines(frame, width)
    more += [BLANK, *absent] if absent and frame.groups else absent
    return Table(
        found.header,
        (*found.lines, *(crop(item, width) for item in more)),
        (*found.rows, *[None] * len(more)),
    )


def page(
    frame: Frame, table: Table, width: int, height: int, parts: Sequence[Sequence[Line]]
) -> Page:
    """Share the height out: the table first, what is below it takes the rest, in its order.

    Args:
        frame: whose limits are shown.
        table: of `upper`.
        width: cells a line may take.
        height: lines of all.
        parts: what there is for the lower part, each of them with a header of its own.
    """
    fixed: tuple[Line, ...] = ()
    if frame.groups:
        fixed = (budget_line(frame.limits, frame.groups, width), table.header)
    room = max(0, height - len(fixed))
    wanted = [item for part in parts for item in part]
    least = min(len(table.lines), max(_TABLE_LEAST, room // 2))
    lower = min(len(wanted), room - least)
    if lower < min(_LOWER_LEAST, len(wanted)):
        lower = 0
    shown = wanted[:lower]
    if 0 < lower < len(wanted):
        more = f"+ {len(wanted) - lower + 1} more lines: Enter shows all"
        shown[-1] = crop(line(Span(more, Tone.DIM)), width)
    return Page(fixed, table.lines, table.rows, room - lower, tuple(shown))


def whole(frame: Frame, parts: Sequence[Sequence[Line]], width: int) -> list[Line]:
    """All that is below the table, as a page of its own that says whose and of when it is."""
    title = Span(f"Cache, below the table at {time_of_day(frame)}", Tone.TITLE)
    head = line(
        *(part for badge_line in badge_lines(frame.host) for part in (badge_line, " ")), title
    )
    return [crop(head, width), *(item for part in parts if part for item in (BLANK, *part))]


def judged(window: Window, until_ns: int | None = None) -> Verdict | None:
    """The verdict on the last change since frames began; None where nothing was changed.

    `until_ns`: CLOCK_MONOTONIC when a change that waits to be kept is taken back; None without one.
    """
    joined = together(window.frame.noticed)
    if not joined:
        return None
    last = joined[-1]
    return verdict_of(window, last.at_ns, groups_in(last.changes), Term(until_ns))


def card(verdict: Verdict, width: int, made: Sequence[Made]) -> list[Line]:
    """What was changed last, by whom, and what became of it."""
    head, *rest = verdict_lines(verdict, width)
    said = [noticed_line(item, made) for item in reversed(verdict.noticed)]
    more = len(said) - _MOST_CHANGES
    left_out = [line(Span(f"+ {more} changes before", Tone.DIM))] if more > 0 else []
    shown = [*said[:_MOST_CHANGES], *left_out, summary(verdict)]
    return [head, *(crop(item, width) for item in shown), *rest]
