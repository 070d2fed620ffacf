"""Opens the editors and the preview of a monitoring group, or says why it cannot."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from nftop.model.change import ClassAction
from nftop.model.frame import Frame
from nftop.model.incident import Incident
from nftop.model.remedy import Remedy
from nftop.render.base.text import printable
from nftop.store.history.experiments import RecordedExperiment
from nftop.ui.options import Options
from nftop.ui.screens.base import BannerScreen
from nftop.ui.screens.view import ScreenView
from nftop.ui.session_view import SessionView

if TYPE_CHECKING:
    from nftop.ui.editor_model import EditorModel

IN_THE_PAST = "nothing is changed in the past: End returns to now"
_NOTHING = "they cannot be changed from here"
# Sources of classes, in the order of preference.
_OF_CLASSES = ("pqos", "resctrl")


def _why_no_classes(frame: Frame | None) -> str:
    """Why the frame has no classes; "" if it has some or there is no frame yet."""
    if frame is None or frame.groups:
        return ""
    states = (frame.sources[name] for name in _OF_CLASSES if name in frame.sources)
    return next((printable(item.detail) for item in states if item.reason), "")


class EditorOpener:
    """Opens the editors; keeps the draft of a class editor that was closed."""

    def __init__(self, main: BannerScreen[None], session: SessionView, options: Options) -> None:
        self._main = main
        self._session = session
        self._options = options
        self._model: EditorModel | None = None

    def classes(self, view: ScreenView) -> str:
        """Open the class editor at the view's selection; returns why it cannot."""
        return self._open(*view.editor_start, model=self._model)

    def drafted(self, plan: Remedy, incident: Incident) -> str:
        """Open the class editor with the draft of a remedy; returns why it cannot."""
        return self._open(incident.group, incident.l3, wanted=plan.actions)

    def sweep(self, group: str, l3: int | None) -> str:
        """Open the experiment with a class; returns why it cannot."""
        from nftop.ui.screens.experiment import ExperimentScreen  # noqa: PLC0415 - see registry.OPENED

        if self._session.player is not None:
            return self._recorded()
        why = self._why_not()
        if why:
            return why
        screen = ExperimentScreen(group, self._main.changes, self._session, self._options)
        self._main.app.push_screen(screen, partial(self._swept, group, l3))
        return ""

    def _swept(self, group: str, l3: int | None, wanted: Sequence[ClassAction] | None) -> None:
        """Open the editor with the offer of an experiment as its draft."""
        if wanted and self._main.changes.gate is not None:
            self._push(group, l3, wanted=wanted)
        else:
            self._main.paint()

    def _recorded(self) -> str:
        """Open the recording's experiment, as far as it is by now; returns why it cannot."""
        from nftop.ui.screens.experiment import ExperimentScreen  # noqa: PLC0415 - see registry.OPENED

        session = self._session

        def known() -> RecordedExperiment | None:
            frame = session.frame
            return None if frame is None else session.events.experiment(frame.wall_ns)

        experiment = known()
        if experiment is None:
            return "the recording has no experiment up to here"
        screen = ExperimentScreen(
            experiment.plan.group, self._main.changes, session, self._options, recorded=known
        )
        self._main.app.push_screen(screen, lambda _: self._main.paint())
        return ""

    def _why_not(self) -> str:
        """Why classes can't be changed now; "" if they can."""
        if self._session.past is not None:
            return IN_THE_PAST
        options = self._options
        if self._main.changes.gate is None or options.no_gate:
            return f"no classes to edit: {options.no_gate or _NOTHING}"
        missing = _why_no_classes(self._session.newest)
        return f"no classes to edit: {missing}" if missing else ""

    def priority(self, view: ScreenView) -> str:
        """Open the frequency editor of the selected CPU; returns why it cannot."""
        from nftop.ui.screens.priority import PriorityScreen  # noqa: PLC0415 - see registry.OPENED

        if self._session.past is not None:
            return IN_THE_PAST
        gate, options, cpu = self._main.changes.gate, self._options, view.session.cpu
        if gate is None or options.no_frequencies:
            return f"no frequencies to set: {options.no_frequencies or options.no_gate or _NOTHING}"
        if cpu is None:
            return "no CPU is selected"
        changes = self._main.changes
        screen = PriorityScreen(cpu, gate.program, changes, self._session, options)
        self._main.app.push_screen(screen, lambda _: self._main.paint())
        return ""

    def monitor(self, view: ScreenView) -> str:
        """Preview a monitoring group of the selected NF's threads; returns why it cannot."""
        from nftop.ui.screens.confirm import monitor_preview  # noqa: PLC0415 - see registry.OPENED

        if self._session.past is not None:
            return IN_THE_PAST
        changes, options, nf = self._main.changes, self._options, view.metered
        if changes.gate is None or options.no_gate:
            return f"no monitoring groups: {options.no_gate or _NOTHING}"
        why = _why_no_classes(self._session.newest)
        if why or nf is None:
            return f"no monitoring groups: {why or 'no network function is selected'}"
        screen = monitor_preview(nf, changes, options, self._session.newest)
        if screen is None:
            return f"{nf.name} has no thread that is known here"
        self._main.app.push_screen(screen, lambda _: self._main.paint())
        return ""

    def _open(
        self,
        group: str,
        l3: int | None,
        *,
        model: EditorModel | None = None,
        wanted: Sequence[ClassAction] = (),
    ) -> str:
        """Open the class editor; returns why it cannot."""
        why = self._why_not()
        if not why:
            self._push(group, l3, model=model, wanted=wanted)
        return why

    def _push(
        self,
        group: str,
        l3: int | None,
        *,
        model: EditorModel | None = None,
        wanted: Sequence[ClassAction] = (),
    ) -> None:
        from nftop.ui.screens.editor import EditorScreen  # noqa: PLC0415 - see registry.OPENED

        changes, session = self._main.changes, self._session
        if changes.gate is not None:
            screen = EditorScreen(
                changes.gate,
                changes,
                session,
                self._options,
                group=group,
                l3=l3,
                model=model,
                wanted=wanted,
            )
            self._main.app.push_screen(screen, self._edited)

    def _edited(self, model: EditorModel | None) -> None:
        self._model = model
        self._main.paint()
