"""Frequency editor of a core: choose a setting, then preview and confirm it."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from textual.binding import BindingType

from nftop.control.cpufreq.policies import FrequencyChoice, choices
from nftop.model.ids import Cpu
from nftop.render.base.line import line
from nftop.render.power.page import Effect, priority_lines
from nftop.ui.change_control import ChangeControl
from nftop.ui.key_bindings import PRIORITY, KeyRow, bindings
from nftop.ui.options import Options
from nftop.ui.screens.base import BannerScreen
from nftop.ui.screens.confirm import ConfirmScreen
from nftop.ui.session_view import SessionView
from nftop.ui.widgets.lines import Lines

_LOCKED = "read-only: preview only; start nftop with --rw to apply"
_SPAN_S = 30


class PriorityScreen(BannerScreen[None]):
    """Settings for one CPU, from the newest frame."""

    follows = True

    BINDINGS: ClassVar[list[BindingType]] = bindings(PRIORITY)
    KEYS: ClassVar[tuple[KeyRow, ...]] = PRIORITY
    PANEL: ClassVar[str] = "priority"

    def __init__(
        self, cpu: Cpu, program: str, changes: ChangeControl, session: SessionView, options: Options
    ) -> None:
        """`program`: first words of command lines for this host."""
        super().__init__()
        self.changes = changes
        self._cpu = cpu
        self._program = program
        self._session = session
        self._options = options
        self._at = 0

    def on_mount(self) -> None:
        self.paint()

    def action_act(self, action: str, by: int) -> None:
        self._message = ""
        if action == "close":
            if not self.changes.dismiss():
                self.dismiss()
                return
        elif action == "preview":
            self._preview()
        elif action == "help":
            self.open_help("priority", self._options)
            return
        else:
            self._at = max(0, min(self._at + by, len(self._choices) - 1))
        self.paint()

    def paint(self) -> None:
        width, height = self.size
        taken = self.show_banner()
        frame = self._session.newest
        if taken is None:
            return
        room = max(0, height - 1 - taken)
        lines, spot = [line("waiting for the first frame")], 0
        if frame is not None:
            offered = self._choices
            self._at = max(0, min(self._at, len(offered) - 1))
            lines, spot = priority_lines(
                frame,
                [item.text for item in offered],
                self._at,
                self._effects(),
                width,
                stood_s=self._stood_s,
                locked="" if self._options.rw else _LOCKED,
            )
        self._top = max(0, min(spot, self._top), spot - room + 1)
        self.query_one("#priority", Lines).show(lines[self._top : self._top + room], room)
        self.show_footer(position=f"CPU {self._cpu}", message=self._message)

    @property
    def _choices(self) -> tuple[FrequencyChoice, ...]:
        frame = self._session.newest
        row = None if frame is None else frame.cpus.topology.row_of.get(self._cpu)
        return () if frame is None or row is None else choices(frame, row, self._program)

    def _preview(self) -> None:
        offered = self._choices
        if not offered:
            self._message = f"CPU {self._cpu} is gone"
            return
        chosen = offered[self._at]
        screen = ConfirmScreen(
            f"Preview: {chosen.text}",
            lambda gate: (gate.propose([chosen.action], (chosen.command,)), ()),
            self.changes,
            self._options,
            frame=self._session.newest,
        )
        self.app.push_screen(screen, lambda _: self.paint())

    def _effects(self) -> list[Effect]:
        """Effect of the last change of frequencies on its CPUs."""
        applied, frame = self.changes.state.tuned, self._session.newest
        if applied is None or frame is None:
            return []
        end_ns = min(frame.monotonic_ns, applied.taken_back_ns or frame.monotonic_ns)
        here = frame.topology.row_of
        return [
            Effect(cpu, *(self._means(metric, cpu, applied.at_ns, end_ns) for metric in _METRICS))
            for cpu in applied.cpus
            if cpu in here
        ]

    @property
    def _stood_s(self) -> float | None:
        """Seconds until the last change was reverted; None if it was not."""
        applied = self.changes.state.tuned
        if applied is None or applied.taken_back_ns is None:
            return None
        return max(0.0, (applied.taken_back_ns - applied.at_ns) / 1e9)

    def _means(self, metric: str, cpu: Cpu, at_ns: int, end_ns: int) -> tuple[float, float]:
        """Means of up to 30 s before `at_ns` and before `end_ns`; NaN: unknown."""
        history = self._session.history
        before = history.series(metric, cpu, _SPAN_S, float(_SPAN_S), at_ns)[:-1]
        after_s = min(int((end_ns - at_ns) / 1e9), _SPAN_S)
        if after_s < 1:
            return _mean(before), float("nan")
        # The second of the change has both.
        after = history.series(metric, cpu, after_s + 1, float(after_s + 1), end_ns)
        return _mean(before), _mean(after[-after_s:][1:])


_METRICS = ("frequency_hz", "packets_per_s")


def _mean(values: NDArray[np.float32]) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else float("nan")
