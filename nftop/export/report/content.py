"""What a report says: blocks of text, tables and graphs, made from an interval of a recording.

Their texts are untrusted; `pages` cleans and escapes them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from nftop import __version__
from nftop.model.change import Change
from nftop.model.clock import clock_of, date_time_of
from nftop.model.frame import Frame
from nftop.model.incident import Incident, Severity
from nftop.model.metrics.catalogue import METRICS
from nftop.model.metrics.metric import Unit
from nftop.model.missing import Missing, Reading, Reason
from nftop.model.number_text import counted
from nftop.model.rdt.rdt import class_name
from nftop.model.struct import dataclass
from nftop.model.timeline import TimelineEvent
from nftop.render.base import format as fmt
from nftop.render.base.format import duration_text
from nftop.render.base.text import printable
from nftop.render.cache.verdict import summary
from nftop.render.frame.changes import texts
from nftop.render.incidents.line import (
    change_text,
    cost_label,
    culprit_text,
    price_text,
    title_text,
)
from nftop.render.incidents.page import lost_text, source_text
from nftop.session.report_data import ChangeVerdict, ReportData, SubjectMeans

_WIDTH = 10  # of a number
_UNITS: Mapping[Unit, tuple[float, str]] = {
    Unit.PACKETS_PER_S: (1e-6, "Mpps"),
    Unit.BYTES_PER_S: (1e-9, "GB/s"),
    Unit.BYTES: (2.0**-20, "MiB"),
    Unit.CYCLES: (1.0, "cycles"),
}
_UNIT_OF: Mapping[tuple[str, str], Unit] = {
    (metric.scope, metric.id): metric.unit for metric in METRICS
}
_GLYPHS = {Severity.BAD: "●", Severity.WARN: "▲", Severity.INFO: "i"}


@dataclass(frozen=True, slots=True)
class Heading:
    """Title of a section, of level 1 to 3."""

    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    text: str
    is_alert: bool = False


@dataclass(frozen=True, slots=True)
class Items:
    """A list; `is_code`: of command lines."""

    texts: tuple[str, ...]
    is_code: bool = False


@dataclass(frozen=True, slots=True)
class TextTable:
    """A table of texts; `numbers`: first column with numbers, and the first behind those."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: tuple[int, int] = (0, 0)

    def is_number(self, column: int) -> bool:
        return self.numbers[0] <= column < self.numbers[1]


@dataclass(frozen=True, slots=True, eq=False)
class Graph:
    """Curves over the interval; in Markdown a table.

    Attributes:
        unit: of the values, as drawn.
        curves: name and values, NaN for gaps.
        shades: parts of the interval (0 to 1) in which something harmed.
        moments: points of the interval (0 to 1) at which a class was changed.
    """

    title: str
    unit: str
    curves: tuple[tuple[str, NDArray[np.float64]], ...]
    shades: tuple[tuple[float, float], ...] = ()
    moments: tuple[float, ...] = ()
    ends: tuple[str, str] = ("", "")


ReportBlock: TypeAlias = Heading | Text | Items | TextTable | Graph


def report_blocks(data: ReportData, command: str, doctor: str = "") -> tuple[ReportBlock, ...]:
    """The whole report.

    `command`: the command line that made it. `doctor`: text of `nftop doctor`, "" without one.
    """
    blocks = [*_head(data, command), *_incidents(data), *_changes(data), *_nf_blocks(data)]
    blocks += [*_class_blocks(data), *_package_blocks(data), *_marker_blocks(data)]
    return (*blocks, *_source_blocks(data, doctor), *_commands(data))


def _head(data: ReportData, command: str) -> Iterator[ReportBlock]:
    frame, cut = data.last, data.cut
    badge = "SIMULATED: " if frame.host.simulated else ""
    yield Heading(f"{badge}nftop report of {frame.host.name}", 1)
    if frame.host.simulated:
        yield Text("All numbers are of a simulated host.", is_alert=True)
    span = duration_text((cut.to_ns - cut.from_ns) / 1e9)
    rows = [
        ("host", f"{frame.host.name}, {frame.host.model}"),
        ("time", f"{date_time_of(cut.from_ns)} to {date_time_of(cut.to_ns)}"),
        ("duration", f"{span}, {counted(data.ticks, 'tick')}"),
        ("recording", cut.file),
        ("made by", f"nftop {__version__}: {command}"),
    ]
    yield TextTable(("", ""), tuple(rows))
    losses = [loss.sentence for _, loss in cut.losses] + [cut.unfinished] * bool(cut.unfinished)
    for sentence in losses:
        yield Text(sentence, is_alert=True)
    harm = [event for event in _of_kind(data, "incident") if event.severity > Severity.INFO]
    if not harm:
        yield Text("No incident harmed a network function in this time.")
    for event in harm:
        if event.incident is not None:
            yield Text(f"{_GLYPHS[event.severity]} {_sentence(event.incident)}", is_alert=True)
    summed = _summed(data, "drop_packets_per_s")
    if summed is not None:
        drops, known, total = summed
        what = "all" if known == total else f"{known} of {total}"
        title = f"Packets dropped, {what} network functions"
        yield _graph(data, title, (("dropped", drops),), "Mpps")


