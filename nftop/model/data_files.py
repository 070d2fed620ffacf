"""Data files of the package, for tables that are no code."""

from __future__ import annotations

from importlib import resources


def data_file(package: str, name: str) -> bytes:
    """Content of a file in the folder of a package (its `__package__`)."""
    return (resources.files(package) / name).read_bytes()
