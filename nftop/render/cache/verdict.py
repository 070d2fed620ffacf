"""Verdict on a change of cache classes: words, numbers, distributions and a graph."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nftop.derive.compare.metric import DIFFERS, RULE_EVERY_TICK, Compared, Word
from nftop.derive.compare.settling import LEAST_S, MOST_S, SPAN_S, Term
from nftop.derive.compare.verdict import Verdict, VerdictSection
from nftop.derive.compare.window import Times, Window
from nftop.model.change import OwnChange
from nftop.model.clock import NS_PER_S
from nftop.model.column import Floats
from nftop.model.frame import Frame
from nftop.model.median import median, quantile
from nftop.model.metrics.metric import Unit
from nftop.model.missing import Missing, Reading
from nftop.model.number_text import counted
from nftop.model.struct import dataclass, replace
from nftop.render.base import format as fmt
from nftop.render.base.graph import BLOCKS, line_rows
from nftop.render.base.line import Line, Span, Tone, crop, line, paragraph
from nftop.render.base.table import rule_line
from nftop.render.base.text import cells, fit
from nftop.render.cache.class_cells import group_name
from nftop.render.cache.way_cells import HATCH, ClassStyle, styles_of
from nftop.render.frame.changes import noticed_line

_COUNTS = (
    f"samples before and after, in {SPAN_S} s at most, or until the next change, or until this one "
    "is taken back; their median is shown. What was of another level until shortly before the "
    "change is left out"
)
MARKS: tuple[tuple[str, str], ...] = (
    ("n", _COUNTS),
    ("│ ┃", "distribution of the samples on one axis: median before, median after"),
    ("✔ ✘", "better, worse"),
    ("better, worse", RULE_EVERY_TICK),
    ("more, less", "the same for a metric that is neither good nor bad"),
    ("<", "upper bound: may include empty polls"),
    ("settling", f"the first {LEAST_S} to {MOST_S} s do not count, until occupancy is stable"),
    ("load moved", "the offered load changed, so cycles and misses per packet do not compare"),
)
_UNITS = {
    Unit.BYTES: "MiB",
    Unit.BYTES_PER_S: "GB/s",
    Unit.PACKETS_PER_S: "Mpps",
}
_GLYPHS: Mapping[Word, tuple[str, Tone]] = {
    "better": ("✔", Tone.GOOD),
    "worse": ("✘", Tone.BAD),
    "more": ("▲", Tone.ACCENT),
    "less": ("▼", Tone.ACCENT),
    "no difference": ("=", Tone.MUTED),
    "settling": ("…", Tone.MUTED),
    "too few samples": ("…", Tone.MUTED),
    "inconclusive": ("?", Tone.WARN),
    "no number": ("-", Tone.MISSING),
}
# The order in which words are summed up.
_ORDER: tuple[Word, ...] = (
    "worse", "better", "more", "less", "inconclusive", "no difference", "too few samples",
    "settling", "no number",
)  # fmt: skip
_MOST_CHANGES = 2
_AXIS_LEAST_RATIO = 0.05  # of the values


def card(
    verdict: Verdict,
    frame: Frame,
    width: int,
    own_changes: Sequence[OwnChange],
    number: int | None = None,
    *,
    brief: bool = False,
) -> list[Line]:
    """The verdict: what it is about, its words in a line, a row per metric.

    `number`: of the change in nftop's history; None if it has none. `brief`: of the first section
    the rows that differ, of each other one the leading row.
    """
    which = "LAST CHANGE" if number is None else f"CHANGE {number}"
    head = rule_line(f"VERDICT ON {which}", _progress(verdict), width)
    ways, noticed = frame.mask_ways, reversed(verdict.noticed)
    changes = [noticed_line(item, own_changes, ways) for item in noticed]
    more = len(changes) - _MOST_CHANGES
    left_out = [line(Span(f"+ {counted(more, 'change')} before", Tone.MUTED))] if more > 0 else []
    lines = [head, summary(verdict, width), *_notes(verdict, width)]
    lines += [*changes[:_MOST_CHANGES], *left_out, *_table(verdict, frame, width, brief=brief)]
    return [crop(item, width) for item in lines]


def summary(verdict: Verdict, width: int) -> Line:
    """One line: sections by their words, each with its leading number; the load at the right."""
    sections = [item for item in verdict.sections if item.kind == "nf"] or list(verdict.sections)
    spans: list[str | Span] = []
    for word in _ORDER:
        same = [subject for subject in sections if subject.word == word]
        if same:
            glyph, tone = _GLYPHS[word]
            spans += ["   " if spans else "", Span(f"{glyph} {word}", tone), "  "]
            spans += [", ".join(map(_headline, same))]
    if not spans:
        spans = [Span("all changed classes are gone", Tone.MUTED)]
    left, right = line(*spans), _load(sections)
    if not right.spans or left.width + right.width + 2 > width:
        return crop(left, width)
    return line(left, " " * (width - left.width - right.width), right)


def _headline(subject: VerdictSection) -> str:
    """`vpp +10% Mpps`: the first row that has the section's word."""
    name = _name(subject)
    row = next((row for row in subject.rows if row.word == subject.word), None)
    if row is None or subject.word not in DIFFERS or isinstance(row.change_ratio, Missing):
        return name
    return f"{name} {fmt.number(row.change_ratio, Unit.CHANGE, 7)} {_label(row)}"


