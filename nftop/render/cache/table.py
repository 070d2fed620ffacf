"""The table of the Cache screen: for each cache a row a class, a column a way."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

from nftop.derive.cache.ways import Shares, free_ways, in_use, shares_of
from nftop.derive.compare.window import ClassKey
from nftop.model.change import Made
from nftop.model.frame import Frame
from nftop.model.ids import format_cpu_list
from nftop.model.metrics.metric import Unit
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import CacheDomain, IoWays
from nftop.model.reading import Missing
from nftop.render.base import format as fmt
from nftop.render.base.line import Line, Span, Tone, crop, line
from nftop.render.base.text import fit
from nftop.render.cache.cells import COLUMNS, Cell, Col
from nftop.render.cache.panel import group_name
from nftop.render.cache.ways import way_spans
from nftop.render.frame.observed_changes import OURS, last_of, who

MARKS: tuple[tuple[str, str], ...] = (
    ("u", "in the line `no class`: a way that no class in use may fill"),
    ("drain", "it fills more than its ways hold since its mask lost some: wait before you judge"),
    ("ALONE", "MiB of its ways that no other class in use may fill and no device writes into"),
    ("OTHERS", "MiB of its ways that others may fill too"),
    ("!0f0", "somebody else changed this mask or limit since nftop began; * nftop did"),
    ("LIMIT", "of memory bandwidth (MBA): %, MB/s or eighths of GB/s, as resctrl is mounted"),
)
_COS, _NAME_LEAST, _NAME_MOST = 6, 8, 16


@dataclass(frozen=True, slots=True)
class Table:
    """The header, which stays; the lines below it, and for each the row it shows, if any."""

    header: Line
    lines: tuple[Line, ...]
    rows: tuple[ClassKey | None, ...]


@dataclass(frozen=True, slots=True)
class _Shape:
    """Cells of what every row begins with, and the columns behind it."""

    name: int
    ways: int
    digits: int
    columns: tuple[Col, ...]


def cache_table(frame: Frame, width: int, made: Sequence[Made], *, folded: bool) -> Table:
    """All caches one below the other.

    Args:
        frame: whose `groups` and `domains` are shown.
        width: cells a line may take.
        made: what nftop wrote itself.
        folded: count the classes that nobody uses instead of showing them.
    """
    shape = _shape(frame, width)
    used = [group for group in frame.groups if in_use(group) or not folded]
    unused = len(frame.groups) - len(used)
    drawn: list[tuple[Line, ClassKey | None]] = []
    for domain in frame.domains:
        shares = shares_of(frame.groups, domain)
        drawn.append((_title(frame, domain), None))
        for group in used:
            for cache in group.caches:
                if cache.l3 == domain.l3:
                    one = Cell(frame, group, cache, domain, shares.get(group.name))
                    key = group.name, domain.l3
                    drawn += [(row, key) for row in _rows(one, shape, made)]
        if unused:
            text = f"+ {unused} class{'es' * (unused != 1)} that nobody is in and nothing limits"
            drawn.append((line(Span(text, Tone.DIM)), None))
        drawn += [
            (share, None) for share in (*_io(domain, shape), *_no_class(shares, domain, shape))
        ]
    return Table(
        crop(_header(frame, shape), width),
        tuple(crop(item, width) for item, _ in drawn),
        tuple(row for _, row in drawn),
    )


def _shape(frame: Frame, width: int) -> _Shape:
    ways = max(4, *((domain.ways or 0) for domain in frame.domains), 0) + 1
    digits = max(-(-ways // 4), 3) + 2
    longest = max((cell_len(group_name(group.name)) for group in frame.groups), default=0) + 1
    name = min(_NAME_MOST, max(longest, _NAME_LEAST))
    room = width - _COS - name - ways - digits
    kept: list[Col] = []
    for col in sorted(COLUMNS, key=lambda col: col.priority):
        if col.width <= room:
            kept.append(col)
            room -= col.width
    return _Shape(name, ways, digits, tuple(col for col in COLUMNS if col in kept))


def _header(frame: Frame, shape: _Shape) -> Line:
    most = max((domain.ways or 0) for domain in frame.domains) if frame.domains else 0
    top = str(most - 1)
    scale = top + "." * max(0, most - len(top) - 1) + "0" if most > 2 else "WAYS"
    text = fit("COS", _COS) + fit("CLASS", shape.name) + fit(scale, shape.ways)
    text += fit(" MASK", shape.digits)
    for col in shape.columns:
        text += " " + fit(col.title, col.width - 1, right=col.right)
    return line(Span(text, Tone.HEADER), fill=Tone.HEADER)


def _title(frame: Frame, domain: CacheDomain) -> Line:
    info = [cpu for cpu in frame.topology.cpus if cpu.l3 == domain.l3]
    packages = sorted({item.package for item in info if item.package is not None})
    said = [f"socket {', '.join(map(str, packages))}"] if packages else []
    if domain.ways:
        of = f"{domain.ways} ways"
        if domain.size_bytes is not None:
            way = fmt.way_mib(domain.size_bytes / domain.ways)
            of += f" of {way} MiB, {fmt.worded(float(domain.size_bytes), Unit.BYTES)} in all"
        said.append(of)
    if domain.parts:
        said.append(f"nodes {', '.join(map(str, domain.parts))} together (SNC)")
    if info:
        said.append(f"CPU {format_cpu_list(item.cpu for item in info)}")
    return line(Span(f"L3 {domain.l3}", Tone.TITLE), Span(f"  {', '.join(said)}", Tone.DIM))


def _rows(one: Cell, shape: _Shape, made: Sequence[Made]) -> Iterator[Line]:
    number = "COS -" if one.group.clos is None else f"COS{one.group.clos}"
    exclusive = one.group.mode == "exclusive"
    parts: list[Span] = [
        Span(fit(number, _COS), Tone.PLAIN),
        Span(fit(group_name(one.group.name), shape.name - 1) + " ", Tone.PLAIN),
        *_ways(one, one.cache.cbm, shape, exclusive=exclusive),
        _mask(one, one.cache.cbm, shape, made),
    ]
    for col in shape.columns:
        parts += col.cell(one)
    yield line(*parts)
    if one.cache.code is not None:
        yield line(
            " " * _COS,
            Span(fit("  code", shape.name), Tone.DIM),
            *_ways(one, one.cache.code, shape, exclusive=exclusive),
            Span(f" {fit(one.cache.code.hex, shape.digits - 1)}", Tone.PLAIN),
        )


def _ways(one: Cell, mask: Cbm | Missing, shape: _Shape, *, exclusive: bool) -> list[Span]:
    if isinstance(mask, Missing):
        return [Span(fit(mask.reason.mark, shape.ways), Tone.MISSING)]
    spans = way_spans(mask, one.shares, exclusive=exclusive)
    return [*spans, Span(" " * (shape.ways - mask.width), Tone.PLAIN)]


def _mask(one: Cell, mask: Cbm | Missing, shape: _Shape, made: Sequence[Made]) -> Span:
    if isinstance(mask, Missing):
        return Span(" " * shape.digits, Tone.PLAIN)
    last = last_of(one.frame.noticed, one.group.name, one.cache.l3)
    sign, tone = " ", Tone.PLAIN
    if last is not None:
        ours = who(last, made) == OURS
        sign, tone = ("*", Tone.ACCENT) if ours else ("!", Tone.BAD)
    return Span(f"{sign}{fit(mask.hex, shape.digits - 1)}", tone)


def _io(domain: CacheDomain, shape: _Shape) -> Iterator[Line]:
    head = fit("I/O", _COS + shape.name)
    if isinstance(domain.io, Missing):
        why = f"{domain.io.reason.mark} {domain.io.message}"
        yield line(head, Span(why, Tone.MISSING))
        return
    cbm = domain.io.cbm
    ways = "".join("I" if cbm.has(way) else "." for way in reversed(range(cbm.width)))
    text = f" {domain.io.provenance}; not metered"
    yield line(
        head, Span(fit(ways, shape.ways), Tone.AREA), f" {fit(cbm.hex, shape.digits - 1)}",
        Span(text, Tone.DIM),
    )  # fmt: skip


def _no_class(shares: Mapping[str, Shares], domain: CacheDomain, shape: _Shape) -> Iterator[Line]:
    free = free_ways(shares, domain)
    if free is None or not free.bits:
        return
    ways = "".join("u" if free.has(way) else "." for way in reversed(range(free.width)))
    size = domain.capacity_bytes(free)
    said = "" if isinstance(size, Missing) else f" {fmt.worded(size, Unit.BYTES)}"
    text = f"{said}{_else(free, domain)}"
    head = fit("no class", _COS + shape.name) + fit(ways, shape.ways)
    yield line(head, f" {fit(free.hex, shape.digits - 1)}", Span(text, Tone.DIM))


def _else(free: Cbm, domain: CacheDomain) -> str:
    """Who else may fill the ways of no class: devices, or nobody, where that is known."""
    if not isinstance(domain.io, IoWays):
        return ""
    io = free.bits & domain.io.cbm.bits
    if not io:
        return " unused"
    return ", devices only" if io == free.bits else ", in part of devices"
