"""Commands that print one report: `doctor`, `explain`, `tma`; the report of a recording for `H`."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from nftop.cli.compose.hosts import open_demo, open_requested
from nftop.control.doctor import check
from nftop.control.journal import FileJournal
from nftop.derive.threads import ThreadState, step_threads
from nftop.export.json.encode import json_bytes, picked
from nftop.export.output import FAILURE, OK, USAGE, fail, put, say
from nftop.export.report.content import report_blocks
from nftop.export.report.pages import html_report
from nftop.model.check import Check
from nftop.model.missing import Missing, Reason
from nftop.model.nf.kinds import NF_KINDS, NF_WORKERS
from nftop.model.sample import SourceReading, ThreadTable
from nftop.model.topology import Host, Topology
from nftop.render.base.text import ascii_only as in_ascii
from nftop.render.base.text import locale_is_utf8, printable
from nftop.render.pages.doctor import doctor_lines
from nftop.session.interval import NamedInterval, opened
from nftop.session.reader import NoMomentError, NoRecordingError
from nftop.session.report import collect
from nftop.sources.base import Source
from nftop.sources.host.topology import read_cpuid
from nftop.sources.tuning.inputs import Poller
from nftop.store.folders import open_file, write_new
from nftop.uarch.table import GENERIC, Uarch, identify, load, names

SCHEMA = "nftop.doctor/1"
_ROOT = Path("/")
_MAX_BYTES = 64 << 20
_UNWRAPPED = 1 << 16
# Two readings detect a polling thread without a known name, a third its share of time. Times of
# threads on a nohz_full CPU are updated once a second.
_LOOKS = 3
_BETWEEN_S, _BETWEEN_NOHZ_FULL_S = 0.6, 1.1
_CAVEATS = {
    "SIMULATED": "nothing below is of this machine, except nftop itself",
    "REMOTE": "what is below is of a server; self and changes are of this machine",
    "LAB": "the kernel's interfaces to CPUs are emulated; processes, sockets and devices are this "
    "machine's",
}


def examine(sources: Sequence[Source]) -> tuple[Check, ...]:
    """The checks of every source; a failure of one is a check as well."""
    checks: list[Check] = []
    for source in sources:
        try:
            checks.extend(source.check())
        except Exception as error:  # noqa: BLE001 - the boundary: no source may stop another
            checks.append(Check(source.name, Reason.ERROR, f"{type(error).__name__}: {error}"))
    return tuple(checks)


def pollers(
    read: Callable[[], ThreadTable | Missing],
    topology: Topology,
    pause: Callable[[float], None] = time.sleep,
) -> tuple[Poller, ...]:
    """Threads that poll on this host, from several readings of source `processes`."""
    late = frozenset(info.cpu for info in topology.cpus if info.nohz_full)
    state = ThreadState()
    for look in range(_LOOKS):
        if look:
            pause(_BETWEEN_NOHZ_FULL_S if late else _BETWEEN_S)
        now_ns = time.monotonic_ns()
        state, _ = step_threads(state, SourceReading(read(), now_ns, 0), late)
    return tuple(
        Poller(
            cpu=rate.thread.last_cpu if rate.cpu is None else rate.cpu,
            pinned=rate.cpu is not None,
            pid=rate.thread.pid,
            program=rate.thread.program,
            kind=NF_KINDS.get(rate.thread.role, ""),
        )
        for rate in state.rates
        if rate.thread.role in NF_WORKERS or rate.polls
    )


def report_text(checks: Sequence[Check], host: Host, width: int, *, ascii_only: bool) -> str:
    """Summary, what to do first, and the checks, wrapped to `width` cells."""
    text = "\n".join(item.text.rstrip() for item in doctor_lines(checks, caveat_of(host), width))
    return in_ascii(text) if ascii_only else text


def caveat_of(host: Host) -> str:
    """What the report of a host with a badge is about; "": the host itself."""
    return f"{host.badge}: {_CAVEATS[host.badge]}" if host.badge else ""


def report_json(checks: Sequence[Check], host: Host) -> str:
    """One JSON object: schema, simulated, lab, remote, checks: name, state, text, why, fix.

    `why` and `fix` of a check may be null. A state is `ok`, `tune` for a setting that differs from
    the advised one, or the word of a reason.
    """
    return json_bytes(
        {
            "schema": SCHEMA,
            "simulated": host.simulated,
            "lab": host.lab,
            "remote": host.remote or None,
            "checks": [
                {
                    **picked(check, "name state text"),
                    "why": check.why or None,
                    "fix": check.fix or None,
                }
                for check in checks
            ],
        }
    ).decode()


def doctor(options: argparse.Namespace) -> int:
    """`nftop doctor`: what every source can see, and how to see more."""
    try:
        checks, host = examine_host(options)
    except ValueError as error:
        return fail(str(error), USAGE)
    if options.json or options.form == "json":
        put(sys.stdout, report_json(checks, host) + "\n")
        return OK
    # A pipe has no width: a check stays on one line.
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else _UNWRAPPED
    plain = options.ascii or not locale_is_utf8(os.environ)
    put(sys.stdout, report_text(checks, host, width, ascii_only=plain) + "\n")
    return OK


def examine_host(options: argparse.Namespace) -> tuple[tuple[Check, ...], Host]:
    """All checks of the host of a command line, by sources opened for them alone.

    Takes a second or more. Raises ValueError: a wrong option.
    """
    here = open_requested(options)
    try:
        checks = (*examine(here.sources), *here.checks)
        if options.scenario is None:
            checks = (*checks, check(FileJournal()))
        if options.scenario is None and options.pcm is None:
            checks = (*checks, *_host_checks(here.topology))
    finally:
        for source in here.sources:
            source.close()
    return checks, here.host


def _host_checks(topology: Topology) -> tuple[Check, ...]:
    """Checks of this host's settings for polling threads."""
    from nftop.sources.process.source import ProcessSource  # noqa: PLC0415
    from nftop.sources.tuning.rows import host_checks  # noqa: PLC0415

    processes = ProcessSource(_ROOT, threads_per_read=None)
    try:
        return host_checks(_ROOT, topology, pollers(processes.read, topology))
    finally:
        processes.close()


