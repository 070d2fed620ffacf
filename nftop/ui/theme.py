"""Themes: the look of every tone, registered with Textual.

A theme gives each token a colour (`Theme.variables`, named `nf-TOKEN`), from which the look of the
tones is derived. `dark` and `light` have colours of their own; `ansi` has the terminal's sixteen;
`mono` has none. States differ in more than hue: good is bluish, bad reddish, and every state also
has a glyph, a letter or bold text.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Literal

from rich.style import Style
from textual.color import Color
from textual.theme import BUILTIN_THEMES, Theme

from nftop.render.base.line import CLASS_HUES, Tone

ThemeChoice = Literal["auto", "dark", "light", "ansi"]
PREFIX = "nf-"

_DARK = {
    "bg": "#0f1318", "surface": "#1b222b", "fg": "#d3dae2", "strong": "#ffffff",
    "muted": "#84909d", "faint": "#46515d", "accent": "#5fd0e0", "good": "#2fd0a4",
    "warn": "#ffb53d", "bad": "#ff6257", "selection": "#27425f", "pending": "#ffe600",
    "pending-fg": "#000000", "pending-text": "#ffe600", "on-class": "#0b0f14",
    "class1": "#76828f", "class2": "#4f9dff", "class3": "#c4b0ff", "class4": "#ff8fcd",
    "class5": "#a5e9ff", "class6": "#f4f0b0", "class7": "#a08470", "class8": "#b4e86e",
    "tma-f": "#4a3f1d", "tma-b": "#4d2b33", "tma-m": "#283a63", "tma-c": "#1f4a50",
    "tma-r": "#222b35",
}  # fmt: skip
_LIGHT = {
    "bg": "#fcfcfa", "surface": "#e9edf1", "fg": "#1f252c", "strong": "#000000",
    "muted": "#5d6873", "faint": "#b4bdc6", "accent": "#00687d", "good": "#007866",
    "warn": "#8f5300", "bad": "#c2182b", "selection": "#cbe1f7", "pending": "#ffb300",
    "pending-fg": "#000000", "pending-text": "#8f5300", "on-class": "#ffffff",
    "class1": "#4d5761", "class2": "#1769e0", "class3": "#6a2fc9", "class4": "#cf2c88",
    "class5": "#0a5566", "class6": "#7d7000", "class7": "#6b3413", "class8": "#2f6b1a",
    "tma-f": "#f3e3b0", "tma-b": "#f4cfd4", "tma-m": "#c9d8f6", "tma-c": "#bfe3e4",
    "tma-r": "#e6eaee",
}  # fmt: skip
# The terminal's own, on its own ground. Muted and faint are dim text.
_ANSI = dict.fromkeys(_DARK, "ansi_default") | {
    "accent": "ansi_cyan",
    "good": "ansi_green",
    "warn": "ansi_yellow",
    "bad": "ansi_red",
    "pending": "ansi_bright_yellow",
    "pending-fg": "ansi_black",
    "pending-text": "ansi_yellow",
    "on-class": "ansi_black",
    "class2": "ansi_bright_blue",
    "class3": "ansi_magenta",
    "class4": "ansi_bright_magenta",
    "class5": "ansi_bright_cyan",
    "class6": "ansi_bright_yellow",
    "class7": "ansi_yellow",
    "class8": "ansi_bright_green",
    "tma-f": "ansi_yellow",
    "tma-b": "ansi_magenta",
    "tma-m": "ansi_bright_blue",
    "tma-c": "ansi_cyan",
}
_MONO = dict.fromkeys(_DARK, "ansi_default")

_BOLD = (Tone.STRONG, Tone.ACCENT, Tone.BAD, Tone.WARN, Tone.PENDING_TEXT)  # without colours
_STATES = ("accent", "good", "warn", "bad")
_LETTERS = {
    Tone.FRONTEND: "tma-f",
    Tone.SPECULATION: "tma-b",
    Tone.BACKEND: "tma-m",
    Tone.MEMORY: "tma-m",
    Tone.CORE: "tma-c",
    Tone.RETIRING: "tma-r",
}


def _theme(name: str, tokens: Mapping[str, str], *, dark: bool, ansi: bool) -> Theme:
    return Theme(
        name=name,
        primary=tokens["accent"],
        secondary=tokens["class2"],
        warning=tokens["warn"],
        error=tokens["bad"],
        success=tokens["good"],
        accent=tokens["accent"],
        foreground=tokens["fg"],
        background=tokens["bg"],
        surface=tokens["surface"],
        panel=tokens["surface"],
        boost=tokens["surface"],
        dark=dark,
        ansi=ansi,
        variables={
            # Textual's own rules for terminals' colours need variables that only these themes have.
            **(BUILTIN_THEMES["ansi-dark"].variables if ansi else {}),
            **{f"{PREFIX}{token}": value for token, value in tokens.items()},
        },
    )


THEMES: tuple[Theme, ...] = (
    _theme("dark", _DARK, dark=True, ansi=False),
    _theme("light", _LIGHT, dark=False, ansi=False),
    _theme("ansi", _ANSI, dark=True, ansi=True),
    _theme("mono", _MONO, dark=True, ansi=True),
)
VARIABLES: Mapping[str, str] = THEMES[0].variables


def theme_name(
    choice: ThemeChoice, color_system: str | None, *, color: bool, light_ground: bool
) -> str:
    """Name of the theme for this terminal.

    Args:
        choice: `auto` is `ansi` with 16 colours or fewer, else `light` or `dark` by the ground.
        color_system: Rich's name of what the terminal can show; None: no colours.
        color: whether colours are wanted.
        light_ground: the terminal's background is known to be light.
    """
    if not color:
        return "mono"
    if choice != "auto":
        return choice
    if color_system not in ("256", "truecolor"):
        return "ansi"
    return "light" if light_ground else "dark"


@lru_cache(maxsize=8)
def tone_styles(theme: str) -> Mapping[Tone, Style]:
    """Style of each tone in a theme of nftop (`dark` for others); no colour: that of the ground."""
    variables = {item.name: item.variables for item in THEMES}.get(theme, VARIABLES)
    tokens = {token: variables[f"{PREFIX}{token}"] for token in _DARK}
    if theme == "mono":
        return _mono()
    return _ansi(tokens) if theme == "ansi" else _full(tokens)


def _full(tokens: Mapping[str, str]) -> Mapping[Tone, Style]:
    """Looks in colours of the theme's own."""

    def on(ground: str, text: str = "", *, bold: bool = False) -> Style:
        return _style(tokens[text] if text else "", tokens[ground], bold=bold)

    result = {
        Tone.PLAIN: Style.null(),
        Tone.STRONG: _style(tokens["strong"], bold=True),
        Tone.MUTED: _style(tokens["muted"]),
        Tone.MISSING: _style(tokens["muted"]),
        Tone.FAINT: _style(tokens["faint"]),
        Tone.AREA: _style(tokens["accent"]),
        Tone.HEADER: on("surface", "muted"),
        Tone.FOOTER: on("surface", "muted"),
        Tone.SELECTION: on("selection"),
        Tone.PENDING: on("pending", "pending-fg", bold=True),
        Tone.PENDING_TEXT: _style(tokens["pending-text"], bold=True),
        Tone.PAST: on("accent", "bg", bold=True),
        Tone.TAB: on("accent", "bg", bold=True),
        Tone.BADGE: on("bad", "on-class", bold=True),
        Tone.LIT: on("bad", "on-class", bold=True),
    }
    for tone, ground in _LETTERS.items():
        result[tone] = on(ground, "muted" if tone is Tone.RETIRING else "fg")
    for state in _STATES:
        result[Tone(state)] = _style(tokens[state], bold=True)
        result[Tone(f"{state}-dim")] = _style(_mix(tokens[state], tokens["bg"], 0.5))
    for at in range(1, CLASS_HUES + 1):
        hue = f"class{at}"
        shade = _mix(tokens[hue], tokens["bg"], 0.25)
        result[Tone(hue)] = _style(tokens[hue])
        result[Tone(f"{hue}-on")] = on(hue, "on-class", bold=True)
        result[Tone(f"{hue}-shared")] = _style(tokens[hue], shade, bold=True)
        result[Tone(f"{hue}-dim")] = _style(_mix(tokens[hue], tokens["bg"], 0.5))
    return result


