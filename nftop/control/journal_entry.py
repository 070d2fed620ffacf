"""Changes as JSON: lines of the journal with their own checksum, and the guard's messages.

Format 2, one object in ASCII on one line:

    {"format": 2, "number": 7, ..., "remade": [], "sha256": "<64 hexadecimal digits>"}

`sha256` is the last member. It is the SHA-256 (FIPS 180-4) of the bytes of the same object without
that member: of what precedes `, "sha256"`, and a closing brace. It is checked before anything of
the line is parsed. The index of the history (`journal`) is sealed in the same way.

Format 1, of earlier versions, has neither `format` nor `sha256`. Such an entry is read and undone,
but marked as not verified, also when it is written again. Any other member, a member that
is missing or given twice, a number that is no integer or beyond 2^53, a value that its kind of cell
can't have, or a line above 64 MiB makes an entry damaged: it is refused, and its file is kept.

nftop before format 2 reads such a line as its own (it ignores members that it does not know), so a
downgrade goes on to undo and to recover, without the checks.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NoReturn, TypeAlias, get_args

from nftop.control.journal_damage import InvalidError, damaged
from nftop.model.change import (
    DIRECTORIES,
    Cell,
    Change,
    Kind,
    Outcome,
    Proposal,
    ReasonCode,
    Receipt,
    State,
)
from nftop.model.rdt.rdt import MASK_LINES
from nftop.model.struct import dataclass, field, replace

FORMAT: Final = 2
SHA256_OF_NOTHING = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
KEEP = b"keep\n"  # to the guard; any other word reverts
MOST_BYTES: Final = 64 << 20
_MOST_NUMBER: Final = 1 << 53
_MOST_ID: Final = 1 << 31
_DIGITS: Final = 17
_SEAL = re.compile(r', "sha256": "([0-9a-f]{64})"\}')
_SEAL_LENGTH: Final = len(', "sha256": ""}') + 64
_LATER = frozenset({"leaves", "done", "remade"})  # members of later versions of format 1
_MASK, _DECIMAL = r"[0-9a-f]{1,16}", r"[0-9]{1,20}"
_VALUES: Mapping[str, str] = MappingProxyType({
    "group": _DECIMAL, "monitor": _DECIMAL, "min_khz": _DECIMAL, "max_khz": _DECIMAL,
    "cp_class": _DECIMAL, "governor": r"[a-zA-Z0-9_-]{1,32}", "epp": r"[a-zA-Z0-9_-]{1,32}",
    "bf": "on|off", "io_alloc": "enabled|disabled", "io_cbm": _MASK,
})  # fmt: skip
# Kinds whose value may be "": what the kernel chooses (`backend.KERNEL_ASSIGNED`) is not known yet.
_CHOSEN = frozenset({"group", "monitor", "epp", "io_cbm"})
_NAMES: Mapping[str, str] = MappingProxyType(
    {"task": r"[0-9]{1,10}@[0-9]{1,20}", "bf": r"[0-9]{1,9}\.[0-9]{1,9}@[0-9]{1,9}"}
)
_NUMBERED = frozenset(
    {"schemata", "cpu", "governor", "epp", "min_khz", "max_khz", "cp_class", "io_cbm"}
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One change.

    Attributes:
        number: 1 for the first on this host.
        time: when it began, RFC 3339.
        identity: of its backend (`Backend.identity`).
        operator: under sudo the invoking user.
        command: the equivalent command line.
        changes: as requested, or as read back once `done`.
        undoes: numbers of the changes that it undoes, possibly in part.
        leaves: numbers of changes that it undoes in part, or skips.
        outcome: None while it is pending.
        base: while it is pending, the whole state before it, or before its revert; then only the
            directories.
        done: `changes` are as read back; no value is left to the kernel.
        reverting: it is being reverted, by the changes `back` of `base`.
        left: messages on what it, or its revert, leaves alone.
        remade: directories that its revert creates again, with their numbers; "" if not known yet.
        offline: cells that it did not restore since their CPU or cache was offline.
        verified: its checksum matched whenever it was read; False once read without a checksum.
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
    offline: tuple[Cell, ...] = ()
    verified: bool = True


def completed(entry: Entry, history: Sequence[Entry]) -> Entry | None:
    """The history's entry of a pending change that is complete but not yet forgotten.

    "kept" does not complete a change that is being reverted: writing that line failed.
    """
    done = [item for item in history if item.number == entry.number]
    return done[-1] if done and not (entry.reverting and done[-1].outcome == "kept") else None


def finished(entry: Entry, outcome: Outcome) -> Entry:
    """The entry as in the history."""
    kept = {cell: value for cell, value in entry.base.items() if cell.kind in DIRECTORIES}
    return replace(entry, outcome=outcome, base=kept, back=())


def changes_json(changes: Sequence[Change]) -> list[Any]:
    """Changes as JSON: [[kind, group, name, number], old, new]."""
    return [[list(change.cell), change.old, change.new] for change in changes]


def cells_of(raw: object) -> tuple[Cell, ...]:
    """Cells from JSON: [kind, group, name, number]. Raises InvalidError."""
    return tuple(_cell(row) for row in _list(raw))


def changes_of(raw: object) -> tuple[Change, ...]:
    """The reverse. Raises InvalidError."""
    changes = []
    for row in _rows(raw, 3):
        cell = _cell(row[0])
        changes.append(Change(cell, _optional(cell, row[1]), _optional(cell, row[2])))
    return tuple(changes)


def state_json(state: State) -> list[Any]:
    """A state as JSON: [[kind, group, name, number], value]."""
    return [[list(cell), value] for cell, value in state.items()]


def state_of(raw: object) -> State:
    """The reverse. Raises InvalidError."""
    state: dict[Cell, str] = {}
    for row in _rows(raw, 2):
        cell = _cell(row[0])
        if cell in state:
            raise InvalidError("value")
        state[cell] = _value(cell, row[1])
    return state


@dataclass(frozen=True, slots=True)
class Requester:
    """Origin of a change: the operator, and numbers of earlier changes that it takes back."""

    operator: str
    undoes: tuple[int, ...] = ()


def request(
    proposal: Proposal, requester: Requester, folder: Path, keep_within_s: float | None
) -> dict[str, Any]:
    """A request to the guard. `keep_within_s` None: kept at once, if it succeeds."""
    return _encoded(_PROPOSAL, proposal) | {
        "operator": requester.operator,
        "undoes": list(requester.undoes),
        "folder": os.fspath(folder),
        "keep_within_s": keep_within_s,
    }


def series_request(
    proposal: Proposal, settings: Sequence[Sequence[Change]], requester: Requester, folder: Path
) -> dict[str, Any]:
    """A request to the guard to try settings in turn (`series`)."""
    return request(proposal, requester, folder, None) | {
        "settings": [changes_json(changes) for changes in settings]
    }


def settings_of(raw: dict[str, Any]) -> tuple[tuple[Change, ...], ...]:
    """The settings of such a request; empty for any other."""
    return tuple(changes_of(changes) for changes in raw.get("settings", ()))


def proposal_of(raw: dict[str, Any]) -> Proposal:
    return Proposal(**_decoded(_PROPOSAL, raw))


def recovery(folder: Path) -> dict[str, Any]:
    """A request to repair what a crash left; it has one answer."""
    return {"recover": True, "folder": os.fspath(folder)}


def receipt_json(receipt: Receipt) -> dict[str, Any]:
    return _encoded(_RECEIPT, receipt)


def receipt_of(raw: dict[str, Any]) -> Receipt:
    """The reverse. Raises KeyError, TypeError or ValueError if it is no answer."""
    return Receipt(**_decoded(_RECEIPT, raw))


def text_of(entry: Entry) -> str:
    """An entry as a sealed line of JSON."""
    return seal({"format": FORMAT, "verified": entry.verified} | _encoded(_ENTRY, entry))


def entry_of(name: str, text: str) -> Entry:
    """The reverse of `text_of`. Raises DamagedJournalError, whose text names the file."""
    try:
        raw, is_sealed = unseal(text)
        _demand_members(raw, is_sealed=is_sealed)
        members = {member: row for member, row in _ENTRY.items() if member in raw}
        verified = is_sealed and _boolean(raw["verified"])
        return Entry(**_decoded(members, raw), verified=verified)
    except InvalidError as error:
        raise damaged(name, error.reason) from None


def seal(raw: Mapping[str, Any]) -> str:
    """An object as a line of JSON with its checksum."""
    body = json.dumps(raw)
    checksum = digest(body.encode("ascii"))
    return f'{body[:-1]}, "sha256": "{checksum}"}}\n'


def unseal(text: str) -> tuple[dict[str, Any], bool]:
    """The object of a line, and whether it has a checksum, which then matches.

    Raises InvalidError. A line without a checksum may contain one of another version as a member.
    """
    line = text.removesuffix("\n")
    if len(line) > MOST_BYTES:
        raise InvalidError("size")
    if not line.isascii():
        raise InvalidError("syntax")
    match = _SEAL.fullmatch(line, max(len(line) - _SEAL_LENGTH, 0))
    if match is None:
        return _parsed(line), False
    body = f"{line[: match.start()]}}}"
    if digest(body.encode("ascii")) != match[1]:
        raise InvalidError("checksum")
    return _parsed(body), True


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal digits."""
    if not data:  # of a host that nftop never changed
        return SHA256_OF_NOTHING
    import hashlib  # noqa: PLC0415 - it loads OpenSSL

    return hashlib.sha256(data).hexdigest()


