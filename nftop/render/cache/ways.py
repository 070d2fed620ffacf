"""How the ways of a class are drawn, wherever they are."""

from __future__ import annotations

from collections.abc import Mapping

from nftop.derive.cache.ways import Shares
from nftop.model.rdt.masks import Cbm
from nftop.render.base.line import Span, Tone

# No letter has another meaning on any screen that draws ways.
MARKS: tuple[tuple[str, str], ...] = (
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
