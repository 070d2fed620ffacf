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

# After a byte the parser may wait for the rest of a sequence, for ESCAPE_DELAY: until then, and
# some steps longer, it has to look at the clock.
_STEP_S, _UNFINISHED_S = 0.1, 0.3 + constants.ESCAPE_DELAY
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
        self._wake_fd: int | None = None  # an eventfd; wakes the input thread when it is to end

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
        """Texts as they come, and "" in steps while a sequence may be unfinished."""
        if (wake_fd := self._wake_fd) is None:
            return
        # Neither poll(2), which fails where RLIMIT_NOFILE was lowered, nor select(2), which fails
        # for descriptors from 1,024 on.
        with select.epoll() as poll:
            poll.register(wake_fd, select.EPOLLIN)
            with suppress(PermissionError):  # of a file, or of /dev/null: no keyboard
                poll.register(self.fileno, select.EPOLLIN)
            yield from self._texts(poll, wake_fd)
            poll.unregister(wake_fd)
            self._drop_input(poll)

    def _texts(self, poll: select.epoll, wake_fd: int) -> Iterator[str]:
        decoder = getincrementaldecoder("utf-8")()
        unfinished, until_s = False, 0.0
        while not self.exit_event.is_set():
            ready = dict(poll.poll(_STEP_S if unfinished else None))
            # The step at the end is taken after the parser has waited for long enough.
            unfinished = unfinished and time.monotonic() < until_s
            text, is_read = "", self.fileno in ready
            if is_read:
                data = os.read(self.fileno, _READ_BYTES)
                try:
                    text = decoder.decode(data)
                except UnicodeDecodeError:
                    decoder.reset()
                if not data:  # hung up: `leaving_on_signal` ends nftop
                    self.exit_event.wait(_STEP_S)
            elif wake_fd in ready:
                self.exit_event.wait(_STEP_S)
            yield text
            if is_read:
                unfinished, until_s = True, time.monotonic() + _UNFINISHED_S

    def _drop_input(self, poll: select.epoll) -> None:
        """Drop what the terminal sent before it read that the mouse is off: reports, replies."""
        until_s = time.monotonic() + _STEP_S
        while (left_s := until_s - time.monotonic()) > 0:
            if poll.poll(left_s) and not os.read(self.fileno, _READ_BYTES):
                return

    def start_application_mode(self) -> None:
        if self._wake_fd is None:
            self._wake_fd = os.eventfd(0, os.EFD_CLOEXEC)
        super().start_application_mode()  # type: ignore[no-untyped-call]

    def disable_input(self) -> None:
        wake_fd, self._wake_fd = self._wake_fd, None
        if wake_fd is None:
            super().disable_input()
            return
        os.eventfd_write(wake_fd, 1)
        try:
            super().disable_input()
        finally:
            # Textual ignores errors before it has waited for the thread.
            if self._key_thread is None or not self._key_thread.is_alive():
                os.close(wake_fd)

    def _stop(self) -> None:
        if self._has_terminal():
            self._sigtstp_application()

    def _resume(self) -> None:
        if not self._has_terminal():
            self._sigcont_application()

    def _has_terminal(self) -> bool:
        return self._writer_thread is not None and self._writer_thread.is_alive()
