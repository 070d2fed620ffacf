"""Page of the class editor: head, table, draft with its checks and command, last verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from nftop.model.change import IO_GROUP, Cell
from nftop.model.frame import Frame
from nftop.model.ids import format_cpu_list
from nftop.model.metrics.metric import Unit
from nftop.model.missing import Missing
from nftop.model.number_text import counted
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import cache_of_line
from nftop.render.base import format as fmt
from nftop.render.base.line import BLANK, Click, Line, Span, Tone, crop, flow, line, paragraph
from nftop.render.base.table import cut_lines, rule_line
from nftop.render.cache.class_cells import group_name
from nftop.render.editor.change import changed
from nftop.render.editor.model import EditorState, MaskRow, domains_of, rows_of, shares_at
from nftop.render.editor.rows import (
    capacity_bytes,
    domain_of,
    draining,
    editor_table,
    nf_losses,
    row_name,
)
from nftop.render.frame.header import alert_lines, badge_lines, time_of_day

_LABEL = 9  # cells of the names of the draft's lines
_MOST_NAMED = 4
# Below so many lines the table has no line for the pointer, the head has one line.
_COMPACT, _SMALLEST = 14, 8
GRAPH_LEAST, _CARD_LEAST = 6, 6

GOOD, DOUBT, AGAINST = ("✔ ", Tone.GOOD), ("▲ ", Tone.WARN), ("✘ ", Tone.BAD)
CHECK_MARKS: tuple[tuple[str, str], ...] = (
    ("✔", "check passed"),
    ("▲", "as it was before the draft, or worth a look: ways shared with other classes"),
    ("✘", "the draft makes it worse: ways of devices, an NF loses ways"),
    ("$", "the command that does the same; C copies it"),
)
DraftCheck = tuple[tuple[str, Tone], str]
# Least lines of sections where room is short, in the order in which they shrink; warnings stay.
_LEAST = (("note", 1), ("plan", 1), ("note", 0), ("plan", 0), ("check", 2), ("check", 1))


def draft_lines(
    editor: EditorState, frame: Frame, width: int, limit: int | None = None
) -> list[Line]:
    """State of the draft, warnings, checks, its command and differences.

    `limit`: lines at most; the last one counts those left out.
    """
    sections = {
        "head": [_head_of_draft(editor, width)],
        "warning": _warnings(editor, width),
        "check": _check_lines(editor, frame, width),
        "$": _command_lines(editor, width),
        "plan": _plan_lines(editor, width),
        "note": _note_lines(editor, frame, width),
    }
    whole = sum(map(len, sections.values()))
    if limit is not None and whole > limit:
        for name, least in _LEAST:
            over = sum(map(len, sections.values())) + 1 - limit
            keep = max(least, len(sections[name]) - max(0, over))
            sections[name] = sections[name][:keep]
    lines = [item for section in sections.values() for item in section]
    if limit is None or whole <= limit:
        return lines
    lines = lines[: max(0, limit - 1)]
    more = line(Span(f"+ {whole - len(lines)} more lines: d shows all", Tone.MUTED))
    return [*lines, more][:limit]


def _head_of_draft(editor: EditorState, width: int) -> Line:
    if editor.waits:
        return rule_line("DRAFT", editor.waits, width, tone=Tone.WARN)
    if editor.locked:
        return rule_line("DRAFT", editor.locked, width, tone=Tone.WARN)
    if not editor.plan.changes:
        return rule_line("DRAFT", "no changes", width)
    note = f"Enter previews, y applies; taken back in {editor.keep_within_s:g} s unless K keeps it"
    return rule_line("DRAFT", note, width)


def _warnings(editor: EditorState, width: int) -> list[Line]:
    """Objections to the draft's plan."""
    items = [(AGAINST, f"not done: {item}") for item in editor.plan.unmet]
    items += [(DOUBT, item) for item in editor.plan.warnings]
    rows = [
        row
        for (mark, tone), text in items
        for row in paragraph(text, _room(width), lead=line(Span(mark, tone)), tone=tone)
    ]
    return _under("warning", rows, width)


def _check_lines(editor: EditorState, frame: Frame, width: int) -> list[Line]:
    """Checks of the selected mask: shape, ways of devices, overlaps; NFs that lose ways."""
    items = [line(Span(mark, tone), text) for (mark, tone), text in _checks(editor, frame)]
    return _under("check", flow(items, _room(width), "   "), width)


