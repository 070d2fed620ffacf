"""Table of the class editor: a row per mask, a column per way, and who uses each class."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from nftop.derive.cache.class_cost import cost_of
from nftop.derive.placement import kinds
from nftop.model.change import Cell, State, parts
from nftop.model.frame import CacheClass, Frame, GroupCacheRow, GroupRow
from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.metrics.catalogue import cpu_metric
from nftop.model.metrics.metric import Unit
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import ROOT, CacheDomain
from nftop.model.reading import Missing, Reading, Reason
from nftop.model.sst import Priority
from nftop.model.struct import dataclass
from nftop.render.base import format as fmt
from nftop.render.base.line import Line, Span, Tone, crop, line
from nftop.render.base.text import cells, fit
from nftop.render.cache.panel import OVER_RATIO, TONES, group_name, way_mark
from nftop.render.cores.table import is_bound, is_other
from nftop.render.editor.change import limit
from nftop.render.editor.model import EditorState, MaskRow, mask_text, shares_at
from nftop.render.power.settings import LETTERS


class ClassUsers(NamedTuple):
    """CPUs, names of network functions (untrusted) and cost of a packet, as texts."""

    cpus: str
    nfs: str
    cpp: str


CPP = 6  # cells of cycles per packet
NOBODY = ClassUsers("none", "", "")


def class_users(editor: EditorState, frame: Frame) -> Mapping[str, ClassUsers]:
    """Users of each class on CPUs of the selected cache."""
    wanted = editor.selection.domain if editor.selection.cache == "L3" else None
    near = {cpu.cpu for cpu in frame.topology.cpus if wanted in (None, cpu.l3)}
    rows: dict[str, list[int]] = defaultdict(list)
    for row, nf in enumerate(frame.cpus.nf):
        if nf is not None and frame.cpus.topology.cpus[row].cpu in near:
            rows[_class_of(frame, row, editor.target)].append(row)
    kinds_of = kinds(frame.cpus)
    result = {}
    for group in editor.groups:
        every = editor.cpus.get(group, ())
        here = [cpu for cpu in every if cpu in near]
        cpus = _cores(here, kinds_of) if here or not every else "elsewhere"
        result[group] = ClassUsers(cpus, *_network_functions(frame, rows[group]))
    return result


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
    return parts(target.get(Cell("cpu", "", number=cpu), ROOT))[0]


MARKS: tuple[tuple[str, str], ...] = (
    ("+", "way added by the draft"),
    ("-", "way removed by the draft"),
    (">", "selected class; v: selected way"),
    ("H L", "SST-BF: cores of high, low base frequency"),
    ("<", "CPP of a class: may include empty polls"),
    ("draining", "the class occupies more than its ways until lines are evicted"),
)
_WIDE_FROM = 120  # cells from which the ways have gaps between them
_TONES = {**TONES, "+": Tone.RETIRING, "-": Tone.BAD}


@dataclass(frozen=True, slots=True)
class _Col:
    """A column of text: least and most cells, rank for leaving it out (0: never)."""

    head: str
    least: int
    most: int
    goes: int = 0


_BEFORE = (_Col("", 2, 2), _Col("COS", 5, 6), _Col("CLASS", 7, 20))
_BEHIND = (
    _Col("MASK", 4, 14),
    _Col("MiB USED/CAP", 8, 17),
    _Col("MBA", 3, 16, 2),
    _Col("CPUS", 6, 40, 3),
    _Col("NF", 4, 24, 4),
    _Col("CPP", 4, CPP, 5),
)


def table_lines(
    editor: EditorState, frame: Frame, rows: Sequence[MaskRow], width: int
) -> list[Line]:
    """Header, ways of devices, and a line per row."""
    ways = editor.rule.ways
    users = class_users(editor, frame)
    texts = [_texts(editor, frame, row, users) for row in rows]
    gap = " " if width >= _WIDE_FROM else ""
    room = width - (ways + (ways - 1) * len(gap)) - 1
    widths = _shared_out(texts, room)
    split = len(_BEFORE)
    heads = [col.head for col in (*_BEFORE, *_BEHIND)]
    lines = [
        line(
            _joined(heads[:split], widths[:split]),
            *_scale(editor, gap),
            " ",
            _joined(heads[split:], widths[split:]),
            fill=Tone.HEADER,
        ),
        _io_line(editor, frame, widths, gap),
    ]
    for row, text in zip(rows, texts, strict=True):
        here = (row.group, row.line) == (editor.selection.group, editor.selection.line)
        before = _joined(text[:split], widths[:split])
        lines.append(
            line(
                Span(before, Tone.TITLE if here else Tone.PLAIN),
                *_ways(editor, row, gap, here=here),
                " ",
                _joined(text[split:], widths[split:]),
            )
        )
    return [crop(item, width) for item in lines]


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
    return [(group, cache) for group in frame.groups for cache in group.caches
            if cache.l3 == editor.selection.domain]  # fmt: skip


def _texts(
    editor: EditorState, frame: Frame, row: MaskRow, users: Mapping[str, ClassUsers]
) -> list[str]:
    """Texts of the columns before and after the ways."""
    here = (row.group, row.line) == (editor.selection.group, editor.selection.line)
    mark = ">" if here else ""
    group_row = next((group for group in frame.groups if group.name == row.group), None)
    masks = _changed(*(mask_text(editor.bits(row, base=base), editor.rules[row.line].ways)
                       for base in (True, False)))  # fmt: skip
    if row.line.endswith("CODE"):
        return [mark, "", "  code", masks, "", "", "", "", ""]
    return [
        mark,
        _class_number(editor, row.group, group_row),
        group_name(row.group),
        masks,
        _used(editor, frame, row),
        _bandwidth(editor, row.group),
        *(users.get(row.group) or NOBODY),
    ]


def _class_number(editor: EditorState, group: str, group_row: GroupRow | None) -> str:
    if not editor.exists(group, base=True):
        return "new"
    if not editor.exists(group):
        return "gone"
    return "COS -" if group_row is None or group_row.clos is None else f"COS{group_row.clos}"


def _changed(old: str, new: str) -> str:
    return new if old == new else f"{old}->{new}"


def _used(editor: EditorState, frame: Frame, row: MaskRow) -> str:
    """`15.8/16->24`: occupancy, capacity on the host and in the draft."""
    caches = [cache for group, cache in _in_cache(editor, frame) if group.name == row.group]
    sizes = [capacity_bytes(editor, frame, editor.bits_of(row.group, base=base))
             for base in (True, False)]  # fmt: skip
    # A new class is not in the frame yet.
    used: Reading = (
        caches[0].readings["occupancy_bytes"]
        if caches
        else Missing(Reason.WARMING, "no data of this class yet")
    )
    if editor.selection.cache != "L3":
        return ""
    held = fmt.cell(used, Unit.BYTES, 5)
    return f"{held}/{_changed(_mib(sizes[0]), _mib(sizes[1]))}"


def _mib(size: Reading) -> str:
    return fmt.cell(size, Unit.BYTES, 5).removesuffix(".0")


def _bandwidth(editor: EditorState, group: str) -> str:
    cell = Cell("schemata", group, "MB", editor.selection.domain)
    values = [state.get(cell) for state in (editor.base, editor.target)]
    shown = ["-" if value is None else limit(int(value), editor.unit).replace(" ", "")
             for value in values]  # fmt: skip
    return _changed(*shown) if editor.selection.cache == "L3" and values != [None, None] else ""


def _ways(editor: EditorState, row: MaskRow, gap: str, *, here: bool) -> list[Span]:
    """A cell per way of a mask, the highest first."""
    old, new = editor.bits(row, base=True), editor.bits(row)
    shares = shares_at(editor, row)
    exclusive = editor.target.get(Cell("mode", row.group)) == "exclusive"
    spans: list[Span] = []
    for way in reversed(range(editor.rule.ways)):
        has, gets = (bool(bits >> way & 1) for bits in (old, new))
        kind = way_mark(shares, way, exclusive=exclusive)
        glyph = kind if has and gets else "+" if gets else "-" if has else "."
        tone = Tone.CURSOR if here and way == editor.selection.way else _TONES[glyph]
        spans += [Span(glyph, tone)] + [Span(gap, Tone.PLAIN)] * bool(gap and way)
    return spans


def _scale(editor: EditorState, gap: str) -> list[Span]:
    """The last digit of each way's number; `v` above the selected one."""
    spans: list[Span] = []
    for way in reversed(range(editor.rule.ways)):
        here = way == editor.selection.way
        spans.append(Span("v" if here else str(way % 10), Tone.TITLE if here else Tone.PLAIN))
        spans += [Span(gap, Tone.PLAIN)] * bool(gap and way)
    return spans


