"""`nftop tma`: top-down of counts from another program."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from nftop.export.output import FAILURE, OK, USAGE, fail, put
from nftop.model.missing import Missing, Reading
from nftop.render.base.text import printable
from nftop.store.folders import open_file
from nftop.uarch.explain import groups_to_count, perf_group, takes_all_counters
from nftop.uarch.focus import in_order, is_beyond
from nftop.uarch.sections import Topdown
from nftop.uarch.table import Uarch, load, uarch_names

_MAX_BYTES = 64 << 20


def tma(options: argparse.Namespace) -> int:
    """`nftop tma`: top-down of the counts in a file, or the command that counts them."""
    name = options.uarch.upper()
    if name not in uarch_names():
        known = ", ".join(uarch_names())
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
        text = tma_text(uarch, ratios, smt=smt, origin=counts.form.value, notes=notes)
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


_INDENT, _WIDTH = 2, 100
_WATCHDOG = (
    "# A group takes all counters: it needs the NMI watchdog off (sysctl kernel.nmi_watchdog=0)."
)
_NOTABLE = "*"
_UNRELIABLE = "~"
_LEGEND = {
    _NOTABLE: "above the vendor's threshold, as are its parents",
    _UNRELIABLE: "unreliable with hyper-threading, according to the vendor",
}


def tma_text(
    uarch: Uarch, ratios: Mapping[str, Reading], *, smt: bool, origin: str, notes: Sequence[str]
) -> str:
    """CPU, origin of the counts, notes, and the tree.

    Raises:
        ValueError: the table has no top-down.
    """
    if uarch.topdown is None:
        raise ValueError(f"{uarch.name} has no top-down")
    threads = "on" if smt else "off"
    head = [f"{uarch.title} ({uarch.name}), hyper-threading {threads}; counts: {origin}"]
    lines = [*head, *(printable(note) for note in notes), ""]
    return "\n".join([*lines, tree(uarch.topdown, ratios, smt=smt)])


def what_to_count(uarch: Uarch, *, smt: bool) -> str:
    """Shell commands that count and evaluate top-down of this CPU."""
    main, deep = groups_to_count(uarch, smt=smt)
    threads = "on" if smt else "off"
    groups = [f"  -e '{perf_group(uarch, group)}' \\" for group in (*main, *deep)]
    return "\n".join(
        [
            f"# {uarch.title} ({uarch.name}), hyper-threading {threads}.",
            f"# Levels 1 and 2: the first {len(main)} of {len(groups)} groups; 3 and 4: the rest.",
            "# Of all cores; for one core give -C and all its threads in place of -a.",
            *([_WATCHDOG] if takes_all_counters(uarch, (*main, *deep), smt=smt) else []),
            "perf stat -x ';' -a -o counts.csv \\",
            *groups,
            "  -- sleep 10",
            f"nftop tma --uarch {uarch.name} --smt {threads} counts.csv",
        ]
    )


def tree(topdown: Topdown, ratios: Mapping[str, Reading], *, smt: bool) -> str:
    """A line per node, indented below its parent, with a percentage or a mark; reasons below.

    `ratios`: 0..1 by node, of issue slots or, where the line says so, of cycles.
    """
    names = [name for name in in_order(topdown) if name in ratios]
    width = max((_INDENT * (topdown.level[name] - 1) + len(name) for name in names), default=0)
    unreliable = topdown.unreliable_smt if smt else frozenset()
    marks: set[str] = set()
    lines = []
    for name in names:
        label = " " * (_INDENT * (topdown.level[name] - 1)) + name
        ratio = ratios[name]
        if isinstance(ratio, Missing):
            lines.append(f"{label:<{width}}  {ratio.reason.mark:>7}")
            continue
        own = [_NOTABLE] if is_beyond(topdown, ratios, name) else []
        own += [_UNRELIABLE] if name in unreliable else []
        marks.update(own)
        words = ["of cycles"] if name in topdown.of_cycles else []
        behind = " ".join([*own, *words])
        lines.append(f"{label:<{width}}  {_percent(ratio):>7}  {behind}".rstrip())
    legend = [f"{mark} {text}" for mark, text in _LEGEND.items() if mark in marks]
    below = [*legend, *_absences(topdown, ratios, names)]
    return "\n".join([*lines, "", *below] if below else lines)


def _absences(
    topdown: Topdown, ratios: Mapping[str, Reading], names: Sequence[str]
) -> Iterator[str]:
    """Reasons with their nodes; whole branches by their first node."""
    why = {name: ratios[name] for name in names}
    by_reason: dict[Missing, list[str]] = {}
    for name, item in why.items():
        if isinstance(item, Missing) and why.get(topdown.parent.get(name, "")) != item:
            by_reason.setdefault(item, []).append(name)
    for key, first in by_reason.items():
        parents = {topdown.parent.get(name) for name in names if why[name] == key}
        listed = ", ".join(f"{name} and its parts" if name in parents else name for name in first)
        lead = f"{key.reason.mark:<4}"
        text = f"{listed}: {printable(key.message)}"
        yield textwrap.fill(
            text, _WIDTH, initial_indent=lead, subsequent_indent="    ", break_on_hyphens=False
        )


def _percent(ratio: float) -> str:
    """One decimal; only 0 prints as 0."""
    return "<0.1%" if 0 < ratio < 0.0005 else f"{ratio:.1%}"
