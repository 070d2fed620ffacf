"""docs/topdown.md: which CPU has which node. `python -m tests.uarch.test_levels_page` writes it."""

from __future__ import annotations

import re
from pathlib import Path

from nftop.uarch.focus import in_order
from tests.uarch.vectors import UARCHES, loaded

PAGE = Path(__file__).parents[2] / "docs/topdown.md"
# E-cores have a tree of their own.
CPUS = UARCHES[:-1]
_TABLE = re.compile(r"(?m)^\|(.*\n\|)*.*\n")


def table() -> str:
    """Nodes of levels 3 and 4 by CPU, each after its parent."""
    level: dict[str, int] = {}
    order: list[str] = []
    for uarch in ("ICX", *CPUS):
        topdown = loaded(uarch).topdown
        assert topdown
        level |= topdown.level
        order += [name for name in in_order(topdown) if name not in order]
    lines = [f"| node | level | {' | '.join(CPUS)} |", "|---|---|" + "---|" * len(CPUS)]
    for name in order:
        if level[name] > 2:
            known = (name in getattr(loaded(uarch).topdown, "level", ()) for uarch in CPUS)
            cells = ("yes" if here else "-" for here in known)
            lines.append(f"| `{name}` | {level[name]} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def test_the_page_is_the_tables() -> None:
    match = _TABLE.search(PAGE.read_text())
    assert match and match[0] == table()


def test_what_a_cpu_has_no_formula_for_is_no_node_of_its_own() -> None:
    topdown = loaded("GNR").topdown
    base = loaded("EMR").topdown
    assert topdown and base
    assert topdown.absent.keys() == base.level.keys() - topdown.level.keys()
    assert not base.absent


if __name__ == "__main__":
    PAGE.write_text(_TABLE.sub(table(), PAGE.read_text(), count=1))
