"""Screens as SVG, without scripts or requests: one, or those of an asciinema cast, animated.

Of a cast (asciicast format 2) pyte draws the output on a terminal; each distinct row is written
once and used by every frame that shows it. CSS shows one frame after the other. Markers of the cast
are captions.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import groupby
from typing import NamedTuple, TypeAlias

import pyte
from rich.style import Style

CELL = (8.4, 18.0)  # width and height of a character, in px at a font size of 14
MARGIN = 12.0
CAPTION_HEIGHT = 44.0
_FONT = "text{font:14px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace}"
# What is set at a place of its own: words, and braille, which is wider or narrower in many fonts.
_WORDS = re.compile("[\u2801-\u28ff]+|[^\\s\u2800-\u28ff]+(?: [^\\s\u2800-\u28ff]+)*")
INK, GROUND, BAR = "#d8d8d8", "#101214", "#1c2024"  # the terminal's own colours, and the caption's
NAMED = {
    "black": "#000000", "red": "#cc5555", "green": "#55aa55", "brown": "#aa8844",
    "blue": "#5577cc", "magenta": "#aa55aa", "cyan": "#55aaaa", "white": "#d8d8d8",
}  # fmt: skip


class Look(NamedTuple):
    """Colours (#rrggbb) and weight of characters."""

    ink: str
    ground: str
    bold: bool
    underlined: bool


Row: TypeAlias = tuple[tuple[str, Look], ...]


@dataclass(slots=True)
class Shown:
    """What one frame shows: rows of runs of characters, and a caption, for `hold_s` seconds."""

    rows: list[Row]
    caption: str
    hold_s: float = 0.0


@dataclass(slots=True)
class _Styles:
    """CSS classes by what they declare, in order of first use."""

    names: dict[str, str] = field(default_factory=dict)

    def name(self, declared: str) -> str:
        return self.names.setdefault(declared, f"s{len(self.names)}")

    def rules(self) -> list[str]:
        return [f".{name}{{{declared}}}" for declared, name in self.names.items()]


def frames(lines: Sequence[str]) -> list[Shown]:
    """The screens of a cast, in order; one that does not differ lengthens the one before.

    Raises:
        ValueError: not asciicast format 2.
    """
    head = json.loads(lines[0])
    if head.get("version") != 2:
        raise ValueError("not asciicast format 2")
    screen = pyte.Screen(head["width"], head["height"])
    stream = pyte.Stream(screen)
    shown: list[Shown] = []
    caption, before_s = "", 0.0
    for line in lines[1:]:
        at_s, code, data = json.loads(line)
        if shown:
            shown[-1].hold_s += at_s - before_s
        before_s = at_s
        if code == "m":
            caption = data
        elif code == "o" and data:
            stream.feed(data)
            rows = [_row(screen, y) for y in range(screen.lines)]
            if not shown or (rows, caption) != (shown[-1].rows, shown[-1].caption):
                shown.append(Shown(rows, caption))
    return shown


def animate(lines: Sequence[str]) -> str:
    """The SVG of a cast; where nothing moves it shows the first of the frames that stay longest."""
    shown = frames(lines)
    head = json.loads(lines[0])
    width = head["width"] * CELL[0] + 2 * MARGIN
    terminal = head["height"] * CELL[1] + 2 * MARGIN
    height = terminal + CAPTION_HEIGHT
    ground = _commonest_ground(shown)
    styles = _Styles()
    ids: dict[Row, str] = {}
    rows: list[str] = []
    film: list[str] = []
    for index, frame in enumerate(shown):
        used = []
        for y, row in enumerate(frame.rows):
            if row not in ids:
                ids[row] = f"r{len(ids)}"
                rows.append(f'<g id="{ids[row]}">{_drawn(row, ground, styles)}</g>')
            used.append(f'<use href="#{ids[row]}" y="{y * CELL[1]:g}"/>')
        caption = f'<text class="c" x="4" y="{terminal + 6:g}">{escape(frame.caption)}</text>'
        film.append(f'<g transform="translate(0 {index * height:g})">{"".join(used)}{caption}</g>')
    size = f'width="{width:g}" height="{height:g}"'
    inner = f'width="{width - 2 * MARGIN:g}" height="{height - MARGIN:g}"'
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" {size}>',
            f"<title>{escape(head.get('title', ''))}</title>",
            f"<style>{_css(shown, height, styles)}</style>",
            f'<rect {size} rx="8" fill="{BAR}"/>',
            f'<rect width="{width:g}" height="{terminal:g}" rx="8" fill="{ground}"/>',
            f"<defs>{''.join(rows)}</defs>",
            f'<svg x="{MARGIN:g}" y="{MARGIN:g}" {inner}>',
            f'<g class="film">{"".join(film)}</g>',
            "</svg>",
            "</svg>\n",
        )
    )


