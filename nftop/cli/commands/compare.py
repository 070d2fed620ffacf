"""`nftop compare`: two intervals of recordings, many hosts, or the settings of an experiment."""

from __future__ import annotations

import argparse
import shutil
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import closing

from nftop.cli.cuts import BAD_RECORDING, UnreadCut, ending_on_signal, open_cut, try_cut
from nftop.derive.compare.hosts import HOSTS_NEEDED, LeftOut, compare_hosts
from nftop.derive.compare.intervals_report import comparison
from nftop.derive.compare.metric import SAMPLES_NEEDED
from nftop.derive.experiment.curve import curve_of
from nftop.export.json.compare import comparison_json, hosts_json
from nftop.export.output import OK, USAGE, fail, put, warn
from nftop.model.number_text import counted
from nftop.model.struct import replace
from nftop.render.base.text import printable
from nftop.render.experiment.text import group_text, result_text, trial_text
from nftop.render.pages.compare import comparison_text, hosts_text, interval_line
from nftop.session.compare import HostCuts, HostRun, host_run, notes, paired_hosts, side
from nftop.session.interval import Cut
from nftop.session.markers import all_markers
from nftop.store.format.records import Marker
from nftop.store.history.experiments import RecordedExperiment, with_step


def compare(options: argparse.Namespace) -> int:
    if (options.before is None, options.after is None) != (options.a is not None,) * 2:
        return fail("give two intervals, or --before and --after", USAGE)
    if options.before is not None:
        return _compared_hosts(options)
    if options.b is None:
        return _compared_rounds(options)
    cuts: list[Cut] = []
    try:
        for text in (options.a, options.b):
            cut = open_cut(text)
            if isinstance(cut, int):
                return cut
            cuts.append(cut)
        a, b = cuts
        same = (a.began_ns, a.host) == (b.began_ns, b.host)
        # A tick at the border is part of the former interval; it only starts the latter.
        if same and a.from_ns < b.to_ns and b.from_ns < a.to_ns:
            return fail("A and B overlap: what is in both can't differ", USAGE)
        for name, cut in zip("AB", cuts, strict=True):
            _warn_if_short(name, cut)
        return _compared(a, b, json=options.form == "json")
    finally:
        for cut in cuts:
            cut.data.close()


def _compared_rounds(options: argparse.Namespace) -> int:
    """The settings of a recorded experiment, compared by its visits and rounds."""
    if options.form == "json":
        return fail(
            "--json: give two intervals; the JSON of an experiment is that of cat sweep", USAGE
        )
    cut = open_cut(options.a)
    if isinstance(cut, int):
        return cut
    known: RecordedExperiment | None = None
    with closing(cut.data):
        for marker in all_markers(cut.data, threading.Event()):
            if isinstance(marker, Marker) and marker.wall_ns <= cut.to_ns:
                known = with_step(known, marker.detail)
    if known is None:
        return fail(f"{printable(options.a)} has no experiment: give two intervals", USAGE)
    width = shutil.get_terminal_size().columns
    rounds = max((visit.round for visit in known.visits), default=0)
    ended = "not ended" if known.ended is None else f"ended ({known.ended}), {known.outcome}"
    head = f"experiment of {group_text(known.plan)}: {rounds} rounds, {ended}"
    texts = (
        trial_text(known.plan, known.visits, width)
        if known.plan.kind == "try"
        else result_text(known.plan, curve_of(known.plan, known.visits), width)
    )
    lines = [printable(head), *texts]
    put(sys.stdout, "\n".join(lines) + "\n")
    return OK


def _compared_hosts(options: argparse.Namespace) -> int:
    """Recordings of many hosts before and after a change; those that can't be read are left out."""
    unread: list[UnreadCut] = []
    twice: dict[str, list[str]] = {}
    before, after = (
        [*_cuts(texts, unread, twice, name)]
        for name, texts in (("before", options.before), ("after", options.after))
    )
    pairs, left_out = paired_hosts(before, after)
    hosts = f"{counted(len(pairs), 'host')} on both sides"
    enough = f"{HOSTS_NEEDED} are enough if all numbers change, a single one needs more (last line)"
    lacking = HOSTS_NEEDED - len(pairs)
    if pairs:
        warn(f"nftop: {hosts}{f', {lacking} more are needed' if lacking > 0 else ''}: {enough}")
    runs = list[HostRun]()
    code = _read_hosts(pairs, runs, left_out) or (BAD_RECORDING if unread else OK)
    if code > 128:  # a signal ended it
        return code
    if not runs:
        reasons = "; ".join(f"{item.host}: {item.why}" for item in left_out)
        code = BAD_RECORDING if pairs else unread[0].code if unread else USAGE
        return fail(f"no host is on both sides{': ' * bool(reasons)}{printable(reasons)}", code)
    runs = [replace(run, notes=(*twice.get(run.pair.host, ()), *run.notes)) for run in runs]
    result = compare_hosts([run.pair for run in runs])
    files = [(cut.file, cut.why) for cut in unread]
    if options.form == "json":
        put(sys.stdout, hosts_json(runs, left_out, files, result).decode() + "\n")
    else:
        hosts_of: dict[str, list[str]] = {}
        for item in runs:
            for note in item.notes:
                hosts_of.setdefault(note, []).append(item.pair.host)
        simulated = {item.pair.host for item in runs if item.before.simulated}
        put(sys.stdout, hosts_text(result, left_out, hosts_of, simulated, files))
    return code


