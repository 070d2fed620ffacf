"""Comparison of two intervals of recordings, or of many hosts before and after, as text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from nftop.derive.compare.hosts import (
    HOSTS_NEEDED,
    RULE_HOSTS,
    HostsComparison,
    HostsReport,
    HostsRow,
    LeftOut,
)
from nftop.derive.compare.intervals import RULE_BLOCKS, Entity, EntityRow, Interval
from nftop.derive.compare.intervals_report import Comparison, EntityReport
from nftop.derive.compare.metric import DIFFERS, RULE, Compared, percent
from nftop.model.metrics.metric import Unit
from nftop.model.missing import Missing, Reading
from nftop.model.number_text import counted
from nftop.model.struct import replace
from nftop.render.base.format import cell, number
from nftop.render.base.text import cells, fit, printable, wrap

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
# Names of hosts in a list, and cells of one: `printable` cuts a text at 2,000 characters.
_MOST_LISTED, _LONGEST_NAME = 20, 64
_LONGEST_TEXT = 1500  # with further reasons appended
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
    return f"{name}  {shown}  {times}  {counted(interval.ticks, 'tick')}{badge}"


_HOSTS_HEAD = (
    f"  {'':{_LABEL}} {'':7} {'hosts':>5}  {'before':>{_NUMBER}}  {'after':>{_NUMBER}}"
    f"  {'change':>8}  {'95 % interval':>20}"
)


def hosts_text(
    result: HostsComparison,
    left_out: Iterable[LeftOut],
    notes: Mapping[str, Sequence[str]],
    simulated: Collection[str],
    unread: Iterable[tuple[str, str]] = (),
) -> str:
    """Hosts before and after a change.

    Args:
        result: of all hosts.
        left_out: hosts that are no pair.
        notes: each with its hosts.
        simulated: names of the hosts that are.
        unread: files that can't be read, and why.
    """
    count, few = len(result.hosts), 0 < len(simulated) < len(result.hosts)
    badge = f"{f'{len(simulated)} ' * few}SIMULATED  " if simulated else ""
    lines = [
        *_hanging(
            f"{counted(count, 'host')}  {badge}",
            _listed(result.hosts, simulated if few else ()),
        )
    ]
    for file, why in unread:
        lines += _hanging("not read: ", f"{printable(file)}: {printable(why)}")
    lines += _left_out("left out: ", left_out, 0)
    for note, hosts_of in notes.items():
        lines += _hanging("note: ", f"{_listed(hosts_of)}: {note}")
    for section in result.reports:
        lines += ["", *_hosts_section(section, len(result.hosts))]
    tested, needed = result.tested, result.needed
    shows = f"; a single one of them that changes on every host shows from {needed} hosts on"
    shows += f", all of them together from {HOSTS_NEEDED} on"
    numbers = f"{counted(tested, 'number')}{shows * (tested > 0)}"
    lines += ["", *_hanging("", f"{RULE_HOSTS}. Tested: {numbers}")]
    return "\n".join(lines) + "\n"


def _hosts_section(section: HostsReport, hosts: int) -> Iterator[str]:
    word = f": {section.word}" + (f": {printable(section.why)}" if section.why else "")
    yield from _hanging("", f"{_name(section.entity)}{word if section.entity.kind == 'nf' else ''}")
    yield from _left_out("left out: ", section.left_out, hosts)
    yield from (line for note in section.notes for line in _hanging("  ", note))
    shown = [row for row in section.rows if row.changes]
    if shown and section.entity.kind == "class" and all(map(_nothing_on_hosts, shown)):
        yield "  nothing in it, before and after"
    elif shown:
        yield _HOSTS_HEAD
        yield from map(_hosts_row, shown)
    alone: dict[tuple[str, ...], list[str]] = {}
    for row in shown:
        label, decided = row.result.metric.label, row.result.word in DIFFERS
        if row.against and decided:
            yield from _hanging(f"  {label}: ", f"the other way on {_listed(row.against)}")
        by_itself = [item for item in row.changes if item.word in DIFFERS and not decided]
        hosts_of = tuple(f"{item.host} {item.word}" for item in by_itself)
        alone.setdefault(hosts_of, []).append(label)
    for hosts_of, labels in alone.items():
        if hosts_of:
            yield from _hanging("  ", f"{', '.join(labels)} by itself: {_listed(hosts_of)}")
    yield from _reasons("", [row.result for row in shown if row.result.why])
    labels_of: dict[tuple[LeftOut, ...], list[str]] = {}
    for row in section.rows:
        labels_of.setdefault(row.left_out, []).append(row.result.metric.label)
    for items, labels in labels_of.items():
        yield from _left_out(f"{', '.join(labels)} without ", items, hosts)


def _left_out(first: str, items: Iterable[LeftOut], hosts: int) -> Iterator[str]:
    """`first`, then the hosts of each reason: `edge-1, edge-2 (its intervals overlap)`."""
    by_reason: dict[str, list[str]] = {}
    for item in items:
        by_reason.setdefault(item.why, []).append(item.host)
    texts: list[str] = []
    for why, names in by_reason.items():
        text = f"{f'all {hosts} hosts' if len(names) == hosts else _listed(names)} ({why})"
        if texts and len(texts[-1]) + len(text) < _LONGEST_TEXT:
            texts[-1] += f"; {text}"
        else:
            texts.append(text if texts else f"{first}{text}")
    for text in texts:
        yield from _hanging("  ", text)


def _listed(names: Sequence[str], simulated: Collection[str] = ()) -> str:
    """The first `_MOST_LISTED` of names, and how many more there are; JSON has all."""
    more = len(names) - _MOST_LISTED
    shown = ", ".join(
        fit(name, min(cells(printable(name)), _LONGEST_NAME)) + " (SIMULATED)" * (name in simulated)
        for name in names[:_MOST_LISTED]
    )
    return f"{shown} and {more} more" if more > 0 else shown


def _hosts_row(row: HostsRow) -> str:
    result, unit = row.result, row.result.metric.unit
    levels = "".join(
        f"  {cell(item, unit, _NUMBER):>{_NUMBER}}" for item in (result.before, result.after)
    )
    low, high = (_signed(item, row) for item in (row.low, row.high))
    label = f"{fit(result.metric.label, _LABEL)} {_UNITS.get(unit, ''):7}"
    against = f", {len(row.against)} against" if row.against and result.word in DIFFERS else ""
    interval = f"{low} .. {high}" if low != "-" else "-"
    return (
        f"  {label} {len(row.changes):>5}{levels}  {_signed(row.change, row):>8}"
        f"  {interval:>20}  {result.word}{against}"
    )


def _signed(reading: Reading, row: HostsRow) -> str:
    """A change in at most 8 cells: `+3.0%`, of losses `+463k`."""
    if isinstance(reading, Missing):
        return "-"
    if row.relative:
        return percent(reading)
    text = number(abs(reading), row.result.metric.unit, 7)
    return f"{'-' if reading < 0 else '+'}{text}"


def comparison_text(comparison: Comparison, notes: Iterable[str]) -> str:
    """The comparison as text, below the lines of the intervals."""
    lines = [line for note in notes for line in _hanging("note: ", note)]
    for section in comparison.reports:
        lines += ["", *_section(section)]
    if not comparison.reports:
        lines += ["", "nothing is in both intervals"]
    for name, entities in (("A", comparison.only_a), ("B", comparison.only_b)):
        if entities:
            listed = ", ".join(_name(item) for item in entities)
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
    if shown and section.entity.kind == "class" and all(_nothing(row.result) for row in shown):
        yield "  nothing in it, in A and in B"
    elif shown:
        yield _HEAD
        yield from map(_row, shown)
    yield from _reasons("", [row.result for row in shown if row.result.why])
    yield from _reasons("no ", [row.result for row in section.rows if row not in shown])


def _nothing_on_hosts(row: HostsRow) -> bool:
    """`_nothing` on every host: a median over hosts may be 0 where some have a number."""
    of_host = (replace(row.result, before=item.before, after=item.after) for item in row.changes)
    return all(map(_nothing, of_host))


def _nothing(compared: Compared) -> bool:
    """Whether a number is 0 on both sides, or an unchanged capacity."""
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
