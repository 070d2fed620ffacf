"""nftop on another host, over ssh: its recording as a stream.

The far side's command line is constant, and the host comes from the operator's configuration.
"""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections import deque

from nftop.model.missing import Missing, Reason

# BatchMode: ssh asks for nothing, it fails. A host that does not answer, or answers no more, is
# given up after 15 s: without a limit ssh waits for TCP, minutes or for ever. LogLevel: no banner
# of the host, which would pass for the reason of an end. No terminal, agent, X11, forwarding or
# command of the operator's configuration is used. After `--` nothing is an option.
_LIMITS = ("ConnectTimeout=15", "ServerAliveInterval=5", "ServerAliveCountMax=3")
_NOTHING_ELSE = ("ClearAllForwardings=yes", "PermitLocalCommand=no", "RemoteCommand=none")
_OPTIONS = ("BatchMode=yes", *_LIMITS, "LogLevel=ERROR", *_NOTHING_ELSE)
SSH = ("ssh", "-T", "-a", "-x", *(word for option in _OPTIONS for word in ("-o", option)), "--")
FAR_COMMAND = ("sudo", "-n", "nftop", "record", "-o", "-")
# OpenSSH puts the reason last.
_CONNECT = re.compile(r"ssh: connect to host (\S+) port (\d+): (.+)")
_END_S = 2.0
_LINE_BYTES, _MOST_LINES = 400, 8


class RemoteRecorder:
    """A running ssh; `output` is a descriptor of the recording, the caller's to close."""

    def __init__(self, process: subprocess.Popen[bytes], output: int) -> None:
        self.output = output
        self._process = process
        self._lines: deque[bytes] = deque(maxlen=_MOST_LINES)
        self._heard = threading.Thread(target=self._hear, name="nftop-ssh", daemon=True)
        self._heard.start()

    def _hear(self) -> None:
        """Read all of standard error, so that ssh never waits, and keep its last lines."""
        errors = self._process.stderr
        if errors is None:
            return
        with errors:
            while line := errors.readline(_LINE_BYTES):
                self._lines.append(line)

    def ending(self) -> str:
        """How ssh ended, by its last line (untrusted text); "" while it runs."""
        if (code := self._process.poll()) is None:
            return ""
        self._heard.join(_END_S)  # a master connection of ssh may hold it open
        texts = [line.decode("utf-8", "replace").strip() for line in tuple(self._lines)]
        last = next((text for text in reversed(texts) if text), "")
        last = _CONNECT.sub(r"\3 (\1 port \2)", last)
        return last or f"ssh ended with code {code}"

    def end(self) -> None:
        """Tell ssh to end, without waiting for it."""
        self._process.terminate()

    def close(self) -> None:
        """End ssh, with which the far side's nftop ends. Safe to call twice."""
        self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def record_remote(destination: str) -> RemoteRecorder | Missing:
    """Start the recorder of a host; `destination` is the operator's own word for it."""
    try:
        process = subprocess.Popen(  # noqa: S603 - the operator's host, behind --
            [*SSH, destination, *FAR_COMMAND],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Without the terminal: nothing can ask there, and Ctrl-C is the screen's.
            start_new_session=True,
        )
    except OSError as error:
        return Missing(Reason.ERROR, f"ssh can't be started: {error.strerror}")
    if process.stdout is None:
        return Missing(Reason.ERROR, "ssh has no output")
    with process.stdout as output:
        return RemoteRecorder(process, os.dup(output.fileno()))