def _load(sections: Sequence[VerdictSection]) -> Line:
    """By how much offered load moved, if the samples show that it did."""
    moved = [
        f"{_name(subject)} {fmt.number(subject.offered_ratio, Unit.CHANGE, 7)}"
        for subject in sections
        if subject.offered_ratio is not None
    ]
    if moved:
        return line(Span("▲ offered load moved: ", Tone.WARN), ", ".join(moved))
    steady = any(row.word in (*DIFFERS, "no difference") for item in sections for row in item.rows)
    nfs = any(subject.kind == "nf" for subject in sections)
    return line(Span("offered load steady", Tone.MUTED)) if nfs and steady else line()


def _progress(verdict: Verdict) -> str:
    """Age, samples so far, and what ends them."""
    left_out = f"{verdict.left_out_s:.0f} s of settling left out"
    if verdict.over and not verdict.settled:
        end = "the next change came" if verdict.taken_back_s is None else "it was taken back"
        return f"not settled when {end}"
    if not verdict.settled:
        return f"{verdict.age_s:.0f} s after it: settling"
    if verdict.over:
        back = verdict.taken_back_s
        how = "final" if back is None else f"final: taken back after {back:.0f} s"
        return f"{how}, {left_out}"
    samples = max((row.n_after for subject in verdict.sections for row in subject.rows), default=0)
    return (
        f"{verdict.age_s:.0f} s after it: {left_out}, {counted(samples, 'sample')}; "
        f"up to {verdict.span_s:.0f} s"
    )


def _notes(verdict: Verdict, width: int) -> list[Line]:
    lead = line(Span("▲ ", Tone.WARN))
    return [item for note in verdict.notes for item in paragraph(note, width, lead=lead)]


def _name(subject: VerdictSection) -> str:
    return f"class {group_name(subject.name)}" if subject.kind == "class" else subject.name


def _label(row: Compared) -> str:
    """Name of the value with its unit."""
    if row.metric.unit is Unit.PACKETS_PER_S:
        return "drop Mpps" if row.metric.id.startswith("drop") else "Mpps"
    unit = _UNITS.get(row.metric.unit, "")
    return f"{row.metric.label} {unit}" if unit and unit != row.metric.label else row.metric.label


class _Columns(NamedTuple):
    """Widths; 0 leaves a column out."""

    name: int
    label: int
    value: int
    change: int
    counts: int
    spread: int
    picture: int

    @property
    def words(self) -> int:
        """First cell of the words."""
        fixed = self.name + self.label + 2 * self.value + self.change + self.counts + self.spread
        return fixed + (self.picture + 4 if self.picture else 2)


_PICTURE_LEAST, _PICTURE_MOST = 12, 40
_WORDS_LEAST = 26


