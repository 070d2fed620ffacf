"""Helpers run the same copy of nftop as their caller."""

from __future__ import annotations

from pathlib import Path

import nftop
from nftop.sources.runtime import helper


def test_a_helper_imports_this_copy_of_the_package() -> None:
    """Not one that happens to be installed for the same interpreter."""
    assert Path(nftop.__file__).resolve().parents[1] == helper.FOLDER
