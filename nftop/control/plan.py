"""Actions on a state to a proposal: what would change, what comes with it, why it can't be.

The rules are the kernel's (`Documentation/filesystems/resctrl.rst`), so that what is refused there
is refused here before anything is written, and nftop's own: no class below the least number of
ways, groups of others are never removed, and every CPU is in the class that somebody chose for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from nftop.control.steps import MB, UNBORN, cpus_of, monitors_of
from nftop.model.action import (
    Action,
    Cell,
    Change,
    CreateGroup,
    CreateMonitor,
    MoveCpus,
    MoveTasks,
    Proposal,
    RemoveGroup,
    RemoveMonitor,
    SetSchemata,
    State,
)
from nftop.model.allocation import Cbm
from nftop.model.ids import format_cpu_list
from nftop.model.rdt import ROOT
from nftop.model.rdt_owner import OWN_PREFIX, owner_of

# What nftop makes itself; the kernel would take almost anything.
_NAME = re.compile(re.escape(OWN_PREFIX) + r"[A-Za-z0-9_.-]{1,48}")


@dataclass(frozen=True, slots=True)
class Rules:
    """What the hardware of this host takes.

    Attributes:
        ways: of a mask by the line's name (`L3`, `L2`, `L3CODE`).
        min_bits, sparse: as `info/L3` says; `sparse` where masks may have gaps.
        mba_least, mba_step, mba_most: of a limit; None where it can't be set.
        closids: how many classes there can be; None where the kernel does not tell.
        io: ways that devices write into as well, as bits of an L3's mask.
        l3_bytes: of one cache; None where it is not known.
        siblings: by CPU those of its core, itself aside.
        exclusive: groups whose ways nobody may share.
        tasks: thread cells of groups that may be removed, by group.
        task_groups: of threads that may be moved, `TID@START` and its group, by TID.
    """

    ways: Mapping[str, int] = field(default_factory=dict)
    min_bits: int = 1
    sparse: bool = False
    mba_least: int | None = None
    mba_step: int | None = None
    mba_most: int = 100
    closids: int | None = None
    io: int = 0
    l3_bytes: int | None = None
    siblings: Mapping[int, frozenset[int]] = field(default_factory=dict)
    exclusive: frozenset[str] = frozenset()
    tasks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    task_groups: Mapping[int, tuple[str, str]] = field(default_factory=dict)


@dataclass(slots=True)
class _Draft:
    """The state as the actions so far make it, and what is to be said of them."""

    rules: Rules
    state: dict[Cell, str]
    # Threads are cells only where an action touches them: there are thousands of others.
    threads: dict[Cell, str] = field(default_factory=dict)
    effects: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    def knows(self, group: str) -> bool:
        """Whether there is such a control group; if not, that is a refusal."""
        if group == ROOT or Cell("group", group) in self.state:
            return True
        self.refusals.append(f"there is no group {group}")
        return False


def propose(state: State, rules: Rules, actions: Sequence[Action], command: str = "") -> Proposal:
    """What the actions, in their order, would change in a state; nothing is touched."""
    draft = _Draft(rules, dict(state))
    for action in actions:
        _ACTS[type(action)](draft, action)
    base = {**state, **draft.threads}
    changes = difference(base, draft.state)
    if not draft.refusals:
        draft.refusals += [*_exclusivity(draft, changes), *_counted_out(draft)]
        draft.effects += _hidden(base, draft, changes)
    return Proposal(
        base=base,
        changes=() if draft.refusals else changes,
        effects=tuple(draft.effects),
        warnings=tuple(draft.warnings),
        refusals=tuple(draft.refusals),
        command=command,
    )


def difference(old: State, new: State) -> tuple[Change, ...]:
    """Every cell that two states have different, sorted."""
    cells = sorted(cell for cell in old.keys() | new.keys() if old.get(cell) != new.get(cell))
    return tuple(Change(cell, old.get(cell), new.get(cell)) for cell in cells)


def _set(draft: _Draft, action: SetSchemata) -> None:
    group, resource = action.group, action.resource
    there = {cell for cell in draft.state if cell.kind == "schemata" and cell.group == group}
    for domain, value in action.values:
        cell = Cell("schemata", group, resource, domain)
        if not draft.knows(group):
            return
        if cell not in there:
            here = [each.domain for each in there if each.name == resource]
            names = ", ".join(sorted({each.name for each in there})) or "nothing to set"
            draft.refusals.append(
                f"{resource} has no domain {domain}; it has {format_cpu_list(here)}"
                if here
                else f"this host has no {resource}; it has {names}"
            )
            continue
        rule = _limit if resource == MB else _mask
        text = rule(draft, resource, value, domain)
        if text is not None:
            draft.state[cell] = text


def _mask(draft: _Draft, resource: str, bits: int, domain: int) -> str | None:
    rules, where = draft.rules, f"{resource} {domain}={bits:x}"
    ways = rules.ways.get(resource, 0)
    if not 0 <= bits < 1 << ways:
        draft.refusals.append(f"{where}: the cache has {ways} ways, so {(1 << ways) - 1:x} at most")
    elif bits.bit_count() < rules.min_bits:
        draft.refusals.append(f"{where}: a class has {rules.min_bits} ways at least")
    elif not rules.sparse and not Cbm(bits, ways).contiguous:
        draft.refusals.append(f"{where}: this CPU takes only ways that are side by side")
    else:
        return f"{bits:x}"
    return None


def _limit(draft: _Draft, resource: str, value: int, domain: int) -> str | None:
    rules = draft.rules
    if rules.mba_least is None or rules.mba_step is None:
        draft.refusals.append("this host has no limits on memory bandwidth (MB)")
        return None
    if not rules.mba_least <= value <= rules.mba_most:
        draft.refusals.append(
            f"{resource} {domain}={value}: between {rules.mba_least} and {rules.mba_most} here"
        )
        return None
    # As the kernel rounds it, so that what is read back is what was shown.
    rounded = min(-(-value // rules.mba_step) * rules.mba_step, rules.mba_most)
    if rounded != value:
        draft.effects.append(
            f"{resource} {domain}={value} becomes {rounded}: steps of {rules.mba_step}"
        )
    return str(rounded)


def _move(draft: _Draft, action: MoveCpus) -> None:
    state, group, cpus = draft.state, action.group, frozenset(action.cpus)
    everywhere = {cell: cpus_of(state, cell) for cell in state if cell.kind == "cpus"}
    unknown = cpus.difference(*everywhere.values())
    if not draft.knows(group):
        return
    if unknown:
        draft.refusals.append(f"CPU {format_cpu_list(unknown)} is not there, or offline")
        return
    for cell, own in everywhere.items():
        keeps = own | cpus if cell.group == group else own - cpus
        state[cell] = format_cpu_list(keeps)
        for name in monitors_of(state, cell.group):
            metered = Cell("monitor_cpus", cell.group, name)
            lost = cpus_of(state, metered) - keeps
            if lost:
                state[metered] = format_cpu_list(cpus_of(state, metered) & keeps)
                draft.effects.append(
                    f"monitoring group {cell.group}:{name} meters CPU {format_cpu_list(lost)} "
                    "no more"
                )


def _move_tasks(draft: _Draft, action: MoveTasks) -> None:
    if not draft.knows(action.group):
        return
    for tid in action.tids:
        known = draft.rules.task_groups.get(tid)
        if known is None:
            draft.refusals.append(f"there is no thread {tid}")
            continue
        name, now = known
        cell = Cell("task", "", name)
        draft.threads[cell] = now
        draft.state[cell] = action.group


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
        draft.state[Cell("cpus", group)] = ""
        # Whatever mask the kernel chooses is nobody's choice: as the root group's until it is set.
        root = [cell for cell in draft.state if cell.kind == "schemata" and cell.group == ROOT]
        for cell in root:
            draft.state[cell._replace(group=group)] = draft.state[cell]


def _remove(draft: _Draft, action: RemoveGroup) -> None:
    group = action.group
    if not draft.knows(group):
        return
    if group == ROOT or not group.startswith(OWN_PREFIX):
        whose = owner_of(group)
        owner = f" ({whose}'s by its name)" if whose else ""
        draft.refusals.append(f"group {group}{owner} is not nftop's, so nftop does not remove it")
        return
    own = cpus_of(draft.state, Cell("cpus", group))
    threads = draft.rules.tasks.get(group, ())
    for name in threads:
        draft.threads[Cell("task", "", name)] = group
        draft.state[Cell("task", "", name)] = ROOT
    if own or threads:
        what = f"CPU {format_cpu_list(own)}" if own else ""
        what += f"{' and ' if own and threads else ''}{len(threads)} threads" if threads else ""
        draft.effects.append(f"{what} of {group} fall to the root group's class")
    for cell in [cell for cell in draft.state if cell.group == group]:
        del draft.state[cell]
    root = Cell("cpus", ROOT)
    draft.state[root] = format_cpu_list(cpus_of(draft.state, root) | own)


def _create_monitor(draft: _Draft, action: CreateMonitor) -> None:
    group, name, cpus = action.group, action.name, frozenset(action.cpus)
    cell = Cell("monitor", group, name)
    if not draft.knows(group):
        return
    if not _NAME.fullmatch(name):
        draft.refusals.append(f"nftop's own monitoring groups are called {OWN_PREFIX}NAME")
    elif cell in draft.state:
        draft.refusals.append(f"there is a monitoring group {name} in {group} already")
    elif not cpus <= cpus_of(draft.state, Cell("cpus", group)):
        draft.refusals.append(f"a monitoring group of {group} meters CPUs of {group} only")
    else:
        draft.state[cell] = UNBORN
        draft.state[Cell("monitor_cpus", group, name)] = format_cpu_list(cpus)
        for other in monitors_of(draft.state, group):
            metered = Cell("monitor_cpus", group, other)
            if other != name and cpus_of(draft.state, metered) & cpus:
                draft.state[metered] = format_cpu_list(cpus_of(draft.state, metered) - cpus)
                draft.effects.append(f"monitoring group {group}:{other} loses those CPUs")


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
        draft.state.pop(Cell("monitor_cpus", group, name), None)


def _exclusivity(draft: _Draft, changes: Iterable[Change]) -> Iterable[str]:
    """The kernel lets nobody share the ways of an exclusive group, nor it those of I/O."""
    for cell, new in ((each.cell, each.new) for each in changes):
        if cell.kind != "schemata" or cell.name == MB or new is None:
            continue
        bits = int(new, 16)
        alone = cell.group in draft.rules.exclusive and cell.name.startswith("L3")
        if alone and bits & draft.rules.io:
            yield f"{cell.group} is exclusive and can't have ways of I/O ({draft.rules.io:x})"
        for other, value in draft.state.items():
            same = other.kind == "schemata" and other.domain == cell.domain
            if not same or other.group == cell.group or other.name[:2] != cell.name[:2]:
                continue
            owners = {cell.group, other.group} & draft.rules.exclusive
            if other.name != MB and owners and int(value, 16) & bits:
                first = min(owners)
                yield f"{cell.name} {cell.domain}={new}: the ways of {first} are exclusive"


def _counted_out(draft: _Draft) -> Iterable[str]:
    """That every CPU is in exactly one group, whatever the actions were."""
    seen: set[int] = set()
    for cell in draft.state:
        if cell.kind == "cpus":
            own = cpus_of(draft.state, cell)
            if seen & own:
                yield f"CPU {format_cpu_list(seen & own)} would be in two groups"
            seen |= own


def _hidden(base: State, draft: _Draft, changes: Sequence[Change]) -> list[str]:
    """What masks alone don't show: ways now shared, ways of I/O, siblings left behind."""
    found = []
    for cell, new in ((each.cell, each.new) for each in changes):
        if cell.kind == "schemata" and cell.name.startswith("L3") and new is not None:
            found += _shared(base, draft, cell, int(new, 16))
    if any(change.cell.kind == "schemata" and change.cell.name != MB for change in changes):
        found.append("occupancy follows as lines are evicted: give it seconds before judging")
    group_of = {
        cpu: cell.group
        for cell in draft.state
        if cell.kind == "cpus"
        for cpu in cpus_of(draft.state, cell)
    }
    moved = {
        cpu
        for change in changes
        if change.cell.kind == "cpus"
        for cpu in cpus_of(draft.state, change.cell) - cpus_of(base, change.cell)
    }
    for cpu in sorted(moved):
        apart = [each for each in draft.rules.siblings.get(cpu, ()) if
                 group_of.get(each) != group_of[cpu]]  # fmt: skip
        if apart:
            draft.warnings.append(
                f"CPU {cpu}'s sibling {format_cpu_list(apart)} stays in "
                f"{group_of.get(apart[0], '?')}: they share a core's own caches"
            )
    return found


def _shared(base: State, draft: _Draft, cell: Cell, bits: int) -> list[str]:
    """Ways that come to be shared with others or with I/O by a new mask."""
    gained = bits & ~int(base.get(cell, "0"), 16)
    found = []
    for other, value in sorted(draft.state.items()):
        same = (other.kind, other.name, other.domain) == (cell.kind, cell.name, cell.domain)
        both = int(value, 16) & gained if same and other.group != cell.group else 0
        if both:
            found.append(f"{cell.name} {cell.domain}: shares ways {_ways(both)} with {other.group}")
    if gained & draft.rules.io:
        found.append(
            f"{cell.name} {cell.domain}: ways {_ways(gained & draft.rules.io)} are those that "
            "devices write into (DDIO)"
        )
    return found


def _ways(bits: int) -> str:
    return format_cpu_list(way for way in range(bits.bit_length()) if bits >> way & 1)


_ACTS: Mapping[type[Action], Callable[[_Draft, Any], None]] = {
    SetSchemata: _set,
    MoveCpus: _move,
    MoveTasks: _move_tasks,
    CreateGroup: _create,
    RemoveGroup: _remove,
    CreateMonitor: _create_monitor,
    RemoveMonitor: _remove_monitor,
}