def _columns_for(width: int) -> _Columns:
    name = 10 if width < 70 else 18
    label = 10
    wide = _Columns(name, label, 8, 7, 9, 15 if width >= 160 else 0, 0)
    for columns in (wide, wide._replace(counts=0), wide._replace(counts=0, name=2)):
        if columns.words + _WORDS_LEAST // 2 <= width:
            room = width - columns.words - 2 - _WORDS_LEAST
            picture = min(_PICTURE_MOST, room) if room >= _PICTURE_LEAST else 0
            return columns._replace(picture=picture)
    return _Columns(2, 9, 7, 0, 0, 0, 0)


def _table(verdict: Verdict, frame: Frame, width: int, *, brief: bool) -> list[Line]:
    columns = _columns_for(width)
    styles = styles_of(frame.groups)
    lines = [_head(columns)] if verdict.sections else []
    # What forwards packets first; of one kind what was changed.
    for at, subject in enumerate(sorted(verdict.sections, key=lambda item: item.kind != "nf")):
        if brief:
            same = [row for row in subject.rows if row.word == subject.word]
            leading = [row for row in same if not at and row.word in DIFFERS] or same[:1]
            subject = replace(subject, rows=tuple(leading))  # noqa: PLW2901 - fewer of its rows
        style = styles.get(subject.groups[0]) if subject.groups else None
        lines += _section(subject, style, columns, width)
    return lines


def _head(columns: _Columns) -> Line:
    texts = [
        fit("  NF, CLASS" if columns.name > 2 else "", columns.name),
        fit("VALUE", columns.label),
        fit("BEFORE", columns.value, right=True),
        fit("AFTER", columns.value, right=True),
        fit("CHANGE" if columns.change else "", columns.change, right=True),
        fit("n" if columns.counts else "", columns.counts, right=True),
        fit("+-" if columns.spread else "", columns.spread, right=True),
        f"  {fit('│ before ┃ after', columns.picture)}" if columns.picture else "",
    ]
    return line(Span("".join(texts), Tone.HEADER), fill=Tone.HEADER)


def _section(
    subject: VerdictSection, style: ClassStyle | None, columns: _Columns, width: int
) -> Iterator[Line]:
    """Rows of a section; reasons that do not fit beside them are below."""
    hue = Tone.MUTED if style is None else style.hue
    reasons: dict[str, list[str]] = {}
    if columns.name <= 2:
        yield line(Span("■ ", hue), Span(_name(subject), Tone.STRONG))
    rows = [row for row in subject.rows if row.n_before or row.n_after]
    for row in subject.rows:
        if row not in rows:
            reasons.setdefault(row.why, []).append(_label(row))
    for index, row in enumerate(rows):
        first = index == 0 and columns.name > 2
        words = line(*_words(row))
        if columns.words + words.width > width:
            reasons.setdefault(row.why, []).append(_label(row))
            glyph, tone = _GLYPHS[row.word]
            words = line(Span(f"{glyph} {row.word}", tone))
        yield line(
            Span("■ " if first else "  ", hue),
            Span(_cell(_name(subject) if first else "", columns.name - 2), Tone.STRONG),
            *_numbers(row, columns),
            words,
        )
    if not rows and columns.name > 2:
        yield line(Span("■ ", hue), Span(_name(subject), Tone.STRONG))
    for why, labels in reasons.items():
        text = f"{', '.join(labels)}: {why}"
        yield from paragraph(text, width, lead=line("  "), tone=Tone.MUTED)


def _cell(text: str, width: int) -> str:
    """A text and a blank in `width` cells."""
    return f"{fit(text, width - 1)} " if width > 0 else ""


