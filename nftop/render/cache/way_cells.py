"""Cells of the ways of cache classes, and the letter and hue of each class: the same everywhere.

A cell is 3, 2 or 1 wide. Every colour has a glyph with the same meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence, Set
from functools import lru_cache
from itertools import count
from typing import Literal, TypeAlias

from nftop.derive.cache.ways import Shares, ways_of
from nftop.model.frame import GroupRow
from nftop.model.ids import format_cpu_list
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import OWN_PREFIX, ROOT, class_name
from nftop.model.remedy import DraftMask
from nftop.model.struct import dataclass
from nftop.render.base.line import Line, Span, Tone, class_tone, line

# Of one class: only it may fill the way; others may too; an exclusive group's; a draft adds or
# removes it; not in its mask.
WayState: TypeAlias = Literal["alone", "shared", "exclusive", "added", "removed", "empty"]
HATCH = "\u2571"  # a diagonal line
_EMPTY = "·"
MARKS: tuple[tuple[str, str], ...] = (
    ("v", "way that class v alone may fill, on the class's hue; rightmost is way 0"),
    ("V", "the same, of an exclusive group: the kernel refuses sharing"),
    (
        f"{HATCH}v{HATCH}",
        f"way shared with another class in use or with devices; narrow: v{HATCH} or {HATCH}",
    ),
    ("+", "way added by the draft"),
    ("-", "way removed by the draft"),
    ("·", "way outside the mask"),
    ("[ ]", "the selected way; ▲ and ▼ mark its column"),
    ("□ I/O", "I: ways of devices (DDIO); hint: CPUID or shareable_bits"),
)
_PQOS_CLASS = re.compile(r"COS([0-9]+)")


@dataclass(frozen=True, slots=True)
class ClassStyle:
    """Hue and letter of a cache class.

    Attributes:
        number: selects the hue: the hardware's number, or a stable one where that is unknown.
        letter: in cells of ways; no other class of the host has it as long as letters suffice.
    """

    number: int
    letter: str

    @property
    def hue(self) -> Tone:
        """Tone of the class's name and swatch."""
        return class_tone(self.number)


def styles_of(groups: Iterable[GroupRow], drafted: Iterable[str] = ()) -> Mapping[str, ClassStyle]:
    """Look of each class of a frame, and of classes that only a draft has, by group."""
    return _styles(tuple((group.name, group.clos) for group in groups), tuple(drafted))


@lru_cache(maxsize=8)  # several times a tick, for classes that seldom change
def _styles(
    classes: tuple[tuple[str, int | None], ...], drafted: tuple[str, ...]
) -> Mapping[str, ClassStyle]:
    numbers = dict(classes)
    numbers |= {name: None for name in drafted if name not in numbers}
    taken = {number for number in numbers.values() if number is not None} | {0}
    free = (number for number in count(1) if number not in taken)
    styles: dict[str, ClassStyle] = {}
    letters: set[str] = set()
    for name, known in numbers.items():
        number = 0 if name == ROOT else next(free) if known is None else known
        letter = _letter(name, letters)
        letters.add(letter)
        styles[name] = ClassStyle(number, letter)
    return styles


def _letter(name: str, taken: set[str]) -> str:
    if match := _PQOS_CLASS.fullmatch(name):
        number = int(match[1])
        wanted = "0123456789abcdefghijklmnopqrstuvwxyz"[number] if number < 36 else ""
    else:
        wanted = class_name(name).removeprefix(OWN_PREFIX).lower()
    wanted = "".join(char for char in wanted if char.isascii() and char.isalnum())
    spare = wanted + "123456789abcdefghijklmnopqrstuvwxyz"
    return next((char for char in spare if char not in taken), wanted[:1] or "?")


def way_state(shares: Shares, way: int, *, exclusive: bool) -> WayState:
    """State of a way that a class has: alone, or with another class in use or devices."""
    if shares.shared.has(way) or shares.io.has(way):
        return "shared"
    return "exclusive" if exclusive else "alone"


