"""Tables of papers are read after the first frame, and painting opens no file."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import pytest

from nftop.cli.commands import live
from nftop.papers.rows import rows
from nftop.render.base.text import wide_cells
from nftop.store.history.rings import TickHistory
from nftop.ui import app
from nftop.ui.options import Options
from tests.frames import frame
from tests.ui.feeds import StepFeed


class BuiltError(Exception):
    """Carries whether the rows were there."""


def test_the_application_reads_papers_after_its_first_frame(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def build(*_: object, later: Sequence[Callable[[], object]], **__: object) -> None:
        # The table of widths has been read: the first frame has wide characters.
        wide, before = wide_cells.cache_info().currsize, rows.cache_info().currsize
        for step in later:
            step()
        raise BuiltError(f"{wide} {before} {rows.cache_info().currsize}")

    monkeypatch.setattr(app, "NftopApp", build)
    monkeypatch.setattr(sys, "__stderr__", sys.__stderr__)  # `screen` sets it
    rows.cache_clear()
    wide_cells.cache_clear()
    with pytest.raises(BuiltError, match="1 0 1"):
        live.screen(StepFeed(frame(8)), TickHistory(), Options())