def _parsed(text: str) -> dict[str, Any]:
    try:
        raw = json.loads(
            text,
            object_pairs_hook=_once,
            parse_int=_bounded,
            parse_float=_no_number,
            parse_constant=_no_number,
        )
    except InvalidError:
        raise
    except RecursionError:
        raise InvalidError("depth") from None
    except ValueError:
        raise InvalidError("syntax") from None
    if not isinstance(raw, dict):
        raise InvalidError("syntax")
    return raw


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        raise InvalidError("member")
    return members


def _bounded(digits: str) -> int:
    if len(digits) > _DIGITS:
        raise InvalidError("number")
    return int(digits)


def _no_number(_: str) -> NoReturn:
    raise InvalidError("number")


def _demand_members(raw: Mapping[str, Any], *, is_sealed: bool) -> None:
    if not is_sealed:
        if raw.keys() & {"format", "sha256"}:
            raise InvalidError("checksum")
        format_1 = _ENTRY.keys() - {"offline"}
        if not format_1 - _LATER <= raw.keys() <= format_1:
            raise InvalidError("member")
    elif raw.get("format") != FORMAT:
        raise InvalidError("format")
    elif raw.keys() != _ENTRY.keys() | {"format", "verified"}:
        raise InvalidError("member")


def _list(raw: object) -> list[Any]:
    if not isinstance(raw, list):
        raise InvalidError("syntax")
    return raw


