"""Files of the operator's configuration folder (XDG)."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

from nftop.model.terminal_text import safe_line
from nftop.store.folders import Folder, Person, caller, naming, open_file, open_folder

_MOST_BYTES = 1 << 20
MOST_CONFIG_BYTES = 1 << 18  # of config.toml: 3,000 hosts of a fleet


def config_folder(environ: Mapping[str, str]) -> Path:
    """Configuration folder of the invoking user, sudo or not; it need not exist."""
    owner = caller(environ)
    config_home = Path(environ.get("XDG_CONFIG_HOME", ""))
    if owner is None and config_home.is_absolute():
        return config_home / "nftop"
    return (Path.home() if owner is None else owner.home) / ".config/nftop"


def read_text(path: Path, most_bytes: int = _MOST_BYTES) -> str:
    """Text of a regular file; never waits for a pipe or device.

    Raises:
        OSError: it can't be read.
        ValueError: it is no regular file, or longer than `most_bytes`.
    """
    return text_of(open_file(path), most_bytes)


def toml_text(text: str, *, ascii_only: bool = False) -> str:
    """A TOML basic string; what is unsafe on a terminal is escaped, or all that is not ASCII."""
    return f'"{"".join(_escaped(char, ascii_only=ascii_only) for char in text)}"'


def _escaped(char: str, *, ascii_only: bool) -> str:
    safe = char.isascii() and char.isprintable() if ascii_only else safe_line(char) == char
    if safe and char not in '"\\':
        return char
    code = ord(char)
    return f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"


def replace_file(path: Path, data: bytes, owner: Person | None) -> None:
    """Replace a file atomically; its folder is made. Raises OSError: the old file stays.

    `owner`: of new files and folders; None: the process' user.
    """
    with open_folder(path.parent, make_for=owner, make=True) as folder, naming(path):
        temporary = f".{path.name}.{os.getpid()}"
        folder.remove(temporary)
        handle = folder.create(temporary, owner)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())  # or a power cut may leave the new name with nothing in it
            folder.move(temporary, path.name)
        except OSError:
            with contextlib.suppress(OSError):
                folder.remove(temporary)
            raise


def text_of(handle: int, most_bytes: int = _MOST_BYTES) -> str:
    """Text of an open file, which is closed. Raises OSError, ValueError as `read_text`."""
    try:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode):
            raise ValueError("it is no plain file")
        data = os.pread(handle, most_bytes + 1, 0)
        if about.st_size > most_bytes or len(data) > most_bytes:
            raise ValueError(f"it is longer than {most_bytes >> 10} KiB")
        return data.decode("utf-8", "replace")
    finally:
        os.close(handle)


_MOST = 64


def folder_of(environ: Mapping[str, str]) -> Path:
    return config_folder(environ) / "profiles"


def read_profiles(folder: Path) -> dict[str, str]:
    """Texts by file name, ascending; files that can't be read or are not regular are left out."""
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
