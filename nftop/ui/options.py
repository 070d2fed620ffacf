"""How the interface may draw and what it may change, from what the operator says."""

from __future__ import annotations

import locale
import sys
from collections.abc import Callable, Mapping
from typing import Literal

from nftop.control.interface import ClassGate
from nftop.control.profile.profile import Listing
from nftop.model.struct import dataclass, field
from nftop.store.recording.recorder import Recorder
from nftop.store.recording.sink import Sink

ColorChoice = Literal["auto", "always", "never"]


@dataclass(frozen=True, slots=True)
class Options:
    """Attributes.

    color: draw in colours; bold, dim and reverse are used either way.
    ascii_only: draw with ASCII characters only.
    gate: changes of the host that is shown; None where there can be none.
    no_gate, no_frequencies: why its classes, and its frequencies, can't be changed; "" where they
        can.
    rw: the operator unlocked the editors: only then does anything call `gate.apply`.
    profiles: what the editor can take into its draft, by name.
    recorder: what is shown can be recorded with it, into what `new_sink` makes; None: it can't.
    """

    color: bool = True
    ascii_only: bool = False
    gate: ClassGate | None = None
    no_gate: str = ""
    no_frequencies: str = ""
    rw: bool = False
    profiles: Mapping[str, Listing] = field(default_factory=dict)
    recorder: Recorder | None = None
    new_sink: Callable[[], Sink] | None = None


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