def _of_kind(data: ReportData, kind: str) -> list[TimelineEvent]:
    return [event for event in data.events if event.kind == kind]


def _sentence(incident: Incident) -> str:
    """Culprit, victims and price; information harms nothing, so it only names what it is of."""
    culprit = incident.culprit
    others = [
        victim
        for victim in incident.victims
        if culprit is None or (victim.party.kind, victim.party.name) != (culprit.kind, culprit.name)
    ]
    head = f"{culprit_text(incident)} {title_text(incident)}"
    if incident.severity is Severity.INFO:
        names = ", ".join(victim.party.name for victim in others)
        return f"{head}; of {names}" if names else head
    victims = ", ".join(
        f"{victim.party.name} {change_text(victim.change)}".rstrip() for victim in others
    )
    sections = [head, f"harms {victims}" * bool(victims), price_text(incident)]
    return "; ".join(filter(None, sections))


def _incidents(data: ReportData) -> Iterator[ReportBlock]:
    events = _of_kind(data, "incident")
    if events:
        yield Heading("Incidents")
    notes = [event for event in events if event.severity is Severity.INFO]
    for event in sorted(events, key=lambda item: (-item.severity, item.begin_ns)):
        incident = event.incident
        if incident is None or event in notes:
            continue
        yield Heading(
            f"{_GLYPHS[event.severity]} {culprit_text(incident)} {title_text(incident)}", 3
        )
        end = "open at the end" if event.end_ns is None else f"to {clock_of(event.end_ns)}"
        worst = event.worst_drops_per_s
        lines = [f"{'before ' * incident.is_bound}{clock_of(event.begin_ns)} {end}"]
        if not isinstance(worst, Missing) and worst > 0:
            lines.append(
                f"dropped up to {_number(worst, Unit.PER_S)} packets/s at "
                f"{clock_of(event.worst_ns)}, "
                + lost_text(incident, _number(incident.dropped, Unit.PACKETS))
            )
        yield Text("; ".join(lines))
        if incident.victims:
            then = "last" if incident.until_ns is None else "worst"
            yield TextTable(
                ("victim", "metric", "before", then, "change", "cost", "before", then),
                tuple(
                    (
                        victim.party.name,
                        _with_unit(victim.metric, _unit("nf", victim.metric)),
                        _number(victim.before, _unit("nf", victim.metric)),
                        _number(victim.now, _unit("nf", victim.metric)),
                        change_text(victim.change),
                        cost_label(victim),
                        _number(victim.cpp_before, Unit.CYCLES, bound=victim.bounds[0]),
                        _number(victim.cpp_now, Unit.CYCLES, bound=victim.bounds[1]),
                    )
                    for victim in incident.victims
                ),
                (2, 8),
            )
        ended = incident.until_ns is not None
        chain = [
            f"{clock_of(item.wall_ns)} {item.text}{'' if ended else item.current}"
            f"{f', at {clock_of(item.valued_ns)}' if item.valued_ns else ''} [{source_text(item)}]"
            for item in incident.chain
        ]
        marks = {True: "ruled out", False: "not ruled out", None: "unknown"}
        chain += [
            f"also checked: {item.name} {item.text}, {marks[item.excluded]}"
            for item in incident.ruled_out
        ]
        yield Items(tuple(chain))
    if notes:
        yield Heading("Information", 3)
        listed = [(event.begin_ns, event.incident) for event in notes if event.incident is not None]
        yield Items(tuple(_note(begin, item, data.last) for begin, item in listed))


def _note(begin_ns: int, incident: Incident, last: Frame) -> str:
    """Information: its time, and its numbers with the time that they are of."""
    since = f"{'before ' * incident.is_bound}{clock_of(begin_ns)}"
    if incident.until_ns is not None:
        return f"{since} to {clock_of(incident.until_ns)}, last: {_sentence(incident)}"
    known = any(item.id == incident.id for item in last.incidents)
    at = f"at {clock_of(last.wall_ns)}" if known else "found later"
    return f"since {since}, {at}: {_sentence(incident)}"


