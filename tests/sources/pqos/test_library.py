"""Which binding fits which library, before a call into either."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from nftop.sources.pqos.library import unfit, unfit_library
from tests.command import wording

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("name", ["libpqos.so.4.3.0", "libpqos.so.4.5.0", "libpqos.so.4.4"])
def test_what_fits_fits(name: str) -> None:
    assert unfit_library(f"7f r-xp /usr/lib/{name}\n", (4, 5), (4, 3), (4, 5)) == ""


@pytest.mark.parametrize(
    ("maps", "words"),
    [
        ("7f r-xp /usr/lib/libpqos.so.4.2.0\n", "does not fit"),
        ("7f r-xp /usr/lib/libpqos.so.4.6.0\n", "does not fit"),
        ("7f r-xp /usr/lib/libpqos.so.5.0.0\n", "does not fit"),
        ("7f r-xp /usr/lib/libpqos.so.4\n", "has no version"),
        ("7f r-xp /usr/lib/libc.so.6\n", "has no version"),
    ],
)
def test_what_does_not_is_refused_with_the_reason(maps: str, words: str) -> None:
    assert words in unfit_library(maps, (4, 5), (4, 3), (4, 5))


def test_a_binding_that_is_missing_or_unknown_is_reported() -> None:
    assert "not installed" in unfit(None)
    assert "4.2 fits no libpqos" in unfit((4, 2))
    assert "6.0 fits no libpqos" in unfit((6, 0))


def test_another_library_of_the_same_name_is_refused(
    tmp_path: Path, snapshot: SnapshotAssertion
) -> None:
    """As the dynamic linker finds it: libpqos.so.4 is a link to a file of version 4.9.9."""
    ctypes.CDLL("libm.so.6")
    result = re.search(r"(/\S*/libm\.so\.6)$", Path("/proc/self/maps").read_text(), re.MULTILINE)
    assert result is not None
    shutil.copy(result[1], tmp_path / "libpqos.so.4.9.9")
    (tmp_path / "libpqos.so.4").symlink_to("libpqos.so.4.9.9")
    program = "from nftop.sources.pqos.library import unfit; print(unfit((4, 5)))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert wording(done.stdout, tmp_path) == snapshot
