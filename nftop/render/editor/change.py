"""Cache classes as text; a proposed change: differences, effects, objections, confirmation page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from nftop.model.change import Cell, Change, Kind, Proposal, bf_words
from nftop.model.ids import format_cpu_list, mhz_text, parse_cpu_list
from nftop.model.missing import Missing
from nftop.model.number_text import counted
from nftop.model.rdt.rdt import (
    NO_IO_ALLOC,
    SHAREABLE,
    UNLIMITED_MBPS,
    CacheDomain,
    MbaUnit,
    ResctrlGroup,
    ResctrlTable,
    class_name,
    split_path,
)
from nftop.render.base.line import BLANK, Line, Span, Tone, line, paragraph
from nftop.render.base.text import cells, fit, printable

_UNITS: Mapping[MbaUnit, str] = {"percent": " %", "MBps": " MB/s", "GBps/8": "/8 GB/s"}
_MOST_THREADS = 8


def preview(proposal: Proposal, ways: Mapping[str, int], unit: MbaUnit) -> list[str]:
    """Its differences, objections and effects.

    `ways`: number of ways by line of schemata. `unit`: of bandwidth limits.
    """
    notes = [f"note: {printable(effect)}" for effect in proposal.effects]
    return [*changed(proposal.changes, ways, unit), *against(proposal), *notes]


def changed(changes: Sequence[Change], ways: Mapping[str, int], unit: MbaUnit) -> list[str]:
    """The differences, a line each; arguments as in `preview`."""
    rows = [
        *_directories(changes),
        *_values(changes, ways, unit),
        *_io_values(changes, ways, unit),
        *_moves(changes),
        *_frequencies(changes),
        *_speed_select(changes),
    ]
    width = max((cells(row[0]) for row in rows), default=0)
    return [f"{fit(head, width)}  {old} -> {new}" for head, old, new in rows]


def setting_texts(changes: Sequence[Change]) -> list[str]:
    """Changes of frequencies and of SST, a short text each."""
    rows = [*_frequencies(changes), *_speed_select(changes)]
    return [f"{head} {old} → {new}" for head, old, new in rows]


def against(proposal: Proposal) -> list[str]:
    """Objections, which must be seen before the change is confirmed."""
    kinds = (
        ("can't", tuple(refusal.sentence for refusal in proposal.refusals)),
        ("not done", proposal.unmet),
        ("warning", proposal.warnings),
    )
    return [f"{mark}: {printable(sentence)}" for mark, sentences in kinds for sentence in sentences]


def drawn(bits: int, ways: int) -> str:
    """A mask as ways, way 0 right, and in hexadecimal."""
    picture = "".join("#" if bits >> way & 1 else "." for way in reversed(range(ways)))
    return f"{picture} {bits:0{-(-ways // 4)}x}"


def limit(value: int, unit: MbaUnit) -> str:
    """A limit on bandwidth."""
    if unit == "MBps" and value >= UNLIMITED_MBPS:
        return "no limit"
    return f"{value}{_UNITS[unit]}"


def named(where: str) -> str:
    """A control group, with its monitoring group if any."""
    return printable(class_name(*split_path(where)))


def _directories(changes: Sequence[Change]) -> Iterator[tuple[str, str, str]]:
    for change in changes:
        cell = change.cell
        if cell.kind in ("group", "monitor"):
            what = "group" if cell.kind == "group" else "monitoring group"
            name = printable(class_name(cell.group, cell.name))
            old, new = ("absent", "created") if change.old is None else ("present", "removed")
            yield f"{what} {name}", old, new


def _values(
    changes: Sequence[Change], ways: Mapping[str, int], unit: MbaUnit
) -> Iterator[tuple[str, str, str]]:
    gone = {item.cell.group for item in changes if item.cell.kind == "group" and item.new is None}
    for change in changes:
        if change.cell.kind == "schemata" and change.cell.group not in gone:
            old, new = (_value(change.cell, item, ways, unit) for item in (change.old, change.new))
            group = named(change.cell.group)
            yield f"{group} {change.cell.name} {change.cell.number}", old, new


def _io_values(
    changes: Sequence[Change], ways: Mapping[str, int], unit: MbaUnit
) -> Iterator[tuple[str, str, str]]:
    for change in changes:
        if change.cell.kind == "io_alloc":
            yield "ways of I/O (io_alloc)", change.old or "absent", change.new or "absent"
        elif change.cell.kind == "io_cbm":
            old, new = (
                "as the CPU has it" if value is None else _value(change.cell, value, ways, unit)
                for value in (change.old, change.new)
            )
            yield f"I/O L3 {change.cell.number}", old, new


def _value(cell: Cell, value: str | None, ways: Mapping[str, int], unit: MbaUnit) -> str:
    if value is None:
        return "not set"
    if cell.name == "MB":
        return limit(int(value), unit)
    bits = int(value, 16)
    return drawn(bits, max(ways.get(cell.name, 0), bits.bit_length(), 1))


def _moves(changes: Sequence[Change]) -> Iterator[tuple[str, str, str]]:
    """Moves of CPUs, then of threads; equal moves together."""
    for kind, head in (("cpu", "CPU"), ("task", "thread")):
        ways: dict[tuple[str, str], list[Cell]] = {}
        for change in changes:
            if change.cell.kind == kind and change.old is not None and change.new is not None:
                ways.setdefault((change.old, change.new), []).append(change.cell)
        for (old, new), those in ways.items():
            names = _threads(those) if kind == "task" else format_cpu_list(c.number for c in those)
            yield f"{head} {names}", named(old), named(new)


# Cells of frequencies, and the name of their row.
_ROWS: Mapping[Kind, str] = {
    "governor": "governor", "epp": "EPP", "min_khz": "min", "max_khz": "max",
}  # fmt: skip


def _frequencies(changes: Sequence[Change]) -> Iterator[tuple[str, str, str]]:
    """Grouped by new value, so that hundreds of CPUs are a few rows."""
    for kind, label in _ROWS.items():
        ways: dict[tuple[str | None, str | None], list[str]] = {}
        for change in changes:
            if change.cell.kind == kind:
                ways.setdefault((change.old, change.new), []).append(change.cell.name)
        for (old, new), names in ways.items():
            cpus = format_cpu_list(parse_cpu_list(",".join(names)))
            yield f"CPU {cpus} {label}", _frequency(kind, old), _frequency(kind, new)


def _speed_select(changes: Sequence[Change]) -> Iterator[tuple[str, str, str]]:
    ways: dict[tuple[str, str], list[int]] = {}
    for change in changes:
        old, new = (printable(value or "absent") for value in (change.old, change.new))
        if change.cell.kind == "bf":
            yield printable(bf_words(change.cell)), old, new
        elif change.cell.kind == "cp_class":
            ways.setdefault((old, new), []).append(change.cell.number)
    for (old, new), cpus in ways.items():
        yield f"CPU {format_cpu_list(cpus)} SST-CP class", old, new


def _frequency(kind: Kind, value: str | None) -> str:
    if value is None:
        return "absent"
    if value == "":
        return "as the kernel sets it"
    return mhz_text(int(value)) if kind in ("min_khz", "max_khz") else printable(value)


def _threads(those: Iterable[Cell]) -> str:
    tids = sorted(int(cell.name.partition("@")[0]) for cell in those)
    more = f" and {len(tids) - _MOST_THREADS} more" if len(tids) > _MOST_THREADS else ""
    return ",".join(map(str, tids[:_MOST_THREADS])) + more


_MARKS: Mapping[str, tuple[str, Tone]] = {
    "can't": ("✘", Tone.BAD),
    "not done": ("✘", Tone.BAD),
    "warning": ("▲", Tone.WARN),
}
_LABEL = 9  # cells of the names of sections


def confirm_lines(
    proposal: Proposal,
    writes: Sequence[str],
    width: int,
    *,
    ways: Mapping[str, int],
    unit: MbaUnit,
    obstacle: str,
    keep_within_s: float,
) -> tuple[list[Line], int]:
    """Objections, differences, writes and what `y` does; and the number of lines of objections.

    Args:
        proposal: to be confirmed.
        writes: as shell commands.
        width: cells of a line.
        ways: number of ways by line of schemata.
        unit: of bandwidth limits.
        obstacle: why it cannot be applied now; "": it can.
        keep_within_s: time to keep it.
    """
    lines = [row for item in against(proposal) for row in _objection(item, width)]
    warned = len(lines)
    lines += [BLANK] * bool(warned and proposal.changes)
    lines += _under("change", changed(proposal.changes, ways, unit), width)
    lines += _under("note", [printable(effect) for effect in proposal.effects], width, Tone.MUTED)
    # Several commands are several changes, each undone separately.
    lines += _under("writes", writes, width)
    lines += [row for text in proposal.commands for row in _under("$", [text], width, Tone.STRONG)]
    if len(proposal.commands) > 1:
        single = "each of these commands is a change of its own, undone by itself"
        lines += _under("", [single], width, Tone.MUTED)
    lines.append(BLANK)
    if obstacle:
        lead = line(Span("✘ ", Tone.BAD))
        return [*lines, *paragraph(obstacle, width, lead=lead, tone=Tone.BAD)], warned
    if proposal.final:
        meaning = "final: kept at once, and not taken back when nftop ends"
    else:
        meaning = (
            f"taken back by itself in {keep_within_s:g} s, or when nftop ends, unless K keeps it"
        )
    ask = f"applies it: locked, compared with what is shown here, written, read back; {meaning}"
    return [*lines, *paragraph(ask, width, lead=line(Span("y", Tone.ACCENT), " "))], warned


def _objection(text: str, width: int) -> list[Line]:
    mark, tone = next(
        (style for head, style in _MARKS.items() if text.startswith(f"{head}: ")), ("▲", Tone.WARN)
    )
    return paragraph(text, width, lead=line(Span(f"{mark} ", tone)), tone=tone)


def _under(label: str, texts: Sequence[str], width: int, tone: Tone = Tone.PLAIN) -> list[Line]:
    """Texts beside the name of their section."""
    shown = (text.replace(" -> ", " → ") for text in texts)
    rows = [row for text in shown for row in paragraph(text, width - _LABEL, tone=tone)]
    leads = [Span(f"{label:<{_LABEL}}", Tone.MUTED)]
    leads += [Span(" " * _LABEL, Tone.PLAIN)] * len(rows)
    return [line(lead, row) for lead, row in zip(leads, rows, strict=False)]


def classes(table: ResctrlTable) -> list[str]:
    """A block per group, the ways of I/O, and what could not be read."""
    lines = [line for group in table.groups for line in (*_group(group, table), "")]
    lines += io_ways_lines(table)
    lines += [f"note: {printable(table.gaps)}"] if table.gaps else []
    return lines


def _group(group: ResctrlGroup, table: ResctrlTable) -> Iterator[str]:
    about = [f"COS{group.clos}"] if group.clos is not None else []
    about += [f"{group.owner}'s by its name"] if group.owner else []
    about += [printable(group.mode)] if group.mode not in ("", SHAREABLE) else []
    about += [counted(len(group.tasks), "thread")] if group.tasks else []
    yield named(group.name) + (f"  ({', '.join(about)})" if about else "")
    yield f"  CPU   {format_cpu_list(group.cpus) or 'none'}"
    rows: list[tuple[str, str, str]] = []
    for cache in group.caches:
        bandwidth = (
            "" if isinstance(cache.mba, Missing) else f"MB {limit(cache.mba, table.mba_unit)}"
        )
        if isinstance(cache.cbm, Missing):
            if bandwidth:
                rows.append((f"L3 {cache.l3}", "", bandwidth))
            continue
        data = "L3DATA" if cache.code is not None else "L3"
        rows.append((f"{data} {cache.l3}", drawn(cache.cbm.bits, cache.cbm.width), bandwidth))
        if cache.code is not None:
            rows.append((f"L3CODE {cache.l3}", drawn(cache.code.bits, cache.code.width), ""))
    for item in group.l2:
        data = "L2DATA" if item.code is not None else "L2"
        rows.append((f"{data} {item.l2}", drawn(item.cbm.bits, item.cbm.width), ""))
        if item.code is not None:
            rows.append((f"L2CODE {item.l2}", drawn(item.code.bits, item.code.width), ""))
    width = max((cells(head) for head, _, _ in rows), default=0)
    for head, mask, bandwidth in rows:
        yield f"  {fit(head, max(width, 4))}  {mask}{'  ' * bool(mask and bandwidth)}{bandwidth}"
    for monitor in group.monitors:
        metered = format_cpu_list(monitor.cpus) or "none"
        yield f"  metered as {printable(monitor.name)}: CPU {metered}"


def io_ways_lines(table: ResctrlTable) -> list[str]:
    """The ways of I/O of each cache, and whether they can be set."""
    can_set = {
        None: NO_IO_ALLOC.message,
        False: "disabled: the CPU chooses the ways (`nftop cat io enable`)",
        True: "enabled: the ways are set, and I/O has the highest class of the cache",
    }[table.limits.io_alloc]
    rows = [line for domain in table.domains for line in _domain(domain)]
    return [*rows, f"io_alloc  {can_set}"]


def _domain(domain: CacheDomain) -> Iterator[str]:
    if isinstance(domain.io, Missing):
        yield f"I/O   L3 {domain.l3}  {printable(domain.io.message)}"
    else:
        picture = drawn(domain.io.cbm.bits, domain.io.cbm.width).replace("#", "I")
        yield f"I/O   L3 {domain.l3}  {picture}  {domain.io.provenance}"
