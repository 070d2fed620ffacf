"""Looks of the tones: every tone in every theme, states apart for red-green blindness."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
from rich.style import Style
from textual.color import Color

from nftop.render.base.line import Tone, class_tone
from nftop.ui.options import Options
from nftop.ui.theme import THEMES, ThemeChoice, theme_name, tone_styles
from tests.frames import frame
from tests.ui.harness import running

NAMES = [theme.name for theme in THEMES]
OWN = ["dark", "light"]
# Viénot, Brettel, Mollon 1999: linear RGB as seen without red, and without green, cones.
BLIND = {
    "protan": ((0.11238, 0.88762, 0.0), (0.11238, 0.88762, 0.0), (0.00401, -0.00401, 1.0)),
    "deutan": ((0.29275, 0.70725, 0.0), (0.29275, 0.70725, 0.0), (-0.02234, 0.02234, 1.0)),
}


def seen(color: Color, kind: str) -> tuple[float, float, float]:
    """L*, a*, b* of a colour under a colour blindness."""
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (color.r / 255, color.g / 255, color.b / 255)
    ]
    red, green, blue = (
        max(0.0, sum(k * c for k, c in zip(row, linear, strict=True))) for row in BLIND[kind]
    )
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.95047
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.08883
    fx, fy, fz = (t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116 for t in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


@pytest.mark.parametrize("name", NAMES)
def test_every_tone_has_a_style(name: str) -> None:
    assert set(tone_styles(name)) == set(Tone)


@pytest.mark.parametrize("name", OWN)
@pytest.mark.parametrize("kind", list(BLIND))
def test_states_differ_for_the_colour_blind(name: str, kind: str) -> None:
    tokens = {theme.name: theme.variables for theme in THEMES}[name]
    good, bad = (seen(Color.parse(tokens[f"nf-{token}"]), kind) for token in ("good", "bad"))
    assert math.dist(good, bad) > 18


@pytest.mark.parametrize("name", OWN)
def test_text_is_readable_on_its_ground(name: str) -> None:
    tokens = {theme.name: theme.variables for theme in THEMES}[name]
    ground = Color.parse(tokens["nf-bg"])
    for token in ("fg", "strong", "muted", "accent", "good", "warn", "bad"):
        color = Color.parse(tokens[f"nf-{token}"])
        lighter, darker = sorted((_luminance(color), _luminance(ground)), reverse=True)
        assert (lighter + 0.05) / (darker + 0.05) >= 4.5, token


def _luminance(color: Color) -> float:
    segments = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4
        for c in (color.r / 255, color.g / 255, color.b / 255)
    ]
    return 0.2126 * segments[0] + 0.7152 * segments[1] + 0.0722 * segments[2]


@pytest.mark.parametrize("name", NAMES)
def test_grounds_and_states_differ_from_text(name: str) -> None:
    grounds = (Tone.SELECTION, Tone.PENDING, Tone.HEADER, Tone.PLAIN)
    for one, two in combinations(grounds, 2):
        assert tone_styles(name)[one] != tone_styles(name)[two]
    for state in (Tone.BAD, Tone.WARN, Tone.ACCENT):
        assert tone_styles(name)[state].bold
        assert tone_styles(name)[state] != tone_styles(name)[Tone.PLAIN]


def test_no_colour_means_no_colour() -> None:
    assert all(
        style.color is None and style.bgcolor is None for style in tone_styles("mono").values()
    )


def test_classes_have_hues_that_repeat_without_the_root_class() -> None:
    assert class_tone(0) is Tone.CLASS1
    assert [class_tone(number) for number in (1, 7, 8)] == [Tone.CLASS2, Tone.CLASS8, Tone.CLASS2]
    assert class_tone(2, "_SHARED") is Tone.CLASS3_SHARED
    assert class_tone(None) is Tone.MUTED


@pytest.mark.parametrize(
    ("choice", "system", "color", "light", "expected"),
    [
        ("auto", "truecolor", True, False, "dark"),
        ("auto", "256", True, True, "light"),
        ("auto", "standard", True, True, "ansi"),
        ("light", "standard", True, False, "light"),
        ("dark", "truecolor", False, False, "mono"),
    ],
)
def test_the_theme_of_a_terminal(
    choice: ThemeChoice, system: str, color: bool, light: bool, expected: str
) -> None:
    assert theme_name(choice, system, color=color, light_ground=light) == expected


@pytest.mark.parametrize("choice", ["dark", "light", "ansi"])
async def test_the_application_draws_in_it(choice: ThemeChoice) -> None:
    async with running(frame(8), options=Options(theme=choice)) as run:
        header = [style for row in run.rows for text, style in row if "THREAD" in text]
        assert header and all(_has(style, tone_styles(choice)[Tone.HEADER]) for style in header)
        grounds = {style.bgcolor for _, style in run.rows[-1]}
        of_footer, of_table = (
            tone_styles(choice)[Tone.FOOTER].bgcolor,
            tone_styles(choice)[Tone.HEADER].bgcolor,
        )
        assert of_footer == of_table and (of_footer is None or grounds == {of_footer})


def _has(style: Style, wanted: Style) -> bool:
    return style.color == (wanted.color or style.color) and style.bold == wanted.bold
