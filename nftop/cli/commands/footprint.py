"""`nftop cat footprint`: how much cache each network function fills, and its memory traffic."""

from __future__ import annotations

import argparse
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Generator
from contextlib import closing
from itertools import islice
from typing import TextIO

from nftop.cli.commands.apply import OTHER, demand_privilege, needs
from nftop.cli.compose.accelerated import SteppedHost, accelerated_host
from nftop.cli.compose.classes_host import BADGE, ending, wants_json
from nftop.cli.compose.gates import classes_gate
from nftop.cli.compose.hosts import open_requested
from nftop.cli.compose.recorders import DescribedHost, file_sink, header_of, wrong_file
from nftop.cli.confirmation import confirm, print_receipt
from nftop.cli.parsers.cat import EndedError, UsageError
from nftop.cli.signals import stopping
from nftop.control.backend import CLASSES
from nftop.control.gate import BackendClassGate
from nftop.control.journal import unfinished
from nftop.control.resctrl.footprint import FootprintError, FootprintRequest, plan_footprint
from nftop.derive.experiment.engine import ExperimentState
from nftop.export.json.changes import footprint_json, footprint_object
from nftop.export.output import FAILURE, OK, put, warn
from nftop.model.experiment import HarmLimits
from nftop.model.footprint import FootprintPlan
from nftop.model.frame import Frame
from nftop.model.sample import Sample
from nftop.model.struct import dataclass, replace
from nftop.render.base.text import printable
from nftop.render.experiment.footprint import footprint_plan_text, footprint_text, row_text
from nftop.render.experiment.text import end_text, visit_lines
from nftop.render.frame.header import recorded
from nftop.session.experiment import FootprintResult, run_footprint
from nftop.store.recording.recorder import Recorder

# Frames until network functions, rates and classes are known.
_FIRST_FRAMES = 4
# Frames of a recording after the end.
_LAST_FRAMES = 2
_MOST_INTERVAL_S = 5.0
_ACCELERATED = "accelerated clock: minutes of the simulated host take seconds"


@dataclass(frozen=True, slots=True)
class _Session:
    """Frames of a host and the gate to its classes; `now_ns`: the frames' clock."""

    here: DescribedHost
    frames: Generator[Frame, None, None]
    gate: BackendClassGate
    stop: Callable[[], None]
    now_ns: Callable[[], int]


def _columns() -> int:
    """Width of the terminal, or of a page where there is none."""
    return shutil.get_terminal_size().columns


def footprint(options: argparse.Namespace) -> int:
    """Plan, show, confirm and measure a footprint; returns the exit code."""
    with ending(options, "nothing was changed") as ended:
        if options.interval_s > _MOST_INTERVAL_S:
            raise UsageError(f"-d: it needs a reading every {_MOST_INTERVAL_S:g} s at least")
        if options.dry_run and wants_json(options):
            raise UsageError("--json: the plan is text, the table is JSON")
        wrong = "" if options.output is None else wrong_file(options.output, rotates=False)
        if wrong:
            raise UsageError(wrong)
        ended[0] = _measured(options)
    return ended[0]


def _measured(options: argparse.Namespace) -> int:
    recorder: list[Recorder] = []
    last: list[Sample] = []

    def take(sample: Sample) -> None:
        last[:] = [sample]
        for item in recorder:
            item.take(sample)

    session = _opened(options, take)
    if options.output is not None and not options.dry_run:
        recorder.append(Recorder(header_of(session.here, options)))
        recorder[0].start(file_sink(options.output), 0)
    try:
        with closing(session.frames):
            result = _run(options, session)
            if recorder:  # with what was restored
                list(islice(session.frames, _LAST_FRAMES))
        if isinstance(result, int):
            return result
        for item in recorder:
            detail = {"footprint": footprint_object(result.footprint)}
            for row in result.footprint.rows:
                text = printable(row_text(result.footprint, row))
                item.record_result(text, detail, last[0].wall_ns, last[0].monotonic_ns)
                detail = {}
    finally:
        done = [item.close() for item in recorder]
    for recording in done:
        if recording is not None:
            problem = f"; {recording.problem}" * bool(recording.problem)
            warn(f"nftop: {recorded(recording.name, recording.ticks, recording.size)}{problem}")
    return _code(result)


def _code(result: FootprintResult) -> int:
    if result.receipt is not None and not result.receipt.is_restored:
        return OTHER
    measured = result.receipt is None or result.receipt.outcome == "reverted"
    return OK if measured and result.complete else FAILURE


