"""The commands that show and change cache classes, and the way back.

What is asked for goes through the gate: shown, confirmed, done by its guard, and taken back by that
unless it is kept.
"""

from __future__ import annotations

import argparse
import contextlib
import select
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from nftop.cat_actions import UsageError, actions, command, missed
from nftop.control.entry import DamagedError, completed
from nftop.control.gate import Gate, Pending, needed, recover
from nftop.control.journal import DEFAULT as JOURNAL
from nftop.control.journal import Journal
from nftop.control.resctrl import AbsentError, open_resctrl
from nftop.model.action import Outcome, Proposal, Receipt
from nftop.model.reading import Missing
from nftop.output import put
from nftop.render.change import preview
from nftop.render.text import printable
from nftop.sources.resctrl.source import ResctrlSource
from nftop.sources.topology import read_topology

# `OTHER`: the host is not as it was asked to be.
OK, FAILURE, USAGE, OTHER = 0, 1, 2, 5
_CODES: Mapping[Outcome, int] = {
    "kept": OK,
    "applied": OTHER,
    "reverted": OTHER,
    "conflict": OTHER,
    "differs": OTHER,
    "foreign": OTHER,
    "locked": FAILURE,
    "refused": FAILURE,
    "failed": FAILURE,
}
Planned: TypeAlias = tuple[Proposal, tuple[int, ...]]


class _EndedError(Exception):
    """It ends here, with a sentence and an exit code."""

    def __init__(self, sentence: str, code: int) -> None:
        super().__init__(sentence)
        self.code = code


def cat(options: argparse.Namespace) -> int:
    """`nftop cat`: show, or change."""
    if options.deed == "show":
        with _ending() as ended:
            _show(options)
        return ended[0]
    if options.deed == "reset":
        return _change(options, Gate.propose_reset)
    return _change(options, lambda gate: (gate.propose(actions(options), command(options)), ()))


def undo(options: argparse.Namespace) -> int:
    """`nftop undo`."""
    return _change(options, Gate.propose_undo)


def history(options: argparse.Namespace) -> int:
    """`nftop history`: all that was done, the oldest first."""
    from nftop.export.changes import change_json  # noqa: PLC0415 - only here

    with _ending() as ended:
        for each in Journal().history():
            undone = f" (takes back {', '.join(map(str, each.undoes))})" if each.undoes else ""
            text = f"{each.number:>4}  {each.time}  {each.operator}  {each.outcome}{undone}"
            as_json = options.json or options.form == "json"
            line = change_json(each) if as_json else printable(f"{text}  {each.command}")
            put(sys.stdout, line + "\n")
    return ended[0]


def recovery(options: argparse.Namespace) -> int:
    """`nftop recover`: what a crash cut off is taken back."""
    with _ending() as ended:
        ended[0] = _recover(options)
    return ended[0]


def _recover(options: argparse.Namespace) -> int:
    _demand_privilege()
    journal = Journal()
    entry = journal.pending()
    if entry is not None and journal.holder():
        raise _EndedError(journal.unfinished(), FAILURE)
    if entry is None:
        put(sys.stdout, "nothing was cut off\n")
        return OK
    command = printable(entry.command) or "no command"
    done = completed(entry, journal.known()[0])
    state = "is not complete" if done is None else f"was {done.outcome} and is only to be closed"
    put(sys.stdout, f"change {entry.number} of {entry.time} {state}: {command}\n")
    if done is None and not options.yes:
        _confirm("take it back? [y/N] ")
    receipt = recover(journal)
    if receipt is None:
        put(sys.stdout, "nothing was cut off: it has come to its end meanwhile\n")
        return OK
    _tell(receipt)
    mended = receipt.number is not None and receipt.outcome not in ("failed", "foreign")
    return OK if mended else _CODES[receipt.outcome]


def _show(options: argparse.Namespace) -> None:
    root = Path("/")
    source = ResctrlSource(root, read_topology(root))
    table = source.read()
    source.close()
    if isinstance(table, Missing):
        raise _EndedError(table.sentence, FAILURE)
    if options.json or options.form == "json":
        from nftop.export.changes import classes_json  # noqa: PLC0415 - only here

        put(sys.stdout, classes_json(table) + "\n")
        return
    from nftop.render.classes import classes  # noqa: PLC0415 - only here

    put(sys.stdout, "\n".join(classes(table)) + "\n")