def _ansi(tokens: Mapping[str, str]) -> Mapping[Tone, Style]:
    """Looks in the terminal's sixteen colours."""
    result = {
        **_mono(),
        Tone.AREA: _style(tokens["accent"]),
        Tone.PENDING: _style(tokens["pending-fg"], tokens["pending"], bold=True),
        Tone.PENDING_TEXT: _style(tokens["pending-text"], bold=True),
        Tone.PAST: _style("ansi_black", tokens["accent"], bold=True),
        Tone.TAB: _style("ansi_black", tokens["accent"], bold=True),
        Tone.BADGE: _style("ansi_black", tokens["bad"], bold=True),
        Tone.LIT: _style("ansi_black", tokens["bad"], bold=True),
    }
    for tone, ground in _LETTERS.items():
        result[tone] = _style(tokens[ground])
    for state in _STATES:
        result[Tone(state)] = _style(tokens[state], bold=True)
        result[Tone(f"{state}-dim")] = _style(tokens[state])
    for at in range(1, CLASS_HUES + 1):
        hue = f"class{at}"
        result[Tone(hue)] = _style(tokens[hue])
        result[Tone(f"{hue}-shared")] = _style(tokens[hue])
        result[Tone(f"{hue}-dim")] = _style(tokens[hue]) + Style(dim=True)
        if tokens[hue] != "ansi_default":
            result[Tone(f"{hue}-on")] = _style(tokens["on-class"], tokens[hue], bold=True)
    return result


def _mono() -> Mapping[Tone, Style]:
    """Looks without colours: bold, dim, underlined, reverse."""
    plain, bold, dim = Style.null(), Style(bold=True), Style(dim=True)
    loud = Style(bold=True, reverse=True)
    result = dict.fromkeys(Tone, plain)
    result |= dict.fromkeys(_BOLD, bold)
    result |= dict.fromkeys((Tone.MUTED, Tone.MISSING, Tone.FAINT), dim)
    result |= dict.fromkeys((Tone.PENDING, Tone.PAST, Tone.TAB, Tone.BADGE, Tone.LIT), loud)
    result |= {tone: loud for tone in Tone if tone.endswith("-on")}
    result[Tone.HEADER] = Style(bold=True, underline=True)
    result[Tone.SELECTION] = Style(reverse=True)
    return result


def _style(color: str, ground: str = "", *, bold: bool = False) -> Style:
    return Style(
        color=Color.parse(color).rich_color if color else None,
        bgcolor=Color.parse(ground).rich_color if ground else None,
        bold=True if bold else None,
    )


def _mix(color: str, ground: str, share: float) -> str:
    """`share` of a colour over a ground."""
    return Color.parse(ground).blend(Color.parse(color), share).hex
