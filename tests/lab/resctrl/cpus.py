"""Which CPUs are in a group: the files cpus and cpus_list, and what a write does to others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tests.lab.resctrl.numbers import cpu_list, cpu_mask, list_text, mask_text
from tests.lab.resctrl.state import Group, Resctrl, begin, changed, controls, refused, set_status

Parse: TypeAlias = Callable[[str, int], set[int]]


def show(state: Resctrl, group: Group) -> str:
    """The file cpus."""
    return mask_text(group.cpus, len(state.hardware.domain_of)) + "\n"


def show_list(state: Resctrl, group: Group) -> str:
    """The file cpus_list."""
    return list_text(group.cpus) + "\n"


def write(state: Resctrl, group: Group, text: str) -> None:
    """A write to cpus."""
    _write(state, group, text, cpu_mask)


def write_list(state: Resctrl, group: Group, text: str) -> None:
    """A write to cpus_list."""
    _write(state, group, text, cpu_list)


def _write(state: Resctrl, group: Group, text: str, parse: Parse) -> None:
    begin(state, "cpus")
    try:
        cpus = parse(text.partition("\0")[0], len(state.hardware.domain_of))
    except OSError:
        set_status(state, "bad_cpus")
        raise
    if not cpus <= state.hardware.online:
        raise refused(state, "offline_cpus")
    if group.parent is not None:
        _set_monitored(state, group, group.parent, cpus)
    else:
        _set_controlled(state, group, cpus)
    changed(state)


def _set_monitored(state: Resctrl, group: Group, parent: Group, cpus: set[int]) -> None:
    """They are the parent's and stay so; no two of its monitoring groups have the same."""
    if not cpus <= parent.cpus:
        raise refused(state, "foreign_cpus")
    for other in parent.children.values():
        other.cpus -= cpus
    group.cpus = set(cpus)


def _set_controlled(state: Resctrl, group: Group, cpus: set[int]) -> None:
    """What it drops is the root's, what it gains is nobody else's; its children lose all."""
    if group is state.root and not group.cpus <= cpus:
        raise refused(state, "root_cpus")
    state.root.cpus |= group.cpus - cpus
    gained = cpus - group.cpus
    for other in controls(state):
        if other is not group:
            for item in (other, *other.children.values()):
                item.cpus -= gained
    group.cpus = set(cpus)
    for child in group.children.values():
        child.cpus.clear()
