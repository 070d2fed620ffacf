"""Removal of characters that control a terminal or that hide or reorder text.

Every write to standard output and standard error passes through `safe_text`: names of processes,
strings of servers, recordings and configuration files may contain any character. JSON escapes the
same characters (`escaped_json`) instead.

Sources: ECMA-48 (C0 and C1 controls), Unicode 15.0: Bidi_Control, Default_Ignorable_Code_Point,
U+2028 and U+2029 (line and paragraph separator), U+FFF9 to U+FFFB (interlinear annotation).
"""

from __future__ import annotations

import functools
import re

REPLACEMENT = "?"

# Without C0: what JSON lets stand within a string.
_ABOVE_C0 = (
    "\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_SURROGATES = "\ud800-\udfff"
_UNSAFE, _UNSAFE_IN_LINE = "\x00-\x08\x0b-\x1f", "\x00-\x1f"


@functools.cache
def _class(characters: str, above: str = _ABOVE_C0) -> re.Pattern[str]:
    """These characters and those `above`; a millisecond, which most commands do not need."""
    return re.compile(f"[{characters}{above}]")


def _unsafe(text: str, characters: str) -> re.Pattern[str]:
    return _class(characters, "\x7f" if text.isascii() else _ABOVE_C0 + _SURROGATES)


def safe_text(text: str) -> str:
    """Replace every unsafe character of `text` with `?`; line feeds and tabs stay."""
    return _unsafe(text, _UNSAFE).sub(REPLACEMENT, text)


def safe_line(text: str) -> str:
    """`safe_text` of a single line: line feeds and tabs become blanks."""
    if text.isascii() and text.isprintable():
        return text
    pattern = _unsafe(text, _UNSAFE_IN_LINE)
    return pattern.sub(lambda hit: " " if hit[0] in "\t\n" else REPLACEMENT, text)


def escaped_json(text: str) -> str:
    r"""Write every unsafe character of a JSON document as \uXXXX, which is valid in its strings."""
    return _class("").sub(_escape, text)


def _escape(hit: re.Match[str]) -> str:
    # Without the codec: Python loads it at its first use, when root's files may be out of reach.
    text = ""
    for code in map(ord, hit[0]):
        high, low = divmod(code - 0x10000, 0x400)
        text += f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}" if high >= 0 else f"\\u{code:04x}"
    return text
