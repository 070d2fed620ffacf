"""Writers of standard output and standard error: the only ones of text.

Both make their text safe for a terminal (`model.terminal_text`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Callable
from typing import TextIO

from nftop.model.terminal_text import safe_line, safe_text

# Exit codes: `cli.main` has them all.
OK, FAILURE, USAGE = 0, 1, 2


# Called before any text is written; it takes something else off the terminal.
before_text: list[Callable[[], None]] = []


class OutputError(Exception):
    """Standard output can't be written; `cause` is the system's error."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(str(cause))
        self.cause = cause


def put(out: TextIO | None, text: str) -> None:
    """Write safe text and flush. Raises OutputError, also for None, a closed stream."""
    if out is None:
        raise OutputError(OSError(errno.EBADF, "standard output is closed"))
    text = safe_text(text)
    _begin()
    try:
        try:
            out.write(text)
        except UnicodeEncodeError:
            encoding = out.encoding
            out.write(text.encode(encoding, "backslashreplace").decode(encoding))
        out.flush()
    except OSError as error:
        raise OutputError(error) from error


def _begin() -> None:
    while before_text:
        before_text.pop()()


def fail(sentence: str, code: int) -> int:
    """Write a message to standard error; returns the code."""
    warn(f"nftop: {sentence}")
    return code


def warn(line: str) -> None:
    """Write a line to standard error; nothing if that is closed or can't be written."""
    warn_lines(safe_line(line))


def warn_lines(text: str) -> None:
    """As `warn`, several lines."""
    _begin()
    if sys.stderr is not None:  # `print` would take standard output in its place
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(f"{safe_text(text)}\n")
            sys.stderr.flush()


def discard_stdout() -> None:
    """Discard what is left of standard output, which Python flushes at exit."""
    if sys.stdout is not None:
        with contextlib.suppress(OSError, ValueError):
            null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
            os.dup2(null, sys.stdout.fileno())
            os.close(null)
