"""Baselines as plain values: in recordings, and in a file where the operator asks for one."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from nftop.model.baseline import Baselines
from nftop.store.files import Person, caller, create, make_folder

FOLDER = Path("nftop/baselines")
SCHEMA = "nftop.baselines/1"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
_MOST_BYTES = 1 << 24


def plain(baselines: Baselines | None) -> Any:
    """As maps and lists; None of none."""
    return msgspec.to_builtins(baselines)


def from_plain(found: Any) -> Baselines | None:
    """What `plain` gave. Raises ValueError: it is something else."""
    return msgspec.convert(found, Baselines | None)


def file_of(environ: Mapping[str, str], name: str) -> Path:
    """Where those of this name are: in the data folder (XDG) of whoever called nftop, sudo or not.

    Raises:
        ValueError: it is no name of a file.
    """
    if not _NAME.fullmatch(name):
        raise ValueError("a baseline's name has letters, digits, '.', '_' and '-' only")
    who = caller(environ)
    told = Path(environ.get("XDG_DATA_HOME", ""))
    if who is None and told.is_absolute():
        return told / FOLDER / f"{name}.json"
    home = Path.home() if who is None else who.home
    return home / ".local/share" / FOLDER / f"{name}.json"


def read_baselines(path: Path) -> Baselines | None:
    """What was kept there; None where nothing was.

    Raises:
        ValueError: the file makes no sense.
        OSError: it can't be read.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        found = msgspec.json.decode(os.pread(handle, _MOST_BYTES, 0))
    except msgspec.DecodeError as error:
        raise ValueError(f"it makes no sense: {error}") from None
    finally:
        os.close(handle)
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise ValueError(f"it is no file of baselines ({SCHEMA})")
    return from_plain(found.get("baselines"))


def write_baselines(path: Path, baselines: Baselines | None, who: Person | None) -> None:
    """Keep them there instead of what was; None: nothing. Raises OSError; the old file then stays.

    A reader sees the old file or the new one, whole.
    """
    make_folder(path.parent, who)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(FileNotFoundError):
        beside.unlink()
    handle = create(beside, who)
    try:
        data = msgspec.json.encode({"schema": SCHEMA, "baselines": plain(baselines)})
        with os.fdopen(handle, "wb") as file:
            file.write(data + b"\n")
        beside.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
