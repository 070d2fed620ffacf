"""Imports without another module."""

from __future__ import annotations

import importlib
import sys

import pytest

from nftop.model.absent import without


def test_a_module_can_t_be_imported_inside_and_can_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    with without("colorsys"), pytest.raises(ImportError):
        importlib.import_module("colorsys")
    assert importlib.import_module("colorsys").rgb_to_yiq(0, 0, 0) == (0, 0, 0)


def test_a_module_that_was_imported_stays() -> None:
    before = sys.modules["sys"]
    with without("sys"):
        assert importlib.import_module("sys") is before
    assert sys.modules["sys"] is before
