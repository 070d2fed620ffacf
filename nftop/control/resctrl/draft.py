"""A draft of every class, edited step by step, never written.

Every step is checked by `plan.propose` for the whole draft and dropped if refused, so a draft can
always be applied. A step returns the draft after it, and a message if it did nothing or something
else than requested.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

from nftop.control.backend import goal
from nftop.control.rdt_limits import MaskRule, Rules
from nftop.control.resctrl.operations import ENABLED
from nftop.control.resctrl.plan import propose, result_of
from nftop.derive.cache.changes import schemata_cells
from nftop.model.change import (
    IO_GROUP,
    Cell,
    Change,
    ClassAction,
    CreateGroup,
    GroupAction,
    MoveCpus,
    Proposal,
    RemoveGroup,
    SetIoWays,
    SetSchemata,
    State,
    difference,
    mask_cell,
)
from nftop.model.frame import Frame, GroupRow
from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.missing import Reason
from nftop.model.rdt.rdt import MB, OWN_PREFIX, ROOT, UNLIMITED_MBPS, class_name, split_path
from nftop.model.struct import dataclass, replace

# Domains that get the same mask: that of the first.
LinkedDomains: TypeAlias = Sequence[int]
_COMPARED = ("schemata", "cpu")
# Actions that a draft can contain: all others would be lost when it is derived from its states.
_ACTIONS = (SetSchemata, MoveCpus, CreateGroup, RemoveGroup, SetIoWays)


@dataclass(frozen=True, slots=True)
class Draft:
    """Requested changes of classes, not yet written.

    Attributes:
        base: the state it starts from.
        rules: of that host.
        program: first words of its command lines.
        target: the state it leads to; for a new group the values it is created with.
        plan: its proposal, which is never refused.
    """

    base: State
    rules: Rules
    program: str
    target: State
    plan: Proposal

    @property
    def changed(self) -> bool:
        return bool(self.plan.changes)


DraftStep: TypeAlias = tuple[Draft, str]


def begin(base: State, rules: Rules, program: str) -> Draft:
    """A draft without changes; `program`: first words of command lines for its host."""
    return Draft(base, rules, program, MappingProxyType(dict(base)), Proposal(base, ()))


def ask(draft: Draft, more: Sequence[ClassAction]) -> DraftStep:
    """Add all of these actions, or none; threads and monitoring groups are no part of a draft."""
    if not all(isinstance(action, _ACTIONS) for action in more):
        return draft, "a draft has no threads and no monitoring groups: `nftop cat` does"
    result = result_of(draft.base, draft.rules, (*actions(draft), *more))
    if result.refusals:
        return draft, result.refusals[0].sentence
    wanted = _actions(draft.base, result.target)
    plan = propose(draft.base, draft.rules, wanted, commands(wanted, draft.program))
    if plan.refusals:
        return draft, plan.refusals[0].sentence
    after = replace(draft, target=MappingProxyType(goal(draft.base, plan.changes)), plan=plan)
    return after, result.rounded[0] if result.rounded else ""


def actions(draft: Draft) -> tuple[ClassAction, ...]:
    """Actions from the base to the draft, without duplicates or actions without effect."""
    return _actions(draft.base, draft.target)


def drift(draft: Draft, now: State) -> tuple[Change, ...]:
    """Changes by others since the draft began."""
    seen = {cell: value for cell, value in now.items() if cell.kind != "task"}
    return difference({c: v for c, v in draft.base.items() if c.kind != "task"}, seen)


def mask(draft: Draft, group: str, line: str, domain: int) -> int | None:
    """Mask of a class, or None if it has no such line."""
    value = draft.target.get(mask_cell(group, line, domain))
    return None if value is None else int(value, 16)


def toggle(draft: Draft, group: str, line: str, domains: LinkedDomains, way: int) -> DraftStep:
    """Add or remove a way. Without gaps an edge of the mask moves to it or past it."""

    def changed(bits: int, rule: MaskRule) -> int | str:
        if rule.sparse:
            return bits ^ 1 << way
        low, high = _edges(bits)
        if not bits >> way & 1:
            return _span(min(low, way), max(high, way))
        if way - low == high - way and low != high:
            return f"way {way} is in the middle, and this CPU takes no gaps: take ways at an edge"
        kept = _span(low, way - 1) if high - way < way - low else _span(way + 1, high)
        return kept or "a class has a way at least"

    return _masked(draft, group, line, domains, changed)


def shift(draft: Draft, group: str, line: str, domains: LinkedDomains, by: int) -> DraftStep:
    """Move a mask by so many ways; positive is up."""

    def changed(bits: int, rule: MaskRule) -> int | str:
        low, high = _edges(bits)
        if low + by < 0 or high + by >= rule.ways:
            return "the mask is at the end of the cache"
        return bits << by if by > 0 else bits >> -by

    return _masked(draft, group, line, domains, changed)


def grow(draft: Draft, group: str, line: str, domains: LinkedDomains, way: int) -> DraftStep:
    """Add a way at the edge nearer to `way`, or at the other if the cache ends there."""

    def changed(bits: int, rule: MaskRule) -> int | str:
        low, high = _edges(bits)
        up = way - low >= high - way
        if (high == rule.ways - 1) if up else (low == 0):
            up = not up
        if (high == rule.ways - 1) if up else (low == 0):
            return "the mask reaches from end to end of the cache"
        return bits | 1 << (high + 1 if up else low - 1)

    return _masked(draft, group, line, domains, changed)


def shrink(draft: Draft, group: str, line: str, domains: LinkedDomains, way: int) -> DraftStep:
    """Remove a way at the edge nearer to `way`."""

    def changed(bits: int, _rule: MaskRule) -> int | str:
        low, high = _edges(bits)
        left = bits & ~(1 << (high if way - low >= high - way else low))
        return left or "a class has a way at least"

    return _masked(draft, group, line, domains, changed)


def copy_first(draft: Draft, group: str, line: str, domains: LinkedDomains) -> DraftStep:
    """Copy the mask of the first domain to the others."""
    return _masked(draft, group, line, domains, lambda bits, _rule: bits)


def limit(draft: Draft, group: str, domains: LinkedDomains, value: int) -> DraftStep:
    """Limit a class's memory bandwidth in the host's unit; skips domains without a limit."""
    if draft.rules.limit is None:
        return draft, "this host has no limits on memory bandwidth (MB)"
    existing = [domain for domain in domains if Cell("schemata", group, MB, domain) in draft.target]
    if not existing:
        return draft, "there is no limit on memory bandwidth to set here"
    return ask(draft, [SetSchemata(group, MB, tuple((item, value) for item in existing))])


def step_limit(draft: Draft, group: str, domains: LinkedDomains, by: int) -> DraftStep:
    """Change the limit of the first domain by so many steps, and copy it to the others."""
    rule = draft.rules.limit
    if rule is None:
        return draft, "this host has no limits on memory bandwidth (MB)"
    now = draft.target.get(Cell("schemata", group, MB, domains[0]))
    if now is None:
        return draft, "there is no limit on memory bandwidth to set here"
    if rule.unit == "MBps" and int(now) >= UNLIMITED_MBPS:
        return draft, "there is no limit yet, and steps from nothing lead nowhere: b sets one"
    value = max(rule.least, min(int(now) + by * rule.step, rule.most))
    if value == int(now):
        return draft, f"limits are between {rule.least} and {rule.most} here"
    return limit(draft, group, domains, value)


def move(draft: Draft, group: str, cpus: Sequence[Cpu]) -> DraftStep:
    return ask(draft, [MoveCpus(tuple(cpus), group)]) if cpus else (draft, "no CPU was named")


def create(draft: Draft, name: str) -> DraftStep:
    """Create a class with the root group's masks; nftop's prefix may be omitted."""
    full = name if name.startswith(OWN_PREFIX) else f"{OWN_PREFIX}{name}"
    return ask(draft, [CreateGroup(full)])


def remove(draft: Draft, group: str) -> DraftStep:
    """Remove one of nftop's own classes; its CPUs fall to the root group.

    A class that only the draft has is dropped, and its CPUs stay in their groups.
    """
    if Cell("group", group) in draft.target and Cell("group", group) not in draft.base:
        kept = [
            action
            for action in actions(draft)
            if isinstance(action, SetIoWays) or action.group != group
        ]
        return ask(begin(draft.base, draft.rules, draft.program), kept)
    return ask(draft, [RemoveGroup(group)])


def reset(draft: Draft) -> DraftStep:
    message = "" if draft.changed else "there is nothing to take back"
    return begin(draft.base, draft.rules, draft.program), message


def commands(wanted: Sequence[ClassAction], program: str) -> tuple[str, ...]:
    """Equivalent command lines, one per changed class."""
    words: dict[tuple[str, str], list[str]] = {}
    created = {entry.group for entry in wanted if isinstance(entry, CreateGroup)}
    for item in wanted:
        if isinstance(item, SetIoWays):
            words["io", IO_GROUP] = ["cat", "io", *_io_words(item)]
            continue
        verb, options = _worded(item)
        if not verb:
            continue
        group = item.group
        key = ("create" if group in created else verb, group)
        words.setdefault(key, ["cat", key[0], "--group", class_name(group)]).extend(options)
    return tuple(f"{program} {shlex.join(word)}" for word in words.values())


def _io_words(action: SetIoWays) -> list[str]:
    verb = {True: "enable", False: "disable", None: "set"}[action.enabled]
    masks = [f"{domain}={bits:x}" for domain, bits in action.values]
    return [verb, *(word for item in masks for word in ("--l3", item))]


def _worded(action: GroupAction) -> tuple[str, list[str]]:
    if isinstance(action, SetSchemata):
        option, base = (
            ("--mba", "d") if action.resource == MB else (f"--{action.resource.lower()}", "x")
        )
        pairs = [f"{domain}={value_text(value, base)}" for domain, value in action.values]
        return "set", [word for pair in pairs for word in (option, pair)]
    if isinstance(action, MoveCpus):
        return "move", ["--cpus", format_cpu_list(action.cpus)]
    return {CreateGroup: "create", RemoveGroup: "remove"}.get(type(action), ""), []


def value_text(value: int, base: str) -> str:
    """A mask (`base` x) or a limit (d) in the syntax of the command line."""
    return "unlimited" if base == "d" and value >= UNLIMITED_MBPS else format(value, base)


def _masked(
    draft: Draft,
    group: str,
    line: str,
    domains: LinkedDomains,
    changed: Callable[[int, MaskRule], int | str],
) -> DraftStep:
    """Change the mask of the first domain, and copy it to the others."""
    bits, rule = mask(draft, group, line, domains[0]), draft.rules.masks.get(line)
    if bits is None or rule is None:
        return draft, f"{class_name(group)} has no {line} {domains[0]} to set"
    new = changed(bits, rule)
    if isinstance(new, str):
        return draft, new
    existing = [domain for domain in domains if mask(draft, group, line, domain) is not None]
    values = tuple((item, new) for item in existing)
    of_io = group == IO_GROUP
    return ask(draft, [SetIoWays(values=values) if of_io else SetSchemata(group, line, values)])


def _edges(bits: int) -> tuple[int, int]:
    return (bits & -bits).bit_length() - 1, bits.bit_length() - 1


def _span(low: int, high: int) -> int:
    return (1 << high + 1) - (1 << low) if low <= high else 0


def _actions(base: State, target: State) -> tuple[ClassAction, ...]:
    """Actions from one state to the other: create classes, set masks, move CPUs, remove classes."""
    created = [cell.group for cell in target if cell.kind == "group" and cell not in base]
    gone = [cell.group for cell in base if cell.kind == "group" and cell not in target]
    values: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
    io = [
        (cell.number, int(value, 16))
        for cell, value in sorted(target.items())
        if cell.kind == "io_cbm" and base.get(cell) != value
    ]
    moved: dict[str, list[Cpu]] = defaultdict(list)
    for cell, value in sorted(target.items()):
        if cell.kind == "schemata":
            # A new group starts with the root group's values.
            born = cell._replace(group=ROOT) if cell.group in created else cell
            if base.get(born) != value:
                number = int(value) if cell.name == MB else int(value, 16)
                values[cell.group, cell.name].append((cell.number, number))
        elif cell.kind == "cpu":
            old, new = split_path(base[cell])[0], split_path(value)[0]
            if old != new and not (old in gone and new == ROOT):
                moved[new].append(Cpu(cell.number))
    return (
        *(CreateGroup(group) for group in sorted(created)),
        *(SetSchemata(group, line, tuple(item)) for (group, line), item in values.items()),
        *(MoveCpus(tuple(cpus), group) for group, cpus in moved.items()),
        *(RemoveGroup(group) for group in sorted(gone)),
        *_io_actions(base, target, tuple(io)),
    )


def _io_actions(
    base: State, target: State, masks: tuple[tuple[int, int], ...]
) -> tuple[SetIoWays, ...]:
    """The action that sets `masks`, and switches the ways of I/O as the target has them."""
    switched = [
        value == ENABLED
        for cell, value in target.items()
        if cell.kind == "io_alloc" and base.get(cell) != value
    ]
    if not masks and not switched:
        return ()
    return (SetIoWays(switched[0] if switched else None, masks),)


def rebased(draft: Draft, base: State, rules: Rules, more: Sequence[ClassAction] = ()) -> DraftStep:
    """The draft on a newer state, with `more`; actions that do not fit are reported."""
    fresh = begin(base, rules, draft.program)
    exist = {cell.group for cell in base if cell.kind == "group"}
    wanted = [
        action
        for action in (*actions(draft), *more)
        if not (isinstance(action, CreateGroup) and action.group in exist)
        and not (isinstance(action, RemoveGroup) and action.group not in exist)
    ]
    after, message = ask(fresh, wanted)
    if after is not fresh:
        return after, message
    after, left = _as_many(fresh, wanted)
    # Parts of an action may fit.
    after, left = _as_many(after, [single for item, _ in left for single in _single_values(item)])
    message = ", ".join(f"{_named(item)} ({why})" for item, why in left)
    return after, f"left out of the draft: {message}"


def _as_many(
    draft: Draft, wishes: Sequence[ClassAction]
) -> tuple[Draft, list[tuple[ClassAction, str]]]:
    left = [(item, "") for item in wishes]
    fits = True
    while fits:  # one may make room for another
        fits, tried, left = False, left, []
        for wish, _ in tried:
            after, why = ask(draft, [wish])
            if after is draft:
                left.append((wish, why))
            else:
                draft, fits = after, True
    return draft, left


def _single_values(wish: ClassAction) -> list[ClassAction]:
    if isinstance(wish, SetIoWays) and wish.enabled is None:
        return [replace(wish, values=(value,)) for value in wish.values]
    if isinstance(wish, SetSchemata):
        return [replace(wish, values=(value,)) for value in wish.values]
    if isinstance(wish, MoveCpus):
        return [replace(wish, cpus=(cpu,)) for cpu in wish.cpus]
    return [wish]


def _named(wish: ClassAction) -> str:
    if isinstance(wish, SetIoWays):
        return f"cat io {' '.join(_io_words(wish))}"
    if isinstance(wish, SetSchemata):
        base = "d" if wish.resource == MB else "x"
        values = " ".join(f"{domain}={value_text(value, base)}" for domain, value in wish.values)
        return f"{class_name(wish.group)} {wish.resource} {values}"
    if isinstance(wish, MoveCpus):
        return f"CPU {format_cpu_list(wish.cpus)} into {class_name(wish.group)}"
    return f"{'making' if isinstance(wish, CreateGroup) else 'removing'} {wish.group}"


def frame_state(frame: Frame) -> State:
    """Cells of a frame's classes; the value of a group is "": a frame has no directory numbers."""
    return dict(row for group in frame.groups for row in _cells(group))


