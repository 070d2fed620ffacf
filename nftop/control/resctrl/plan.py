"""Actions on a state to a proposal: what would change, what comes with it, why it can't be.

The rules are the kernel's (`Documentation/filesystems/resctrl.rst`), so that what is refused there
is refused here before anything is written, and nftop's own: no class without a way, groups of
others are never removed, and every CPU is in the class that somebody chose for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nftop.control.backend import UNBORN
from nftop.control.resctrl.effects import judged
from nftop.control.resctrl.operations import EXCLUSIVE, SHAREABLE, cpus_in, monitors_of
from nftop.control.revert import is_birth
from nftop.control.rules import MB, LimitRule, Rules
from nftop.control.wording import counted, describe
from nftop.model.change import (
    Action,
    Cell,
    CreateGroup,
    CreateMonitor,
    MoveCpus,
    MoveTasks,
    Proposal,
    RemoveGroup,
    RemoveMonitor,
    SetSchemata,
    State,
    difference,
    parts,
    place,
)
from nftop.model.ids import format_cpu_list
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import OWN_PREFIX, ROOT, UNLIMITED_MBPS, owner_of
from nftop.model.struct import dataclass, field, replace

# What nftop makes itself; the kernel would take almost anything.
_NAME = re.compile(re.escape(OWN_PREFIX) + r"[A-Za-z0-9_.-]{1,48}")


@dataclass(slots=True)
class _Draft:
    """The state as the actions so far make it, and what is to be said of them."""

    rules: Rules
    state: dict[Cell, str]
    # Threads are cells only where an action touches them: there are thousands of others.
    threads: dict[Cell, str] = field(default_factory=dict)
    rounded: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    def knows(self, group: str) -> bool:
        """Whether there is such a control group; if not, that is a refusal."""
        if group == ROOT or Cell("group", group) in self.state:
            return True
        self.refusals.append(f"there is no group {group}")
        return False

    def move(self, name: str, where: str) -> None:
        """A thread, `TID@STARTTIME`, to another place."""
        cell = Cell("task", "", name)
        self.threads.setdefault(cell, self.rules.tasks[name])
        self.state[cell] = where


@dataclass(frozen=True, slots=True)
class Result:
    """State after actions, before anything but their own validity is checked.

    Attributes:
        base: the state before, with the threads that the actions move.
        target: the state after.
        rounded: messages on values that the kernel would round.
        refusals: messages on actions that are not possible; `target` is then incomplete.
    """

    base: State
    target: State
    rounded: tuple[str, ...]
    refusals: tuple[str, ...]


def result_of(state: State, rules: Rules, actions: Sequence[Action]) -> Result:
    """State after the actions, in their order; nothing is touched."""
    draft = _Draft(rules, dict(state))
    for action in actions:
        if not draft.refusals:  # what follows may be about what could not be made
            _ACTS[type(action)](draft, action)
    base = {**state, **draft.threads}
    again = [item.cell for item in difference(base, draft.state) if is_birth(item)]
    draft.refusals += [
        f"{describe(cell)} can't be removed and made again at once" for cell in again
    ]
    refusals = tuple(dict.fromkeys(draft.refusals))
    return Result(base, draft.state, tuple(draft.rounded), refusals)


def propose(
    state: State, rules: Rules, actions: Sequence[Action], commands: tuple[str, ...] = ()
) -> Proposal:
    """What the actions, in their order, would change in a state; nothing is touched."""
    result = result_of(state, rules, actions)
    base, rounded = result.base, result.rounded
    if result.refusals:
        return Proposal(
            base, (), rounded, refusals=result.refusals, commands=commands, rounded=rounded
        )
    proposal = judged(base, result.target, difference(base, result.target), rules, commands)
    return replace(proposal, effects=(*rounded, *proposal.effects), rounded=rounded)


def _set(draft: _Draft, action: SetSchemata) -> None:
    group, resource = action.group, action.resource
    if not draft.knows(group):
        return
    existing = {cell for cell in draft.state if cell.kind == "schemata" and cell.group == group}
    for domain, value in action.values:
        cell = Cell("schemata", group, resource, domain)
        if cell not in existing:
            here = [item.number for item in existing if item.name == resource]
            names = ", ".join(sorted({item.name for item in existing})) or "nothing to set"
            draft.refusals.append(
                f"{resource} has no domain {domain}; it has {format_cpu_list(here)}"
                if here
                else f"{group} has no {resource}; it has {names}"
            )
            continue
        rule = _limit if resource == MB else _mask
        text = rule(draft, resource, value, domain)
        if text is not None:
            draft.state[cell] = text


def _mask(draft: _Draft, resource: str, bits: int, domain: int) -> str | None:
    rule, where = draft.rules.masks.get(resource), f"{resource} {domain}={bits:x}"
    if rule is None:
        draft.refusals.append(f"{where}: the kernel does not tell the ways of {resource}")
    elif not 0 <= bits < 1 << rule.ways:
        full = (1 << rule.ways) - 1
        draft.refusals.append(f"{where}: the cache has {rule.ways} ways, so {full:x} at most")
    elif bits.bit_count() < rule.min_bits:
        draft.refusals.append(f"{where}: a class has {counted(rule.min_bits, 'way')} at least")
    elif not rule.sparse and not Cbm(bits, rule.ways).contiguous:
        draft.refusals.append(f"{where}: this CPU takes only ways that are side by side")
    else:
        return f"{bits:x}"
    return None


def _limit(draft: _Draft, resource: str, value: int, domain: int) -> str | None:
    rule = draft.rules.limit
    if rule is None:
        draft.refusals.append("this host has no limits on memory bandwidth (MB)")
        return None
    if not rule.least <= value <= rule.most:
        draft.refusals.append(f"{resource} {domain}={_named(value)}: {_range(rule)}")
        return None
    # As the kernel rounds it, so that what is read back is what was shown.
    rounded = min(-(-value // rule.step) * rule.step, rule.most)
    if rounded != value:
        draft.rounded.append(f"{resource} {domain}={value} becomes {rounded}: steps of {rule.step}")
    return str(rounded)


def _named(value: int) -> str:
    return "unlimited" if value >= UNLIMITED_MBPS else str(value)


def _range(rule: LimitRule) -> str:
    """What limits there may be, in words."""
    if rule.unit == "MBps":
        return f"{rule.least} MB/s at least here, or unlimited"
    unit = "%" if rule.unit == "percent" else "eighths of a GB/s"
    return f"between {rule.least} and {rule.most} {unit} here; {rule.most} is no limit"


def _move(draft: _Draft, action: MoveCpus) -> None:
    cells = [Cell("cpu", "", number=cpu) for cpu in action.cpus]
    unknown = [cell.number for cell in cells if cell not in draft.state]
    if not draft.knows(action.group):
        return
    if unknown:
        draft.refusals.append(f"CPU {format_cpu_list(unknown)} is not there, or offline")
        return
    for cell in cells:
        if parts(draft.state[cell])[0] != action.group:
            draft.state[cell] = action.group


def _move_tasks(draft: _Draft, action: MoveTasks) -> None:
    if not draft.knows(action.group):
        return
    names = {name.partition("@")[0]: name for name in draft.rules.tasks}
    for tid in action.tids:
        name = names.get(str(tid))
        if name is None:
            draft.refusals.append(f"there is no thread {tid}")
            continue
        now = draft.state.get(Cell("task", "", name), draft.rules.tasks[name])
        draft.move(name, now if parts(now)[0] == action.group else action.group)


def _create(draft: _Draft, action: CreateGroup) -> None:
    group = action.group
    classes = 1 + sum(cell.kind == "group" for cell in draft.state)
    if not _NAME.fullmatch(group):
        draft.refusals.append(
            f"nftop's own groups are called {OWN_PREFIX}NAME, with letters, digits, . _ - in NAME"
        )
    elif Cell("group", group) in draft.state:
        draft.refusals.append(f"there is a group {group} already")
    elif draft.rules.closids is not None and classes >= draft.rules.closids:
        draft.refusals.append(f"all {draft.rules.closids} classes of this CPU are in use")
    else:
        draft.state[Cell("group", group)] = UNBORN
        draft.state[Cell("mode", group)] = SHAREABLE
        # Whatever mask the kernel chooses is nobody's choice: as the root group's until it is set.
        root = [cell for cell in draft.state if cell.kind == "schemata" and cell.group == ROOT]
        for cell in root:
            draft.state[cell._replace(group=group)] = draft.state[cell]


def _remove(draft: _Draft, action: RemoveGroup) -> None:
    group = action.group
    if not draft.knows(group):
        return
    if group == ROOT or not group.startswith(OWN_PREFIX):
        by_name = owner_of(group)
        owner = f" ({by_name}'s by its name)" if by_name else ""
        draft.refusals.append(f"group {group}{owner} is not nftop's, so nftop does not remove it")
        return
    if draft.state.get(Cell("mode", group)) == EXCLUSIVE:
        # nftop does not set modes, so it could not make the group again as it was.
        draft.refusals.append(f"group {group} is exclusive: make it shareable first")
        return
    others = [
        monitor for monitor in monitors_of(draft.state, group) if not monitor.startswith(OWN_PREFIX)
    ]
    if others:
        # It would go with the group, and is not nftop's to be made again.
        draft.refusals += [
            f"{describe(Cell('monitor', group, other))} is not nftop's, and would go with its group"
            for other in sorted(others)
        ]
        return
    for name, where in draft.rules.tasks.items():
        if parts(draft.state.get(Cell("task", "", name), where))[0] == group:
            draft.move(name, ROOT)
    for cell, where in list(draft.state.items()):
        if cell.kind == "cpu" and parts(where)[0] == group:
            draft.state[cell] = ROOT
        elif cell.group == group:
            del draft.state[cell]


def _create_monitor(draft: _Draft, action: CreateMonitor) -> None:
    group, name, cpus = action.group, action.name, frozenset(action.cpus)
    cell = Cell("monitor", group, name)
    if not draft.knows(group):
        return
    if not _NAME.fullmatch(name):
        draft.refusals.append(f"nftop's own monitoring groups are called {OWN_PREFIX}NAME")
    elif cell in draft.state:
        draft.refusals.append(f"there is a monitoring group {name} in {group} already")
    elif not cpus <= cpus_in(draft.state, group):
        draft.refusals.append(f"a monitoring group of {group} meters CPUs of {group} only")
    else:
        draft.state[cell] = UNBORN
        for cpu in cpus:
            draft.state[Cell("cpu", "", number=cpu)] = place(group, name)


def _remove_monitor(draft: _Draft, action: RemoveMonitor) -> None:
    group, name = action.group, action.name
    cell = Cell("monitor", group, name)
    if not draft.knows(group):
        return
    if cell not in draft.state:
        draft.refusals.append(f"there is no monitoring group {name} in {group}")
    elif not name.startswith(OWN_PREFIX):
        draft.refusals.append(f"monitoring group {name} is not nftop's, so it does not remove it")
    else:
        del draft.state[cell]
        own = place(group, name)
        for thread, where in draft.rules.tasks.items():
            if draft.state.get(Cell("task", "", thread), where) == own:
                draft.move(thread, group)
        for item, where in list(draft.state.items()):
            if item.kind == "cpu" and where == own:
                draft.state[item] = group


_ACTS: Mapping[type[Action], Callable[[_Draft, Any], None]] = {
    SetSchemata: _set,
    MoveCpus: _move,
    MoveTasks: _move_tasks,
    CreateGroup: _create,
    RemoveGroup: _remove,
    CreateMonitor: _create_monitor,
    RemoveMonitor: _remove_monitor,
}
