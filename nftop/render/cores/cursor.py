"""Moving about in the table. What is selected is a CPU, so it stays selected when rows move."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from nftop.model.frame import CpuTable
from nftop.model.ids import Cpu
from nftop.render.cores.rows import Rows, matching


@dataclass(frozen=True, slots=True)
class Place:
    """Where the operator is.

    Attributes:
        cpu: the CPU selected, None before anything was.
        index: its place among the rows shown when last looked at.
        top: the first line of the body on screen.
    """

    cpu: Cpu | None = None
    index: int = 0
    top: int = 0


def settle(place: Place, cpus: CpuTable, rows: Rows, height: int) -> Place:
    """The same place after rows came, went or moved, in a window of `height` lines.

    A CPU that is no longer shown gives way to the row now where it was.
    """
    if not rows.shown:
        return Place()
    row = cpus.topology.row_of.get(place.cpu) if place.cpu is not None else None
    gone = min(place.index, len(rows.shown) - 1)
    index = rows.shown.index(row) if row is not None and row in rows.shown else gone
    return _at(index, place.top, cpus, rows, height)


def move(place: Place, by: int, cpus: CpuTable, rows: Rows, height: int) -> Place:
    """`by` rows down (up if negative), no further than the ends."""
    if not rows.shown:
        return Place()
    index = min(max(0, place.index + by), len(rows.shown) - 1)
    return _at(index, place.top, cpus, rows, height)


def find(place: Place, text: str, step: int, cpus: CpuTable, rows: Rows) -> int | None:
    """How far to the next row shown that matches `text`, in direction `step`, around the ends.

    The selected row comes last; None if no row shown matches. A number is a CPU's, if there is one.
    """
    shown = np.array(rows.shown, np.intp)
    numbered = cpus.topology.row_of.get(Cpu(int(text))) if text.isdecimal() else None
    hits = np.flatnonzero(shown == numbered)
    if not len(hits):
        hits = np.flatnonzero(matching(cpus, text)[shown])
    if not len(hits):
        return None
    away = (hits - place.index) * step % len(rows.shown)
    away[away == 0] = len(rows.shown)
    return int(hits[np.argmin(away)]) - place.index


def _at(index: int, top: int, cpus: CpuTable, rows: Rows, height: int) -> Place:
    height = max(1, height)
    # The line of folded rows can't be selected; it comes into view with the row above it.
    last = index + (1 if index == len(rows.shown) - 1 and rows.folded and height > 1 else 0)
    top = min(max(top, last - height + 1), index, max(0, rows.lines - height))
    return Place(cpus.topology.cpus[rows.shown[index]].cpu, index, max(0, top))