def _change(options: argparse.Namespace, plan: Callable[[Gate], Planned | None]) -> int:
    with _ending() as ended:
        ended[0] = _changed(options, plan)
    return ended[0]


def _changed(options: argparse.Namespace, plan: Callable[[Gate], Planned | None]) -> int:
    """Show, ask, do, ask again."""
    gate = Gate(open_resctrl())
    if not needed() and gate.journal.unfinished():
        raise _EndedError(gate.journal.unfinished(), FAILURE)
    planned = plan(gate)
    if planned is None:
        put(sys.stdout, "there is nothing to take back\n")
        return OK
    proposal, undoes = planned
    _preview(gate, proposal)
    if proposal.refusals:
        return FAILURE
    if not proposal.changes or options.dry_run:
        return OK
    _demand_privilege()
    if options.yes:
        receipt = gate.apply(proposal, keep_within_s=None, undoes=undoes).receipt
    else:
        _confirm("apply? [y/N] ")
        pending = gate.apply(proposal, keep_within_s=options.keep_within_s, undoes=undoes)
        receipt = _settle(pending, options.keep_within_s)
    if receipt.outcome == "kept" and getattr(options, "tasks", None):
        with contextlib.suppress(UsageError):  # it ended meanwhile
            missing = missed(options, gate.host)
            receipt = replace(receipt, sentences=(*receipt.sentences, *[missing] * bool(missing)))
    _tell(receipt)
    return _CODES[receipt.outcome]


def _settle(pending: Pending, seconds: float) -> Receipt:
    """Ask whether it stays; time may be up before there is an answer."""
    if pending.receipt.outcome != "applied":
        return pending.receipt
    deadline = time.monotonic() + seconds
    _tell(pending.receipt)
    put(sys.stdout, f"keep? [y/N] (taken back by itself in {seconds:g} s) ")
    while time.monotonic() < deadline:
        if select.select([sys.stdin], [], [], 0.2)[0]:
            return pending.keep() if _yes(sys.stdin.readline()) else pending.revert()
        settled = pending.settled(0)
        if settled is not None:
            break
    put(sys.stdout, "\n")
    return pending.revert()


def _preview(gate: Gate, proposal: Proposal) -> None:
    rules = gate.host.rules()
    ways = {line: rule.ways for line, rule in rules.masks.items()}
    unit = "percent" if rules.limit is None else rules.limit.unit
    lines = preview(proposal, ways, unit)
    writes = gate.writes(proposal)
    if writes:
        lines += ["writes:", *(f"  {printable(each)}" for each in writes)]
    elif not proposal.refusals:
        lines.append("nothing to change: it is so already")
    put(sys.stdout, "\n".join(lines) + "\n")


@contextlib.contextmanager
def _ending() -> Iterator[list[int]]:
    """What ends a command early as a sentence; the exit code is in the list."""
    ended = [OK]
    why = ""
    try:
        yield ended
    except _EndedError as error:
        why, ended[0] = str(error), error.code
    except UsageError as error:
        why, ended[0] = str(error), USAGE
    except PermissionError as error:
        what = error.filename if isinstance(error.filename, str) else ""
        ours = not what or Path(what).is_relative_to(JOURNAL)
        who = "the journal of changes is root's" if ours else f"{what} can't be read or written"
        why, ended[0] = f"{who}: run it with sudo", FAILURE
    except (AbsentError, DamagedError) as error:
        why, ended[0] = str(error), FAILURE
    except BrokenPipeError:
        raise
    except OSError as error:
        where = f"{error.filename}: " if isinstance(error.filename, str) else ""
        why, ended[0] = f"{where}{error.strerror}", FAILURE
    if why and sys.stderr is not None:
        sys.stderr.write(f"nftop: {printable(why)}\n")


def _demand_privilege() -> None:
    if needed():
        raise _EndedError(needed(), FAILURE)


def _confirm(question: str) -> None:
    """Go on only after a yes."""
    if not all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout)):
        raise _EndedError("nobody to ask: without a terminal a change needs --yes", USAGE)
    put(sys.stdout, question)
    if not _yes(sys.stdin.readline()):
        raise _EndedError("nothing was changed", FAILURE)


def _yes(answer: str) -> bool:
    return answer.strip().lower() in ("y", "yes")


def _tell(receipt: Receipt) -> None:
    head, *more = receipt.sentences or ("",)
    lines = [f"{receipt.outcome}: {head}", *(f"  {each}" for each in more)]
    put(sys.stdout, "\n".join(map(printable, lines)) + "\n")
