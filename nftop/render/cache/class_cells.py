"""Cells of cache classes that several screens share: names, ways, fullness, and their marks."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from nftop.derive.cache.ways import Shares
from nftop.model.frame import Frame
from nftop.model.metrics.group import GROUP_METRICS
from nftop.model.missing import Missing, Reading
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import class_name
from nftop.render.base.line import Span, Tone, class_tone
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
        "."
        if not mask.has(way)
        else "#"
        if shares is None
        else way_mark(shares, way, exclusive=exclusive)
        for way in reversed(range(mask.width))
    ]
    return [Span(mark, TONES[mark]) for mark in marks]


# Occupancy over capacity: full from the first on; beyond the second, lines remain in lost ways.
FULL_RATIO, OVER_RATIO = 0.95, 1.05

MARKS: tuple[tuple[str, str], ...] = (
    ("COS -", "the kernel does not report the number of the class"),
    ("code", "with CDP: mask for code, below that for data"),
    ("full", f"the class occupies {FULL_RATIO:.0%} of its ways or more"),
    ("over", "it occupies more than its ways: lines remain when a mask shrinks"),
)


@lru_cache(maxsize=256)
def class_spans(name: str, number: int | None, width: int, tone: Tone) -> tuple[Span, ...]:
    """A class in `width` cells: `■` in the hue of its number (`way_cells.looks_of`), its name."""
    shown = fit(group_name(name), width - 3) + " "
    return Span("■ ", class_tone(number)), Span(shown, tone)


def group_name(name: str) -> str:
    """Name of a class as shown, see `rdt.class_name`."""
    return printable(class_name(name))


def cache_absences(frame: Frame) -> dict[Missing, list[str]]:
    """Reasons why values of the panel are absent, with their columns."""
    named: list[tuple[str, Cbm | Reading]] = []
    for cache in (cache for group in frame.groups for cache in group.caches):
        named.append(("MASK", cache.cbm))
        named += [(metric.label, cache.readings[metric.id]) for metric in GROUP_METRICS]
    return by_reason(named)
