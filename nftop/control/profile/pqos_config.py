"""The files of `pqos -f` and command lines `pqos -e ... -a ...`: parser and writer.

Grammar of intel-cmt-cat's `pqos` (pqos(8), `main.c`, `alloc.c`): a command per line, `#` begins a
comment only at the begin of a line, and numbers are decimal unless they start with `0x`, masks too.
A line of 255 characters or more is cut there, and its rest is taken for another command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from itertools import count, islice

from nftop.control.profile.profile import (
    MOST_CLASSES,
    MOST_LISTED,
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
    TooLongError,
)
from nftop.model.ids import Cpu, format_cpu_list, parse_cpu_list
from nftop.model.rdt.rdt import ROOT, MbaUnit
from nftop.model.struct import dataclass, field

_LONGEST = 254
_MOST_BITS = 64
_SET, _ASSOCIATE = "alloc-class-set", "alloc-assoc-set"
_OPTIONS = {"-e": _SET, "--alloc-class": _SET, "-a": _ASSOCIATE, "--alloc-assoc": _ASSOCIATE}
_TYPES = ("llc", "l2", "mba", "mba_max")
_OF_CPUS = ("llc", "cos", "core")
# Commands of pqos that allocate nothing, or that nftop replaces.
_PASSED_OVER: Mapping[str, str] = {
    "reset-cat": "not run: `nftop cat reset` goes back to before nftop's first change",
    "alloc-class-select": "not run: the masks of that name are pqos' own (`pqos -H` lists them); "
    "write them as alloc-class-set",
    "iface": "passed over: nftop chooses the interface",
    "iface-os": "passed over: nftop chooses the interface",
} | dict.fromkeys(
    (
        "show-alloc",
        "display",
        "display-verbose",
        "log-file",
        "verbose-mode",
        "super-verbose-mode",
        "monitor-pids",
        "monitor-cores",
        "monitor-devs",
        "monitor-channels",
        "monitor-time",
        "monitor-interval",
        "monitor-file",
        "monitor-file-type",
        "monitor-top-like",
    ),
    "passed over: it allocates nothing",
)
# A class name in a comment, which pqos ignores.
_NAMED = re.compile(r"#\s*nftop: COS (\d{1,5}) is group (\S+)\s*")
NAMED = "# nftop: COS {} is group {}"
# The directory of a class on a host with resctrl.
PQOS_GROUP = "COS{}"
_LETTERS: Mapping[CdpType, str] = {"": "", "CODE": "c", "DATA": "d"}
_ALLOC_TYPES = {"L3": "llc", "L2": "l2"}
_LIMIT_TYPES: Mapping[MbaUnit, str] = {"percent": "mba", "MBps": "mba_max"}
_LIST_LENGTH = 160
_PQOS = re.compile(r"(?:sudo\s+)?(?:\S*/)?(pqos|pgos)\b")


@dataclass(slots=True)
class _Reader:
    """State of the parser; `line` is the current one."""

    line: int = 0
    statements: list[Statement] = field(default_factory=list)
    problems: list[ProfileProblem] = field(default_factory=list)
    groups: dict[int, str] = field(default_factory=dict)
    edits: dict[tuple[str, str], list[Edit]] = field(default_factory=dict)
    listed: int = 0

    def wrong(self, text: str, *, fatal: bool = True) -> None:
        self.problems.append(ProfileProblem(self.line, text, fatal=fatal))

    def count(self, numbers: int) -> None:
        """Count CPUs or domains of a statement. Raises TooLongError."""
        self.listed += numbers
        if self.listed > MOST_LISTED:
            raise TooLongError(f"its lists name more than {MOST_LISTED} CPUs and domains")

    def slip(self, old: str, new: str, start: int) -> None:
        """Report a misspelt word; those of a line are one problem."""
        span = TextSpan(self.line, start, start + len(old))
        self.edits.setdefault((old, new), []).append(Edit(span, new))

    def end_line(self) -> None:
        for (old, new), edits in self.edits.items():
            often = f" ({len(edits)} times)" if len(edits) > 1 else ""
            text = f"pqos knows no {old!r}; {new!r} is meant{often}?"
            self.problems.append(ProfileProblem(self.line, text, tuple(edits)))
        self.edits.clear()


def parse(text: str) -> Listing:
    """Parse a file or command lines of pqos; errors are in `problems`. Raises TooLongError."""
    reader = _Reader()
    for number, line in enumerate(text.splitlines(), 1):
        reader.line = number
        _line(reader, line)
        reader.end_line()
    problems = sorted(reader.problems, key=lambda problem: problem.line)
    return Listing(tuple(reader.statements), tuple(problems), reader.groups)


def _line(reader: _Reader, line: str) -> None:
    stripped = line.strip()
    if not stripped:
        return
    if stripped.startswith("#"):
        named = _NAMED.fullmatch(stripped)
        if named:
            reader.groups[int(named[1])] = named[2]
        return
    start = len(line) - len(line.lstrip())
    if _PQOS.match(stripped):
        _shell(reader, line)
        return
    if len(line) > _LONGEST:
        reader.wrong(
            f"pqos cuts lines of more than {_LONGEST} characters, and this has {len(line)}; "
            "nftop reads it whole",
            fatal=False,
        )
    name, colon, _ = stripped.partition(":")
    _command(reader, name.lower() if colon else stripped, line, start + len(name) + 1)


def _command(reader: _Reader, name: str, line: str, start: int, end: int | None = None) -> None:
    """One command, whose argument is the line's columns `start` to `end`."""
    end = len(line) if end is None else end
    rule = {_SET: _set, _ASSOCIATE: _associate}.get(name)
    if rule is None:
        why = _PASSED_OVER.get(name)
        if why is None:
            reader.wrong(f"no command of pqos: {name!r}")
        else:
            reader.wrong(f"{name}: {why}", fatal=False)
        return
    if not line[start:end].strip():
        reader.wrong(f"{name} without anything to set")
    for at, token in _split(line, ";", start, end):
        rule(reader, token, at)


