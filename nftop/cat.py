"""The commands that show and change cache classes, and the way back.

What is asked for goes through the gate: shown, confirmed, done by its guard, and taken back by that
unless it is kept.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from nftop.cat_actions import GoneError, UsageError, actions, command, missed
from nftop.cat_dialogue import (
    ENDED,
    GOES_BACK,
    GOES_ON,
    INTERRUPTED,
    UNCHANGED,
    EndedError,
    agreed,
    confirm,
    interrupted,
    settle,
    show,
    tell,
)
from nftop.cat_host import processes, simulated, table_of, wants_json
from nftop.cat_profile import exported, imported
from nftop.control.checks import news
from nftop.control.choice import open_classes
from nftop.control.entry import DamagedError, completed
from nftop.control.gate import Gate, needed, real_gate
from nftop.control.journal import DEFAULT as JOURNAL
from nftop.control.journal import FileJournal, Journal, unfinished
from nftop.control.part import AbsentError
from nftop.control.pending import recover
from nftop.control.words import undoing
from nftop.model.action import Outcome, Proposal
from nftop.model.errors import said
from nftop.model.reading import Missing
from nftop.output import FAILURE, OK, USAGE, put, say
from nftop.render.text import printable

# The host is not, or is not known to be, as it was asked to be.
OTHER = 5
_BADGE = "SIMULATED"
_CODES: Mapping[Outcome, int] = {
    "kept": OK,
    "applied": OTHER,
    "reverted": OTHER,
    "conflict": OTHER,
    "differs": OTHER,
    "overwritten": OTHER,
    "locked": FAILURE,
    "refused": FAILURE,
    "failed": OTHER,
}
Planned: TypeAlias = tuple[Proposal, tuple[int, ...]]


def cat(options: argparse.Namespace) -> int:
    """`nftop cat`: show, or change."""
    if options.deed == "show":
        with _ending(options) as ended:
            _show(options)
        return ended[0]
    if options.deed == "export":
        with _ending(options) as ended:
            exported(options, _gate(options), _BADGE * (options.scenario is not None))
        return ended[0]
    if options.deed == "import":
        return _change(options, lambda gate: (imported(options, gate, agreed), ()))
    if options.deed == "reset":
        return _change(options, Gate.propose_reset)

    def plan(gate: Gate) -> Planned:
        asked = actions(options, processes(options, gate.host))
        return gate.propose(asked, (command(options, gate.program),)), ()

    return _change(options, plan)


def undo(options: argparse.Namespace) -> int:
    """`nftop undo`."""
    return _change(options, lambda gate: gate.propose_undo(beyond=options.beyond))


def history(options: argparse.Namespace) -> int:
    """`nftop history`: all that was done, the oldest first."""
    from nftop.export.changes import change_json  # noqa: PLC0415 - only here

    with _ending(options) as ended:
        is_simulated, journal = options.scenario is not None, _journal(options)
        entries, pending, unfinished = journal.history(), journal.pending(), news(journal)
        if wants_json(options):
            cut_off = pending is not None and completed(pending, entries) is None
            rows = (*entries, *[pending] * cut_off)
            for each in filter(None, rows):
                left = unfinished if pending is not None and each is rows[-1] else ""
                told = change_json(each, simulated=is_simulated, unfinished=left)
                put(sys.stdout, told + "\n")
            return ended[0]
        for each in entries:
            undone = f" ({undoing(each)})" if each.undoes else ""
            text = f"{each.number:>4}  {each.time}  {each.operator}  {each.outcome}{undone}"
            put(sys.stdout, printable(f"{text}  {each.command}") + "\n")
        put(sys.stdout, f"{printable(unfinished)}\n" if unfinished else "")
    return ended[0]


def recovery(options: argparse.Namespace) -> int:
    """`nftop recover`: what a crash cut off is taken back."""
    with _ending(options, UNCHANGED) as ended:
        ended[0] = _recover(options)
    return ended[0]


def _recover(options: argparse.Namespace) -> int:
    _demand_privilege(options)
    journal = FileJournal()
    # A simulated host ends with its command: none was left by another.
    entry = journal.pending() if options.scenario is None else None
    if entry is not None and journal.holder():
        raise EndedError(unfinished(journal), FAILURE)
    if entry is None:
        put(sys.stdout, "nothing was cut off\n")
        return OK
    command = printable(entry.command) or "no command"
    done = completed(entry, journal.known()[0])
    state = "is not complete" if done is None else f"was {done.outcome} and is only to be closed"
    put(sys.stdout, f"change {entry.number} of {entry.time} {state}: {command}\n")
    if done is None and not options.yes:
        confirm("take it back? [y/N] ")
    with interrupted(GOES_BACK):
        receipt = recover(journal)
    if receipt is None:
        put(sys.stdout, "nothing was cut off: it has come to its end meanwhile\n")
        return OK
    tell(receipt)
    mended = receipt.number is not None and receipt.outcome not in ("failed", "overwritten")
    return OK if mended else _CODES[receipt.outcome]


def _show(options: argparse.Namespace) -> None:
    table = table_of(options)
    if isinstance(table, Missing):
        raise EndedError(table.sentence, FAILURE)
    is_simulated = options.scenario is not None
    cut_off = "" if is_simulated else news(FileJournal())
    if wants_json(options):
        from nftop.export.changes import classes_json  # noqa: PLC0415 - only here

        told = classes_json(table, simulated=is_simulated, unfinished=cut_off)
        put(sys.stdout, told + "\n")
        return
    from nftop.render.classes import classes  # noqa: PLC0415 - only here

    lines = [*[printable(cut_off), ""] * bool(cut_off), *classes(table)]
    put(sys.stdout, "\n".join(lines) + "\n")


def _change(options: argparse.Namespace, plan: Callable[[Gate], Planned | None]) -> int:
    with _ending(options, UNCHANGED) as ended:
        ended[0] = _changed(options, plan)
    return ended[0]


def _changed(options: argparse.Namespace, plan: Callable[[Gate], Planned | None]) -> int:
    """Show, ask, do, ask again."""
    gate = _gate(options)
    if not _needed(options) and unfinished(gate.journal):
        raise EndedError(unfinished(gate.journal), FAILURE)
    planned = plan(gate)
    if planned is None:
        put(sys.stdout, "there is nothing to take back\n")
        return OK
    proposal, undoes = planned
    show(gate, proposal)
    if proposal.refusals:
        return FAILURE
    if options.dry_run:
        return OK
    if not proposal.changes:
        return OTHER if proposal.unmet else OK
    _demand_privilege(options)
    if options.yes:
        with interrupted(GOES_ON if gate.lasts else ENDED):
            receipt = gate.apply(proposal, keep_within_s=None, undoes=undoes).receipt
    else:
        confirm("apply? [y/N] ")
        with interrupted(GOES_BACK if gate.lasts else ENDED):
            pending = gate.apply(proposal, keep_within_s=options.keep_within_s, undoes=undoes)
        receipt = settle(pending, options.keep_within_s, GOES_BACK if gate.lasts else ENDED)
    unmet = proposal.unmet + receipt.unmet
    if receipt.outcome == "kept" and getattr(options, "tasks", None):
        with contextlib.suppress(GoneError):  # it ended meanwhile
            missing = missed(options, gate.host, processes(options, gate.host))
            unmet += (missing,) * bool(missing)
            receipt = replace(receipt, sentences=(*receipt.sentences, *[missing] * bool(missing)))
    tell(receipt)
    if options.scenario is not None:
        change = ", and the change with it" * (receipt.outcome == "kept")
        put(sys.stdout, f"{_BADGE}: its host ended with this command{change}\n")
    return OTHER if receipt.outcome == "kept" and unmet else _CODES[receipt.outcome]


@contextlib.contextmanager
def _ending(options: argparse.Namespace, meaning: str = "") -> Iterator[list[int]]:
    """What ends a command early as a sentence; the exit code is in the list.

    `meaning`: what Ctrl-C means to it.
    """
    ended = [OK]
    why = ""
    if options.scenario is not None and not wants_json(options) and not _for_a_file(options):
        put(sys.stdout, f"{_BADGE}: nothing of this machine is shown or changed\n")
    try:
        yield ended
    except EndedError as error:
        why, ended[0] = str(error), error.code
    except UsageError as error:
        why, ended[0] = str(error), USAGE
    except PermissionError as error:
        what = error.filename if isinstance(error.filename, str) else ""
        ours = not what or Path(what).is_relative_to(JOURNAL)
        who = "the journal of changes is root's" if ours else f"{what} can't be read or written"
        why, ended[0] = f"{who}: run it with sudo", FAILURE
    except BrokenPipeError:
        raise
    except (AbsentError, DamagedError, GoneError, OSError) as error:
        why, ended[0] = said(error), FAILURE
    except KeyboardInterrupt:
        why, ended[0] = meaning, INTERRUPTED
    if why:
        say(f"nftop: {printable(why)}")


def _demand_privilege(options: argparse.Namespace) -> None:
    if _needed(options):
        raise EndedError(_needed(options), FAILURE)


def _needed(options: argparse.Namespace) -> str:
    """The privilege that is lacking; the simulated host takes none."""
    return "" if options.scenario is not None else needed()


def _gate(options: argparse.Namespace) -> Gate:
    """Of the host that the command line means."""
    if options.scenario is None:
        return real_gate(open_classes())
    from nftop.control.simulated import simulated_gate  # noqa: PLC0415 - numpy comes with it

    return simulated_gate(simulated(options).world)


def _journal(options: argparse.Namespace) -> Journal:
    return FileJournal() if options.scenario is None else _gate(options).journal


def _for_a_file(options: argparse.Namespace) -> bool:
    """Whether standard output is a profile, which has its badge in a comment."""
    return getattr(options, "deed", "") == "export" and options.output is None