def _command_lines(editor: EditorState, width: int) -> list[Line]:
    """The commands that do the same, whole."""
    copy = Click("copy")
    hint = line(Span("C", Tone.ACCENT, copy), Span(" copy", Tone.MUTED, copy))
    lines = [
        row
        for command in editor.plan.commands
        if editor.plan.changes
        for row in _under("$", paragraph(command, _room(width), tone=Tone.STRONG), width)
    ]
    if lines and lines[0].width + hint.width + 2 <= width:
        lines[0] = line(lines[0], " " * (width - lines[0].width - hint.width), hint)
    return lines


def _plan_lines(editor: EditorState, width: int) -> list[Line]:
    ways = {name: rule.ways for name, rule in editor.rules.items()}
    changes = changed(editor.plan.changes, ways, editor.unit)
    texts = [text.replace(" -> ", " → ") for text in changes]
    return _under("plan", [row for item in texts for row in paragraph(item, _room(width))], width)


def _checks(editor: EditorState, frame: Frame) -> Iterator[DraftCheck]:
    selection, rule = editor.selection, editor.rule
    row = MaskRow(selection.group, selection.line)
    bits = editor.bits(row)
    if row.group == IO_GROUP:
        yield from _checks_of_io(editor, frame, row)
        return
    if not bits:
        yield ("", Tone.MUTED), f"{group_name(selection.group)} is to be removed"
        return
    yield GOOD, "side by side" if Cbm(bits, rule.ways).contiguous else "gaps are allowed here"
    if editor.swept:
        yield DOUBT, editor.swept
    yield from _io_checks(editor, frame, bits)
    if editor.plan.changes:
        yield from _loss_checks(editor, frame)
    yield from _overlap_checks(editor, row)
    private = shares_at(editor, row).private.bits
    sizes = [capacity_bytes(editor, frame, item) for item in (private, bits)]
    if not any(isinstance(size, Missing) for size in sizes):
        mib = [fmt.cell(size, Unit.BYTES, 6).removesuffix(".0") for size in sizes]
        yield ("", Tone.PLAIN), f"private {mib[0]} of {mib[1]} MiB"
    else:
        yield ("", Tone.PLAIN), f"private {private.bit_count()} of {bits.bit_count()} ways"


def _checks_of_io(editor: EditorState, frame: Frame, row: MaskRow) -> Iterator[DraftCheck]:
    """Checks of the ways of I/O: the classes that have them too."""
    bits, shares = editor.bits(row), shares_at(editor, row)
    for other, both in shares.others.items():
        yield DOUBT, f"{group_name(other)} has {ways_named(both.bits)} too"
    if not shares.others:
        yield GOOD, "no class in use has these ways"
    size = capacity_bytes(editor, frame, bits)
    if not isinstance(size, Missing):
        yield ("", Tone.PLAIN), f"{fmt.cell(size, Unit.BYTES, 6).removesuffix('.0')} MiB"


def _io_checks(editor: EditorState, frame: Frame, bits: int) -> Iterator[DraftCheck]:
    if editor.selection.cache != "L3":
        return
    if editor.selection.domain not in editor.io:
        domain = domain_of(editor, frame)
        absent = domain is not None and isinstance(domain.io, Missing)
        why = domain.io.message if absent else ""  # type: ignore[union-attr]
        yield ("? ", Tone.MISSING), f"I/O ways unknown{': ' if why else ''}{why}"
        return
    io, origin = editor.io[editor.selection.domain]
    both = bits & io
    if both:
        before = editor.bits(MaskRow(editor.selection.group, editor.selection.line), base=True)
        new = both & ~before
        yield AGAINST if new else DOUBT, f"devices write into {ways_named(both)} too ({origin})"
    else:
        yield GOOD, "avoids I/O ways"


def _loss_checks(editor: EditorState, frame: Frame) -> Iterator[DraftCheck]:
    """Network functions that lose ways in the selected cache: of a class, or with a moved CPU."""
    losses = nf_losses(editor, frame)
    if not losses:
        yield GOOD, "no NF loses a way"
    for lost, names in losses.items():
        yield AGAINST, f"{', '.join(names)} loses {ways_named(lost)}"


