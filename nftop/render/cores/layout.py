"""Layout of the Cores screen: its sections and how many lines each gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nftop.model.frame import Frame
from nftop.model.ids import L3Domain
from nftop.model.metrics.metric import Unit
from nftop.model.missing import Missing
from nftop.model.struct import dataclass, replace
from nftop.render.base import format as fmt
from nftop.render.base.graph import graph_lines, graph_points, scale_of, span_name
from nftop.render.base.line import BLANK, Line, Span, Tone, class_tone, crop, line
from nftop.render.base.table import EDGE, LastResults, indented
from nftop.render.base.text import fit
from nftop.render.cache.way_cells import styles_of
from nftop.render.cores.columns import HARM
from nftop.render.cores.harm import SICK, RowPast, RowTrends, drops_of, nfs_by_harm
from nftop.render.cores.map import map_lines, map_metric
from nftop.render.cores.nfs import matching_nfs, nf_lines
from nftop.render.cores.resources import COMPACT_LINES, PackagePast, resource_lines
from nftop.render.cores.rows import matching
from nftop.render.frame.footer import tabs_line
from nftop.render.frame.header import ViewStatus, alert_lines, badge_lines, header_lines
from nftop.render.incidents.line import incident_lines
from nftop.render.timeline.strip import strip_lines

_CELL_LEAST, _CELL_MOST = 48, 80  # cells of a graph
_HEIGHT_LEAST, _HEIGHT_MOST = 5, 9  # lines of a graph, with its title
# Of graphs, the last one; early in a session the first that all of its history fits in.
_STEP_S = 15.0
_SPANS_S = (60.0, 90.0, 120.0, 180.0, 240.0, 300.0, 420.0, 600.0)
Series: TypeAlias = NDArray[np.float32]
# Cells and lines.
Size: TypeAlias = tuple[int, int]


def graph_lines_of(
    frame: Frame,
    nf_past: RowPast,
    package_past: PackagePast,
    width: int,
    height: int,
    *,
    search: str = "",
) -> list[Line]:
    """Graphs side by side, as many as fit in `height` lines, the worst first.

    Of the last ten minutes, or of less, where there is not so much history.

    `search`: filter of the network functions, and of the sockets on which CPUs match it.
    """
    if search:
        frame = _matching(frame, search)
    abreast = max(1, width // _CELL_LEAST)
    count = len(frame.nfs) + len(frame.packages)
    if not count or height < _HEIGHT_LEAST:
        return []
    rows = min(-(-count // abreast), height // _HEIGHT_LEAST)
    abreast = min(abreast, -(-count // rows))
    cells = min(_CELL_MOST, (width - 1) // abreast)
    tall = min(_HEIGHT_MOST, height // rows)
    span_s = _span_s(frame, nf_past, package_past)
    blocks = _blocks(frame, nf_past, package_past, (cells - 1, tall), span_s)
    drawn = list(islice(blocks, rows * abreast))
    lines: list[Line] = []
    for first in range(0, len(drawn), abreast):
        band = drawn[first : first + abreast]
        for at in range(tall):
            pieces: list[Line | str] = [" "]
            for block in band:
                pieces += [block[at], " " * max(0, cells - block[at].width)]
            lines.append(crop(line(*pieces), width))
    return lines


def _matching(frame: Frame, search: str) -> Frame:
    """The frame with the network functions and packages that match a filter."""
    matches = matching(frame.cpus, search)
    infos = frame.cpus.topology.cpus
    here = {info.package for info, is_match in zip(infos, matches, strict=True) if is_match}
    packages = tuple(row for row in frame.packages if row.package in here)
    return replace(frame, nfs=tuple(matching_nfs(frame, search)), packages=packages)


def _span_s(frame: Frame, nf_past: RowPast, package_past: PackagePast) -> float:
    """Seconds of all graphs."""
    points = round(_SPANS_S[-1] / _STEP_S)
    values = nf_past("packets_per_s", [nf.key for nf in frame.nfs], points, _SPANS_S[-1])
    known = np.isfinite(values).any(axis=0)
    for row in frame.packages:
        metric = "memory.read_bytes_per_s"
        known = known | np.isfinite(package_past(metric, row.package, points, _SPANS_S[-1]))
    kept_s = (points - int(known.argmax())) * _STEP_S if known.any() else 0.0
    return next(span_s for span_s in _SPANS_S if span_s >= kept_s)


def _blocks(
    frame: Frame, nf_past: RowPast, package_past: PackagePast, size: Size, span_s: float
) -> Iterator[list[Line]]:
    points = graph_points(size[0])
    # No more values than seconds, else there are gaps between them.
    kept = min(points, round(span_s))
    at = np.arange(points) * kept // points
    ranked = [nf for nf, _ in nfs_by_harm(frame, RowTrends())]
    styles = styles_of(frame.groups)
    rates = nf_past("packets_per_s", [nf.key for nf in ranked], kept, span_s)[:, at]
    for nf, values in zip(ranked, rates, strict=True):
        tone = Tone.AREA
        if nf.classes:
            own = nf.classes[0]
            tone = styles[own.name].hue if own.name in styles else class_tone(own.clos)
        if drops_of(nf):
            tone = Tone.BAD
        reading = nf.readings["rx_packets_per_s" if nf.direction == "rx" else "tx_packets_per_s"]
        now = "" if isinstance(reading, Missing) else fmt.number(reading, Unit.PACKETS_PER_S, 7)
        title = f"{nf.name}, Mpps"
        yield _block(title, span_s, now, values, (Unit.PACKETS_PER_S, tone), size)
    for row in frame.packages:
        pieces = [
            package_past(metric, row.package, kept, span_s)[at]
            for metric in ("memory.read_bytes_per_s", "memory.write_bytes_per_s")
        ]
        values = pieces[0] + pieces[1]
        if not np.isfinite(values).any():
            continue
        now = fmt.number(float(values[np.isfinite(values)][-1]), Unit.BYTES_PER_S, 7)
        title = f"socket {row.package}, memory GB/s"
        yield _block(title, span_s, now, values, (Unit.BYTES_PER_S, Tone.AREA), size)


def _block(  # noqa: PLR0917 - of one graph
    title: str, span_s: float, now: str, values: Series, style: tuple[Unit, Tone], size: Size
) -> list[Line]:
    """Title with the number now and the note of an axis that does not start at 0; the graph."""
    (unit, tone), (cells, tall) = style, size
    scale = scale_of(values, from_zero=unit is Unit.BYTES_PER_S)
    note = scale.note()
    room = cells - 1 - len(now)
    # Where there is little room the note stays: without it the graph misleads.
    about = f"{title}  {span_name(span_s)}"
    if note and len(f"{about}  {note}") >= room:
        note = note.removeprefix("axis ")
        about = fit(title, min(len(title), max(0, room - len(note) - 3)))
    text = line(
        Span(about, Tone.STRONG if tone is Tone.BAD else Tone.PLAIN),
        Span(f"  {note}" if note else "", Tone.MUTED),
    )
    text = crop(text, room - 1)
    top = line(text, " " * (room - text.width), Span(now, tone))
    if not np.isfinite(values).any():
        why = line(Span(fit("no history yet", cells), Tone.MUTED))
        return [top, why, *[BLANK] * (tall - 2)]
    return [top, *graph_lines(values, scale, unit, tall - 1, tone)]


LEAST_WIDTH, LEAST_HEIGHT = 40, 8
_FOOTER = 1
_TABS_FROM = 12  # lines of the screen from which the screens are named
_STRIPS = ((30, 3), (16, 1))  # lines of the screen, and of the strip
_PAGE_STRIPS = ((40, 3), (22, 1))
_INCIDENTS = ((16, 2), (LEAST_HEIGHT, 1))
_NFS_FROM = 16
_TABLE_LEAST = 5  # lines, with the header
_DETAIL_FROM = 30  # lines of the screen from which the selected CPU has its own
_RESOURCES_FROM = 22
_MAP_LINES = 9  # of a map of ways on a normal screen
_PANE_LEAST, _GRAPHS_LEAST, _MAP_LEAST = 12, 6, 2  # lines left from which they are used for more


@dataclass(frozen=True, slots=True)
class ScreenSections:
    """Sections of the screen from top to bottom: lines, or a number of lines.

    Attributes:
        top: all above the CPU table.
        table: lines for the CPU table, including its header.
        panels: cache, sockets and graphs.
        detail: lines for the selected CPU.
        footer: 0 if there is no room.
    """

    top: Sequence[Line]
    table: int
    panels: Sequence[Line]
    detail: int
    footer: int


@dataclass(frozen=True, slots=True)
class Histories:
    """Where sections get their graphs: see `harm.RowPast` and `resources.PackagePast`.

    `sort`: order of the CPUs, whose metric the map of CPUs has.
    """

    trends: RowTrends
    nfs: RowPast
    packages: PackagePast
    sort: str = HARM


Below: TypeAlias = Callable[[Frame, Histories, int, Size, int, str], ScreenSections]


def is_tiny(width: int, height: int) -> bool:
    """Whether the terminal is too small for the normal layout."""
    return width < LEAST_WIDTH or height < LEAST_HEIGHT


def share_out(
    frame: Frame,
    status: ViewStatus,
    past: Histories,
    *,
    rows: int,
    width: int,
    height: int,
    search: str = "",
    below: Below | None = None,
) -> ScreenSections:
    """Divide the screen among its sections.

    From top to bottom: header, strip, incidents, screens, network functions, CPUs, cache and
    sockets, the selected CPU, footer. Each keeps its lines whatever it shows. What a large screen
    has left goes to graphs and to more of the selected CPU.

    Args:
        frame: shown.
        status: for the header.
        past: histories.
        rows: lines of the CPU table's body.
        width: of the screen, in cells.
        height: of the screen, in lines.
        search: filter of the rows.
        below: stands in for `below_head`, and may remember its result.
    """
    if is_tiny(width, height):
        top = _too_small(frame, width, height)
        return ScreenSections(top, height - len(top), (), 0, 0)
    head = _head(frame, status, width, height)
    pieces = (below or below_head)(frame, past, rows, (width, height), len(head), search)
    return replace(pieces, top=[*head, *pieces.top])


def below_head(  # noqa: PLR0917 - of `LastResults`
    frame: Frame, past: Histories, rows: int, size: Size, head: int, search: str
) -> ScreenSections:
    """Sections below a head of `head` lines on a screen of this size; the rest as `share_out`."""
    width, height = size
    room = height - _FOOTER - head
    nfs: list[Line] = []
    if height >= _NFS_FROM:
        limit = max(3, min(room // 2, room - _TABLE_LEAST))
        nfs = indented(nf_lines(frame, width - EDGE, limit, search, past.trends))
        room -= len(nfs)
    panels: list[Line] = []
    if height >= _RESOURCES_FROM:
        most = max(room // 3, _MAP_LINES) if height >= _DETAIL_FROM else COMPACT_LINES
        limit = min(most, room - _TABLE_LEAST)
        worst = _worst_l3(frame, past.trends)
        panels = resource_lines(frame, width - EDGE, limit, past.packages, worst)
        room -= len(panels)
    detail = 1 if height >= _DETAIL_FROM else 0
    table = max(min(room - detail, rows + 1), _TABLE_LEAST)
    spare = room - detail - table
    if spare >= _GRAPHS_LEAST:
        drawn = graph_lines_of(frame, past.nfs, past.packages, width, spare, search=search)
        panels = [*drawn, *panels]
        spare -= len(drawn)
    if spare >= _MAP_LEAST:
        metric = map_metric(frame.cpus, past.sort)
        drawn = indented(map_lines(frame.cpus, metric, width - 2 * EDGE, min(height // 4, spare)))
        panels = [*drawn, *panels]
        spare -= len(drawn)
    if spare >= _PANE_LEAST:
        return ScreenSections(nfs, table, panels, detail + spare, _FOOTER)
    return ScreenSections(nfs, table + spare, panels, detail, _FOOTER)


def _worst_l3(frame: Frame, trends: RowTrends) -> L3Domain | None:
    """Cache of the first CPU of the worst sick network function; None without one."""
    nf = next((nf for nf, harm in nfs_by_harm(frame, trends) if harm >= SICK), None)
    if nf is None:
        return None
    topology = frame.cpus.topology
    rows = (topology.row_of[cpu] for cpu in sorted(nf.cpus) if cpu in topology.row_of)
    return next((topology.cpus[row].l3 for row in rows), None)


def above_text(
    frame: Frame, status: ViewStatus, *, width: int, height: int
) -> tuple[list[Line], int, int]:
    """For a screen of text: header lines, lines of room, and lines of the footer."""
    if is_tiny(width, height):
        top = _too_small(frame, width, height)
        return top, height - len(top), 0
    head = _head(frame, status, width, height)
    return head, height - len(head) - _FOOTER, _FOOTER


def page_head(frame: Frame, status: ViewStatus, width: int, height: int) -> list[Line]:
    """What a page about a frame begins with: header and strip, in a small part of its lines."""
    lines = header_lines(frame, status, width - EDGE)[: max(1, height // 10)]
    if status.strip is not None and (strip := _lines_of(_PAGE_STRIPS, height)):
        lines += strip_lines(status.strip, width, strip, ascii_only=False)
    return lines


def _head(frame: Frame, status: ViewStatus, width: int, height: int) -> list[Line]:
    """What every screen begins with: header, strip, incidents, names of the screens."""
    header, incidents = _head_but_strip(frame, status, width, height)
    lines = [*header]
    if status.strip is not None and (strip := _lines_of(_STRIPS, height)):
        lines += strip_lines(status.strip, width, strip, ascii_only=False)
    lines += incidents
    if status.tabs is not None and height >= _TABS_FROM:
        lines.append(tabs_line(status.tabs, width - EDGE))
    return lines


def _header_and_incidents(
    frame: Frame, status: ViewStatus, width: int, height: int
) -> tuple[list[Line], list[Line]]:
    header = header_lines(frame, status, width - EDGE)[: max(2, height // 4)]
    return header, incident_lines(frame, width - EDGE, _lines_of(_INCIDENTS, height))


# Neither shows tabs and strip, which are drawn apart.
_head_but_strip = LastResults(
    _header_and_incidents,
    lambda frame, status, width, height: (
        frame,
        (replace(status, tabs=None, strip=None),),
        width,
        height,
    ),
)


def _lines_of(table: Sequence[tuple[int, int]], height: int) -> int:
    return next((lines for least, lines in table if height >= least), 0)


def _too_small(frame: Frame, width: int, height: int) -> list[Line]:
    """The badge and a message that the terminal is too small."""
    notice = f"terminal too small: {width}x{height}, needs {LEAST_WIDTH}x{LEAST_HEIGHT}"
    badge = [crop(line, width) for line in badge_lines(frame.host)]
    room = max(0, height - 2 - len(badge))
    worst = incident_lines(frame, width, min(1, room - 1)) if room > 1 else []
    return [*badge, *worst, *alert_lines(notice, width=width)[: room - len(worst)]]
