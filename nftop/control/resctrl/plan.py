"""From actions on a state to a proposal: changes, effects, warnings, refusals.

The rules are the kernel's (`Documentation/filesystems/resctrl.rst`), so that what is refused there
is refused here before anything is written, and nftop's own: no class without a way, groups of
others are never removed, and no CPU changes its class unless requested.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from nftop.control.backend import KERNEL_ASSIGNED, Refusals
from nftop.control.rdt_limits import LimitRule, MaskRule, Rules, mask_problem, untouchable
from nftop.control.resctrl.messages import mask_effects, other_effects, warnings, ways_text
from nftop.control.resctrl.operations import (
    DISABLED,
    ENABLED,
    by_cache,
    cpus_in,
    domains_of,
    io_cell,
    io_switch,
    is_mask,
    monitors_of,
    rivals,
    steps,
)
from nftop.control.revert import is_birth
from nftop.control.wording import describe
from nftop.model.change import (
    DIRECTORIES,
    Action,
    Cell,
    Change,
    CreateGroup,
    CreateMonitor,
    MoveCpus,
    MoveTasks,
    Proposal,
    ReasonCode,
    Refusal,
    RemoveGroup,
    RemoveMonitor,
    SetIoWays,
    SetSchemata,
    State,
    difference,
)
from nftop.model.ids import format_cpu_list
from nftop.model.missing import Reason
from nftop.model.rdt.rdt import (
    EXCLUSIVE,
    MB,
    NO_IO_ALLOC,
    OWN_PREFIX,
    PSEUDO_LOCKED,
    ROOT,
    SHAREABLE,
    UNLIMITED_MBPS,
    cache_of_line,
    class_name,
    group_path,
    owner_of,
    split_path,
)
from nftop.model.struct import dataclass, field, replace

# Names of groups that nftop creates; the kernel accepts almost anything.
_NAME = re.compile(re.escape(OWN_PREFIX) + r"[A-Za-z0-9_.-]{1,48}")


def checked_proposal(
    base: State, target: State, changes: Sequence[Change], rules: Rules, commands: tuple[str, ...]
) -> Proposal:
    """Proposal for changes of `base` that lead to `target`."""
    refusals = (
        *forbidden(base, changes),
        *_exclusive(target, rules, changes),
        *_io_refusals(base, target, rules),
    )
    if refusals:
        return Proposal(base, (), refusals=tuple(dict.fromkeys(refusals)), commands=commands)
    shared = tuple(mask_effects(base, target, rules, changes))
    return Proposal(
        base=base,
        changes=tuple(changes),
        effects=(*(messages for _, messages in shared), *other_effects(target, changes)),
        warnings=tuple(warnings(target, rules, changes)),
        commands=commands,
        of_masks=shared,
    )


def forbidden(base: State, changes: Iterable[Change]) -> Iterator[Refusal]:
    """Refusals of changes of groups that nftop must not change."""
    for step in steps(base, changes):
        why = untouchable(base, step.group, step.monitor)
        if why:
            yield why
    for change in changes:
        for where in (change.old, change.new):
            if change.cell.kind in ("cpu", "task") and where is not None:
                why = untouchable(base, *split_path(where))
                if why:
                    yield why


def _exclusive(target: State, rules: Rules, changes: Iterable[Change]) -> Iterator[Refusal]:
    """Conflicts with exclusive groups, whose ways the kernel lets neither others nor I/O share."""

    def mode(cell: Cell) -> str:
        return target.get(Cell("mode", cell.group), SHAREABLE)

    caches = by_cache(target)
    for cell, new in ((change.cell, change.new) for change in changes):
        if not is_mask(cell) or new is None:
            continue
        bits, rule = int(new, 16), rules.masks.get(cell.name)
        if rule is not None and mode(cell) == EXCLUSIVE and bits & rule.shareable:
            name = class_name(cell.group)
            why = f"{name} is exclusive and can't have ways of I/O ({rule.shareable:x})"
            yield Refusal(ReasonCode.GROUP_EXCLUSIVE, why)
        for other in caches[cell.name[:2], cell.number]:
            both = int(target[other], 16) & bits if rivals(cell, other) else 0
            if not both:
                continue
            alone = {mode(cell), mode(other)} & {EXCLUSIVE} or mode(other) == PSEUDO_LOCKED
            if alone:
                own, theirs = class_name(cell.group), class_name(other.group)
                yield Refusal(
                    ReasonCode.GROUP_EXCLUSIVE,
                    f"{cell.name} {cell.number}={new}: {ways_text(both)} can't be shared "
                    f"with {theirs}, which is {mode(other)}"
                    if mode(other) != SHAREABLE
                    else f"{cell.name} {cell.number}={new}: {own} is exclusive, and "
                    f"{theirs} has {ways_text(both)}",
                )


def _io_refusals(base: State, target: State, rules: Rules) -> Iterator[Refusal]:
    """Why the ways of I/O can't be switched on, or be those of `target`."""
    switch, rule = io_switch(target), rules.io_alloc
    if switch is None or rule is None or target[switch] != ENABLED:
        return
    if base.get(switch) != ENABLED:
        classes = 1 + sum(cell.kind == "group" for cell in target)
        if rule.problem:
            yield Refusal(ReasonCode.IO_UNSUPPORTED, rule.problem)
        elif rules.closids is not None and classes >= rules.closids:
            why = f"all {rules.closids} classes of this CPU are in use: I/O needs one of its own"
            yield Refusal(ReasonCode.CLOSIDS_EXHAUSTED, why)
        elif rule.holder is not None and Cell("group", rule.holder) in target:
            why = f"{class_name(rule.holder)} has class {rule.clos}, which I/O needs"
            yield Refusal(ReasonCode.CLOSIDS_EXHAUSTED, why)
    for cell, value in target.items():
        mode = target.get(Cell("mode", cell.group), SHAREABLE)
        if not is_mask(cell) or cache_of_line(cell.name) != "L3" or mode == SHAREABLE:
            continue
        mask = io_cell(switch.name, cell.number)
        both = int(value, 16) & int(target.get(mask, "0"), 16)
        if both and (base.get(cell), base.get(mask)) != (value, target.get(mask)):
            yield Refusal(
                ReasonCode.GROUP_EXCLUSIVE,
                f"{class_name(cell.group)} is {mode} and has {ways_text(both)} of L3 "
                f"{cell.number}, which I/O can't share",
            )


