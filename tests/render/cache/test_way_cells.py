"""Cells of ways and the look of classes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nftop.model.rdt.rdt import ROOT
from nftop.render.base.line import Tone
from nftop.render.cache.way_cells import (
    HATCH,
    ClassStyle,
    WayState,
    device_cells,
    styles_of,
    way_numbers,
    way_span,
)
from tests.rdt import frame_of, table

GROUPS = frame_of(table(0)).groups
VPP = ClassStyle(1, "v")


def test_hue_and_letter_of_every_class_are_its_own() -> None:
    numbered = tuple(replace(group, clos=at) for at, group in enumerate(GROUPS))
    styles = styles_of(numbered, ["nftop.fast", "vpp"])
    assert [styles[group.name].number for group in GROUPS] == list(range(len(GROUPS)))
    assert styles["nftop.fast"] == ClassStyle(len(GROUPS), "f")
    assert styles[ROOT].letter == "d" and styles[ROOT].hue is Tone.CLASS1
    letters = [style.letter for style in styles.values()]
    assert len(set(letters)) == len(letters)


def test_a_hue_does_not_depend_on_what_the_kernel_numbers() -> None:
    unknown = tuple(replace(group, clos=None) for group in GROUPS)
    styles = styles_of(unknown)
    assert [style.number for style in styles.values()] == list(range(len(GROUPS)))
    assert styles_of(unknown, ["x"])[GROUPS[1].name] == styles[GROUPS[1].name]


def test_names_of_pqos_and_names_alike() -> None:
    names = [f"COS{number}" for number in range(1, 16)]
    assert "".join(style.letter for style in styles_of((), names).values()) == "123456789abcdef"
    alike = styles_of((), ["aa", "aaa", "a"])
    assert len({style.letter for style in alike.values()}) == 3


@given(st.lists(st.text(min_size=1), max_size=40, unique=True))
def test_any_names_have_letters_and_hues(names: list[str]) -> None:
    for style in styles_of((), names).values():
        assert len(style.letter) == 1 and (style.letter.isalnum() or style.letter == "?")
        assert style.hue.startswith("class")


@pytest.mark.parametrize(
    ("state", "cells"),
    [
        ("alone", (" v ", "v ", "v")),
        ("exclusive", (" V ", "V ", "V")),
        ("shared", (f"{HATCH}v{HATCH}", f"v{HATCH}", HATCH)),
        ("added", (" + ", "+ ", "+")),
        ("removed", (" - ", "- ", "-")),
        ("empty", (" · ", "· ", "·")),
    ],
)
def test_a_way_is_reported_by_its_glyph(state: WayState, cells: tuple[str, ...]) -> None:
    spans = [way_span(state, VPP, width) for width in (3, 2, 1)]
    assert tuple(span.text for span in spans) == cells
    selected = [way_span(state, VPP, width, selected=True).text for width in (3, 2)]
    assert selected[0][0] + selected[0][2] == "[]" and selected[1][1] == "]"
    assert len({way_span(item, VPP, 3).text for item in ("alone", "exclusive", "shared")}) == 3


def test_numbers_of_ways_take_two_lines_where_cells_are_narrow() -> None:
    assert way_numbers(11, 3) == ["10  9  8  7  6  5  4  3  2  1  0 "]
    assert way_numbers(20, 2) == [
        "1 1 1 1 1 1 1 1 1 1                     ",
        "9 8 7 6 5 4 3 2 1 0 9 8 7 6 5 4 3 2 1 0 ",
    ]
    assert way_numbers(11, 1, selected=4) == ["1          ", "098765▼3210"]
    assert way_numbers(8, 1) == ["76543210"]
    assert device_cells(0x600, 11, 1) == "II·········"
    assert device_cells(0x3, 4, 3) == " ·  ·  I  I "
