"""How the terminal is read: without a wake-up while nothing is typed."""

from __future__ import annotations

import fcntl
import os
import select
import termios
import threading
from array import array
from collections.abc import Iterator
from typing import cast

import pytest

from nftop.ui.terminal_driver import LoopDriver
from tests.waiting import until


@pytest.fixture
def keyboard() -> Iterator[tuple[LoopDriver, int]]:
    """A driver that reads a pipe, without the rest of a terminal, and the pipe's other end."""
    reading, writing = os.pipe()
    driver = LoopDriver.__new__(LoopDriver)
    driver.fileno, driver.exit_event, driver._key_thread = reading, threading.Event(), None
    driver._wake_fd = os.eventfd(0)
    yield driver, writing
    os.close(reading)
    os.close(writing)


def test_it_sleeps_but_while_a_sequence_may_be_unfinished(
    keyboard: tuple[LoopDriver, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    driver, writing = keyboard
    now_s, limits_s = [100.0], list[float | None]()

    class Poll:
        def poll(self, limit_s: float | None) -> list[tuple[int, int]]:
            limits_s.append(limit_s)
            if limit_s is not None:
                now_s[0] += limit_s
                return []
            if len(limits_s) > 1:
                driver.exit_event.set()
                return []
            os.write(writing, b"\x1b")
            return [(driver.fileno, select.EPOLLIN)]

    monkeypatch.setattr("nftop.ui.terminal_driver.time.monotonic", lambda: now_s[0])
    poll = cast("select.epoll", Poll())
    assert driver._wake_fd is not None
    assert "".join(driver._texts(poll, driver._wake_fd)) == "\x1b"
    # Escape alone is a key after the first of these steps.
    first, *steps, last = limits_s
    assert first is last is None and set(steps) == {0.1} and 4 <= len(steps) <= 6
    os.close(driver._wake_fd)


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
    wake_fd = driver._wake_fd
    assert wake_fd is not None
    driver._disable_mouse_support = lambda: None  # type: ignore[method-assign]
    driver.disable_input()
    assert "".join(texts) == "a\xe9c"
    assert not driver._key_thread.is_alive() and driver._wake_fd is None
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(wake_fd)


def test_what_comes_at_the_end_is_dropped(keyboard: tuple[LoopDriver, int]) -> None:
    """Reports of a mouse that the terminal sent before it knew that they are not wanted."""
    driver, writing = keyboard
    driver._key_thread = threading.Thread(target=lambda: [*driver._input()])
    driver._key_thread.start()
    driver._disable_mouse_support = lambda: os.write(writing, b"\x1b[<35;40;12M")  # type: ignore[assignment, method-assign]
    driver.disable_input()
    os.write(writing, b"$")
    assert os.read(driver.fileno, 100) == b"$"
