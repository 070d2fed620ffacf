"""A profile on a host: its actions and what does not fit; and a host as a profile."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import TypeVar

from nftop.control.profile.pqos_config import NAMED, PQOS_GROUP
from nftop.control.profile.profile import (
    NOWHERE,
    CdpType,
    ClassId,
    CpusStatement,
    Edit,
    ExportedProfile,
    LimitStatement,
    Listing,
    MaskStatement,
    ProfileProblem,
    Statement,
    TasksStatement,
    TextSpan,
)
from nftop.control.rdt_limits import MaskRule, Rules, mask_problem
from nftop.control.resctrl.operations import cpus_in
from nftop.model.change import (
    Cell,
    CreateGroup,
    GroupAction,
    MoveCpus,
    MoveTasks,
    SetSchemata,
    State,
)
from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.number_text import counted
from nftop.model.rdt.rdt import (
    EXCLUSIVE,
    LOCKED,
    MB,
    OWN_PREFIX,
    ROOT,
    MbaUnit,
    class_name,
    split_path,
)
from nftop.model.struct import dataclass, field

_T = TypeVar("_T")
_COMPONENTS: tuple[CdpType, ...] = ("", "CODE", "DATA")


@dataclass(frozen=True, slots=True)
class Fitted:
    """A profile adapted to a host.

    Attributes:
        actions: in the order in which they can be planned; empty after a fatal problem.
        problems: those of the listing and those of this host, in the order of their lines.
    """

    actions: tuple[GroupAction, ...]
    problems: tuple[ProfileProblem, ...]


@dataclass(slots=True)
class _Fitting:
    state: State
    rules: Rules
    numbers: Mapping[str, int]
    groups: dict[ClassId, str] = field(default_factory=dict)
    values: dict[tuple[str, str], dict[int, int]] = field(default_factory=dict)
    cpus: dict[Cpu, str] = field(default_factory=dict)
    tids: dict[int, str] = field(default_factory=dict)
    problems: list[ProfileProblem] = field(default_factory=list)

    def wrong(self, span: TextSpan, text: str, *edits: Edit, fatal: bool = True) -> None:
        # An unknown position can't be edited.
        known = tuple(edit for edit in edits if edit.span is None or edit.span.line)
        self.problems.append(ProfileProblem(span.line, text, known, fatal))


def fit(
    listing: Listing, state: State, rules: Rules, numbers: Mapping[str, int] = MappingProxyType({})
) -> Fitted:
    """Actions of a profile on a host with this state and these rules; nothing is written.

    `numbers`: the hardware's class by group, as far as known, for messages.
    """
    fitting = _Fitting(state, rules, numbers)
    _name_groups(fitting, listing)
    for statement in listing.statements:
        group = fitting.groups[statement.class_id]
        match statement:
            case MaskStatement():
                _mask(fitting, statement, group)
            case LimitStatement():
                _limit(fitting, statement, group)
            case CpusStatement():
                _cpus(fitting, statement, group)
            case TasksStatement(tids=tids):
                fitting.tids |= dict.fromkeys(tids, group)
    if not listing.statements and not any(item.fatal for item in listing.problems):
        fitting.wrong(NOWHERE, "it asks for nothing: no mask, limit, CPU or thread of any class")
    problems = sorted((*listing.problems, *fitting.problems), key=lambda problem: problem.line)
    is_fatal = any(problem.fatal for problem in problems)
    return Fitted(() if is_fatal else tuple(_actions(fitting)), tuple(problems))


def _name_groups(fitting: _Fitting, listing: Listing) -> None:
    """Set the group of every class in the profile.

    An impossible one is set too, so that its statements are checked.
    """
    existing = {ROOT, *(cell.group for cell in fitting.state if cell.kind == "group")}
    first: dict[ClassId, TextSpan] = {}
    for statement in listing.statements:
        first.setdefault(statement.class_id, statement.span)
    for class_id, span in first.items():
        named = listing.groups.get(class_id) if isinstance(class_id, int) else class_id
        group = named or (ROOT if class_id == 0 else PQOS_GROUP.format(class_id))
        fitting.groups[class_id] = group
        if group in existing or group.startswith(OWN_PREFIX):
            continue
        of_number = next(
            (
                name
                for name, number in fitting.numbers.items()
                if PQOS_GROUP.format(number) == group
            ),
            "",
        )
        is_now = f"; {group} of the hardware is group {class_name(of_number)}" * bool(of_number)
        if named:
            text = f"there is no group {group}, and nftop makes {OWN_PREFIX}NAME only{is_now}"
            where = listing.names.get(group) if of_number in existing else None
            fitting.wrong(span, text, *([Edit(where, json.dumps(of_number))] if where else []))
        elif of_number in existing:
            edit = Edit(None, NAMED.format(class_id, of_number))
            fitting.wrong(span, f"class {class_id} has no group called {group}{is_now}", edit)
        else:
            own = f"{OWN_PREFIX}cos{class_id}"
            edit = Edit(None, NAMED.format(class_id, own))
            text = f"class {class_id} has no group here ({group}); nftop can make {own} for it"
            fitting.wrong(span, text + is_now, edit)


def _mask(fitting: _Fitting, mask: MaskStatement, group: str) -> None:
    masks = fitting.rules.masks
    divided = f"{mask.resource}CODE" in masks
    if mask.cdp and not divided:
        fitting.wrong(mask.span, f"{mask.resource} has no masks for code and data (CDP is off)")
        return
    types = (mask.cdp,) if mask.cdp else ("CODE", "DATA") if divided else ("",)
    for cdp in types:
        line = f"{mask.resource}{cdp}"
        rule = masks.get(line)
        if rule is None:
            fitting.wrong(mask.span, f"this host has no {line} to allocate")
            return
        _values(fitting, mask, group, line, mask.bits)
    _judge(fitting, mask, masks[f"{mask.resource}{types[0]}"])


def _judge(fitting: _Fitting, mask: MaskStatement, rule: MaskRule) -> None:
    bits, kept = mask.bits, mask.bits & ((1 << rule.ways) - 1)
    problem = mask_problem(rule, bits)
    if not problem:
        return
    fits = kept != bits and not mask_problem(rule, kept)
    hint = f"; {kept:#x} is what is left" * fits
    edits = [Edit(mask.span, f"{kept:#x}")] * fits
    fitting.wrong(mask.span, f"mask {bits:#x}: {problem}{hint}", *edits)


def _limit(fitting: _Fitting, limit: LimitStatement, group: str) -> None:
    rule = fitting.rules.limit
    if rule is None:
        fitting.wrong(limit.span, "this host has no limits on memory bandwidth (MB)")
    elif rule.unit != limit.unit:
        text = f"a limit in {limit.unit}, but this host has them in {rule.unit}"
        fitting.wrong(limit.span, text)
    elif not rule.least <= limit.value <= rule.most:
        text = f"limit {limit.value}: between {rule.least} and {rule.most} here"
        fitting.wrong(limit.span, text)
    else:
        _values(fitting, limit, group, MB, limit.value)


def _values(
    fitting: _Fitting, statement: MaskStatement | LimitStatement, group: str, line: str, value: int
) -> None:
    """Record the value for its domains; one that this host lacks is a problem."""
    # The root group's: a new group has the same.
    known = sorted(
        cell.number
        for cell in fitting.state
        if cell.kind == "schemata" and cell.group == ROOT and cell.name == line
    )
    wanted = known if statement.domains is None else statement.domains
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        text = f"{line} has no domain {format_cpu_list(unknown)}; it has {format_cpu_list(known)}"
        fitting.wrong(statement.span, text)
    values = dict.fromkeys((item for item in wanted if item in known), value)
    fitting.values.setdefault((group, line), {}).update(values)


def _cpus(fitting: _Fitting, statement: CpusStatement, group: str) -> None:
    gone = [cpu for cpu in statement.cpus if Cell("cpu", "", number=cpu) not in fitting.state]
    if gone:
        left = sorted(set(statement.cpus) - set(gone))
        text = f"CPU {format_cpu_list(gone)} is not there, or offline"
        edits = [Edit(statement.span, format_cpu_list(left))] if left else []
        fitting.wrong(statement.span, text + "; it can be left out" * bool(left), *edits)
    twice = [cpu for cpu in statement.cpus if fitting.cpus.get(cpu, group) != group]
    if twice:
        text = f"CPU {format_cpu_list(twice)} is in two classes; the later one holds"
        fitting.wrong(statement.span, text, fatal=False)
    fitting.cpus |= dict.fromkeys(statement.cpus, group)


def _actions(fitting: _Fitting) -> Iterator[GroupAction]:
    for group in sorted({*fitting.groups.values()}):
        if group != ROOT and Cell("group", group) not in fitting.state:
            yield CreateGroup(group)
    for (group, line), values in sorted(fitting.values.items()):
        yield SetSchemata(group, line, tuple(sorted(values.items())))
    for group, cpus in sorted(_by_group(fitting.cpus).items()):
        yield MoveCpus(tuple(sorted(cpus)), group)
    for group, tids in sorted(_by_group(fitting.tids).items()):
        yield MoveTasks(tuple(sorted(tids)), group)


def _by_group(group_of: Mapping[_T, str]) -> dict[str, list[_T]]:
    groups: dict[str, list[_T]] = {}
    for item, group in group_of.items():
        groups.setdefault(group, []).append(item)
    return groups


def export_profile(
    state: State, rules: Rules, numbers: Mapping[str, int] = MappingProxyType({})
) -> ExportedProfile:
    """The profile of a host; `rules` with the threads of its groups, to add a note on them.

    `numbers`: the hardware's class by group, as far as known.
    """
    statements: list[Statement] = []
    notes: list[str] = []
    for group in sorted({ROOT, *(cell.group for cell in state if cell.kind == "group")}):
        mode = state.get(Cell("mode", group), "")
        if mode in LOCKED:
            notes.append(f"{group} holds a locked part of a cache: left out")
            continue
        if not group.isprintable() or group != "".join(group.split()):
            notes.append(f"group {group!r} is no plain word: left out")
            continue
        if mode == EXCLUSIVE:
            notes.append(f"{group} is exclusive, which a profile does not say")
        statements += _masks(state, group)
        unit: MbaUnit = "percent" if rules.limit is None else rules.limit.unit
        statements += [
            LimitStatement(group, unit, domains, int(value), NOWHERE)
            for domains, value in _group_by_value(state, group, MB)
        ]
        cpus = tuple(map(Cpu, sorted(cpus_in(state, group))))
        statements += [CpusStatement(group, cpus, NOWHERE)] if cpus else []
    if any(cell.kind == "io_cbm" for cell in state):
        notes.append("ways of I/O are set (io_alloc), which a profile does not say")
    monitors = sum(cell.kind == "monitor" for cell in state)
    if monitors:
        notes.append(f"{counted(monitors, 'monitoring group')}: a profile is about classes only")
    inside = sum(split_path(where)[0] != ROOT for where in rules.tasks.values())
    if inside:
        notes.append(
            f"{counted(inside, 'thread')} in groups of their own: threads end, a profile stays"
        )
    return ExportedProfile(tuple(statements), tuple(notes), numbers)


def _masks(state: State, group: str) -> Iterator[Statement]:
    for resource in ("L3", "L2"):
        for cdp in _COMPONENTS:
            for domains, value in _group_by_value(state, group, f"{resource}{cdp}"):
                bits = int(value, 16)
                yield MaskStatement(group, resource, cdp, domains, bits, NOWHERE)


def _group_by_value(
    state: State, group: str, line: str
) -> Iterator[tuple[tuple[int, ...] | None, str]]:
    """Values of a line with their domains; None if all are the same."""
    by_value: dict[str, list[int]] = {}
    for cell in sorted(item for item in state if item.kind == "schemata"):
        if cell.group == group and cell.name == line:
            by_value.setdefault(state[cell], []).append(cell.number)
    for value, domains in by_value.items():
        yield (None if len(by_value) == 1 else tuple(domains)), value