def _rows(raw: object, width: int) -> list[list[Any]]:
    rows = _list(raw)
    if not all(isinstance(row, list) and len(row) == width for row in rows):
        raise InvalidError("syntax")
    return rows


def _text(raw: object) -> str:
    if not isinstance(raw, str):
        raise InvalidError("value")
    return raw


def _boolean(raw: object) -> bool:
    if not isinstance(raw, bool):
        raise InvalidError("value")
    return raw


def _integer(raw: object, least: int, most: int = _MOST_NUMBER) -> int:
    if not isinstance(raw, int) or isinstance(raw, bool) or not least <= raw <= most:
        raise InvalidError("number")
    return raw


def _positive(raw: object) -> int:
    return _integer(raw, 1)


def _integers(raw: object) -> tuple[int, ...]:
    return tuple(map(_positive, _list(raw)))


def _outcome(raw: object) -> Outcome | None:
    for known in get_args(Outcome):
        if raw is None or raw == known:
            return None if raw is None else known
    raise InvalidError("value")


def _cell(raw: object) -> Cell:
    [row] = _rows([raw], 4)
    kind, group, name = (_text(text) for text in row[:3])
    if kind not in get_args(Kind) or not re.fullmatch(_NAMES.get(kind, "(?s:.*)"), name):
        raise InvalidError("value")
    # -1: no number (`Cell`).
    number = _integer(row[3], 0 if kind in _NUMBERED else -1, _MOST_ID)
    return Cell(kind, group, name, number)  # type: ignore[arg-type]


def _value(cell: Cell, raw: object) -> str:
    text = _text(raw)
    pattern = _VALUES.get(cell.kind)
    if cell.kind == "schemata":
        pattern = _MASK if cell.name in MASK_LINES else _DECIMAL
    is_open = not text and cell.kind in _CHOSEN
    if pattern is not None and not is_open and not re.fullmatch(pattern, text):
        raise InvalidError("value")
    return text


def _optional(cell: Cell, raw: object) -> str | None:
    return None if raw is None else _value(cell, raw)


def _encoded(members: _Members, record: object) -> dict[str, Any]:
    return {name: write(getattr(record, name)) for name, (write, _) in members.items()}


def _decoded(members: _Members, raw: Mapping[str, Any]) -> dict[str, Any]:
    return {name: read(raw[name]) for name, (_, read) in members.items()}


def _same(value: Any) -> Any:
    return value


_Members: TypeAlias = Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]]
_CHANGES, _STATE, _CELLS = (changes_json, changes_of), (state_json, state_of), (list, cells_of)
# Members in their order in JSON, with encoder and decoder. Those of an entry are checked: its file
# may be damaged. Requests and answers stay within nftop.
_ENTRY: _Members = MappingProxyType({
    "number": (_same, _positive), "time": (_same, _text), "identity": (_same, _text),
    "operator": (_same, _text), "command": (_same, _text), "undoes": (_same, _integers),
    "leaves": (_same, _integers), "outcome": (_same, _outcome), "reverting": (_same, _boolean),
    "left": (_same, lambda raw: tuple(map(_text, _list(raw)))), "done": (_same, _boolean),
    "changes": _CHANGES, "back": _CHANGES,
    "base": _STATE, "remade": _STATE, "offline": _CELLS,
})  # fmt: skip
_PROPOSAL: _Members = MappingProxyType({
    "identity": (_same, _same), "base": _STATE, "changes": _CHANGES, "commands": (list, tuple),
    "unmet": (list, tuple), "leaves": (list, tuple), "offline": _CELLS, "final": (_same, _same),
})  # fmt: skip
_RECEIPT: _Members = MappingProxyType({
    "outcome": (_same, _same), "sentences": (list, tuple), "changes": _CHANGES,
    "number": (_same, _same), "unmet": (list, tuple),
    "code": (_same, lambda raw: None if raw is None else ReasonCode(raw)),
})  # fmt: skip
