"""What `nftop doctor` says about the counters outside the cores."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from nftop.model.ids import format_cpu_list
from nftop.model.reading import Reason
from nftop.model.uncore import UncoreTable
from nftop.sources.base import Check
from nftop.sources.perf.problems import Problem
from nftop.sources.uncore.counters import UncoreCounters
from nftop.sources.uncore.multiplex import shares, turns_of
from nftop.sources.uncore.open_counters import OpenBox
from nftop.uarch.sections import Uncore

_TAKEN = "{events}: a group never got onto the counters of {boxes} boxes; another program has them"
_TAKEN_FIX = "stop the other user of the PMU (perf, pcm, a profiler)"


def uncore_checks(name: str, counters: UncoreCounters, table: UncoreTable) -> tuple[Check, ...]:
    """One check for each unit with boxes, and one for each thing that is missing."""
    by_unit: dict[str, list[OpenBox]] = {}
    for opened in counters.boxes:
        by_unit.setdefault(opened.box.unit.name, []).append(opened)
    checks: list[Check] = []
    for unit, boxes in by_unit.items():
        if any(opened.counts for opened in boxes):
            checks.append(_unit(f"{name} {unit}", boxes, counters.switch_ns))
        checks += _absent(f"{name} {unit}", boxes)
        checks += _never_ran(f"{name} {unit}", boxes[0].box.unit, table)
    lacking: dict[tuple[str, Problem], list[int]] = {}
    for (unit, package), problem in counters.lacking.items():
        lacking.setdefault((unit, problem), []).append(package)
    for (unit, problem), packages in lacking.items():
        where = f" (package {format_cpu_list(packages)})"
        checks.append(
            Check(f"{name} {unit}", problem.reason, problem.sentence + where, problem.fix)
        )
    return tuple(checks)


def _unit(name: str, boxes: list[OpenBox], switch_ns: int) -> Check:
    unit = boxes[0].box.unit
    counted = {event for opened in boxes for turn in opened.turns for event in turn.events}
    named = ["/".join(event for event in turn if event in counted) for turn in turns_of(unit)]
    parts = shares(unit, detailed=False)
    groups = {text: share for text, share in zip(named, parts, strict=False) if text}
    on_demand = ", ".join(text for text in named[len(parts) :] if text)
    cpus = sorted({opened.box.cpu for opened in boxes})
    per_package = [
        f"{sum(opened.box.package == package for opened in boxes)} boxes of package {package}"
        for package in sorted({opened.box.package for opened in boxes})
    ]
    told, cost = ", ".join(groups), ""
    if len(groups) > 1:
        told = "in turns " + ", ".join(f"{text} {share:.0%}" for text, share in groups.items())
        cost = f"; the next turn's beginning takes {switch_ns / 1e6:.1f} ms there"
    if on_demand:
        told += f", and {on_demand} only while somebody looks,"
    fds = sum(len(turn.fds) for opened in boxes for turn in opened.turns)
    text = (
        f"counts {told} on {', '.join(per_package)} with {fds} descriptors, by interrupts of CPU "
        f"{format_cpu_list(cpus)}{cost}"
    )
    return Check(name, Reason.PRESENT, text)


def _absent(name: str, boxes: list[OpenBox]) -> Iterable[Check]:
    lacking: dict[tuple[str, Problem], int] = {}
    for opened in boxes:
        for event, problem in opened.absent.items():
            lacking[event, problem] = lacking.get((event, problem), 0) + 1
    for (event, problem), number in lacking.items():
        where = "" if number == len(boxes) else f" ({number} of {len(boxes)} boxes)"
        yield Check(f"{name} {event}", problem.reason, problem.sentence + where, problem.fix)


def _never_ran(name: str, unit: Uncore, table: UncoreTable) -> Iterable[Check]:
    idle = (table.reasons == 0) & (table.running_ns == 0)
    for turn in turns_of(unit):
        mine = idle & np.isin(table.event, [table.events.index(event) for event in turn])
        if mine.any():
            boxes = len(
                {(p, b) for p, b in zip(table.packages[mine], table.boxes[mine], strict=True)}
            )
            text = _TAKEN.format(events="/".join(turn), boxes=boxes)
            yield Check(f"{name} {turn[0]}", Reason.TAKEN, text, _TAKEN_FIX)
