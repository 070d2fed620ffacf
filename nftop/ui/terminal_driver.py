"""Textual's driver of a terminal on Linux, with nftop's signals and input."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import time
from codecs import getincrementaldecoder
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from typing import Any

from textual import constants
from textual._parser import ParseError
from textual._xterm_parser import XTermParser  # private: pyproject.toml keeps Textual's major
from textual.drivers.linux_driver import LinuxDriver

# After a byte the parser may wait for the rest of a sequence: it looks at its clock this often, and
# for this long.
_STEP_MS, _UNFINISHED_S = 100, 1.0 + 2 * constants.ESCAPE_DELAY
_READ_BYTES = 4096


class LoopDriver(LinuxDriver):
    """Textual's driver, stopped and resumed between two callbacks of the loop.

    Its handlers of SIGTSTP and SIGCONT write to the terminal through a queue. Run at once, they
    could interrupt this thread inside that queue's lock and wait for it forever. The loop also
    wakes where the kernel gives a signal to another thread. A second stop, and a resume without a
    stop, do nothing.

    The thread that reads the terminal sleeps until there is input; Textual's wakes ten times a
    second, a tenth of what nftop costs at 1 Hz. Bytes that are no UTF-8, of a keyboard or a paste,
    are dropped with what was read with them.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTSTP, self._stop)
        loop.add_signal_handler(signal.SIGCONT, self._resume)
        self._ended: int | None = None  # an eventfd that wakes the input thread

    def run_input_thread(self) -> None:
        parser = XTermParser(self._debug)
        try:
            for text in self._input():
                # To a parser an empty text is the end.
                for event in chain(parser.feed(text) if text else (), parser.tick()):
                    self.process_message(event)
        finally:
            with suppress(EOFError, ParseError):
                [*parser.feed("")]

    def _input(self) -> Iterator[str]:
        """Texts as they come, and "" now and then while a sequence may be unfinished."""
        decoder, poll, ended = getincrementaldecoder("utf-8")(), select.poll(), self._ended
        if ended is None:
            return
        poll.register(self.fileno, select.POLLIN)
        poll.register(ended, select.POLLIN)
        steps_until_s = 0.0
        while not self.exit_event.is_set():
            steps = time.monotonic() < steps_until_s
            ready = dict(poll.poll(_STEP_MS if steps else None))
            text = ""
            if self.fileno in ready:
                data = os.read(self.fileno, _READ_BYTES)
                if not data:  # hung up: `leaving_on_signal` ends nftop
                    self.exit_event.wait(_STEP_MS / 1000)
                try:
                    text = decoder.decode(data)
                except UnicodeDecodeError:
                    decoder.reset()
                steps_until_s = time.monotonic() + _UNFINISHED_S
            yield text

    def start_application_mode(self) -> None:
        if self._ended is None:
            self._ended = os.eventfd(0, os.EFD_CLOEXEC)
        super().start_application_mode()  # type: ignore[no-untyped-call]

    def disable_input(self) -> None:
        ended, self._ended = self._ended, None
        if ended is None:
            super().disable_input()
            return
        os.eventfd_write(ended, 1)
        super().disable_input()
        os.close(ended)

    def _stop(self) -> None:
        if self._has_terminal():
            self._sigtstp_application()

    def _resume(self) -> None:
        if not self._has_terminal():
            self._sigcont_application()

    def _has_terminal(self) -> bool:
        return self._writer_thread is not None and self._writer_thread.is_alive()
