"""Panel of cache classes: per last-level cache, the ways of each class and its occupancy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from rich.cells import cell_len

from nftop.derive.cache.ways import Shares, in_use, shares_of
from nftop.model.frame import Frame, GroupCacheRow, GroupRow
from nftop.model.metrics.group import GROUP_METRICS
from nftop.model.metrics.metric import Unit
from nftop.model.missing import Missing, Reading
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import EXCLUSIVE, CacheDomain, class_name
from nftop.model.struct import dataclass
from nftop.render.base import format as fmt
from nftop.render.base.line import Line, Span, Tone, class_tone, crop, line
from nftop.render.base.table import by_reason
from nftop.render.base.text import fit, printable

# The same letters on all screens.
WAY_MARKS: tuple[tuple[str, str], ...] = (
    ("#", "way of this class alone; way 0 is rightmost"),
    ("E", "the same, of an exclusive group: the kernel refuses sharing"),
    ("o", "way shared with another class in use"),
    ("i", "way that devices write into (DDIO)"),
    ("x", "way shared with another class and devices"),
    (".", "way outside the mask"),
    ("I", "row I/O: ways of devices (DDIO); hint: shareable_bits"),
)
TONES: Mapping[str, Tone] = {
    "#": Tone.PLAIN, "E": Tone.PLAIN, ".": Tone.MUTED,
    "o": Tone.ACCENT, "x": Tone.ACCENT, "i": Tone.AREA,
}  # fmt: skip


def way_mark(shares: Shares, way: int, *, exclusive: bool) -> str:
    """Letter of a way of a class, by its other users."""
    kinds = "E" if exclusive else "#", "i", "o", "x"
    return kinds[shares.io.has(way) + 2 * shares.shared.has(way)]


def way_spans(mask: Cbm, shares: Shares | None, *, exclusive: bool) -> list[Span]:
    """A cell per way of a mask, the highest first; without `shares` sharing is unknown."""
    marks = [
        "." if not mask.has(way) else "#" if shares is None
        else way_mark(shares, way, exclusive=exclusive)
        for way in reversed(range(mask.width))
    ]  # fmt: skip
    return [Span(mark, TONES[mark]) for mark in marks]


# Occupancy over capacity: full from the first on; beyond the second, lines remain in lost ways.
FULL_RATIO, OVER_RATIO = 0.95, 1.05

MARKS: tuple[tuple[str, str], ...] = (
    ("COS -", "the kernel does not report the number of the class"),
    ("code", "with CDP: mask for code, below that for data"),
    ("full", f"the class occupies {FULL_RATIO:.0%} of its ways or more"),
    ("over", "it occupies more than its ways: lines remain when a mask shrinks"),
)

_GAP = "   "
_COS, _USED, _FULL, _RATE = 6, 13, 5, 8
_NAME_LEAST, _NAME_MOST = 8, 16


@dataclass(frozen=True, slots=True)
class _Shape:
    """Widths that differ: name of a class, ways, digits of the mask."""

    name: int
    ways: int
    digits: int

    @property
    def width(self) -> int:
        return _COS + self.name + self.ways + self.digits + _USED + _FULL + _RATE


@lru_cache(maxsize=256)
def class_spans(name: str, number: int | None, width: int, tone: Tone) -> tuple[Span, ...]:
    """A class in `width` cells: `■` in the hue of its number (`way_cells.looks_of`), its name."""
    shown = fit(group_name(name), width - 3) + " "
    return Span("■ ", class_tone(number)), Span(shown, tone)


def group_name(name: str) -> str:
    """Name of a class as shown, see `rdt.class_name`."""
    return printable(class_name(name))


def cache_lines(frame: Frame, width: int) -> list[Line]:
    """A block per last-level cache, side by side as far as they fit; none without classes.

    A block has a header, a line per class in use, a count of unused classes, and the ways of I/O.
    """
    if not frame.groups or not frame.domains:
        return []
    ways = max(4, *((domain.ways or 0) for domain in frame.domains))
    digits = max(-(-ways // 4), 3) + 2
    least = _Shape(_NAME_LEAST, ways + 2, digits)
    abreast = max(1, min(len(frame.domains), (width + len(_GAP)) // (least.width + len(_GAP))))
    block_width = (width - (abreast - 1) * len(_GAP)) // abreast
    longest = max(cell_len(group_name(group.name)) for group in frame.groups) + 2
    name = _NAME_LEAST + max(0, block_width - least.width)
    shape = _Shape(min(name, _NAME_MOST, max(longest, _NAME_LEAST)), ways + 2, digits)
    used = [group for group in frame.groups if in_use(group)]
    unused = len(frame.groups) - len(used)
    blocks = [_block(used, unused, domain, shape) for domain in frame.domains]
    bands = [blocks[at : at + abreast] for at in range(0, len(blocks), abreast)]
    return [crop(row, width) for band in bands for row in _side_by_side(band, shape.width)]


def cache_absences(frame: Frame) -> dict[Missing, list[str]]:
    """Reasons why values of the panel are absent, with their columns."""
    named: list[tuple[str, Cbm | Reading]] = []
    for cache in (cache for group in frame.groups for cache in group.caches):
        named.append(("MASK", cache.cbm))
        named += [(metric.label, cache.readings[metric.id]) for metric in GROUP_METRICS]
    return by_reason(named)


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


def _block(
    groups: Sequence[GroupRow], unused: int, domain: CacheDomain, shape: _Shape
) -> list[Line]:
    rows = [(group, cache) for group in groups for cache in group.caches if cache.l3 == domain.l3]
    shares = shares_of(groups, domain)
    lines = [_header(domain, shape)]
    for group, cache in rows:
        lines += _class_lines(group, cache, shares.get(group.name), shape)
    if unused:
        text = f"+ {unused} class{'es' * (unused != 1)} without CPUs, threads and limits"
        lines.append(crop(line(Span(text, Tone.MUTED)), shape.width))
    return [*lines, _io_line(domain, shape)]


def _header(domain: CacheDomain, shape: _Shape) -> Line:
    ways = domain.ways or 0
    scale = (
        f"{ways - 1}" + "." * max(0, ways - len(f"{ways - 1}") - 1) + "0" if ways > 2 else "WAYS"
    )
    text = (
        fit("CACHE", _COS)
        + fit(f"L3 {domain.l3}", shape.name)
        + fit(scale, shape.ways)
        + fit("MASK", shape.digits)
        + fit("MiB USED/CAP", _USED)
        + " " * _FULL
        + fit("MB/s", _RATE, right=True)
    )
    return line(Span(text, Tone.HEADER), fill=Tone.HEADER)


def _class_lines(
    group: GroupRow, cache: GroupCacheRow, shares: Shares | None, shape: _Shape
) -> list[Line]:
    number = "COS -" if group.clos is None else f"COS{group.clos}"
    name = fit(group_name(group.name), shape.name - 1) + " "
    exclusive = group.mode == EXCLUSIVE
    first = line(
        fit(number, _COS),
        name,
        *_mask_cells(cache.cbm, shares, shape, exclusive=exclusive),
        *_used_cells(cache),
        _rate_cell(cache.readings["mbm_total_bytes_per_s"]),
    )
    if cache.code is None:
        return [first]
    code = fit("  code", shape.name)
    mask = _mask_cells(cache.code, shares, shape, exclusive=exclusive)
    return [first, line(" " * _COS, Span(code, Tone.MUTED), *mask)]


def _mask_cells(
    mask: Cbm | Missing, shares: Shares | None, shape: _Shape, *, exclusive: bool
) -> list[Span]:
    if isinstance(mask, Missing):
        room = shape.ways + shape.digits
        return [Span(fit(fmt.mark(mask.reason, room), room), Tone.MISSING)]
    spans = way_spans(mask, shares, exclusive=exclusive)
    pad = " " * (shape.ways - mask.width)
    return [*spans, Span(pad + fit(mask.hex, shape.digits), Tone.PLAIN)]


def _used_cells(cache: GroupCacheRow) -> list[Span]:
    used, capacity = cache.readings["occupancy_bytes"], cache.readings["capacity_bytes"]
    cells = [
        Span(f"{fmt.cell(item, Unit.BYTES, 5):{side}5}", _tone(item))
        for item, side in ((used, ">"), (capacity, "<"))
    ]
    state = _fullness(used, capacity)
    room = " " * (_USED - 11)
    return [cells[0], Span("/", Tone.MUTED), cells[1], Span(room + fit(state, _FULL), Tone.ACCENT)]


def _fullness(used: Reading, capacity: Reading) -> str:
    if isinstance(used, Missing) or isinstance(capacity, Missing) or capacity <= 0:
        return ""
    if used > OVER_RATIO * capacity:
        return "over"
    return "full" if used >= FULL_RATIO * capacity else ""


def _rate_cell(reading: Reading) -> Span:
    """Megabytes per second: gigabytes of one class would often print as zero."""
    shown = reading if isinstance(reading, Missing) else reading / 1e6
    return Span(f"{fmt.cell(shown, Unit.PER_S, _RATE - 1):>{_RATE}}", _tone(reading))


def _tone(reading: Reading) -> Tone:
    return Tone.MISSING if isinstance(reading, Missing) else Tone.PLAIN


def _io_line(domain: CacheDomain, shape: _Shape) -> Line:
    head = fit("I/O", _COS + shape.name)
    if isinstance(domain.io, Missing):
        why = f"{domain.io.reason.mark} {domain.io.message}"
        return crop(line(head, Span(why, Tone.MISSING)), shape.width)
    cbm = domain.io.cbm
    ways = "".join("I" if cbm.has(way) else "." for way in reversed(range(cbm.width)))
    text = fit(ways, shape.ways) + fit(cbm.hex, shape.digits)
    return crop(line(head, text, Span(domain.io.provenance, Tone.MUTED)), shape.width)
