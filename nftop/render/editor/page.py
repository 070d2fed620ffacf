"""Page of the class editor: head, table, checks and notes on the draft, last verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from nftop.model.change import Cell
from nftop.model.frame import Frame
from nftop.model.ids import format_cpu_list
from nftop.model.metrics.metric import Unit
from nftop.model.rdt.masks import Cbm
from nftop.model.reading import Missing
from nftop.render.base import format as fmt
from nftop.render.base.line import BLANK, Line, Span, Tone, crop, flow, line, paragraph
from nftop.render.base.table import cut_lines
from nftop.render.cache.panel import group_name
from nftop.render.editor.change import changed
from nftop.render.editor.model import EditorState, MaskRow, domains_of, rows_of, shares_at
from nftop.render.editor.rows import capacity_bytes, domain_of, draining, table_lines
from nftop.render.frame.header import alert_lines, badge_lines

_HEAD = 7  # cells of WARN, CHECK, NOTE, PLAN, SAFE with blanks
_MOST_NAMED = 4


# Least lines of sections where room is short, in the order in which they shrink; warnings stay.
_LEAST = (("NOTE", 1), ("PLAN", 3), ("NOTE", 0), ("CHECK", 2), ("PLAN", 1))


def notes(editor: EditorState, frame: Frame, width: int, limit: int | None = None) -> list[Line]:
    """Notes on the draft; with a limit the last line counts those left out."""
    parts = {
        "WARN": _warn_lines(editor, width),
        "CHECK": _check_lines(editor, frame, width),
        "NOTE": _note_lines(editor, frame, width),
        "PLAN": _plan_lines(editor, width),
        "SAFE": _safe_lines(editor, width),
    }
    whole = sum(map(len, parts.values()))
    if limit is not None and whole > limit:
        for name, least in _LEAST:
            over = sum(map(len, parts.values())) + 1 - limit
            keep = max(least, len(parts[name]) - max(0, over))
            parts[name] = parts[name][:keep]
    lines = [item for section in parts.values() for item in section]
    if limit is None or whole <= limit:
        return lines
    lines = lines[: max(0, limit - 1)]
    return [*lines, line(Span(f"+ {whole - len(lines)} more lines: d shows all", Tone.DIM))][:limit]


def _warn_lines(editor: EditorState, width: int) -> list[Line]:
    """Objections to the draft's plan."""
    texts = [*(f"not done: {item}" for item in editor.plan.unmet), *editor.plan.warnings]
    rows = [row for item in texts for row in paragraph(item, width - _HEAD, tone=Tone.ACCENT)]
    return _under("WARN", rows)


def _check_lines(editor: EditorState, frame: Frame, width: int) -> list[Line]:
    """Checks of the selected mask: shape, ways of devices, overlaps, private ways."""
    items = [line(Span(mark, tone), text) for mark, tone, text in _checks(editor, frame)]
    return _under("CHECK", flow(items, width - _HEAD, "   "))


def _plan_lines(editor: EditorState, width: int) -> list[Line]:
    """Equivalent commands, and the differences."""
    ways = {name: rule.ways for name, rule in editor.rules.items()}
    changes = editor.plan.changes
    if not changes:
        return _under("PLAN", paragraph("nothing is changed", width - _HEAD, tone=Tone.DIM))
    lead = line(Span("$ ", Tone.DIM))
    rows = [
        row
        for command in editor.plan.commands
        for row in paragraph(command, width - _HEAD, lead=lead, tone=Tone.ACCENT)
    ]
    texts = changed(changes, ways, editor.unit)
    return _under(
        "PLAN", [*rows, *(row for item in texts for row in paragraph(item, width - _HEAD))]
    )


def _checks(editor: EditorState, frame: Frame) -> Iterator[tuple[str, Tone, str]]:
    selection, rule = editor.selection, editor.rule
    row = MaskRow(selection.group, selection.line)
    bits = editor.bits(row)
    if not bits:
        yield "-- ", Tone.DIM, f"{group_name(selection.group)} is to be removed"
        return
    if Cbm(bits, rule.ways).contiguous:
        yield "ok ", Tone.RETIRING, "side by side"
    else:
        yield "ok ", Tone.RETIRING, "gaps are allowed here"
    yield from _io_checks(editor, frame, bits)
    yield from _overlap_checks(editor, row)
    private = shares_at(editor, row).private.bits
    sizes = [capacity_bytes(editor, frame, item) for item in (private, bits)]
    if not any(isinstance(size, Missing) for size in sizes):
        mib = [fmt.cell(size, Unit.BYTES, 6).removesuffix(".0") for size in sizes]
        yield "", Tone.PLAIN, f"private {mib[0]} of {mib[1]} MiB"
    else:
        yield "", Tone.PLAIN, f"private {private.bit_count()} of {bits.bit_count()} ways"


