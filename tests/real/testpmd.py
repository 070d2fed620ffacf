"""A real dpdk-testpmd: null devices, no hugepages, no NIC; needs root."""

from __future__ import annotations

import os
import pty
import re
import shutil
import signal
import subprocess
import threading
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from nftop.model.ids import Cpu
from tests.real.machine import bound_to

START_S = 60.0
_DEVICES = ("--vdev=net_null0,size=64", "--vdev=net_null1,no-rx=1")
_PROMPT = "testpmd> "


class Testpmd:
    """A running testpmd at its prompt; it forwards from null port 0 to null port 1 once started.

    Attributes:
        pid: of testpmd itself. prefix: its EAL file prefix.
    """

    __test__ = False

    def __init__(self, process: subprocess.Popen[bytes], prefix: str, terminal: int) -> None:
        assert process.stdin is not None
        self.pid = process.pid
        self.prefix = prefix
        self._process = process
        self._stdin: IO[bytes] = process.stdin
        self._terminal = terminal
        self._printed = bytearray()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def socket(self) -> Path:
        """Its telemetry socket."""
        return Path("/run/dpdk") / self.prefix / "dpdk_telemetry.v2"

    def output(self) -> str:
        """Everything printed so far."""
        return bytes(self._printed).decode(errors="replace")

    def command(self, text: str, wait_s: float = 60.0) -> str:
        """Type a command; returns what it printed before the next prompt."""
        before = len(self.output())
        self._stdin.write(text.encode() + b"\n")
        self._stdin.flush()
        wait_until(lambda: _PROMPT in self.output()[before:], wait_s, f"testpmd did not do {text}")
        return self.output()[before:]

    def listens(self) -> bool:
        """Its socket is there, in its own mount namespace and below its own root."""
        return Path(f"/proc/{self.pid}/root{self.socket}").exists()

    def alive(self) -> bool:
        return self._process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """SIGSTOP, from when its last thread has stopped: kill(2) does not wait for that."""
        self.signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)
        try:
            yield
        finally:
            self.signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL: its socket stays behind."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End it as an operator would; kill it if it does not obey."""
        if not self.alive():
            return
        self.signal(signal.SIGCONT)
        self.signal(signal.SIGTERM)
        killer = threading.Timer(60, self._process.kill)
        killer.start()
        self._process.wait()
        killer.cancel()

    def close(self) -> None:
        """End it, and remove what it leaves behind."""
        self.stop()
        self._stdin.close()
        self._reader.join()
        os.close(self._terminal)
        shutil.rmtree(self.socket.parent, ignore_errors=True)

    def _read(self) -> None:
        try:
            while chunk := os.read(self._terminal, 65536):
                self._printed += chunk
        except OSError:
            pass  # EIO is how a terminal tells that nobody writes to it any more


@contextmanager
def running_testpmd(
    prefix: str,
    lcores: str = "0-1",
    extra_eal: Sequence[str] = (),
    extra_app: Sequence[str] = (),
    binary: str | Sequence[str] = "dpdk-testpmd",
) -> Iterator[Testpmd]:
    """Start testpmd and wait for its prompt and its telemetry; `start` is the caller's to type.

    `lcores` is EAL's -l, or --lcores where it names CPUs (`0@0,1@1`). `binary` may be a command
    with arguments that execs testpmd (`["chroot", ...]`). What it leaves behind is removed.

    The test is skipped where somebody else is bound to CPU 1: neither would get its packets.

    Raises:
        RuntimeError: it did not come up; the text holds what it printed.
    """
    if someone := bound_to(Cpu(1)):
        pytest.skip(f"testpmd needs CPU 1 to itself, and {someone} is bound to it")
    command = [binary] if isinstance(binary, str) else list(binary)
    command += ["--lcores" if "@" in lcores else "-l", lcores, "--no-huge", "-m", "512"]
    command += ["--no-pci", "--file-prefix", prefix, *_DEVICES, *extra_eal, "--"]
    command += ["--total-num-mbufs=8192", "-i", *_application_arguments(extra_app)]
    terminal, output = pty.openpty()  # into a pipe or file its printf would come in blocks of 4 KiB
    tty.setraw(output)
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT
        )
    finally:
        os.close(output)
    testpmd = Testpmd(process, prefix, terminal)
    try:
        wait_until(
            lambda: _PROMPT in testpmd.output() and testpmd.listens(),
            START_S,
            "testpmd did not start",
            testpmd,
        )
        yield testpmd
    finally:
        testpmd.close()


def _application_arguments(extra: Sequence[str]) -> list[str]:
    defaults = {"--rxq": "1", "--txq": "1", "--nb-cores": "1"}
    given = {re.split("[ =]", argument)[0] for argument in extra}
    return [f"{name}={n}" for name, n in defaults.items() if name not in given] + list(extra)


def wait_until(
    done: Callable[[], bool], seconds: float, why: str, testpmd: Testpmd | None = None
) -> None:
    """Wait for a condition; RuntimeError with `why` when it does not come or testpmd ends."""
    end = time.monotonic() + seconds
    while not done():
        if time.monotonic() > end or (testpmd is not None and not testpmd.alive()):
            raise RuntimeError(why if testpmd is None else f"{why}:\n{testpmd.output()}")
        time.sleep(0.02)
