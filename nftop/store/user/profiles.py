"""The operator's profiles of cache classes, as texts; `control.profile` parses them."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from nftop.store.folders import Folder, open_folder
from nftop.store.user.config_dir import config_folder, text_of

_MOST = 64


def folder_of(environ: Mapping[str, str]) -> Path:
    """Where they are."""
    return config_folder(environ) / "profiles"


def read_profiles(folder: Path) -> dict[str, str]:
    """Their texts by file name, ascending; what can't be read or is no plain file is left out."""
    result: dict[str, str] = {}
    with contextlib.suppress(OSError), open_folder(folder) as opened:
        for name in opened.names()[:_MOST]:
            text = _text(opened, name)
            if text is not None and name.isprintable():
                result[name] = text
    return result


def _text(folder: Folder, name: str) -> str | None:
    try:
        return text_of(folder.open_file(name))
    except (OSError, ValueError):
        return None
