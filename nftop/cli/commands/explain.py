"""`nftop explain`: meaning of a metric or finding, and measurements of papers."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from nftop.cli.compose.hosts import open_demo
from nftop.export.output import OK, USAGE, fail, put, warn
from nftop.render.base.text import printable
from nftop.sources.host.topology import read_cpuid
from nftop.uarch.table import Uarch, identify, load, uarch_names

_ROOT = Path("/")


def explain(options: argparse.Namespace) -> int:
    """`nftop explain`: the meaning of a metric or finding, or measurements of papers."""
    if options.json and not options.references:
        return fail("--json goes with --references", USAGE)
    return _references(options) if options.references else _meanings(options)


def _meanings(options: argparse.Namespace) -> int:
    from nftop.derive.findings.registry import all_rules, rule_called  # noqa: PLC0415 - only here
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
        known, wrong = ", ".join(uarch_names()), printable(options.uarch)
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
        known = name is None or name in (*workloads, *papers, *metrics)
        what = printable(name or "anything")
        code = fail(
            f"no paper measured {what} on {printable(uarch or 'any CPU')}"
            if known
            else f"unknown metric, workload or paper {what!r}",
            USAGE,
        )
        warn(f"microarchitectures: {' '.join(uarchs)}")
        warn(f"workloads and papers: {' '.join((*workloads, *papers))}")
        warn(f"metrics: {' '.join(metrics)}")
        return code
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
        return tuple(map(load, uarch_names()))
    return (load(wanted),) if wanted in uarch_names() else None