@dataclass(slots=True)
class ActionResult:
    """State after actions, before anything but their own validity is checked.

    Attributes:
        base: the state before. Threads are cells of it only if an action moves them.
        target: the state after; incomplete if there are refusals.
        rounded: messages on values that the kernel would round.
        notes: other messages on what was not asked for.
        refusals: of actions that are not possible.
    """

    rules: Rules
    base: dict[Cell, str]
    target: dict[Cell, str]
    rounded: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    refusals: Refusals = field(default_factory=Refusals)

    def knows(self, group: str) -> bool:
        """Whether a control group exists; adds a refusal if not."""
        if group == ROOT or Cell("group", group) in self.target:
            return True
        known = sorted(class_name(cell.group) for cell in self.target if cell.kind == "group")
        listed = f"; there are: {', '.join(known)}" if known else ""
        self.refusals.add(ReasonCode.GROUP_ABSENT, f"there is no group {class_name(group)}{listed}")
        return False

    def move(self, name: str, where: str) -> None:
        """Move a thread (`TID@STARTTIME`) to another group."""
        cell = Cell("task", "", name)
        self.base.setdefault(cell, self.rules.tasks[name])
        self.target[cell] = where

    def vacate(self, is_inside: Callable[[str], bool], heir: str) -> None:
        """Move the CPUs and threads of groups to be removed to `heir`."""
        for name, where in self.rules.tasks.items():
            if is_inside(self.target.get(Cell("task", "", name), where)):
                self.move(name, heir)
        for cell, where in self.target.items():
            if cell.kind == "cpu" and is_inside(where):
                self.target[cell] = heir


def result_of(state: State, rules: Rules, actions: Sequence[Action]) -> ActionResult:
    """State after the actions, in their order; nothing is written."""
    result = ActionResult(rules, dict(state), dict(state))
    for action in actions:
        if not result.refusals:  # what follows may need what could not be made
            _ACTS[type(action)](result, action)
    for item in filter(is_birth, difference(result.base, result.target)):
        why = f"{describe(item.cell)} can't be removed and made again at once"
        result.refusals.add(ReasonCode.GROUP_RECREATED, why)
    result.refusals = Refusals(dict.fromkeys(result.refusals))
    return result


def propose(
    state: State, rules: Rules, actions: Sequence[Action], commands: tuple[str, ...] = ()
) -> Proposal:
    """Changes that the actions, in their order, would make to a state; writes nothing."""
    result = result_of(state, rules, actions)
    base, rounded, refusals = result.base, tuple(result.rounded), tuple(result.refusals)
    if refusals:
        return Proposal(base, (), rounded, refusals=refusals, commands=commands, rounded=rounded)
    proposal = checked_proposal(
        base, result.target, difference(base, result.target), rules, commands
    )
    effects = (*rounded, *result.notes, *proposal.effects)
    return replace(proposal, effects=effects, rounded=rounded)


