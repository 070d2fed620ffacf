"""A change as it is written down: a line of JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from nftop.model.action import DIRECTORIES, Cell, Change, Outcome, State

_PLAIN = (
    "number", "time", "identity", "operator", "command", "undoes", "leaves", "outcome", "reverting",
    "left", "done",
)  # fmt: skip


class DamagedError(Exception):
    """A file of the journal makes no sense; the text says which and why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One change.

    Attributes:
        number: 1 for the first on this host.
        time: when it was begun, RFC 3339.
        identity: of the host's resctrl (`Host.identity`).
        operator: who asked, as far as sudo tells.
        command: the command line that does the same.
        changes: what it was to do; as they were read back once it is done.
        undoes: numbers of the changes that it takes back, be it in part.
        leaves: numbers of those of which it leaves something, and of those it passes over.
        outcome: None while it is under way.
        base: while it is under way, the whole state before it, or before it is taken back;
            afterwards only the directories.
        done: its changes are as they were read back, none is the kernel's to give any more.
        reverting: it is being taken back. back: by these changes of `base`.
        left: what it leaves alone of them; or what is left alone of it when it is taken back:
            sentences.
        remade: directories that taking it back makes again, and their new numbers; "" of one of
            which that is not known yet.
    """

    number: int
    time: str
    identity: str
    operator: str
    command: str
    changes: tuple[Change, ...]
    undoes: tuple[int, ...] = ()
    outcome: Outcome | None = None
    base: State = field(default_factory=dict)
    reverting: bool = False
    back: tuple[Change, ...] = ()
    left: tuple[str, ...] = ()
    remade: State = field(default_factory=dict)
    leaves: tuple[int, ...] = ()
    done: bool = False


def completed(entry: Entry, history: Sequence[Entry]) -> Entry | None:
    """What the history has of one that is pending still, if nothing but to forget it is left.

    "kept" is no end of one that is being taken back: the writing of that line failed.
    """
    done = [each for each in history if each.number == entry.number]
    return done[-1] if done and not (entry.reverting and done[-1].outcome == "kept") else None


def finished(entry: Entry, outcome: Outcome) -> Entry:
    """As it is in the history."""
    kept = {cell: value for cell, value in entry.base.items() if cell.kind in DIRECTORIES}
    return replace(entry, outcome=outcome, base=kept, back=())


def changes_json(changes: Sequence[Change]) -> list[Any]:
    """Changes as JSON has them: [[kind, group, name, number], old, new]."""
    return [[list(change.cell), change.old, change.new] for change in changes]


def changes_of(raw: Sequence[Any]) -> tuple[Change, ...]:
    """The reverse; ValueError or TypeError where it is nothing of the kind."""
    found = []
    for cell, old, new in raw:
        if not all(each is None or isinstance(each, str) for each in (old, new)):
            raise ValueError(f"{old!r} or {new!r} is no value")
        found.append(Change(_cell(cell), old, new))
    return tuple(found)


def state_json(state: State) -> list[Any]:
    """A state as JSON has it: [[kind, group, name, number], value]."""
    return [[list(cell), value] for cell, value in state.items()]


def state_of(raw: Sequence[Any]) -> State:
    """The reverse; ValueError or TypeError where it is nothing of the kind."""
    return {_cell(cell): str(value) for cell, value in raw}


def _cell(raw: Sequence[Any]) -> Cell:
    kind, group, name, number = raw
    if not all(isinstance(each, str) for each in (kind, group, name)):
        raise ValueError(f"{raw!r} is no cell")
    return Cell(kind, group, name, int(number))


def text_of(entry: Entry) -> str:
    """An entry as a line of JSON."""
    raw = {name: getattr(entry, name) for name in _PLAIN}
    raw |= {"changes": changes_json(entry.changes), "back": changes_json(entry.back)}
    raw |= {"base": state_json(entry.base), "remade": state_json(entry.remade)}
    return json.dumps(raw) + "\n"


def entry_of(name: str, text: str) -> Entry:
    """The reverse; DamagedError, which names the file, where it is nothing of the kind."""
    try:
        raw: Mapping[str, Any] = json.loads(text)
        return Entry(
            number=int(raw["number"]),
            time=str(raw["time"]),
            identity=str(raw["identity"]),
            operator=str(raw["operator"]),
            command=str(raw["command"]),
            changes=changes_of(raw["changes"]),
            undoes=tuple(map(int, raw["undoes"])),
            leaves=tuple(map(int, raw.get("leaves", ()))),
            done=bool(raw.get("done")),
            outcome=raw["outcome"],
            base=state_of(raw["base"]),
            reverting=bool(raw["reverting"]),
            back=changes_of(raw["back"]),
            left=tuple(map(str, raw["left"])),
            remade=state_of(raw.get("remade", ())),
        )
    except (ValueError, TypeError, KeyError, AttributeError):
        raise DamagedError(
            f"{name} of nftop's journal is damaged: move it aside, and what it tells of is not "
            "taken back by nftop any more"
        ) from None
