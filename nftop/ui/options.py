"""How the interface may draw, from what the operator and the environment say."""

from __future__ import annotations

import locale
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

ColorChoice = Literal["auto", "always", "never"]


@dataclass(frozen=True, slots=True)
class Options:
    """Attributes.

    color: draw in colours; bold, dim and reverse are used either way.
    ascii_only: draw with ASCII characters only.
    """

    color: bool = True
    ascii_only: bool = False


def options_from(
    environ: Mapping[str, str],
    *,
    color: ColorChoice = "auto",
    ascii_only: bool = False,
    utf8: bool | None = None,
) -> Options:
    """Options of this terminal.

    Args:
        environ: the environment; NO_COLOR counts where it is not empty (https://no-color.org).
        color: `auto` heeds NO_COLOR.
        ascii_only: ASCII whatever the locale.
        utf8: whether the locale is UTF-8; asks Python's locale if not given.
    """
    quiet = color == "never" or (color == "auto" and bool(environ.get("NO_COLOR")))
    can_utf8 = locale_is_utf8(environ) if utf8 is None else utf8
    return Options(color=not quiet, ascii_only=ascii_only or not can_utf8)


def locale_is_utf8(environ: Mapping[str, str]) -> bool:
    """Whether the terminal's locale says UTF-8.

    Python turns its UTF-8 mode on by itself where the locale is C or POSIX (PEP 540) and then says
    UTF-8 of a terminal that may not be.
    """
    by_itself = sys.flags.utf8_mode and environ.get("PYTHONUTF8") != "1"
    return not by_itself and locale.nl_langinfo(locale.CODESET).upper() == "UTF-8"
