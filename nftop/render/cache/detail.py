"""One cache class in one cache: ways, sharing, users, changes and history."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from nftop.derive.cache.ways import Shares, cache_of, shares_of
from nftop.derive.compare.window import ClassKey
from nftop.model.change import OwnChange
from nftop.model.clock import clock_of
from nftop.model.frame import CpuTable, Frame, GroupCacheRow, GroupRow
from nftop.model.ids import format_cpu_list
from nftop.model.metrics.group import GROUP_METRICS
from nftop.model.metrics.metric import Unit
from nftop.model.missing import Missing, Reading
from nftop.model.number_text import counted
from nftop.model.rdt.masks import Cbm
from nftop.model.rdt.rdt import SHAREABLE, CacheDomain, L2Mask, Limits
from nftop.model.struct import dataclass
from nftop.render.base import format as fmt
from nftop.render.base.graph import scale_top, span_for, span_name, spark_text
from nftop.render.base.line import Line, Span, Tone, crop, line, paragraph
from nftop.render.base.table import reading_tone, reason_lines
from nftop.render.base.text import fit
from nftop.render.cache.class_cells import cache_absences, group_name
from nftop.render.cache.table import nf_names
from nftop.render.editor.change import drawn, limit
from nftop.render.frame.changes import about, author, texts


@dataclass(frozen=True, slots=True)
class Trends:
    """Histories for the graphs of a cache class.

    Attributes:
        past: history of a metric of a class in a cache: number of points, seconds.
        interval_s: of the feed; sets the span of the graphs.
    """

    past: Callable[[str, ClassKey, int, float], NDArray[np.float32]]
    interval_s: float


_LABEL = 9
_MIB = float(1 << 20)
_NUMBER = 26
_LEAST_GRAPH, _MOST_GRAPH = 10, 120
_MOST_CHANGES = 4
_GRAPHS = (
    ("used", "occupancy_bytes"),
    ("MBM", "mbm_total_bytes_per_s"),
    ("local", "mbm_local_bytes_per_s"),
)
_UNITS = {metric.id: metric.unit for metric in GROUP_METRICS}


def class_lines(
    frame: Frame, key: ClassKey, width: int, trends: Trends, own_changes: Sequence[OwnChange]
) -> list[Line]:
    """Description of a class in a cache; empty if it does not exist.

    Args:
        frame: with the classes.
        key: name of the class, and the cache.
        width: cells of a line.
        trends: history for the graphs.
        own_changes: written by nftop.
    """
    group = next((item for item in frame.groups if item.name == key[0]), None)
    domain = next((entry for entry in frame.domains if entry.l3 == key[1]), None)
    cache = None if group is None else cache_of(group, key[1])
    if group is None or domain is None or cache is None:
        return []
    rows = [
        *_ways(frame, group, cache, domain),
        *_level_2(group.l2),
        *_users(frame, group, domain),
        *_monitors(group, cache),
        *_changes(frame, group, own_changes),
    ]
    paragraphs = [
        item for label, text in rows for item in paragraph(text, width, lead=_lead(label))
    ]
    graphs = [_graph(cache, key, one, width, trends) for one in _GRAPHS]
    return [crop(graph, width) for graph in (_head(group, domain), *graphs, *paragraphs)]


def budget_line(limits: Limits, groups: Sequence[GroupRow], width: int) -> Line:
    """Classes and monitors in use, of those the hardware has."""
    monitors = sum(1 + len(group.monitors) for group in groups)
    facts = [f"COS {len(groups)}{_of(limits.closids)}", f"RMID {monitors}{_of(limits.rmids)}"]
    if limits.min_bits is not None:
        ways = counted(limits.min_bits, "way")
        shape = {True: "any ways", False: "ways side by side", None: ""}[limits.sparse]
        facts.append(", ".join(filter(None, (f"masks of {ways} or more", shape))))
    facts += ["CDP"] if limits.cdp else []
    if limits.io_alloc is not None:
        facts.append("io_alloc on: I/O has a class" if limits.io_alloc else "io_alloc off")
    if limits.mba_least is not None:
        facts.append(f"limits from {limits.mba_least} in steps of {limits.mba_step or '?'}")
    return crop(line(Span("; ".join(facts), Tone.MUTED)), width)


def absence_lines(frame: Frame, width: int) -> list[Line]:
    """Why numbers of classes are absent, or why there is no class."""
    if frame.groups:
        return reason_lines(cache_absences(frame), width)
    state = frame.sources.get("resctrl")
    why = "resctrl is not read" if state is None else state.detail
    mark = "" if state is None else state.reason.mark
    return paragraph(why, width, lead=line(Span(f"{mark:<4}", Tone.MISSING)))


def level_2_lines(frame: Frame, width: int) -> list[Line]:
    """Masks of second-level caches: a row per class and mask."""
    if not any(group.l2 for group in frame.groups):
        return []
    lines = [line(Span("L2", Tone.STRONG))]
    for group in frame.groups:
        for label, text in _level_2(group.l2):
            head = fit(group_name(group.name), 16)
            lines.append(line(f"{head} ", Span(f"{label} ", Tone.MUTED), text))
    return [crop(item, width) for item in lines]


def _of(whole: int | None) -> str:
    return "" if whole is None else f" of {whole}"


def _lead(label: str) -> Line:
    return line(Span(fit(f" {label}", _LABEL), Tone.ACCENT))


def _head(group: GroupRow, domain: CacheDomain) -> Line:
    number = "COS -" if group.clos is None else f"COS{group.clos}"
    facts = [f"{group.owner}'s by its name"] if group.owner else []
    facts += [group.mode] if group.mode not in ("", SHAREABLE) else []
    facts += [] if group.rmid is None else [f"RMID {group.rmid}"]
    text = f"{number} {group_name(group.name)} in L3 {domain.l3}"
    about = f"  {', '.join(facts)}" if facts else ""
    return line(Span(text + about, Tone.HEADER), fill=Tone.HEADER)


def _ways(
    frame: Frame, group: GroupRow, cache: GroupCacheRow, domain: CacheDomain
) -> Iterator[tuple[str, str]]:
    if isinstance(cache.cbm, Missing):
        yield "ways", f"{cache.cbm.reason.mark} {cache.cbm.message}"
    else:
        halves = (cache.cbm,) if cache.code is None else (cache.cbm, cache.code)
        for label, mask in zip(("ways", "code"), halves, strict=False):
            yield label, f"{drawn(mask.bits, mask.width)}, {_size(domain, mask)}"
    shares = shares_of(frame.groups, domain).get(group.name)
    if shares is not None:
        yield "whose", "; ".join(_sharers(shares, domain))
    if isinstance(cache.mba, Missing):
        yield "limit", f"{cache.mba.reason.mark} {cache.mba.message}"
    else:
        yield "limit", limit(int(cache.mba), group.mba_unit)


def _sharers(shares: Shares, domain: CacheDomain) -> Iterator[str]:
    yield f"alone {_named(shares.private, domain)}"
    for other, ways in shares.others.items():
        yield f"with {group_name(other)} {_named(ways, domain)}"
    if shares.io.bits:
        yield f"with devices {_named(shares.io, domain)}"


def _named(mask: Cbm, domain: CacheDomain) -> str:
    if not mask.bits:
        return "nothing"
    ways = format_cpu_list(way for way in range(mask.width) if mask.has(way))
    return f"{_size(domain, mask)} (way{'s' * (mask.ways != 1)} {ways})"


def _size(domain: CacheDomain, mask: Cbm) -> str:
    size = domain.capacity_bytes(mask)
    if isinstance(size, Missing):
        return counted(mask.ways, "way")
    return fmt.worded(size, Unit.BYTES)


def _level_2(masks: Sequence[L2Mask]) -> Iterator[tuple[str, str]]:
    """Caches with the same mask together."""
    alike: dict[tuple[Cbm, Cbm | None], list[int]] = {}
    for mask in masks:
        alike.setdefault((mask.cbm, mask.code), []).append(mask.l2)
    for (cbm, code), those in alike.items():
        text = f"{format_cpu_list(those)}: {drawn(cbm.bits, cbm.width)}"
        yield "L2", text if code is None else f"{text}, code {drawn(code.bits, code.width)}"


def _users(frame: Frame, group: GroupRow, domain: CacheDomain) -> Iterator[tuple[str, str]]:
    near = {info.cpu for info in frame.topology.cpus if info.l3 == domain.l3}
    own = [cpu for cpu in group.cpus if cpu in near]
    yield "CPU", format_cpu_list(own) or "none near this cache"
    names = nf_names(frame, group.name, domain.l3)
    if names:
        yield "NF", ", ".join(names)
    if group.tasks:
        yield "threads", f"{group.tasks} by themselves, wherever they run"
    differing = list(_differing(frame.cpus, group))
    if differing:
        yield "differ", "; ".join(differing)


def _differing(cpus: CpuTable, group: GroupRow) -> Iterator[str]:
    """CPUs whose effective class differs from their own, because of their poller's class."""
    by_reason: dict[str, list[int]] = {}
    for info, own in zip(cpus.topology.cpus, cpus.group, strict=True):
        mine = info.cpu in group.cpus
        if isinstance(own, Missing):
            if mine:
                by_reason.setdefault(own.message, []).append(info.cpu)
        elif mine and own.name != group.name:
            reason = f"what polls there is in {group_name(own.name)}"
            by_reason.setdefault(reason, []).append(info.cpu)
        elif not mine and own.name == group.name:
            by_reason.setdefault("another class' CPU, and what polls there is in this", []).append(
                info.cpu
            )
    for text, those in by_reason.items():
        yield f"CPU {format_cpu_list(those)}: {text}"


