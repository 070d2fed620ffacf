"""Cells and changes in words, for sentences."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from nftop.control.steps import Step
from nftop.model.action import Cell, Change
from nftop.model.ids import format_cpu_list
from nftop.model.rdt import ROOT

_MOST_NAMED = 6


def describe(cell: Cell) -> str:
    """A cell in words."""
    words = {
        "group": f"group {cell.group}",
        "monitor": f"monitoring group {cell.group}:{cell.name}",
        "mode": f"the mode of {cell.group}",
        "schemata": f"{cell.name} {cell.number} of {cell.group}",
        "cpu": f"the group of CPU {cell.number}",
        "task": f"the group of thread {cell.name.partition('@')[0]}",
    }
    return words[cell.kind]


def shell(step: Step, mount: str) -> str:
    """A step as what an operator would type."""
    folder = mount if step.group == ROOT else f"{mount}/{step.group}"
    if step.monitor:
        folder += f"/mon_groups/{step.monitor}"
    if step.deed in ("mkdir", "rmdir"):
        return f"{step.deed} {shlex.quote(folder)}"
    file = {"schemata": "schemata", "cpus": "cpus_list", "task": "tasks"}[step.deed]
    text = step.text.removesuffix("\n").replace("\n", "\\n")
    word = "printf" if "\\n" in text else "echo"
    end = "\\n" if word == "printf" else ""
    return f"{word} '{text}{end}' > {shlex.quote(f'{folder}/{file}')}"


def left_alone(cells: Iterable[Cell]) -> tuple[str, ...]:
    """A sentence for each cell that somebody else has changed, one for all CPUs."""
    every = sorted(cells)
    cpus = [cell.number for cell in every if cell.kind == "cpu"]
    named = [describe(cell) for cell in every if cell.kind != "cpu"]
    if cpus:
        named.append(f"the group of CPU {format_cpu_list(cpus)}")
    return tuple(f"{each} was changed by somebody else since: left alone" for each in named)


def differences(changes: Sequence[Change], old: str, new: str) -> tuple[str, ...]:
    """`CELL: OLD WORDS, NEW WORDS` for the first of some changes, and how many more there are."""
    named = [
        f"{describe(each.cell)}: {_shown(each.old)} {old}, {_shown(each.new)} {new}"
        for each in changes[:_MOST_NAMED]
    ]
    more = [f"and {len(changes) - _MOST_NAMED} more"] if len(changes) > _MOST_NAMED else []
    return (*named, *more)


def _shown(value: str | None) -> str:
    return "not there" if value is None else value or "there"
