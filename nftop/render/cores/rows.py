"""Rows of the CPU table: which are shown, in which order, and which one is selected.

A selection made by the operator follows its CPU, so it survives a new order of rows. Without one
the first row is selected, so that the worst rows stay in view.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set

import numpy as np

from nftop.model.column import Bools, Floats
from nftop.model.frame import CpuTable
from nftop.model.ids import Cpu, parse_cpu_list
from nftop.model.missing import Missing
from nftop.model.struct import dataclass
from nftop.render.base.table import LastResults, scroll
from nftop.render.cores.columns import BY_HARM, HARM, metric_of, sorts_down


@dataclass(frozen=True, slots=True)
class CpuView:
    """Order and filter of the CPU table.

    Attributes:
        sort: key of a column.
        inverted: against the column's default direction.
        folded: CPUs without a poller are one line.
        filter: only rows `matching` this text; all if empty.
    """

    sort: str = HARM
    inverted: bool = False
    folded: bool = True
    filter: str = ""


@dataclass(frozen=True, slots=True)
class CpuRows:
    """Rows of `Frame.cpus` in the order shown, and those folded away.

    The last line on screen counts the rows that are folded or out of view.

    Attributes:
        idle: of `shown`, those with neither NF nor poller nor harm, if any other row has one.
    """

    shown: tuple[int, ...]
    idle: frozenset[int] = frozenset()
    folded: tuple[int, ...] = ()

    def without(self, rows: Set[int]) -> CpuRows:
        """These rows left out, because another row stands for them."""
        if not rows:
            return self
        shown = tuple(row for row in self.shown if row not in rows)
        folded = tuple(row for row in self.folded if row not in rows)
        return CpuRows(shown, self.idle - rows, folded)

    def lifted(self, rows: Sequence[int], room: int) -> CpuRows:
        """These rows moved up to the end of the first `room` rows, at most a third of them."""
        up = tuple(rows[: room // 3])
        others = [row for row in self.shown if row not in up]
        above = max(room - len(up), 0)
        shown = (*others[:above], *up, *others[above:])
        return CpuRows(shown, self.idle.difference(up), self.folded)

    @property
    def lines(self) -> int:
        """Lines of the table body: one per row, and one for folded rows."""
        return len(self.shown) + bool(self.folded)


def arrange(cpus: CpuTable, view: CpuView, harm: Floats | None = None) -> CpuRows:
    """The rows to show, in order.

    CPUs with an NF or a poller, or that do harm, come first; within both groups rows without a
    value come last in either direction. A filter applies to all CPUs, so it unfolds.
    `harm`: float64 (n,), see `harm.cpu_harm`; None: of no row.
    """
    busy = polled(cpus)
    if harm is not None:
        busy = busy | (harm > 0)
    if view.sort in BY_HARM:
        rank = np.zeros(len(cpus)) if harm is None else harm
    else:
        rank = _rank(cpus, view.sort)
    known = np.isfinite(rank)
    direction = -1.0 if sorts_down(view.sort) != view.inverted else 1.0
    order = np.lexsort((np.where(known, direction * rank, 0.0), ~known, ~busy))
    if view.filter:
        order = order[matching(cpus, view.filter)[order]]
    split = int(np.count_nonzero(busy[order]))
    rows = tuple(order.tolist())
    if view.folded and not view.filter and split:
        return CpuRows(rows[:split], folded=rows[split:])
    return CpuRows(rows, frozenset(rows[split:] if split else ()))


def matching(cpus: CpuTable, text: str) -> Bools:
    """bool of shape (n,): rows with `text` in the name of their thread or NF, ignoring case.

    If it is a CPU list (`4`, `0-3,8`), also those CPUs.
    """
    needle = text.strip().casefold()
    listed = _cpu_list(needle)
    return np.fromiter(
        (
            info.cpu in listed
            or needle in (thread or "").casefold()
            or needle in (nf or "").casefold()
            for info, thread, nf in zip(cpus.topology.cpus, cpus.thread, cpus.nf, strict=True)
        ),
        bool,
        len(cpus),
    )


def _cpu_list(text: str) -> frozenset[Cpu]:
    try:
        return frozenset(parse_cpu_list(text))
    except ValueError:
        return frozenset()


def polled(cpus: CpuTable) -> Bools:
    """bool of shape (n,): CPUs with an NF or a poller."""
    return _polled(cpus.nf, cpus.thread)


def _mask(nfs: tuple[str | None, ...], threads: tuple[str | None, ...]) -> Bools:
    pairs = zip(nfs, threads, strict=True)
    mask = np.fromiter((bool(nf or thread) for nf, thread in pairs), bool, len(nfs))
    mask.flags.writeable = False
    return mask


_polled = LastResults(_mask)  # pollers seldom move


def _rank(cpus: CpuTable, key: str) -> Floats:
    """A number to sort each row by; NaN where the row has none."""
    metric = metric_of(key)
    return cpus.columns[metric.id].values if metric else _LABEL_RANKS[key](cpus)


def _rank_siblings(cpus: CpuTable) -> Floats:
    siblings = (info.siblings for info in cpus.topology.cpus)
    return np.array([sibling[0] if sibling else np.nan for sibling in siblings], np.float64)


def _rank_names(names: Sequence[str | None]) -> Floats:
    ranks = {name: rank for rank, name in enumerate(sorted({name for name in names if name}))}
    return np.array([ranks[name] if name else np.nan for name in names], np.float64)


def _rank_groups(cpus: CpuTable) -> Floats:
    """By number of the class, then by name."""
    keys = [
        None if isinstance(item, Missing) else (item.clos is None, item.clos or 0, item.name)
        for item in cpus.group
    ]
    known = sorted({key for key in keys if key is not None})
    ranks = {item: float(rank) for rank, item in enumerate(known)}
    return np.array([np.nan if key is None else ranks[key] for key in keys], np.float64)


def _word(value: object) -> str | None:
    return None if isinstance(value, Missing) else str(value)


_LABEL_RANKS: Mapping[str, Callable[[CpuTable], Floats]] = {
    "cpu": lambda cpus: np.fromiter(cpus.topology.row_of, np.float64, len(cpus)),
    "smt": _rank_siblings,
    "thread": lambda cpus: _rank_names(cpus.thread),
    "nf": lambda cpus: _rank_names(cpus.nf),
    "group": _rank_groups,
    "sst": lambda cpus: _rank_names([_word(setting.priority) for setting in cpus.settings]),
    "governor": lambda cpus: _rank_names([_word(item.governor) for item in cpus.settings]),
    "cp": lambda cpus: _rank_names([_word(entry.cp_class) for entry in cpus.settings]),
}


@dataclass(frozen=True, slots=True)
class Cursor:
    """Selection in the CPU table.

    Attributes:
        cpu: selected CPU; None before any.
        index: of its row among those shown.
        top: first line of the body on screen.
        held: the operator selected this CPU; otherwise the first row is selected.
    """

    cpu: Cpu | None = None
    index: int = 0
    top: int = 0
    held: bool = False


def settle(
    cursor: Cursor, cpus: CpuTable, rows: CpuRows, height: int, *, pinned: bool = False
) -> Cursor:
    """The cursor for the current rows, in a window of `height` lines.

    If its CPU is no longer shown, the row at its index is selected. `pinned`: keep the CPU even if
    the operator did not select it.
    """
    if not rows.shown:
        return Cursor()
    if not (cursor.held or pinned):
        return _at(0, 0, cpus, rows, height)
    row = cpus.topology.row_of.get(cursor.cpu) if cursor.cpu is not None else None
    gone = min(cursor.index, len(rows.shown) - 1)
    index = rows.shown.index(row) if row is not None and row in rows.shown else gone
    return _at(index, cursor.top, cpus, rows, height, held=cursor.held)


def move(cursor: Cursor, by: int, cpus: CpuTable, rows: CpuRows, height: int) -> Cursor:
    """Move by rows, down if positive, not beyond the ends."""
    if not rows.shown:
        return Cursor()
    index = min(max(0, cursor.index + by), len(rows.shown) - 1)
    return _at(index, cursor.top, cpus, rows, height, held=True)


def find(cursor: Cursor, text: str, step: int, cpus: CpuTable, rows: CpuRows) -> int | None:
    """Distance to the next matching row in direction `step`, wrapping around; None: no match.

    The selected row comes last. A number matches the CPU of that number, if it exists.
    """
    shown = np.array(rows.shown, np.intp)
    numbered = cpus.topology.row_of.get(Cpu(int(text))) if text.isdecimal() else None
    hits = np.flatnonzero(shown == numbered)
    if not len(hits):
        hits = np.flatnonzero(matching(cpus, text)[shown])
    if not len(hits):
        return None
    away = (hits - cursor.index) * step % len(rows.shown)
    away[away == 0] = len(rows.shown)
    return int(hits[np.argmin(away)]) - cursor.index


def rows_in_view(rows: CpuRows, height: int) -> int:
    """Rows in a body of `height` lines, of which the last counts those that are not shown."""
    hidden = bool(rows.folded) or len(rows.shown) > height
    return max(1, height - (hidden and height > 1))


def _at(
    index: int, top: int, cpus: CpuTable, rows: CpuRows, height: int, *, held: bool = False
) -> Cursor:
    height = rows_in_view(rows, height)
    top = scroll(top, index, index, len(rows.shown), height)
    return Cursor(cpus.topology.cpus[rows.shown[index]].cpu, index, top, held)
