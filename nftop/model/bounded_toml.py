"""TOML of an operator's file, with limits on nesting and dotted keys.

`tomllib` recurses for each nested array or inline table and needs quadratic time for dotted keys,
so both are counted before it parses.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

# No file of nftop's has more than two levels, or a dotted key at all.
MAX_DEPTH = 16
MAX_KEY_LENGTH = 16
# A comment; a multi-line and a single-line text, each as far as it goes where it is not ended; and
# all that counts.
_TOKEN = re.compile(
    r"#[^\n]*"
    r'|"""(?:[^\\]|\\.)*?(?:"""|\Z)'
    r"|'''.*?(?:'''|\Z)"
    r'|"(?:[^"\\\n]|\\.)*'
    r'"?'
    r"|'[^'\n]*'?"
    r"|[][{}.,=\n]",
    re.DOTALL,
)


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML.

    Raises:
        ValueError: not TOML, or beyond MAX_DEPTH or MAX_KEY_PARTS; the text ends with line and
            column if known.
    """
    _check_nesting(text)
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("values within each other too deep") from None
    except tomllib.TOMLDecodeError:
        raise
    except ValueError:  # of `int`, in words about Python's own settings
        raise ValueError("a number has too many digits") from None


def _check_nesting(text: str) -> None:
    depth, dots = 0, 0
    for hit in _TOKEN.finditer(text):
        match hit[0]:
            case "[" | "{":
                depth, dots = depth + 1, 0
            case "]" | "}":
                depth, dots = max(depth - 1, 0), 0
            case ".":
                dots += 1
            case "\n" | "," | "=":
                dots = 0
        if depth > MAX_DEPTH:
            raise ValueError(f"more than {MAX_DEPTH} levels {_position(text, hit.start())}")
        if dots >= MAX_KEY_LENGTH:
            raise ValueError(
                f"a key of more than {MAX_KEY_LENGTH} parts {_position(text, hit.start())}"
            )


def _position(text: str, at: int) -> str:
    line = text.count("\n", 0, at) + 1
    return f"(at line {line}, column {at - text.rfind(chr(10), 0, at)})"
