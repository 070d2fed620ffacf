"""The screen of the editor of cache classes: head, table, what is to be said, the last verdict."""

from __future__ import annotations

from collections.abc import Sequence

from nftop.model.frame import Frame
from nftop.model.reading import Missing
from nftop.render.base import format as fmt
from nftop.render.base.line import BLANK, Line, Span, Tone, crop, flow, line
from nftop.render.cache.panel import group_name
from nftop.render.editor.model import Board, Row, domains_of, rows_of
from nftop.render.editor.notes import notes
from nftop.render.editor.rows import capacity_bytes, table_lines
from nftop.render.frame.header import alert_lines, badge_lines

_TABLE_HEAD = 2  # its header and the ways of devices
_NOTES_LEAST = 5  # lines that the notes keep where classes are many
_ROWS_LEAST = 3
_MOST_DOMAINS = 12


def editor_lines(
    board: Board, frame: Frame, width: int, height: int, card: Sequence[Line] = ()
) -> list[Line]:
    """At most `height` lines.

    The selected class is always among those shown; what is left out is counted.

    Args:
        board: the draft.
        frame: the newest; occupancy, cores and cycles per packet are its.
        width: cells a line may take.
        height: lines there are.
        card: what became of the last change, below the rest.
    """
    rows = rows_of(board, frame)
    head = [*_head(board, frame, width), *alert_lines(*board.trouble, width=width)]
    table = table_lines(board, frame, rows, width)
    below = notes(board, frame, width)
    room = height - len(head) - _TABLE_HEAD
    if len(rows) + len(below) + len(card) <= room:
        parts = [part for part in (head, table, below, list(card)) if part]
        gap = len(rows) + len(below) + len(card) + len(parts) <= room
        spaced = [(BLANK, *part) if gap and at else part for at, part in enumerate(parts)]
        return [crop(row, width) for part in spaced for row in part]
    # Classes come first, then what is said of the draft; the card has what is left.
    said = min(len(below), _NOTES_LEAST)
    shown = min(len(rows), max(_ROWS_LEAST, room - max(said, len(below)) - bool(card)))
    body = _window(table, rows, board, shown)
    left = max(0, height - len(head) - len(body))
    rest = notes(board, frame, width, max(said, min(left, len(below))))
    rest += _cut(card, left - len(rest))
    return [crop(item, width) for item in (*head, *body, *rest)][:height]


def _cut(card: Sequence[Line], room: int) -> list[Line]:
    """As much of a card as there is room for; its first lines say what it comes to."""
    if len(card) <= room:
        return list(card)
    more = line(Span(f"+ {len(card) - room + 1} more lines: d shows all", Tone.DIM))
    return [*card[: room - 1], more] if room > 1 else []


def diff_lines(board: Board, frame: Frame, card: Sequence[Line], width: int) -> list[Line]:
    """All that the editor would say had it the room: for a page of its own."""
    return [*_head(board, frame, width), BLANK, *notes(board, frame, width), BLANK, *card]


def _head(board: Board, frame: Frame, width: int) -> list[Line]:
    """Which cache, how large, what rules; where one is."""
    spot, rule = board.spot, board.rule
    sockets = {cpu.package for cpu in frame.topology.cpus if cpu.l3 == spot.domain}
    socket = f" (socket {min(sockets)})" if spot.cache == "L3" and sockets - {None} else ""  # type: ignore[type-var]
    way = capacity_bytes(board, frame, 1)
    size = "" if isinstance(way, Missing) else f" x {fmt.way_mib(way)} MiB"
    shape = "gaps allowed" if rule.sparse else "side by side"
    items = [
        *badge_lines(frame.host),
        line(Span("CAT editor", Tone.TITLE)),
        line(Span(f"{spot.cache} {spot.domain}{socket}", Tone.TITLE)),
        line(f"{rule.ways} ways{size}"),
        line(Span(f"via {board.where}", Tone.DIM)),
        line(Span(f"rule: {shape}, {rule.min_bits} way{'s' * (rule.min_bits != 1)} at least",
                  Tone.DIM)),
        _domains(board),
    ]  # fmt: skip
    return flow(items, width, "  ")


def _domains(board: Board) -> Line:
    """The caches of the line, and which of them are changed."""
    every = domains_of(board.base, board.spot.line)
    if len(every) == 1:
        return line("the only one")
    if board.spot.linked:
        return line(Span(f"LINKED: all {len(every)} {board.spot.cache} alike", Tone.BADGE))
    shown = every if len(every) <= _MOST_DOMAINS else ()
    names = [line(Span(f"[{item}]", Tone.TITLE)) if item == board.spot.domain else line(str(item))
             for item in shown]  # fmt: skip
    spaced = [part for name in names for part in (" ", name)]
    return line(f"of {board.spot.cache}", *(spaced or [f" 0..{len(every) - 1}"]))


def _window(table: list[Line], rows: Sequence[Row], board: Board, shown: int) -> list[Line]:
    """The table's headers and so many rows around the selected one."""
    heads, body = table[: len(table) - len(rows)], table[len(table) - len(rows) :]
    selected = (board.spot.group, board.spot.line)
    at = next((place for place, row in enumerate(rows) if row == selected), 0)
    top = max(0, min(at - shown // 2, len(rows) - shown))
    hidden = len(rows) - shown
    if not hidden or shown < 2:
        return [*heads, *body[top : top + shown]]
    # The line that counts what is hidden takes the place of the row that is farthest away.
    upper = at - top < top + shown - 1 - at
    kept = body[top : top + shown - 1] if upper else body[top + 1 : top + shown]
    return [*heads, *kept, line(Span(f"  + {hidden + 1} classes more", Tone.DIM))]


def where_text(board: Board) -> str:
    """For the right of the footer: the class and the way one is at."""
    return (
        f"{group_name(board.spot.group)} {board.spot.line} {board.spot.domain} way {board.spot.way}"
    )
