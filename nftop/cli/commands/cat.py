"""`nftop cat`: change cache classes, import and export profiles; `cat_show` shows them."""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from nftop.cli.commands.apply import Planned, change
from nftop.cli.compose.classes_host import (
    BADGE,
    ending,
    known_numbers,
    processes,
    resolve_group,
)
from nftop.cli.compose.gates import classes_gate
from nftop.cli.confirmation import agreed
from nftop.cli.parsers.cat import EndedError, UsageError
from nftop.cli.parsers.cat_actions import (
    TrialWish,
    actions,
    command,
    io_wish,
    mask_actions,
    missed,
)
from nftop.control.gate import BackendClassGate, BackendGate
from nftop.control.gate_protocols import ClassGate
from nftop.control.profile.formats import PARSERS, WRITERS, form_of
from nftop.control.profile.profile import MOST_BYTES, ProfileProblem, mended
from nftop.control.profile.validate import Fitted, export_profile, fit
from nftop.export.output import FAILURE, put
from nftop.model.change import Proposal, ReasonCode, Refusal
from nftop.model.number_text import counted
from nftop.model.rdt.rdt import class_directory
from nftop.model.struct import replace
from nftop.render.base.text import printable
from nftop.store.folders import open_file, write_new


def imported(options: argparse.Namespace, gate: ClassGate, ask: Callable[[str], bool]) -> Proposal:
    """Proposal of a profile file; errors are printed, and fixed only if `ask` agrees.

    With `--fix` every offered edit is accepted. A profile that does not fit is a proposal with
    refusals. Raises UsageError: the file can't be read.
    """
    text = _read(options.file)
    parse = PARSERS[options.profile or form_of(options.file, text)]
    state, rules = gate.host.state(), gate.host.rules()
    numbers = known_numbers(options)
    fitted = fit(parse(text), state, rules, numbers)
    seen = {text}
    while offered := [problem for problem in fitted.problems if problem.edits]:
        agree = (lambda _: True) if options.fix else ask
        accepted = _accepted(offered, text, options.file, agree)
        text = mended(text, accepted)
        if not accepted or text in seen:
            break
        seen.add(text)
        fitted = fit(parse(text), state, rules, numbers)
    left = [problem for problem in fitted.problems if not problem.edits]
    _print_problems(left, options.file)
    words = ["cat", "import", options.file, *["--fix"] * options.fix]
    commands = (f"{gate.program} {shlex.join(words)}",)
    if any(item.fatal for item in fitted.problems):
        return Proposal(state, (), refusals=(_refusal(fitted, options),), commands=commands)
    return gate.propose(fitted.actions, commands)


def _wanted(options: argparse.Namespace, gate: ClassGate) -> TrialWish:
    """The configuration of `cat try`. Raises UsageError, GoneError, EndedError."""
    if options.of_io:
        return io_wish(options)
    if options.file is None:
        if options.group is None:
            raise UsageError("a PROFILE, --group with masks or limits, or --io with --l3")
        wanted = mask_actions(options, class_directory(options.group))
        words = shlex.split(command(options, ""))[2:]
        return TrialWish("changed", tuple(wanted), tuple(words))
    if options.group is not None:
        raise UsageError("a PROFILE or --group, not both")
    text = _read(options.file)
    parse = PARSERS[options.profile or form_of(options.file, text)]
    numbers = known_numbers(options)
    fitted = fit(parse(text), gate.host.state(), gate.host.rules(), numbers)
    _print_problems(fitted.problems, options.file)
    if any(problem.fatal for problem in fitted.problems):
        raise EndedError(f"{options.file} does not fit: see above", FAILURE)
    label = Path(options.file).stem or "profile"
    return TrialWish(label, tuple(fitted.actions), (options.file,))


def _accepted(
    offered: Sequence[ProfileProblem], text: str, file: str, ask: Callable[[str], bool]
) -> list[ProfileProblem]:
    """Problems whose edits are accepted, one by one."""
    accepted = []
    for problem in offered:
        _print_problems([problem], file)
        put(sys.stdout, _edit_text(problem, text))
        if ask("mend it so? [y/N] "):
            accepted.append(problem)
    return accepted