def _monitors(group: GroupRow, cache: GroupCacheRow) -> Iterator[tuple[str, str]]:
    for monitor in group.monitors:
        readings = monitor.readings.get(cache.l3)
        facts = [] if monitor.rmid is None else [f"RMID {monitor.rmid}"]
        facts += [f"{monitor.owner}'s by its name"] if monitor.owner else []
        facts += [f"CPU {format_cpu_list(monitor.cpus)}"] if monitor.cpus else []
        if readings is not None:
            facts += [
                f"{label} {fmt.worded(readings[name], _UNITS[name])}" for label, name in _GRAPHS
            ]
        yield "meters", f"{monitor.name}: {', '.join(facts)}"


def _changes(
    frame: Frame, group: GroupRow, own_changes: Sequence[OwnChange]
) -> Iterator[tuple[str, str]]:
    """The last changes, newest first."""
    for item in about(frame.noticed, group.name)[:_MOST_CHANGES]:
        text = f"{author(item, own_changes)}: {', '.join(texts(item.changes, frame.mask_ways))}"
        yield "changed", f"{clock_of(item.wall_ns)} {text}"


def _graph(
    cache: GroupCacheRow, key: ClassKey, one: tuple[str, str], width: int, trends: Trends
) -> Line:
    label, name = one
    reading, unit = cache.readings[name], _UNITS[name]
    head = line(
        _lead(label), Span(fit(_value_text(cache, name, reading), _NUMBER), reading_tone(reading))
    )
    if isinstance(reading, Missing):
        return line(head, Span(reading.message, Tone.MUTED))
    points = min(_MOST_GRAPH, width - head.width - 22)
    if points < _LEAST_GRAPH:
        return head
    span_s = span_for(2 * points, trends.interval_s)
    values = trends.past(name, key, 2 * points, span_s)
    # Round in the printed unit.
    step = _MIB if unit is Unit.BYTES else 1e9
    top = scale_top((values / step).astype(np.float32), unit) * step
    scale = f"  0-{fmt.worded(top, unit)}, {span_name(span_s)}"
    return line(head, Span(spark_text(values, top), Tone.AREA), Span(scale, Tone.MUTED))


def _value_text(cache: GroupCacheRow, name: str, reading: Reading) -> str:
    capacity = cache.readings["capacity_bytes"]
    if name != "occupancy_bytes" or isinstance(capacity, Missing):
        return fmt.worded(reading, _UNITS[name])
    text = fmt.cell(reading, Unit.BYTES, 7)
    beyond = "" if isinstance(reading, Missing) or reading <= capacity else ", too many"
    return f"{text} of {fmt.worded(capacity, Unit.BYTES)}{beyond}"
