"""Changes of the host as text: those observed in a frame, and the banner of a pending one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from nftop.derive.cache.changes import groups_in, is_own_change
from nftop.model.change import Cell, Change, Noticed, Outcome, OwnChange, Receipt
from nftop.model.ids import L3Domain, format_cpu_list
from nftop.model.rdt.rdt import class_name
from nftop.model.struct import replace
from nftop.render.base.line import Line, Span, Tone, crop, line, paragraph
from nftop.render.base.text import printable

OURS, THEIRS = "by nftop", "by another program"


def clock_of(wall_ns: int) -> str:
    """Time of day in UTC: `12:41:07Z`."""
    return datetime.fromtimestamp(wall_ns / 1e9, tz=UTC).strftime("%H:%M:%SZ")


def noticed_line(noticed: Noticed, own_changes: Sequence[OwnChange]) -> Line:
    """Time, author and changes, in a line that may be long."""
    return line(
        Span(f"CHANGED {clock_of(noticed.wall_ns)} ", Tone.ACCENT),
        Span(author(noticed, own_changes), Tone.DIM),
        f": {', '.join(texts(noticed.changes))}",
    )


def author(noticed: Noticed, own_changes: Sequence[OwnChange]) -> str:
    """Whether nftop made these changes."""
    known = [is_own_change(change, noticed, own_changes) for change in noticed.changes]
    if all(known):
        return OURS
    return f"{OURS}, in part {THEIRS}" if any(known) else THEIRS


def last_of(noticed: Sequence[Noticed], group: str, l3: L3Domain) -> Noticed | None:
    """Last change of a group's masks and limits in a cache, or None."""
    for item in reversed(noticed):
        mine = tuple(change for change in item.changes if _concerns(change.cell, group, l3))
        if mine:
            return replace(item, changes=mine)
    return None


def about(noticed: Sequence[Noticed], group: str) -> list[Noticed]:
    """Changes of a group, including its CPUs and threads; newest first."""
    result = []
    for item in reversed(noticed):
        mine = tuple(change for change in item.changes if group in groups_in((change,)))
        if mine:
            result.append(replace(item, changes=mine))
    return result


def texts(changes: Sequence[Change]) -> list[str]:
    """Each change as a short text; equal moves of CPUs and threads together."""
    return [*_schemata(changes), *_groups(changes), *_moves(changes)]


def _concerns(cell: Cell, group: str, l3: L3Domain) -> bool:
    mine = cell.kind == "schemata" and cell.group == group and cell.number == l3
    return mine and not cell.name.startswith("L2")


def _schemata(changes: Sequence[Change]) -> Iterator[str]:
    for change in changes:
        cell = change.cell
        if cell.kind == "schemata":
            yield f"{_named(cell.group)} {cell.name} {cell.number} {change.old} -> {change.new}"


def _groups(changes: Sequence[Change]) -> Iterator[str]:
    for change in changes:
        if change.cell.kind == "group":
            both = change.old is not None and change.new is not None
            word = "replaced" if both else "created" if change.old is None else "removed"
            yield f"class {_named(change.cell.group)} {word}"


def _moves(changes: Sequence[Change]) -> Iterator[str]:
    ways: dict[tuple[str, str, str], list[str]] = {}
    for change in changes:
        if change.cell.kind in ("cpu", "task") and change.old is not None:
            key = change.cell.kind, change.old, change.new or ""
            name = change.cell.name.partition("@")[0] or str(change.cell.number)
            ways.setdefault(key, []).append(name)
    for (kind, old, new), those in ways.items():
        if kind == "cpu":
            what = f"CPU {format_cpu_list(map(int, those))}"
        else:
            what = f"{len(those)} threads" if len(those) > 1 else f"thread {those[0]}"
        yield f"{what} {_named(old)} -> {_named(new)}"


def _named(group: str) -> str:
    return printable(class_name(group))


# As requested: not reported.
_AS_REQUESTED: tuple[Outcome, ...] = ("kept",)
_MOST_LINES = 3


def applying_lines(width: int) -> list[Line]:
    """While the guard writes."""
    return [crop(line(Span(" APPLYING ", Tone.BADGE), " the guard writes and reads back"), width)]


def unkept_lines(number: int | None, left_s: int, width: int) -> list[Line]:
    """While the change is pending: keys and remaining time; after it the guard reverts."""
    which = "" if number is None else f" {number}"
    if left_s <= 0:
        head = f" CHANGE{which} WAS NOT KEPT "
        return [crop(line(Span(head, Tone.BADGE), " the guard takes it back"), width)]
    keys = line(Span("K", Tone.TITLE), " keep   ", Span("u", Tone.TITLE), " take back")
    head = f" CHANGE{which} IS NOT KEPT: taken back in {left_s} s "
    return [crop(line(Span(head, Tone.BADGE), "  ", keys), width)]


def settling_lines(word: str, width: int) -> list[Line]:
    """While it is being kept or reverted."""
    return [crop(line(Span(f" {word} ", Tone.BADGE), " the guard is working"), width)]


def outcome_lines(receipt: Receipt, width: int) -> list[Line]:
    """Outcome of the change, until Esc; none if it is as requested."""
    if receipt.outcome in _AS_REQUESTED:
        return []
    lead = line(Span(f" {receipt.outcome.upper()} ", Tone.BADGE), " ")
    text = "; ".join(receipt.sentences)
    return [crop(row, width) for row in paragraph(f"{text} (Esc)", width, lead=lead)[:_MOST_LINES]]


def outcome_text(receipt: Receipt) -> str:
    """The outcome in a line."""
    return f"{receipt.outcome}: {'; '.join(receipt.sentences)}"
