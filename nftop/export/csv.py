"""Frames as CSV: one row per CPU and tick, units in the column names."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from nftop.export.json.encode import picked, rfc3339
from nftop.export.json.frequencies import setting_values
from nftop.model.column import Block
from nftop.model.frame import CpuTable, Frame
from nftop.model.metrics.catalogue import CPU_METRICS
from nftop.model.missing import Missing, Reason
from nftop.render.base.text import printable

_FORMULA = re.compile(r"(^|;)(?=[=+@\-\uff1d\uff0b\uff20\uff0d])")

CPU_NAMES = tuple(metric.id for metric in CPU_METRICS)
HEADER: tuple[str, ...] = (
    *["time", "interval_s", "simulated", "lab", "remote", "host", "cpu", "core", "package", "l3"],
    *("thread", "nf", "nf_pid", "direction", "saturated", "saturated_by", "cpp_clock", "group"),
    *("sst_priority", "governor", "epp", "sst_cp_class"),
    *CPU_NAMES,
    "missing",
)


def header_csv() -> str:
    """The header line, with its line end."""
    return _text([HEADER])


def frame_csv(frame: Frame) -> str:
    """The frame's rows, each with its line end; the last column has the reasons of empty cells."""
    moment = rfc3339(frame.wall_ns)
    table = frame.cpus
    numbers = Block.of(table.columns).numbers(CPU_NAMES).T.tolist()
    reasons = reasons_of_cpus(table)
    columns = picked(table, "nf_pid direction saturated").values()
    lines = []
    for row, info in enumerate(table.topology.cpus):
        group, setting = table.group[row], setting_values(table.settings[row])
        cells: list[Any] = [
            moment,
            frame.interval_s,
            frame.host.simulated,
            frame.host.lab,
            frame.host.remote != "",
            text_cell(frame.host.name),
            *picked(info, "cpu core package l3").values(),
            text_cell(table.thread[row]),
            text_cell(table.nf[row]),
            *(column[row] for column in columns),
            " ".join(table.saturated_by.get(info.cpu, ())) or None,
            table.cpp_clock[row],
            None if isinstance(group, Missing) else text_cell(group.name),
            *(None if isinstance(v, Missing) else text_cell(str(v)) for v in setting.values()),
        ]
        lines.append([*cells, *numbers[row], reasons[row]])
    return _text(lines)


def reasons_of_cpus(table: CpuTable) -> list[str]:
    """`missing` of each CPU: few differ from each other, so each text is made once."""
    block = Block.of(table.columns)
    reasons = np.ascontiguousarray(block.reasons[block.rows_of(CPU_NAMES)].T)
    seen: dict[bytes, str] = {}
    result = []
    for row, group, setting in zip(reasons, table.group, table.settings, strict=True):
        key = row.tobytes()
        if key not in seen:
            why = zip(CPU_NAMES, map(Reason, row.tolist()), strict=True)
            seen[key] = " ".join(f"{name}={reason.key}" for name, reason in why if reason)
        own = reasons_of({"group": group, **setting_values(setting)})
        result.append(f"{own} {seen[key]}".strip())
    return result


def reasons_of(readings: Mapping[str, object]) -> str:
    """Absent numbers with their reasons, as `cpp=idle busy_ratio=source`."""
    return " ".join(
        f"{name}={r.reason.key}" for name, r in readings.items() if isinstance(r, Missing)
    )


def text_cell(name: str | None) -> str | None:
    """A name without control characters, and not a formula to a spreadsheet of any language."""
    return None if name is None else _FORMULA.sub(r"\1'", printable(name))


def _text(rows: Iterable[Sequence[Any]]) -> str:
    buffer = io.StringIO()
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue()
