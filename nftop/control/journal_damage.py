"""Damaged files of the journal: the kinds of damage, and how an operator clears it by hand."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Literal, TypeAlias, get_args

from nftop.control.wording import describe
from nftop.model.change import Cell, Kind

Damage: TypeAlias = Literal[
    "checksum",  # the content is not what was written
    "syntax",  # no JSON, or not of this shape
    "number",  # not an integer, or beyond the bounds
    "depth",  # nested deeper than any entry
    "size",  # longer than any entry
    "type",  # not a regular file
    "member",  # a member of the object is missing, unknown or given twice
    "value",  # a member or a cell has a value that it can't have
    "format",  # written by a later nftop
    "missing",  # lines of the history that were acknowledged are not there
    "folder",  # the folder is not root's alone
]
_WHY: Mapping[Damage, str] = MappingProxyType({
    "checksum": "its checksum does not match",
    "syntax": "it is no entry",
    "number": "it has a number that is out of bounds",
    "depth": "it is nested too deep",
    "size": "it is too long",
    "type": "it is not a regular file",
    "member": "a member is missing, unknown or given twice",
    "value": "it has a value that can't be",
    "format": "it was written by a later nftop",
    "missing": "lines are missing or changed",
    "folder": "its folder can't be trusted",
})  # fmt: skip
_MOST_SHOWN = 20
_MOST_READ = 1 << 20
_STRING = r'"((?:[^"\\]|\\.){0,400})"'
_VALUE = rf"(null|{_STRING})"
_CHANGE = re.compile(
    rf'\[\["({"|".join(get_args(Kind))})",\s?{_STRING},\s?{_STRING},\s?(-?[0-9]{{1,9}})\],'
    rf"\s?{_VALUE},\s?{_VALUE}\]"
)
_NUMBER = re.compile(r'"number":\s?([0-9]{1,9}),')


class DamagedJournalError(Exception):
    """A file of the journal can't be trusted. The text is one sentence: which file, and why.

    Attributes:
        reason: code of the cause.
        details: messages: legible content of the file, and how to repair it by hand.
    """

    def __init__(self, sentence: str, reason: Damage, details: tuple[str, ...] = ()) -> None:
        super().__init__(sentence)
        self.reason: Damage = reason
        self.details = details


class InvalidError(ValueError):
    """JSON that is not an entry, or not a component of one."""

    def __init__(self, reason: Damage) -> None:
        super().__init__(_WHY[reason])
        self.reason: Damage = reason


def damaged(name: str, reason: Damage, details: tuple[str, ...] = ()) -> DamagedJournalError:
    """The error of one file, or one line of it, by its name."""
    sentence = f"{name} of nftop's journal is damaged ({_WHY[reason]}): nothing is changed"
    return DamagedJournalError(
        f"{sentence} until that is cleared by hand; `nftop recover` says how", reason, details
    )


def pending_details(path: str, text: str) -> tuple[str, ...]:
    """Sentences on a damaged `pending.json` at `path`, and how to clear it."""
    move = shlex.join(("sudo", "mv", path, f"{path}.damaged"))
    return (
        *_legible(text),
        "compare that with the host (`nftop cat`, `nftop sst`) and set by hand what is wrong",
        f"then `{move}` lets nftop change this host again; nftop itself never deletes it",
    )


def line_details(number: int, text: str) -> tuple[str, ...]:
    """Sentences on the content of a damaged line of the history; `number` counts from 1."""
    return tuple(f"line {number}: {sentence}" for sentence in _legible(text))


def lines_details(path: str, numbers: Sequence[int], index: str) -> tuple[str, ...]:
    """Sentences: how to delete all damaged lines of the history, whose `numbers` count from 1.

    One sed command deletes all of them: deleting one line renumbers those after it.
    """
    script = ";".join(f"{number}d" for number in numbers)
    plural = "s" * (len(numbers) != 1)
    return (
        f"to continue without the damaged line{plural}: copy {path} to a safe place",
        f"then run once: `sudo sed -i {shlex.quote(script)} {shlex.quote(path)}`",
        f"then `sudo rm -f {shlex.quote(index)}`",
        f"nftop can no longer take back the change{plural} of the deleted line{plural}",
    )


def missing_details(path: str, index: str, written: int, readable: int) -> tuple[str, ...]:
    """Sentences on a history with `readable` of the `written` lines that its index counts."""
    remove = f"`sudo rm -f {shlex.quote(index)}`"
    return (
        f"{index} counts {written} lines, of which {readable} can be read",
        f"to continue with those: copy {path} to a safe place, then {remove}",
        "`nftop undo` then takes back the last of them, which may not be the last change made",
    )


def index_details(index: str) -> tuple[str, ...]:
    return (
        "lines of the history have their own checksums; whether the last are missing is not known",
        f"compare `nftop history` with what you know, then `sudo rm -f {shlex.quote(index)}`",
    )


def _legible(text: str) -> Iterator[str]:
    text = text[:_MOST_READ]
    number = _NUMBER.search(text)
    words = [f"change {number[1]}"] if number else ["a change"]
    for name in ("time", "operator", "command"):
        match = re.search(rf'"{name}":\s?{_STRING}', text)
        words += [f"{name} {_decoded(match[1])}"] if match else []
    changes = text[max(text.find('"changes"'), 0) :].partition('"back"')[0]
    rows = list(_CHANGE.finditer(changes))
    yield f"as far as it can be read, not verified: {', '.join(words)}"
    for row in rows[:_MOST_SHOWN]:
        kind, group, name, where, old, _, new, _ = row.groups()
        cell = Cell(kind, _decoded(group), _decoded(name), int(where))  # type: ignore[arg-type]
        yield f"before and after, not verified: {describe(cell)}: {_shown(old)}, {_shown(new)}"
    if len(rows) > _MOST_SHOWN:
        yield f"and {len(rows) - _MOST_SHOWN} more"
    if not rows:
        yield "nothing can be read of what it changed"


def _shown(raw: str) -> str:
    return "not there" if raw == "null" else _decoded(raw[1:-1]) or "the kernel's choice"


def _decoded(raw: str) -> str:
    """Text of a JSON string, unchanged if it is damaged."""
    try:
        return str(json.loads(f'"{raw}"'))
    except ValueError:
        return raw