def _overlap_checks(editor: EditorState, row: MaskRow) -> Iterator[DraftCheck]:
    """Overlaps with other classes, and those that were alone in their ways before."""
    now, before = (shares_at(editor, row, base=base).others for base in (False, True))
    if not now:
        yield GOOD, "no overlap"
    for group, both in list(now.items())[:_MOST_NAMED]:
        was = before[group].bits if group in before else 0
        new = both.bits & ~was
        alone = new and not any(
            shares_at(editor, MaskRow(group, rule), base=True).others
            for rule in editor.rules
            if cache_of_line(rule) == cache_of_line(row.line)
        )
        name = group_name(group)
        tail = f" ({name} was alone in its ways)" if alone else ""
        if not new:
            tail = " as before" if was == both.bits else f" (was {ways_named(was)})"
        yield DOUBT, f"shares {ways_named(both.bits)} with {name}{tail}"
    if len(now) > _MOST_NAMED:
        yield DOUBT, f"and {counted(len(now) - _MOST_NAMED, 'class', 'classes')} more"


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
    rows = [row for item in texts for row in paragraph(item, _room(width), tone=Tone.MUTED)]
    return _under("note", rows, width)


def _room(width: int) -> int:
    return width - _LABEL


def _under(label: str, rows: list[Line], width: int) -> list[Line]:
    leads = [Span(f"{label:<{_LABEL}}", Tone.MUTED)]
    leads += [Span(" " * _LABEL, Tone.PLAIN)] * len(rows)
    return [crop(line(lead, row), width) for lead, row in zip(leads, rows, strict=False)]


def ways_named(bits: int) -> str:
    """`way 7`, `ways 6-7`."""
    plural = "s" * (bits.bit_count() != 1)
    return f"way{plural} " + format_cpu_list(
        way for way in range(bits.bit_length()) if bits >> way & 1
    )


_DRAFT_LEAST = 4  # lines
_ROWS_LEAST = 3
_MOST_DOMAINS = 12


def editor_lines(
    editor: EditorState,
    frame: Frame,
    width: int,
    height: int,
    *,
    card: Sequence[Line] = (),
    brief: Callable[[], Sequence[Line]] = tuple,
    graph: Callable[[int], Sequence[Line]] = lambda _: (),
) -> list[Line]:
    """At most `height` lines, including the selected class.

    Args:
        editor: the draft.
        frame: the newest.
        width: cells of a line.
        height: lines of the screen.
        card: verdict on the last change, below the rest.
        brief: makes a shorter one, for where that does not fit.
        graph: makes a graph of so many lines at most, which is drawn if there is room for it.
    """
    compact = height < _COMPACT
    rows = rows_of(editor, frame)
    table = editor_table(editor, frame, rows, width, pointer=not compact)
    head = _head(editor, frame, width)[: 1 if compact else None]
    head += alert_lines(*editor.trouble, width=width)[: 2 if compact else None]
    head += table.head[: -1 if height < _SMALLEST else None]
    pointer = [] if compact else [table.pointer]
    draft = draft_lines(editor, frame, width)
    room = height - len(head) - len(pointer)
    if len(rows) + len(draft) + len(card) <= room:
        blocks = [[*head, *table.rows, *pointer], draft, list(card)]
        blocks = [block for block in blocks if block]
        spare = height - sum(map(len, blocks))
        if spare - len(blocks) >= GRAPH_LEAST and (drawn := list(graph(spare - len(blocks)))):
            blocks.append(drawn)
            spare -= len(drawn)
        spaced = spare >= len(blocks) - 1
        gaps = [[BLANK] if spaced and at else [] for at in range(len(blocks))]
        whole = [(*gap, *block) for gap, block in zip(gaps, blocks, strict=True)]
        return [crop(row, width) for block in whole for row in block]
    # Classes first, then the draft; the card gets the rest.
    least = min(len(draft), _DRAFT_LEAST)
    shown = min(len(rows), max(_ROWS_LEAST, room - max(least, len(draft)) - bool(card)))
    shown = max(1, min(shown, room - 1))
    body = _window(table.rows, rows, editor, shown)
    left = max(0, room - len(body))
    rest = draft_lines(editor, frame, width, max(least, min(left, len(draft))))
    room = left - len(rest)
    drawn = list(graph(GRAPH_LEAST)) if card and room >= _CARD_LEAST + GRAPH_LEAST else []
    room -= len(drawn)
    count = len(card)
    if count > room and (short := brief()):
        more = Span(f"+ {count - len(short)} more lines: d shows all", Tone.MUTED)
        card = [*short, line(more)] if len(short) < room else card
    rest += cut_lines(card, room, width, "d shows all") if room > 1 or len(card) <= room else []
    return [crop(item, width) for item in (*head, *body, *pointer, *rest, *drawn)][:height]