def _numbers(row: Compared, columns: _Columns) -> list[Span]:
    unit, differs = row.metric.unit, row.word in DIFFERS
    _, tone = _GLYPHS[row.word]
    change = ""
    if not isinstance(row.change_ratio, Missing):
        change = fmt.number(row.change_ratio, Unit.CHANGE, max(0, columns.change - 1))
    counts = f"{row.n_before}/{row.n_after}"
    spans = [
        Span(_cell(_label(row), columns.label), Tone.MUTED),
        _value(row.before, unit, columns.value, bound=row.bounds[0]),
        _value(row.after, unit, columns.value, bound=row.bounds[1], strong=differs),
        Span(fit(change, columns.change, right=True), tone if differs else Tone.MUTED),
        Span(fit(counts if columns.counts else "", columns.counts, right=True), Tone.MUTED),
        Span(fit(_spread(row) if columns.spread else "", columns.spread, right=True), Tone.MUTED),
    ]
    if columns.picture:
        picture = histogram(*row.samples, columns.picture, tone if differs else Tone.PLAIN)
        return [*spans, Span("  ", Tone.PLAIN), *picture, Span("  ", Tone.PLAIN)]
    return [*spans, Span("  ", Tone.PLAIN)]


def _value(reading: Reading, unit: Unit, width: int, *, bound: bool, strong: bool = False) -> Span:
    text = fit(fmt.cell(reading, unit, width - 1, bound=bound), width, right=True)
    if isinstance(reading, Missing):
        return Span(text, Tone.MISSING)
    return Span(text, Tone.STRONG if strong else Tone.PLAIN)


def _spread(row: Compared) -> str:
    both = (row.spread_before, row.spread_after)
    return "/".join(fmt.cell(item, row.metric.unit, 6) for item in both)


def _words(row: Compared) -> list[str | Span]:
    glyph, tone = _GLYPHS[row.word]
    why = row.why
    if row.word == "no difference" and not isinstance(row.detectable_ratio, Missing):
        return [Span(f"{glyph} {row.word} over {row.detectable_ratio:.1%}", tone)]
    return [Span(f"{glyph} {row.word}", tone), Span(f": {why}" if why else "", Tone.MUTED)]


def histogram(
    before: Sequence[float], after: Sequence[float], width: int, tone: Tone
) -> list[Span]:
    """Distributions of two samples on one axis: bars, `│` median before, `┃` median after.

    The axis spans the 2nd to the 98th percentile of both, and 5 % of the values at least; samples
    beyond it count at its ends.
    """
    both = [item for item in (before, after) if item]
    if not both:
        return [Span(" " * width, Tone.PLAIN)]
    low = min(quantile(np.sort(item), 0.02) for item in both)
    high = max(quantile(np.sort(item), 0.98) for item in both)
    if not math.isfinite(high - low):
        return [Span(" " * width, Tone.PLAIN)]
    middle = (low + high) / 2
    # Noise alone does not fill the axis.
    least = _AXIS_LEAST_RATIO * abs(middle) or 1.0
    if high - low < least:
        low, high = middle - least / 2, middle + least / 2

    def cell_of(values: Sequence[float]) -> NDArray[np.int64]:
        scaled = (np.array(values) - low) / (high - low) * (width - 1)
        return np.clip(np.rint(scaled), 0, width - 1).astype(np.int64)

    heights, medians = [], []
    for values in (before, after):
        counts = np.bincount(cell_of(values), minlength=width) if values else np.zeros(width)
        heights.append(np.ceil(counts / max(1, counts.max()) * len(BLOCKS)).astype(np.int64))
        medians.append(int(cell_of([median(values)])[0]) if values else -1)
    spans = []
    for at in range(width):
        was, now = int(heights[0][at]), int(heights[1][at])
        if at == medians[1]:
            spans.append(Span("┃", tone))
        elif at == medians[0]:
            spans.append(Span("│", Tone.STRONG))
        elif was or now:
            spans.append(Span(BLOCKS[max(was, now) - 1], Tone.MUTED if was >= now else tone))
        else:
            spans.append(Span("·", Tone.FAINT))
    return spans


LEAST_LINES, MOST_LINES = 6, 14  # head, graph, axis
_BEFORE_S, _AFTER_S, _MOST_AFTER_S = 90, 45, 180
_LABEL, _LAST = 7, 8  # cells of the axis at the left, of the last value at the right
_LEAST_WIDTH = 50
_FROM_ZERO = 0.5  # an axis starts at 0 unless all values are above this share of the highest
_LEAST_RATIO = 0.05  # of the values, the axis at least


