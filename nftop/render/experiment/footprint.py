"""A footprint as text: what will be measured, and the table to plan classes by."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence

from nftop.derive.experiment.engine import duration_s
from nftop.model.footprint import (
    UNREQUESTED,
    CacheUse,
    Footprint,
    FootprintPlan,
    FootprintRow,
    FootprintSubject,
)
from nftop.model.missing import Missing
from nftop.model.number_text import counted
from nftop.model.rdt.rdt import class_name
from nftop.render.base.format import duration_text
from nftop.render.base.text import cells, fit, printable
from nftop.render.editor.change import changed
from nftop.render.experiment.text import harm_text

_MIB, _GB, _MPPS = 2**20, 1e9, 1e6
_WIDE, _NARROWEST = 100, 40
_NAME_LEAST, _NAME_MOST = 4, 16
_LEGEND = (
    "typical, most: median and maximum of the occupancy, MiB. GB/s: memory traffic (MBM), median",
    "today: with today's masks, beside all that runs. own: in ways of its own, one after the other",
    "*: others may fill some of these ways. ~: occupancy still rose or fell",
    "needs: ways that hold the most; >=: it filled all it had, shared it, or its monitor is new",
)
_RESTORES = (
    "also restores: Ctrl-C, a lost terminal, the end of nftop, 15 s without nftop, another program "
    "that changes the classes"
)


def footprint_plan_text(plan: FootprintPlan, ways: Mapping[str, int]) -> list[str]:
    """What will be measured and written. `ways`: number of ways by line of schemata."""
    lines = [f"footprint of {', '.join(map(printable, plan.experiment.watch.values()))}"]
    lines += [f"  {_named(item)}  {_counted(item)}" for item in plan.subjects]
    experiment = plan.experiment
    if not plan.writes:
        seconds = duration_text(plan.measure_s)
        return [*lines, f"nothing is written; {seconds} with today's masks"]
    for number, setting in enumerate(experiment.settings):
        lines.append(f"for {printable(setting.label)}:")
        # Monitoring groups are made once, for all of it.
        new = [
            change
            for change in setting.changes
            if number == plan.together or change.cell.kind == "schemata"
        ]
        lines += [f"  {text}" for text in changed(new, ways, "percent")]
    lines += [
        f"not with own ways: {_named(item)}: {printable(item.own.message)}"
        for item in plan.subjects
        if isinstance(item.own, Missing) and len(experiment.settings) > plan.together + 1
    ]
    duration = duration_text(duration_s(experiment, 1))
    lines.append(f"duration  about {duration}; all is as before at the end")
    lines += [f"ends at once and restores: {harm_text(experiment)}", _RESTORES]
    return lines


def _named(item: FootprintSubject) -> str:
    return f"{printable(item.name)} in L3 {item.l3}"


def _counted(item: FootprintSubject) -> str:
    if isinstance(item.counter, Missing):
        return f"{item.counter.reason.mark} {printable(item.counter.message)}"
    if item.counter == "class":
        return f"by class {printable(class_name(item.group))}"
    names = ", ".join(printable(class_name(*monitor)) for monitor in item.monitors)
    origin = "made for this, and taken away" if item.counter == "new monitor" else "as it is"
    return f"by monitoring group {names} ({origin})"


def footprint_text(footprint: Footprint, width: int) -> list[str]:
    """The table, the sums by cache, and why numbers are absent."""
    rows = [row for row in footprint.rows if row.together is not None or row.own is not None]
    lines = list(_table(footprint, rows, width)) if rows else ["nothing was measured"]
    notes = [*_sums(footprint, rows), *_absences(footprint), *_LEGEND * bool(rows)]
    for note in notes:
        lines += textwrap.wrap(note, max(width, _NARROWEST), subsequent_indent="  ")
    return lines


def _absences(footprint: Footprint) -> Iterator[str]:
    """Why numbers are absent."""
    for row in footprint.rows:
        name, counter, own = _named(row.subject), row.subject.counter, row.subject.own
        if isinstance(counter, Missing):
            yield f"{name}: {printable(counter.message)}"
        elif isinstance(own, Missing):
            if own != UNREQUESTED:
                yield f"{name}, own: {printable(own.message)}"
        elif row.own is None:
            yield f"{name}, own: it ended before"


def row_text(footprint: Footprint, row: FootprintRow) -> str:
    """A row in words, for a recording."""
    texts = [f"footprint of {_named(row.subject)}"]
    for head, use in (("today", row.together), ("own", row.own)):
        if use is not None:
            texts.append(
                f"{head} {counted(use.bits.bit_count(), 'way')}, "
                f"typical {_scaled(use.typical_bytes, _MIB)}, "
                f"most {_scaled(use.most_bytes, _MIB)} MiB, "
                f"{_scaled(use.typical_bytes_per_s, _GB, 2)} GB/s"
            )
    return "; ".join((*texts, f"needs {_needs(footprint, row)} ways"))


def _table(footprint: Footprint, rows: Sequence[FootprintRow], width: int) -> Iterator[str]:
    name = max(cells(printable(row.subject.name)) for row in rows)
    name = max(_NAME_LEAST, min(name, _NAME_MOST))
    wide, own = width >= _WIDE, any(row.subject.own != UNREQUESTED for row in rows)
    columns = f"{'ways':>5}{'typical':>8}{'most':>7}{'GB/s':>6}" + f"{'Mpps':>7}" * wide
    head = f"{fit('NF', name)} {'L3':>3}"
    yield f"{' ' * cells(head)}{'today':>{cells(columns)}}" + f"{'own':>{cells(columns)}}" * own
    yield f"{head}{columns}{columns * own}{'needs':>7}" + "  counted by" * wide
    for row in rows:
        text = f"{fit(printable(row.subject.name), name)} {row.subject.l3:>3}"
        text += _use(row.together, wide=wide) + (_use(row.own, wide=wide) if own else "")
        text += f"{_needs(footprint, row):>7}"
        yield text + (f"  {row.subject.counter}" if wide else "")


def _use(use: CacheUse | None, *, wide: bool) -> str:
    if use is None:
        return f"{'-':>5}{'-':>8}{'-':>7}{'-':>6}" + f"{'-':>7}" * wide
    ways = f"{use.bits.bit_count()}{'*' * bool(use.shared)}"
    typical = f"{'~' * (not use.still)}{_scaled(use.typical_bytes, _MIB)}"
    text = f"{ways:>5}{typical:>8}{_scaled(use.most_bytes, _MIB):>7}"
    text += f"{_scaled(use.typical_bytes_per_s, _GB, 2):>6}"
    return text + f"{_scaled(use.packets_per_s, _MPPS):>7}" * wide


def _needs(footprint: Footprint, row: FootprintRow) -> str:
    ways = footprint.ways(row)
    if ways is None:
        return "-"
    return f">={ways}" if row.at_least else f"{ways}"


def _sums(footprint: Footprint, rows: Sequence[FootprintRow]) -> Iterator[str]:
    """Ways that all of them need by cache: what is left is for the others."""
    for l3 in sorted({row.subject.l3 for row in rows}):
        here = [row for row in rows if row.subject.l3 == l3]
        known = [ways for row in here if (ways := footprint.ways(row)) is not None]
        least = any(row.at_least for row in here)
        if known:
            total = sum(known)
            ways_text = f"{'at least ' * least}{counted(total, 'way')}"
            yield f"L3 {l3}: {ways_text} for the most of all of them"


def _scaled(value: float, unit: float, digits: int = 1) -> str:
    return f"{value / unit:.{digits}f}" if math.isfinite(value) else "-"
