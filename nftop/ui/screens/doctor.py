"""Doctor's page: which sources work here, and how to see more; `r` examines the host again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import ClassVar

from textual.binding import BindingType
from textual.message import Message

from nftop.model.check import Check
from nftop.model.error_text import describe_error
from nftop.render.base.line import Line, paragraph
from nftop.render.pages.doctor import doctor_lines
from nftop.ui.keys import DOCTOR, KeyRow, bindings
from nftop.ui.options import Options
from nftop.ui.pending_change import ChangeControl
from nftop.ui.screens.page import PageScreen, PageText


class HostExamined(Message):
    """The checks, or `why` there are none."""

    def __init__(self, checks: Sequence[Check], caveat: str, why: str = "") -> None:
        self.checks = checks
        self.caveat = caveat
        self.why = why
        super().__init__()


class DoctorScreen(PageScreen, inherit_bindings=False):
    """The checks of `examine`, which runs in a thread, once at a time."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(DOCTOR)
    KEYS: ClassVar[tuple[KeyRow, ...]] = DOCTOR
    TABLE: ClassVar[str] = "doctor"

    def __init__(
        self,
        examine: Callable[[], tuple[Sequence[Check], str]],
        options: Options,
        changes: ChangeControl,
    ) -> None:
        self._examine = examine
        self._runs = False
        self._report: PageText = partial(paragraph, "examining the host")
        super().__init__(lambda: self._report, options, changes, toggle="f9")

    def on_mount(self) -> None:
        self._again()

    def action_act(self, action: str, by: int) -> None:
        if action == "again":
            self._again()
            self.paint()
        else:
            super().action_act(action, by)

    def on_host_examined(self, message: HostExamined) -> None:
        self._runs, self._message = False, message.why
        checks, caveat = message.checks, message.caveat
        if checks:

            def text(width: int) -> list[Line]:
                return doctor_lines(checks, caveat, width)

            self._report = text
        self.paint()

    def _again(self) -> None:
        if self._runs:
            return
        self._runs, self._message = True, "examining the host"
        self.run_worker(self._run, name="doctor", thread=True, exit_on_error=False)

    def _run(self) -> None:
        """In a thread: it reads the host and waits."""
        try:
            checks, caveat = self._examine()
        except Exception as error:  # noqa: BLE001 - the boundary: a sentence, whatever it is
            text = describe_error(error) if isinstance(error, OSError) else str(error)
            self.post_message(HostExamined((), "", f"cannot examine the host: {text}"))
            return
        self.post_message(HostExamined(checks, caveat))
