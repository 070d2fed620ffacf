"""nftop, and other programs in Python, as somebody starts them."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from collections.abc import Iterable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

from nftop.cli.main import run

NFTOP = [sys.executable, "-m", "nftop"]
PATIENCE_S = 180.0


def nftop(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    """From beginning to end, with `text` on its standard input."""
    return _run([*NFTOP, *arguments], text)


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program of its own, which inherits nothing that this one has imported."""
    return _run([sys.executable, "-c", code, *arguments])


def _run(command: list[str], text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )


def called(*arguments: str, text: str | bytes = "") -> subprocess.CompletedProcess[str]:
    """As `nftop`, but in this process, which takes a hundredth of the time."""
    given = io.BytesIO(text.encode() if isinstance(text, str) else text)
    out, err = io.StringIO(), io.StringIO()
    with (
        redirect_stdout(out),
        redirect_stderr(err),
        mock.patch.object(sys, "stdin", io.TextIOWrapper(given)),
    ):
        try:
            code = run(arguments)
        except SystemExit as left:
            assert isinstance(left.code, int), left.code
            code = left.code
    return subprocess.CompletedProcess([*NFTOP, *arguments], code, out.getvalue(), err.getvalue())


def wording(text: str, *paths: Path) -> str:
    """`text` for a snapshot: DIR instead of each of `paths`, TIME instead of a time of this run."""
    for path in paths:
        text = text.replace(str(path), "DIR")
    return re.sub(r"20\d\d-\d\d-\d\dT[\d:.]+Z", "TIME", text)


def lines_with(text: str | Iterable[str], key: str) -> list[str]:
    """The lines that contain `key`, for a snapshot of what a screen says of it."""
    lines = text.split("\n") if isinstance(text, str) else text
    picked = [line.strip() for line in lines if key in line]
    assert picked, f"no line has {key!r}"
    return picked
