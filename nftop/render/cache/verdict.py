"""Verdict on a change of cache classes: words, numbers, distributions and a graph."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from nftop.derive.compare.metric import DIFFERS, RULE_EVERY_TICK, Compared, Word
from nftop.derive.compare.settling import LEAST_S, MOST_S, SPAN_S
from nftop.derive.compare.verdict import Verdict, VerdictSection
from nftop.model.change import OwnChange
from nftop.model.frame import Frame
from nftop.model.metrics.metric import Unit
from nftop.model.missing import Missing, Reading
from nftop.render.base import format as fmt
from nftop.render.base.line import Line, Span, Tone, crop, line, paragraph
from nftop.render.base.table import rule_line
from nftop.render.base.text import fit
from nftop.render.cache.panel import group_name
from nftop.render.cache.way_cells import ClassLook, looks_of
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
    (
        "settling",
        f"the first {LEAST_S} to {MOST_S} s do not count, until occupancy is stable",
    ),
    (
        "load moved",
        "the offered load changed, so cycles and misses per packet do not compare",
    ),
)
_UNITS = {
    Unit.BYTES: "MiB", Unit.BYTES_PER_S: "GB/s", Unit.PACKETS_PER_S: "Mpps",
}  # fmt: skip
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
_BLOCKS = "▁▂▃▄▅▆▇█"


def card(
    verdict: Verdict,
    frame: Frame,
    width: int,
    own_changes: Sequence[OwnChange],
    number: int | None = None,
) -> list[Line]:
    """The verdict: what it is about, its words in a line, a row per metric.

    `number`: of the change in nftop's history; None if it has none.
    """
    which = "LAST CHANGE" if number is None else f"CHANGE {number}"
    head = rule_line(f"VERDICT ON {which}", _progress(verdict), width)
    changes = [noticed_line(item, own_changes) for item in reversed(verdict.noticed)]
    more = len(changes) - _MOST_CHANGES
    left_out = [line(Span(f"+ {more} changes before", Tone.MUTED))] if more > 0 else []
    lines = [head, summary(verdict, width), *_notes(verdict, width)]
    lines += [*changes[:_MOST_CHANGES], *left_out, *_table(verdict, frame, width)]
    return [crop(item, width) for item in lines]


def summary(verdict: Verdict, width: int) -> Line:
    """One line: sections by their words, each with its leading number; the load at the right."""
    parts = [subject for subject in verdict.parts if subject.kind == "nf"] or list(verdict.parts)
    spans: list[str | Span] = []
    for word in _ORDER:
        same = [subject for subject in parts if subject.word == word]
        if same:
            glyph, tone = _GLYPHS[word]
            spans += ["   " if spans else "", Span(f"{glyph} {word}", tone), "  "]
            spans += [", ".join(map(_headline, same))]
    if not spans:
        spans = [Span("all changed classes are gone", Tone.MUTED)]
    left, right = line(*spans), _load(parts)
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


def _load(parts: Sequence[VerdictSection]) -> Line:
    """By how much offered load moved, if the samples show that it did."""
    moved = [
        f"{_name(subject)} {fmt.number(subject.offered_ratio, Unit.CHANGE, 7)}"
        for subject in parts
        if subject.offered_ratio is not None
    ]
    if moved:
        return line(Span("▲ offered load moved: ", Tone.WARN), ", ".join(moved))
    steady = any(row.word in (*DIFFERS, "no difference") for item in parts for row in item.rows)
    nfs = any(subject.kind == "nf" for subject in parts)
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
    samples = max((row.n_after for subject in verdict.parts for row in subject.rows), default=0)
    return (
        f"{verdict.age_s:.0f} s after it: {left_out}, {samples} samples; "
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


def _table(verdict: Verdict, frame: Frame, width: int) -> list[Line]:
    columns = _columns_for(width)
    looks = looks_of(frame.groups)
    lines = [_head(columns)] if verdict.parts else []
    # What forwards packets first; of one kind what was changed.
    for subject in sorted(verdict.parts, key=lambda item: item.kind != "nf"):
        look = looks.get(subject.groups[0]) if subject.groups else None
        lines += _section(subject, look, columns, width)
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
    subject: VerdictSection, look: ClassLook | None, columns: _Columns, width: int
) -> Iterator[Line]:
    """Rows of a section; reasons that do not fit beside them are below."""
    hue = Tone.MUTED if look is None else look.hue
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
    low = min(float(np.percentile(item, 2)) for item in both)
    high = max(float(np.percentile(item, 98)) for item in both)
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
        heights.append(np.ceil(counts / max(1, counts.max()) * len(_BLOCKS)).astype(np.int64))
        medians.append(int(cell_of([float(np.median(values))])[0]) if values else -1)
    spans = []
    for at in range(width):
        was, now = int(heights[0][at]), int(heights[1][at])
        if at == medians[1]:
            spans.append(Span("┃", tone))
        elif at == medians[0]:
            spans.append(Span("│", Tone.STRONG))
        elif was or now:
            spans.append(Span(_BLOCKS[max(was, now) - 1], Tone.MUTED if was >= now else tone))
        else:
            spans.append(Span("·", Tone.FAINT))
    return spans
