"""Table of the class editor: a row per mask, a column per way, and who uses each class."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nftop.derive.cache.table import cost_of
from nftop.derive.placement import kinds
from nftop.model.change import IO_GROUP, Cell, State
from nftop.model.frame import CacheClass, Frame, GroupCacheRow, GroupRow
from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.metrics.catalogue import cpu_metric
from nftop.model.metrics.metric import Unit, is_bound, is_other
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import EXCLUSIVE, ROOT, CacheDomain, split_path
from nftop.model.sst import Priority
from nftop.render.base import format as fmt
from nftop.render.base.line import Click, Line, Span, Tone, clickable, crop, line
from nftop.render.base.text import ELLIPSIS, cells, fit
from nftop.render.cache.class_cells import OVER_RATIO, group_name
from nftop.render.cache.way_cells import MARKS as WAY_CELL_MARKS
from nftop.render.cache.way_cells import (
    ClassStyle,
    WayState,
    device_cells,
    styles_of,
    way_numbers,
    way_span,
    way_state,
)
from nftop.render.cores.harm import culprit_names
from nftop.render.editor.change import limit
from nftop.render.editor.model import EditorState, MaskRow, mask_text, shares_at
from nftop.render.power.settings import LETTERS


class ClassUsers(NamedTuple):
    """CPUs, names of network functions or culprits (untrusted), cost of a packet, as texts."""

    cpus: str
    nfs: str
    cpp: str


CPP = 6  # cells of cycles per packet
NOBODY = ClassUsers("none", "", "")
OTHERS = "others"  # whatever runs there, of which no name is known


def class_users(editor: EditorState, frame: Frame) -> Mapping[str, ClassUsers]:
    """Users of each class on CPUs of the selected cache."""
    wanted = editor.selection.domain if editor.selection.cache == "L3" else None
    near = {cpu.cpu for cpu in frame.topology.cpus if wanted in (None, cpu.l3)}
    rows: dict[str, list[int]] = defaultdict(list)
    for row, nf in enumerate(frame.cpus.nf):
        if nf is not None and frame.cpus.topology.cpus[row].cpu in near:
            rows[_class_of(frame, row, editor.target)].append(row)
    kinds_of, culprits = kinds(frame.cpus), culprit_names(frame, frame.past_incidents)
    result = {}
    for group in editor.groups:
        every = editor.cpus.get(group, ())
        here = [cpu for cpu in every if cpu in near]
        cpus = _cores(here, kinds_of) if here or not every else "elsewhere"
        names, cpp = _network_functions(frame, rows[group])
        own = dict.fromkeys(name for cpu in here if (name := culprits.get(Cpu(cpu))))
        names = ", ".join(filter(None, (names, *own))) or OTHERS * bool(here)
        result[group] = ClassUsers(cpus, names, cpp)
    return result


def nf_losses(editor: EditorState, frame: Frame) -> Mapping[int, Sequence[str]]:
    """Ways that an NF's CPUs can fill before the draft, not after it; the NFs that lose them.

    By CPU: one that is moved to another class loses the ways that only its old class has.
    """
    wanted = editor.selection.domain if editor.selection.cache == "L3" else None
    lost: dict[str, int] = {}
    for row, nf in enumerate(frame.cpus.nf):
        if nf is None or wanted not in (None, frame.cpus.topology.cpus[row].l3):
            continue
        before = editor.bits_of(_class_of(frame, row, editor.base), base=True)
        after = editor.bits_of(_class_of(frame, row, editor.target))
        lost[nf] = lost.get(nf, 0) | before & ~after
    names: dict[int, list[str]] = {}
    for nf, bits in lost.items():
        if bits:
            names.setdefault(bits, []).append(nf)
    return names


def _cores(cpus: Sequence[int], kinds_of: Mapping[Cpu, Priority]) -> str:
    letters = {LETTERS[kinds_of[Cpu(cpu)]] for cpu in cpus if Cpu(cpu) in kinds_of}
    return f"{format_cpu_list(cpus) or NOBODY.cpus} {'/'.join(sorted(letters))}".rstrip()


def _network_functions(frame: Frame, rows: Sequence[int]) -> tuple[str, str]:
    """Names of the network functions on some rows, and their common cycles per packet."""
    if not rows:
        return "", ""
    names = ", ".join(dict.fromkeys(frame.cpus.nf[row] or "" for row in rows))
    cost, metric = cost_of(frame, rows), cpu_metric("cpp")
    bound = is_bound(metric, saturated=cost.saturated, clock=cost.clock)
    return names, fmt.cell(cost.cpp, metric.unit, CPP, bound=bound, estimate=is_other(cost.clock))


def _class_of(frame: Frame, row: int, target: State) -> str:
    """Effective class of a CPU: its poller's own, or the CPU's after the draft."""
    group = frame.cpus.group[row]
    if isinstance(group, CacheClass) and group.of == "task":
        return group.name
    cpu = frame.cpus.topology.cpus[row].cpu
    return split_path(target.get(Cell("cpu", "", number=cpu), ROOT))[0]


MARKS: tuple[tuple[str, str], ...] = (
    *WAY_CELL_MARKS,
    ("H L", "SST-BF: cores of high, low base frequency"),
    ("<", "CPP of a class: may include empty polls"),
    ("draining", "the class occupies more than its ways until lines are evicted"),
    ("default", "the class of all CPUs and threads in no other: resctrl's root group"),
)
ARROW = "→"
_IO_STYLE = ClassStyle(0, "I")
_SWATCH = "■ "


class _Col(NamedTuple):
    """A column behind the ways: least and most cells, rank for leaving it out (0: never).

    `least` 0: as its longest text, which is never cut. `short`: its head where that is too long.
    """

    head: str
    least: int
    most: int
    goes: int = 0
    right: bool = False
    short: str = ""


_NAME_LEAST, _NAME_MOST = 7, 20
_LEAD = 4  # cells of the marker of the row and the swatch of the class
_MASK, _USED, _GBPS, _MBA, _CPUS, _NF, _CPP = range(7)
_COLUMNS = (
    _Col("MASK", 0, 20, right=True),
    _Col("MiB USED/CAP", 8, 20, 1, right=True, short="MiB/CAP"),
    _Col("GB/s", 5, 5, 6, right=True),
    _Col("MBA", 0, 16, 5, right=True),
    _Col("CPUS", 6, 40, 3),
    _Col("NF", 4, 40, 2),
    _Col("CPP", 4, CPP, 4, right=True),
    _Col("COS", 3, 3, 7, right=True),
)


class _Shape(NamedTuple):
    """Widths of the table: class names, a cell of a way, columns behind the ways."""

    name: int
    cell: int
    columns: tuple[int, ...]


class _RowText(NamedTuple):
    """Texts of a row: name of the class, columns, and which columns the draft changes."""

    name: str
    columns: tuple[str, ...]
    changed: frozenset[int] = frozenset()


class EditorTable(NamedTuple):
    """Lines of the class editor's table.

    Attributes:
        head: numbers of the ways, names of the columns, ways of devices.
        rows: a line per mask.
        pointer: below the rows, the selected way and what the draft does with it.
    """

    head: list[Line]
    rows: list[Line]
    pointer: Line


def editor_table(
    editor: EditorState, frame: Frame, rows: Sequence[MaskRow], width: int, *, pointer: bool = True
) -> EditorTable:
    """The table; without a `pointer` below it the selected way is marked in its header."""
    users = class_users(editor, frame)
    styles = styles_of(frame.groups, editor.groups)
    texts = [_texts(editor, frame, row, users) for row in rows]
    shape = _shape_of(texts, editor.rule.ways, width)
    head = [*_heads(editor, shape, pointer=pointer), _io_line(editor, frame, shape)]
    drawn = [
        _row_line(editor, row, text, shape, styles[row.group])
        for row, text in zip(rows, texts, strict=True)
    ]
    return EditorTable(
        [crop(item, width) for item in head],
        [crop(item, width) for item in drawn],
        _pointer_line(editor, shape, width),
    )


def _pointer_line(editor: EditorState, shape: _Shape, width: int) -> Line:
    left = (editor.rule.ways - 1 - editor.selection.way) * shape.cell + (shape.cell > 2)
    indent = _LEAD + shape.name + left
    text = f"way {editor.selection.way}: {_way_text(editor)}"
    mark = Span("▲", Tone.ACCENT)
    if indent + 3 + cells(text) > width and cells(text) + 2 <= indent:
        return line(Span(f"{' ' * (indent - 2 - cells(text))}{text}  ", Tone.MUTED), mark)
    return crop(line(" " * indent, mark, Span(f"  {text}", Tone.MUTED)), width)


def _way_text(editor: EditorState) -> str:
    selection = editor.selection
    row = MaskRow(selection.group, selection.line)
    bits = 1 << selection.way
    had, has = (bool(editor.bits(row, base=base) & bits) for base in (True, False))
    name = row_name(selection.group)
    if had != has:
        return f"added to {name} by the draft" if has else f"taken off {name} by the draft"
    if not has:
        return f"not of {name}"
    shares = shares_at(editor, row)
    others = [group_name(other) for other, both in shares.others.items() if both.bits & bits]
    others += ["devices"] * bool(shares.io.bits & bits)
    return f"{name} shares it with {', '.join(others)}" if others else f"{name} alone"


def row_name(group: str) -> str:
    """Name of a class, or of the ways of I/O."""
    return "I/O" if group == IO_GROUP else group_name(group)


def draining(editor: EditorState, frame: Frame) -> list[tuple[str, float, float]]:
    """Classes that occupy more than their ways: name, MiB occupied, MiB of the ways."""
    rows = []
    for group, cache in _in_cache(editor, frame):
        used, capacity = cache.readings["occupancy_bytes"], cache.readings["capacity_bytes"]
        both = not isinstance(used, Missing) and not isinstance(capacity, Missing)
        if both and used > OVER_RATIO * capacity > 0:  # type: ignore[operator]
            rows.append((group_name(group.name), used / 2**20, capacity / 2**20))  # type: ignore[operator]
    return rows


def domain_of(editor: EditorState, frame: Frame) -> CacheDomain | None:
    """The selected last-level cache; None for L2."""
    if editor.selection.cache != "L3":
        return None
    return next((domain for domain in frame.domains if domain.l3 == editor.selection.domain), None)


def capacity_bytes(editor: EditorState, frame: Frame, bits: int) -> float | Missing:
    """The size of these ways in the selected cache."""
    domain = domain_of(editor, frame)
    if domain is None:
        return Missing(Reason.SOURCE, "the size of this cache is not known")
    return domain.capacity_bytes(Cbm(bits, editor.rule.ways))


def _in_cache(editor: EditorState, frame: Frame) -> list[tuple[GroupRow, GroupCacheRow]]:
    if editor.selection.cache != "L3":
        return []
    return [
        (group, cache)
        for group in frame.groups
        for cache in group.caches
        if cache.l3 == editor.selection.domain
    ]


def _texts(
    editor: EditorState, frame: Frame, row: MaskRow, users: Mapping[str, ClassUsers]
) -> _RowText:
    masks = [
        mask_text(editor.bits(row, base=base), editor.rules[row.line].ways)
        for base in (True, False)
    ]
    mask = _changed(*masks)
    if not editor.exists(row.group, base=True):
        mask = f"new {masks[1]}"
    elif not editor.exists(row.group):
        mask = f"{masks[0]} gone"
    at_mask = frozenset({0} if masks[0] != masks[1] else ())
    if row.line.endswith("CODE"):
        return _RowText("  code", (mask, *[""] * (len(_COLUMNS) - 1)), at_mask)
    group_row = next((group for group in frame.groups if group.name == row.group), None)
    number = "" if group_row is None or group_row.clos is None else str(group_row.clos)
    columns = (
        mask,
        _used(editor, frame, row),
        _traffic(editor, frame, row),
        _bandwidth(editor, row.group),
        *(users.get(row.group) or NOBODY),
        number,
    )
    changed = {at for at in (_USED, _MBA) if ARROW in columns[at]} | at_mask
    return _RowText(group_name(row.group), columns, frozenset(changed))


def _changed(old: str, new: str) -> str:
    return new if old == new else f"{old} {ARROW} {new}"


def _used(editor: EditorState, frame: Frame, row: MaskRow) -> str:
    """`15.8/16->24`: occupancy, capacity on the host and in the draft."""
    sizes = [
        capacity_bytes(editor, frame, editor.bits_of(row.group, base=base))
        for base in (True, False)
    ]
    if editor.selection.cache != "L3":
        return ""
    held = fmt.cell(_reading(editor, frame, row, "occupancy_bytes"), Unit.BYTES, 5)
    return f"{held}/{_changed(_mib(sizes[0]), _mib(sizes[1]))}"


def _traffic(editor: EditorState, frame: Frame, row: MaskRow) -> str:
    """Memory traffic of the class through the selected cache, GB/s, or why it is unknown."""
    rate = _reading(editor, frame, row, "mbm_total_bytes_per_s")
    return fmt.cell(rate, Unit.BYTES_PER_S, 5) if editor.selection.cache == "L3" else ""


def _reading(editor: EditorState, frame: Frame, row: MaskRow, metric: str) -> Reading:
    caches = [cache for group, cache in _in_cache(editor, frame) if group.name == row.group]
    # A new class is not in the frame yet.
    absent = Missing(Reason.WARMING, "no data of this class yet")
    return caches[0].readings[metric] if caches else absent


def _mib(size: Reading) -> str:
    return fmt.cell(size, Unit.BYTES, 5).removesuffix(".0")


def _bandwidth(editor: EditorState, group: str) -> str:
    cell = Cell("schemata", group, "MB", editor.selection.domain)
    values = [state.get(cell) for state in (editor.base, editor.target)]
    shown = [
        "-" if value is None else limit(int(value), editor.unit).replace(" ", "")
        for value in values
    ]
    return _changed(*shown) if editor.selection.cache == "L3" and values != [None, None] else ""


def _row_line(
    editor: EditorState, row: MaskRow, text: _RowText, shape: _Shape, style: ClassStyle
) -> Line:
    here = (row.group, row.line) == (editor.selection.group, editor.selection.line)
    code = row.line.endswith("CODE")
    spans = [
        Span("▸ " if here else "  ", Tone.ACCENT),
        Span("  " if code else _SWATCH, style.hue),
        Span(f"{_short(text.name, shape.name - 1)} ", Tone.STRONG if here else Tone.PLAIN),
        *_ways(editor, row, shape.cell, style, here=here),
    ]
    for at, item in enumerate(_column_texts(text.columns, shape)):
        spans.append(Span(item, style.hue if at in text.changed else Tone.PLAIN))
    whole = line(*spans, fill=Tone.SELECTION if here else Tone.PLAIN)
    return clickable(whole, "select", f"{row.line} {editor.selection.way} {row.group}")


def _ways(
    editor: EditorState, row: MaskRow, cell: int, style: ClassStyle, *, here: bool
) -> list[Span]:
    """A cell per way of a mask, the highest first."""
    old, new = editor.bits(row, base=True), editor.bits(row)
    shares = shares_at(editor, row)
    exclusive = editor.target.get(Cell("mode", row.group)) == EXCLUSIVE
    spans = []
    for way in reversed(range(editor.rule.ways)):
        had, has = (bool(bits >> way & 1) for bits in (old, new))
        state: WayState = "empty"
        if had != has:
            state = "added" if has else "removed"
        elif has:
            state = way_state(shares, way, exclusive=exclusive)
        selected = here and way == editor.selection.way
        span = way_span(state, style, cell, selected=selected)
        spans.append(span._replace(click=Click("toggle_at", f"{row.line} {way} {row.group}")))
    return spans


def clicked_way(argument: str) -> tuple[MaskRow, int]:
    """Row and way of a click on a cell of the table."""
    name, way, group = argument.split(" ", 2)
    return MaskRow(group, name), int(way)


def _heads(editor: EditorState, shape: _Shape, *, pointer: bool) -> list[Line]:
    """Numbers of the ways, the last line with the names of the columns."""
    selected = None if pointer else editor.selection.way
    *upper, last = way_numbers(editor.rule.ways, shape.cell, selected)
    indent = " " * (_LEAD + shape.name)
    lines = [line(Span(f"{indent}{item}", Tone.HEADER), fill=Tone.HEADER) for item in upper]
    heads = [
        col.head if cells(col.head) < width else col.short or col.head
        for col, width in zip(_COLUMNS, shape.columns, strict=True)
    ]
    names = "".join(_column_texts(heads, shape))
    text = f"{' ' * _LEAD}{fit('CLASS', shape.name)}{last}{names}"
    return [*lines, line(Span(text, Tone.HEADER), fill=Tone.HEADER)]


def _io_line(editor: EditorState, frame: Frame, shape: _Shape) -> Line:
    head = Span(f"  □ {fit('I/O', shape.name)}", Tone.MUTED)
    domain = domain_of(editor, frame)
    ways, room = editor.rule.ways, editor.rule.ways * shape.cell
    if editor.selection.cache != "L3":
        return line(head, " " * room, Span("  devices write into L3", Tone.MUTED))
    if editor.io_row is not None:
        return _io_edit_line(editor, editor.io_row, shape)
    if editor.selection.domain in editor.io:
        bits, origin = editor.io[editor.selection.domain]
        mask = _column_texts([mask_text(bits, ways)], shape)[0]
        note = f"  devices write here (DDIO, {origin}), not metered"
        note = note if sum(shape.columns[1:]) else ""
        return line(head, device_cells(bits, ways, shape.cell), mask, Span(note, Tone.MUTED))
    why = "unknown"
    if domain is not None and isinstance(domain.io, Missing):
        why = f"{domain.io.reason.mark} {domain.io.message}"
    return line(head, Span(why, Tone.MISSING))


def _io_edit_line(editor: EditorState, row: MaskRow, shape: _Shape) -> Line:
    """Ways of I/O that the draft can change."""
    here = (row.group, row.line) == (editor.selection.group, editor.selection.line)
    masks = [mask_text(editor.bits(row, base=base), editor.rule.ways) for base in (True, False)]
    [mask] = _column_texts([_changed(*masks)], shape)[:1]
    note = "  devices write here (io_alloc), not metered" if sum(shape.columns[1:]) else ""
    whole = line(
        Span("▸ " if here else "  ", Tone.ACCENT),
        Span(f"□ {fit('I/O', shape.name)}", Tone.STRONG if here else Tone.MUTED),
        *_ways(editor, row, shape.cell, _IO_STYLE, here=here),
        Span(mask, Tone.PLAIN),
        Span(note, Tone.MUTED),
        fill=Tone.SELECTION if here else Tone.PLAIN,
    )
    return clickable(whole, "select", f"{row.line} {editor.selection.way} {row.group}")


def _column_texts(texts: Sequence[str], shape: _Shape) -> list[str]:
    """Texts of the columns behind the ways, each with a blank before it."""
    shown = []
    for at, (text, width) in enumerate(zip(texts, shape.columns, strict=False)):
        old, arrow, new = text.partition(f" {ARROW} ")
        if arrow and cells(text) >= width:  # of a mask the new one, of others the old one
            text = new if at == _MASK else old  # noqa: PLW2901 - the shorter text
        if at == _NF:
            text = _names_in(text, width - 1)  # noqa: PLW2901
        blank = " " if width else ""
        shown.append(f"{blank}{fit(text, width - 1, right=_COLUMNS[at].right)}")
    return shown


def _names_in(names: str, width: int) -> str:
    """Whole names, as many as fit, and how many more there are."""
    forms = _name_forms(names) if names != OTHERS or len(OTHERS) <= width else [""]
    return next((form for form in forms if cells(form) <= width), _short(forms[-1], width))


def _name_forms(names: str) -> list[str]:
    """All names, ever fewer of them, the first alone: `vpp, ovs-vswitchd`, `vpp +1`."""
    listed = names.split(", ")
    return [
        names,
        *(
            f"{', '.join(listed[:count])} +{len(listed) - count}"
            for count in range(len(listed) - 1, 0, -1)
        ),
    ]


def _short(name: str, width: int) -> str:
    """A name of a class in `width` cells; its end, which differs, stays."""
    if cells(name) <= width or not name.isascii() or width < 5:
        return fit(name, width)
    return f"{name[: width - 3]}{ELLIPSIS}{name[-2:]}"


def _shape_of(texts: Sequence[_RowText], ways: int, width: int) -> _Shape:
    """The widest cells of ways beside which the essential columns fit, and the columns' widths."""
    longest = max((cells(text.name) for text in texts), default=0)
    name = 1 + max(_NAME_LEAST, min(_NAME_MOST, longest))
    least = _least(texts)
    room = width - _LEAD - name
    essential = 3 + sum(least[at] for at in (_MASK, _USED, _NF))
    # Traffic and cost are more than wide cells, whose width must not depend on the draft.
    more = [at for at in (_GBPS, _MBA, _CPP) if any(text.columns[at] for text in texts)]
    some = essential + 1 + least[_CPUS]
    all_ = some + sum(1 + least[at] for at in more) + max(0, _draft_mask(texts) - least[_MASK])
    needs = ((3, all_), (2, all_ if _GBPS in more else room), (3, some), (2, essential))
    cell = next((item for item, columns in needs if item * ways + columns <= room), 1)
    room = width - _LEAD - name - cell * ways
    if room < 1 + least[_MASK]:
        name = max(1 + _NAME_LEAST, name + room - 1 - least[_MASK])
    columns = _shared_out(texts, width - _LEAD - name - cell * ways)
    return _Shape(name, cell, tuple(columns))


