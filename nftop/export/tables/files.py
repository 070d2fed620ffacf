"""Files that an operator has named on the command line."""

from __future__ import annotations

import os
from pathlib import Path

from nftop.store.folders import caller, open_folder


def write_new(path: Path, text: str) -> None:
    """Write a file that was not there, that all may read; its owner is as `create` has it.

    Raises:
        OSError: it is there already, or can't be written; nothing is left of it then.
    """
    with open_folder(path.parent) as folder:
        handle = folder.create(path.name, caller(os.environ), 0o644)
        try:
            with os.fdopen(handle, "w", encoding="utf-8", newline="") as file:
                file.write(text)
        except BaseException:
            folder.remove(path.name)
            raise