def _set(result: ActionResult, action: SetSchemata) -> None:
    group, resource = action.group, action.resource
    if not result.knows(group):
        return
    existing = {cell for cell in result.target if cell.kind == "schemata" and cell.group == group}
    for domain, value in action.values:
        cell = Cell("schemata", group, resource, domain)
        if cell not in existing:
            here = [item.number for item in existing if item.name == resource]
            names = ", ".join(sorted({item.name for item in existing})) or "nothing to set"
            result.refusals.add(
                ReasonCode.RESOURCE_ABSENT,
                f"{resource} has no domain {domain}; it has {format_cpu_list(here)}"
                if here
                else f"{class_name(group)} has no {resource}; it has {names}",
            )
            continue
        rule = _limit if resource == MB else _mask
        text = rule(result, resource, value, domain)
        if text is not None:
            result.target[cell] = text


def _mask(result: ActionResult, resource: str, bits: int, domain: int) -> str | None:
    rule, where = result.rules.masks.get(resource), f"{resource} {domain}={bits:x}"
    if rule is None:
        why = f"{where}: the kernel does not report the ways of {resource}"
        result.refusals.add(ReasonCode.RESOURCE_UNREPORTED, why)
    elif problem := mask_problem(rule, bits):
        result.refusals.add(ReasonCode.MASK_INVALID, f"{where}: {problem}")
    else:
        return f"{bits:x}"
    return None


