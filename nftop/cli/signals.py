"""Exit on a signal, or when the terminal is gone, even while the screen blocks.

A screen whose terminal is not read any more blocks in its writes, and no handler of its event loop
runs. So signals are handled outside of that loop, and after a time limit the process ends.
"""

from __future__ import annotations

import os
import select
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from types import FrameType

PATIENCE_S = 3.0  # for the screen to restore the terminal
_SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


@contextmanager
def leaving_on_signal(leave: Callable[[int], None], terminal: int) -> Iterator[None]:
    """Call `leave` with an exit code on SIGTERM, SIGHUP, SIGQUIT, or when the terminal hangs up.

    `leave` may be called from any thread and more than once. PATIENCE_S after the first call the
    process ends with that code. `terminal` is the descriptor that is read.
    """
    signalled = threading.Event()

    def go(number: int) -> None:
        if not signalled.is_set():
            signalled.set()
            last_resort = threading.Timer(PATIENCE_S, os._exit, (128 + number,))
            last_resort.daemon = True
            last_resort.start()
        leave(128 + number)

    def watch() -> None:
        # Without a controlling terminal there is no SIGHUP, but the hang-up can be polled.
        poll = select.poll()
        poll.register(terminal, 0)
        if poll.poll():
            go(signal.SIGHUP)

    with handling(_SIGNALS, go):
        threading.Thread(target=watch, name="nftop-terminal", daemon=True).start()
        yield


def signal_name(number: int) -> str:
    """Name of a signal of `stopping`; Ctrl-C for that of the terminal's key."""
    names = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM", signal.SIGHUP: "SIGHUP"}
    return next(name for known, name in names.items() if known == number)


@contextmanager
def stopping(stop: Callable[[], None]) -> Iterator[list[int]]:
    """Call `stop` on SIGINT, SIGTERM and SIGHUP; the list has the signals in their order."""
    ended: list[int] = []

    def end(number: int) -> None:
        ended.append(number)
        stop()

    with handling((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), end):
        yield ended


@contextmanager
def handling(numbers: Iterable[int], handler: Callable[[int], None]) -> Iterator[None]:
    """Call `handler` in a thread of its own for each signal, and restore the former handlers.

    Python runs a signal handler in the main thread between two of its instructions, also where that
    holds a lock. A handler that takes the same lock, as `threading.Event.set` does, waits for ever.
    `SimpleQueue.put` is reentrant, so the handler only passes the number on. All signals of the
    context are handled when it is left, unless that takes more than PATIENCE_S.
    """
    arrived: SimpleQueue[int | None] = SimpleQueue()

    def serve() -> None:
        while (number := arrived.get()) is not None:
            handler(number)

    def pass_on(number: int, _frame: FrameType | None) -> None:
        arrived.put(number)

    server = threading.Thread(target=serve, name="nftop-signals", daemon=True)
    server.start()
    before = {number: signal.signal(number, pass_on) for number in numbers}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)
        arrived.put(None)
        server.join(PATIENCE_S)
