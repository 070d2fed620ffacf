"""`nftop cat sweep`, `cat try`, `sst try`: find the mask of a class, compare configurations."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from nftop.cli.commands.apply import OTHER, demand_privilege, needs
from nftop.cli.compose.accelerated import accelerated_host
from nftop.cli.compose.classes_host import BADGE, ending, wants_json
from nftop.cli.compose.hosts import open_requested
from nftop.cli.compose.recorders import DescribedHost, header_of
from nftop.cli.confirmation import UNCHANGED, confirm, print_receipt
from nftop.cli.parsers.cat import EndedError, UsageError
from nftop.cli.parsers.cat_actions import TrialWish
from nftop.cli.signals import signal_name, stopping
from nftop.control.backend import CLASSES
from nftop.control.cpufreq.cpufreq import CPUFREQ
from nftop.control.gate_protocols import ClassGate
from nftop.control.journal import FileJournal, unfinished
from nftop.control.resctrl.sweep import SweepError, SweepRequest, plan_sweep, set_command
from nftop.control.trial import TrialRequest, plan_trial
from nftop.derive.experiment.engine import ExperimentState
from nftop.export.output import FAILURE, OK, put, warn
from nftop.model.experiment import Experiment, HarmLimits, Timing
from nftop.model.frame import Frame
from nftop.model.rdt.rdt import class_directory, class_name
from nftop.model.sample import Sample
from nftop.render.base.text import printable, wrap
from nftop.render.experiment.text import (
    accelerated_text,
    end_text,
    limit_lines,
    plan_text,
    result_text,
    stopped_text,
    trial_plan_text,
    trial_text,
    visit_lines,
)
from nftop.render.frame.header import recorded
from nftop.session.experiment import ExperimentHost, ExperimentResult, first_frame, run_experiment
from nftop.store.folders import caller
from nftop.store.history.experiments import ExperimentLog
from nftop.store.recording.recorder import Recorder
from nftop.store.recording.sink import FileSink, exists

# Slower frames leave the guard alone for too long.
_MOST_INTERVAL_S = 5.0
_MEASURED = frozenset({"clear", "rounds"})


def _columns() -> int:
    """Width of the terminal, or of a page where there is none."""
    return shutil.get_terminal_size().columns


def sweep(options: argparse.Namespace) -> int:
    """Plan, show, confirm and run a sweep; returns the exit code."""

    def planned(host: ExperimentHost, frame: Frame) -> tuple[Experiment, list[str]]:
        plan = _planned(options, frame, host.gate)
        ways = {line: rule.ways for line, rule in host.gate.host.rules().masks.items()}
        return plan, plan_text(plan, ways, _columns())

    return _experiment(options, planned, (CLASSES,))


# Actions of a command line on this host. Raises UsageError, EndedError, OSError.
MakeWish: TypeAlias = Callable[[argparse.Namespace, ClassGate], TrialWish]


def tried(options: argparse.Namespace, wanted: MakeWish) -> int:
    """Plan, show, confirm and run a trial of a configuration; returns the exit code."""

    def planned(host: ExperimentHost, frame: Frame) -> tuple[Experiment, list[str]]:
        gate = host.gate
        wish = wanted(options, gate)
        seed = _seed(options)
        words = [options.command, "try", *wish.words, "--rounds", str(options.rounds)]
        words += ["--watch", ",".join(options.watch)] if options.watch else []
        words += _course_words(options, seed)
        request = TrialRequest(
            wish.label,
            options.watch,
            options.rounds,
            seed,
            Timing(measure_s=options.measure_s),
            HarmLimits(options.most_drops, cpp_ratio=options.most_cpp_percent / 100),
        )
        proposal = gate.propose(wish.actions, (f"{gate.program} {shlex.join(words)}",))
        try:
            plan = plan_trial(request, frame, proposal)
        except SweepError as error:
            raise EndedError(str(error), FAILURE) from None
        rules = gate.rules_for(proposal)
        ways = {line: rule.ways for line, rule in rules.masks.items()}
        unit = "percent" if rules.limit is None else rules.limit.unit
        return plan, trial_plan_text(plan, ways, unit, _columns())

    return _experiment(options, planned, (CLASSES,) if options.command == "cat" else (CPUFREQ,))


# The plan of a command line on a host, and what it will do as lines.
MakePlan: TypeAlias = Callable[[ExperimentHost, Frame], tuple[Experiment, list[str]]]


def _experiment(options: argparse.Namespace, planned: MakePlan, keys: tuple[str, ...]) -> int:
    """Open the host, and run an experiment on it; `keys`: of the backends that it needs."""
    with ending(options, "nothing was changed") as ended:
        demand_privilege(options)
        if options.interval_s > _MOST_INTERVAL_S:
            raise UsageError(f"-d: a sweep needs a reading every {_MOST_INTERVAL_S:g} s at least")
        if options.dry_run and wants_json(options):
            raise UsageError("--json: the plan of a sweep is text, its result is JSON")
        if options.output is not None and exists(Path(options.output).absolute()):
            raise UsageError(f"{options.output} exists, and no recording is written over")
        record = None if options.output is None or options.dry_run else _SweepRecord(options)
        try:
            host = _opened(options, record, keys)
            with closing(host.frames):
                ended[0] = _run(options, host, record, planned)
        finally:
            if record is not None:
                record.close()
    return ended[0]


class _SweepRecord:
    """The recording of a sweep: samples, and its steps at the time of the last one."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._recorder: Recorder | None = None
        self._newest: Sample | None = None

    def begin(self, here: DescribedHost) -> Callable[[Sample], None]:
        """Get ready to record a host; what receives its samples. No file is made before `start`."""
        self._recorder = Recorder(header_of(here, self._options))
        return self._take

    def start(self) -> None:
        """Begin the recording, with the last sample."""
        if self._recorder is not None and self._newest is not None:
            path = Path(self._options.output).absolute()
            self._recorder.start(FileSink(path, owner=caller(os.environ)))
            self._recorder.take(self._newest)

    def note(self, text: str, detail: Mapping[str, Any]) -> None:
        if self._recorder is not None and self._newest is not None:
            newest = self._newest
            self._recorder.experiment(text, detail, newest.wall_ns, newest.monotonic_ns)

    def close(self) -> None:
        """End the recording, and say what became of it."""
        done = None if self._recorder is None else self._recorder.close()
        if done is not None:
            problem = f"; {done.problem}" if done.problem else ""
            warn(f"nftop: {recorded(done.name, done.ticks, done.size)}{problem}")

    def _take(self, sample: Sample) -> None:
        self._newest = sample
        if self._recorder is not None:
            self._recorder.take(sample)


