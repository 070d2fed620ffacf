"""What is to be said beside the numbers: asked for now and then, and never waited for."""

from __future__ import annotations

import threading
from collections.abc import Callable

from nftop.model.error_text import describe_error

EVERY_S = 3.0


class Notice:
    """The last answer of a callable that may block, since it looks at a disk."""

    def __init__(self, ask: Callable[[], str]) -> None:
        """`ask`: gives a sentence, "" where there is none. It is called in one thread at a time."""
        self._ask = ask
        self._asking = threading.Lock()
        self._requested_at_ns: int | None = None
        self._answer = ""

    def latest(self, now_ns: int) -> str:
        """The last answer there is; a new one is asked for if EVERY_S have passed."""
        due = self._requested_at_ns is None or now_ns - self._requested_at_ns >= EVERY_S * 1e9
        if due and self._asking.acquire(blocking=False):
            self._requested_at_ns = now_ns
            # A daemon: a disk that hangs must not keep nftop from ending.
            threading.Thread(target=self._run, name="nftop-notice", daemon=True).start()
        return self._answer

    def _run(self) -> None:
        try:
            self._answer = self._ask()
        except Exception as error:  # noqa: BLE001 - the boundary: it must not end the frames
            self._answer = describe_error(error)
        finally:
            self._asking.release()
