"""Cache screen: table, class detail and the verdict on the last change."""

from __future__ import annotations

from collections.abc import Sequence

from nftop.derive.cache.changes import groups_in, together
from nftop.derive.compare.metric import RULE_EVERY_TICK, Compared, Word, percent
from nftop.derive.compare.settling import LEAST_S, MOST_S, SPAN_S, Term
from nftop.derive.compare.verdict import Verdict, VerdictSection, verdict_of
from nftop.derive.compare.window import ClassKey, Window
from nftop.model.change import OwnChange
from nftop.model.frame import Frame
from nftop.model.metrics.metric import Unit
from nftop.model.reading import Missing, Reading
from nftop.model.struct import dataclass
from nftop.render.base import format as fmt
from nftop.render.base.line import BLANK, Line, Span, Tone, crop, line, paragraph
from nftop.render.base.table import cut_lines
from nftop.render.base.text import fit
from nftop.render.cache.detail import absence_lines, budget_line, level_2_lines
from nftop.render.cache.panel import group_name
from nftop.render.cache.table import ClassTable, cache_table
from nftop.render.frame.changes import noticed_line
from nftop.render.frame.header import badge_lines, time_of_day

_COUNTS = (
    f"samples before and after, in {SPAN_S} s at most, or until the next change, or until this one "
    "is taken back; their middle is shown. What was of another level until shortly before the "
    "change is left out"
)
MARKS: tuple[tuple[str, str], ...] = (
    ("n", _COUNTS),
    ("+-", "median absolute deviation from it, before and after"),
    ("better, worse", RULE_EVERY_TICK),
    ("more, less", "the same for a metric that is neither good nor bad"),
    ("<", "upper bound: may include empty polls"),
    (
        "settling",
        f"the first {LEAST_S} to {MOST_S} s do not count, until occupancy is stable",
    ),
    (
        "load moved",
        "the offered load changed, so cycles and misses per packet do not compare",
    ),
)
_LABEL, _VALUE, _CHANGE, _COUNT, _SPREAD = 10, 8, 8, 9, 15
_SPREAD_FROM = _LABEL + 2 * _VALUE + _CHANGE + _COUNT + _SPREAD + 28
_UNITS = {Unit.BYTES: " MiB", Unit.BYTES_PER_S: " GB/s"}
_TONES: dict[Word, Tone] = {
    "better": Tone.ACCENT,
    "worse": Tone.BAD,
    "more": Tone.ACCENT,
    "less": Tone.ACCENT,
    "no number": Tone.MISSING,
}


def verdict_lines(verdict: Verdict, width: int) -> list[Line]:
    """A row per metric of each class and network function: before, after and verdict."""
    wide = width >= _SPREAD_FROM
    drawn = [_head(verdict, wide=wide), *_notes(verdict, width)]
    for subject in verdict.parts:
        drawn.append(_subject_line(subject))
        drawn += [_row(row, wide=wide) for row in subject.rows]
    if not verdict.parts:
        drawn.append(line(Span("all changed classes are gone", Tone.DIM)))
    return [crop(item, width) for item in drawn]


def summary(verdict: Verdict) -> Line:
    """One line: the verdict on each network function, else on each class."""
    subjects = [subject for subject in verdict.parts if subject.kind == "nf"] or list(verdict.parts)
    spans: list[str | Span] = []
    for subject in subjects:
        spans += [", " if spans else "", f"{_name(subject)} ", *_words(subject.word, subject.why)]
    return line(*spans)


def _head(verdict: Verdict, *, wide: bool) -> Line:
    text = (
        fit("VERDICT", _LABEL)
        + fit("before", _VALUE, right=True)
        + fit("after", _VALUE, right=True)
        + fit("change", _CHANGE, right=True)
        + fit("n", _COUNT, right=True)
        + (fit("+-", _SPREAD, right=True) if wide else "")
        + "  "
        + _progress(verdict)
    )
    return line(Span(text, Tone.HEADER), fill=Tone.HEADER)


def _progress(verdict: Verdict) -> str:
    """Progress of the verdict."""
    left_out = f"{verdict.left_out_s:.0f} s left out"
    if verdict.over and not verdict.settled:
        end = "the next change came" if verdict.taken_back_s is None else "it was taken back"
        return f"not settled when {end}"
    if not verdict.settled:
        return f"settling, {left_out} so far"
    return f"final, {left_out}" if verdict.over else f"up to {verdict.span_s:.0f} s, {left_out}"


def _notes(verdict: Verdict, width: int) -> list[Line]:
    lead = line(Span("! ", Tone.ACCENT))
    return [item for note in verdict.notes for item in paragraph(note, width, lead=lead)]


def _name(subject: VerdictSection) -> str:
    return group_name(subject.name) if subject.kind == "class" else subject.name


def _subject_line(subject: VerdictSection) -> Line:
    """Name, classes and verdict of a network function, or a class."""
    what = "class " if subject.kind == "class" else ""
    where = "" if subject.kind == "class" else f" in {', '.join(map(group_name, subject.groups))}"
    how = "changed" if subject.changed else "overlaps"
    words = _words(subject.word, subject.why) if subject.kind == "nf" else []
    head = Span(f"{what}{_name(subject)}", Tone.TITLE)
    return line(head, Span(f"{where}, {how}", Tone.DIM), "  " * bool(words), *words)