def explain(options: argparse.Namespace) -> int:
    """`nftop explain`: the meaning of a metric or finding, or measurements of papers."""
    if options.json and not options.references:
        return fail("--json goes with --references", USAGE)
    return _references(options) if options.references else _meanings(options)


def _meanings(options: argparse.Namespace) -> int:
    from nftop.derive.findings.rules import all_rules, rule_called  # noqa: PLC0415 - only here
    from nftop.render.pages.explain import (  # noqa: PLC0415 - only here
        explain_metric,
        explain_rule,
        known_metrics,
        known_rules,
        metrics_called,
        near_names,
        words_called,
    )

    tables = _explained(options)
    if tables is None:
        known, wrong = ", ".join(_known_uarchs()), printable(options.uarch)
        return fail(f"no table for {wrong!r}; there is {known}, and all", USAGE)
    if options.all:
        texts = [explain_metric(name, tables) for name in known_metrics()]
        texts += map(explain_rule, all_rules())
        put(sys.stdout, "\n\n".join(texts) + "\n")
        return OK
    if options.metric is None:
        put(sys.stdout, "\n".join((*known_metrics(), *known_rules())) + "\n")
        return OK
    rule = rule_called(options.metric)
    if rule is not None:
        put(sys.stdout, explain_rule(rule) + "\n")
        return OK
    called = metrics_called(options.metric)
    word = words_called(options.metric)
    if not called and not word:
        near = near_names(options.metric)
        hint = f"did you mean {', '.join(near)}?" if near else "`nftop explain` lists all names"
        wrong = printable(options.metric)
        return fail(f"no metric or finding is called {wrong!r}; {hint}", USAGE)
    texts = [*filter(None, (word,)), *(explain_metric(name, tables) for name in called)]
    put(sys.stdout, "\n\n".join(texts) + "\n")
    return OK


def _references(options: argparse.Namespace) -> int:
    from nftop.export.json.reports import references_json  # noqa: PLC0415 - only here
    from nftop.papers.changes import changes_of  # noqa: PLC0415
    from nftop.papers.printed import printed_tables  # noqa: PLC0415
    from nftop.papers.rows import matching, rows  # noqa: PLC0415
    from nftop.papers.table import frame_tables, tool_tables  # noqa: PLC0415
    from nftop.render.pages import references as pages  # noqa: PLC0415

    uarch, name = options.uarch and options.uarch.upper(), options.metric
    uarch = None if uarch == "ALL" else uarch
    references, changes = matching(uarch=uarch), changes_of(uarch=uarch)
    tables = printed_tables(uarch=uarch)
    papers = [*dict.fromkeys(table.paper for table in printed_tables())]
    if name is None and options.all:
        text = pages.of_workload(references, changes)
    elif name is None:
        others = (tool_tables(), frame_tables()) if uarch is None else ()
        text = pages.overview(references, changes, *others)
    elif name in {row.workload for row in rows()}:
        references, changes = matching(workload=name, uarch=uarch), changes_of(name, uarch=uarch)
        text, tables = pages.of_workload(references, changes), ()
    elif name in papers:
        text, references, changes = "", (), ()
        tables = printed_tables(paper=name, uarch=uarch)
    else:
        references = tuple(row for row in references if name in row.figures)
        changes = tuple(change for change in changes if change.metric == name)
        tables = printed_tables(metric=name, uarch=uarch)
        text = pages.of_metric(name, references, changes)
    if not references and not changes and not tables:
        workloads = dict.fromkeys(row.workload for row in rows())
        metrics = dict.fromkeys(metric for row in rows() for metric in row.figures)
        metrics |= dict.fromkeys(
            column.metric for item in printed_tables() for column in item.columns if column.metric
        )
        uarchs = dict.fromkeys(row.uarch for row in rows())
        uarchs |= dict.fromkeys(item.uarch for item in printed_tables() if item.uarch)
        say(f"of {', '.join(uarchs)}: {' '.join((*workloads, *papers))}")
        say(f"metrics: {' '.join(metrics)}")
        return fail(f"no paper has {printable(name or options.uarch)!r} of that", USAGE)
    whole = pages.printed if name is not None or options.all else pages.contents
    text = "\n\n".join(filter(None, (text, whole(tables))))
    text = "\n".join(references_json(references, changes, tables)) if options.json else text
    put(sys.stdout, text + "\n")
    return OK


