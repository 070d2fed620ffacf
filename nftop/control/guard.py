"""The guard: makes a change, and takes it back unless it is kept in time. Its messages as JSON."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from nftop.control.backend import AnyBackend
from nftop.control.journal import Journal, hinted
from nftop.control.journal_entry import (
    cells_of,
    changes_json,
    changes_of,
    state_json,
    state_of,
)
from nftop.control.transaction import (
    REVERT_LOCK_S,
    Requester,
    apply,
    keep,
    recover,
    retry,
    revert,
)
from nftop.model.change import Proposal, Receipt
from nftop.model.error_text import describe_error

KEEP = b"keep\n"


def request(
    proposal: Proposal, requester: Requester, folder: Path, keep_within_s: float | None
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
        "operator": requester.operator,
        "undoes": list(requester.undoes),
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


def serve(
    host: AnyBackend,
    journal: Journal,
    proposal: Proposal,
    requester: Requester,
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
        requester: of the change.
        keep_within_s: None: it is kept at once.
        answer: is told what became of it, and, if it was applied, once more in the end.
        kept: waits so many seconds at most for whoever asked, and says whether it stays.

    Raises:
        OSError, DamagedError: the journal can't be read; nothing was done.
    """
    journal.pending()  # from here on what can't be read is not known to be as it was
    try:
        receipt, entry = apply(host, journal, proposal, requester)
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
            end = retry(REVERT_LOCK_S, partial(revert, host, journal, entry))
    except Exception as error:  # noqa: BLE001 - it has been written: no silence about it
        end = _unknown(journal, error)
    answer(end)


def _mended(host: AnyBackend, journal: Journal, error: Exception) -> Receipt:
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
