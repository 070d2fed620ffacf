"""What a frame says of classes, as cells: to see that somebody else changes them meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from nftop.model.change import Cell, Change, State, parts
from nftop.model.frame import Frame, GroupRow
from nftop.model.rdt.rdt import ROOT
from nftop.model.reading import Missing, Reason

_TOLD = ("schemata", "cpu")


def told(frame: Frame) -> State:
    """Masks, limits and CPUs of every class, and that it is there, as far as a frame has them.

    The value of a group is "": a frame knows no number of its directory.
    """
    return dict(row for group in frame.groups for row in _cells(group))


def drifted(base: State, frame: Frame) -> tuple[Change, ...]:
    """Where a frame has other classes than `base`: old as there, new as in the frame.

    What the frame does not tell of is not different. None where it tells of no class at all.
    """
    seen = told(frame)
    if not seen:
        return ()
    known = _comparable(base)
    cells = [cell for cell in seen if cell.kind == "group" or cell in known]
    cells += [cell for cell in known if cell.kind == "group" and cell not in seen]
    return tuple(
        Change(cell, known.get(cell), seen.get(cell))
        for cell in sorted(set(cells))
        if known.get(cell) != seen.get(cell)
    )


def read_since_ns(frame: Frame) -> int | None:
    """CLOCK_MONOTONIC when what a frame says of classes began to be read; None if it was not."""
    # As `classes_reading` of derive.cache.table chooses: MSRs only where there can be no resctrl.
    for name in ("resctrl", "pqos"):
        found = frame.sources.get(name)
        if found is not None and found.reason is Reason.PRESENT and found.age_s is not None:
            age_s = max(found.age_s + (found.took_s or 0.0) / 2, found.late_s)
            return frame.monotonic_ns - round(age_s * 1e9)
    return None


def _comparable(base: State) -> Mapping[Cell, str]:
    """A state as a frame would have it: without monitoring groups, threads, numbers and modes."""
    found: dict[Cell, str] = {}
    for cell, value in base.items():
        if cell.kind == "group":
            found[cell] = ""
        elif cell.kind in _TOLD:
            found[cell] = parts(value)[0] if cell.kind == "cpu" else value
    return found


def _cells(group: GroupRow) -> Iterator[tuple[Cell, str]]:
    if group.name != ROOT:
        yield Cell("group", group.name), ""
    for cpu in group.cpus:
        yield Cell("cpu", "", number=cpu), group.name
    for cache in group.caches:
        data = "L3" if cache.code is None else "L3DATA"
        if not isinstance(cache.cbm, Missing):
            yield Cell("schemata", group.name, data, cache.l3), f"{cache.cbm.bits:x}"
        if cache.code is not None:
            yield Cell("schemata", group.name, "L3CODE", cache.l3), f"{cache.code.bits:x}"
        if not isinstance(cache.mba, Missing):
            yield Cell("schemata", group.name, "MB", cache.l3), f"{cache.mba:.0f}"
    for item in group.l2:
        data = "L2" if item.code is None else "L2DATA"
        yield Cell("schemata", group.name, data, item.l2), f"{item.cbm.bits:x}"
        if item.code is not None:
            yield Cell("schemata", group.name, "L2CODE", item.l2), f"{item.code.bits:x}"