def _io_line(editor: EditorState, frame: Frame, widths: Sequence[int], gap: str) -> Line:
    head = _joined(["", "I/O", "DDIO"], widths[: len(_BEFORE)])
    domain = domain_of(editor, frame)
    ways = editor.rule.ways
    if editor.selection.cache != "L3":
        return line(head, Span(" " * ways, Tone.DIM), Span(" devices write into L3", Tone.DIM))
    if editor.selection.domain in editor.io:
        bits, origin = editor.io[editor.selection.domain]
        drawn = gap.join("I" if bits >> way & 1 else "." for way in reversed(range(ways)))
        return line(head, drawn, " ", mask_text(bits, ways), "  ", Span(origin, Tone.DIM))
    why = "unknown"
    if domain is not None and isinstance(domain.io, Missing):
        why = f"{domain.io.reason.mark} {domain.io.message}"
    return line(head, Span(why, Tone.MISSING))


def _joined(texts: Sequence[str], widths: Sequence[int]) -> str:
    return "".join(
        fit(fit(text, width - 1) if width > 2 else text, width)
        for text, width in zip(texts, widths, strict=True)
        if width
    )


def _longest(texts: Sequence[Sequence[str]], at: int) -> int:
    return max((cells(text[at]) for text in texts), default=0)


def _shared_out(texts: Sequence[Sequence[str]], room: int) -> list[int]:
    """Widths of the columns: as their texts need, reduced where room is short."""
    cols = (*_BEFORE, *_BEHIND)
    wanted = [
        0
        if (col.goes and not any(text[at] for text in texts))
        else 1 + max(len(col.head), col.least, min(col.most, _longest(texts, at)))
        for at, col in enumerate(cols)
    ]
    wanted[0] = cols[0].least
    while sum(wanted) > room:
        # Shrink the column with most spare cells first; then leave columns out.
        spare = [
            item - 1 - col.least if item else 0 for item, col in zip(wanted, cols, strict=True)
        ]
        at = max(range(len(cols)), key=lambda index: spare[index])
        if spare[at] > 0:
            wanted[at] -= 1
            continue
        going = [item for item, col in enumerate(cols) if col.goes and wanted[item]]
        if not going:
            break
        wanted[max(going, key=lambda entry: cols[entry].goes)] = 0
    return wanted
