"""Options of the interface: how it draws and what it may change."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

from nftop.control.gate_protocols import ClassGate
from nftop.control.profile.profile import Listing
from nftop.model.check import Check
from nftop.model.perf_tool import PerfTool
from nftop.model.struct import dataclass, field
from nftop.render.base.text import locale_is_utf8
from nftop.session.experiment import ExperimentHost
from nftop.session.feed import PastControl
from nftop.store.history.events import EventHistory
from nftop.store.recording.recorder import Recorder
from nftop.store.recording.sink import Sink
from nftop.store.user.chosen_columns import ColumnsFile
from nftop.store.user.rules import RulesFile
from nftop.ui.theme import ThemeChoice

ColorChoice = Literal["auto", "always", "never"]


@dataclass(frozen=True, slots=True)
class Options:
    """Options of the terminal application.

    Attributes:
        color: use colours; bold, dim and reverse are always used.
        theme: colours, see `theme.theme_name`.
        light_ground: COLORFGBG names a light background.
        ascii_only: draw ASCII characters only.
        utc: times of day are in UTC, not in the local zone.
        gate: changes the host that is shown; None: it cannot be changed.
        no_gate, no_frequencies: why classes, and frequencies, cannot be changed; "": they can.
        rw: editors are unlocked; `gate.apply` is called only then.
        profiles: profiles for the class editor, by name.
        recorder: records what is shown into a sink of `new_sink`; None: no recording.
        report: writes the report of a recording, by its name, beside it in a thread of its own, and
            calls its second argument there with a message; None: no reports.
        rules: keeps settings of rules that are made on screen; None: they last for the session.
        examine: all checks of the host, and what they are about; called in a thread, since it takes
            a second or more; None: a replay has no host.
        perf_tool: what perf(1) of the host can record; called in a thread; None: no live host.
        columns: keeps the columns chosen on screen; None: they last for the session.
        past: goes back in a live session; None: nothing is kept.
        events: what happened, for the timeline.
        message: shown at first, until a key.
        experiment_host: opens the host on which experiments run; None: the one that is shown.
    """

    color: bool = True
    theme: ThemeChoice = "auto"
    light_ground: bool = False
    ascii_only: bool = False
    utc: bool = True
    gate: ClassGate | None = None
    no_gate: str = ""
    no_frequencies: str = ""
    rw: bool = False
    profiles: Mapping[str, Listing] = field(default_factory=dict)
    recorder: Recorder | None = None
    new_sink: Callable[[], Sink] | None = None
    report: Callable[[str, Callable[[str], None]], None] | None = None
    rules: RulesFile | None = None
    examine: Callable[[], tuple[Sequence[Check], str]] | None = None
    perf_tool: Callable[[], PerfTool] | None = None
    columns: ColumnsFile | None = None
    past: PastControl | None = None
    events: EventHistory = field(default_factory=EventHistory)
    message: str = ""
    experiment_host: Callable[[], ExperimentHost] | None = None


def options_from(
    environ: Mapping[str, str],
    *,
    color: ColorChoice = "auto",
    theme: ThemeChoice = "auto",
    ascii_only: bool = False,
    utf8: bool | None = None,
) -> Options:
    """Options of this terminal.

    Args:
        environ: the environment; NO_COLOR counts where it is not empty (https://no-color.org).
            COLORFGBG is `foreground;background`, as rxvt, Konsole and others set it.
        color: `auto` obeys NO_COLOR.
        theme: see `theme.theme_name`.
        ascii_only: ASCII in any locale.
        utf8: whether the locale is UTF-8; None: detect.
    """
    quiet = color == "never" or (color == "auto" and bool(environ.get("NO_COLOR")))
    can_utf8 = locale_is_utf8(environ) if utf8 is None else utf8
    return Options(
        color=not quiet,
        theme=theme,
        light_ground=environ.get("COLORFGBG", "").rpartition(";")[2] in ("7", "15"),
        ascii_only=ascii_only or not can_utf8,
    )
