"""How the terminal is read: without a wake-up while nothing is typed."""

from __future__ import annotations

import fcntl
import os
import select
import termios
import threading
from array import array
from collections.abc import Iterator

import pytest

from nftop.ui.terminal_driver import LoopDriver
from tests.waiting import until


@pytest.fixture
def keyboard() -> Iterator[tuple[LoopDriver, int]]:
    """A driver that reads a pipe, without the rest of a terminal, and the pipe's other end."""
    reading, writing = os.pipe()
    driver = LoopDriver.__new__(LoopDriver)
    driver.fileno, driver.exit_event, driver._key_thread = reading, threading.Event(), None
    driver._ended = os.eventfd(0)
    yield driver, writing
    os.close(reading)
    os.close(writing)


def test_it_sleeps_but_while_a_sequence_may_be_unfinished(
    keyboard: tuple[LoopDriver, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, writing = keyboard
    now_s, limits_ms = [100.0], list[int | None]()

    class Poll:
        def register(self, fd: int, events: int) -> None:
            pass

        def poll(self, limit_ms: int | None) -> list[tuple[int, int]]:
            limits_ms.append(limit_ms)
            if limit_ms is not None:
                now_s[0] += limit_ms / 1000
                return []
            if len(limits_ms) > 1:
                driver.exit_event.set()
                return []
            os.write(writing, b"\x1b")
            return [(driver.fileno, select.POLLIN)]

    monkeypatch.setattr("nftop.ui.terminal_driver.select.poll", Poll)
    monkeypatch.setattr("nftop.ui.terminal_driver.time.monotonic", lambda: now_s[0])
    assert "".join(driver._input()) == "\x1b"
    assert limits_ms == [None, *[100] * (len(limits_ms) - 2), None]
    assert 10 <= len(limits_ms) <= 20  # Escape alone is a key after some of these steps
    os.close(driver._ended or 0)


def test_what_is_typed_comes_whole_and_the_end_wakes_it(
    keyboard: tuple[LoopDriver, int],
) -> None:
    driver, writing = keyboard
    texts = list[str]()
    driver._key_thread = threading.Thread(target=lambda: texts.extend(driver._input()))
    driver._key_thread.start()

    def is_read() -> bool:
        left = array("i", [0])
        fcntl.ioctl(driver.fileno, termios.FIONREAD, left)
        return left[0] == 0

    # A letter in two pieces, then what is no UTF-8 with what was read together with it.
    for typed in (b"a\xc3", b"\xa9", b"b\xff", b"c"):
        os.write(writing, typed)
        until(is_read)
    driver._disable_mouse_support = lambda: None  # type: ignore[method-assign]
    driver.disable_input()
    assert "".join(texts) == "a\xe9c"
    assert not driver._key_thread.is_alive() and driver._ended is None
