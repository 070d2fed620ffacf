"""Confirmation prompts of the commands that change the host."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator

from nftop.cli.parsers.cat import INTERRUPTED, EndedError
from nftop.control.gate_protocols import Gate, PendingChange
from nftop.export.output import FAILURE, USAGE, put
from nftop.model.change import Proposal, Receipt
from nftop.render.base.text import printable
from nftop.render.editor.change import preview
from nftop.sources.runtime.readiness import wait_readable

UNCHANGED = "nothing was changed"
ENDED = "the simulated host ended with this command"


def show(gate: Gate, proposal: Proposal) -> None:
    """Print a proposal: changes, effects, writes. Raises OSError."""
    rules = gate.rules_for(proposal)
    ways = {line: rule.ways for line, rule in rules.masks.items()}
    unit = "percent" if rules.limit is None else rules.limit.unit
    lines = preview(proposal, ways, unit)
    writes = gate.writes(proposal)
    if writes:
        lines += ["writes:", *(f"  {printable(write)}" for write in writes)]
    elif proposal.unmet:
        lines.append("there is nothing else to change")
    elif not proposal.refusals:
        lines.append("nothing to change: it is so already")
    put(sys.stdout, "\n".join(lines) + "\n")


def apply_question(proposal: Proposal, keep_within_s: float) -> str:
    """The question whether to apply a proposal; it says what happens without an answer."""
    if proposal.final:
        meaning = "final: kept at once, there is no second question"
    else:
        meaning = f"taken back after {keep_within_s:g} s unless you keep it then"
    return f"apply? ({meaning}) [y/N] "


def confirm(question: str) -> None:
    """Return after a yes. Raises EndedError."""
    if not _interactive():
        raise EndedError("nobody to ask: without a terminal a change needs --yes", USAGE)
    try:
        put(sys.stdout, question)
        yes = _yes(_answer())
    except KeyboardInterrupt:
        put(sys.stdout, "\n")
        raise
    if not yes:
        raise EndedError(UNCHANGED, FAILURE)


def settle(pending: PendingChange, seconds: float, meaning: str) -> Receipt:
    """Ask whether to keep a change; the time may be up before the answer.

    `meaning`: message on a second Ctrl-C. Raises EndedError after the first.
    """
    if pending.receipt.outcome != "applied":
        return pending.receipt
    deadline = time.monotonic() + seconds
    try:
        print_receipt(pending.receipt)
        put(sys.stdout, f"keep? [y/N] (taken back by itself in {seconds:g} s) ")
        while time.monotonic() < deadline and pending.settled(0) is None:
            if wait_readable([sys.stdin], 0.2):
                return pending.keep() if _yes(_answer()) else pending.revert()
        put(sys.stdout, "\n")
        return pending.revert()
    except KeyboardInterrupt:
        with interrupted(meaning):
            put(sys.stdout, "\nit is being taken back\n")
            print_receipt(pending.revert())
        raise EndedError("", INTERRUPTED) from None


@contextlib.contextmanager
def interrupted(sentence: str) -> Iterator[None]:
    """End with this message on Ctrl-C, which the guard does not receive."""
    try:
        yield
    except KeyboardInterrupt:
        raise EndedError(sentence, INTERRUPTED) from None


def agreed(question: str) -> bool:
    """Whether an operator confirms."""
    if not _interactive():
        return False
    put(sys.stdout, question)
    return _yes(_answer())


def print_receipt(receipt: Receipt) -> None:
    head, *more = receipt.sentences or ("",)
    lines = [f"{receipt.outcome}: {head}", *(f"  {item}" for item in more)]
    put(sys.stdout, "\n".join(map(printable, lines)) + "\n")


def _interactive() -> bool:
    """Whether input and output are terminals."""
    return all(stream is not None and stream.isatty() for stream in (sys.stdin, sys.stdout))


def _answer() -> str:
    """A line from the terminal; "" at the end of its input."""
    text = sys.stdin.readline()
    if not text.endswith("\n"):
        put(sys.stdout, "\n")
    return text


def _yes(answer: str) -> bool:
    return answer.strip().lower() in ("y", "yes")