def _edit_text(problem: ProfileProblem, text: str) -> str:
    """The line of a problem before and after its edits, or the line that it would add."""
    span = problem.edits[0].span
    after = mended(text, [problem]).splitlines()
    if span is None:
        return f"  added: {printable(after[-1])}\n"
    before = text.splitlines()[span.line - 1]
    return f"  now:  {printable(before)}\n  then: {printable(after[span.line - 1])}\n"


def _print_problems(problems: Iterable[ProfileProblem], file: str) -> None:
    for problem in problems:
        where = f"{_shown(file)}, line {problem.line}" if problem.line else _shown(file)
        kind = "error" if problem.fatal else "note"
        put(sys.stdout, printable(f"{kind}: {where}: {problem.text}") + "\n")


def _shown(file: str) -> str:
    return "standard input" if file == "-" else file


def _refusal(fitted: Fitted, options: argparse.Namespace) -> Refusal:
    left = [problem for problem in fitted.problems if problem.fatal]
    unmade = sum(bool(item.edits) for item in left)
    hint = f"--fix mends {unmade}" if unmade else "--fix mends none"
    text = f"{counted(len(left), 'error')} left in {_shown(options.file)}, see above; {hint}"
    return Refusal(ReasonCode.PROFILE_INVALID, text)


def exported(options: argparse.Namespace, gate: ClassGate, badge: str) -> None:
    """The host's classes as a profile, on standard output or in a new file.

    `badge`: printed before all else; "" for this host.
    """
    state = gate.host.state()
    groups = [cell.group for cell in state if cell.kind == "group"]
    rules = replace(gate.host.rules(), tasks=gate.host.tasks(groups, ()))
    profile = export_profile(state, rules, known_numbers(options))
    head = f"# {badge}: no real host's classes\n" if badge else ""
    try:
        text = head + WRITERS[options.profile or form_of(options.output or "", "")](profile)
    except ValueError as error:
        raise EndedError(str(error), FAILURE) from None
    if options.output is None:
        put(sys.stdout, text)
        return
    write_new(Path(options.output), text, 0o644)
    notes = [f"  not in it: {note}" for note in profile.notes]
    lines = [f"written: {options.output}", *notes]
    put(sys.stdout, "".join(f"{printable(line)}\n" for line in lines))


def _read(name: str) -> str:
    try:
        if name == "-":
            data = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with os.fdopen(open_file(Path(name), wait=True), "rb") as file:
                data = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror}") from None
    if len(data) > MOST_BYTES:
        raise UsageError(f"{name}: no profile is longer than {MOST_BYTES >> 10} KiB")
    return data.decode("utf-8", "replace")


def cat(options: argparse.Namespace) -> int:
    resolve_group(options)
    if options.subcommand == "export":
        with ending(options) as ended:
            exported(options, classes_gate(options), BADGE * (options.scenario is not None))
        return ended[0]
    if options.subcommand == "import":
        return change(options, classes_gate, lambda gate: (imported(options, gate, agreed), ()))
    if options.subcommand in ("sweep", "try", "footprint"):
        return _experiment(options)
    if options.subcommand == "reset":
        return change(options, classes_gate, BackendGate.propose_reset)

    def plan(gate: BackendClassGate) -> Planned:
        requested = actions(options, processes(options, gate.host))
        return gate.propose(requested, (command(options, gate.program),)), ()

    def missing(gate: BackendClassGate) -> str:
        return missed(options, gate.host, processes(options, gate.host)) * bool(moves_tasks)

    moves_tasks = getattr(options, "tasks", None)
    return change(options, classes_gate, plan, missing)


def _experiment(options: argparse.Namespace) -> int:
    if options.subcommand in ("sweep", "try"):
        from nftop.cli.commands.sweep import sweep, tried  # noqa: PLC0415 - numpy comes with it

        return sweep(options) if options.subcommand == "sweep" else tried(options, _wanted)
    from nftop.cli.commands.footprint import footprint  # noqa: PLC0415 - as above

    return footprint(options)
