"""nftop's own lock for a backend without one: a file in the journal's folder."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path

from nftop.control.backend import LockedError

_PAUSE_S = 0.005


@contextlib.contextmanager
def own_lock(folder: Path, name: str, limit_s: float) -> Iterator[None]:
    """Hold the lock. Raises LockedError, OSError."""
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    handle = os.open(folder / name, flags, 0o600)
    try:
        deadline = time.monotonic() + limit_s
        while not _taken(handle):
            if time.monotonic() >= deadline:
                raise LockedError(f"another program has held {name} for {limit_s:g} s")
            time.sleep(_PAUSE_S)
        yield
    finally:
        os.close(handle)  # which lets go of it


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
