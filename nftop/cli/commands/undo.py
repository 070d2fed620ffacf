"""`undo`, `history` and `recover`: revert changes of any kind, and list them."""

from __future__ import annotations

import argparse
import sys

from nftop.cli.commands.apply import CODES, change, demand_privilege
from nftop.cli.compose.classes_host import ending, wants_json
from nftop.cli.compose.gates import journal_of, undo_gate
from nftop.cli.confirmation import UNCHANGED, confirm, interrupted, print_receipt
from nftop.cli.parsers.cat import EndedError
from nftop.control.change_history import undone_by
from nftop.control.guard_client import recover
from nftop.control.journal import FileJournal, unfinished
from nftop.control.journal_damage import DamagedJournalError
from nftop.control.journal_entry import Entry, completed
from nftop.control.journal_status import news
from nftop.control.wording import GUARD_REVERTS
from nftop.export.output import FAILURE, OK, put, warn_lines
from nftop.render.base.text import printable


def undo(options: argparse.Namespace) -> int:
    return change(options, undo_gate, lambda gate: gate.propose_undo(beyond=options.beyond))


def history(options: argparse.Namespace) -> int:
    """`nftop history`: all changes, the oldest first."""
    from nftop.export.json.changes import change_json  # noqa: PLC0415 - only here

    with ending(options) as ended:
        is_simulated, journal = options.scenario is not None, journal_of(options)
        unfinished, pending = news(journal), None
        try:
            entries, pending = journal.history(), journal.pending()
        except DamagedJournalError as error:  # show what can be read
            entries, ended[0] = journal.known()[0], FAILURE
            _explain(error)
        undone = undone_by(entries)
        if wants_json(options):
            cut_off = pending is not None and completed(pending, entries) is None
            rows = (*entries, *[pending] * cut_off)
            for row in filter(None, rows):
                left = unfinished if pending is not None and row is rows[-1] else ""
                by = undone.get(row.number)
                data = change_json(row, simulated=is_simulated, unfinished=left, undone_by=by)
                put(sys.stdout, data + "\n")
            return ended[0]
        for entry in entries:
            notes = f" ({_undoing(entry)})" if entry.undoes else ""
            if by := undone.get(entry.number):
                notes += f" (undone{' in part' * by[1]} by {by[0]})"
            notes += "" if entry.verified else " (unverified: no checksum)"
            text = f"{entry.number:>4}  {entry.time}  {entry.operator}  {entry.outcome}{notes}"
            put(sys.stdout, printable(f"{text}  {entry.command}") + "\n")
        if not entries and not unfinished and ended[0] == OK:
            put(sys.stdout, "nothing was changed by nftop\n")
        put(sys.stdout, f"{printable(unfinished)}\n" if unfinished else "")
    return ended[0]


def _undoing(entry: Entry) -> str:
    """`takes back 1, 2 in part; leaves 3`."""
    back = [f"{undoe}{' in part' * (undoe in entry.leaves)}" for undoe in entry.undoes]
    passed = [str(leave) for leave in entry.leaves if leave not in entry.undoes]
    words = [f"takes back {', '.join(back)}"] * bool(back)
    return "; ".join(words + [f"leaves {', '.join(passed)}"] * bool(passed))


def _explain(error: DamagedJournalError) -> None:
    """Print what is damaged, its legible content and how to clear it, on standard error."""
    warn_lines("\n  ".join(map(printable, (f"nftop: {error}", *error.details))))


def recovery(options: argparse.Namespace) -> int:
    """`nftop recover`: revert an interrupted change."""
    with ending(options, UNCHANGED) as ended:
        try:
            ended[0] = _recover(options)
        except DamagedJournalError as error:
            ended[0] = FAILURE
            _explain(error)
    return ended[0]


def _recover(options: argparse.Namespace) -> int:
    demand_privilege(options)
    journal = FileJournal()
    # Nothing remains of a simulated host.
    entry = journal.pending() if options.scenario is None else None
    if entry is not None and journal.holder():
        raise EndedError(unfinished(journal), FAILURE)
    if entry is None:
        if options.scenario is None:
            journal.history()  # raises if it is damaged
        put(sys.stdout, "nothing was cut off\n")
        return OK
    command = printable(entry.command) or "no command"
    done = completed(entry, journal.known()[0])
    state = "is not complete" if done is None else f"was {done.outcome} and is only to be closed"
    put(sys.stdout, f"change {entry.number} of {entry.time} {state}: {command}\n")
    if done is None and entry.undoes:
        numbers = ", ".join(map(str, sorted(entry.undoes)))
        put(sys.stdout, f"it was to take back {numbers}: recovery leaves that for `nftop undo`\n")
    if done is None and not options.yes:
        confirm("take it back? [y/N] ")
    with interrupted(GUARD_REVERTS):
        receipt = recover(journal)
    if receipt is None:
        put(sys.stdout, "nothing was cut off: it has come to its end meanwhile\n")
        return OK
    print_receipt(receipt)
    unmended = receipt.outcome in ("failed", "overwritten", "partial")
    return CODES[receipt.outcome] if unmended or receipt.number is None else OK