def _opened(
    options: argparse.Namespace, record: _SweepRecord | None, keys: tuple[str, ...]
) -> ExperimentHost:
    """The host of the command line. Raises EndedError, UsageError."""
    try:
        if options.scenario is not None:
            return accelerated_host(options, taken=None if record is None else record.begin)
        here = open_requested(options)
    except ValueError as error:
        raise UsageError(str(error)) from None
    gate = None if here.gate is None else here.gate
    missing = [key for key in keys if gate is None or key not in gate.gates]
    if gate is None or missing:
        absent = "" if gate is None else gate.absent.get(missing[0], "")
        raise EndedError(absent or here.no_gate or f"no {missing[0]} here", FAILURE)
    feed = here.feed(
        interval_s=options.interval_s,
        cpus=options.cpu_list,
        queue_map=options.queue_map,
        on_sample=None if record is None else record.begin(here),
    )
    return ExperimentHost(feed.frames(), gate, feed.stop, time.monotonic_ns)


def _run(
    options: argparse.Namespace,
    host: ExperimentHost,
    record: _SweepRecord | None,
    planned: MakePlan,
) -> int:
    cut_off = "" if host.accelerated or needs(options) else unfinished(FileJournal())
    if cut_off:
        raise EndedError(cut_off, FAILURE)
    with stopping(host.stop) as signals:
        frame = _first_frame(host)
    if signals:
        raise EndedError(UNCHANGED, 128 + signals[0])
    plan, lines = planned(host, frame)
    out = sys.stderr if wants_json(options) else sys.stdout
    put(out, "\n".join(lines) + "\n")
    if host.accelerated:
        put(out, f"{BADGE}: {accelerated_text(plan, host.pace())}\n")
        if plan.of_io:
            put(out, f"{BADGE}: that this processor has io_alloc is an assumption\n")
    if options.dry_run:
        return OK
    if not options.yes:
        confirm("start? [y/N] ")
    with stopping(host.stop) as signals:
        report = _Report(plan, out)
        log = None
        if record is not None:
            record.start()
            log = ExperimentLog(plan, record.note, accelerated=host.accelerated)
        result = run_experiment(plan, host.frames, host.gate, host.now_ns, report.show, log=log)
    stopped = _stopped_text(plan, result, signals)
    _print_result(options, plan, result, host.gate.program, stopped)
    if not result.receipt.is_restored:
        return OTHER
    if signals:
        return 128 + signals[0]
    measured = result.receipt.outcome == "reverted" and result.state.ended in _MEASURED
    return OK if measured else FAILURE


