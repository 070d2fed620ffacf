"""Files that an operator asked for by name."""

from __future__ import annotations

import os
from pathlib import Path

from nftop.store.files import caller, create


def write_new(path: Path, text: str) -> None:
    """Write a file that was not there, that all may read; its owner is as `create` has it.

    Raises:
        OSError: it is there already, or can't be written; nothing is left of it then.
    """
    handle = create(path, caller(os.environ), 0o644)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
            file.write(text)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
