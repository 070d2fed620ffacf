"""A profile drawn up from a host's state, and written as `pqos -f` reads it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from nftop.control.profile.pqos_config import LONGEST, NAMED
from nftop.control.profile.profile import Cpus, Limit, Mask, Part, Span, Statement
from nftop.control.resctrl.operations import EXCLUSIVE, MB
from nftop.control.rules import LOCKED, Rules
from nftop.model.change import Cell, State, parts
from nftop.model.ids import Cpu, format_cpu_list
from nftop.model.rdt.rdt import ROOT, MbaUnit

_NOWHERE = Span(0, 0, 0)
_PARTS: tuple[Part, ...] = ("", "CODE", "DATA")
_LETTERS: Mapping[Part, str] = {"": "", "CODE": "c", "DATA": "d"}
_TYPES = {"L3": "llc", "L2": "l2"}
_LIMITS: Mapping[MbaUnit, str] = {"percent": "mba", "MBps": "mba_max"}
_PQOS_GROUP = "COS"
_LIST_LENGTH = 160


@dataclass(frozen=True, slots=True)
class Drawn:
    """Attributes.

    statements: of every group, the root group first; a mask in all domains names none.
    notes: what of the host a profile does not hold, a sentence each.
    """

    statements: tuple[Statement, ...]
    notes: tuple[str, ...]


def drawn(state: State, rules: Rules) -> Drawn:
    """The profile of a host; `rules` with the threads of its groups, if they are to be noted."""
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
        statements += _limits(state, group, rules)
        cpus = [Cpu(cell.number) for cell, where in state.items()
                if cell.kind == "cpu" and parts(where)[0] == group]  # fmt: skip
        if cpus:
            statements.append(Cpus(group, tuple(sorted(cpus)), _NOWHERE))
    monitors = sum(cell.kind == "monitor" for cell in state)
    if monitors:
        notes.append(f"{monitors} monitoring groups: a profile is about classes only")
    inside = sum(parts(where)[0] != ROOT for where in rules.tasks.values())
    if inside:
        notes.append(f"{inside} threads that are in groups of their own: they end, a profile stays")
    return Drawn(tuple(statements), tuple(notes))


def _masks(state: State, group: str) -> Iterator[Statement]:
    for resource in ("L3", "L2"):
        for part in _PARTS:
            for domains, value in _alike(state, group, f"{resource}{part}"):
                bits = int(value, 16)
                yield Mask(group, resource, part, domains, bits, _NOWHERE)


def _limits(state: State, group: str, rules: Rules) -> Iterator[Statement]:
    unit: MbaUnit = "percent" if rules.limit is None else rules.limit.unit
    for domains, value in _alike(state, group, MB):
        yield Limit(group, unit, domains, int(value), _NOWHERE)


def _alike(state: State, group: str, line: str) -> Iterator[tuple[tuple[int, ...] | None, str]]:
    """The values of a line with their domains; None where all have the same."""
    by_value: dict[str, list[int]] = {}
    for cell in sorted(item for item in state if item.kind == "schemata"):
        if cell.group == group and cell.name == line:
            by_value.setdefault(state[cell], []).append(cell.number)
    for value, domains in by_value.items():
        yield (None if len(by_value) == 1 else tuple(domains)), value


def pqos_text(profile: Drawn) -> str:
    """As `pqos -f` reads it; what it has no word for is in comments.

    pqos knows classes by number only. A group of another name than its `COS1` gets the next number
    that is free, and a comment says which, for nftop to find the group again.
    """
    statements = profile.statements
    numbers = _numbers(dict.fromkeys(str(item.who) for item in statements))
    lines = [f"# {note}" for note in profile.notes]
    lines += [NAMED.format(number, group) for group, number in numbers.items()
              if number and group != f"{_PQOS_GROUP}{number}"]  # fmt: skip
    for statement in statements:
        number = numbers[str(statement.who)]
        match statement:
            case Mask():
                name = f"{number}{_LETTERS[statement.part]}"
                head = f"{_TYPES[statement.resource]}{_at(statement.domains)}"
                lines.append(f"alloc-class-set: {head}:{name}={statement.bits:#x}")
            case Limit() if statement.unit in _LIMITS:
                head = f"{_LIMITS[statement.unit]}{_at(statement.domains)}"
                lines.append(f"alloc-class-set: {head}:{number}={statement.value}")
            case Limit():
                lines.append(
                    f"# {statement.who}: pqos has no limits in {statement.unit}: {statement.value}"
                )
            case Cpus():
                lines += [
                    f"alloc-assoc-set: llc:{number}={part}" for part in _lists(statement.cpus)
                ]
    return "".join(f"{_short(line)}\n" for line in lines)


def _numbers(groups: Iterable[str]) -> dict[str, int]:
    """A class for each group: 0 of the root group, n of `COSn`, else the next that is free."""
    found = {ROOT: 0}
    rest = []
    for group in groups:
        digits = group.removeprefix(_PQOS_GROUP)
        plain = digits != group and digits.isascii() and digits.isdigit()
        if plain and digits == str(int(digits)) and len(digits) <= 4 and int(digits):
            found[group] = int(digits)
        elif group != ROOT:
            rest.append(group)
    free = (number for number in range(1, len(rest) + len(found) + 1)
            if number not in found.values())  # fmt: skip
    taken = dict(zip(rest, list(free), strict=False))
    return found | taken


def _at(domains: tuple[int, ...] | None) -> str:
    return "" if domains is None else f"@{','.join(map(str, domains))}"


def _lists(cpus: Sequence[Cpu]) -> Iterator[str]:
    """CPU lists of lines that pqos does not cut."""
    words: list[str] = []
    for word in format_cpu_list(cpus).split(","):
        if words and len(",".join((*words, word))) > _LIST_LENGTH:
            yield ",".join(words)
            words = []
        words.append(word)
    if words:
        yield ",".join(words)


def _short(line: str) -> str:
    return line if len(line) <= LONGEST else line[: LONGEST - 3] + "..."
