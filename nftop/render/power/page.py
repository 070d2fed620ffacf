"""Power screen (power and idle states of packages, settings of CPUs), and the frequency editor."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain

import numpy as np

from nftop.derive.package.power import UNREAD
from nftop.model.frame import Frame, PackageRow
from nftop.model.ids import Cpu
from nftop.model.metrics.catalogue import ALL_PACKAGE_METRICS
from nftop.model.metrics.metric import Metric, Unit
from nftop.model.metrics.pcm import PCM_CPU_METRICS
from nftop.model.metrics.power import COUNTED_POWER_CPU_METRICS
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.struct import dataclass
from nftop.render.base import format as fmt
from nftop.render.base.graph import scale_top, span_for, span_name, spark_text
from nftop.render.base.line import BLANK, Line, Span, Tone, clickable, crop, line, paragraph
from nftop.render.base.table import (
    EDGE,
    TableColumn,
    cut_lines,
    fit_columns,
    header_line,
    indented,
    number_cell,
    rule_line,
)
from nftop.render.base.text import fit
from nftop.render.cores.layout import ScreenSections, above_text
from nftop.render.cores.resources import PackagePast
from nftop.render.frame.header import ViewStatus, alert_lines, badge_lines
from nftop.render.frame.provenance import reason_lines, source_lines
from nftop.render.power.settings import host_lines, placement_lines

_NAME, _CELL = 5, 8
_LEAST_SPARK, _MOST_SPARK = 12, 60
_TABLE_LEAST, _DETAIL_LEAST, _BLANKS_FROM = 5, 6, 30  # lines
_UNREPORTED = Missing(Reason.SOURCE)
_BY_ID = {metric.id: metric for metric in ALL_PACKAGE_METRICS}
# From left to right with their priority.
_OF_PACKAGES: tuple[tuple[str, float], ...] = (
    ("power_w", 0),
    ("energy_j", 2),
    ("dram_power_w", 1),
    ("dram_energy_j", 8),
    ("uncore_frequency_hz", 4),
    ("thermal_headroom_c", 3),
    ("c0_ratio", 5),
    ("c2_ratio", 7),
    ("c3_ratio", 9),
    ("c6_ratio", 6),
    ("throttles_per_s", 9.5),
)
POWER_PACKAGE_METRICS: tuple[Metric, ...] = tuple(_BY_ID[name] for name, _ in _OF_PACKAGES)
_COLUMNS = tuple(
    TableColumn(name, _BY_ID[name].label, _CELL + 1, priority=rank, metric=_BY_ID[name])
    for name, rank in _OF_PACKAGES
)
_GRAPHED = POWER_PACKAGE_METRICS[0]
_STATE = re.compile(r"c\d_ratio")
START = (
    "For temperatures, and for what the kernel does not count here, run Intel's sensor server on "
    "this host as root, reachable locally only: "
    "PCM_NO_RDT=1 pcm-sensor-server (package pcm), with --listen 127.0.0.1 if it has that option, "
    "else behind a firewall; nftop uses port 9738"
)
MARKS: tuple[tuple[str, str], ...] = (
    ("PC0, PC2, PC3-6", "time shares of the package: awake, entering idle, idle"),
    ("0-200, 5 min", "scale and span of the graphs of PKG.W, for all packages"),
    ("HEADROOM", "degrees C until throttling; package: of its hottest core"),
)


def power_sections(
    frame: Frame,
    status: ViewStatus,
    row: int | None,
    past: PackagePast,
    *,
    columns: Sequence[TableColumn],
    interval_s: float,
    rows: int,
    width: int,
    height: int,
) -> ScreenSections:
    """Divide the screen: packages, sources and absences; the CPU table; the detail.

    Args:
        frame: shown.
        status: for the header.
        row: of the selected CPU; None: none.
        past: history for the graphs.
        columns: of the CPU table.
        interval_s: of the feed; sets the span of the graphs.
        rows: lines of the table's body.
        width: of the screen, in cells.
        height: of the screen, in lines.
    """
    above, room, footer = above_text(frame, status, width=width, height=height)
    if not footer:
        return ScreenSections(above, room, (), 0, 0)
    cells = width - 2 * EDGE
    lines = [
        *package_lines(frame, past, columns, interval_s, cells),
        *_absences(frame, row, columns, cells),
    ]
    notes = indented(cut_lines(lines, room - _TABLE_LEAST, cells, "press x"))
    gap = [BLANK] if notes and height >= _BLANKS_FROM else []
    room -= len(notes) + len(gap)
    wanted = rows + 2  # header and a blank line
    table = room if room < wanted + _DETAIL_LEAST else wanted
    if room >= _TABLE_LEAST + _DETAIL_LEAST and height >= _BLANKS_FROM:
        table = max(_TABLE_LEAST, min(wanted, room - max(_DETAIL_LEAST, room // 3)))
    return ScreenSections([*above, *notes, *gap], table, (), room - table, footer)


def package_lines(
    frame: Frame, past: PackagePast, columns: Sequence[TableColumn], interval_s: float, width: int
) -> list[Line]:
    """Header and a line per package; misplaced pollers; settings and sources."""
    shown = _columns(width)
    points = _points(width, len(shown))
    lines: list[Line] = []
    if frame.packages:
        lines += _packages(frame.packages, shown, past, points, interval_s)
    else:
        lines.append(line(Span("the topology names no package", Tone.MUTED)))
    lines += alert_lines(frame.disagreement, width=width)
    lines += placement_lines(frame, width)
    lines += host_lines(frame, width)
    own = frame.sources.get("power")
    if own is not None and own.reason is not Reason.PRESENT:
        lines += source_lines(frame, "power", "", width)
    lines += source_lines(frame, "pcm", _pcm_contents(frame, columns), width)
    state, here = frame.sources.get("pcm"), not (frame.host.simulated or frame.host.remote)
    if here and (state is None or state.reason is Reason.SOURCE):
        lines += paragraph(START, width, tone=Tone.MUTED)
    return [crop(item, width) for item in lines]


def _pcm_contents(frame: Frame, columns: Sequence[TableColumn]) -> str:
    """What the sensor server provides, with the columns it is the fallback of."""
    of_packages = {name for row in frame.packages for name in row.origins}
    if not of_packages and not frame.cpus.origins:
        return ""
    others = [
        col.label
        for col in columns
        if col.metric
        and col.key in frame.cpus.origins
        and col.metric not in (*PCM_CPU_METRICS, *COUNTED_POWER_CPU_METRICS)
    ]
    states = {name for name in (*of_packages, *frame.cpus.origins) if _STATE.fullmatch(name)}
    words = [*others, *["power"] * ("power_w" in of_packages), "temperatures"]
    return ", ".join([*words, *["C-states"] * bool(states)]) + ", of its last second"


@lru_cache(maxsize=8)
def _columns(width: int) -> tuple[TableColumn, ...]:
    return fit_columns(_COLUMNS, width - _NAME)


def _points(width: int, columns: int) -> int:
    left = min(_MOST_SPARK, width - _NAME - columns * (_CELL + 1) - 1)
    return left if left >= _LEAST_SPARK else 0


def _packages(
    packages: Sequence[PackageRow],
    shown: Sequence[TableColumn],
    past: PackagePast,
    points: int,
    interval_s: float,
) -> list[Line]:
    """Header and a line per package, with a graph of its power if there is room."""
    span_s = span_for(2 * points, interval_s) if points else 0.0
    series = [past(_GRAPHED.id, row.package, 2 * points, span_s) for row in packages if points]
    known = [item for item in series if np.isfinite(item).any()]
    top = scale_top(np.concatenate(known), _GRAPHED.unit) if known else 0.0
    scale = fmt.number(top, _GRAPHED.unit, 6).removesuffix(".0")
    note = f" {_GRAPHED.label} 0-{scale}, {span_name(span_s)}" if known else ""
    socket = TableColumn("socket", "SOCK", _NAME, right=False)
    head = header_line([socket, *shown])
    if len(note) <= points + 1:
        head = line(head, Span(note, Tone.HEADER), fill=Tone.HEADER)
    lines = [head]
    for index, row in enumerate(packages):
        cells = [
            number_cell(row.readings.get(col.key, _UNREPORTED), _BY_ID[col.key].unit, col.width)
            for col in shown
        ]
        graph = " " + spark_text(series[index], top) if known else ""
        lines.append(
            Line((Span(fit(f"s{row.package}", _NAME), Tone.PLAIN), *cells, Span(graph, Tone.AREA)))
        )
    return lines


def _absences(
    frame: Frame, row: int | None, columns: Sequence[TableColumn], width: int
) -> list[Line]:
    """Absences in the columns shown, except those the source reports."""
    states = (frame.sources.get(source) for source in ("power", "pcm"))
    reported = {state.detail for state in states if state and state.reason is not Reason.PRESENT}
    if "power" not in frame.sources:  # a recording of before, or another host's server
        reported.add(UNREAD.message)
    of_packages = (
        (col.label, package.readings.get(col.key, _UNREPORTED), f"s{package.package}")
        for package in frame.packages
        for col in _columns(width)
    )
    named: list[tuple[str, Reading, str]] = []
    cpus = frame.cpus
    if row is not None:
        location = f"cpu {cpus.topology.cpus[row].cpu}"
        shown = [col.metric for col in columns if col.metric]
        named = [(item.label, cpus.columns[item.id][row], location) for item in shown]
    news = [
        [
            (label, reading, location)
            for label, reading, location in group
            if not isinstance(reading, Missing) or reading.message not in reported
        ]
        for group in (of_packages, named)
    ]
    count = len(frame.packages)
    return list(
        chain(reason_lines(news[0], count, width), reason_lines(news[1], locations=0, width=width))
    )


_MOST_CPUS = 16


@dataclass(frozen=True, slots=True)
class Effect:
    """Means of a CPU before and after a change: Hz, packets received per second; NaN: unknown."""

    cpu: Cpu
    hz: tuple[float, float]
    packets: tuple[float, float]


def priority_lines(
    frame: Frame,
    texts: Sequence[str],
    at: int,
    effects: Sequence[Effect],
    width: int,
    *,
    locked: str,
    stood_s: float | None = None,
) -> tuple[list[Line], int]:
    """The page, and the line of the cursor.

    Args:
        frame: the newest.
        texts: of the choices.
        at: index of the selected one.
        effects: of the last applied change.
        width: cells of a line.
        locked: why nothing can be applied; "": it can.
        stood_s: seconds until the last change was reverted; None: it was not.
    """
    badge = [item for badge_line in badge_lines(frame.host) for item in (badge_line, " ")]
    lines = [line(*badge, Span("Core frequencies", Tone.STRONG))]
    lines += alert_lines(locked, width=width) if locked else []
    if isinstance(frame.frequencies, Missing):
        lines += alert_lines(f"no frequencies here: {frame.frequencies.message}", width=width)
    else:
        names = ", ".join(dict.fromkeys(keeper.name for keeper in frame.frequencies.keepers))
        lines += alert_lines(f"{names} may set frequencies here too", width=width) if names else []
    lines.append(line(Span("  SETTING", Tone.HEADER), fill=Tone.HEADER))
    spot = len(lines) + at
    lines += [_choice(text, index - at, width) for index, text in enumerate(texts)]
    lines += [
        BLANK,
        *paragraph(
            "Enter previews the writes. High-priority cores (SST-BF) are fixed in silicon.",
            width,
            tone=Tone.MUTED,
        ),
    ]
    return [*lines, *_effects(effects, width, stood_s)], spot


def _choice(text: str, distance: int, width: int) -> Line:
    """A setting, so many lines below the selected one."""
    here = not distance
    mark = Span("▸ " if here else "  ", Tone.ACCENT)
    row = line(
        mark,
        Span(text, Tone.STRONG if here else Tone.PLAIN),
        fill=Tone.SELECTION if here else Tone.PLAIN,
    )
    return clickable(crop(row, width), "move", distance)


_EFFECT_CELL = 9  # cells of a number


def _effects(effects: Sequence[Effect], width: int, stood_s: float | None) -> list[Line]:
    """Table of means before and after the last change."""
    if not effects:
        return []
    ended = "" if stood_s is None else f"taken back after {stood_s:.0f} s; "
    lines = [BLANK, rule_line("LAST CHANGE", f"{ended}means of up to 30 s", width)]
    heads = ["GHz", "after", "change", "Mpps", "after", "change"]
    text = "  CPU " + "".join(fit(head, _EFFECT_CELL, right=True) for head in heads)
    lines.append(line(Span(text, Tone.HEADER), fill=Tone.HEADER))
    for effect in effects[:_MOST_CPUS]:
        cells = [*_pair(effect.hz, Unit.HZ), *_pair(effect.packets, Unit.PACKETS_PER_S)]
        lines.append(line(f"  {effect.cpu:>3} ", *cells))
    more = len(effects) - _MOST_CPUS
    lines += [line(Span(f"  + {more} more CPUs", Tone.MUTED))] * (more > 0)
    return [crop(item, width) for item in lines]


def _pair(values: tuple[float, float], unit: Unit) -> list[Span]:
    """Before, after and change; blank without a number."""
    before, after = values
    texts = [
        "" if math.isnan(item) else fmt.number(item, unit, _EFFECT_CELL - 2) for item in values
    ]
    both = before > 0 and not math.isnan(after)
    change = fmt.number(after / before - 1, Unit.CHANGE, _EFFECT_CELL - 2) if both else ""
    tones = (Tone.PLAIN, Tone.STRONG, Tone.ACCENT)
    return [
        Span(fit(text, _EFFECT_CELL, right=True), tone)
        for text, tone in zip((*texts, change), tones, strict=True)
    ]
