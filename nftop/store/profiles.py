"""The operator's profiles of cache classes, as texts: what is in them is nobody's business here."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

from nftop.store.files import caller

FOLDER = Path("nftop/profiles")
_MOST = 64
_MOST_BYTES = 1 << 20


def folder_of(environ: Mapping[str, str]) -> Path:
    """Where they are: in the configuration folder (XDG) of whoever called nftop, sudo or not."""
    who = caller(environ)
    told = Path(environ.get("XDG_CONFIG_HOME", ""))
    if who is None and told.is_absolute():
        return told / FOLDER
    return (Path.home() if who is None else who.home) / ".config" / FOLDER


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
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or about.st_size > _MOST_BYTES:
            return None
        return os.pread(handle, _MOST_BYTES, 0).decode("utf-8", "replace")
    except OSError:
        return None
    finally:
        os.close(handle)
