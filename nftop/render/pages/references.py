"""Published measurements as text: `nftop explain --references`."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from itertools import groupby

from nftop.papers.changes import PaperChange
from nftop.papers.printed import PrintedTable
from nftop.papers.rows import Figure, PaperRow
from nftop.papers.table import FrameTable, ToolTable

# Columns of the overview; digits are as printed.
_COLUMNS = (
    ("packets_per_s", "Mpps"), ("ipp", "IPP"), ("ipc", "IPC"), ("cpp", "CPP"),
    ("tma.retiring", "RET%"), ("tma.bad_speculation", "BS%"), ("tma.frontend_bound", "FE%"),
    ("tma.backend_bound", "BE%"), ("memory_bytes_per_s", "mem MB/s"),
    ("pcie_write_bytes_per_s", "PCIe wr"), ("pcie_read_bytes_per_s", "rd MB/s"),
    ("per_packet.pcie_writes", "wr/pkt"), ("per_packet.pcie_reads", "rd/pkt"),
)  # fmt: skip
_TITLE = 27
_WIDTH = 80
_HEADER = 13  # cells of a header's line, at most
_PER_CORE = """\
With hyper-threading (HT) the papers count by physical core, nftop by CPU: there
a CPU shows twice the CPP and half of the IPC and Mpps that are printed here."""


def overview(
    rows: Sequence[PaperRow],
    changes: Sequence[PaperChange] = (),
    tools: Sequence[ToolTable] = (),
    frames: Sequence[FrameTable] = (),
) -> str:
    """A table per paper, CPU and number of cores; then changes, tables by frame size and tools."""
    blocks = []
    for (paper, cpu, cores), runs in groupby(rows, key=lambda r: (r.paper, r.cpu, r.cores)):
        mine = list(runs)
        of_cpu = [
            change
            for change in changes
            if (change.paper, change.cpu) == (paper, cpu) and cores == 1
        ]
        blocks.append("\n".join([*_section(mine), *_changes(of_cpu, sources=False)]))
    if any(row.smt for row in rows):
        blocks.append(_PER_CORE)
    blocks += ["\n".join(_frames(table)) for table in frames]
    blocks += ["\n".join(_tools(table)) for table in tools]
    return "\n\n".join(blocks)


def of_metric(metric: str, rows: Sequence[PaperRow], changes: Sequence[PaperChange] = ()) -> str:
    """A metric in all runs, a line each, and its changes."""
    lines = [
        f"{_run(row)}: {_number(row.figures[metric])}  ({_source(row.figures[metric])})"
        for row in rows
        if metric in row.figures
    ]
    lines = [f"  {line}" for line in lines]
    return "\n".join([metric, *lines, *_changes(changes, sources=True)])


def of_workload(rows: Sequence[PaperRow], changes: Sequence[PaperChange] = ()) -> str:
    """All numbers of a workload by run, with their sources."""
    blocks = []
    for row in rows:
        width = max(map(len, (*row.figures, *row.absent)), default=0)
        lines = [
            _run(row),
            f"  {row.configuration}" + (f"; {row.software}" if row.software else ""),
        ]
        lines += [f"  CPU: {row.cpu_note}"] if row.cpu_note else []
        lines += [f"  {note}" for note in row.notes]
        lines += [
            f"  {name:<{width}}  {_number(figure):<10}  {_source(figure)}"
            for name, figure in row.figures.items()
        ]
        lines += [f"  {name:<{width}}  {'-':<10}  {why}" for name, why in row.absent.items()]
        blocks.append("\n".join(lines))
    blocks += ["\n".join(_changes(changes, sources=True))] if changes else []
    return "\n\n".join(blocks)


def contents(tables: Sequence[PrintedTable]) -> str:
    """Titles of tables by paper."""
    blocks = []
    for (paper, title), mine in groupby(tables, key=lambda table: (table.paper, table.paper_title)):
        lines = [*textwrap.wrap(title, _WIDTH), f"`nftop explain {paper} --references`:"]
        for table in mine:
            text = f"{table.label}: {table.title}"
            lines += textwrap.wrap(text, _WIDTH - 2, initial_indent="  ", subsequent_indent="    ")
        blocks.append("\n".join(lines))
    return "\n\n".join(blocks)


def printed(tables: Sequence[PrintedTable]) -> str:
    """Tables with all their cells."""
    return "\n\n".join("\n".join(_table(table)) for table in tables)


def _table(table: PrintedTable) -> list[str]:
    heads = [textwrap.wrap(column.printed, _HEADER) or [""] for column in table.columns]
    widths = [
        max(map(len, (*head, *(row[at] for row in table.rows)))) for at, head in enumerate(heads)
    ]
    height = max(map(len, heads))
    above = [[""] * (height - len(head)) + head for head in heads]
    drawn = [[head[line] for head in above] for line in range(height)] + [*map(list, table.rows)]
    units = dict.fromkeys(column.unit for column in table.columns if column.unit)
    unit = f" [{', '.join(units)}]" if units else ""
    return [
        *textwrap.wrap(f"{table.label}: {table.title}{unit}", _WIDTH),
        *textwrap.wrap(f"{table.paper_title}; section {table.section}", _WIDTH),
        f"{table.cpu or 'CPU not named'}" + (f" ({table.uarch})" if table.uarch else ""),
        *textwrap.wrap(table.note, _WIDTH),
        *(_line(cells, widths, table.keys) for cells in drawn),
    ]


def _line(cells: list[str], widths: list[int], keys: int) -> str:
    aligned = [
        f"{cell:<{width}}" if at < keys else f"{cell:>{width}}"
        for at, (cell, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return f"  {'  '.join(aligned)}".rstrip()


def _section(rows: list[PaperRow]) -> list[str]:
    first = rows[0]
    known = [(name, head) for name, head in _COLUMNS if any(name in r.figures for r in rows)]
    widths = [max(len(head), 5) for _, head in known]
    heads = (f"{head:>{width}}" for (_, head), width in zip(known, widths, strict=True))
    clock = f"{first.core_hz / 1e9:g} GHz"
    lines = [
        first.paper_title,
        f"{first.cpu} ({first.uarch}) at {clock}, {_cores(first)}, {first.frame_bytes}-byte frames",
        " ".join([f"{'':<{_TITLE}} HT ", *heads]),
    ]
    for row in rows:
        cells = [row.figures[name].printed if name in row.figures else "-" for name, _ in known]
        drawn = [f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True)]
        lines.append(" ".join([f"{row.title:<{_TITLE}} {'yes' if row.smt else 'no ':<3}", *drawn]))
    return lines


def _run(row: PaperRow) -> str:
    return f"{row.title}, {row.cpu}, {'HT' if row.smt else 'no HT'}, {_cores(row)}"


def _cores(row: PaperRow) -> str:
    return f"{row.cores} core" + "s" * (row.cores > 1)


def _number(figure: Figure) -> str:
    if not figure.printed:
        return f"{figure.value:.3g}"
    return f"{figure.printed} {figure.unit}".rstrip()


def _source(figure: Figure) -> str:
    return f"{figure.source}; {figure.repair}" if figure.repair else figure.source


def _changes(changes: Sequence[PaperChange], *, sources: bool) -> list[str]:
    """Changes by CPU and the CPU they are relative to."""
    lines = []
    for (cpu, against), mine in groupby(changes, key=lambda change: (change.cpu, change.against)):
        lines.append(f"  {cpu} against {against}, as its paper's text says:")
        for item in mine:
            scope = f"{', '.join(item.workloads)}{', HT' if item.smt else ''}"
            source = f"  ({item.source})" if sources else ""
            lines.append(f"  {item.metric:<18}  {scope:<37}  {_span(item)}{source}")
    return lines


def _span(change: PaperChange) -> str:
    """`+9 to +12 %`, `~-5 points`, `up to +11 points`, `-6 points or more`."""
    unit, about = "points" if change.points else "%", "~" if change.about else ""
    ends = [f"{100 * end:+.0f}" for end in (change.low, change.high) if end is not None]
    if len(ends) == 2:
        return f"{about}{' to '.join(dict.fromkeys(ends))} {unit}"
    grows = (change.low or change.high or 0.0) > 0
    # An increase of at most this, or a decrease of at least this.
    return f"up to {about}{ends[0]} {unit}" if grows else f"{about}{ends[0]} {unit} or more"


def _tools(table: ToolTable) -> list[str]:
    width = max(map(len, table.tools))
    lines = [f"  {area:<{width}}  {tools}" for area, tools in table.tools.items()]
    return [f"Table {table.number}: {table.title}", *lines]


_FRAME_HEADS = {
    "packets_per_s": "Mpps",
    "pcie_read_bytes_per_s": "PCIe rd",
    "pcie_write_bytes_per_s": "wr MB/s",
}
_WHOLE_FRAMES = (
    "  by equations 23 and 24, reads with whole frames; without checksum, as the\n"
    "  text of equation 24 has it, 64 bytes read 1369 MB/s (nftop explain PRD/pkt)"
)


def _frames(table: FrameTable) -> list[str]:
    heads = "".join(f" {_FRAME_HEADS[column.metric]:>8}" for column in table.columns)
    lines = [f"Table {table.number}: {table.title}", _WHOLE_FRAMES, f"  {'bytes':>5}{heads}"]
    for frame_bytes, cells in table.rows:
        lines.append(f"  {frame_bytes:>5}" + "".join(f" {cell.printed:>8}" for cell in cells))
    return lines