def _shell(reader: _Reader, line: str) -> None:
    """A line that calls pqos: its `-e` and `-a`, quoted or not."""
    program = _PQOS.search(line)
    if program is not None and program[1] != "pqos":
        reader.slip(program[1], "pqos", program.start(1))
    try:
        words = shlex.split(line)
    except ValueError:
        reader.wrong("a quote is opened and not closed")
        return
    seen, at = False, 0
    for option, value in _options(words):
        if option in _OPTIONS and value:
            seen = True
            at = line.find(value, at)
            if at < 0:
                reader.wrong("quotes within an argument: write it plainly")
                return
            _command(reader, _OPTIONS[option], line, at, at + len(value))
            at += len(value)
    if not seen:
        reader.wrong("passed over: it allocates nothing", fatal=False)


def _options(words: list[str]) -> Iterator[tuple[str, str]]:
    for at, word in enumerate(words):
        option, equals, value = word.partition("=")
        if equals and option.startswith("--"):
            yield option, value
        elif word[:2] in _OPTIONS and len(word) > 2:
            yield word[:2], word[2:]
        elif word in _OPTIONS:
            yield word, words[at + 1] if at + 1 < len(words) else ""


def _split(line: str, mark: str, start: int, end: int) -> Iterator[tuple[int, str]]:
    """Non-blank segments between marks, with the columns of their first characters."""
    at = start
    for segment in line[start:end].split(mark):
        if segment.strip():
            yield at + len(segment) - len(segment.lstrip()), segment.strip()
        at += len(segment) + len(mark)


def _set(reader: _Reader, token: str, at: int) -> None:
    """`llc@0,1:2=0xff0,3c=0xf`."""
    head, colon, values = token.partition(":")
    kind, has_ids, ids = head.partition("@")
    if not colon:
        reader.wrong(f"{token!r} is not TYPE:CLASS=VALUE")
        return
    known = _type(reader, kind, _TYPES, at)
    domains = _numbers(reader, ids) if has_ids else None
    if has_ids and domains is None:
        reader.wrong(f"{ids!r} is no list of sockets or caches")
        return
    if known is None:
        return
    for column, value in _split(token, ",", len(token) - len(values), len(token)):
        _value(reader, known, domains, value, at + column)