def _longest(texts: Sequence[_RowText]) -> list[int]:
    return [
        max((cells(text.columns[at]) for text in texts), default=0) for at in range(len(_COLUMNS))
    ]


def _least(texts: Sequence[_RowText]) -> list[int]:
    least = [
        col.least or max(len(col.head), most)
        for col, most in zip(_COLUMNS, _longest(texts), strict=True)
    ]
    held = [text.columns[_USED].partition(f" {ARROW} ")[0] for text in texts]
    least[_USED] = max([least[_USED], *map(cells, held)])
    # One whole name: a part of it does not identify.
    names = [text.columns[_NF] for text in texts if text.columns[_NF] != OTHERS]
    firsts = [cells(_name_forms(name)[-1]) for name in names]
    least[_NF] = min(_NAME_MOST, max([least[_NF], *firsts]))
    return least


def _draft_mask(texts: Sequence[_RowText]) -> int:
    """Cells of a mask that a draft changes."""
    masks = (text.columns[_MASK] for text in texts)
    return max((2 * cells(mask[:8]) + 3 for mask in masks if ARROW not in mask), default=0)


def _shared_out(texts: Sequence[_RowText], room: int) -> list[int]:
    """Widths of the columns: as their texts need, reduced where room is short."""
    longest, least = _longest(texts), _least(texts)
    # Room for the draft's mask, so that nothing moves when a way is toggled.
    longest[_MASK] = max(longest[_MASK], _draft_mask(texts))
    wanted = [
        0 if col.goes and not most else 1 + max(len(col.head), low, min(col.most, most))
        for col, most, low in zip(_COLUMNS, longest, least, strict=True)
    ]
    users = [text.columns[_CPUS] for text in texts]
    word = max((len(item) for item in users if item.isalpha()), default=0)
    while sum(wanted) > room:
        # Shrink the column with most spare cells first; then leave columns out.
        spare = [item - 1 - low if item else 0 for item, low in zip(wanted, least, strict=True)]
        at = max(range(len(_COLUMNS)), key=lambda index: spare[index])
        if wanted[_GBPS] and at == _CPUS and wanted[at] - 1 <= word:
            wanted[_GBPS] = 0  # rather than a part of a word
            continue
        if spare[at] > 0:
            wanted[at] -= 1
            continue
        going = [col for col, item in zip(_COLUMNS, wanted, strict=True) if col.goes and item]
        # What the draft changes goes last.
        kept = [_COLUMNS[_MBA]] * any(_MBA in text.changed for text in texts)
        going = [col for col in going if col not in kept] or going
        if not going:
            wanted[_MASK] = max(0, wanted[_MASK] - sum(wanted) + room)
            break
        wanted[_COLUMNS.index(max(going, key=lambda col: col.goes))] = 0
    return wanted
