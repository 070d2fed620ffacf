"""Below the tables of the Memory/PCIe screen: accelerators, and why numbers are absent."""

from __future__ import annotations

from nftop.model.frame import BoxTraffic, Frame, PackageRow
from nftop.model.metrics.metric import Unit
from nftop.model.metrics.package import PACKAGE_METRICS
from nftop.model.reading import Missing, Reading
from nftop.render.base import format as fmt
from nftop.render.base.line import BLANK, Line, Span, Tone, line, paragraph
from nftop.render.frame.provenance import reason_lines
from nftop.render.traffic.rows import BOXES


def boxes_of(row: PackageRow, attribute: str) -> tuple[BoxTraffic, ...]:
    """A package's memory channels, or its links."""
    return row.channels if attribute == "channels" else row.links


def absence_lines(frame: Frame, width: int) -> list[Line]:
    """Why numbers are absent: each reason once, with what it is the reason of and where."""
    named: list[tuple[str, Reading, str]] = []
    for row in frame.packages:
        place = f"s{row.package}"
        named += [(metric.label, row.readings[metric.id], place) for metric in PACKAGE_METRICS]
        for boxes in BOXES:
            for box in boxes_of(row, boxes.attribute):
                both = (box.in_bytes_per_s, box.out_bytes_per_s)
                gone = next((item for item in both if isinstance(item, Missing)), 0.0)
                named.append((f"{boxes.title.lower()[:-1]} {box.number}", gone, place))
    lines = reason_lines(named, len(frame.packages), width)
    return [BLANK, *lines] if lines else []


def accelerator_lines(frame: Frame, width: int) -> list[Line]:
    """What each accelerator counts, as the server names it; none where it tells of none."""
    if not frame.accelerators:
        return []
    lines = [BLANK, line(Span("Accelerators, counts per second", Tone.HEADER), fill=Tone.HEADER)]
    for accelerator in frame.accelerators:
        counts = [
            f"{name} {fmt.cell(reading, Unit.PER_S, 8)}"
            for name, reading in accelerator.per_s.items()
        ]
        lines += paragraph(", ".join(counts), width, lead=line(f" {accelerator.name}: "))
    return lines
