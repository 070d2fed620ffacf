"""The guard: the one process that writes to the host, and takes back what nobody keeps.

`python -m nftop.control.guard`, in a session of its own, so that neither a lost terminal nor the
end of who started it ends it too. It reads one line of JSON, does what that says, answers with a
line, and waits: for `keep` or `revert`, for the time to be up, or for the other end to be gone. All
but the first take the change back. One more line says what became of it.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from nftop.control.backend import AbsentError, AnyPart
from nftop.control.backends import open_part
from nftop.control.journal import BusyError, FileJournal, Journal, hinted
from nftop.control.journal_entry import (
    DamagedError,
    cells_of,
    changes_json,
    changes_of,
    state_json,
    state_of,
)
from nftop.control.resctrl.resctrl import boot_id
from nftop.control.transaction import (
    REVERT_LOCK_S,
    Asked,
    apply,
    keep,
    recover,
    revert,
    waiting,
)
from nftop.model.change import Proposal, Receipt
from nftop.model.error_text import describe_error
from nftop.sources.runtime.readiness import wait_readable, wait_writable

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
        "identity": proposal.identity,
        "base": state_json(proposal.base),
        "changes": changes_json(proposal.changes),
        "commands": list(proposal.commands),
        "unmet": list(proposal.unmet),
        "leaves": list(proposal.leaves),
        "offline": [list(cell) for cell in proposal.offline],
        "final": proposal.final,
        "operator": asked.operator,
        "undoes": list(asked.undoes),
        "folder": os.fspath(folder),
        "keep_within_s": keep_within_s,
    }


def proposal_of(raw: dict[str, Any]) -> Proposal:
    """What is to be done of what the guard is told."""
    return Proposal(
        state_of(raw["base"]),
        changes_of(raw["changes"]),
        commands=tuple(raw["commands"]),
        unmet=tuple(raw["unmet"]),
        leaves=tuple(raw["leaves"]),
        offline=cells_of(raw["offline"]),
        final=raw["final"],
        identity=raw["identity"],
    )


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
        "unmet": list(receipt.unmet),
    }


def receipt_of(raw: dict[str, Any]) -> Receipt:
    """The reverse."""
    return Receipt(
        raw["outcome"],
        tuple(raw["sentences"]),
        changes_of(raw["changes"]),
        raw["number"],
        tuple(raw["unmet"]),
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
    journal = FileJournal(Path(raw["folder"]))
    try:
        with journal.hold():
            if raw.get("recover"):
                _recover(journal)
            else:
                _serve(open_part(raw["identity"], journal.folder), journal, raw)
    except (AbsentError, BusyError, DamagedError, OSError) as error:
        _answer(Receipt("refused", (describe_error(error),)))
    return 0


def _recover(journal: FileJournal) -> None:
    pending = journal.pending()
    try:
        part = open_part("" if pending is None else pending.identity, journal.folder)
        receipt = recover(part, journal)
    except AbsentError as error:
        receipt = recover(None, journal, unseen=str(error), boot=boot_id())
    _answer(receipt)


def _serve(host: AnyPart, journal: Journal, raw: dict[str, Any]) -> None:
    proposal = proposal_of(raw)
    asked = Asked(raw["operator"], tuple(raw["undoes"]))
    serve(host, journal, proposal, asked, raw["keep_within_s"], answer=_answer, kept=_kept)


def serve(
    host: AnyPart,
    journal: Journal,
    proposal: Proposal,
    asked: Asked,
    keep_within_s: float | None,
    *,
    answer: Callable[[Receipt | None], None],
    kept: Callable[[float], bool],
) -> None:
    """Do it, and take it back unless it is kept; the journal is held by the caller.

    Args:
        host: to change.
        journal: of its changes.
        proposal: what to do.
        asked: who asked.
        keep_within_s: None: it is kept at once.
        answer: is told what became of it, and, if it was applied, once more in the end.
        kept: waits so many seconds at most for whoever asked, and says whether it stays.

    Raises:
        OSError, DamagedError: the journal can't be read; nothing was done.
    """
    journal.pending()  # from here on what can't be read is not known to be as it was
    try:
        receipt, entry = apply(host, journal, proposal, asked)
    except Exception as error:  # noqa: BLE001 - whatever it is, nothing may be left half done
        answer(_mended(host, journal, error))
        return
    answer(receipt)
    if entry is None:
        return
    try:
        if keep_within_s is None or kept(keep_within_s):
            end = keep(host, journal, entry)
        else:
            end = waiting(REVERT_LOCK_S, partial(revert, host, journal, entry))
    except Exception as error:  # noqa: BLE001 - it has been written: no silence about it
        end = _unknown(journal, error)
    answer(end)


def _mended(host: AnyPart, journal: Journal, error: Exception) -> Receipt:
    """What became of a change whose doing failed where nothing was foreseen."""
    try:
        mended = recover(host, journal)
    except Exception as second:  # noqa: BLE001 - a second fault is no reason to reassure
        return _unknown(journal, error, second)
    return mended or Receipt("refused", (f"nothing was written: {describe_error(error)}",))


def _unknown(journal: Journal, *errors: Exception) -> Receipt:
    hint = hinted(journal, ": `nftop recover` says, and takes back what is left of it")
    return Receipt(
        "failed", (*map(describe_error, errors), f"how much of it was written is not known{hint}")
    )


def _kept(seconds: float) -> bool:
    """Whether `keep` comes in time. The end of input, or any other word, is a no."""
    deadline = time.monotonic() + seconds
    said = b""
    while (left := deadline - time.monotonic()) > 0:
        if not wait_readable([0], left):
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
