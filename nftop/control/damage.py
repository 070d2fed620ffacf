"""What a damaged file of the journal held, as far as it can be read, and how to go on by hand.

Nothing here is verified: it is shown to the operator, and no change is ever made from it.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from typing import get_args

from nftop.control.wording import describe
from nftop.model.change import Cell, Kind

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
            f"then `sudo mv {_quoted(path)} {_quoted(f'{path}.damaged')}` lets nftop change this "
            "host again; nftop itself never deletes it"
        ),
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
        f"then run once: `sudo sed -i {_quoted(script)} {_quoted(path)}`",
        f"then `sudo rm -f {_quoted(index)}`",
        f"nftop can no longer take back the change{plural} of the deleted line{plural}",
    )


def missing_details(path: str, index: str, written: int, readable: int) -> tuple[str, ...]:
    """Sentences on a history that lacks acknowledged lines, and how to clear that.

    `written`: lines that the index counts. `readable`: lines that can be read.
    """
    return (
        f"{index} counts {written} lines, of which {readable} can be read",
        f"to continue with those: copy {path} to a safe place, then `sudo rm -f {_quoted(index)}`",
        "`nftop undo` then takes back the last of them, which may not be the last change made",
    )


def index_details(index: str) -> tuple[str, ...]:
    """Sentences on a damaged index of the history."""
    return (
        "lines of the history have their own checksums; whether the last are missing is not known",
        f"compare `nftop history` with what you know, then `sudo rm -f {_quoted(index)}`",
    )


def _quoted(path: str) -> str:
    """A path, or a script, as one word of a shell command."""
    return shlex.quote(path)


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
        match = re.search(rf'"{name}":\s?{_STRING}', text)
        if match:
            yield name, _decoded(match[1])


def _shown(raw: str) -> str:
    return "not there" if raw == "null" else _decoded(raw[1:-1]) or "the kernel's choice"


def _decoded(raw: str) -> str:
    """The text of a JSON string; as it stands where that is damaged."""
    try:
        return str(json.loads(f'"{raw}"'))
    except ValueError:
        return raw
