"""Restriction of a frame to some CPUs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

from nftop.model.column import Block
from nftop.model.frame import Frame
from nftop.model.struct import replace

T = TypeVar("T")


def only_cpus(frame: Frame, cpus: Collection[int]) -> Frame:
    """The frame with only the rows of these CPUs; aggregates still cover all CPUs."""
    table = frame.cpus
    rows = [row for row, info in enumerate(table.topology.cpus) if info.cpu in cpus]

    def these(column: Sequence[T]) -> tuple[T, ...]:
        return tuple(column[row] for row in rows)

    shown = replace(
        table,
        topology=replace(table.topology, cpus=these(table.topology.cpus)),
        online=these(table.online),
        thread=these(table.thread),
        nf=these(table.nf),
        nf_pid=these(table.nf_pid),
        direction=these(table.direction),
        cpp_clock=these(table.cpp_clock),
        saturated=these(table.saturated),
        attribution=these(table.attribution),
        group=these(table.group),
        settings=these(table.settings),
        columns=Block.of(table.columns).take(rows),
        origins={metric: these(origin) for metric, origin in table.origins.items()},
        shared={cpu: why for cpu, why in table.shared.items() if cpu in cpus},
        saturated_by={cpu: by for cpu, by in table.saturated_by.items() if cpu in cpus},
    )
    return replace(frame, cpus=shown)
