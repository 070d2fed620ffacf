"""Sources of the numbers on a screen: origin, age, disagreement, absences."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from nftop.model.frame import Frame, PackageRow
from nftop.model.metrics.metric import Metric
from nftop.model.metrics.pcm import caveat_of
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.pcm import REQUEST_INTERVAL_S
from nftop.render.base import table
from nftop.render.base.line import Line, Span, Tone, line, paragraph
from nftop.render.frame.header import alert_lines

LINKS = "Links"  # label of a package's links


def origin_lines(frame: Frame, metrics: Iterable[Metric], width: int) -> list[Line]:
    """Alerts on disagreement, then the packages' numbers that are from fallback sources."""
    lines = alert_lines(frame.disagreement, width=width)
    for source, labels in _by_source(frame.packages, tuple(metrics)).items():
        lines += source_lines(frame, source, ", ".join(labels), width)
    return lines


def source_lines(frame: Frame, source: str, what: str, width: int) -> list[Line]:
    """`pcm, <1 s old: labels` and its detail, or why it gives nothing.

    Without its difference from perf, which is an alert of its own.
    """
    state = frame.sources.get(source)
    if state is None:
        return paragraph(f"nothing reads {source} here", width, tone=Tone.MUTED)
    if state.reason is not Reason.PRESENT:
        lead = line(Span(f"{source} {state.reason.mark} ", Tone.MISSING))
        return paragraph(state.detail or state.reason.sentence, width, lead=lead, tone=Tone.MUTED)
    # The answer may be cached.
    age = "" if state.age_s is None else f", <{math.ceil(state.age_s + REQUEST_INTERVAL_S)} s old"
    mark = "~" if state.detail else ""
    lead = line(Span(f"{source}{mark}{age}: ", Tone.ACCENT))
    known = state.detail.removesuffix(frame.disagreement) if source == "pcm" else ""
    known = known.removesuffix("; ")
    text = "; ".join(filter(None, (what, known)))
    return paragraph(text, width, lead=lead, tone=Tone.MUTED)


def caveat(row: PackageRow, metric: str) -> str:
    """Fallback source of a package's number and its caveat; "" for the first choice."""
    source = row.origins.get(metric)
    if source is None:
        return ""
    more = caveat_of(metric)
    return f"; from {source}{', ' + more if more else ''}"


def reason_lines(
    named: Iterable[tuple[str, Reading, str]], locations: int, width: int
) -> list[Line]:
    """Why numbers are absent: each reason once, with what it is the reason of and where.

    `named` are labels, their readings and locations; where all of these have the reason they are
    not listed.
    """
    by_reason: dict[Missing, dict[str, list[str]]] = {}
    for label, reading, location in named:
        if isinstance(reading, Missing):
            why = Missing(reading.reason, reading.message)
            by_reason.setdefault(why, {}).setdefault(label, []).append(location)
    lines: list[Line] = []
    for why, labels in by_reason.items():
        by_location: dict[tuple[str, ...], list[str]] = {}
        for label, listed in labels.items():
            by_location.setdefault(tuple(listed), []).append(label)
        for holders, of_them in by_location.items():
            where = "" if len(holders) == locations else f" on {', '.join(holders)}"
            lines += table.reason_lines({why: [f"{', '.join(of_them)}{where}"]}, width)
    return lines


def _by_source(
    packages: Iterable[PackageRow], metrics: tuple[Metric, ...]
) -> Mapping[str, list[str]]:
    """Labels by fallback source, in the order of the metrics."""
    result: dict[str, dict[str, None]] = {}
    names = [*((metric.id, metric.label) for metric in metrics), ("links", LINKS)]
    for row in packages:
        for name, label in names:
            if name in row.origins:
                result.setdefault(row.origins[name], {})[label] = None
    return {source: list(labels) for source, labels in result.items()}
