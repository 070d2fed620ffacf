"""JSON that can be shown on a terminal as it is."""

from __future__ import annotations

import re

import msgspec

# What JSON lets stand and a terminal obeys: delete and the second set of controls (U+009B begins
# an escape sequence), the separators of lines and paragraphs, and the marks that reorder a line
# (Unicode's Bidi_Control). None is outside of a string, and all have four digits.
_OBEYED = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def json_bytes(value: object) -> bytes:
    r"""`value` as UTF-8 JSON, in one line; what a terminal would obey is escaped as \uXXXX."""
    encoded = msgspec.json.encode(value)
    if encoded.isascii() and b"\x7f" not in encoded:
        return encoded
    return _OBEYED.sub(lambda found: f"\\u{ord(found[0]):04x}", encoded.decode()).encode()
