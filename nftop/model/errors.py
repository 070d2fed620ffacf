"""What went wrong, as an operator reads it."""

from __future__ import annotations


def said(error: BaseException) -> str:
    """A sentence of it, without Python's own words where the error is the system's or nftop's.

    It may have a path in it, and is as trusted as that.
    """
    if isinstance(error, OSError):
        why = error.strerror or str(error) or "it failed"
        return f"{error.filename}: {why}" if isinstance(error.filename, str) else why
    if type(error).__module__.startswith("nftop."):
        return str(error)
    return f"nftop's own fault: {type(error).__name__}: {error}"
