"""A small disk that can be filled: a tmpfs of its own."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

PAGE = os.sysconf("SC_PAGE_SIZE")


class SmallDisk:
    """A mounted disk; `folder` is its root."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._ballast = folder / "ballast"

    def fill(self, room_pages: int = 0) -> None:
        """Take all space but so many pages."""
        self.free()
        with self._ballast.open("wb", buffering=0) as file:
            with suppress(OSError):
                while True:
                    file.write(bytes(PAGE))
            file.truncate(max(0, file.tell() - room_pages * PAGE))

    def free(self) -> None:
        self._ballast.unlink(missing_ok=True)

    def names(self) -> set[str]:
        """What is on it beside the ballast."""
        return {path.name for path in self.folder.iterdir()} - {self._ballast.name}


@contextmanager
def small_disk(parent: Path, size_bytes: int) -> Iterator[SmallDisk]:
    """Mount one; the test is skipped where that is not allowed."""
    if os.geteuid() != 0:
        pytest.skip("needs root to mount a small tmpfs")
    folder = parent / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size_bytes},mode=700", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"can't mount a tmpfs here: {mounted.stderr.decode().strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)