def _explained(options: argparse.Namespace) -> tuple[Uarch, ...] | None:
    """The tables of `--uarch`, else this host's; None if there is no such table."""
    if options.uarch is None:
        if options.scenario is not None:
            return (load(open_demo(options).host.uarch),)
        cpuid = read_cpuid(_ROOT)
        return () if cpuid is None else (load(identify(*cpuid)),)
    wanted = options.uarch.upper()
    if wanted == "ALL":
        return tuple(map(load, _known_uarchs()))
    return (load(wanted),) if wanted in _known_uarchs() else None


def _known_uarchs() -> list[str]:
    return [name for name in names() if name != GENERIC]


def tma(options: argparse.Namespace) -> int:
    """`nftop tma`: top-down of the counts in a file, or the command that counts them."""
    from nftop.render.topdown.report import what_to_count  # noqa: PLC0415 - only here

    name = options.uarch.upper()
    if name not in _known_uarchs():
        known = ", ".join(_known_uarchs())
        return fail(f"no top-down for {printable(options.uarch)!r}; there is {known}", USAGE)
    uarch = load(name)
    if uarch.topdown is None:
        return fail(f"nftop has no top-down of {name}", USAGE)
    if options.file is None and not options.events:
        return fail("FILE is missing; --events prints the perf command that makes it", USAGE)
    if options.events:
        put(sys.stdout, what_to_count(uarch, smt=options.smt == "on") + "\n")
        return OK
    return _tma_of_file(uarch, options)


def _tma_of_file(uarch: Uarch, options: argparse.Namespace) -> int:
    from nftop.derive.topdown.tma import tma_of_counts  # noqa: PLC0415 - only here
    from nftop.export.json.reports import tma_json  # noqa: PLC0415
    from nftop.render.topdown.report import report  # noqa: PLC0415
    from nftop.sources.counts.forms import BadCountsError  # noqa: PLC0415
    from nftop.sources.counts.read import read_counts  # noqa: PLC0415

    smt = options.smt == "on"
    shown = "standard input" if options.file == "-" else printable(options.file)
    try:
        counts = read_counts(_read_text(options.file), uarch)
    except OSError as error:
        return fail(f"{shown}: {error.strerror or error}", FAILURE)
    except BadCountsError as error:
        return fail(f"{shown}: {printable(str(error))}", FAILURE)
    except KeyboardInterrupt:
        return 128 + signal.SIGINT
    ratios = tma_of_counts(uarch, counts.events, smt=smt)
    notes = counts.notes
    topdown = uarch.topdown
    if options.smt is None and topdown and topdown.terms_smt_on != topdown.terms_smt_off:
        notes = (*notes, "hyper-threading is taken to be off, since --smt does not say")
    if options.json or options.form == "json":
        text = tma_json(uarch.name, ratios, smt=smt, notes=notes, ignored=counts.unknown)
    else:
        text = report(uarch, ratios, smt=smt, origin=counts.form.value, notes=notes)
    put(sys.stdout, text + "\n")
    return OK


def _read_text(file: str) -> str:
    """Text of a file or of standard input; OSError if it can't be read or is far too long."""
    if file == "-":
        if sys.stdin is None:
            raise OSError("it is closed")
        read = sys.stdin.buffer.read(_MAX_BYTES + 1)
    else:
        with os.fdopen(open_file(Path(file), wait=True), "rb") as opened:
            read = opened.read(_MAX_BYTES + 1)
    if len(read) > _MAX_BYTES:
        raise OSError(f"longer than {_MAX_BYTES >> 20} MiB, which no counts are")
    return read.decode("utf-8", "replace")


def write_report(recording: str, doctor: str) -> str:
    """Write the report of a recording into its folder, as HTML; returns a message.

    It takes a quarter of a CPU, since the session goes on meanwhile.
    """
    path = Path(recording).with_suffix(".html")
    try:
        cut = opened(NamedInterval(recording))
        try:
            data = collect(cut, _quarter())
        finally:
            cut.data.close()
        if data is None:
            return f"{recording}: no tick is in it"
        blocks = report_blocks(data, "key H", doctor)
        write_new(path, html_report(blocks))
    except OSError as error:
        return f"{path}: {error.strerror}"
    except (NoRecordingError, NoMomentError) as error:
        return f"{recording}: {error}"
    return f"report: {path}"


def _quarter() -> Callable[[], None]:
    """A pause that is three times as long as the CPU time of this thread since the last one."""
    last_s = time.thread_time()

    def pause() -> None:
        nonlocal last_s
        time.sleep(3 * max(0.0, time.thread_time() - last_s))
        last_s = time.thread_time()

    return pause
