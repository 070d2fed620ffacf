"""The two formats of a profile: nftop's own TOML (here), and that of `pqos` (`pqos_config`).

nftop's own has a table for each class:

schema = "nftop.profile/1"

[[class]]
group = "vpp"             # "/" is the root group
l3 = "3f0"                # hexadecimal, in every domain; or { 0 = "3f0", 1 = "ff0" }
l3code = "f0"             # l3data, l2, l2code, l2data in the same way
mba_percent = 50          # or mba_mbps, mba_gbps_8 (eighths of GB/s); or { 0 = 50 }
cpus = "2-7"
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias

from nftop.control.profile import pqos_config
from nftop.control.profile.pqos_config import pqos_text
from nftop.control.profile.profile import (
    MOST_BYTES,
    MOST_LISTED,
    NOWHERE,
    CdpType,
    CpusStatement,
    ExportedProfile,
    LimitStatement,
    Listing,
    MaskStatement,
    ProfileProblem,
    Statement,
    TextSpan,
    TooLongError,
)
from nftop.model.bounded_toml import parse_toml
from nftop.model.ids import format_cpu_list, parse_cpu_list
from nftop.model.rdt.rdt import MbaUnit

SCHEMA = "nftop.profile/1"
_MASKS: Mapping[str, tuple[Any, CdpType]] = {
    "l3": ("L3", ""), "l3code": ("L3", "CODE"), "l3data": ("L3", "DATA"),
    "l2": ("L2", ""), "l2code": ("L2", "CODE"), "l2data": ("L2", "DATA"),
}  # fmt: skip
_LIMITS: Mapping[str, MbaUnit] = {
    "mba_percent": "percent",
    "mba_mbps": "MBps",
    "mba_gbps_8": "GBps/8",
}
_MOST = 1 << 64
_GROUP = re.compile(r"""\s*group\s*=\s*((["'])([^"'\\]+)\2)\s*(?:#.*)?$""")
_HEADER = re.compile(r"""\s*\[(\[\s*(["']?)class\2\s*\]\])?""")
_KEY = r"""(?:"[^"\\]*"|'[^'\\]*'|[\w-]+)"""
_VALUE = r"""(?:"[^"\\]*"|'[^'\\]*'|[^\s"'#,{}]+)"""
_PAIR = re.compile(rf"\s*{_KEY}\s*=\s*(?:({_VALUE})|({{[^{{}}]*}}))")
_ITEM = re.compile(rf"[{{,]\s*({_KEY})\s*=\s*({_VALUE})")

# Spans of the values of a table by domain; "": of a value for all domains.
_Spans: TypeAlias = Mapping[str, TextSpan]


class _WrongError(Exception):
    """An invalid value; the text says why."""


def parse_toml_profile(text: str) -> Listing:
    """Parse a file; errors are in `problems`. Raises TooLongError."""
    try:
        document = parse_toml(text)
    except ValueError as error:
        return Listing((), (ProfileProblem(0, f"no TOML: {error}"),))
    statements: list[Statement] = []
    problems: list[ProfileProblem] = []
    listed = 0
    if document.get("schema") != SCHEMA:
        problems.append(ProfileProblem(0, f"no profile of nftop's: its schema would be {SCHEMA!r}"))
    unknown = sorted(document.keys() - {"schema", "class"})
    problems += [ProfileProblem(0, f"nothing is known by the name {name!r}") for name in unknown]
    tables = document.get("class", [])
    if not isinstance(tables, list) or not all(isinstance(item, dict) for item in tables):
        return Listing((), (*problems, ProfileProblem(0, "a class is a table: [[class]]")))
    spans_of = _spans(text, tables)
    for number, table in enumerate(tables, 1):
        group = table.get("group")
        if not isinstance(group, str) or not group:
            problems.append(ProfileProblem(0, f"class {number} names no group"))
            continue
        for key, value in table.items():
            if key == "group":
                continue
            spans = spans_of.get((number, key), {})
            try:
                ours = list(_statements(group, key, value, spans))
                listed += sum(len(item.cpus) for item in ours if isinstance(item, CpusStatement))
                if listed > MOST_LISTED:
                    raise TooLongError(f"its lists name more than {MOST_LISTED} CPUs")
                statements += ours
            except _WrongError as error:
                line = next(iter(spans.values()), NOWHERE).line
                problems.append(ProfileProblem(line, f"{group}: {error}"))
    return Listing(tuple(statements), tuple(problems), names=_names(text))


def _names(text: str) -> dict[str, TextSpan]:
    """Position of each group's name in the text; names that occur twice are left out."""
    spans: dict[str, list[TextSpan]] = {}
    for number, row in enumerate(text.split("\n"), 1):
        if (known := _GROUP.match(row)) is not None:
            spans.setdefault(known[3], []).append(TextSpan(number, *known.span(1)))
    return {name: where[0] for name, where in spans.items() if len(where) == 1}


def _spans(text: str, tables: Sequence[Mapping[str, Any]]) -> dict[tuple[int, str], _Spans]:
    """By number of the class, from 1, and key: values on one line, as the parser has no positions.

    A line inside a text of several lines may look like one; the table's value is then another.
    """
    spans: dict[tuple[int, str], _Spans] = {}
    number, inside = 0, False
    for line, row in enumerate(text.split("\n"), 1):
        if (header := _HEADER.match(row)) is not None:
            inside = header[1] is not None
            number += inside
        elif 0 < number <= len(tables) and inside and (pair := _PAIR.match(row)) is not None:
            with suppress(ValueError):
                ((key, value),) = parse_toml(row).items()
                items = {"": pair.span(1)}
                if pair[1] is None:
                    hits = _ITEM.finditer(row, *pair.span(2))
                    items = {item[1].strip("\"'"): item.span(2) for item in hits}
                if tables[number - 1].get(key) == value:
                    spans[number, key] = {at: _span(line, row, item) for at, item in items.items()}
    return spans


def _span(line: int, row: str, at: tuple[int, int]) -> TextSpan:
    """Span of a value without its quotes."""
    quoted = row[at[0]] in "\"'"
    return TextSpan(line, at[0] + quoted, at[1] - quoted)


def _statements(group: str, key: str, value: object, spans: _Spans) -> Iterator[Statement]:
    if key in _MASKS:
        resource, cdp = _MASKS[key]
        for at, domains, bits in _by_domain(key, value, _bits):
            yield MaskStatement(group, resource, cdp, domains, bits, spans.get(at, NOWHERE))
    elif key in _LIMITS:
        for at, domains, most in _by_domain(key, value, _count):
            yield LimitStatement(group, _LIMITS[key], domains, most, spans.get(at, NOWHERE))
    elif key == "cpus":
        try:
            cpus = parse_cpu_list(value) if isinstance(value, str) else ()
        except ValueError as error:
            raise _WrongError(f"cpus: {error}") from None
        if not cpus:
            raise _WrongError("cpus is a list such as '2-5,8'")
        yield CpusStatement(group, cpus, spans.get("", NOWHERE))
    else:
        raise _WrongError(f"nothing is known by the name {key!r}")


def _by_domain(
    key: str, value: object, of: Callable[[str, object], int]
) -> Iterator[tuple[str, tuple[int, ...] | None, int]]:
    """Domain as it is written, "" for all; domains; value."""
    if not isinstance(value, dict):
        yield "", None, of(key, value)
        return
    for domain, item in value.items():
        if not (domain.isascii() and domain.isdigit() and len(domain) <= 6):
            raise _WrongError(f"{key}: {domain!r} is no domain's number")
        yield domain, (int(domain),), of(key, item)


def _bits(key: str, value: object) -> int:
    word = value.lower().removeprefix("0x") if isinstance(value, str) else ""
    if not 0 < len(word) <= 16 or set(word) - set("0123456789abcdef"):
        raise _WrongError(f"{key}: a mask is a text in hexadecimal such as '3f0'")
    return int(word, 16)


def _count(key: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST:
        raise _WrongError(f"{key}: a limit is a number")
    return value


def toml_text(profile: ExportedProfile) -> str:
    lines = [*(f"# {note}" for note in profile.notes), f"schema = {json.dumps(SCHEMA)}"]
    classes: dict[str, dict[str, dict[int | None, str]]] = {}
    for statement in profile.statements:
        keys = classes.setdefault(str(statement.class_id), {})
        match statement:
            case MaskStatement():
                key = f"{statement.resource}{statement.cdp}".lower()
                _put(keys.setdefault(key, {}), statement.domains, f'"{statement.bits:x}"')
            case LimitStatement():
                key = next(name for name, unit in _LIMITS.items() if unit == statement.unit)
                _put(keys.setdefault(key, {}), statement.domains, str(statement.value))
            case CpusStatement():
                keys["cpus"] = {None: f'"{format_cpu_list(statement.cpus)}"'}
    for group, keys in classes.items():
        # JSON's escapes of a text are TOML's too.
        lines += ["", "[[class]]", f"group = {json.dumps(group)}"]
        lines += [f"{key} = {_written(values)}" for key, values in keys.items()]
    return "".join(f"{line}\n" for line in lines)


def _put(values: dict[int | None, str], domains: tuple[int, ...] | None, text: str) -> None:
    values |= dict.fromkeys((None,) if domains is None else domains, text)


def _written(values: Mapping[int | None, str]) -> str:
    if None in values:
        return values[None]
    return "{ " + ", ".join(f"{domain} = {text}" for domain, text in values.items()) + " }"


def _bounded(parser: Callable[[str], Listing]) -> Callable[[str], Listing]:
    """The parser with the limits of a profile; it never raises."""

    def bounded(text: str) -> Listing:
        try:
            if len(text) > MOST_BYTES:
                raise TooLongError(f"no profile is longer than {MOST_BYTES >> 10} KiB")
            return parser(text)
        except TooLongError as error:
            return Listing((), (ProfileProblem(0, str(error)),))

    return bounded


PARSERS: Mapping[str, Callable[[str], Listing]] = {
    "toml": _bounded(parse_toml_profile),
    "pqos": _bounded(pqos_config.parse),
}
WRITERS: Mapping[str, Callable[[ExportedProfile], str]] = {"toml": toml_text, "pqos": pqos_text}
# Begin of a profile of nftop.
_TOML = re.compile(r"schema\b|\[\[\s*class\b")
_OF_PQOS = (".cfg", ".conf", ".sh")


def form_of(name: str, text: str) -> str:
    """Format by file name, else by the text."""
    lines = (line.strip() for line in text.splitlines())
    first = next((line for line in lines if line and not line.startswith("#")), "")
    if name.endswith(".toml") or _TOML.match(first):
        return "toml"
    if name.endswith(_OF_PQOS):
        return "pqos"
    return "pqos" if "alloc-" in text or "pqos" in text else "toml"


def parse(name: str, text: str) -> Listing:
    return PARSERS[form_of(name, text)](text)
