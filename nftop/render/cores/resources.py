"""Map of cache ways by class, and sockets with the share of their peaks, side by side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, reduce
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nftop.derive.cache.ways import Shares, cache_of, in_use, shares_of, ways_of
from nftop.model.frame import Frame, GroupRow, PackageRow
from nftop.model.ids import L3Domain, Package
from nftop.model.incident import Severity
from nftop.model.metrics.metric import Unit
from nftop.model.missing import Missing, Reason
from nftop.model.number_text import counted
from nftop.model.rdt.rdt import CacheDomain, IoWays
from nftop.render.base import format as fmt
from nftop.render.base.graph import area_rows, gauge_of
from nftop.render.base.line import BLANK, Line, Span, Tone, class_tone, crop, line
from nftop.render.base.table import LastResults, reading_tone
from nftop.render.base.text import fit
from nftop.render.cache.class_cells import class_spans, group_name
from nftop.render.cache.way_cells import (
    ClassStyle,
    WayState,
    device_cells,
    styles_of,
    way_numbers,
    way_span,
)
from nftop.render.incidents.line import TONES

# History of a metric of a package: metric, package, points, seconds; float32 (points,).
PackagePast = Callable[[str, Package, int, float], NDArray[np.float32]]

_NAME, _USED, _GAUGE, _RATE = 10, 13, 6, 7
_LABEL, _SOCKET = 10, 19
_GAP = 1
COMPACT_LINES = 2
_SPAN_S = 600.0
_HIGH_SHARE = 0.8  # of a peak from here on
_CONTESTED = "\u2571"
_UNKNOWN = Missing(Reason.SOURCE)


def resource_lines(
    frame: Frame, width: int, limit: int, past: PackagePast, worst: L3Domain | None = None
) -> list[Line]:
    """The map of each cache that fits, and the sockets at its right; at most `limit` lines.

    Where not all caches fit, that of the worst victim, `worst`, is one of those shown. On a narrow
    screen the sockets are left out, and where there are few lines the map has two: the owner of
    each way, and the class that shares it.
    """
    sockets = socket_lines(frame, past)
    every = [item for item in frame.domains if item.ways] if frame.groups else []
    domains = sorted(every, key=lambda item: item.l3 != worst)  # the first ones are shown
    right = max((item.width for item in sockets), default=0)
    joined = bool(sockets) and bool(domains) and width >= map_width(domains[0]) + _GAP + right
    room = width - (right + _GAP if joined else 0)
    fitting = _that_fit(domains, room)
    # The widest cells of a way that leave out no cache.
    widest = next((cells for cells in (3, 2) if _that_fit(domains, room, cells) == fitting), 1)
    shown = [item for item in every if item in fitting]
    used = [group for group in frame.groups if in_use(group)]
    frames = _last_frames(used, [(domain, way_cells(domain, widest)) for domain in shown])
    pairs = zip(shown, frames, strict=True)
    blocks = [_map_lines(frame, used, domain, of_map) for domain, of_map in pairs]
    if joined:
        blocks.append(sockets)
    tall = max((len(block) for block in blocks), default=0)
    if domains and (tall > limit or width < map_width(domains[0])):
        return compact_lines(frame, domains[0], width) if limit >= COMPACT_LINES else []
    if not blocks:
        return [crop(item, width) for item in sockets] if len(sockets) <= limit else []
    lines = _abreast(blocks, width)
    if not joined and len(lines) + len(sockets) <= limit:
        lines += [crop(item, width) for item in sockets]
    return lines


def _that_fit(
    domains: Sequence[CacheDomain], room: int, cells: int | None = None
) -> list[CacheDomain]:
    """The first cache, and those whose maps fit beside it; `cells`: of a way."""
    shown: list[CacheDomain] = []
    for domain in domains:
        width = map_width(domain, cells) + _GAP
        if (not shown and cells is None) or width <= room:
            shown.append(domain)
            room -= width
    return shown


def _abreast(blocks: Sequence[Sequence[Line]], width: int) -> list[Line]:
    """Blocks side by side, the last at the right edge."""
    sizes = [[item.width for item in block] for block in blocks]
    widths = [max(block, default=0) for block in sizes]
    gap = " " * _GAP
    slack = " " * max(0, width - sum(widths) - _GAP * (len(blocks) - 1))
    lines = []
    for at in range(max(len(block) for block in blocks)):
        spans: list[Span] = []
        for index, (block, cells) in enumerate(zip(blocks, widths, strict=True)):
            item, size = (block[at], sizes[index][at]) if at < len(block) else (BLANK, 0)
            if index:
                spans.append(Span(gap + (slack if index == len(blocks) - 1 else ""), Tone.PLAIN))
            spans += item.spans
            if (left := cells - size) > 0:
                spans.append(Span(" " * left, Tone.PLAIN))
        lines.append(Line(tuple(spans), blocks[0][0].fill if at == 0 else Tone.PLAIN))
    return lines


def way_cells(domain: CacheDomain, least: int = 1) -> int:
    """Cells of a way in the map, at least so many."""
    ways = domain.ways or 0
    return max(least, 3 if ways <= 12 else 2 if ways <= 16 else 1)


def map_width(domain: CacheDomain, cells: int | None = None) -> int:
    """Cells of the map of a cache; `cells`: of a way, at least."""
    ways = (domain.ways or 0) * way_cells(domain, cells or 1)
    return 1 + _NAME + ways + _USED + 1 + _GAUGE + _RATE


# Of a map: cells of a way, shares by class, its header, and the lines below its classes.
_MapFrame: TypeAlias = tuple[int, Mapping[str, Shares], Line, Sequence[Line]]


def _frames(
    used: Sequence[GroupRow], domains: Sequence[tuple[CacheDomain, int]]
) -> list[_MapFrame]:
    """Shares, header and footer of each map. `domains`: each with the number of cells of a way."""
    frames: list[_MapFrame] = []
    for domain, cells in domains:
        shares, width = shares_of(used, domain), map_width(domain, cells)
        numbers = way_numbers(domain.ways or 0, cells)[-1]
        head = f" {fit(f'L3 {domain.l3}', _NAME)}{numbers}{' MiB used/cap':>{_USED}}"
        rate = f"{'GB/s':>{_GAUGE + 1 + _RATE}}"
        foot = [_io_line(domain, cells)]
        if shared := shared_text(used, shares):
            foot.append(line(" ", Span(f"{_CONTESTED} {shared}", Tone.MUTED)))
        top = crop(line(Span(head + rate, Tone.HEADER), fill=Tone.HEADER), width)
        frames.append((cells, shares, top, [crop(item, width) for item in foot]))
    return frames


_last_frames = LastResults(
    _frames,
    lambda used, domains: (  # masks seldom change
        tuple((own.name, row.l3, row.cbm, row.code) for own in used for row in own.caches),
        tuple(domains),
    ),
)


def _map_lines(
    frame: Frame, used: Sequence[GroupRow], domain: CacheDomain, of_map: _MapFrame
) -> list[Line]:
    """Header, a line per class in use, the ways of devices, and what is shared."""
    cells, shares, head, foot = of_map
    styles, harming = styles_of(frame.groups), _harming(frame, domain)
    lines = [head]
    for group in used:
        row = _class_line(group, domain, shares.get(group.name), styles[group.name], cells)
        if (tone := harming.get(group.name)) is not None and row.spans[-1].tone is Tone.PLAIN:
            row = Line((*row.spans[:-1], row.spans[-1]._replace(tone=tone)))
        lines.append(crop(row, map_width(domain, cells)))
    return [*lines, *foot]


def _class_line(
    group: GroupRow, domain: CacheDomain, share: Shares | None, style: ClassStyle, cells: int
) -> Line:
    cache = cache_of(group, domain.l3)
    name = (Span(" ", Tone.PLAIN), *class_spans(group.name, style.number, _NAME, Tone.PLAIN))
    if cache is None:
        return Line(name)
    mask = ways_of(cache)
    width = (domain.ways or 0) * cells
    if mask is None:
        why = cache.cbm.reason if isinstance(cache.cbm, Missing) else Reason.UNDEFINED
        drawn: tuple[Span, ...] = (Span(f"{why.mark:<{width}}", Tone.MISSING),)
    else:
        shared = 0 if share is None else share.shared.bits | share.io.bits
        drawn = _spans(mask.bits, shared, domain.ways or 0, style, cells)
    used, capacity = cache.readings["occupancy_bytes"], cache.readings["capacity_bytes"]
    full = (
        0.0
        if isinstance(used, Missing) or isinstance(capacity, Missing) or capacity <= 0
        else used / capacity
    )
    rate = cache.readings["mbm_total_bytes_per_s"]
    return Line(
        (
            *name,
            *drawn,
            Span(f"{fmt.cell(used, Unit.BYTES, 5):>{_USED - 6}}", reading_tone(used)),
            Span(f"/{fmt.cell(capacity, Unit.BYTES, 4):<5} ", Tone.MUTED),
            *gauge_of(full, _GAUGE, style.hue).spans,
            Span(f"{fmt.cell(rate, Unit.BYTES_PER_S, _RATE - 1):>{_RATE}}", reading_tone(rate)),
        )
    )


def _harming(frame: Frame, domain: CacheDomain) -> dict[str, Tone]:
    """Classes whose traffic through shared ways harms now, with the tone of the incident."""
    return {
        item.group: TONES[item.severity]
        for item in reversed(frame.incidents)
        if item.group and item.l3 == domain.l3 and item.severity > Severity.INFO and not item.muted
    }


@lru_cache(maxsize=256)  # masks seldom change
def _spans(bits: int, shared: int, ways: int, style: ClassStyle, cells: int) -> tuple[Span, ...]:
    """A cell per way, the highest first: held alone, shared, or not held."""
    states: list[WayState] = [
        "empty" if not bits >> way & 1 else "shared" if shared >> way & 1 else "alone"
        for way in reversed(range(ways))
    ]
    return line(*(way_span(state, style, cells) for state in states)).spans


def _io_line(domain: CacheDomain, cells: int) -> Line:
    head = Span(f" {fit('□ I/O', _NAME)}", Tone.MUTED)
    if not isinstance(domain.io, IoWays):
        return line(head, Span(f"{domain.io.reason.mark} {domain.io.message}", Tone.MISSING))
    cbm = domain.io.cbm
    drawn = device_cells(cbm.bits, cbm.width, cells)
    return line(
        head,
        Span(drawn, Tone.MUTED),
        Span(f" devices; {domain.io.provenance.partition(',')[0]}", Tone.MUTED),
    )


def shared_text(groups: Sequence[GroupRow], shares: Mapping[str, Shares]) -> str:
    """Which classes share how many ways, most ways first: `shared: 3 tenant+vpp`.

    Each way counts once, with all classes that may fill it. Of one class with several others:
    `tenant shares 3 ways of vpp, 3 of switch`.
    """
    held = {group.name: shares[group.name].all for group in groups if group.name in shares}
    counts = Counter(
        holders
        for way in range(max((mask.width for mask in held.values()), default=0))
        if len(holders := tuple(name for name, mask in held.items() if mask.has(way))) > 1
    )
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    pairs = [set(holders) for holders, _ in ranked]
    one = set.intersection(*pairs) if pairs else set()
    if len(ranked) > 1 and len(one) == 1 and all(len(pair) == 2 for pair in pairs):
        names = (next(iter(pair - one)) for pair in pairs)
        (ways, other), *more = zip((ways for _, ways in ranked), names, strict=True)
        text = f"{group_name(*one)} shares {counted(ways, 'way')} of {group_name(other)}"
        return ", ".join([text, *(f"{ways} of {group_name(other)}" for ways, other in more)])
    texts = [f"{ways} {'+'.join(map(group_name, holders))}" for holders, ways in ranked]
    return f"shared: {', '.join(texts)}" if texts else ""


def compact_lines(frame: Frame, domain: CacheDomain, width: int) -> list[Line]:
    """The map in two lines: the class with the fewest ways on each way, and one that shares it.

    A plus stands for further ones.
    """
    used = [group for group in frame.groups if in_use(group)]
    shares = shares_of(used, domain)
    styles = styles_of(frame.groups)
    order = sorted(
        (group for group in used if group.name in shares),
        key=lambda group: shares[group.name].all.ways,
    )
    ways = domain.ways or 0
    cells = 3 if width >= 70 and ways <= 12 else 2 if 2 * ways + 50 <= width else 1
    owner: list[Span] = [Span(f" L3 {domain.l3} ways {ways - 1}-0  ", Tone.MUTED)]
    second: list[Span] = [Span(fit(" shared with", len(owner[0].text)), Tone.MUTED)]
    for way in reversed(range(ways)):
        holders = [group for group in order if shares[group.name].all.has(way)]
        for at, spans in enumerate((owner, second)):
            if at < len(holders):
                group = holders[at]
                style = styles[group.name]
                tone = class_tone(style.number, "_ON" if at == 0 else "_SHARED")
                more = at == 1 and len(holders) > COMPACT_LINES
                # The cell of one that is not alone there has a plus, or is one.
                letter = style.letter if not more else f"{style.letter}+" if cells > 1 else "+"
                spans.append(Span(f"{letter:^{cells}}", tone))
            else:
                io = at == 0 and isinstance(domain.io, IoWays) and domain.io.cbm.has(way)
                spans.append(Span(f"{'I' if io else ' ':^{cells}}", Tone.MUTED))
    busiest = sorted(used, key=lambda group: -_rate_of(group, domain))[:COMPACT_LINES]
    lines = []
    for spans, group in zip((owner, second), busiest, strict=False):
        left = line(*spans)
        harm = _harming(frame, domain).get(group.name)
        lines.append(
            line(left, _facts(group, styles[group.name], domain, width - left.width, harm))
        )
    lines += [line(*spans) for spans in (owner, second)[len(busiest) :]]
    return [crop(item, width) for item in lines]


def _rate_of(group: GroupRow, domain: CacheDomain) -> float:
    cache = cache_of(group, domain.l3)
    rate = None if cache is None else cache.readings["mbm_total_bytes_per_s"]
    return rate if isinstance(rate, (int, float)) else 0.0


def _facts(
    group: GroupRow, style: ClassStyle, domain: CacheDomain, room: int, harm: Tone | None
) -> Line:
    """Name, occupancy and traffic of a class at the right edge; nothing without the room."""
    cache = cache_of(group, domain.l3)
    if cache is None:
        return BLANK
    used, capacity = cache.readings["occupancy_bytes"], cache.readings["capacity_bytes"]
    rate = cache.readings["mbm_total_bytes_per_s"]
    text = f"{fmt.cell(used, Unit.BYTES, 4)}/{fmt.cell(capacity, Unit.BYTES, 4)} "
    traffic = Span(f"{fmt.cell(rate, Unit.BYTES_PER_S, 4):>4} GB/s", harm or reading_tone(rate))
    name = class_spans(group.name, style.number, 10, Tone.PLAIN)
    whole = line(*name, text, traffic)
    return line(" " * (room - 1 - whole.width), whole) if whole.width < room - 1 else BLANK


_SPACE = Span(" ", Tone.PLAIN)
_SOCKET_ROWS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("mem", ("memory.read_bytes_per_s", "memory.write_bytes_per_s")),
    ("PCIe read", ("pcie.read_bytes_per_s",)),
    ("PCIe write", ("pcie.write_bytes_per_s",)),
    ("UPI", ("upi.received_bytes_per_s", "upi.sent_bytes_per_s")),
    ("DDIO hit", ("pcie.ddio_hit_ratio",)),
)


def socket_lines(frame: Frame, past: PackagePast) -> list[Line]:
    """Header and a line per resource; nothing where no package has a value.

    A gauge is the share of the peak where that is known, a graph of ten minutes elsewhere.
    """
    every = tuple(metric for _, metrics in _SOCKET_ROWS for metric in metrics)
    packages = [row for row in frame.packages if not _is_absent(row, every)][:4]
    if not packages:
        return []
    lines = [_socket_head(tuple(row.package for row in packages))]
    for label, metrics in _SOCKET_ROWS:
        if all(_is_absent(row, metrics) for row in packages):
            continue
        spans = [Span(f"{label:<{_LABEL}}", Tone.MUTED)]
        for row in packages:
            spans += _socket_cell(row, metrics, past)
        lines.append(Line(tuple(spans)))
    return lines


@lru_cache(maxsize=4)
def _socket_head(packages: tuple[Package, ...]) -> Line:
    head = "".join(f"{f's{package} GB/s':>{_SOCKET - 5}}{'peak':>5}" for package in packages)
    return line(Span(fit("SOCKET", _LABEL) + head, Tone.HEADER), fill=Tone.HEADER)


def _is_absent(row: PackageRow, metrics: Sequence[str]) -> bool:
    return all(isinstance(row.readings[metric], Missing) for metric in metrics)


def _socket_cell(row: PackageRow, metrics: Sequence[str], past: PackagePast) -> Sequence[Span]:
    readings = [row.readings[metric] for metric in metrics]
    known = [item for item in readings if not isinstance(item, Missing)]
    is_link = metrics[0].startswith("upi.")
    absent = next((item for item in readings if isinstance(item, Missing)), None)
    # A sum without one of its values would be too small.
    if absent is not None and not (is_link and known):
        return (Span(f"{absent.reason.mark:>{_SOCKET - 5}}     ", Tone.MISSING),)
    if metrics[0].endswith("ratio"):
        share: float | None = known[0]
        value, text = known[0], fmt.share(known[0], 6)
    else:
        value = max(known) if is_link else sum(known)
        share = _share(row, metrics[0])
        text = fmt.number(value, Unit.BYTES_PER_S, 6)
    if share is None:
        drawn = _history(row, metrics, past)
        tail = ""
    else:
        high = share >= _HIGH_SHARE and not metrics[0].endswith("ratio")
        drawn = gauge_of(share, _GAUGE, Tone.WARN if high else Tone.PLAIN)
        tail = "" if metrics[0].endswith("ratio") else f"{share:>4.0%}"
    body = f"{text:>{_SOCKET - _GAUGE - 7}}"
    mark = fmt.ESTIMATE if row.estimates.intersection(metrics) else " "
    number = Span(f" {body}{mark}", Tone.PLAIN)
    return (_SPACE, *drawn.spans, number, Span(f"{tail:4}", Tone.MUTED))


_SHARES: Mapping[str, tuple[str, ...]] = {
    "memory.read_bytes_per_s": ("utilisation.memory_ratio",),
    "pcie.read_bytes_per_s": ("utilisation.pcie_read_ratio",),
    "pcie.write_bytes_per_s": ("utilisation.pcie_write_ratio",),
    "upi.received_bytes_per_s": ("utilisation.upi_received_ratio", "utilisation.upi_sent_ratio"),
}


def _share(row: PackageRow, metric: str) -> float | None:
    """Share of the peak, of the busier direction; None if it is not known."""
    readings = [row.readings.get(name, _UNKNOWN) for name in _SHARES[metric]]
    return max((item for item in readings if not isinstance(item, Missing)), default=None)


def _history(row: PackageRow, metrics: Sequence[str], past: PackagePast) -> Line:
    """The graph of what the number beside it is: the sum, or the busier direction of UPI."""
    of_metrics = [past(metric, row.package, 2 * _GAUGE, _SPAN_S) for metric in metrics]
    fold = np.fmax if metrics[0].startswith("upi.") else np.add
    values = reduce(fold, of_metrics)
    top = float(np.nanmax(values)) if np.isfinite(values).any() else 0.0
    text = area_rows(values, top or 1.0, 1)[0]
    return Line((Span(text, Tone.MUTED),))
