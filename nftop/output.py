"""What commands say: on standard output, told apart from everything else that can fail, and why."""

from __future__ import annotations

import sys
from typing import TextIO

# Exit codes: `cli` has them all.
OK, FAILURE, USAGE = 0, 1, 2


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


def fail(sentence: str, code: int) -> int:
    """Say why on standard error; the code is given back."""
    say(f"nftop: {sentence}")
    return code


def say(line: str) -> None:
    """A line on standard error, if there is one."""
    if sys.stderr is not None:  # `print` would take standard output in its place
        sys.stderr.write(f"{line}\n")