def _run(options: argparse.Namespace, session: _Session) -> FootprintResult | int:
    """The result, or an exit code if nothing was measured. Raises EndedError."""
    if not needs(options) and unfinished(session.gate.journal):
        raise EndedError(unfinished(session.gate.journal), FAILURE)
    with stopping(session.stop) as signals:
        frames = list(islice(session.frames, _FIRST_FRAMES))
    if signals:
        return 128 + signals[0]
    if not frames:
        raise EndedError("the host gave no numbers", FAILURE)
    plan = _planned(options, frames[-1], session.gate)
    _show_plan(options, plan, session.gate)
    if options.dry_run:
        return OK
    if plan.writes:
        demand_privilege(options)
        if not options.yes:
            confirm("start? [y/N] ")
    with stopping(session.stop) as signals:
        gate = session.gate if plan.writes else None
        report = _Report(plan, _out(options))
        result = run_footprint(plan, session.frames, gate, session.now_ns, report.show)
    _print_result(options, result)
    is_restored = result.receipt is None or result.receipt.is_restored
    return 128 + signals[0] if signals and is_restored else result


def _out(options: argparse.Namespace) -> TextIO | None:
    return sys.stderr if wants_json(options) else sys.stdout


def _show_plan(options: argparse.Namespace, plan: FootprintPlan, gate: BackendClassGate) -> None:
    ways = {line: rule.ways for line, rule in gate.host.rules().masks.items()}
    put(_out(options), "\n".join(footprint_plan_text(plan, ways)) + "\n")
    if options.scenario is not None:
        put(_out(options), f"{BADGE}: {_ACCELERATED}\n")


class _Report:
    """Prints a line for each visit."""

    def __init__(self, plan: FootprintPlan, out: TextIO | None) -> None:
        self._plan, self._out = plan, out
        self._shown = 0

    def show(self, state: ExperimentState) -> None:
        if len(state.visits) > self._shown:
            self._shown = len(state.visits)
            lines = visit_lines(self._plan.experiment, state, _columns())
            put(self._out, "\n".join(lines) + "\n")


def _print_result(options: argparse.Namespace, result: FootprintResult) -> None:
    if wants_json(options):
        put(
            sys.stdout,
            footprint_json(
                result.footprint,
                result.receipt,
                complete=result.complete,
                simulated=options.scenario is not None,
            )
            + "\n",
        )
        return
    if result.state is not None and not result.complete:
        put(sys.stdout, f"ended: {end_text(result.state)}\n")
    if result.receipt is not None:
        print_receipt(result.receipt)
    put(sys.stdout, "\n".join(footprint_text(result.footprint, _columns())) + "\n")


def _planned(options: argparse.Namespace, frame: Frame, gate: BackendClassGate) -> FootprintPlan:
    request = FootprintRequest(
        watch=options.watch,
        own=options.own,
        monitors=options.monitors,
        measure_s=options.measure_s,
        limits=HarmLimits(options.most_drops, cpp_ratio=options.most_cpp_percent / 100),
        seed=time.time_ns() % 1_000_000,
        commands=(_command(options, gate.program),),
    )
    tids = [thread.tid for nf in frame.nfs for thread in nf.threads if thread.tid is not None]
    rules = replace(gate.host.rules(), tasks=gate.host.tasks((), tids))
    try:
        return plan_footprint(request, frame, gate.host.state(), rules, gate.host.identity)
    except FootprintError as error:
        raise EndedError(str(error), FAILURE) from None


def _command(options: argparse.Namespace, program: str) -> str:
    """The equivalent command line, for the history."""
    words = ["cat", "footprint", *["--own"] * options.own]
    words += ["--watch", ",".join(options.watch)] if options.watch else []
    return f"{program} {shlex.join(words)}"


def _opened(options: argparse.Namespace, take: Callable[[Sample], None]) -> _Session:
    """The host of the command line. Raises EndedError, UsageError."""
    if options.scenario is not None:
        return _accelerated(options, take)
    try:
        here = open_requested(options)
    except ValueError as error:
        raise UsageError(str(error)) from None
    gate = None if here.gate is None else here.gate.gates.get(CLASSES)
    feed = here.feed(
        interval_s=options.interval_s,
        cpus=options.cpu_list,
        queue_map=options.queue_map,
        on_sample=take,
    )
    # Reading needs no privilege.
    return _Session(
        here, feed.frames(), gate or classes_gate(options), feed.stop, time.monotonic_ns
    )


def _accelerated(options: argparse.Namespace, take: Callable[[Sample], None]) -> _Session:
    """The simulated host on a stepped clock, after the last step of its scenario."""
    stepped: list[SteppedHost] = []

    def begin(here: SteppedHost) -> Callable[[Sample], None]:
        stepped.append(here)
        return take

    try:
        host = accelerated_host(options, taken=begin)
    except ValueError as error:
        raise UsageError(str(error)) from None
    gate = stepped[0].gate.gates[CLASSES]
    return _Session(stepped[0], host.frames, gate, host.stop, host.now_ns)
