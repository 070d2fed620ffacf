"""Common steps of the commands that change the host: show, confirm, apply, keep or revert."""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol, TypeAlias, TypeVar

from nftop.cli.compose.classes_host import wants_json
from nftop.cli.confirmation import (
    ENDED,
    INTERRUPTED,
    UNCHANGED,
    EndedError,
    apply_question,
    confirm,
    interrupted,
    print_receipt,
    settle,
    show,
)
from nftop.cli.parsers.cat_actions import GoneError, UsageError
from nftop.control.backend import AbsentError
from nftop.control.change_history import in_effect
from nftop.control.gate import missing_privilege
from nftop.control.gate_protocols import Gate
from nftop.control.journal import DEFAULT as JOURNAL
from nftop.control.journal import Journal, unfinished
from nftop.control.journal_damage import DamagedJournalError
from nftop.control.wording import GUARD_GOES_ON, GUARD_REVERTS
from nftop.export.output import FAILURE, OK, USAGE, put, warn
from nftop.model.change import Outcome, Proposal, Receipt
from nftop.model.error_text import describe_error
from nftop.model.struct import replace
from nftop.render.base.text import printable

# The host is not, or is not known to be, in the requested state.
OTHER = 5
BADGE = "SIMULATED"
CODES: Mapping[Outcome, int] = {
    "kept": OK, "applied": OTHER, "reverted": OTHER, "conflict": OTHER, "differs": OTHER,
    "overwritten": OTHER, "partial": OTHER, "locked": FAILURE, "refused": FAILURE, "failed": OTHER,
}  # fmt: skip
Planned: TypeAlias = tuple[Proposal, tuple[int, ...]]


class WithJournal(Gate, Protocol):
    @property
    def journal(self) -> Journal:
        """The journal of its changes."""


G = TypeVar("G", bound=WithJournal)


def change(
    options: argparse.Namespace,
    open_gate: Callable[[argparse.Namespace], G],
    plan: Callable[[G], Planned | None],
    missed: Callable[[G], str] = lambda _: "",
) -> int:
    """Show, confirm, apply and keep a change; returns the exit code.

    `plan` returns the proposal and the numbers of the changes it reverts, or None for nothing.
    `missed` returns a message on what a kept change lacks; it may raise GoneError.
    """
    with ending(options, UNCHANGED) as ended:
        ended[0] = _changed(options, open_gate(options), plan, missed)
    return ended[0]


def _changed(
    options: argparse.Namespace,
    gate: G,
    plan: Callable[[G], Planned | None],
    missed: Callable[[G], str],
) -> int:
    if not needs(options) and unfinished(gate.journal):
        raise EndedError(unfinished(gate.journal), FAILURE)
    planned = plan(gate)
    if planned is None:
        put(sys.stdout, f"there is nothing to take back{_bygone(gate.journal)}\n")
        return OK
    proposal, undoes = planned
    show(gate, proposal)
    if proposal.refusals:
        return FAILURE
    if options.dry_run:
        return OK
    if not proposal.changes:
        return OTHER if proposal.unmet else OK
    demand_privilege(options)
    if options.yes:
        receipt = _kept_at_once(gate, proposal, undoes)
    else:
        receipt = _confirmed(options, gate, proposal, undoes)
    unmet = proposal.unmet + receipt.unmet
    if receipt.outcome == "kept":
        with contextlib.suppress(GoneError):  # it ended meanwhile
            try:
                missing = missed(gate)
            except OSError as error:
                missing = f"whether all of it was moved can't be read: {describe_error(error)}"
            unmet += (missing,) * bool(missing)
            receipt = replace(receipt, sentences=(*receipt.sentences, *[missing] * bool(missing)))
    print_receipt(receipt)
    if options.scenario is not None:
        change = ", and the change with it" * (receipt.outcome == "kept")
        put(sys.stdout, f"{BADGE}: its host ended with this command{change}\n")
    return OTHER if receipt.outcome == "kept" and unmet else CODES[receipt.outcome]


def _bygone(journal: Journal) -> str:
    """Why changes in the journal can't be reverted; "" without any."""
    numbers = [entry.number for entry in in_effect(journal.history())]
    if not numbers:
        return ""
    return (
        f": change {numbers[-1]} was made before a reboot or a remount of resctrl, which reset it, "
        "or its part of the host is not available now"
    )


def _confirmed(
    options: argparse.Namespace, gate: Gate, proposal: Proposal, undoes: tuple[int, ...]
) -> Receipt:
    """Ask, apply and, unless the proposal is final, ask whether to keep it. Raises EndedError."""
    keep_within_s = options.keep_within_s
    confirm(apply_question(proposal, keep_within_s))
    if proposal.final:
        return _kept_at_once(gate, proposal, undoes)
    meaning = GUARD_REVERTS if gate.persistent else ENDED
    with interrupted(meaning):
        pending = gate.apply(proposal, keep_within_s=keep_within_s, undoes=undoes)
    return settle(pending, keep_within_s, meaning)


def _kept_at_once(gate: Gate, proposal: Proposal, undoes: tuple[int, ...]) -> Receipt:
    """Apply without a second question; the guard continues if this process is interrupted."""
    with interrupted(GUARD_GOES_ON if gate.persistent else ENDED):
        return gate.apply(proposal, keep_within_s=None, undoes=undoes).receipt


@contextlib.contextmanager
def ending(options: argparse.Namespace, meaning: str = "") -> Iterator[list[int]]:
    """Print why a command ends early; the list has the exit code. `meaning`: message on Ctrl-C."""
    ended = [OK]
    why = ""
    if options.scenario is not None and not wants_json(options) and not _for_a_file(options):
        put(sys.stdout, f"{BADGE}: nothing of this machine is shown or changed\n")
    try:
        yield ended
    except EndedError as error:
        why, ended[0] = str(error), error.code
    except UsageError as error:
        why, ended[0] = str(error), USAGE
    except PermissionError as error:
        what = error.filename if isinstance(error.filename, str) else ""
        ours = not what or Path(what).is_relative_to(JOURNAL)
        reason = "the journal of changes is root's" if ours else f"{what} can't be read or written"
        why, ended[0] = f"{reason}: run it with sudo", FAILURE
    except BrokenPipeError:
        raise
    except (AbsentError, DamagedJournalError, GoneError, OSError) as error:
        why, ended[0] = describe_error(error), FAILURE
    except KeyboardInterrupt:
        why, ended[0] = meaning, INTERRUPTED
    if why:
        warn(f"nftop: {printable(why)}")


def demand_privilege(options: argparse.Namespace) -> None:
    """Raise EndedError without the privilege."""
    if needs(options):
        raise EndedError(needs(options), FAILURE)


def needs(options: argparse.Namespace) -> str:
    """Message on the missing privilege; the simulated host needs none."""
    return "" if options.scenario is not None else missing_privilege()


def _for_a_file(options: argparse.Namespace) -> bool:
    """Whether standard output is a profile, which has its badge in a comment."""
    return getattr(options, "subcommand", "") == "export" and options.output is None
