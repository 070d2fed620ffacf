"""Textual's driver of a terminal on Linux, with nftop's signals and input."""

from __future__ import annotations

import asyncio
import signal
from contextlib import suppress
from typing import Any

from textual.drivers.linux_driver import LinuxDriver


class LoopDriver(LinuxDriver):
    """Textual's driver, stopped and resumed between two callbacks of the loop.

    Bytes that are no UTF-8, of a keyboard or a paste, are dropped with what was read with them.

    Its handlers of SIGTSTP and SIGCONT write to the terminal through a queue. Run at once, they
    could interrupt this thread inside that queue's lock and wait for it forever. The loop also
    wakes where the kernel gives a signal to another thread. A second stop, and a resume without a
    stop, do nothing.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTSTP, self._stop)
        loop.add_signal_handler(signal.SIGCONT, self._resume)

    def run_input_thread(self) -> None:
        while not self.exit_event.is_set():
            with suppress(UnicodeDecodeError):
                super().run_input_thread()

    def _stop(self) -> None:
        if self._has_terminal():
            self._sigtstp_application()

    def _resume(self) -> None:
        if not self._has_terminal():
            self._sigcont_application()

    def _has_terminal(self) -> bool:
        return self._writer_thread is not None and self._writer_thread.is_alive()
