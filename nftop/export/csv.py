"""Frames as CSV: one row per CPU and tick, units in the column names."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from typing import Any

from nftop.export.json.frame import rfc3339
from nftop.export.json.frequencies import setting_values
from nftop.model.frame import Frame
from nftop.model.metrics.catalogue import CPU_METRICS
from nftop.model.reading import Missing
from nftop.render.base.text import printable

_LABELS = (
    "time",
    "interval_s",
    "simulated",
    "lab",
    "remote",
    "host",
    "cpu",
    "core",
    "package",
    "l3",
)
_NAMES = (
    *("thread", "nf", "nf_pid", "direction", "saturated", "cpp_clock", "group"),
    *("sst_priority", "governor", "epp", "sst_cp_class"),
)
HEADER: tuple[str, ...] = (
    *_LABELS,
    *_NAMES,
    *(metric.id for metric in CPU_METRICS),
    "missing",
)


def header_csv() -> str:
    """The header line, with its line end."""
    return _line(list(HEADER))


def frame_csv(frame: Frame) -> str:
    """The frame's rows, each with its line end.

    An absent number is an empty cell; the last column names each with its reason, as
    `cpp=idle busy_ratio=source`.
    """
    moment = rfc3339(frame.wall_ns)
    table = frame.cpus
    lines = []
    for row, info in enumerate(table.topology.cpus):
        readings = {metric.id: table.columns[metric.id][row] for metric in CPU_METRICS}
        group, setting = table.group[row], setting_values(table.settings[row])
        cells: list[Any] = [
            moment,
            frame.interval_s,
            frame.host.simulated,
            frame.host.lab,
            frame.host.remote != "",
            text_cell(frame.host.name),
            info.cpu,
            info.core,
            info.package,
            info.l3,
            text_cell(table.thread[row]),
            text_cell(table.nf[row]),
            table.nf_pid[row],
            table.direction[row],
            table.saturated[row],
            table.cpp_clock[row],
            None if isinstance(group, Missing) else text_cell(group.name),
            *map(_word, setting.values()),
        ]
        cells += [None if isinstance(r, Missing) else r for r in readings.values()]
        lines.append(_line([*cells, _missing({"group": group, **setting, **readings})]))
    return "".join(lines)


def _missing(readings: Mapping[str, object]) -> str:
    return " ".join(
        f"{name}={r.reason.key}" for name, r in readings.items() if isinstance(r, Missing)
    )


def _word(value: object) -> str | None:
    return None if isinstance(value, Missing) else text_cell(str(value))


def text_cell(name: str | None) -> str | None:
    """A name that no terminal obeys and no spreadsheet takes for a formula."""
    if name is None:
        return None
    shown = printable(name)
    return "'" + shown if shown[:1] in ("=", "+", "-", "@") else shown


def _line(cells: list[Any]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerow(cells)
    return buffer.getvalue()
