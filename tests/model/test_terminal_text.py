"""Characters that a terminal may act on."""

from __future__ import annotations

import json
import sys

from nftop.model.terminal_text import escaped_json
from tests.command import python


def test_unsafe_characters_of_json_are_escaped() -> None:
    text = '"a\u202eb\x9bc\U000e0001d"'
    escaped = escaped_json(text)
    assert escaped.isascii() and json.loads(escaped) == json.loads(text)


def test_escaping_loads_no_codec() -> None:
    # Without root, the interpreter's own files may be out of reach by then.
    done = python(
        "import sys\nfrom nftop.model.terminal_text import escaped_json\n"
        "print(escaped_json('\\U000e0001\\u202e'), 'encodings.utf_16_be' in sys.modules)"
    )
    assert done.stdout.split() == ["\\udb40\\udc01\\u202e", "False"], (done.stderr, sys.version)