@dataclass(frozen=True, slots=True)
class _Span:
    """Time axis: seconds relative to the change, of the first and last dot, and its marks."""

    begin_s: float
    end_s: float
    now_s: float
    back_s: float | None
    is_back: bool

    def dot(self, at_s: float, dots: int) -> int:
        """Column of dots of a time."""
        share = (at_s - self.begin_s) / (self.end_s - self.begin_s)
        return max(0, min(dots - 1, round(share * (dots - 1))))


def watched(verdict: Verdict) -> VerdictSection | None:
    """The network function to draw: one that differs, of a changed class first."""
    nfs = [item for item in verdict.sections if item.kind == "nf" and item.key is not None]
    return min(nfs, key=lambda item: (item.word not in DIFFERS, not item.changed), default=None)


def graph_lines(
    window: Window,
    verdict: Verdict,
    term: Term,
    width: int,
    height: int,
    *,
    number: int | None = None,
) -> list[Line]:
    """Packets per second around the change, in `height` lines; none without a network function.

    Marks: the change, now, and the moment at which it is or was taken back.

    Args:
        window: what is remembered.
        verdict: about the change.
        term: what ends the change.
        width: cells of a line.
        height: lines of all.
        number: of the change in nftop's history.
    """
    subject = watched(verdict)
    if subject is None or height < LEAST_LINES or width < _LEAST_WIDTH:
        return []
    times_ns, values = _samples(window, subject)
    if len(values) < 2:
        return []
    height = min(height, MOST_LINES)
    axis = _axis_of(window.frame.monotonic_ns, verdict, term)
    columns = width - _LABEL - 1 - _LAST
    shown = _resampled(times_ns, values, verdict.changed_at_ns, axis, 2 * columns)
    if not np.isfinite(shown).any():
        return []
    low, high = _scale(shown)
    note = f"axis {low:g} to {high:g}" + (", not from 0" if low else "")
    head = rule_line(f"{subject.name}, Mpps", note, width)
    rows = height - 2
    body = _body(shown, axis, (low, high), (columns, rows), subject)
    return [crop(item, width) for item in (head, *body, _marks(axis, columns, number))]


def _samples(window: Window, subject: VerdictSection) -> tuple[Times, Floats]:
    """Times and Mpps of new samples."""
    track = window.nfs
    if subject.key is None or subject.key not in track.rows:
        return np.empty(0, np.int64), np.empty(0)
    values = track.of(subject.key, "packets_per_s")
    new = track.new(subject.key) & np.isfinite(values)
    return track.times_ns[new], values[new] / 1e6


def _axis_of(now_ns: int, verdict: Verdict, term: Term) -> _Span:
    def after_s(at_ns: int) -> float:
        return (at_ns - verdict.changed_at_ns) / NS_PER_S

    now_s = max(0.0, after_s(now_ns))
    is_back = term.taken_back_ns is not None
    at_ns = term.taken_back_ns if is_back else term.until_ns
    back_s = None if at_ns is None else max(0.0, after_s(at_ns))
    end_s = max(_AFTER_S, now_s, 0.0 if back_s is None else back_s)
    if is_back and back_s is not None:
        end_s = min(end_s, back_s + _AFTER_S)
    # The window of the verdict ends the graph.
    return _Span(-_BEFORE_S, min(end_s, _MOST_AFTER_S), now_s, back_s, is_back)


def _resampled(
    times_ns: Times, values: Floats, changed_at_ns: int, axis: _Span, dots: int
) -> Floats:
    """float64 (dots,), interpolated between samples; NaN in pauses and outside of the samples."""
    at_s = (times_ns - changed_at_ns) / NS_PER_S
    wanted = np.linspace(axis.begin_s, axis.end_s, dots)
    shown = np.interp(wanted, at_s, values, left=np.nan, right=np.nan)
    spacing = median(np.diff(at_s))
    after = np.clip(np.searchsorted(at_s, wanted), 1, len(at_s) - 1)
    paused = at_s[after] - at_s[after - 1] > max(4 * spacing, 3.0)
    return np.where(paused, np.nan, shown)


