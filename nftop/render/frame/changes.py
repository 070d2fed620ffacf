"""Changes of the host as text: those observed in a frame, and the banner of a pending one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from nftop.derive.cache.changes import groups_in, is_own_change
from nftop.model.change import Cell, Change, Noticed, Outcome, OwnChange, Receipt, value_text
from nftop.model.clock import clock_of
from nftop.model.ids import L3Domain, format_cpu_list
from nftop.model.rdt.rdt import class_name
from nftop.model.struct import dataclass, field, replace
from nftop.render.base.format import duration_text
from nftop.render.base.line import Click, Line, Span, Tone, crop, line, paragraph
from nftop.render.base.text import cells, fit, printable
from nftop.render.editor.change import setting_texts

OURS, THEIRS = "by nftop", "by another program"


def noticed_line(
    noticed: Noticed, own_changes: Sequence[OwnChange], ways: Mapping[str, int]
) -> Line:
    """Time, author and changes, in a line that may be long; `ways` as of `texts`."""
    return line(
        Span(f"CHANGED {clock_of(noticed.wall_ns)} ", Tone.ACCENT),
        Span(author(noticed, own_changes), Tone.MUTED),
        f": {', '.join(texts(noticed.changes, ways))}",
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


def texts(changes: Sequence[Change], ways: Mapping[str, int]) -> list[str]:
    """Each change as a short text; equal moves of CPUs and threads together.

    `ways`: of `Frame.mask_ways`.
    """
    masks = (*_schemata(changes, ways), *_io_texts(changes, ways))
    return [*masks, *_groups(changes), *_moves(changes)]


def _values(change: Change, ways: Mapping[str, int]) -> str:
    old, new = (
        value_text(change.cell, value, ways) or "not set" for value in (change.old, change.new)
    )
    return f"{old} → {new}"


def _concerns(cell: Cell, group: str, l3: L3Domain) -> bool:
    mine = cell.kind == "schemata" and cell.group == group and cell.number == l3
    return mine and not cell.name.startswith("L2")


def _schemata(changes: Sequence[Change], ways: Mapping[str, int]) -> Iterator[str]:
    for change in changes:
        cell = change.cell
        if cell.kind == "schemata":
            yield f"{_named(cell.group)} {cell.name} {cell.number} {_values(change, ways)}"


def _io_texts(changes: Sequence[Change], ways: Mapping[str, int]) -> Iterator[str]:
    for change in changes:
        if change.cell.kind == "io_alloc":
            yield f"io_alloc {change.new}"
        elif change.cell.kind == "io_cbm":
            yield f"I/O L3 {change.cell.number} {_values(change, ways)}"


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
        yield f"{what} {_named(old)} → {_named(new)}"


def _named(group: str) -> str:
    return printable(class_name(group))


# As requested: not reported.
_AS_REQUESTED: tuple[Outcome, ...] = ("kept",)
_MOST_LINES = 3


def applying_lines(width: int) -> list[Line]:
    """While the guard writes."""
    return [crop(line(Span(" APPLYING ", Tone.BADGE), " the guard writes and reads back"), width)]


@dataclass(frozen=True, slots=True)
class PendingFacts:
    """A change that is applied and not kept.

    Attributes:
        number: in nftop's history; None if it has none.
        changes: what was written.
        left_s: seconds until it is taken back; 0: the guard takes it back now.
        within_s: seconds to keep it, from when it was applied.
        ways: of `texts`.
    """

    number: int | None
    changes: tuple[Change, ...]
    left_s: int
    within_s: float
    ways: Mapping[str, int] = field(default_factory=dict)


_BAR = 20  # cells
_PENDING_FORMS = (("IS NOT KEPT", "taken back"), ("IS NOT KEPT", "back"), ("NOT KEPT", "back"))
_SECONDS_BELOW = 120  # a longer time has its minutes
_TALL = 20  # lines of the screen from which the banner has three


def unkept_lines(facts: PendingFacts, width: int, height: int = _TALL) -> list[Line]:
    """While the change is pending: what was changed, the time left, its keys.

    Three lines, one on a screen of few lines. When the time is up the guard reverts.
    """
    which = "" if facts.number is None else f" {facts.number}"
    what = [*texts(facts.changes, facts.ways), *setting_texts(facts.changes)]
    more = len(what) - 1
    about = "".join(what[:1]) + f" and {more} more" * (more > 0)
    keys = line(
        Span("K keep", Tone.PENDING, Click("app.keep")),
        Span("  ", Tone.PENDING),
        Span("u undo", Tone.PENDING, Click("app.undo")),
        Span(" ", Tone.PENDING),
    )
    if facts.left_s <= 0:
        keys = line()
        whole = f" CHANGE{which} WAS NOT KEPT   the guard takes it back   {about}"
    else:
        remaining = (
            f"{facts.left_s} s" if facts.left_s < _SECONDS_BELOW else duration_text(facts.left_s)
        )
        # Shorter words rather than half of a mask.
        forms = [
            (f" CHANGE{which} {words}", f"{taken} in {remaining}")
            for words, taken in _PENDING_FORMS
        ]
        room = width - keys.width - cells(f"{about}         ")
        head, time_left = next((f for f in forms if cells("".join(f)) <= room), forms[-1])
        full = round(_BAR * facts.left_s / max(facts.within_s, 1.0))
        bar = "█" * min(full, _BAR) + "░" * (_BAR - full)
        room = width - cells(f"{head}   {time_left}   ") - keys.width
        drawn = f"  {bar}" if room >= len(bar) + 5 + cells(about) else ""
        about = fit(about, min(cells(about), max(0, room - len(drawn) - 3)))
        left = f"{head}   {about}" if about.strip() else head
        right = f"{time_left}{drawn}   "
        if cells(left) + 3 + cells(right) + keys.width > width:
            left, right = f" CHANGE{which} NOT KEPT", f"{remaining}: "
        whole = f"{left}{' ' * max(1, width - cells(left) - cells(right) - keys.width)}{right}"
    text = Span(fit(whole, max(0, width - keys.width)), Tone.PENDING)
    middle = crop(line(text, keys, fill=Tone.PENDING), width)
    edge = line(Span(" " * width, Tone.PENDING), fill=Tone.PENDING)
    return [edge, middle, edge] if height >= _TALL else [middle]


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