def drifted(base: State, frame: Frame) -> tuple[Change, ...]:
    """Differences of a frame's classes (new) from `base` (old); none if the frame lacks classes."""
    seen = frame_state(frame)
    if not seen:
        return ()
    known = _comparable(base)
    cells = [cell for cell in seen if cell.kind == "group" or cell in known]
    cells += [cell for cell in known if cell.kind == "group" and cell not in seen]
    return tuple(
        Change(cell, known.get(cell), seen.get(cell))
        for cell in sorted(set(cells))
        if known.get(cell) != seen.get(cell)
    )


def read_since_ns(frame: Frame) -> int | None:
    """CLOCK_MONOTONIC when reading of a frame's classes began; None if they were not read."""
    # As `classes_reading` of derive.cache.table chooses: MSRs only where there can be no resctrl.
    for name in ("resctrl", "pqos"):
        source = frame.sources.get(name)
        if source is not None and source.reason is Reason.PRESENT and source.age_s is not None:
            age_s = max(source.age_s + (source.took_s or 0.0) / 2, source.late_s)
            return frame.monotonic_ns - round(age_s * 1e9)
    return None


def _comparable(base: State) -> Mapping[Cell, str]:
    """A state reduced to what a frame has: no monitoring groups, threads, numbers or modes."""
    cells: dict[Cell, str] = {}
    for cell, value in base.items():
        if cell.kind == "group":
            cells[cell] = ""
        elif cell.kind in _COMPARED:
            cells[cell] = split_path(value)[0] if cell.kind == "cpu" else value
    return cells


def _cells(group: GroupRow) -> Iterator[tuple[Cell, str]]:
    if group.name != ROOT:
        yield Cell("group", group.name), ""
    for cpu in group.cpus:
        yield Cell("cpu", "", number=cpu), group.name
    yield from schemata_cells(group)
