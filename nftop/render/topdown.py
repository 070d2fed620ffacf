"""The tree of the top-down method as lines of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nftop.model.reading import Missing, Reading
from nftop.render.text import printable
from nftop.uarch.focus import in_order, is_beyond
from nftop.uarch.parts import Topdown
from nftop.uarch.table import Uarch

_INDENT = 2
_NOTABLE = "*"
_UNRELIABLE = "~"
_LEGEND = {
    _NOTABLE: "above what the vendor calls notable, as all above it in the tree",
    _UNRELIABLE: "unreliable with hyper-threading, by the vendor's word",
}


def report(
    uarch: Uarch, ratios: Mapping[str, Reading], *, smt: bool, origin: str, notes: Sequence[str]
) -> str:
    """The tree below what it is of: the CPU, the form of the counts, how they were put together.

    Raises:
        ValueError: the table has no top-down.
    """
    if uarch.topdown is None:
        raise ValueError(f"{uarch.name} has no top-down")
    threads = "on" if smt else "off"
    head = [f"{uarch.title} ({uarch.name}), hyper-threading {threads}; counts: {origin}"]
    lines = [*head, *(printable(note) for note in notes), ""]
    return "\n".join([*lines, tree(uarch.topdown, ratios, smt=smt)])


def tree(topdown: Topdown, ratios: Mapping[str, Reading], *, smt: bool) -> str:
    """One line a node, children indented below their parent: a percentage, or why there is none.

    `ratios` are 0..1 by node name, of issue slots, but of cycles where the line says so.
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
            lines.append(f"{label:<{width}}  {ratio.reason.mark:>7}  {printable(ratio.sentence)}")
            continue
        own = [_NOTABLE] if is_beyond(topdown, ratios, name) else []
        own += [_UNRELIABLE] if name in unreliable else []
        marks.update(own)
        words = ["of cycles"] if name in topdown.of_cycles else []
        behind = " ".join([*own, *words])
        lines.append(f"{label:<{width}}  {_percent(ratio):>7}  {behind}".rstrip())
    legend = [f"{mark} {text}" for mark, text in _LEGEND.items() if mark in marks]
    return "\n".join([*lines, "", *legend] if legend else lines)


def _percent(ratio: float) -> str:
    """With one decimal; what is more than nothing never looks like it."""
    return "<0.1%" if 0 < ratio < 0.0005 else f"{ratio:.1%}"