def diff_lines(editor: EditorState, frame: Frame, card: Sequence[Line], width: int) -> list[Line]:
    """Everything about the draft, for a page of its own."""
    return [*_head(editor, frame, width), BLANK, *draft_lines(editor, frame, width), BLANK, *card]


def _head(editor: EditorState, frame: Frame, width: int) -> list[Line]:
    """Cache, size and rules; the caches that edits change and the time at the right."""
    selection, rule = editor.selection, editor.rule
    sockets = {cpu.package for cpu in frame.topology.cpus if cpu.l3 == selection.domain}
    socket = f" (socket {min(sockets)})" if selection.cache == "L3" and sockets - {None} else ""  # type: ignore[type-var]
    way = capacity_bytes(editor, frame, 1)
    size = "" if isinstance(way, Missing) else f" x {fmt.way_mib(way)} MiB"
    shape = "gaps allowed" if rule.sparse else "side by side"
    via = f"via {editor.where}; {shape}, {counted(rule.min_bits, 'way')} at least"
    items = [
        *badge_lines(frame.host),
        line(Span("CAT editor", Tone.STRONG)),
        line(Span(f"{selection.cache} {selection.domain}", Tone.STRONG), Span(socket, Tone.MUTED)),
        line(f"{rule.ways} ways{size}"),
        _domains(editor),
    ]
    whole = line(*(item for fact in items for item in (fact, "  ")))
    clock = line(Span(time_of_day(frame), Tone.MUTED))
    spare = width - whole.width - clock.width
    if spare < 0:
        return flow(items, width, "  ")
    note = Span(via if len(via) + 2 <= spare else "", Tone.MUTED)
    left = line(whole, note)
    return [line(left, " " * (width - left.width - clock.width), clock)]


def _domains(editor: EditorState) -> Line:
    """Caches of the line, the selected one bold, or that edits change all of them."""
    every = domains_of(editor.base, editor.selection.line)
    cache = editor.selection.cache
    if len(every) == 1:
        return line(Span(f"the only {cache}", Tone.MUTED))
    if editor.selection.linked:
        return line(Span(f" LINKED: all {len(every)} {cache} alike ", Tone.BADGE))
    key = Span("D ", Tone.ACCENT, Click("domain", 1))
    if len(every) > _MOST_DOMAINS:
        return line(key, Span(f"{cache} 0..{len(every) - 1}", Tone.MUTED))
    names = [
        Span(f" [{item}]", Tone.STRONG)
        if item == editor.selection.domain
        else Span(f" {item}", Tone.MUTED)
        for item in every
    ]
    return line(key, Span(f"of {cache}", Tone.MUTED), *names)


def _window(
    table: Sequence[Line], rows: Sequence[MaskRow], editor: EditorState, shown: int
) -> list[Line]:
    """So many rows around the selected one."""
    selected = (editor.selection.group, editor.selection.line)
    at = next((index for index, row in enumerate(rows) if row == selected), 0)
    top = max(0, min(at - shown // 2, len(rows) - shown))
    hidden = len(rows) - shown
    if not hidden or shown < 2:
        return list(table[top : top + shown])
    # The count of hidden rows replaces the row farthest from the selected one.
    upper = at - top < top + shown - 1 - at
    kept = table[top : top + shown - 1] if upper else table[top + 1 : top + shown]
    return [*kept, line(Span(f"  + {hidden + 1} classes more", Tone.MUTED))]


def where_text(editor: EditorState) -> str:
    """Selected class and way, for the footer."""
    at = editor.selection
    return f"{row_name(at.group)} {at.line} {at.domain} way {at.way}"