def _io_checks(editor: EditorState, frame: Frame, bits: int) -> Iterator[tuple[str, Tone, str]]:
    if editor.selection.cache != "L3":
        return
    if editor.selection.domain not in editor.io:
        domain = domain_of(editor, frame)
        absent = domain is not None and isinstance(domain.io, Missing)
        why = domain.io.message if absent else ""  # type: ignore[union-attr]
        yield "?? ", Tone.MISSING, f"I/O ways unknown{': ' if why else ''}{why}"
        return
    io, origin = editor.io[editor.selection.domain]
    both = bits & io
    if both:
        yield "!! ", Tone.BAD, f"devices write into {_named(both)} too ({origin})"
    else:
        yield "ok ", Tone.RETIRING, "avoids I/O ways"


def _overlap_checks(editor: EditorState, row: MaskRow) -> Iterator[tuple[str, Tone, str]]:
    """Overlaps with other classes, and those that were alone in their ways before."""
    now, before = (shares_at(editor, row, base=base).others for base in (False, True))
    if not now:
        yield "ok ", Tone.RETIRING, "no overlap"
    for group, both in list(now.items())[:_MOST_NAMED]:
        new = both.bits & ~(before[group].bits if group in before else 0)
        alone = new and not any(
            shares_at(editor, MaskRow(group, rule), base=True).others
            for rule in editor.rules
            if rule[:2] == row.line[:2]
        )
        name = group_name(group)
        tail = f" ({name} was alone in its ways)" if alone else "" if new else " as before"
        mark, tone = ("!! ", Tone.BAD) if new else ("!  ", Tone.ACCENT)
        yield mark, tone, f"overlaps {name} on {_named(both.bits)}{tail}"
    if len(now) > _MOST_NAMED:
        yield "!  ", Tone.ACCENT, f"and {len(now) - _MOST_NAMED} classes more"


def _note_lines(editor: EditorState, frame: Frame, width: int) -> list[Line]:
    texts = [
        f"draining: {name} holds {used:.1f} MiB, its ways are {capacity:.1f}"
        for name, used, capacity in draining(editor, frame)
    ]
    # Overlaps of the selected mask are in the checks already.
    selection = editor.selection
    selected = Cell("schemata", selection.group, selection.line, selection.domain)
    checked = {mask for cell, mask in editor.plan.of_masks if cell == selected}
    texts += [effect for effect in editor.plan.effects if effect not in checked]
    return _under("NOTE", [row for item in texts for row in paragraph(item, width - _HEAD)])


def _safe_lines(editor: EditorState, width: int) -> list[Line]:
    if editor.locked:
        return _under("SAFE", paragraph(editor.locked, width - _HEAD, tone=Tone.BADGE))
    text = f"Enter previews, y applies; taken back in {editor.keep_within_s:g} s unless K keeps it"
    return _under("SAFE", paragraph(text, width - _HEAD, tone=Tone.DIM))


def _under(head: str, rows: list[Line]) -> list[Line]:
    leads = [Span(f"{head:<{_HEAD}}", Tone.HEADER), *[Span(" " * _HEAD, Tone.PLAIN)] * len(rows)]
    return [line(lead, row) for lead, row in zip(leads, rows, strict=False)]


def _named(bits: int) -> str:
    """`way 7`, `ways 6-7`."""
    plural = "s" * (bits.bit_count() != 1)
    return f"way{plural} " + format_cpu_list(
        way for way in range(bits.bit_length()) if bits >> way & 1
    )


_TABLE_HEAD = 2  # header and ways of devices
_NOTES_LEAST = 5  # lines
_ROWS_LEAST = 3
_MOST_DOMAINS = 12


