"""What `e` leads to from the main screen: the editor of classes, or what can be done about a core.

Each opens its screen, or says why there is none.
"""

from __future__ import annotations

from nftop.model.frame import Frame
from nftop.render.base.text import printable
from nftop.ui.editor_model import Desk
from nftop.ui.options import Options
from nftop.ui.screens.base import BannerScreen
from nftop.ui.screens.editor import EditorScreen
from nftop.ui.screens.priority import PriorityScreen
from nftop.ui.screens.view import ScreenView
from nftop.ui.session_view import Watch

_NOTHING = "nothing here changes them"


# The sources of classes, the first that a host has.
_OF_CLASSES = ("pqos", "resctrl")


def _untold(frame: Frame | None) -> str:
    """Why the frame shows no class; "" where it does, or there is none yet."""
    if frame is None or frame.groups:
        return ""
    told = (frame.sources[name] for name in _OF_CLASSES if name in frame.sources)
    return next((printable(item.detail) for item in told if item.reason), "")


class Editing:
    """Keeps the draft of classes that an editor was left with."""

    def __init__(self, main: BannerScreen[None], watch: Watch, options: Options) -> None:
        self._main = main
        self._watch = watch
        self._options = options
        self._desk: Desk | None = None

    def classes(self, view: ScreenView) -> str:
        """The editor of cache classes, at what the view shows."""
        gate, options = self._main.changes.gate, self._options
        if gate is None or options.no_gate:
            return f"no classes to edit: {options.no_gate or _NOTHING}"
        untold = _untold(self._watch.newest)
        if untold:
            return f"no classes to edit: {untold}"
        group, l3 = view.edited
        screen = EditorScreen(
            gate, self._main.changes, self._watch, options, group=group, l3=l3, desk=self._desk
        )
        self._main.app.push_screen(screen, self._edited)
        return ""

    def priority(self, view: ScreenView) -> str:
        """What can be done about the frequency of the CPU that is selected."""
        gate, options, cpu = self._main.changes.gate, self._options, view.watch.cpu
        if gate is None or options.no_frequencies:
            return f"no frequencies to set: {options.no_frequencies or options.no_gate or _NOTHING}"
        if cpu is None:
            return "no CPU is selected"
        changes = self._main.changes
        screen = PriorityScreen(cpu, gate.program, changes, self._watch, options)
        self._main.app.push_screen(screen, lambda _: self._main.paint())
        return ""

    def _edited(self, desk: Desk | None) -> None:
        self._desk = desk
        self._main.paint()
