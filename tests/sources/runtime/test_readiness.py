"""Waiting by poll: what counts as ready, how long a wait lasts, and descriptors above 1023."""

from __future__ import annotations

import errno
import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from nftop.model.missing import Missing
from nftop.sources.runtime.helper import run
from nftop.sources.runtime.readiness import wait_readable, wait_writable
from tests.descriptors import FD_SETSIZE, many_descriptors

LONG_S = 180.0


@pytest.fixture(params=[False, True], ids=["few", "many"])
def pair(request: pytest.FixtureRequest) -> Iterator[tuple[socket.socket, socket.socket]]:
    """Two connected sockets, once with small numbers and once beyond select."""
    if not request.param:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            yield ours, theirs
        return
    with many_descriptors():
        ours, theirs = socket.socketpair()
        with ours, theirs:
            assert ours.fileno() >= FD_SETSIZE
            yield ours, theirs


def test_data_and_the_end_of_input_are_readable(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    assert wait_readable([ours], 0) == ()
    theirs.send(b"x")
    assert wait_readable([ours, theirs], LONG_S) == (ours.fileno(),)
    assert ours.recv(2) == b"x"
    theirs.close()
    assert wait_readable([ours], LONG_S) == wait_readable([ours], None) == (ours.fileno(),)
    assert ours.recv(1) == b""


def test_a_full_buffer_is_not_writable_and_a_peer_that_closed_is(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    ours, theirs = pair
    assert wait_writable([ours], 0) == (ours.fileno(),)
    ours.setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            ours.send(bytes(1 << 16))
    assert wait_writable([ours], 0) == ()
    theirs.close()
    assert wait_writable([ours], LONG_S) == (ours.fileno(),)
    with pytest.raises(BrokenPipeError):
        ours.send(b"x")


def test_a_pipe_without_a_writer_is_readable() -> None:
    """poll says POLLHUP of it, without POLLIN."""
    reader, writer = os.pipe()
    os.close(writer)
    assert wait_readable([reader], LONG_S) == (reader,)
    os.close(reader)


def test_a_descriptor_that_is_not_open_is_an_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with pytest.raises(OSError) as caught:
        wait_readable([writer, reader], LONG_S)
    os.close(writer)
    assert caught.value.errno == errno.EBADF


@pytest.mark.parametrize("timeout_s", [0.0, -1.0, 0.05])
def test_a_timeout_ends_the_wait_and_not_earlier(timeout_s: float) -> None:
    reader, writer = os.pipe()
    began_s = time.monotonic()
    assert wait_readable([reader], timeout_s) == ()
    assert time.monotonic() - began_s >= timeout_s
    os.close(reader)
    os.close(writer)


def test_a_timeout_beyond_what_poll_takes() -> None:
    """It takes 2**31 - 1 ms at most; 25 days are more."""
    reader, writer = os.pipe()
    os.write(writer, b"x")
    assert wait_readable([reader], 25 * 86400.0) == (reader,)
    os.close(reader)
    os.close(writer)


def test_a_signal_neither_ends_a_wait_nor_makes_it_longer() -> None:
    """The handler returns: the rest of the time is waited for, and no more than that."""
    came: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda number, _: came.append(number))
    reader, writer = os.pipe()
    try:
        began_s = time.monotonic()
        # Every 0.1 s: a wait that began anew after each would never end.
        signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1)
        assert wait_readable([reader], 0.35) == ()
        assert time.monotonic() - began_s >= 0.35
        assert came
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        os.close(reader)
        os.close(writer)


def test_a_handler_that_raises_ends_the_wait() -> None:
    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    reader, writer = os.pipe()
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(KeyboardInterrupt):
            wait_readable([reader], None)
    finally:
        signal.signal(signal.SIGALRM, before)
        os.close(reader)
        os.close(writer)


def test_another_program_is_run_from_a_process_with_many_descriptors() -> None:
    """And has none of them: its three, and the one by which it lists them."""
    with many_descriptors():
        inherited = os.open(os.devnull, os.O_RDONLY)
        os.set_inheritable(inherited, True)
        done = run(Path("/bin/ls"), ["/proc/self/fd"], LONG_S)
        os.close(inherited)
    assert not isinstance(done, Missing)
    assert done.code == 0
    assert set(done.output.split()) == {"0", "1", "2", "3"}
