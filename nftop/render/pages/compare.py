"""Comparison of two intervals of recordings, as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from nftop.derive.compare.intervals import RULE_BLOCKS, Entity, EntityRow, Interval
from nftop.derive.compare.intervals_report import Comparison, EntityReport
from nftop.derive.compare.metric import RULE, Compared, percent
from nftop.model.metrics.metric import Unit
from nftop.model.missing import Missing, Reading
from nftop.render.base.format import cell
from nftop.render.base.text import fit, printable, wrap

_KINDS = {"nf": "network function", "class": "class", "package": "package"}
_NUMBER, _SPREAD, _COUNT, _LABEL = 9, 8, 6, 8
# Units of numbers whose cells do not show them.
_UNITS = {
    Unit.PER_CYCLE: "/cycle",
    Unit.CYCLES: "cycles",
    Unit.INSTRUCTIONS: "instr.",
    Unit.PACKETS_PER_S: "Mpps",
    Unit.PER_S: "/s",
    Unit.REQUESTS_PER_S: "M/s",
    Unit.PER_PACKET: "/packet",
    Unit.BYTES_PER_PACKET: "B/packet",
    Unit.BYTES_PER_S: "GB/s",
    Unit.BYTES: "MiB",
}
_WIDTH = 100
_SIDES = "".join(f"  {side:>{_NUMBER}} {'±':>{_SPREAD}} {'n':>{_COUNT}}" for side in "AB")
_HEAD = f"  {'':{_LABEL}} {'':7}{_SIDES}  {'change':>8}"


def interval_line(name: str, file: str, host: str, interval: Interval, *, simulated: bool) -> str:
    """`A  edge.nftop  edge-07  2026-01-31 03:12:07 - 03:22:07 UTC  600 ticks`."""
    first, last = (
        datetime.fromtimestamp(item // 1_000_000_000, UTC)
        for item in (interval.first_ns, interval.last_ns)
    )
    until = f"{last:%H:%M:%S}" if first.date() == last.date() else f"{last:%Y-%m-%d %H:%M:%S}"
    badge = "  SIMULATED" if simulated else ""
    times = f"{first:%Y-%m-%d %H:%M:%S} - {until} UTC"
    shown = f"{printable(file)}  {printable(host)}"
    return f"{name}  {shown}  {times}  {interval.ticks} ticks{badge}"


def comparison_text(comparison: Comparison, notes: Iterable[str]) -> str:
    """The comparison as text, below the lines of the intervals."""
    lines = [line for note in notes for line in _hanging("note: ", note)]
    for section in comparison.parts:
        lines += ["", *_section(section)]
    if not comparison.parts:
        lines += ["", "nothing is in both intervals"]
    for name, things in (("A", comparison.only_a), ("B", comparison.only_b)):
        if things:
            listed = ", ".join(_name(item) for item in things)
            lines += ["", *_hanging(f"only in {name}: ", listed)]
    lines += ["", *_hanging("", f"±: median absolute deviation; n: samples. {RULE}; {RULE_BLOCKS}")]
    return "\n".join(lines) + "\n"


def _hanging(first: str, text: str) -> Iterator[str]:
    for at, line in enumerate(wrap(text, _WIDTH - len(first))):
        yield (first if not at else " " * len(first)) + line


def _name(subject: Entity) -> str:
    of = f" ({printable(subject.of)})" if subject.of else ""
    return f"{_KINDS[subject.kind]} {printable(subject.name)}{of}"


def _section(section: EntityReport) -> Iterator[str]:
    word = ""
    if section.entity.kind == "nf":
        word = f": {section.word}" + (f": {section.why}" if section.why else "")
    yield from _hanging("", f"{_name(section.entity)}{word}")
    for note in section.notes:
        yield from _hanging("  ", note)
    shown = [row for row in section.rows if row.result.n_before or row.result.n_after]
    if section.entity.kind == "class" and all(map(_nothing, shown)):
        yield "  nothing in it, in A and in B"
    elif shown:
        yield _HEAD
        yield from map(_row, shown)
    yield from _reasons("", [row.result for row in shown if row.result.why])
    yield from _reasons("no ", [row.result for row in section.rows if row not in shown])


def _nothing(row: EntityRow) -> bool:
    """Whether a row is 0 in both intervals, or an unchanged capacity."""
    compared = row.result
    if compared.metric.id == "capacity_bytes":
        return compared.before == compared.after
    return (compared.before, compared.after) == (0.0, 0.0)


def _reasons(first: str, rows: Iterable[Compared]) -> Iterator[str]:
    """`CPP, IPC: why`, each reason once."""
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        by_reason.setdefault(row.why, []).append(row.metric.label)
    for why, labels in by_reason.items():
        yield from _hanging("  ", f"{first}{', '.join(labels)}: {why}")


def _row(row: EntityRow) -> str:
    compared = row.result
    unit = compared.metric.unit
    was, now = compared.bounds
    before = _side(compared.before, compared.spread_before, compared.n_before, unit, bound=was)
    after = _side(compared.after, compared.spread_after, compared.n_after, unit, bound=now)
    label = f"{fit(compared.metric.label, _LABEL)} {_UNITS.get(unit, ''):7}"
    return f"  {label}{before}{after}  {_change(compared):>8}  {compared.word}"


def _side(middle: Reading, spread: Reading, count: int, unit: Unit, *, bound: bool) -> str:
    numbers = cell(middle, unit, _NUMBER, bound=bound), cell(spread, unit, _SPREAD)
    return f"  {numbers[0]:>{_NUMBER}} {numbers[1]:>{_SPREAD}} {count:>{_COUNT}}"


def _change(compared: Compared) -> str:
    ratio = compared.change_ratio
    return "-" if isinstance(ratio, Missing) else percent(ratio)
