"""Panel of cache classes: per last-level cache, the ways of each class and its occupancy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import cell_len

from nftop.derive.cache.ways import Shares, in_use, shares_of
from nftop.model.frame import Frame, GroupCacheRow, GroupRow
from nftop.model.metrics.group import GROUP_METRICS
from nftop.model.metrics.metric import Unit
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import ROOT, CacheDomain
from nftop.model.reading import Missing, Reading
from nftop.model.struct import dataclass
from nftop.render.base import format as fmt
from nftop.render.base.line import Line, Span, Tone, crop, line
from nftop.render.base.table import by_reason
from nftop.render.base.text import fit, printable

# No letter has another meaning on any screen that draws ways.
WAY_MARKS: tuple[tuple[str, str], ...] = (
    ("#", "a way that this class alone may fill; way 0 stands right"),
    ("E", "the same of a class whose group is exclusive: the kernel lets nobody else have it"),
    ("o", "a way that another class in use may fill too"),
    ("i", "a way that devices write into (DDIO) too"),
    ("x", "a way that another class may fill and devices write into"),
    (".", "a way that it may not fill"),
    ("I", "in the row I/O: the ways of devices (DDIO); CPUID's hint is shareable_bits"),
)
TONES: Mapping[str, Tone] = {
    "#": Tone.PLAIN, "E": Tone.PLAIN, ".": Tone.DIM,
    "o": Tone.ACCENT, "x": Tone.ACCENT, "i": Tone.AREA,
}  # fmt: skip


def way_mark(shares: Shares, way: int, *, exclusive: bool) -> str:
    """The letter of a way that a class may fill: by who has it besides."""
    kinds = "E" if exclusive else "#", "i", "o", "x"
    return kinds[shares.io.has(way) + 2 * shares.shared.has(way)]


def way_spans(mask: Cbm, shares: Shares | None, *, exclusive: bool) -> list[Span]:
    """A cell for each way of a mask, the highest first; without `shares` whose they are is open."""
    marks = [
        "." if not mask.has(way) else "#" if shares is None
        else way_mark(shares, way, exclusive=exclusive)
        for way in reversed(range(mask.width))
    ]  # fmt: skip
    return [Span(mark, TONES[mark]) for mark in marks]


# From this share of its capacity on a class has no room; beyond the other its lines stand in ways
# that it has lost, or the kernel's rounding is worse than it should be.
FULL_RATIO, OVER_RATIO = 0.95, 1.05

MARKS: tuple[tuple[str, str], ...] = (
    ("COS -", "the kernel does not show the number of the class"),
    ("code", "with CDP code has a mask of its own, on the line below that of data"),
    ("full", f"the class has filled {FULL_RATIO:.0%} of its ways or more"),
    ("over", "it fills more than its ways: lines stay where they are when a mask shrinks"),
)

_GAP = "   "
_COS, _USED, _FULL, _RATE = 6, 13, 5, 8
_NAME_LEAST, _NAME_MOST = 8, 16
_LINES_LEAST = 4  # a header, two classes to compare, and how many more there are


@dataclass(frozen=True, slots=True)
class _Shape:
    """Cells of the columns that differ: a class' name, the ways, the mask's digits."""

    name: int
    ways: int
    digits: int

    @property
    def width(self) -> int:
        return _COS + self.name + self.ways + self.digits + _USED + _FULL + _RATE


def group_name(name: str) -> str:
    """A group's name as it is shown: the root group's is not its directory's."""
    return "default" if name == ROOT else printable(name)


def cache_lines(frame: Frame, width: int, limit: int | None = None) -> list[Line]:
    """A block for each last-level cache, side by side as far as they fit; none without classes.

    A block is a header, a line for each class and one for the ways of I/O. Classes that are not in
    use are counted in a line: pqos makes all there are.

    Args:
        frame: whose `groups` and `domains` are shown.
        width: cells a line may take.
        limit: lines at most; None for all. What is left out is counted in the last line; where
            fewer than two classes would be left, nothing is shown.
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
    return [crop(band, width) for band in _within(bands, shape.width, limit)]


def cache_absences(frame: Frame) -> dict[Missing, list[str]]:
    """Every reason a value of the panel is absent, and the columns it is the reason of."""
    named: list[tuple[str, Cbm | Reading]] = []
    for cache in (cache for group in frame.groups for cache in group.caches):
        named.append(("MASK", cache.cbm))
        named += [(metric.label, cache.readings[metric.id]) for metric in GROUP_METRICS]
    return by_reason(named)


def _within(bands: Sequence[Sequence[list[Line]]], width: int, limit: int | None) -> list[Line]:
    """The bands one below the other, as many as there is room for; the first is cut if need be."""
    rows = [_side_by_side(band, width) for band in bands]
    if limit is None or sum(map(len, rows)) <= limit:
        return [item for band in rows for item in band]
    if limit < _LINES_LEAST:
        return []
    whole = 0
    while sum(map(len, rows[: whole + 1])) < limit:
        whole += 1
    shown = [item for band in rows[:whole] for item in band] if whole else rows[0][: limit - 1]
    cut = 0 if whole else len(rows[0]) - len(shown)
    caches = sum(len(band) for band in bands[max(whole, 1) :])
    left = [
        f"{n} more {what}{'s' * (n != 1)}" for n, what in ((cut, "line"), (caches, "cache")) if n
    ]
    return [*shown, line(Span(f"+ {', '.join(left)}", Tone.DIM))]


def _side_by_side(band: Sequence[list[Line]], width: int) -> list[Line]:
    tall = max(len(block) for block in band)
    rows = []
    for at in range(tall):
        parts: list[Line | str] = []
        for index, block in enumerate(band):
            here = block[at] if at < len(block) else Line()
            last = index == len(band) - 1
            parts += [here] if last else [here, " " * (width - here.width), _GAP]
        rows.append(line(*parts, fill=band[0][0].fill if at == 0 else Tone.PLAIN))
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
        text = f"+ {unused} class{'es' * (unused != 1)} that nobody is in and nothing limits"
        lines.append(crop(line(Span(text, Tone.DIM)), shape.width))
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
    exclusive = group.mode == "exclusive"
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
    return [first, line(" " * _COS, Span(code, Tone.DIM), *mask)]


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
    return [cells[0], Span("/", Tone.DIM), cells[1], Span(room + fit(state, _FULL), Tone.ACCENT)]


def _fullness(used: Reading, capacity: Reading) -> str:
    if isinstance(used, Missing) or isinstance(capacity, Missing) or capacity <= 0:
        return ""
    if used > OVER_RATIO * capacity:
        return "over"
    return "full" if used >= FULL_RATIO * capacity else ""


def _rate_cell(reading: Reading) -> Span:
    """Megabytes per second: beside a cache's share, a class' gigabytes would often be zero."""
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
    return crop(line(head, text, Span(domain.io.provenance, Tone.DIM)), shape.width)