def _stopped_text(plan: Experiment, result: ExperimentResult, signals: Sequence[int]) -> str:
    """The sentence on an end by a signal; "" if it ended otherwise."""
    if not signals or result.state.ended != "stopped":
        return ""
    by = signal_name(signals[0])
    return stopped_text(plan, result.state, result.curve, result.receipt, by)


class _Report:
    """Prints a line for each visit."""

    def __init__(self, plan: Experiment, out: TextIO | None) -> None:
        self._plan, self._out = plan, out
        self._shown = 0

    def show(self, state: ExperimentState) -> None:
        if len(state.visits) == self._shown:
            return
        self._shown = len(state.visits)
        lines = visit_lines(self._plan, state, _columns())
        if self._shown == 1:
            lines += limit_lines(self._plan, state.visits[0], _columns())
        put(self._out, "\n".join(lines) + "\n")


def _first_frame(host: ExperimentHost) -> Frame:
    """A frame with rates of every network function. Raises EndedError if there are no frames."""
    frame = first_frame(host)
    if frame is None:
        raise EndedError("the host gave no numbers", FAILURE)
    return frame


def _planned(options: argparse.Namespace, frame: Frame, gate: ClassGate) -> Experiment:
    """The plan of the command line. Raises EndedError, OSError."""
    percent = options.tolerance_percent, options.most_cpp_percent
    seed = _seed(options)
    request = SweepRequest(
        group=class_directory(options.group or ""),
        of_io=options.of_io,
        widths=options.ways,
        watch=options.watch,
        caches=tuple(options.l3),
        rounds_most=options.rounds,
        seed=seed,
        tolerance_ratio=percent[0] / 100,
        timing=Timing(measure_s=options.measure_s),
        limits=HarmLimits(options.most_drops, cpp_ratio=percent[1] / 100),
        commands=(_command(options, gate.program, seed),),
    )
    try:
        identity = gate.propose(()).identity
        return plan_sweep(request, frame, gate.host.state(), gate.host.rules(), identity)
    except SweepError as error:
        raise EndedError(str(error), FAILURE) from None


def _command(options: argparse.Namespace, program: str, seed: int) -> str:
    """The equivalent command line, for the history: with it the same sweep can be run again."""
    words = ["cat", "sweep", "--io"]
    if not options.of_io:
        words[2:] = ["--group", class_name(class_directory(options.group))]
    if options.ways is not None:
        words += ["--ways", "{}-{}".format(*options.ways)]
    if options.watch:
        words += ["--watch", ",".join(options.watch)]
    words += [word for l3 in options.l3 for word in ("--l3", str(l3))]
    words += ["--rounds", str(options.rounds)]
    words += ["--tolerance", f"{options.tolerance_percent:g}", *_course_words(options, seed)]
    return f"{program} {shlex.join(words)}"


def _seed(options: argparse.Namespace) -> int:
    """Seed of the order: another each time, unless it is given."""
    seed: int | None = options.seed
    return time.time_ns() % 1_000_000 if seed is None else seed


def _course_words(options: argparse.Namespace, seed: int) -> list[str]:
    words = ["--measure", f"{options.measure_s:g}"]
    if options.most_drops is not None:
        words += ["--most-drops", f"{options.most_drops:.12g}"]
    return [*words, "--most-cpp", f"{options.most_cpp_percent:g}", "--seed", str(seed)]


def _print_result(
    options: argparse.Namespace,
    plan: Experiment,
    result: ExperimentResult,
    program: str,
    stopped: str,
) -> None:
    """Print what was measured; `stopped`: the sentence on the end by a signal."""
    if wants_json(options):
        from nftop.export.json.changes import experiment_json  # noqa: PLC0415 - only here

        is_simulated = options.scenario is not None
        data = experiment_json(
            plan, result.state, result.curve, result.receipt, simulated=is_simulated
        )
        put(sys.stdout, data + "\n")
        restored = f"{result.receipt.outcome}: {'; '.join(result.receipt.sentences)}"
        warn(f"nftop: {stopped or restored}")
        return
    if stopped:
        put(sys.stdout, "\n".join(wrap(stopped, _columns())) + "\n")
    else:
        put(sys.stdout, f"ended: {end_text(result.state)}\n")
        print_receipt(result.receipt)
    if plan.kind == "try":
        put(sys.stdout, "\n".join(trial_text(plan, result.state.visits, _columns())) + "\n")
        return
    early = result.state.ended not in _MEASURED
    put(sys.stdout, "\n".join(result_text(plan, result.curve, _columns(), early=early)) + "\n")
    chosen = result.curve.recommended
    if chosen is not None and result.receipt.outcome == "reverted":
        if plan.settings[chosen].changes:
            put(sys.stdout, f"  $ {printable(set_command(plan, chosen, program))}\n")
        else:
            put(sys.stdout, "  that is the present mask: there is nothing to change\n")
