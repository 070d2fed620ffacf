"""Untrusted text made safe for cells of a terminal.

Names of processes and strings of servers may hold escape sequences, bidirectional marks and
characters of ambiguous width. `printable` replaces them, so that `rich.cells.cell_len` is the width
in every terminal and columns stay aligned.
"""

from __future__ import annotations

import locale
import re
import sys
import unicodedata
from collections.abc import Mapping
from functools import lru_cache

from rich.cells import cell_len

REPLACEMENT = "?"
LONGEST = 2000  # characters kept of one text
ELLIPSIS = "…"

# Terminals with the bidirectional algorithm move numbers next to right-to-left letters.
_REORDERING = frozenset({"R", "AL", "AN"})
# C*: control, format, surrogate, private use, unassigned. M*: combining; Z*: separators.
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Mn", "Mc", "Me", "Zl", "Zp"})
# Two regional indicators are one flag in some terminals and two letters in others.
_REGIONAL_INDICATORS = range(0x1F1E6, 0x1F200)


def _level(dots: int) -> str:
    """ASCII for a cell of braille: `#` if most of it is filled, else the height of its dots."""
    rows = (0x09, 0x12, 0x24, 0xC0)  # from the highest
    filled = [bool(dots & row) for row in rows]
    if sum(filled) >= 3:
        return "#"
    return next((char for char, drawn in zip("'-._", filled, strict=True) if drawn), " ")


_ASCII_FOR = str.maketrans(
    {**dict(zip("▁▂▃▄▅▆▇█", ".:-=+*##", strict=True)), "…": "+", "─": "-", "│": "|"}
    | {"▲": "^", "▼": "v", "▾": "v", "·": ".", "└": "+", "┤": "+", "━": "=", "╸": "="}
    | {"●": "*", "✔": "+", "→": ">", "⏎": "E", "■": "#", "□": "o", "◆": "o", "≤": "<"}
    | {"▸": ">", "✘": "x", "◇": "o", "┊": ":", "┃": "!", "▌": "!", "░": ".", "\u2571": "/"}
    | {chr(0x2800 + dots): _level(dots) for dots in range(256)}
    | {"○": "o", "◀": "<", "▶": ">", "↓": "v", "≥": ">", "┄": ".", "⚑": "m", "▐": "|", "±": "~"}
)


# Cells of a printable text that is not ASCII; most glyphs of a screen are those of the last tick.
wide_cells = lru_cache(maxsize=4096)(cell_len)


# Characters of one cell, whatever is beside them; arrows, lines and dots join them when met.
_narrow = {*map(chr, range(0x20, 0x7F)), "·", ELLIPSIS}
_FIRST_SIGN, _LAST_SIGN = "\u2190", "\u2bff"


# ASCII, arrows, lines, blocks, shapes and braille, which are most texts.
_is_common = re.compile("[ -~·…\u2190-\u21ff\u2500-\u25fc\u2800-\u28ff]*").fullmatch


def is_narrow(text: str) -> bool:
    """Whether every character of a printable text takes one cell, as nearly all texts are."""
    if text.isascii() or _is_common(text) or _narrow.issuperset(text):
        return True
    others = set(text) - _narrow
    signs = {sign for sign in others if _FIRST_SIGN <= sign <= _LAST_SIGN and cell_len(sign) == 1}
    _narrow.update(signs)
    return signs == others


def cells(text: str) -> int:
    """Cells a printable text takes."""
    return len(text) if text.isascii() else wide_cells(text)


def printable(text: str) -> str:
    """`text` with all that could move, hide, recolour or reorder a cell replaced by `?`."""
    if text.isascii() and text.isprintable() and len(text) <= LONGEST:
        return text
    if len(text) > LONGEST:
        text = text[: LONGEST - 1] + ELLIPSIS
    return _cleaned(text)


@lru_cache(maxsize=1024)  # most texts of a screen are those of the last tick
def _cleaned(text: str) -> str:
    """`text` with each character as shown; the same object if nothing is replaced."""
    # Composing first keeps the letters that have a precomposed form.
    shown = "".join(map(_shown, unicodedata.normalize("NFC", text)))
    return text if shown == text else shown


@lru_cache(maxsize=4096)
def _shown(char: str) -> str:
    category = unicodedata.category(char)
    if category == "Zs":
        return " "
    unsafe = (
        category in _UNPRINTABLE
        or unicodedata.bidirectional(char) in _REORDERING
        or ord(char) in _REGIONAL_INDICATORS
        or cell_len(char) < 1
    )
    return REPLACEMENT if unsafe else char


def ascii_only(text: str) -> str:
    """`text` in ASCII of the same width; nftop's glyphs have ASCII forms."""
    if text.isascii():
        return text
    return "".join(
        char if char.isascii() else REPLACEMENT * cell_len(char)
        for char in text.translate(_ASCII_FOR)
    )


def truncate(text: str, width: int) -> str:
    """`text` made printable, in at most `width` cells, with an ellipsis if it is cut."""
    text = printable(text)
    if cells(text) <= width:
        return text
    return _head(text, width - 1) + ELLIPSIS if width > 0 else ""


def fit(text: str, width: int, *, right: bool = False) -> str:
    """`text` made printable, in exactly `width` cells (none if negative)."""
    if text.isascii() and text.isprintable() and len(text) <= min(width, LONGEST):
        return text.rjust(width) if right else text.ljust(width)
    text = truncate(text, width)
    blank = " " * (width - cells(text))
    return blank + text if right else text + blank


def wrap(text: str, width: int) -> list[str]:
    """`text` made printable, wrapped at spaces to lines of at most `width` cells.

    A word wider than a line is split. No line for an empty text, or a width below 2, where a wide
    character does not fit.
    """
    lines: list[str] = []
    words = printable(text).split() if width >= 2 else []
    while words:
        word = words.pop(0)
        joined = f"{lines[-1]} {word}" if lines else ""
        if joined and cell_len(joined) <= width:
            lines[-1] = joined
            continue
        head = _head(word, width)
        lines.append(head)
        if head != word:
            words.insert(0, word[len(head) :])
    return lines


def _head(text: str, width: int) -> str:
    """Leading characters of a printable text that fit in `width` cells."""
    if text.isascii():
        return text[: max(0, width)]
    used = 0
    for index, char in enumerate(text):
        used += cell_len(char)
        if used > width:
            return text[:index]
    return text


def locale_is_utf8(environ: Mapping[str, str]) -> bool:
    """Whether the terminal's locale is UTF-8.

    In the C and POSIX locales Python enables its UTF-8 mode (PEP 540) and reports UTF-8 for a
    terminal that may not be.
    """
    by_itself = sys.flags.utf8_mode and environ.get("PYTHONUTF8") != "1"
    return not by_itself and locale.nl_langinfo(locale.CODESET).upper() == "UTF-8"
