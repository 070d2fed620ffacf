"""The tree of the top-down method as lines of text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from nftop.model.missing import Missing, Reading
from nftop.render.base.text import printable
from nftop.uarch.explain import groups_to_count, perf_group, takes_all_counters
from nftop.uarch.focus import in_order, is_beyond
from nftop.uarch.sections import Topdown
from nftop.uarch.table import Uarch

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


def report(
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
        parts = {topdown.parent.get(name) for name in names if why[name] == key}
        listed = ", ".join(f"{name} and its parts" if name in parts else name for name in first)
        lead = f"{key.reason.mark:<4}"
        text = f"{listed}: {printable(key.message)}"
        yield textwrap.fill(
            text, _WIDTH, initial_indent=lead, subsequent_indent="    ", break_on_hyphens=False
        )


def _percent(ratio: float) -> str:
    """One decimal; only 0 prints as 0."""
    return "<0.1%" if 0 < ratio < 0.0005 else f"{ratio:.1%}"