def way_span(state: WayState, style: ClassStyle, width: int, *, selected: bool = False) -> Span:
    """Cell of a way, `width` wide; `selected`: with brackets as far as they fit."""
    letter = style.letter.upper() if state == "exclusive" else style.letter
    glyph = {"added": "+", "removed": "-", "empty": _EMPTY}.get(state, letter)
    shared = state == "shared"
    if width == 1:
        text = HATCH if shared else glyph
    elif width == 2:
        text = f"{glyph}]" if selected else f"{glyph}{HATCH if shared else ' '}"
    else:
        edges = "[]" if selected else HATCH * 2 if shared else "  "
        text = f"{edges[0]}{HATCH if selected and shared else glyph}{edges[1]}"
    tone = Tone.STRONG if selected and state == "empty" else _tone(state, style)
    return Span(text, tone)


def _tone(state: WayState, style: ClassStyle) -> Tone:
    if state == "empty":
        return Tone.FAINT
    if state == "removed":
        return style.hue
    return class_tone(style.number, "_SHARED" if state == "shared" else "_ON")


def device_cells(bits: int, ways: int, width: int) -> str:
    """Cells of ways that devices write into, the highest first."""
    glyphs = ("I" if bits >> way & 1 else _EMPTY for way in reversed(range(ways)))
    return "".join(f" {glyph} " if width > 2 else f"{glyph:<{width}}" for glyph in glyphs)


def way_numbers(ways: int, width: int, selected: int | None = None) -> list[str]:
    """Header of the ways, the highest first: one line, or two if numbers do not fit in one.

    `selected`: way whose number is replaced by `▼`.
    """

    def joined(texts: Sequence[str]) -> str:
        return "".join(f"{text:^3}" if width > 2 else f"{text:<{width}}" for text in texts)

    numbers = list(reversed(range(ways)))
    last = ["▼" if way == selected else str(way % 10) for way in numbers]
    if width > 2:
        return [joined(["▼" if way == selected else str(way) for way in numbers])]
    if ways <= 10:
        return [joined(last)]
    return [joined([str(way // 10) if way > 9 else "" for way in numbers]), joined(last)]


def draft_rows(groups: Sequence[GroupRow], mask: DraftMask, victims: Set[str]) -> list[Line]:
    """Ways, the mask now and in the draft, the highest way first; `victims`: their classes."""
    styles = styles_of(groups, (mask.group,))
    others = {
        group.name: held.bits
        for group in groups
        for cache in group.caches
        if cache.l3 == mask.l3 and group.name != mask.group and (held := ways_of(cache)) is not None
    }
    shared = mask.io | mask.victims
    for bits in others.values():
        shared |= bits
    names = ", ".join(
        f"{format_cpu_list(way for way in range(mask.ways) if (bits & mask.old) >> way & 1)}"
        f" of {class_name(name)}"
        for name, bits in others.items()
        if class_name(name) in victims and bits & mask.old
    )

    def row(name: str, bits: int, note: str = "") -> Line:
        label = f" {name:<6}{Cbm(bits, mask.ways).hex:>6} "
        drawn = []
        for way in range(mask.ways - 1, -1, -1):
            held, was = bits >> way & 1, mask.old >> way & 1
            state: WayState = "shared" if shared >> way & 1 else "alone"
            if not held:
                state = "removed" if was else "empty"
            elif not was:
                state = "added"
            drawn.append(way_span(state, styles[mask.group], 3))
        return line(Span(label, Tone.MUTED), *drawn, Span(note, Tone.MUTED))

    header = way_numbers(mask.ways, 3)[0]
    return [
        line(Span(f" {f'L3 {mask.l3}':<12} {header}", Tone.MUTED)),
        row("now", mask.old, f"  ways {names}" if names else ""),
        row("draft", mask.new),
    ]
