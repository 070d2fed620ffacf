"""Two intervals of recordings beside each other, as text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime

from nftop.derive.compare.intervals import RULE_BLOCKS, Interval, Row, Thing
from nftop.derive.compare.intervals_report import Comparison, Part
from nftop.derive.compare.metric import RULE, Compared, percent
from nftop.model.metrics.metric import Unit
from nftop.model.reading import Missing, Reading
from nftop.render.base.format import cell
from nftop.render.base.text import fit, printable, wrap

_KINDS = {"nf": "network function", "class": "class", "package": "package"}
_NUMBER, _SPREAD, _COUNT, _LABEL = 9, 8, 6, 8
# What a column of numbers is in, where cells do not say.
_UNITS = {
    Unit.PER_CYCLE: "/cycle",
    Unit.CYCLES: "cycles",
    Unit.INSTRUCTIONS: "instr.",
    Unit.PACKETS_PER_S: "Mpps",
    Unit.PER_S: "/s",
    Unit.REQUESTS_PER_S: "M/s",
    Unit.PER_PACKET: "/packet",
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


def comparison_text(found: Comparison, notes: Iterable[str]) -> str:
    """All of it, each line with its end; below the lines of the intervals."""
    lines = [line for note in notes for line in _hanging("note: ", note)]
    for part in found.parts:
        lines += ["", *_part(part)]
    if not found.parts:
        lines += ["", "nothing is in both intervals"]
    for name, things in (("A", found.only_a), ("B", found.only_b)):
        if things:
            listed = ", ".join(_name(item) for item in things)
            lines += ["", *_hanging(f"only in {name}: ", listed)]
    lines += ["", *_hanging("", f"±: median absolute deviation; n: samples. {RULE}; {RULE_BLOCKS}")]
    return "\n".join(lines) + "\n"


def _hanging(first: str, text: str) -> Iterator[str]:
    for at, line in enumerate(wrap(text, _WIDTH - len(first))):
        yield (first if not at else " " * len(first)) + line


def _name(thing: Thing) -> str:
    of = f" ({printable(thing.of)})" if thing.of else ""
    return f"{_KINDS[thing.kind]} {printable(thing.name)}{of}"


def _part(part: Part) -> Iterator[str]:
    word = ""
    if part.thing.kind == "nf":
        word = f": {part.word}" + (f": {part.why}" if part.why else "")
    yield from _hanging("", f"{_name(part.thing)}{word}")
    for note in part.notes:
        yield from _hanging("  ", note)
    told = [row for row in part.rows if row.found.n_before or row.found.n_after]
    if part.thing.kind == "class" and all(map(_nothing, told)):
        yield "  nothing in it, in A and in B"
    elif told:
        yield _HEAD
        yield from map(_row, told)
    yield from _reasons("", [row.found for row in told if row.found.why])
    yield from _reasons("no ", [row.found for row in part.rows if row not in told])


def _nothing(row: Row) -> bool:
    """It is 0 most of the time, or how much there could be and that is the same."""
    found = row.found
    if found.metric.id == "capacity_bytes":
        return found.before == found.after
    return (found.before, found.after) == (0.0, 0.0)


def _reasons(first: str, rows: Iterable[Compared]) -> Iterator[str]:
    """`CPP, IPC: why`, each reason once."""
    by_reason: dict[str, list[str]] = {}
    for row in rows:
        by_reason.setdefault(row.why, []).append(row.metric.label)
    for why, labels in by_reason.items():
        yield from _hanging("  ", f"{first}{', '.join(labels)}: {why}")


def _row(row: Row) -> str:
    found = row.found
    unit = found.metric.unit
    before = _side(found.before, found.spread_before, found.n_before, unit)
    after = _side(found.after, found.spread_after, found.n_after, unit)
    label = f"{fit(found.metric.label, _LABEL)} {_UNITS.get(unit, ''):7}"
    return f"  {label}{before}{after}  {_change(found):>8}  {found.word}"


def _side(middle: Reading, spread: Reading, count: int, unit: Unit) -> str:
    numbers = cell(middle, unit, _NUMBER), cell(spread, unit, _SPREAD)
    return f"  {numbers[0]:>{_NUMBER}} {numbers[1]:>{_SPREAD}} {count:>{_COUNT}}"


def _change(found: Compared) -> str:
    ratio = found.change_ratio
    return "-" if isinstance(ratio, Missing) else percent(ratio)
