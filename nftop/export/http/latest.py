"""The latest frame, for whoever asks: written by one thread, read by another."""

from __future__ import annotations

import time
from collections import Counter
from http import HTTPStatus
from typing import NamedTuple

from nftop.export.http.request import Answer, answer, refusal
from nftop.export.openmetrics.page import Tally, ending, page
from nftop.export.openmetrics.writer import Form
from nftop.model.frame import Frame
from nftop.model.reading import Missing, Reason

# A frame is no answer any more once so many others should have followed it, and some time.
_FRAMES_MISSED, _PATIENCE_S = 2, 5.0
_NONE_YET = Missing(Reason.WARMING, "no frame yet: ask again in a moment")


class _Shown(NamedTuple):
    frame: Frame
    tally: Tally
    at_s: float


class Board:
    """Frames in at `publish`, in one thread; answers out at `reply`, in one thread.

    A page is made when it is first asked for and kept until the next frame, so that scrapes cost
    what frames do, however many there are.
    """

    def __init__(self, interval_s: float) -> None:
        self._too_old_s = _FRAMES_MISSED * interval_s + _PATIENCE_S
        self._interval_s = interval_s
        self._tally = Tally()
        self._shown: _Shown | None = None
        self._of: _Shown | None = None
        self._pages: dict[Form, bytes] = {}
        self._answers: Counter[int] = Counter()

    def publish(self, frame: Frame) -> None:
        """Show this frame from now on."""
        self._tally = self._tally.after(frame, time.process_time_ns() / 1e9)
        self._shown = _Shown(frame, self._tally, time.monotonic())

    def reply(self, head: bytes) -> bytes:
        """The answer to a request's head. Reads nothing of the host."""
        try:
            found = answer(head, self._page)
        except Exception as error:  # noqa: BLE001 - the boundary: no request may end the server
            said = f"nftop's own fault: {type(error).__name__}"
            found = refusal(HTTPStatus.INTERNAL_SERVER_ERROR, said)
        return self.counted(found)

    def counted(self, found: Answer) -> bytes:
        """An answer as it is sent, which the next page counts."""
        self._answers[found.status.value] += 1
        return found.encoded()

    def _page(self, form: Form) -> bytes | Missing:
        # One reference is read once: the other thread may replace it meanwhile.
        shown = self._shown
        if shown is None:
            return _NONE_YET
        age_s = time.monotonic() - shown.at_s
        if age_s > self._too_old_s:
            return Missing(
                Reason.STALE,
                f"the last frame is {age_s:.0f} s old, and one is due every {self._interval_s:g} s",
            )
        if shown is not self._of:
            self._of, self._pages = shown, {}
        if form not in self._pages:
            self._pages[form] = page(shown.frame, shown.tally, form).encode()
        return self._pages[form] + ending(self._answers, form).encode()