def _changes(data: ReportData) -> Iterator[ReportBlock]:
    events = _of_kind(data, "change")
    if not events:
        return
    yield Heading("Changes and their verdicts")
    rows = []
    for event in events:
        what = ", ".join(texts(event.changes, data.last.mask_ways)) if event.changes else event.text
        until = "" if event.end_ns is None else f" {clock_of(event.end_ns)}"
        rows.append((clock_of(event.begin_ns), what, f"{event.state.value}{until}"))
    yield TextTable(("time", "change", "state"), tuple(rows))
    for judged in data.verdicts:
        yield from _verdict(judged)


def _verdict(judged: ChangeVerdict) -> Iterator[ReportBlock]:
    verdict = judged.verdict
    at = clock_of(verdict.noticed[-1].wall_ns)
    yield Heading(f"Verdict on the change of {at}", 3)
    yield Text(summary(verdict, 400).text.strip())
    rows = []
    for section in sorted(verdict.sections, key=lambda item: item.kind != "nf"):
        for row in section.rows:
            if not row.n_before and not row.n_after:
                continue
            unit = row.metric.unit
            reading = row.change_ratio
            change = (
                "" if isinstance(reading, Missing) else fmt.number(reading, Unit.CHANGE, _WIDTH)
            )
            name = class_name(section.name) if section.kind == "class" else section.name
            rows.append(
                (
                    f"{section.kind} {name}",
                    _with_unit(row.metric.id, unit),
                    row.word,
                    ("<" if row.bounds[0] else "") + _number(row.before, unit),
                    ("<" if row.bounds[1] else "") + _number(row.after, unit),
                    change,
                    f"{row.n_before}/{row.n_after}",
                    row.why,
                )
            )
    header = ("of", "metric", "verdict", "before", "after", "change", "samples", "why")
    yield TextTable(header, tuple(rows), (3, 7))
    yield from (Text(note) for note in verdict.notes)


def _nf_blocks(data: ReportData) -> Iterator[ReportBlock]:
    nfs = [(key, means) for key, means in data.subjects.items() if key.kind == "nf"]
    if not nfs:
        return
    yield Heading("Network functions")
    metrics = {
        "rx_packets_per_s": "in Mpps",
        "tx_packets_per_s": "out Mpps",
        "drop_packets_per_s": "dropped/s",
        "cpp": "CPP",
        "busy_cpp": "bCPP",
        "ipp": "IPP",
        "ipc": "IPC",
    }
    rows = [
        (means.name, *(_nf_mean(data, key.key, means, metric) for metric in metrics))
        for key, means in nfs
    ]
    yield TextTable(("mean of ticks", *metrics.values()), tuple(rows), (1, 8))
    yield Text(
        "<: an upper bound, empty polls included. bCPP is the mean of the ticks in which the "
        "network function separates them: not those of CPP."
    )
    if data.left_out:
        yield Text(f"{data.left_out} more network functions, classes or packages are left out.")
    for key, means in nfs:
        row = data.nfs.get(key.key)
        saturated = row is not None and row.saturated
        yield Heading(means.name, 3)
        scale = _UNITS[Unit.PACKETS_PER_S][0]
        packets = {
            "in": "rx_packets_per_s",
            "out": "tx_packets_per_s",
            "dropped": "drop_packets_per_s",
        }
        curves = tuple((name, means.series(metric) * scale) for name, metric in packets.items())
        yield _graph(data, "Packets", curves, "Mpps")
        busy = np.isfinite(means.series("busy_cpp")).any()
        name = (
            "cycles per packet" if saturated or busy else "cycles per packet, empty polls included"
        )
        yield _graph(data, name, ((name, means.series("busy_cpp" if busy else "cpp")),), "cycles")


def _class_blocks(data: ReportData) -> Iterator[ReportBlock]:
    classes = [(key, means) for key, means in data.subjects.items() if key.kind == "class"]
    if classes:
        yield Heading("Cache classes")
    for l3 in sorted({key.number for key, _ in classes}):
        here = [(key, means) for key, means in classes if key.number == l3]
        for title, metric in (
            (f"L3 {l3}: filled", "occupancy_bytes"),
            (f"L3 {l3}: memory traffic", "mbm_total_bytes_per_s"),
        ):
            scale, unit = _UNITS[_unit("group", metric)]
            curves = tuple(
                (class_name(means.name), means.series(metric) * scale) for _, means in here
            )
            yield _graph(data, title, curves, unit)


def _package_blocks(data: ReportData) -> Iterator[ReportBlock]:
    packages = [(key, means) for key, means in data.subjects.items() if key.kind == "package"]
    if packages:
        yield Heading("Sockets")
    for key, means in packages:
        scale, unit = _UNITS[Unit.BYTES_PER_S]
        curves = tuple(
            (metric.rpartition(".")[0] + " " + metric.split(".")[1].split("_")[0], values * scale)
            for metric in means.metrics
            if np.isfinite(values := means.series(metric)).any()
        )
        if curves:
            yield _graph(data, f"Socket {key.number}: memory and PCIe", curves, unit)


