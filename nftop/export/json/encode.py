"""JSON that can be shown on a terminal as it is."""

from __future__ import annotations

import msgspec

from nftop.model.terminal_text import escaped_json


def json_bytes(value: object) -> bytes:
    r"""`value` as UTF-8 JSON, in one line; what a terminal would obey is escaped as \uXXXX."""
    encoded = msgspec.json.encode(value)
    if encoded.isascii() and b"\x7f" not in encoded:
        return encoded
    return escaped_json(encoded.decode()).encode()