def _cuts(
    texts: Iterable[str], unread: list[UnreadCut], twice: dict[str, list[str]], name: str
) -> Iterator[Cut]:
    """Intervals of the side `name`, closed; those that can't be read go into `unread`.

    One that is there again counts once: notes by host go into `twice`.
    """
    known = set[tuple[object, ...]]()
    for text in texts:
        cut = try_cut(text)
        if isinstance(cut, UnreadCut):
            warn(f"nftop: {printable(cut.file)}: {cut.why}")
            unread.append(cut)
        else:
            cut.data.close()  # of many hosts there are more than open files may be
            identity = (cut.began_ns, cut.host, cut.from_ns, cut.to_ns)
            if identity in known:
                note = f"{cut.file} is given twice {name} the change and counts once"
                twice.setdefault(cut.host.name, []).append(note)
            else:
                known.add(identity)
                yield cut


def _read_hosts(pairs: Iterable[HostCuts], runs: list[HostRun], left_out: list[LeftOut]) -> int:
    """Read hosts into `runs`, or why not into `left_out`; returns the exit code."""
    code = OK
    for pair in pairs:
        run = _read_host(pair)
        if isinstance(run, int):
            return run
        if isinstance(run, LeftOut):
            warn(f"nftop: {printable(run.why)}")
            left_out.append(run)
        else:
            runs.append(run[0])
        code = BAD_RECORDING if isinstance(run, LeftOut) or run[1] else code
    return code


def _read_host(pair: HostCuts) -> tuple[HostRun, bool] | LeftOut | int:
    """One host, and whether a recording is damaged; or why it can't be read; or the exit code."""
    ended: list[int] = []
    cuts: list[Cut] = []
    try:
        for cut in (*pair.before, *pair.after):
            again = try_cut(cut.file)
            if isinstance(again, UnreadCut):
                return LeftOut(pair.host, f"{cut.file}: {again.why}", "unreadable")
            cuts.append(replace(again, from_ns=cut.from_ns, to_ns=cut.to_ns))
            if (again.began_ns, again.host) != (cut.began_ns, cut.host):
                return LeftOut(pair.host, f"{cut.file}: it was replaced meanwhile", "unreadable")
        count = len(pair.before)
        with ending_on_signal(ended, *cuts):
            run = host_run(HostCuts(pair.host, tuple(cuts[:count]), tuple(cuts[count:])))
    except InterruptedError:
        return 128 + ended[0]
    except OSError as error:
        files = ", ".join(cut.file for cut in cuts)
        return LeftOut(pair.host, f"{files}: {error.strerror}", "unreadable")
    finally:
        for cut in cuts:
            cut.data.close()
    return run, any(cut.damaged for cut in cuts)


def _warn_if_short(name: str, cut: Cut) -> None:
    """Report before reading that an interval is too short to detect a difference.

    How many samples it lacks is known, and reported, only after that: ticks may be missing.
    """
    samples = cut.expected_samples
    if samples is not None and samples < SAMPLES_NEEDED:
        warn(
            f"nftop: {name} has {counted(samples, 'sample')} at most, and a difference needs "
            f"{SAMPLES_NEEDED}, more where noise persists"
        )


def _compared(a: Cut, b: Cut, *, json: bool) -> int:
    ended: list[int] = []
    try:
        with ending_on_signal(ended, a, b):
            both = side(a, b), side(b, a)
    except InterruptedError:
        return 128 + ended[0]
    report = comparison(both[0].interval, both[1].interval, (both[0].context, both[1].context))
    if json:
        put(sys.stdout, comparison_json(*both, report, notes(*both)).decode() + "\n")
    else:
        lines = [
            interval_line(name, item.file, item.host, item.interval, simulated=item.simulated)
            for name, item in zip("AB", both, strict=True)
        ]
        put(sys.stdout, "\n".join(lines) + "\n" + comparison_text(report, notes(*both)))
    return BAD_RECORDING if a.damaged or b.damaged else OK