def _limit(result: ActionResult, resource: str, value: int, domain: int) -> str | None:
    rule = result.rules.limit
    if rule is None:
        why = "this host has no limits on memory bandwidth (MB)"
        result.refusals.add(ReasonCode.RESOURCE_ABSENT, why)
        return None
    if not rule.least <= value <= rule.most:
        shown = "unlimited" if value >= UNLIMITED_MBPS else value
        result.refusals.add(
            ReasonCode.LIMIT_INVALID, f"{resource} {domain}={shown}: {_range(rule)}"
        )
        return None
    # Round as the kernel does, so that the value read back is the one shown.
    rounded = min(-(-value // rule.step) * rule.step, rule.most)
    if rounded != value:
        result.rounded.append(
            f"{resource} {domain}={value} becomes {rounded}: steps of {rule.step}"
        )
    return str(rounded)


def _range(rule: LimitRule) -> str:
    if rule.unit == "MBps":
        return f"{rule.least} MB/s at least here, or unlimited"
    unit = "%" if rule.unit == "percent" else "eighths of a GB/s"
    return f"between {rule.least} and {rule.most} {unit} here; {rule.most} is no limit"


def _move(result: ActionResult, action: MoveCpus) -> None:
    cells = [Cell("cpu", "", number=cpu) for cpu in action.cpus]
    unknown = [cell.number for cell in cells if cell not in result.target]
    if not result.knows(action.group):
        return
    if unknown:
        why = f"CPU {format_cpu_list(unknown)} is not there, or offline"
        result.refusals.add(ReasonCode.CPU_ABSENT, why)
        return
    for cell in cells:
        if split_path(result.target[cell])[0] != action.group:
            result.target[cell] = action.group


def _move_tasks(result: ActionResult, action: MoveTasks) -> None:
    if not result.knows(action.group):
        return
    names = {name.partition("@")[0]: name for name in result.rules.tasks}
    for tid in action.tids:
        name = names.get(str(tid))
        if name is None:
            result.refusals.add(ReasonCode.THREAD_ABSENT, f"there is no thread {tid}")
            continue
        now = result.target.get(Cell("task", "", name), result.rules.tasks[name])
        result.move(name, now if split_path(now)[0] == action.group else action.group)


def _create(result: ActionResult, action: CreateGroup) -> None:
    group = action.group
    classes = 1 + sum(cell.kind == "group" for cell in result.target)
    classes += ENABLED in (v for cell, v in result.target.items() if cell.kind == "io_alloc")
    if not _NAME.fullmatch(group):
        why = f"nftop's own groups are called {OWN_PREFIX}NAME, with letters, digits, . _ - in NAME"
        result.refusals.add(ReasonCode.GROUP_NAME, why)
    elif Cell("group", group) in result.target:
        result.refusals.add(ReasonCode.GROUP_EXISTS, f"there is a group {group} already")
    elif result.rules.closids is not None and classes >= result.rules.closids:
        why = f"all {result.rules.closids} classes of this CPU are in use"
        result.refusals.add(ReasonCode.CLOSIDS_EXHAUSTED, why)
    else:
        result.target[Cell("group", group)] = KERNEL_ASSIGNED
        result.target[Cell("mode", group)] = SHAREABLE
        # Until it is set, a new group has the root group's masks, not those the kernel chooses.
        result.target |= {
            cell._replace(group=group): value
            for cell, value in result.target.items()
            if cell.kind == "schemata" and cell.group == ROOT
        }


def _remove(result: ActionResult, action: RemoveGroup) -> None:
    group = action.group
    if not result.knows(group):
        return
    if group == ROOT or not group.startswith(OWN_PREFIX):
        by_name = owner_of(group)
        owner = f" ({by_name}'s by its name)" if by_name else ""
        why = f"group {class_name(group)}{owner} is not nftop's, so nftop does not remove it"
        result.refusals.add(ReasonCode.GROUP_FOREIGN, why)
        return
    if result.target.get(Cell("mode", group)) == EXCLUSIVE:
        # nftop does not set modes, so it could not restore the group.
        why = f"group {group} is exclusive: make it shareable first"
        result.refusals.add(ReasonCode.GROUP_EXCLUSIVE, why)
        return
    # They would be removed with the group, and nftop must not create them again.
    foreign = [
        name for name in monitors_of(result.target, group) if not name.startswith(OWN_PREFIX)
    ]
    for name in sorted(foreign):
        why = (
            f"{describe(Cell('monitor', group, name))} is not nftop's, and would go with its group"
        )
        result.refusals.add(ReasonCode.GROUP_FOREIGN, why)
    if foreign:
        return
    result.vacate(lambda where: split_path(where)[0] == group, ROOT)
    for cell in [cell for cell in result.target if cell.group == group]:
        del result.target[cell]


def rmids_in_use(state: State) -> int:
    """Monitors (RMIDs) that groups have: one each, the root group's among them."""
    return 1 + sum(cell.kind in DIRECTORIES for cell in state)


def _create_monitor(result: ActionResult, action: CreateMonitor) -> None:
    group, name, cpus = action.group, action.name, frozenset(action.cpus)
    cell, rmids = Cell("monitor", group, name), result.rules.rmids
    if not result.knows(group):
        return
    if not _NAME.fullmatch(name):
        why = f"nftop's own monitoring groups are called {OWN_PREFIX}NAME"
        result.refusals.add(ReasonCode.GROUP_NAME, why)
    elif cell in result.target:
        why = f"there is a monitoring group {name} in {class_name(group)} already"
        result.refusals.add(ReasonCode.GROUP_EXISTS, why)
    elif not cpus <= cpus_in(result.target, group):
        why = f"a monitoring group of {class_name(group)} meters CPUs of {class_name(group)} only"
        result.refusals.add(ReasonCode.MONITOR_SCOPE, why)
    elif rmids is not None and rmids_in_use(result.target) >= rmids:
        why = f"{Reason.TAKEN.name.lower()}: all {rmids} monitors (RMIDs) of this CPU are in use"
        result.refusals.add(ReasonCode.RMIDS_EXHAUSTED, why)
    else:
        names = _threads_to_meter(result, action)
        if result.refusals:
            return
        result.target[cell] = KERNEL_ASSIGNED
        for cpu in cpus:
            result.target[Cell("cpu", "", number=cpu)] = group_path(group, name)
        for task in names:
            result.move(task, group_path(group, name))


def _threads_to_meter(result: ActionResult, action: CreateMonitor) -> list[str]:
    """Its threads as `TID@STARTTIME`; with a refusal none, if one is not in the control group."""
    names = {name.partition("@")[0]: name for name in result.rules.tasks}
    gone = [tid for tid in action.tids if str(tid) not in names]
    wanted = [names[str(tid)] for tid in action.tids if str(tid) in names]
    for tid in gone:
        result.refusals.add(ReasonCode.THREAD_ABSENT, f"there is no thread {tid}")
    for name in wanted:
        now = result.target.get(Cell("task", "", name), result.rules.tasks[name])
        group, monitor = split_path(now)
        if group != action.group:
            result.refusals.add(
                ReasonCode.MONITOR_SCOPE,
                f"thread {name.partition('@')[0]} is in {class_name(group)}: a monitoring "
                f"group of {class_name(action.group)} meters its threads only",
            )
        elif monitor and not monitor.startswith(OWN_PREFIX):
            result.refusals.add(
                ReasonCode.GROUP_FOREIGN,
                f"thread {name.partition('@')[0]} is in monitoring group "
                f"{class_name(group, monitor)}, which is not nftop's",
            )
    return [] if result.refusals else wanted


def _remove_monitor(result: ActionResult, action: RemoveMonitor) -> None:
    group, name = action.group, action.name
    cell = Cell("monitor", group, name)
    if not result.knows(group):
        return
    if cell not in result.target:
        why = f"there is no monitoring group {name} in {class_name(group)}"
        result.refusals.add(ReasonCode.GROUP_ABSENT, why)
    elif not name.startswith(OWN_PREFIX):
        why = f"monitoring group {name} is not nftop's, so it does not remove it"
        result.refusals.add(ReasonCode.GROUP_FOREIGN, why)
    else:
        del result.target[cell]
        own = group_path(group, name)
        result.vacate(lambda where: where == own, group)


def _set_io(result: ActionResult, action: SetIoWays) -> None:
    switch, rule, target = io_switch(result.target), result.rules.io_alloc, result.target
    if switch is None or rule is None:
        result.refusals.add(ReasonCode.IO_UNSUPPORTED, NO_IO_ALLOC.message)
        return
    if action.enabled is False:
        target[switch] = DISABLED
        for cell in [cell for cell in target if cell.kind == "io_cbm"]:
            del target[cell]
    elif target[switch] == ENABLED or _switch_io_on(result, switch, action):
        _set_io_masks(result, switch, action)


def _switch_io_on(result: ActionResult, switch: Cell, action: SetIoWays) -> bool:
    """Switch the ways of I/O on, with the ways that the kernel gives; False with a refusal."""
    rule = result.rules.masks.get(switch.name)
    if rule is None:
        why = f"the kernel does not report the ways of {switch.name}"
        result.refusals.add(ReasonCode.RESOURCE_UNREPORTED, why)
    elif action.enabled is None:
        why = "the ways of I/O are not set: io_alloc is disabled (cat io enable)"
        result.refusals.add(ReasonCode.IO_DISABLED, why)
    else:
        result.target[switch] = ENABLED
        named = {domain for domain, _ in action.values}
        for l3 in domains_of(result.target, switch.name):
            free = _not_exclusive(result.target, switch.name, l3, rule)
            now, source = result.rules.io.get(l3, (0, ""))
            kept = bool(named) and not mask_problem(rule, now) and not now & ~free
            bits = now if kept else _one_mask(free, rule)
            result.target[io_cell(switch.name, l3)] = f"{bits:x}"
            if named and l3 not in named:
                why = f"the ways of now ({source})" if kept else "every way that is not exclusive"
                result.notes.append(
                    f"one switch for all caches: L3 {l3} was not named and gets {bits:x}, {why}"
                )
    return not result.refusals


def _not_exclusive(target: State, line: str, l3: int, rule: MaskRule) -> int:
    """Ways that no exclusive group has."""
    bits = (1 << rule.ways) - 1
    for cell, value in target.items():
        same = (cache_of_line(cell.name), cell.number) == (cache_of_line(line), l3)
        owned = cell.kind == "schemata" and same
        if owned and target.get(Cell("mode", cell.group)) in (EXCLUSIVE, PSEUDO_LOCKED):
            bits &= ~int(value, 16)
    return bits


def _one_mask(bits: int, rule: MaskRule) -> int:
    """These ways; of several runs the lowest if masks may have no gaps."""
    if rule.sparse or not bits:
        return bits
    lowest = bits & -bits
    return bits & ~(bits + lowest)


def _set_io_masks(result: ActionResult, switch: Cell, action: SetIoWays) -> None:
    for domain, bits in action.values:
        cell = io_cell(switch.name, domain)
        if cell not in result.target:
            why = f"there is no L3 {domain} whose ways of I/O can be set"
            result.refusals.add(ReasonCode.RESOURCE_ABSENT, why)
            continue
        text = _mask(result, switch.name, bits, domain)
        if text is not None:
            result.target[cell] = text


_ACTS: Mapping[type[Action], Callable[[ActionResult, Any], None]] = {
    SetSchemata: _set,
    MoveCpus: _move,
    MoveTasks: _move_tasks,
    CreateGroup: _create,
    RemoveGroup: _remove,
    CreateMonitor: _create_monitor,
    RemoveMonitor: _remove_monitor,
    SetIoWays: _set_io,
}
