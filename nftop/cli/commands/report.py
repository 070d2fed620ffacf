"""Commands that say something once: `doctor`, `explain`, `tma`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

from nftop.cli.compose.hosts import open_asked, open_demo
from nftop.control.doctor import check
from nftop.control.journal import FileJournal
from nftop.export.output import FAILURE, OK, USAGE, fail, put, say
from nftop.model.topology import Topology
from nftop.render.base.text import printable
from nftop.sources.base import Check
from nftop.sources.host.topology import read_cpuid
from nftop.store.folders import open_file
from nftop.uarch.table import GENERIC, Uarch, identify, load, names

_ROOT = Path("/")
_MAX_BYTES = 64 << 20


def doctor(options: argparse.Namespace) -> int:
    """What every source sees here, and the fix for what it does not."""
    from nftop.cli.commands.doctor import examine, report_json, report_text  # noqa: PLC0415 - only here

    try:
        here = open_asked(options)
    except ValueError as error:
        return fail(str(error), USAGE)
    try:
        checks = (*examine(here.sources), *here.checks)
        if options.scenario is None:
            checks = (*checks, check(FileJournal()))
        if options.scenario is None and options.pcm is None:
            checks = (*checks, *_host_checks(here.topology))
    finally:
        for source in here.sources:
            source.close()
    report = report_json if options.json or options.form == "json" else report_text
    put(sys.stdout, report(checks, here.host) + "\n")
    return OK


def _host_checks(topology: Topology) -> tuple[Check, ...]:
    """How this host is set up for those who poll on it."""
    from nftop.cli.commands.doctor import pollers  # noqa: PLC0415 - only here
    from nftop.sources.process.source import ProcessSource  # noqa: PLC0415
    from nftop.sources.tuning.rows import host_checks  # noqa: PLC0415

    processes = ProcessSource(_ROOT, threads_per_read=None)
    try:
        return host_checks(_ROOT, topology, pollers(processes.read, topology))
    finally:
        processes.close()


def explain(options: argparse.Namespace) -> int:
    """What a metric or a rule of findings means, or all of them, or what papers measured."""
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
    )

    tables = _explained(options)
    if tables is None:
        there = ", ".join(item for item in names() if item != GENERIC)
        wrong = printable(options.uarch)
        return fail(f"no table for {wrong!r}; there is {there}, and all", USAGE)
    if options.all:
        said = [explain_metric(name, tables) for name in known_metrics()]
        said += map(explain_rule, all_rules())
        put(sys.stdout, "\n\n".join(said) + "\n")
        return OK
    if options.metric is None:
        put(sys.stdout, "\n".join((*known_metrics(), *known_rules())) + "\n")
        return OK
    rule = rule_called(options.metric)
    if rule is not None:
        put(sys.stdout, explain_rule(rule) + "\n")
        return OK
    called = metrics_called(options.metric)
    if not called:
        near = near_names(options.metric)
        hint = f"near: {', '.join(near)}" if near else "`nftop explain` lists all names"
        wrong = printable(options.metric)
        return fail(f"no metric or finding is called {wrong!r}; {hint}", USAGE)
    put(sys.stdout, "\n\n".join(explain_metric(name, tables) for name in called) + "\n")
    return OK


def _references(options: argparse.Namespace) -> int:
    from nftop.export.json.references import references_json  # noqa: PLC0415 - only here
    from nftop.papers.changes import changes_of  # noqa: PLC0415
    from nftop.papers.rows import matching, rows  # noqa: PLC0415
    from nftop.papers.table import tool_tables  # noqa: PLC0415
    from nftop.render.pages.references import of_metric, of_workload, overview  # noqa: PLC0415

    uarch, name = options.uarch and options.uarch.upper(), options.metric
    uarch = None if uarch == "ALL" else uarch
    found, changes = matching(uarch=uarch), changes_of(uarch=uarch)
    if name is None and options.all:
        text = of_workload(found, changes)
    elif name is None:
        text = overview(found, changes, tool_tables() if uarch is None else ())
    elif name in {row.workload for row in rows()}:
        found, changes = matching(workload=name, uarch=uarch), changes_of(name, uarch=uarch)
        text = of_workload(found, changes)
    else:
        found = tuple(row for row in found if name in row.figures)
        changes = tuple(change for change in changes if change.metric == name)
        text = of_metric(name, found, changes)
    if not found and not changes:
        workloads = dict.fromkeys(row.workload for row in rows())
        metrics = dict.fromkeys(metric for row in rows() for metric in row.figures)
        say(f"of {', '.join(dict.fromkeys(row.uarch for row in rows()))}: {' '.join(workloads)}")
        say(f"metrics: {' '.join(metrics)}")
        return fail(f"no paper has {printable(name or options.uarch)!r} of that", USAGE)
    text = "\n".join(references_json(found, changes)) if options.json else text
    put(sys.stdout, text + "\n")
    return OK


def _explained(options: argparse.Namespace) -> tuple[Uarch, ...] | None:
    """The tables whose formulas are asked for: this host's unless told; None: there is no such."""
    known = [name for name in names() if name != GENERIC]
    if options.uarch is None:
        if options.scenario is not None:
            return (load(open_demo(options).host.uarch),)
        cpuid = read_cpuid(_ROOT)
        return () if cpuid is None else (load(identify(*cpuid)),)
    wanted = options.uarch.upper()
    if wanted == "ALL":
        return tuple(load(item) for item in known)
    return (load(wanted),) if wanted in known else None


def tma(options: argparse.Namespace) -> int:
    """Top-down of the counts in a file, or the command that counts them."""
    from nftop.render.topdown.report import what_to_count  # noqa: PLC0415 - only here

    name = options.uarch.upper()
    tables = [item for item in names() if item != GENERIC]
    if name not in tables:
        known = ", ".join(tables)
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
    from nftop.export.tma import tma_json  # noqa: PLC0415
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
    """A file's text, or standard input's; OSError where it can't be read or is far too long."""
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
