"""The animated SVG of a cast."""

from __future__ import annotations

import json
from xml.etree import ElementTree as ET

import pytest

from screenshots.animation import animate, frames

HEAD = json.dumps({"version": 2, "width": 12, "height": 2, "title": "<b>"})
SVG = "{http://www.w3.org/2000/svg}"


def cast(*events: tuple[float, str, str]) -> list[str]:
    return [HEAD, *(json.dumps(event) for event in events)]


STORY = cast(
    (0.0, "m", "first & <second>"),
    (0.0, "o", "\x1b[H\x1b[38;2;255;0;0mred\x1b[0m  on"),
    (1.5, "o", "\x1b[H\x1b[38;2;255;0;0mred\x1b[0m  on"),
    (2.0, "o", "\x1b[2;1H<script>"),
    (5.0, "o", ""),
)


def test_a_frame_stays_until_the_screen_differs() -> None:
    shown = frames(STORY)
    assert [frame.hold_s for frame in shown] == [2.0, 3.0]
    assert shown[0].rows[0] == shown[1].rows[0]
    assert [text for text, _ in shown[0].rows[0]] == ["red", "  on".ljust(9)]
    assert shown[0].rows[0][0][1].ink == "#ff0000"


def test_rows_are_written_once_and_text_stays_text() -> None:
    picture = animate(STORY)
    tree = ET.fromstring(picture)
    ids = [group.get("id") for group in tree.iter(f"{SVG}g") if group.get("id")]
    assert len(ids) == len(set(ids)) == 3  # the first row, and the second one before and after
    used = [use.get("href") for use in tree.iter(f"{SVG}use")]
    assert len(used) == 4 and {f"#{name}" for name in ids} == set(used)
    assert not list(tree.iter(f"{SVG}script"))
    assert "first & <second>" in [text.text for text in tree.iter(f"{SVG}text")]
    assert "http" not in picture.replace("http://www.w3.org/2000/svg", "")


def test_the_film_takes_as_long_as_the_cast() -> None:
    picture = animate(STORY)
    assert "animation:film 5s infinite step-end" in picture
    assert "40.000%{transform" in picture


def test_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="format 2"):
        frames([json.dumps({"version": 1})])
