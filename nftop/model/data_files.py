"""Data files of the package, for tables that are no code.

`importlib.resources` would import `tempfile`, `zipfile` and what these need.
"""

from __future__ import annotations

import sys
from pathlib import Path


def data_file(package: str, name: str) -> bytes:
    """Content of a file in the folder of a package (its `__package__`)."""
    return (_folder(package) / name).read_bytes()


def data_names(package: str, folder: str) -> list[str]:
    """Names of the files in a folder of a package's."""
    return [entry.name for entry in (_folder(package) / folder).iterdir()]


def _folder(package: str) -> Path:
    return Path(sys.modules[package].__path__[0])
