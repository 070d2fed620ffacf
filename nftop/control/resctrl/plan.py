"""From actions on a state to a proposal: changes, effects, warnings, refusals.

The rules are the kernel's (`Documentation/filesystems/resctrl.rst`), so that what is refused there
is refused here before anything is written, and nftop's own: no class without a way, groups of
others are never removed, and no CPU changes its class unless requested.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from nftop.control.backend import UNBORN
from nftop.control.resctrl.operations import (
    EXCLUSIVE,
    SHAREABLE,
    by_cache,
    cpus_in,
    monitors_of,
    rivals,
    steps,
)
from nftop.control.revert import is_birth
from nftop.control.rules import MB, LimitRule, Rules, untouchable
from nftop.control.wording import counted, cpus_and_threads, describe
from nftop.model.change import (
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
    difference,
    group_path,
    parts,
)
from nftop.model.ids import format_cpu_list
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import DEFAULT, OWN_PREFIX, ROOT, UNLIMITED_MBPS, class_name, owner_of
from nftop.model.struct import dataclass, field, replace

_MOST_NAMED = 6
_LOCKED = "pseudo-locked"
# Names of groups that nftop creates; the kernel accepts almost anything.
_NAME = re.compile(re.escape(OWN_PREFIX) + r"[A-Za-z0-9_.-]{1,48}")


def of_masks(
    base: State, target: State, rules: Rules, changes: Sequence[Change]
) -> Iterator[tuple[Cell, str]]:
    """Messages by mask: ways that become shared."""
    caches = by_cache(target)
    for change in changes:
        if _is_mask(change.cell) and change.new is not None:
            rows = caches[change.cell.name[:2], change.cell.number]
            shared = _shared(base, {cell: target[cell] for cell in rows}, rules, change)
            yield from ((change.cell, item) for item in shared)


def effects(target: State, changes: Sequence[Change]) -> Iterator[str]:
    """Other messages: monitoring groups that lose CPUs; CPUs and threads that fall to the root."""
    if any(_is_mask(change.cell) and change.old and change.new for change in changes):
        yield "occupancy follows as lines are evicted: give it seconds before judging"
    yield from _unmetered(target, changes)
    yield from _fallen(changes)


def warnings(target: State, rules: Rules, changes: Sequence[Change]) -> Iterator[str]:
    """Messages: hyper-threads of a core in different classes; a root group without CPUs."""
    moved = {
        change.cell.number: change.new
        for change in changes
        if change.cell.kind == "cpu" and change.new
    }
    for cpu, where in sorted(moved.items()):
        group = parts(where)[0]
        places = {sibling: target.get(Cell("cpu", "", number=sibling), "")
                  for sibling in rules.siblings.get(cpu, ())}  # fmt: skip
        apart = [key for key, where in places.items() if where and parts(where)[0] != group]
        if apart and not (set(apart) & set(moved) and min(apart) < cpu):
            other = parts(places[apart[0]])[0]
            yield (
                f"CPU {cpu} is in {class_name(group)} and its sibling {format_cpu_list(apart)} in "
                f"{class_name(other)}: "
                "they share a core's own caches"
            )
    if moved and not cpus_in(target, ROOT):
        yield f"{DEFAULT} has no CPU left: whatever is in no group runs in others' classes"


def strangers(
    state: State, rules: Rules, changes: Iterable[Change], known: Mapping[Cell, str | None]
) -> Iterator[str]:
    """Messages: groups to be removed that nftop did not create, and their CPUs and threads.

    `known`: numbers of directories in nftop's history.
    """
    for cell in [change.cell for change in changes if change.new is None]:
        if cell.kind not in ("group", "monitor") or state[cell] == known.get(cell):
            continue
        home = group_path(cell.group, cell.name)
        threads = {Cell("task", "", name): where for name, where in rules.tasks.items()}
        inside = [
            key
            for key, where in {**state, **threads}.items()
            if key.kind in ("cpu", "task") and home in (where, parts(where)[0])
        ]
        whom = (
            f": {cpus_and_threads(inside)} {'is' if len(inside) == 1 else 'are'} in it"
            if inside
            else ""
        )
        yield f"{describe(cell)} is not in nftop's history here, somebody else made it{whom}"


def ways_text(bits: int) -> str:
    """Ways of a mask as a list: `way 3`, `ways 3-5,8`."""
    return f"way{'s' * (bits.bit_count() != 1)} {_list(bits)}"


def _list(bits: int) -> str:
    return format_cpu_list(way for way in range(bits.bit_length()) if bits >> way & 1)


def more(count: int) -> str:
    """` and N more`, if there are."""
    return f" and {count} more" if count > 0 else ""


def _is_mask(cell: Cell) -> bool:
    return cell.kind == "schemata" and cell.name != MB


def _shared(base: State, target: State, rules: Rules, change: Change) -> Iterator[str]:
    """Ways that a new mask shares with other groups or with I/O."""
    cell = change.cell
    bits = int(change.new or "0", 16)
    gained = bits & ~int(base.get(cell, "0"), 16)
    shared: dict[tuple[int, int], list[str]] = {}
    for other, value in target.items():
        both = int(value, 16) & bits if rivals(cell, other) else 0
        new = both & gained
        # With CDP both masks of another group may have them: it is listed once.
        if new and class_name(other.group) not in shared.setdefault((both, new), []):
            shared[both, new].append(class_name(other.group))
    for (both, new), groups in shared.items():
        some = f" ({_list(new)} {'is' if new.bit_count() == 1 else 'are'} new)" * (new != both)
        yield f"{describe(cell)}: shares {ways_text(both)}{some} with " + (
            ", ".join(groups[:_MOST_NAMED]) + more(len(groups) - _MOST_NAMED)
        )
    io, origin = rules.io.get(cell.number, (0, ""))
    if cell.name.startswith("L3") and gained & io:
        yield (
            f"{describe(cell)}: devices write into {ways_text(gained & io)} too (DDIO, {origin})"
        )


def _unmetered(target: State, changes: Iterable[Change]) -> Iterator[str]:
    """CPUs and threads that leave their monitoring group with their class."""
    lost: dict[str, set[int]] = {}
    threads: dict[str, int] = {}
    for cell, old, new in ((change.cell, change.old, change.new) for change in changes):
        if cell.kind in ("cpu", "task") and old and new and parts(old)[1] and not parts(new)[1]:
            group, monitor = parts(old)
            if monitor not in monitors_of(target, group):
                continue  # it is to go: that is what was asked for
            if cell.kind == "cpu":
                lost.setdefault(class_name(group, monitor), set()).add(cell.number)
            else:
                name = class_name(group, monitor)
                threads[name] = threads.get(name, 0) + 1
    for name, cpus in lost.items():
        yield f"monitoring group {name} meters CPU {format_cpu_list(cpus)} no more"
    for name, count in threads.items():
        yield f"monitoring group {name} meters {counted(count, 'thread')} no more"


def _fallen(changes: Iterable[Change]) -> Iterator[str]:
    """CPUs and threads that fall to the root group because their group is removed."""
    rows = list(changes)
    gone = {row.cell.group for row in rows if row.cell.kind == "group" and row.new is None}
    for group in sorted(gone):
        fallen = [row.cell for row in rows if row.new == ROOT and parts(row.old or "/")[0] == group]
        cpus = format_cpu_list(cell.number for cell in fallen if cell.kind == "cpu")
        threads = sum(cell.kind == "task" for cell in fallen)
        movers = [f"CPU {cpus}"] * bool(cpus) + [counted(threads, "thread")] * bool(threads)
        if movers:
            falls = "falls" if len(fallen) == 1 else "fall"
            yield f"{' and '.join(movers)} of {class_name(group)} {falls} to {DEFAULT}"


def judged(
    base: State,
    target: State,
    changes: Sequence[Change],
    rules: Rules,
    commands: tuple[str, ...],
) -> Proposal:
    """Proposal for changes of `base` that lead to `target`."""
    refusals = (*forbidden(base, changes), *_exclusive(target, rules, changes))
    if refusals:
        messages = tuple(dict.fromkeys(refusals))
        return Proposal(base, (), refusals=messages, commands=commands)
    shared = tuple(of_masks(base, target, rules, changes))
    return Proposal(
        base=base,
        changes=tuple(changes),
        effects=(*(messages for _, messages in shared), *effects(target, changes)),
        warnings=tuple(warnings(target, rules, changes)),
        commands=commands,
        of_masks=shared,
    )


def forbidden(base: State, changes: Iterable[Change]) -> Iterator[str]:
    """Messages on groups that nftop must not change."""
    for step in steps(base, changes):
        why = untouchable(base, step.group, step.monitor)
        if why:
            yield why
    for change in changes:
        for where in (change.old, change.new):
            if change.cell.kind in ("cpu", "task") and where is not None:
                why = untouchable(base, *parts(where))
                if why:
                    yield why


def _exclusive(target: State, rules: Rules, changes: Iterable[Change]) -> Iterator[str]:
    """Messages on exclusive groups, whose ways the kernel lets neither others nor I/O share."""

    def mode(cell: Cell) -> str:
        return target.get(Cell("mode", cell.group), SHAREABLE)

    caches = by_cache(target)
    for cell, new in ((change.cell, change.new) for change in changes):
        if cell.kind != "schemata" or cell.name == MB or new is None:
            continue
        bits, rule = int(new, 16), rules.masks.get(cell.name)
        if rule is not None and mode(cell) == EXCLUSIVE and bits & rule.shareable:
            name = class_name(cell.group)
            yield f"{name} is exclusive and can't have ways of I/O ({rule.shareable:x})"
        for other in caches[cell.name[:2], cell.number]:
            both = int(target[other], 16) & bits if rivals(cell, other) else 0
            if not both:
                continue
            alone = {mode(cell), mode(other)} & {EXCLUSIVE} or mode(other) == _LOCKED
            if alone:
                own, theirs = class_name(cell.group), class_name(other.group)
                yield (
                    f"{cell.name} {cell.number}={new}: {ways_text(both)} can't be shared "
                    f"with {theirs}, which is {mode(other)}"
                    if mode(other) != SHAREABLE
                    else f"{cell.name} {cell.number}={new}: {own} is exclusive, and "
                    f"{theirs} has {ways_text(both)}"
                )


@dataclass(slots=True)
class _Draft:
    """State after the actions so far, and messages on them."""

    rules: Rules
    state: dict[Cell, str]
    # Threads are cells only if an action moves them: a host has thousands.
    threads: dict[Cell, str] = field(default_factory=dict)
    rounded: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    def knows(self, group: str) -> bool:
        """Whether a control group exists; adds a refusal if not."""
        if group == ROOT or Cell("group", group) in self.state:
            return True
        self.refusals.append(f"there is no group {class_name(group)}")
        return False

    def move(self, name: str, where: str) -> None:
        """Move a thread (`TID@STARTTIME`) to another group."""
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
    """Changes that the actions, in their order, would make to a state; writes nothing."""
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
                else f"{class_name(group)} has no {resource}; it has {names}"
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
    # Round as the kernel does, so that the value read back is the one shown.
    rounded = min(-(-value // rule.step) * rule.step, rule.most)
    if rounded != value:
        draft.rounded.append(f"{resource} {domain}={value} becomes {rounded}: steps of {rule.step}")
    return str(rounded)


def _named(value: int) -> str:
    return "unlimited" if value >= UNLIMITED_MBPS else str(value)


def _range(rule: LimitRule) -> str:
    """Range of limits as text."""
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
        # Until it is set, a new group has the root group's masks, not those the kernel chooses.
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
        draft.refusals.append(
            f"group {class_name(group)}{owner} is not nftop's, so nftop does not remove it"
        )
        return
    if draft.state.get(Cell("mode", group)) == EXCLUSIVE:
        # nftop does not set modes, so it could not restore the group.
        draft.refusals.append(f"group {group} is exclusive: make it shareable first")
        return
    others = [
        monitor for monitor in monitors_of(draft.state, group) if not monitor.startswith(OWN_PREFIX)
    ]
    if others:
        # They would be removed with the group, and nftop must not create them again.
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
        draft.refusals.append(f"there is a monitoring group {name} in {class_name(group)} already")
    elif not cpus <= cpus_in(draft.state, group):
        draft.refusals.append(
            f"a monitoring group of {class_name(group)} meters CPUs of {class_name(group)} only"
        )
    else:
        draft.state[cell] = UNBORN
        for cpu in cpus:
            draft.state[Cell("cpu", "", number=cpu)] = group_path(group, name)


def _remove_monitor(draft: _Draft, action: RemoveMonitor) -> None:
    group, name = action.group, action.name
    cell = Cell("monitor", group, name)
    if not draft.knows(group):
        return
    if cell not in draft.state:
        draft.refusals.append(f"there is no monitoring group {name} in {class_name(group)}")
    elif not name.startswith(OWN_PREFIX):
        draft.refusals.append(f"monitoring group {name} is not nftop's, so it does not remove it")
    else:
        del draft.state[cell]
        own = group_path(group, name)
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
