"""The columns of the Cache screen's table: what each shows of a class in a cache."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nftop.derive.cache.ways import Shares
from nftop.model.change import Noticed
from nftop.model.frame import Frame, GroupCacheRow, GroupRow
from nftop.model.ids import L3Domain, format_cpu_list
from nftop.model.metrics.metric import Unit
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import CacheDomain, MbaUnit
from nftop.model.reading import Missing, Reading, Reason
from nftop.render.base import format as fmt
from nftop.render.base.line import Span, Tone
from nftop.render.base.text import fit
from nftop.render.cache.panel import FULL_RATIO, OVER_RATIO
from nftop.render.frame.observed_changes import clock_of, last_of

_BAR = 10
_UNITS: Mapping[MbaUnit, str] = {"percent": "%", "MBps": "M", "GBps/8": "/8G"}


@dataclass(frozen=True, slots=True)
class Cell:
    """What a cell of a row may need."""

    frame: Frame
    group: GroupRow
    cache: GroupCacheRow
    domain: CacheDomain
    shares: Shares | None


@dataclass(frozen=True, slots=True)
class Col:
    """A column: its title, width, the cell, and how early it has its place (0 first).

    Titles of numbers stand right. The last may be longer than its width, and is cut by the screen.
    """

    title: str
    width: int
    cell: Callable[[Cell], list[Span]]
    priority: int
    right: bool = True


def _used(one: Cell) -> list[Span]:
    used, capacity = (one.cache.readings[name] for name in ("occupancy_bytes", "capacity_bytes"))
    return [
        _number(used, Unit.BYTES, 7),
        Span("/", Tone.DIM),
        Span(f"{fmt.cell(capacity, Unit.BYTES, 5):<5}", _tone(capacity)),
    ]


def state_of(one: GroupCacheRow, noticed: Sequence[Noticed], group: str) -> str:
    """`full`, `over`, or `drain` where the mask lost ways since nftop began; else ""."""
    used, capacity = (one.readings[name] for name in ("occupancy_bytes", "capacity_bytes"))
    if isinstance(used, Missing) or isinstance(capacity, Missing) or capacity <= 0:
        return ""
    if used > capacity and _shrank(noticed, group, one.l3):
        return "drain"
    if used > OVER_RATIO * capacity:
        return "over"
    return "full" if used >= FULL_RATIO * capacity else ""


def _shrank(noticed: Sequence[Noticed], group: str, l3: L3Domain) -> bool:
    """Whether the last change of a mask took ways from it."""
    last = last_of(noticed, group, l3)
    return last is not None and any(
        change.cell.name.startswith("L3")
        and change.old is not None
        and change.new is not None
        and int(change.old, 16) & ~int(change.new, 16)
        for change in last.changes
    )


def _state(one: Cell) -> list[Span]:
    said = state_of(one.cache, one.frame.noticed, one.group.name)
    return [Span(f" {fit(said, 6)}", Tone.ACCENT)]


def _bar(one: Cell) -> list[Span]:
    used, capacity = (one.cache.readings[name] for name in ("occupancy_bytes", "capacity_bytes"))
    if isinstance(used, Missing) or isinstance(capacity, Missing) or capacity <= 0:
        return [Span(" " * (_BAR + 1), Tone.PLAIN)]
    filled = min(_BAR, round(used / capacity * _BAR))
    return [Span(" " + "▇" * filled + "·" * (_BAR - filled), Tone.AREA)]


def _share(one: Cell, *, private: bool) -> list[Span]:
    if one.shares is None:
        cbm = one.cache.cbm
        why = cbm.reason if isinstance(cbm, Missing) else Reason.UNDEFINED
        return [Span(f"{why.mark:>7}", Tone.MISSING)]
    alone = one.shares.private
    ways = alone if private else Cbm(one.shares.all.bits & ~alone.bits, alone.width)
    return [_number(one.domain.capacity_bytes(ways), Unit.BYTES, 7)]


def _rate(one: Cell, name: str) -> list[Span]:
    """Megabytes per second: beside a cache's share, a class' gigabytes would often be zero."""
    reading = one.cache.readings[name]
    return [_number(reading if isinstance(reading, Missing) else reading / 1e6, Unit.PER_S, 8)]


def _limit(one: Cell) -> list[Span]:
    mba = one.cache.mba
    text = mba.reason.mark if isinstance(mba, Missing) else f"{mba:g}{_UNITS[one.group.mba_unit]}"
    return [Span(fit(text, 7, right=True), _tone(mba))]


def _owner(one: Cell) -> list[Span]:
    return [Span(f" {fit(one.group.owner or '', 10)}", Tone.DIM)]


def _changed(one: Cell) -> list[Span]:
    last = last_of(one.frame.noticed, one.group.name, one.cache.l3)
    return [Span(f" {fit('' if last is None else clock_of(last.wall_ns), 10)}", Tone.DIM)]


def _runs_on(one: Cell) -> list[Span]:
    """Network functions on whose CPUs the class counts beside this cache, and its other CPUs."""
    table = one.frame.cpus
    polled = {
        info.cpu for info, nf in zip(table.topology.cpus, table.nf, strict=True) if nf is not None
    }
    rest = [
        info.cpu
        for info in one.frame.topology.cpus
        if info.l3 == one.domain.l3 and info.cpu in one.group.cpus and info.cpu not in polled
    ]
    names = ", ".join(nf_names(one.frame, one.group.name, one.domain.l3))
    threads = f"{one.group.tasks} threads" if one.group.tasks else ""
    said = (names, f"CPU {format_cpu_list(rest)}" if rest else "", threads)
    return [Span(f" {'; '.join(filter(None, said))}", Tone.PLAIN)]


def nf_names(frame: Frame, group: str, l3: L3Domain | None = None) -> list[str]:
    """The network functions on whose CPUs a class counts, with these CPUs: `vpp 12-14`."""
    cpus = frame.cpus
    found: dict[str, list[int]] = {}
    for info, nf, own in zip(cpus.topology.cpus, cpus.nf, cpus.group, strict=True):
        here = l3 is None or info.l3 == l3
        if nf is not None and here and not isinstance(own, Missing) and own.name == group:
            found.setdefault(nf, []).append(info.cpu)
    return [f"{name} {format_cpu_list(where)}" for name, where in found.items()]


def _number(reading: Reading, unit: Unit, width: int) -> Span:
    return Span(f"{fmt.cell(reading, unit, width - 1):>{width}}", _tone(reading))


def _tone(reading: Reading) -> Tone:
    return Tone.MISSING if isinstance(reading, Missing) else Tone.PLAIN


COLUMNS: tuple[Col, ...] = (
    Col("MiB USED/CAP", 13, _used, 0),
    Col("", 7, _state, 1),
    Col("", _BAR + 1, _bar, 8),
    Col("ALONE", 7, lambda row: _share(row, private=True), 5),
    Col("OTHERS", 7, lambda row: _share(row, private=False), 6),
    Col("MB/s", 8, lambda row: _rate(row, "mbm_total_bytes_per_s"), 2),
    Col("local", 8, lambda row: _rate(row, "mbm_local_bytes_per_s"), 7),
    Col("LIMIT", 7, _limit, 3),
    Col("CHANGED", 11, _changed, 9, right=False),
    Col("OWNER", 11, _owner, 10, right=False),
    Col("NF, CPU", 12, _runs_on, 4, right=False),
)