def _marker_blocks(data: ReportData) -> Iterator[ReportBlock]:
    markers = _of_kind(data, "marker")
    if markers:
        yield Heading("Markers")
        yield Items(tuple(f"{clock_of(event.begin_ns)} {event.text}" for event in markers))


def _source_blocks(data: ReportData, doctor: str) -> Iterator[ReportBlock]:
    yield Heading("Sources")
    rows = tuple(
        (name, "ok" if state.reason is Reason.PRESENT else state.reason.key, state.detail)
        for name, state in data.last.sources.items()
    )
    yield TextTable(("source", "state at the end", "detail"), rows)
    if doctor:
        yield Heading("nftop doctor")
        yield Items(tuple(doctor.rstrip("\n").splitlines()), is_code=True)


def _commands(data: ReportData) -> Iterator[ReportBlock]:
    yield Heading("Commands")
    file = shlex.quote(printable(data.cut.file))
    # A time without its date is the first such one of the recording.
    begin = shlex.quote(date_time_of(data.cut.from_ns))
    lines = [f"nftop replay {file} --at {begin}"]
    # What was done to a simulated host is nothing to do to a real one.
    host = data.last.host
    program = printable(host.program) if host.simulated else f"sudo {host.program}"
    lines += [
        f"{program} {command}"
        for event in _of_kind(data, "change")
        for command in change_commands(event.changes)
    ]
    yield Text("The same on screen, and masks and limits that were changed, as commands:")
    yield Items(tuple(lines), is_code=True)


def change_commands(changes: Sequence[Change]) -> list[str]:
    """`cat set ...` for the masks and limits that changed, one per class."""
    words: dict[str, list[str]] = {}
    for change in changes:
        cell = change.cell
        if cell.kind != "schemata" or change.old is None or change.new is None:
            continue
        option = "--mba" if cell.name == "MB" else f"--{cell.name.lower()}"
        words.setdefault(cell.group, []).extend((option, f"{cell.number}={change.new}"))
    return [
        shlex.join(
            ("cat", "set", "--group", printable(class_name(group)), *map(printable, options))
        )
        for group, options in words.items()
    ]


def _graph(
    data: ReportData, title: str, curves: tuple[tuple[str, NDArray[np.float64]], ...], unit: str
) -> Graph:
    first, span = data.cut.from_ns, max(1, data.cut.to_ns - data.cut.from_ns)

    def at(wall_ns: int | None) -> float:
        return 1.0 if wall_ns is None else min(1.0, max(0.0, (wall_ns - first) / span))

    shades = tuple(
        (at(event.begin_ns), at(event.end_ns))
        for event in _of_kind(data, "incident")
        if event.severity is Severity.BAD
    )
    moments = tuple(at(event.begin_ns) for event in _of_kind(data, "change"))
    ends = (clock_of(data.cut.from_ns), clock_of(data.cut.to_ns))
    return Graph(title, unit, curves, shades, moments, ends)


def _summed(data: ReportData, metric: str) -> tuple[NDArray[np.float64], int, int] | None:
    """Sum of a metric over the network functions that have it in Mpps, NaN where none has it.

    Also their number, and that of all network functions, those that are left out included.
    """
    known = [means.series(metric) for key, means in data.subjects.items() if key.kind == "nf"]
    total = len(known) + data.nfs_left_out
    known = [values for values in known if np.isfinite(values).any()]
    if not known:
        return None
    stacked = np.vstack(known)
    values = np.where(np.isfinite(stacked).any(axis=0), np.nansum(stacked, axis=0), np.nan)
    return values * 1e-6, len(known), total


def _unit(scope: str, metric: str) -> Unit:
    return _UNIT_OF.get((scope, metric), Unit.PER_S)


def _with_unit(metric: str, unit: Unit) -> str:
    return f"{metric} ({_UNITS[unit][1]})" if unit in _UNITS else metric


def _nf_mean(data: ReportData, key: str, means: SubjectMeans, metric: str) -> str:
    """Mean of a metric, or the reason of its last tick; costs may be upper bounds."""
    value = means.mean(metric)
    if value is None:
        last = data.nfs[key].readings.get(metric)
        return last.reason.key if isinstance(last, Missing) else "-"
    bound = key in data.bounded and metric in ("cpp", "ipp")
    return _number(value, _unit("nf", metric), bound=bound)


def _number(reading: Reading, unit: Unit, *, bound: bool = False) -> str:
    """A number in its unit, or the reason why there is none; `bound`: an upper bound."""
    if isinstance(reading, Missing):
        return reading.reason.key
    return fmt.cell(reading, unit, _WIDTH, bound=bound).strip()
