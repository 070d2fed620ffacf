"""Baselines as plain values, in recordings and in a file named by the operator."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from nftop.model.baseline import Baselines
from nftop.model.sample_bounds import check_all
from nftop.model.topology import Host
from nftop.store.folders import Person, caller, open_file
from nftop.store.user.config_dir import replace_file

FOLDER = Path("nftop/baselines")
SCHEMA = "nftop.baselines/1"
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,63}")
# 512 CPUs take 300 kB. JSON of empty objects takes 25 times as much in memory.
_MOST_BYTES = 1 << 22


def plain(baselines: Baselines | None) -> Any:
    return msgspec.to_builtins(baselines)


def from_plain(raw: Any) -> Baselines | None:
    """The reverse of `plain`. Raises ValueError."""
    baselines = msgspec.convert(raw, Baselines | None)
    check_all(baselines)
    return baselines


def file_of(environ: Mapping[str, str], name: str) -> Path:
    """Path of the baselines of this name in the data folder (XDG) of the invoking user.

    Raises ValueError: it is not a valid name.
    """
    if not _NAME.fullmatch(name):
        raise ValueError("a baseline's name has letters, digits, '.', '_' and '-' only")
    owner = caller(environ)
    data_home = Path(environ.get("XDG_DATA_HOME", ""))
    if owner is None and data_home.is_absolute():
        return data_home / FOLDER / f"{name}.json"
    home = Path.home() if owner is None else owner.home
    return home / ".local/share" / FOLDER / f"{name}.json"


def _named(host: Host) -> str:
    """Host name in the file; that of a simulated or remote host begins with its badge."""
    return f"{host.badge} {host.name}".strip().encode("utf-8", "replace").decode()


def read_baselines(path: Path, host: Host) -> Baselines | None:
    """Baselines of this host in a file; None if there is no file.

    Raises:
        ValueError: the file is invalid, or of another host.
        OSError: it can't be read.
    """
    try:
        handle = open_file(path, follow=False)
    except FileNotFoundError:
        return None
    try:
        data = os.pread(handle, _MOST_BYTES + 1, 0)
        if len(data) > _MOST_BYTES:
            raise ValueError(f"it is longer than {_MOST_BYTES >> 20} MiB")
        raw = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"it makes no sense: {error}") from None
    finally:
        os.close(handle)
    if not isinstance(raw, dict) or raw.get("schema") != SCHEMA:
        raise ValueError(f"it is no file of baselines ({SCHEMA})")
    if raw.get("host") != _named(host):
        raise ValueError(
            f"it is of another host than this one ({_named(host)}): choose another name"
        )
    return from_plain(raw.get("baselines"))


def write_baselines(
    path: Path, host: Host, baselines: Baselines | None, owner: Person | None
) -> None:
    """Replace the file atomically. Raises OSError; the old file then remains."""
    about = {"schema": SCHEMA, "host": _named(host)}
    data = msgspec.json.encode({**about, "baselines": plain(baselines)})
    replace_file(path, data + b"\n", owner)
