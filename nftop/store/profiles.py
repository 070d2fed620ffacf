"""The operator's profiles of cache classes, as texts: what is in them is nobody's business here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from nftop.store.own import config_folder, read_text

_MOST = 64


def folder_of(environ: Mapping[str, str]) -> Path:
    """Where they are."""
    return config_folder(environ) / "profiles"


def read_profiles(folder: Path) -> dict[str, str]:
    """Their texts by file name, ascending; what can't be read or is no plain file is left out."""
    try:
        names = sorted(each.name for each in folder.iterdir())
    except OSError:
        return {}
    found: dict[str, str] = {}
    for name in names[:_MOST]:
        text = _text(folder / name)
        if text is not None and name.isprintable():
            found[name] = text
    return found


def _text(path: Path) -> str | None:
    try:
        return None if path.is_symlink() else read_text(path)
    except (OSError, ValueError):
        return None