def _row(row: Compared, *, wide: bool) -> Line:
    unit = row.metric.unit
    change = "" if isinstance(row.change_ratio, Missing) else percent(row.change_ratio)
    counts = f"{row.n_before}/{row.n_after}"
    spread = "" if not wide else _spread(row)
    return line(
        fit(f" {row.metric.label}{_UNITS.get(unit, '')}", _LABEL),
        _value(row.before, unit, bound=row.bounds[0]),
        _value(row.after, unit, bound=row.bounds[1]),
        fit(change, _CHANGE, right=True),
        Span(fit(counts, _COUNT, right=True), Tone.DIM),
        Span(fit(spread, _SPREAD, right=True) if wide else "", Tone.DIM),
        "  ",
        *_words(row.word, row.why),
    )


def _value(reading: Reading, unit: Unit, *, bound: bool) -> Span:
    missing = isinstance(reading, Missing)
    text = fmt.cell(reading, unit, _VALUE - 1, bound=bound)
    return Span(fit(text, _VALUE, right=True), Tone.MISSING if missing else Tone.PLAIN)


def _spread(row: Compared) -> str:
    both = (row.spread_before, row.spread_after)
    return "/".join(fmt.cell(item, row.metric.unit, (_SPREAD - 2) // 2) for item in both)


def _words(word: Word, why: str) -> list[str | Span]:
    span = Span(word, _TONES.get(word, Tone.DIM))
    return [span, Span(f": {why}", Tone.DIM)] if why else [span]


# Least lines of the table, and of the lower part.
_TABLE_LEAST, _LOWER_LEAST = 6, 4
_MOST_CHANGES = 2


@dataclass(frozen=True, slots=True)
class CachePage:
    """Attributes.

    fixed: lines that stay on top: budget and header.
    table: lines of the table, of which `room` are in view; `keys`: the class of each line.
    lower: lines below it.
    """

    fixed: tuple[Line, ...]
    table: tuple[Line, ...]
    keys: tuple[ClassKey | None, ...]
    room: int
    lower: tuple[Line, ...]


def upper(
    frame: Frame, width: int, own_changes: Sequence[OwnChange], *, folded: bool
) -> ClassTable:
    """The table, then second-level caches and reasons of absences."""
    table = cache_table(frame, width, own_changes, folded=folded)
    more = [*level_2_lines(frame, width)]
    absent = absence_lines(frame, width)
    more += [BLANK, *absent] if absent and frame.groups else absent
    return ClassTable(
        table.header,
        (*table.lines, *(crop(item, width) for item in more)),
        (*table.rows, *[None] * len(more)),
    )


def page(
    frame: Frame, table: ClassTable, width: int, height: int, blocks: Sequence[Sequence[Line]]
) -> CachePage:
    """Divide the height: the table first, then the blocks below it.

    Args:
        frame: with the limits.
        table: of `upper`.
        width: cells of a line.
        height: lines of all.
        blocks: of the lower part, each with a header.
    """
    fixed: tuple[Line, ...] = ()
    if frame.groups:
        fixed = (budget_line(frame.limits, frame.groups, width), table.header)
    room = max(0, height - len(fixed))
    wanted = [item for block in blocks for item in block]
    least = min(len(table.lines), max(_TABLE_LEAST, room // 2))
    lower = min(len(wanted), room - least)
    if lower < min(_LOWER_LEAST, len(wanted)):
        lower = 0
    shown = cut_lines(wanted, lower, width, "Enter shows all")
    return CachePage(fixed, table.lines, table.rows, room - lower, tuple(shown))


def whole(frame: Frame, blocks: Sequence[Sequence[Line]], width: int) -> list[Line]:
    """All that is below the table, as a page with host and time."""
    title = Span(f"Cache, below the table at {time_of_day(frame)}", Tone.TITLE)
    head = line(
        *(block for badge_line in badge_lines(frame.host) for block in (badge_line, " ")), title
    )
    return [crop(head, width), *(item for block in blocks if block for item in (BLANK, *block))]


def judged(window: Window, until_ns: int | None = None) -> Verdict | None:
    """Verdict on the last change of classes; None without one.

    `until_ns`: CLOCK_MONOTONIC when a pending change is reverted; None: none pending.
    """
    joined = together(window.frame.noticed)
    if not joined:
        return None
    last = joined[-1]
    return verdict_of(window, last.at_ns, groups_in(last.changes), Term(until_ns))


def card(verdict: Verdict, width: int, own_changes: Sequence[OwnChange]) -> list[Line]:
    """The last change, its author and its verdict."""
    head, *rest = verdict_lines(verdict, width)
    changes = [noticed_line(item, own_changes) for item in reversed(verdict.noticed)]
    more = len(changes) - _MOST_CHANGES
    left_out = [line(Span(f"+ {more} changes before", Tone.DIM))] if more > 0 else []
    shown = [*changes[:_MOST_CHANGES], *left_out, summary(verdict)]
    return [head, *(crop(item, width) for item in shown), *rest]
