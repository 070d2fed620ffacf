"""Page of all counters of the ports of a network function, by their drivers' names."""

from __future__ import annotations

from nftop.model.frame import NfRow
from nftop.model.metrics.metric import Unit
from nftop.model.missing import Missing
from nftop.model.nf.parts import NfXstat
from nftop.render.base.line import BLANK, Line, Tone, line, paragraph
from nftop.render.base.table import TableColumn, header_line, number_cell, text_cell

_NAME, _COUNT, _RATE = 44, 22, 12
_NONE = (
    "No counters yet: they are read with the next tick, of DPDK's telemetry (/ethdev/xstats), "
    "while this page is open. Recordings have them of the times at which it was; other kinds of "
    "network functions have none."
)


def xstat_lines(nf: NfRow, width: int) -> list[Line]:
    """A table for each port, in the driver's order."""
    if isinstance(nf.problem, Missing):
        return paragraph(nf.problem.message, width, tone=Tone.BAD)
    if not nf.xstats:
        return paragraph(_NONE, width, tone=Tone.DIM)
    by_port: dict[str, list[NfXstat]] = {}
    for item in nf.xstats:
        by_port.setdefault(item.port, []).append(item)
    name = max(16, min(_NAME, width - _COUNT - _RATE))
    lines: list[Line] = []
    for port, items in by_port.items():
        heads = (
            TableColumn("PORT", "PORT", name, right=False),
            TableColumn("COUNT", "COUNT", _COUNT),
            TableColumn("per s", "per s", _RATE),
        )
        lines += [BLANK] if lines else []
        lines += [header_line(heads), line(text_cell(port, width, tone=Tone.TITLE))]
        lines += [*(_line(item, name) for item in items)]
    return lines


def _line(item: NfXstat, name: int) -> Line:
    return line(
        text_cell(item.name, name),
        text_cell(f"{item.count:,}", _COUNT, right=True),
        number_cell(item.per_s, Unit.PER_S, _RATE),
    )