def _value(reader: _Reader, kind: str, domains: tuple[int, ...] | None, text: str, at: int) -> None:
    name, equals, value = text.partition("=")
    cdp: CdpType = ""
    if name[-1:].lower() in ("c", "d") and kind in ("llc", "l2"):
        cdp, name = ("CODE" if name[-1].lower() == "c" else "DATA"), name[:-1]
    class_id, number = _number(name), _number(value)
    if class_id is not None and class_id >= MOST_CLASSES:
        reader.wrong(f"{text!r}: no CPU has so many classes")
        return
    if not equals or class_id is None or number is None:
        bare = equals and class_id is not None and _bare(reader, value, at + len(text) - len(value))
        if not bare:
            reader.wrong(f"{text!r} is not CLASS=VALUE")
        return
    start = at + len(text) - len(value.lstrip())
    span = TextSpan(reader.line, start, at + len(text))
    reader.count(len(domains or ()))
    if kind in ("llc", "l2"):
        if not value.strip().lower().startswith("0x") and number > 9:
            reader.wrong(f"{text!r}: pqos takes {number} as decimal: ways {number:#x}", fatal=False)
        reader.statements.append(
            MaskStatement(class_id, "L3" if kind == "llc" else "L2", cdp, domains, number, span)
        )
    else:
        unit = _UNITS[kind]
        reader.statements.append(LimitStatement(class_id, unit, domains, number, span))


def _bare(reader: _Reader, value: str, at: int) -> bool:
    """Whether it is a hexadecimal number without `0x`; the fix adds that."""
    text = value.strip()
    if not re.fullmatch(r"[0-9a-fA-F]{1,16}", text):
        return False
    start = at + len(value) - len(value.lstrip())
    edit = Edit(TextSpan(reader.line, start, start + len(text)), f"0x{text}")
    sentence = f"pqos takes {text!r} as decimal, which it is not; 0x{text} is meant?"
    reader.problems.append(ProfileProblem(reader.line, sentence, (edit,)))
    return True


def _associate(reader: _Reader, token: str, at: int) -> None:
    """`llc:1=2-5,8`, also `cos:`, `core:`; `pid:1=4711`."""
    kind, colon, rest = token.partition(":")
    if not colon:
        reader.wrong(f"{token!r} is not TYPE:CLASS=LIST")
        return
    known = _type(reader, kind, (*_OF_CPUS, "pid"), at)
    name, equals, listed = rest.partition("=")
    class_id = _number(name)
    if known is None:
        return
    if not equals or class_id is None or class_id >= MOST_CLASSES:
        reader.wrong(f"{rest!r} is not CLASS=LIST")
        return
    start = at + len(token) - len(listed.lstrip())
    span = TextSpan(reader.line, start, at + len(token))
    text = listed.strip()
    statement = (
        _tasks(class_id, text, span) if known == "pid" else _cpus(reader, class_id, text, span)
    )
    if statement is None:
        reader.wrong(f"{listed.strip()!r} is no list such as 2-5,8")
    else:
        reader.statements.append(statement)


def _type(reader: _Reader, kind: str, known: tuple[str, ...], at: int) -> str | None:
    """Meaning of a type; a misspelt one is a problem with a fix."""
    word = kind.strip()
    if word.lower() in known:
        return word.lower()
    # The digit 1 for the letter l, as in printed listings.
    meant = word.lower().replace("1", "l")
    if meant in known:
        reader.slip(word, meant, at + len(kind) - len(kind.lstrip()))
        return meant
    reader.wrong(f"no type of pqos here: {word!r}; it knows {', '.join(known)}")
    return None


def _cpus(reader: _Reader, class_id: ClassId, text: str, span: TextSpan) -> CpusStatement | None:
    numbers = _numbers(reader, text)
    return None if numbers is None else CpusStatement(class_id, tuple(map(Cpu, numbers)), span)


def _tasks(class_id: ClassId, text: str, span: TextSpan) -> TasksStatement | None:
    numbers = [_number(word) for word in text.split(",")]
    known = tuple(number for number in numbers if number is not None)
    return TasksStatement(class_id, known, span) if known and len(known) == len(numbers) else None


def _numbers(reader: _Reader, text: str) -> tuple[int, ...] | None:
    try:
        numbers = parse_cpu_list(text.replace(" ", ""))
    except ValueError:
        return None
    reader.count(len(numbers))
    return tuple(numbers) or None


def _number(text: str) -> int | None:
    """Parse a number as pqos does, hexadecimal after `0x`; None: invalid or too large."""
    word = text.strip().lower()
    digits = word.removeprefix("0x")
    base = 16 if digits != word else 10
    allowed = "0123456789abcdef"[:base]
    if not 0 < len(digits) <= 20 or set(digits) - set(allowed):
        return None
    value = int(digits, base)
    return value if value < 1 << _MOST_BITS else None


