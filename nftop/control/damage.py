"""What a damaged file of the journal held, as far as it can be read, and how to go on by hand.

Nothing here is verified: it is shown to the operator, and no change is ever made from it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import get_args

from nftop.control.words import describe
from nftop.model.action import Cell, Kind

_MOST_SHOWN = 20
_MOST_READ = 1 << 20
_STRING = r'"((?:[^"\\]|\\.){0,400})"'
_VALUE = rf"(null|{_STRING})"
_CHANGE = re.compile(
    rf'\[\["({"|".join(get_args(Kind))})",\s?{_STRING},\s?{_STRING},\s?(-?[0-9]{{1,9}})\],'
    rf"\s?{_VALUE},\s?{_VALUE}\]"
)
_NUMBER = re.compile(r'"number":\s?([0-9]{1,9}),')


def pending_details(path: str, text: str) -> tuple[str, ...]:
    """Sentences on a damaged `pending.json` at `path`, and how to clear it."""
    return (
        *_legible(text),
        "compare that with the host (`nftop cat`, `nftop sst`) and set by hand what is wrong",
        (
            f"then `sudo mv {path} {path}.damaged` lets nftop change this host again; nftop itself "
            "never deletes it"
        ),
    )


def line_details(path: str, number: int, index: str, text: str) -> tuple[str, ...]:
    """Sentences on a damaged line of the history, and how to clear it."""
    return (
        *(f"line {number}: {each}" for each in _legible(text)),
        f"to go on without it: copy {path} to a safe place",
        f"then `sudo sed -i {number}d {path}` and `sudo rm -f {index}`",
        "nftop can't take that change back any more then",
    )


def missing_details(path: str, index: str, written: int, found: int) -> tuple[str, ...]:
    """Sentences on a history that lacks acknowledged lines, and how to clear that."""
    return (
        f"{index} counts {written} lines, of which {found} can be read",
        f"to go on with those: copy {path} to a safe place, then `sudo rm {index}`",
        "`nftop undo` then takes back the last of them, which may not be the last change made",
    )


def index_details(index: str) -> tuple[str, ...]:
    """Sentences on a damaged index of the history."""
    return (
        "lines of the history have their own checksums; whether the last are missing is not known",
        f"compare `nftop history` with what you know, then `sudo rm {index}`",
    )


def _legible(text: str) -> Iterator[str]:
    """What it seems to hold, never more than a few lines."""
    text = text[:_MOST_READ]
    number = _NUMBER.search(text)
    words = [f"change {number[1]}"] if number else ["a change"]
    words += [f"{name} {value}" for name, value in _named(text, "time", "operator", "command")]
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


def _named(text: str, *names: str) -> Iterator[tuple[str, str]]:
    for name in names:
        found = re.search(rf'"{name}":\s?{_STRING}', text)
        if found:
            yield name, _decoded(found[1])


def _shown(raw: str) -> str:
    return "not there" if raw == "null" else _decoded(raw[1:-1]) or "the kernel's choice"


def _decoded(raw: str) -> str:
    """The text of a JSON string; as it stands where that is damaged."""
    try:
        return str(json.loads(f'"{raw}"'))
    except ValueError:
        return raw
