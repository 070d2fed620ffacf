"""What papers measured is read before the screen is drawn: painting reads no file."""

from __future__ import annotations

import sys

import pytest

from nftop.cli.commands import live
from nftop.papers.rows import rows
from nftop.store.history.rings import TickHistory
from nftop.ui import app
from nftop.ui.options import Options
from tests.frames import frame
from tests.ui.feeds import StepFeed


class BuiltError(Exception):
    """Carries whether the rows were there."""


def test_papers_are_read_before_the_application_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    def build(*_: object, **__: object) -> None:
        raise BuiltError(rows.cache_info().currsize)

    monkeypatch.setattr(app, "NftopApp", build)
    monkeypatch.setattr(sys, "__stderr__", sys.__stderr__)  # `screen` sets it
    rows.cache_clear()
    with pytest.raises(BuiltError, match="1"):
        live.screen(StepFeed(frame(8)), TickHistory(), Options())
