"""The guard: the one process that writes to the host, and takes back what nobody keeps.

`python -m nftop.control.guard`, in a session of its own, so that neither a lost terminal nor the
end of who started it ends it too. It reads one line of JSON, does what that says, answers with a
line, and waits: for `keep` or `revert`, for the time to be up, or for the other end to be gone. All
but the first take the change back. One more line says what became of it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from nftop.control.entry import (
    DamagedError,
    Entry,
    changes_json,
    changes_of,
    state_json,
    state_of,
)
from nftop.control.journal import BusyError, Journal
from nftop.control.resctrl import AbsentError, Host, boot_id, open_resctrl
from nftop.control.transaction import (
    REVERT_LOCK_S,
    Asked,
    apply,
    keep,
    recover,
    revert,
    waiting,
)
from nftop.model.action import Proposal, Receipt

KEEP = b"keep\n"
# All that anybody but the kernel and the operator's own `kill -9` sends.
_IGNORED = (
    signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGPIPE, signal.SIGTSTP,
    signal.SIGTTIN, signal.SIGTTOU, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM,
)  # fmt: skip
_LONGEST_LINE = 1 << 26
# Who asked may be stopped: nobody waits for him to hear it.
_PATIENCE_S = 2.0


def request(
    proposal: Proposal, asked: Asked, folder: Path, keep_within_s: float | None
) -> dict[str, Any]:
    """What the guard is told: JSON. `keep_within_s` None: kept at once, if it could be done."""
    return {
        "base": state_json(proposal.base),
        "changes": changes_json(proposal.changes),
        "command": proposal.command,
        "operator": asked.operator,
        "undoes": list(asked.undoes),
        "folder": os.fspath(folder),
        "keep_within_s": keep_within_s,
    }


def recovery(folder: Path) -> dict[str, Any]:
    """The other thing that it may be told: to mend what a crash left. It answers once."""
    return {"recover": True, "folder": os.fspath(folder)}


def receipt_json(receipt: Receipt) -> dict[str, Any]:
    """A receipt as the guard answers."""
    return {
        "outcome": receipt.outcome,
        "sentences": list(receipt.sentences),
        "changes": changes_json(receipt.changes),
        "number": receipt.number,
    }


def receipt_of(raw: dict[str, Any]) -> Receipt:
    """The reverse."""
    return Receipt(
        raw["outcome"], tuple(raw["sentences"]), changes_of(raw["changes"]), raw["number"]
    )


def main() -> int:
    """Serve one request on standard input and output."""
    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    os.umask(0o022)  # what it makes says itself who may read it
    os.chdir("/")
    os.set_blocking(1, False)
    line = _line()
    if not line.endswith(b"\n"):
        return 1  # who asked was gone before he had said what
    raw = json.loads(line)
    journal = Journal(Path(raw["folder"]))
    try:
        with journal.hold():
            if raw.get("recover"):
                _recover(journal)
            else:
                _serve(open_resctrl(), journal, raw)
    except (AbsentError, BusyError, DamagedError, OSError) as error:
        _answer(Receipt("refused", (str(error),)))
    return 0


def _recover(journal: Journal) -> None:
    try:
        receipt = recover(open_resctrl(), journal)
    except AbsentError as error:
        receipt = recover(None, journal, unseen=str(error), boot=boot_id())
    _answer(receipt)


def _serve(host: Host, journal: Journal, raw: dict[str, Any]) -> None:
    proposal = Proposal(state_of(raw["base"]), changes_of(raw["changes"]), command=raw["command"])
    asked = Asked(raw["operator"], tuple(raw["undoes"]))
    try:
        receipt, entry = apply(host, journal, proposal, asked)
    except Exception as error:  # noqa: BLE001 - whatever it is, nothing may be left half done
        why = f"{type(error).__name__}: {error}"
        mended = recover(host, journal)
        _answer(mended or Receipt("refused", (f"nothing was written: {why}",)))
        return
    _answer(receipt)
    if entry is not None:
        _answer(_settled(host, journal, entry, raw["keep_within_s"]))


def _settled(host: Host, journal: Journal, entry: Entry, keep_within_s: float | None) -> Receipt:
    if keep_within_s is None or _kept(keep_within_s):
        return keep(host, journal, entry)
    return waiting(REVERT_LOCK_S, partial(revert, host, journal, entry))


def _kept(seconds: float) -> bool:
    """Whether `keep` comes in time. The end of input, or any other word, is a no."""
    deadline = time.monotonic() + seconds
    said = b""
    while (left := deadline - time.monotonic()) > 0:
        if not select.select([0], [], [], left)[0]:
            return False
        said += (more := os.read(0, 64))
        if not more or b"\n" in said:
            return said == KEEP
    return False


def _answer(receipt: Receipt | None) -> None:
    """A line to whoever asked; nobody may be there any more, or listen."""
    said = None if receipt is None else receipt_json(receipt)
    data = json.dumps(said).encode() + b"\n"
    deadline = time.monotonic() + _PATIENCE_S
    try:
        while data and (left := deadline - time.monotonic()) > 0:
            if select.select([], [1], [], left)[1]:
                data = data[os.write(1, data) :]
    except OSError:
        return


def _line() -> bytes:
    data = b""
    while not data.endswith(b"\n") and len(data) < _LONGEST_LINE:
        select.select([0], [], [])  # both directions are one socket, which does not block
        more = os.read(0, 65536)
        if not more:
            break
        data += more
    return data


if __name__ == "__main__":
    sys.exit(main())
