"""nftop, and other programs in Python, as somebody starts them."""

from __future__ import annotations

import subprocess
import sys

NFTOP = [sys.executable, "-m", "nftop"]
PATIENCE_S = 60.0


def nftop(*arguments: str, text: str | bytes = "") -> subprocess.CompletedProcess[str]:
    """From beginning to end, with `text` on its standard input."""
    return _run([*NFTOP, *arguments], text)


def python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A program of its own, which inherits nothing that this one has imported."""
    return _run([sys.executable, "-c", code, *arguments])


def _run(command: list[str], text: str | bytes = "") -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command,
        input=text.encode() if isinstance(text, str) else text,
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    out, err = done.stdout.decode(), done.stderr.decode()
    return subprocess.CompletedProcess(command, done.returncode, out, err)
