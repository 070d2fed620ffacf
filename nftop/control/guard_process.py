"""The guard: the process that writes to the host, and reverts what is not kept.

`python -m nftop.control.guard_process` runs in a session of its own, so that it survives a lost
terminal and the end of the process that started it. It reads one line of JSON, makes that change,
answers with a line, and waits for `keep` or `revert`, for the timeout, or for the other end to
close. All but `keep` revert the change. A last line reports the outcome. A request of a series of
settings (`series`) is answered line by line.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path

from nftop.control.backend import AbsentError, boot_id
from nftop.control.backends import open_backend
from nftop.control.journal import BusyError, FileJournal
from nftop.control.journal_damage import DamagedJournalError
from nftop.control.journal_entry import KEEP, Requester, proposal_of, receipt_json, settings_of
from nftop.control.recovery import recover
from nftop.control.series import serve_series
from nftop.control.transaction import refused, serve
from nftop.model.change import Receipt
from nftop.sources.runtime.readiness import wait_readable, wait_writable

# Every signal but those of the kernel and SIGKILL.
_IGNORED = (
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE, signal.SIGTSTP,
    signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM,
)  # fmt: skip
_LONGEST_LINE, _LONGEST_WORD = 1 << 26, 1 << 16
# The client may be stopped; sending the reply times out.
_PATIENCE_S = 2.0


def main() -> int:
    """Serve one request on standard input and output."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    os.umask(0o022)  # files are created with explicit modes
    os.chdir("/")
    os.set_blocking(1, False)
    line = _line()
    if not line.endswith(b"\n"):
        return 1  # the client was gone before its request was complete
    raw = json.loads(line)
    journal = FileJournal(Path(raw["folder"]))
    try:
        with journal.hold():
            if raw.get("recover"):
                _recover(journal)
            elif "settings" in raw:
                serve_series(
                    open_backend(raw["identity"], journal.folder),
                    journal,
                    proposal_of(raw),
                    settings_of(raw),
                    Requester(raw["operator"]),
                    answer=_answer,
                    word=_Words().next,
                )
            else:
                serve(
                    open_backend(raw["identity"], journal.folder),
                    journal,
                    proposal_of(raw),
                    Requester(raw["operator"], tuple(raw["undoes"])),
                    raw["keep_within_s"],
                    answer=_answer,
                    kept=_kept,
                )
    except (AbsentError, BusyError, DamagedJournalError, OSError) as error:
        _answer(refused(error))
    return 0


def _recover(journal: FileJournal) -> None:
    pending = journal.pending()
    try:
        backend = open_backend("" if pending is None else pending.identity, journal.folder)
        receipt = recover(backend, journal)
    except AbsentError as error:
        receipt = recover(None, journal, unreachable_reason=str(error), boot=boot_id())
    _answer(receipt)


def _kept(seconds: float) -> bool:
    """Whether `keep` comes in time. Any other word, or the end of input, means no."""
    deadline = time.monotonic() + seconds
    received = b""
    while (left := deadline - time.monotonic()) > 0:
        if not wait_readable([0], left):
            return False
        received += (more := os.read(0, 64))
        if not more or b"\n" in received:
            return received == KEEP
    return False


class _Words:
    """Lines of the client."""

    def __init__(self) -> None:
        self._received = b""

    def next(self, seconds: float) -> bytes | None:
        """The client's next line; None: none in time; b"": it is gone, or its line too long."""
        deadline = time.monotonic() + seconds
        while b"\n" not in self._received:
            left = deadline - time.monotonic()
            if left <= 0 or not wait_readable([0], left):
                return None
            more = os.read(0, 4096)
            if not more or len(self._received) > _LONGEST_WORD:
                return b""
            self._received += more
        line, _, self._received = self._received.partition(b"\n")
        return line


def _answer(receipt: Receipt | None) -> None:
    """Send a line to the client, which may be gone or not read it."""
    message = None if receipt is None else receipt_json(receipt)
    data = json.dumps(message).encode() + b"\n"
    deadline = time.monotonic() + _PATIENCE_S
    try:
        while data and (left := deadline - time.monotonic()) > 0:
            if wait_writable([1], left):
                data = data[os.write(1, data) :]
    except OSError:
        return


def _line() -> bytes:
    data = b""
    while not data.endswith(b"\n") and len(data) < _LONGEST_LINE:
        wait_readable([0], None)  # both directions are one socket, which does not block
        more = os.read(0, 65536)
        if not more:
            break
        data += more
    return data


if __name__ == "__main__":
    sys.exit(main())