_UNITS: Mapping[str, MbaUnit] = {"mba": "percent", "mba_max": "MBps"}


def pqos_text(profile: ExportedProfile) -> str:
    """A profile in the format of `pqos -f`; what that can't express is in comments.

    pqos knows classes by number only. A group has the number of its class in the hardware, as
    `nftop cat show` prints it; one whose number the kernel does not show, and whose name is not
    `COSn`, gets the next free one. A comment has its name, by which nftop recognizes it again.
    Raises ValueError if a number is ambiguous.
    """
    statements = profile.statements
    groups = dict.fromkeys(str(item.class_id) for item in statements)
    numbers, assigned = _class_numbers(groups, profile.numbers)
    lines = [f"# {note}" for note in profile.notes]
    if assigned:
        lines.append(
            "# the kernel does not show the classes' numbers (mount resctrl with -o debug)"
        )
        lines.append("# nftop chose those below: do not use them with pqos --iface=msr")
    lines += [
        NAMED.format(number, group)
        for group, number in numbers.items()
        if number and group != PQOS_GROUP.format(number)
    ]
    for statement in statements:
        number = numbers[str(statement.class_id)]
        match statement:
            case MaskStatement():
                name = f"{number}{_LETTERS[statement.cdp]}"
                head = f"alloc-class-set: {_ALLOC_TYPES[statement.resource]}"
                tail = f":{name}={statement.bits:#x}"
                lines += [f"{head}{at}{tail}" for at in _at(statement.domains)]
            case LimitStatement() if statement.unit in _LIMIT_TYPES:
                head = f"alloc-class-set: {_LIMIT_TYPES[statement.unit]}"
                tail = f":{number}={statement.value}"
                lines += [f"{head}{at}{tail}" for at in _at(statement.domains)]
            case LimitStatement():
                unit, value = statement.unit, statement.value
                lines.append(f"# {statement.class_id}: pqos has no limits in {unit}: {value}")
            case CpusStatement():
                lines += [
                    f"alloc-assoc-set: llc:{number}={cpus}"
                    for cpus in _lists(format_cpu_list(statement.cpus).split(","))
                ]
    return "".join(f"{_shortened(line)}\n" for line in lines)


def _shortened(line: str) -> str:
    """A comment that pqos does not cut; other lines are short enough."""
    if len(line) <= _LONGEST:
        return line
    if not line.startswith("#"):
        raise AssertionError(f"pqos would cut {line!r}")
    return f"{line[: _LONGEST - 3]}..."


def _class_numbers(
    groups: Iterable[str], known: Mapping[str, int]
) -> tuple[dict[str, int], list[str]]:
    """Class number of each group, and the groups whose number was chosen here.

    0 for the root group, else the known one, n for `COSn`, the next free one.
    """
    numbers, rest = {ROOT: 0}, []
    for group in groups:
        named = re.fullmatch(r"COS([1-9][0-9]{0,3})", group)
        by_name = int(named[1]) if named else None
        number = known.get(group, by_name)
        if group == ROOT:
            continue
        if number is None:
            rest.append(group)
        elif by_name not in (None, number) or number in numbers.values():
            of = next((name for name, taken in numbers.items() if taken == number), group)
            raise ValueError(
                f"for pqos the number of group {group} is ambiguous: it has class {number} of the "
                f"hardware{f', as {of} has' * (of != group)}; export as TOML (--profile toml)"
            )
        else:
            numbers[group] = number
    free = (number for number in count(1) if number not in numbers.values())
    return numbers | dict(zip(rest, list(islice(free, len(rest))), strict=True)), rest


def _at(domains: tuple[int, ...] | None) -> list[str]:
    return [""] if domains is None else [f"@{ids}" for ids in _lists(map(str, domains))]


def _lists(items: Iterable[str]) -> Iterator[str]:
    """Lists of CPUs or domains, short enough that pqos does not cut their lines."""
    words: list[str] = []
    for word in items:
        if words and len(",".join((*words, word))) > _LIST_LENGTH:
            yield ",".join(words)
            words = []
        words.append(word)
    if words:
        yield ",".join(words)