def _scale(values: Floats) -> tuple[float, float]:
    """Round ends of the axis; it starts at 0 unless the values are far from it."""
    least, most = float(np.nanmin(values)), float(np.nanmax(values))
    # Noise alone does not fill the axis.
    widened = max(0.0, _LEAST_RATIO * most - (most - least)) / 2
    least, most = max(0.0, least - widened), most + widened
    base = least if least > _FROM_ZERO * most else 0.0
    step = 10.0 ** math.floor(math.log10(max(most - base, 1e-6)))
    step = step / 2 if (most - base) / step < 3 else step
    low = math.floor(base / step) * step
    high = math.ceil(most / step) * step
    return round(low, 9), round(max(high, low + step), 9)


def _body(
    shown: Floats,
    axis: _Span,
    ends: tuple[float, float],
    size: tuple[int, int],
    subject: VerdictSection,
) -> list[Line]:
    columns, rows = size
    low, high = ends
    drawn = line_rows(shown.astype(np.float32), low, high, rows)
    change_at = axis.dot(0, 2 * columns) // 2
    now_at = axis.dot(axis.now_s, 2 * columns) // 2
    back_at = None if axis.back_s is None else axis.dot(axis.back_s, 2 * columns) // 2
    tone = {"better": Tone.GOOD, "worse": Tone.BAD}.get(subject.word, Tone.ACCENT)
    last = shown[np.isfinite(shown)][-1]
    last_row = rows - 1 - min(rows - 1, max(0, int((last - low) / (high - low) * rows)))
    lines = []
    for row in range(rows):
        label = f"{high:g}" if row == 0 else f"{low:g}" if row == rows - 1 else ""
        spans = [
            Span(fit(label, _LABEL - 1, right=True), Tone.MUTED),
            Span("┤" if label else "│", Tone.FAINT),
        ]
        for column in range(columns):
            if (dots := drawn[row][column]) != " ":
                spans.append(Span(dots, tone if column >= change_at else Tone.PLAIN))
            elif column == back_at:
                pending = Tone.ACCENT if axis.is_back else Tone.PENDING_TEXT
                spans.append(Span("┊" if axis.is_back else "▌", pending))
            elif column == change_at:
                spans.append(Span("┊", Tone.ACCENT))
            elif not axis.is_back and back_at is not None and now_at < column < back_at:
                spans.append(Span(HATCH if (column + row) % 2 else " ", Tone.FAINT))
            else:
                spans.append(Span(" ", Tone.PLAIN))
        value = f" {last:.3g}" if row == last_row else ""
        lines.append(line(*spans, Span(fit(value, _LAST), Tone.STRONG)))
    return lines


def _marks(axis: _Span, columns: int, number: int | None) -> Line:
    """Labels below the axis; a label that would overlap another is left out."""
    name = "change" if number is None else f"change {number}"
    marks: list[tuple[float, str, Tone]] = [(0.0, f"◆ {name}", Tone.ACCENT)]
    if axis.back_s is not None:
        left_s = axis.back_s - axis.now_s
        if axis.is_back:
            marks.append((axis.back_s, "◇ taken back", Tone.ACCENT))
        elif left_s > 0:
            marks.append((axis.back_s, f"in {left_s:.0f} s: back, unless K", Tone.PENDING_TEXT))
    marks.append((axis.begin_s, f"{axis.begin_s:.0f} s", Tone.MUTED))
    if axis.now_s <= axis.end_s:
        marks.append((axis.now_s, "now", Tone.STRONG))
    taken: list[tuple[int, str, Tone]] = []
    room = columns + _LAST
    for at_s, text, tone in marks:
        begin = axis.dot(at_s, 2 * columns) // 2 - (1 if at_s == axis.now_s else 0)
        begin = max(0, min(begin, room - cells(text)))
        if all(begin > at + cells(other) or begin + cells(text) < at for at, other, _ in taken):
            taken.append((begin, text, tone))
    spans: list[str | Span] = [" " * _LABEL]
    at = 0
    for begin, text, tone in sorted(taken, key=lambda item: item[0]):
        spans += [" " * (begin - at), Span(text, tone)]
        at = begin + cells(text)
    return line(*spans)