def still(lines: Sequence[Sequence[tuple[str, Style]]], title: str) -> str:
    """The SVG of one screen."""
    rows = [tuple((text, _look_of(style)) for text, style in runs) for runs in lines]
    columns = max(sum(len(text) for text, _ in row) for row in rows)
    width, height = columns * CELL[0] + 2 * MARGIN, len(rows) * CELL[1] + 2 * MARGIN
    ground = _commonest_ground([Shown(rows, "")])
    styles = _Styles()
    drawn = [
        f'<g transform="translate({MARGIN:g} {MARGIN + y * CELL[1]:g})">'
        f"{_drawn(row, ground, styles)}</g>"
        for y, row in enumerate(rows)
    ]
    size = f'width="{width:g}" height="{height:g}"'
    css = "".join((_FONT, *styles.rules()))
    return "\n".join(
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" {size}>',
            f"<title>{escape(title)}</title>",
            f"<style>{css}</style>",
            f'<rect {size} rx="8" fill="{ground}"/>',
            *drawn,
            "</svg>\n",
        )
    )


def _look_of(style: Style) -> Look:
    """Look of a style of the application, whose themes have all of their colours."""
    ink, ground = (
        default if color is None or color.is_default else color.get_truecolor().hex
        for color, default in ((style.color, INK), (style.bgcolor, GROUND))
    )
    if style.reverse:
        ink, ground = ground, ink
    return Look(ink, ground, bool(style.bold), bool(style.underline))


def _row(screen: pyte.Screen, y: int) -> Row:
    """A row as runs of the same look."""
    cells = [screen.buffer[y][x] for x in range(screen.columns)]
    runs = [(look, "".join(cell.data for cell in run)) for look, run in groupby(cells, key=_look)]
    return tuple((text, look) for look, text in runs)


def _commonest_ground(shown: Sequence[Shown]) -> str:
    """The ground of most characters: it is drawn once, below everything."""
    count: Counter[str] = Counter()
    for row in (row for frame in shown for row in frame.rows):
        for text, look in row:
            count[look.ground] += len(text)
    return count.most_common(1)[0][0]


def _look(cell: pyte.screens.Char) -> Look:
    ink, ground = _colour(cell.fg, INK), _colour(cell.bg, GROUND)
    if cell.reverse:
        ink, ground = ground, ink
    return Look(ink, ground, cell.bold, cell.underscore)


def _colour(name: str, default: str) -> str:
    if name == "default":
        return default
    return NAMED.get(name.removeprefix("bright"), f"#{name}" if len(name) == 6 else default)


def _drawn(row: Row, ground: str, styles: _Styles) -> str:
    """Grounds that differ from the common one, then text, a run each."""
    grounds, texts = [], []
    column = 0
    for text, look in row:
        x, span = column * CELL[0], len(text) * CELL[0]
        if look.ground != ground:
            name = styles.name(f"fill:{look.ground}")
            grounds.append(f'<path class="{name}" d="M{x:g} 0h{span:g}v{CELL[1]:g}h-{span:g}z"/>')
        for words in _WORDS.finditer(text):
            name, inked = styles.name(_declared(look)), words[0]
            texts.append(
                f'<text class="{name}" x="{(column + words.start()) * CELL[0]:g}" y="14" '
                f'textLength="{len(inked) * CELL[0]:g}">{_kept(inked)}</text>'
            )
        column += len(text)
    return "".join((*grounds, *texts))


def _kept(text: str) -> str:
    """Text whose blanks stay as many as they are."""
    return escape(text).replace(" ", "\N{NO-BREAK SPACE}")


def _declared(look: Look) -> str:
    bold = ";font-weight:bold" if look.bold else ""
    underlined = ";text-decoration:underline" if look.underlined else ""
    return f"fill:{look.ink}{bold}{underlined}"


def _css(shown: Sequence[Shown], height: float, styles: _Styles) -> str:
    total_s = sum(frame.hold_s for frame in shown)
    steps, at_s = [], 0.0
    for index, frame in enumerate(shown):
        steps.append(f"{at_s / total_s:.3%}{{transform:translateY(-{index * height:g}px)}}")
        at_s += frame.hold_s
    longest = max(range(len(shown)), key=lambda index: shown[index].hold_s) * height
    rules: Iterable[str] = (
        _FONT,
        f"text.c{{font:16px system-ui,'DejaVu Sans',sans-serif;fill:{INK}}}",
        f".film{{transform:translateY(-{longest:g}px)}}",
        f".film{{animation:film {total_s:g}s infinite step-end}}",
        "@media(prefers-reduced-motion:reduce){.film{animation:none}}",
        f"@keyframes film{{{''.join(steps)}}}",
        *styles.rules(),
    )
    return "".join(rules)
