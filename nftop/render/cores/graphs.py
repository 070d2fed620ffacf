"""Graphs of a large screen: packets of each network function, memory of each socket."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nftop.model.frame import Frame
from nftop.model.metrics.metric import Unit
from nftop.model.reading import Missing
from nftop.render.base import format as fmt
from nftop.render.base.graph import graph_lines, graph_points, scale_of
from nftop.render.base.line import BLANK, Line, Span, Tone, class_tone, crop, line
from nftop.render.base.text import fit
from nftop.render.cache.way_cells import looks_of
from nftop.render.cores.harm import RowPast, RowTrends, drops_of, nfs_by_harm
from nftop.render.cores.resources import PackagePast

_CELL_LEAST, _CELL_MOST = 48, 80  # cells of a graph
_HEIGHT_LEAST, _HEIGHT_MOST = 5, 9  # lines of a graph, with its title
_SPAN_S = 600.0
Series: TypeAlias = NDArray[np.float32]
# Cells and lines.
Size: TypeAlias = tuple[int, int]


def graph_lines_of(
    frame: Frame, nf_past: RowPast, package_past: PackagePast, width: int, height: int
) -> list[Line]:
    """Graphs of ten minutes side by side, as many as fit in `height` lines, the worst first."""
    abreast = max(1, width // _CELL_LEAST)
    cells = min(_CELL_MOST, (width - 1) // abreast)
    count = len(frame.nfs) + len(frame.packages)
    if not count or height < _HEIGHT_LEAST:
        return []
    rows = min(-(-count // abreast), height // _HEIGHT_LEAST)
    tall = min(_HEIGHT_MOST, height // rows)
    drawn = []
    for block in _blocks(frame, nf_past, package_past, (cells - 1, tall)):
        drawn.append(block)
        if len(drawn) == rows * abreast:
            break
    lines: list[Line] = []
    for first in range(0, len(drawn), abreast):
        band = drawn[first : first + abreast]
        for at in range(tall):
            parts: list[Line | str] = [" "]
            for block in band:
                parts += [block[at], " " * max(0, cells - block[at].width)]
            lines.append(crop(line(*parts), width))
    return lines


def _blocks(
    frame: Frame, nf_past: RowPast, package_past: PackagePast, size: Size
) -> Iterator[list[Line]]:
    points = graph_points(size[0])
    ranked = [nf for nf, _ in nfs_by_harm(frame, RowTrends())]
    looks = looks_of(frame.groups)
    rates = nf_past("packets_per_s", [nf.key for nf in ranked], points, _SPAN_S)
    for nf, values in zip(ranked, rates, strict=True):
        tone = Tone.AREA
        if nf.classes:
            own = nf.classes[0]
            tone = looks[own.name].hue if own.name in looks else class_tone(own.clos)
        if drops_of(nf):
            tone = Tone.BAD
        reading = nf.readings["rx_packets_per_s" if nf.direction == "rx" else "tx_packets_per_s"]
        now = "" if isinstance(reading, Missing) else fmt.number(reading, Unit.PACKETS_PER_S, 7)
        yield _block(f"{nf.name}, Mpps", now, values, (Unit.PACKETS_PER_S, tone), size)
    for row in frame.packages:
        parts = [
            package_past(metric, row.package, points, _SPAN_S)
            for metric in ("memory.read_bytes_per_s", "memory.write_bytes_per_s")
        ]
        values = parts[0] + parts[1]
        if not np.isfinite(values).any():
            continue
        now = fmt.number(float(values[np.isfinite(values)][-1]), Unit.BYTES_PER_S, 7)
        title = f"socket {row.package}, memory GB/s"
        yield _block(title, now, values, (Unit.BYTES_PER_S, Tone.AREA), size)


def _block(title: str, now: str, values: Series, look: tuple[Unit, Tone], size: Size) -> list[Line]:
    """Title with the number now and the note of an axis that does not start at 0; the graph."""
    (unit, tone), (cells, tall) = look, size
    scale = scale_of(values, from_zero=unit is Unit.BYTES_PER_S)
    note = scale.note()
    text = line(
        Span(f"{title}  10 min", Tone.STRONG if tone is Tone.BAD else Tone.PLAIN),
        Span(f"  {note}" if note else "", Tone.MUTED),
    )
    room = cells - 1 - len(now)
    text = crop(text, room)
    top = line(text, " " * (room - text.width), Span(now, tone))
    if not np.isfinite(values).any():
        why = line(Span(fit("no history yet", cells), Tone.MUTED))
        return [top, why, *[BLANK] * (tall - 2)]
    return [top, *graph_lines(values, scale, unit, tall - 1, tone)]