def editor_lines(
    editor: EditorState, frame: Frame, width: int, height: int, card: Sequence[Line] = ()
) -> list[Line]:
    """At most `height` lines, including the selected class.

    Args:
        editor: the draft.
        frame: the newest.
        width: cells of a line.
        height: lines of the screen.
        card: verdict on the last change, below the rest.
    """
    rows = rows_of(editor, frame)
    head = [*_head(editor, frame, width), *alert_lines(*editor.trouble, width=width)]
    table = table_lines(editor, frame, rows, width)
    below = notes(editor, frame, width)
    room = height - len(head) - _TABLE_HEAD
    if len(rows) + len(below) + len(card) <= room:
        parts = [section for section in (head, table, below, list(card)) if section]
        gap = len(rows) + len(below) + len(card) + len(parts) <= room
        spaced = [(BLANK, *section) if gap and at else section for at, section in enumerate(parts)]
        return [crop(row, width) for section in spaced for row in section]
    # Classes first, then notes; the card gets the rest.
    note_lines = min(len(below), _NOTES_LEAST)
    shown = min(len(rows), max(_ROWS_LEAST, room - max(note_lines, len(below)) - bool(card)))
    body = _window(table, rows, editor, shown)
    left = max(0, height - len(head) - len(body))
    rest = notes(editor, frame, width, max(note_lines, min(left, len(below))))
    room = left - len(rest)
    rest += cut_lines(card, room, width, "d shows all") if room > 1 or len(card) <= room else []
    return [crop(item, width) for item in (*head, *body, *rest)][:height]


def diff_lines(editor: EditorState, frame: Frame, card: Sequence[Line], width: int) -> list[Line]:
    """Everything about the draft, for a page of its own."""
    return [*_head(editor, frame, width), BLANK, *notes(editor, frame, width), BLANK, *card]


def _head(editor: EditorState, frame: Frame, width: int) -> list[Line]:
    """Cache, size and rules."""
    selection, rule = editor.selection, editor.rule
    sockets = {cpu.package for cpu in frame.topology.cpus if cpu.l3 == selection.domain}
    socket = f" (socket {min(sockets)})" if selection.cache == "L3" and sockets - {None} else ""  # type: ignore[type-var]
    way = capacity_bytes(editor, frame, 1)
    size = "" if isinstance(way, Missing) else f" x {fmt.way_mib(way)} MiB"
    shape = "gaps allowed" if rule.sparse else "side by side"
    items = [
        *badge_lines(frame.host),
        line(Span("CAT editor", Tone.TITLE)),
        line(Span(f"{selection.cache} {selection.domain}{socket}", Tone.TITLE)),
        line(f"{rule.ways} ways{size}"),
        line(Span(f"via {editor.where}", Tone.DIM)),
        line(Span(f"rule: {shape}, {rule.min_bits} way{'s' * (rule.min_bits != 1)} at least",
                  Tone.DIM)),
        _domains(editor),
    ]  # fmt: skip
    return flow(items, width, "  ")


def _domains(editor: EditorState) -> Line:
    """Caches of the line, and those that edits change."""
    every = domains_of(editor.base, editor.selection.line)
    if len(every) == 1:
        return line("the only one")
    if editor.selection.linked:
        return line(Span(f"LINKED: all {len(every)} {editor.selection.cache} alike", Tone.BADGE))
    shown = every if len(every) <= _MOST_DOMAINS else ()
    names = [
        line(Span(f"[{item}]", Tone.TITLE)) if item == editor.selection.domain else line(str(item))
        for item in shown
    ]
    spaced = [item for name in names for item in (" ", name)]
    return line(f"of {editor.selection.cache}", *(spaced or [f" 0..{len(every) - 1}"]))


def _window(
    table: list[Line], rows: Sequence[MaskRow], editor: EditorState, shown: int
) -> list[Line]:
    """Header and so many rows around the selected one."""
    heads, body = table[: len(table) - len(rows)], table[len(table) - len(rows) :]
    selected = (editor.selection.group, editor.selection.line)
    at = next((index for index, row in enumerate(rows) if row == selected), 0)
    top = max(0, min(at - shown // 2, len(rows) - shown))
    hidden = len(rows) - shown
    if not hidden or shown < 2:
        return [*heads, *body[top : top + shown]]
    # The count of hidden rows replaces the row farthest from the selected one.
    upper = at - top < top + shown - 1 - at
    kept = body[top : top + shown - 1] if upper else body[top + 1 : top + shown]
    return [*heads, *kept, line(Span(f"  + {hidden + 1} classes more", Tone.DIM))]


def where_text(editor: EditorState) -> str:
    """Selected class and way, for the footer."""
    at = editor.selection
    return f"{group_name(at.group)} {at.line} {at.domain} way {at.way}"
