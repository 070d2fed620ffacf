"""Signals while a command runs."""

from __future__ import annotations

import signal
import threading

from nftop.cli.signals import handling, stopping


def test_a_handler_may_take_a_lock_that_the_main_thread_holds() -> None:
    lock, handled = threading.Lock(), threading.Event()

    def handler(_number: int) -> None:
        with lock:
            handled.set()

    with handling((signal.SIGUSR1,), handler):
        with lock:
            signal.raise_signal(signal.SIGUSR1)
            assert not handled.is_set()
        assert handled.wait(60)


def test_all_signals_are_handled_in_order_before_the_context_ends() -> None:
    stopped: list[bool] = []
    with stopping(lambda: stopped.append(True)) as ended:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.raise_signal(number)
    assert ended == [signal.SIGTERM, signal.SIGHUP, signal.SIGINT]
    assert len(stopped) == 3


def test_the_former_handlers_are_restored() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with stopping(lambda: None):
        assert signal.getsignal(signal.SIGTERM) is not before
    assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_between_any_two_instructions_does_not_block_an_event() -> None:
    # Event.set holds its lock for some instructions; a handler in this thread would wait for it.
    event, handled = threading.Event(), 0

    def handler(_number: int) -> None:
        nonlocal handled
        event.set()
        handled += 1

    with handling((signal.SIGUSR1,), handler):
        main = threading.main_thread().ident
        assert main is not None

        def send() -> None:
            for _ in range(500):
                signal.pthread_kill(main, signal.SIGUSR1)

        sender = threading.Thread(target=send)
        sender.start()
        while sender.is_alive():
            event.set()
            event.clear()
        sender.join()
        signal.raise_signal(signal.SIGUSR1)
    assert handled > 0
