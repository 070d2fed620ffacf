"""Table of cache classes: a row per class and cache, a column per way.

`cache_table` has all caches below each other, for the Cache screen; `cache_lines` a block per
cache, side by side, for text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from rich.cells import cell_len

from nftop.derive.cache.ways import Shares, free_ways, in_use, shares_of
from nftop.derive.compare.window import ClassKey
from nftop.model.change import Noticed, OwnChange
from nftop.model.clock import clock_of
from nftop.model.frame import CpuTable, Frame, GroupCacheRow, GroupRow
from nftop.model.ids import Cpu, L3Domain, format_cpu_list
from nftop.model.metrics.metric import Unit
from nftop.model.missing import Missing, Reason
from nftop.model.number_text import counted
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import EXCLUSIVE, CacheDomain, IoWays, MbaUnit, cache_of_line
from nftop.model.struct import dataclass, replace
from nftop.render.base import format as fmt
from nftop.render.base.graph import gauge_of
from nftop.render.base.line import ClassVariant, Line, Span, Tone, class_tone, crop, line
from nftop.render.base.table import (
    LastResults,
    TableColumn,
    fit_columns,
    header_line,
    mark_cell,
    number_cell,
    reading_tone,
    text_cell,
)
from nftop.render.base.text import fit
from nftop.render.cache.class_cells import (
    FULL_RATIO,
    OVER_RATIO,
    class_spans,
    group_name,
    way_spans,
)
from nftop.render.cache.way_cells import styles_of
from nftop.render.frame.changes import OURS, author, last_of

_BAR = 10
_UNITS: Mapping[MbaUnit, str] = {"percent": "%", "MBps": "M", "GBps/8": "/8G"}


@dataclass(frozen=True, slots=True)
class ClassCell:
    """Data of a row."""

    frame: Frame
    group: GroupRow
    cache: GroupCacheRow
    domain: CacheDomain
    shares: Shares | None


def _used(one: ClassCell, column: TableColumn) -> list[Span]:
    used, capacity = (one.cache.readings[name] for name in ("occupancy_bytes", "capacity_bytes"))
    room = column.width - 7
    return [
        Span(fmt.cell(used, Unit.BYTES, room).rjust(room), reading_tone(used)),
        Span("/", Tone.MUTED),
        Span(f"{fmt.cell(capacity, Unit.BYTES, 5):<5} ", reading_tone(capacity)),
    ]


def state_of(one: GroupCacheRow, noticed: Sequence[Noticed], group: str) -> str:
    """`full`, `over`, or `drain` where the mask lost ways since nftop began; else ""."""
    used, capacity = (one.readings[name] for name in ("occupancy_bytes", "capacity_bytes"))
    if isinstance(used, Missing) or isinstance(capacity, Missing) or capacity <= 0:
        return ""
    if used > capacity and _shrank(noticed, group, one.l3):
        return "drain"
    if used > OVER_RATIO * capacity:
        return "over"
    return "full" if used >= FULL_RATIO * capacity else ""


def _shrank(noticed: Sequence[Noticed], group: str, l3: L3Domain) -> bool:
    """Whether the last change of a mask removed ways."""
    last = last_of(noticed, group, l3)
    return last is not None and any(
        cache_of_line(change.cell.name) == "L3"
        and change.old is not None
        and change.new is not None
        and int(change.old, 16) & ~int(change.new, 16)
        for change in last.changes
    )


def _state(one: ClassCell, column: TableColumn) -> list[Span]:
    text = state_of(one.cache, one.frame.noticed, one.group.name)
    return [text_cell(text, column.width, right=column.right, tone=Tone.ACCENT)]


def _bar(one: ClassCell, column: TableColumn) -> list[Span]:
    used, capacity = (one.cache.readings[name] for name in ("occupancy_bytes", "capacity_bytes"))
    if isinstance(used, Missing) or isinstance(capacity, Missing) or capacity <= 0:
        return [text_cell("", column.width)]
    style = styles_of(one.frame.groups)[one.group.name]
    return [*gauge_of(used / capacity, column.width - 1, style.hue).spans, Span(" ", Tone.PLAIN)]


def _share(one: ClassCell, column: TableColumn) -> list[Span]:
    if one.shares is None:
        cbm = one.cache.cbm
        reason = cbm.reason if isinstance(cbm, Missing) else Reason.UNDEFINED
        return [mark_cell(reason, column.width)]
    alone = one.shares.private
    others = Cbm(one.shares.all.bits & ~alone.bits, alone.width)
    ways = alone if column.key == "alone" else others
    return [number_cell(one.domain.capacity_bytes(ways), Unit.BYTES, column.width)]


def _rate(one: ClassCell, column: TableColumn) -> list[Span]:
    """Megabytes per second: gigabytes of one class would often print as zero."""
    reading = one.cache.readings[f"mbm_{column.key}_bytes_per_s"]
    mb_per_s = reading if isinstance(reading, Missing) else reading / 1e6
    return [number_cell(mb_per_s, Unit.PER_S, column.width)]


def _limit(one: ClassCell, column: TableColumn) -> list[Span]:
    mba = one.cache.mba
    text = mba.reason.mark if isinstance(mba, Missing) else f"{mba:g}{_UNITS[one.group.mba_unit]}"
    return [text_cell(text, column.width, right=True, tone=reading_tone(mba))]


def _owner(one: ClassCell, column: TableColumn) -> list[Span]:
    return [text_cell(one.group.owner or "", column.width, tone=Tone.MUTED)]


def _changed(one: ClassCell, column: TableColumn) -> list[Span]:
    last = last_of(one.frame.noticed, one.group.name, one.cache.l3)
    text = "" if last is None else clock_of(last.wall_ns)
    return [text_cell(text, column.width, tone=Tone.MUTED)]


def _runs_on(one: ClassCell, _: TableColumn) -> list[Span]:
    """Network functions on CPUs of the class near this cache, and its other CPUs; never cut."""
    topology = one.frame.topology  # whole, with CPUs that are not shown
    rest = [
        cpu
        for cpu in one.group.cpus
        if (row := topology.row_of.get(cpu)) is not None
        and topology.cpus[row].l3 == one.domain.l3
        and not _is_polled(one.frame.cpus, cpu)
    ]
    names = ", ".join(nf_names(one.frame, one.group.name, one.domain.l3))
    threads = counted(one.group.tasks, "thread") if one.group.tasks else ""
    texts = (names, f"CPU {format_cpu_list(rest)}" if rest else "", threads)
    return [Span("; ".join(filter(None, texts)), Tone.PLAIN)]


def _is_polled(table: CpuTable, cpu: Cpu) -> bool:
    row = table.topology.row_of.get(cpu)
    return row is not None and table.nf[row] is not None


def nf_names(frame: Frame, group: str, l3: L3Domain) -> list[str]:
    """Network functions on CPUs of a class near a cache, with these CPUs: `vpp 12-14`."""
    by_name = _nfs_of_classes(frame.cpus).get((group, l3), {})
    return [f"{name} {format_cpu_list(where)}" for name, where in by_name.items()]


def _by_class(
    cpus: CpuTable,
) -> Mapping[tuple[str, L3Domain | None], Mapping[str, Sequence[int]]]:
    """CPUs of each network function by class and cache, then by its name."""
    result: dict[tuple[str, L3Domain | None], dict[str, list[int]]] = {}
    for info, nf, own in zip(cpus.topology.cpus, cpus.nf, cpus.group, strict=True):
        if nf is not None and not isinstance(own, Missing):
            result.setdefault((own.name, info.l3), {}).setdefault(nf, []).append(info.cpu)
    return result


_nfs_of_classes = LastResults(_by_class)


# From left to right; the last may be longer than its width, and is cut by the screen.
_COLUMNS: tuple[tuple[TableColumn, Callable[[ClassCell, TableColumn], list[Span]]], ...] = (
    (TableColumn("used", "MiB USED/CAP", 13, priority=0), _used),
    (TableColumn("state", "", 7, right=False, priority=1), _state),
    (TableColumn("bar", "", _BAR + 1, priority=8), _bar),
    (TableColumn("alone", "ALONE", 7, priority=5), _share),
    (TableColumn("others", "OTHERS", 7, priority=6), _share),
    (TableColumn("total", "MB/s", 8, priority=2), _rate),
    (TableColumn("local", "local", 8, priority=7), _rate),
    (TableColumn("limit", "LIMIT", 7, priority=3), _limit),
    (TableColumn("changed", "CHANGED", 15, right=False, priority=9), _changed),
    (TableColumn("owner", "OWNER", 11, right=False, priority=10), _owner),
    (TableColumn("runs_on", "NF, CPU", 11, right=False, priority=4), _runs_on),
)
_CELLS = {column.key: cell for column, cell in _COLUMNS}
# Those of a block, with their widths there.
_BLOCK_WIDTHS = {"used": 12, "state": 6, "total": 9}
_BLOCK_COLUMNS = tuple(
    replace(column, width=_BLOCK_WIDTHS[column.key], right=column.key != "used")
    for column, _ in _COLUMNS
    if column.key in _BLOCK_WIDTHS
)
_GAP = "   "  # between blocks

MARKS: tuple[tuple[str, str], ...] = (
    ("u", "row `no class`: way of no class in use"),
    ("drain", "its mask shrank and it still occupies more: wait before judging"),
    ("ALONE", "MiB of its ways that no other class in use and no device fills"),
    ("OTHERS", "MiB of its ways that others fill too"),
    ("!0f0", "changed by another program since nftop began; *: by nftop"),
    ("LIMIT", "memory bandwidth (MBA): %, MB/s or GB/s / 8, as resctrl is mounted"),
)
_COS, _NAME_LEAST, _NAME_MOST = 6, 8, 16
_SWATCHES_FROM = 100  # cells of the screen from which a class has a swatch beside its name


@dataclass(frozen=True, slots=True)
class ClassTable:
    """Header, lines, and the class of each line, if any."""

    header: Line
    lines: tuple[Line, ...]
    rows: tuple[ClassKey | None, ...]


@dataclass(frozen=True, slots=True)
class _Shape:
    """Widths of the first columns, and the other columns."""

    name: int
    ways: int
    digits: int
    columns: tuple[TableColumn, ...]
    swatches: bool = False

    @property
    def width(self) -> int:
        """Cells of a row without the blank that ends the last column."""
        return _COS + self.name + self.ways + self.digits + sum(c.width for c in self.columns) - 1


def cache_table(
    frame: Frame, width: int, own_changes: Sequence[OwnChange], *, folded: bool
) -> ClassTable:
    """All caches below each other.

    Args:
        frame: with `groups` and `domains`.
        width: cells of a line.
        own_changes: written by nftop.
        folded: only count unused classes.
    """
    shape = _shape(frame, width)
    used = [group for group in frame.groups if in_use(group) or not folded]
    unused = len(frame.groups) - len(used)
    drawn: list[tuple[Line, ClassKey | None]] = []
    for domain in frame.domains:
        shares = shares_of(frame.groups, domain)
        drawn.append((_title(frame, domain), None))
        for one in _classes(frame, used, domain, shares):
            key = one.group.name, domain.l3
            drawn += [(row, key) for row in _rows(one, shape, own_changes)]
        drawn += [
            (row, None)
            for row in (
                *_unused(unused),
                _io(domain, shape, "; not metered"),
                *_no_class(shares, domain, shape),
            )
        ]
    most = max((domain.ways or 0 for domain in frame.domains), default=0)
    return ClassTable(
        _cropped(_header(("COS", "CLASS"), most, shape), width),
        tuple(_cropped(item, width) for item, _ in drawn),
        tuple(row for _, row in drawn),
    )


def cache_lines(frame: Frame, width: int) -> list[Line]:
    """A block per last-level cache, side by side as far as they fit; none without classes.

    A block has a header, a line per class in use, a count of unused classes, and the ways of I/O.
    """
    if not frame.groups or not frame.domains:
        return []
    shape, abreast = _block_shape(frame, width)
    blocks = [_block(replace(frame, noticed=()), domain, shape) for domain in frame.domains]
    bands = [blocks[at : at + abreast] for at in range(0, len(blocks), abreast)]
    return [crop(row, width) for band in bands for row in _side_by_side(band, shape.width)]


def _block_shape(frame: Frame, width: int) -> tuple[_Shape, int]:
    """Widths of a block, and how many blocks fit side by side."""
    ways, longest = _widths(frame)
    least = _Shape(_NAME_LEAST, ways, _digits(ways - 1), _BLOCK_COLUMNS)
    abreast = max(1, min(len(frame.domains), (width + len(_GAP)) // (least.width + len(_GAP))))
    block_width = (width - (abreast - 1) * len(_GAP)) // abreast
    name = _NAME_LEAST + max(0, block_width - least.width)
    return replace(least, name=min(name, _NAME_MOST, max(longest + 1, _NAME_LEAST))), abreast


def _block(frame: Frame, domain: CacheDomain, shape: _Shape) -> list[Line]:
    used = [group for group in frame.groups if in_use(group)]
    rows = _classes(frame, used, domain, shares_of(used, domain))
    lines = [
        _header(("CACHE", f"L3 {domain.l3}"), domain.ways or 0, shape),
        *(row for one in rows for row in _rows(one, shape, ())),
        *_unused(len(frame.groups) - len(used)),
        _io(domain, shape, ""),
    ]
    return [_cropped(item, shape.width) for item in lines]


def _side_by_side(band: Sequence[list[Line]], width: int) -> list[Line]:
    tall = max(len(block) for block in band)
    rows = []
    for at in range(tall):
        pieces: list[Line | str] = []
        for index, block in enumerate(band):
            here = block[at] if at < len(block) else Line()
            last = index == len(band) - 1
            pieces += [here] if last else [here, " " * (width - here.width), _GAP]
        rows.append(line(*pieces, fill=band[0][0].fill if at == 0 else Tone.PLAIN))
    return rows


def _classes(
    frame: Frame, groups: Iterable[GroupRow], domain: CacheDomain, shares: Mapping[str, Shares]
) -> Iterator[ClassCell]:
    """Rows of a cache."""
    for group in groups:
        for cache in group.caches:
            if cache.l3 == domain.l3:
                yield ClassCell(frame, group, cache, domain, shares.get(group.name))


def _unused(count: int) -> Iterator[Line]:
    if count:
        text = f"+ {count} class{'es' * (count != 1)} without CPUs, threads and limits"
        yield line(Span(text, Tone.MUTED))


def _cropped(whole: Line, width: int) -> Line:
    """`crop` without the blanks at the end, which need no ellipsis."""
    *spans, last = whole.spans or (Span("", Tone.PLAIN),)
    return crop(Line((*spans, Span(last.text.rstrip(), last.tone)), whole.fill), width)


def _widths(frame: Frame) -> tuple[int, int]:
    """Cells of the ways and of the longest name, each with a blank."""
    ways = max(4, *((domain.ways or 0) for domain in frame.domains), 0)
    longest = max((cell_len(group_name(group.name)) for group in frame.groups), default=0)
    return ways + 1, longest + 1


def _digits(ways: int) -> int:
    """Cells of a mask: its digits, a mark and two blanks."""
    return max(-(-ways // 4), 3) + 3


def _shape(frame: Frame, width: int) -> _Shape:
    ways, longest = _widths(frame)
    digits = _digits(ways)
    swatch = 2 if width >= _SWATCHES_FROM else 0
    name = min(_NAME_MOST, max(longest + swatch, _NAME_LEAST))
    # The blank that ends the last column need not fit.
    room = width - _COS - name - ways - digits + 1
    columns = fit_columns([column for column, _ in _COLUMNS], room, least=0, skip=True)
    return _Shape(name, ways, digits, columns, swatches=bool(swatch))


def _header(labels: tuple[str, str], ways: int, shape: _Shape) -> Line:
    """`labels`: of the number and of the name of a class; `ways`: of the largest cache."""
    top = str(ways - 1)
    scale = top + "." * max(0, ways - len(top) - 1) + "0" if ways > 2 else "WAYS"
    text = fit(labels[0], _COS) + fit(labels[1], shape.name) + fit(scale, shape.ways)
    text += fit(" MASK", shape.digits)
    text += header_line(shape.columns).text
    return line(Span(text, Tone.HEADER), fill=Tone.HEADER)


def _title(frame: Frame, domain: CacheDomain) -> Line:
    info = [cpu for cpu in frame.topology.cpus if cpu.l3 == domain.l3]
    packages = sorted({item.package for item in info if item.package is not None})
    facts = [f"socket {', '.join(map(str, packages))}"] if packages else []
    if domain.ways:
        of = f"{domain.ways} ways"
        if domain.size_bytes is not None:
            way = fmt.way_mib(domain.size_bytes / domain.ways)
            of += f" of {way} MiB, {fmt.worded(float(domain.size_bytes), Unit.BYTES)} in all"
        facts.append(of)
    if domain.parts:
        facts.append(f"nodes {', '.join(map(str, domain.parts))} together (SNC)")
    if info:
        facts.append(f"CPU {format_cpu_list(item.cpu for item in info)}")
    return line(Span(f"L3 {domain.l3}", Tone.STRONG), Span(f"  {', '.join(facts)}", Tone.MUTED))


def _rows(one: ClassCell, shape: _Shape, own_changes: Sequence[OwnChange]) -> Iterator[Line]:
    number = "COS -" if one.group.clos is None else f"COS{one.group.clos}"
    exclusive = one.group.mode == EXCLUSIVE
    row_spans: list[Span] = [
        Span(fit(number, _COS), Tone.MUTED),
        *_named(one, shape),
        *_ways(one, one.cache.cbm, shape, exclusive=exclusive),
        _mask(one, one.cache.cbm, shape, own_changes),
    ]
    for col in shape.columns:
        row_spans += _CELLS[col.key](one, col)
    yield line(*row_spans)
    if one.cache.code is not None:
        yield line(
            " " * _COS,
            Span(fit("  code", shape.name), Tone.MUTED),
            *_ways(one, one.cache.code, shape, exclusive=exclusive),
            Span(f" {fit(one.cache.code.hex, shape.digits - 1)}", Tone.PLAIN),
        )


def _named(one: ClassCell, shape: _Shape) -> Sequence[Span]:
    """The class in its hue."""
    style = styles_of(one.frame.groups)[one.group.name]
    if shape.swatches:
        return class_spans(one.group.name, style.number, shape.name, Tone.PLAIN)
    return (Span(fit(group_name(one.group.name), shape.name - 1) + " ", style.hue),)


_HUES: Mapping[str, ClassVariant] = {
    "#": "_ON", "E": "_ON", "o": "_SHARED", "x": "_SHARED", "i": "_SHARED",
}  # fmt: skip


def _ways(one: ClassCell, mask: Cbm | Missing, shape: _Shape, *, exclusive: bool) -> list[Span]:
    if isinstance(mask, Missing):
        return [Span(fit(mask.reason.mark, shape.ways), Tone.MISSING)]
    marks = way_spans(mask, one.shares, exclusive=exclusive)
    number = styles_of(one.frame.groups)[one.group.name].number
    spans = [
        Span(span.text, class_tone(number, _HUES[span.text])) if span.text in _HUES else span
        for span in marks
    ]
    return [*spans, Span(" " * (shape.ways - mask.width), Tone.PLAIN)]


def _mask(
    one: ClassCell, mask: Cbm | Missing, shape: _Shape, own_changes: Sequence[OwnChange]
) -> Span:
    if isinstance(mask, Missing):
        return Span(" " * shape.digits, Tone.PLAIN)
    last = last_of(one.frame.noticed, one.group.name, one.cache.l3)
    sign, tone = " ", Tone.PLAIN
    if last is not None:
        ours = author(last, own_changes) == OURS
        sign, tone = ("*", Tone.ACCENT) if ours else ("!", Tone.BAD)
    return Span(f"{sign}{fit(mask.hex, shape.digits - 1)}", tone)


def _io(domain: CacheDomain, shape: _Shape, note: str) -> Line:
    head = fit("I/O", _COS + shape.name)
    if isinstance(domain.io, Missing):
        why = f"{domain.io.reason.mark} {domain.io.message}"
        return line(head, Span(why, Tone.MISSING))
    cbm = domain.io.cbm
    ways = "".join("I" if cbm.has(way) else "." for way in reversed(range(cbm.width)))
    return line(
        head,
        Span(fit(ways, shape.ways), Tone.AREA),
        f" {fit(cbm.hex, shape.digits - 1)}",
        Span(f"{domain.io.provenance}{note}", Tone.MUTED),
    )


def _no_class(shares: Mapping[str, Shares], domain: CacheDomain, shape: _Shape) -> Iterator[Line]:
    free = free_ways(shares, domain)
    if free is None or not free.bits:
        return
    ways = "".join("u" if free.has(way) else "." for way in reversed(range(free.width)))
    size = domain.capacity_bytes(free)
    size_text = "" if isinstance(size, Missing) else f" {fmt.worded(size, Unit.BYTES)}"
    text = f"{size_text}{_else(free, domain)}"
    head = fit("no class", _COS + shape.name) + fit(ways, shape.ways)
    yield line(
        head, f" {fit(free.hex, shape.digits - 1)}", Span(text.removeprefix(" "), Tone.MUTED)
    )


def _else(free: Cbm, domain: CacheDomain) -> str:
    """Whether devices fill the ways of no class, if known."""
    if not isinstance(domain.io, IoWays):
        return ""
    io = free.bits & domain.io.cbm.bits
    if not io:
        return " unused"
    return ", devices only" if io == free.bits else ", in part of devices"
