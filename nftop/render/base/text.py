"""Text that may come from anywhere, made safe to put in a cell of a terminal.

Names of processes and strings of servers may hold escape sequences, marks that reorder a line or
characters terminals disagree about. What passes `printable` holds none of them, so its width
is what `rich.cells.cell_len` says in every terminal, and columns stay aligned.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

from rich.cells import cell_len

REPLACEMENT = "?"
LONGEST = 2000  # characters kept of one text; more than any screen shows of it
ELLIPSIS = "…"

# Right-to-left letters are harmless alone, but terminals that know the bidirectional algorithm
# move the numbers beside them to other columns.
_REORDERING = frozenset({"R", "AL", "AN"})
# C*: control, format, surrogate, private use, unassigned. M*: combining; Z*: separators.
_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Mn", "Mc", "Me", "Zl", "Zp"})
# Two regional indicators are one flag in some terminals and two letters in others.
_REGIONAL_INDICATORS = range(0x1F1E6, 0x1F200)

_ASCII_FOR = str.maketrans(
    {**dict(zip("▁▂▃▄▅▆▇█", ".:-=+*##", strict=True)), "…": "+", "─": "-", "│": "|"}
    | {"▲": "^", "▼": "v", "·": ".", "└": "+"}
)


def cells(text: str) -> int:
    """Cells a printable text takes."""
    return len(text) if text.isascii() else cell_len(text)


def printable(text: str) -> str:
    """`text` with everything that could move, hide, recolour or reorder a cell replaced by `?`."""
    if text.isascii() and text.isprintable() and len(text) <= LONGEST:
        return text
    if len(text) > LONGEST:
        text = text[: LONGEST - 1] + ELLIPSIS
    # Composing first keeps the letters that have a precomposed form.
    return "".join(map(_shown, unicodedata.normalize("NFC", text)))


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
    """`text` in ASCII and of the same width in cells; our own glyphs get their ASCII forms."""
    if text.isascii():
        return text
    return "".join(
        char if char.isascii() else REPLACEMENT * cell_len(char)
        for char in text.translate(_ASCII_FOR)
    )


def truncate(text: str, width: int) -> str:
    """`text` made printable, in at most `width` cells; an ellipsis says that some is cut."""
    text = printable(text)
    if cell_len(text) <= width:
        return text
    return _head(text, width - 1) + ELLIPSIS if width > 0 else ""


def fit(text: str, width: int, *, right: bool = False) -> str:
    """`text` made printable, in exactly `width` cells (none if negative)."""
    if text.isascii() and text.isprintable() and len(text) <= min(width, LONGEST):
        return text.rjust(width) if right else text.ljust(width)
    text = truncate(text, width)
    blank = " " * (width - cell_len(text))
    return blank + text if right else text + blank


def wrap(text: str, width: int) -> list[str]:
    """`text` made printable, broken at spaces into lines of at most `width` cells.

    A word wider than a line is cut where the line ends. An empty text is no line, and so is any
    text where `width` is below 2, since a wide character fits nowhere then.
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
    """As many leading characters of a printable text as fit in `width` cells."""
    if text.isascii():
        return text[: max(0, width)]
    used = 0
    for index, char in enumerate(text):
        used += cell_len(char)
        if used > width:
            return text[:index]
    return text
