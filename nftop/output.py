"""Writing to standard output, told apart from everything else that can fail."""

from __future__ import annotations

from typing import TextIO


class OutputError(Exception):
    """Standard output takes nothing more; `cause` is what the system said."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(str(cause))
        self.cause = cause


def put(out: TextIO, text: str) -> None:
    """Write and flush; OutputError where that can't be done."""
    try:
        out.write(text)
        out.flush()
    except OSError as error:
        raise OutputError(error) from error
