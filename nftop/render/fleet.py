"""The fleet screen: a row a host and network function, by harm as on one host's screens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nftop.derive.findings.registry import rule_called
from nftop.derive.findings.rule import si
from nftop.derive.fleet import cause_title, finding_title
from nftop.model.clock import clock_of, date_time_of
from nftop.model.fleet import FLEET_METRICS, FleetFrame, FleetHost, FleetIncident, FleetNf
from nftop.model.incident import Severity
from nftop.model.metrics.metric import Metric, is_bound, is_other
from nftop.model.metrics.nf import NF_METRICS
from nftop.model.missing import Missing, Reason
from nftop.model.number_text import counted
from nftop.model.rdt.rdt import class_name
from nftop.model.struct import dataclass, replace
from nftop.render.base.format import duration_text, worded
from nftop.render.base.line import BLANK, Click, Line, Span, Tone, crop, line, paragraph
from nftop.render.base.table import (
    TableCell,
    TableColumn,
    body_lines,
    fit_columns,
    header_line,
    mark_cell,
    number_cell,
    rule_line,
    text_cell,
)
from nftop.render.base.text import cells, fit, printable
from nftop.render.cores.harm import SICK
from nftop.render.cores.table import value_tone
from nftop.render.fleet_rows import FleetOrder, FleetRow, fleet_rows, name_of
from nftop.render.frame.header import alert_lines
from nftop.render.incidents.line import GLYPHS, TONES, WELL

_METRICS: Mapping[str, Metric] = {metric.id: metric for metric in NF_METRICS}
_DROPS = "drop_packets_per_s"


def _of_metric(key: str, label: str, width: int, priority: float) -> TableColumn:
    return TableColumn(key, label, width, priority=priority, metric=_METRICS[key])


_HOST = TableColumn("host", "HOST", 15, right=False, priority=0)
_NF = TableColumn("nf", "NF", 14, right=False, priority=0.5)
_EVENT = TableColumn("event", "INCIDENT, FINDING", 19, right=False, priority=2.5, grows=40)
_WIDE_FROM = 100
_AGE = TableColumn("age", "AGE", 6, priority=4)
COLUMNS: tuple[TableColumn, ...] = (
    _HOST,
    _NF,
    _of_metric("rx_packets_per_s", "IN Mpps", 8, 7),
    _of_metric("tx_packets_per_s", "OUT", 7, 1),
    _of_metric(_DROPS, "DROP/s", 8, 2),
    _of_metric("cpp", "CPP", 7, 3),
    _of_metric("room_ratio", "ROOM", 6, 5),
    _of_metric("ipc", "IPC", 6, 8),
    _of_metric("llc_misses_per_packet", "MISS/pkt", 9, 9),
    _AGE,
    TableColumn("class", "CLASS", 10, right=False, priority=10),
    _EVENT,
)
MARKS: tuple[tuple[str, str], ...] = (
    ("HOST", "the host's own name, or Prometheus' name of its target (instance)"),
    ("AGE", "age of the host's numbers: time of its readings to now, by Prometheus' clock"),
    ("down", "Prometheus' scrape of nftop serve fails there: there are no numbers"),
    ("gone", "Prometheus has had this target, and has it no more"),
    ("INCIDENT, FINDING", "what is wrong with the row, the worst first; +2: two more"),
    ("sick 5 of 12", "5 of the 12 rows lose packets, have no numbers, an incident or a finding"),
    ("\u25cf \u25b2 i", "an incident with packets lost, with harm, information"),
)
_MOST_NOTES = 2  # above the table
_GRACE_S = 1.0  # an answer may be so much later than the one before
_LONGEST = 200  # characters of a label on a page, and of a host's name above the table:
_LONGEST_HOST = 28
_HURT_AGE_S = 60.0  # numbers of this age are old, whatever the interval


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """State of the session.

    Attributes:
        source: the Prometheus, as the operator wrote it, without a token.
        now_ns: CLOCK_MONOTONIC.
        mode: `LIVE` or `PAUSED`.
        ended: why there are no more frames; "" while there are.
    """

    source: str
    interval_s: float
    now_ns: int
    mode: str = "LIVE"
    ended: str = ""


# Above the table


def fleet_header(frame: FleetFrame, status: FleetStatus, width: int, rows: int) -> list[Line]:
    """Header, what is wrong with the answers, and incidents in `rows` lines."""
    notes = list(frame.notes[:_MOST_NOTES])
    if more := len(frame.notes) - len(notes):
        notes.append(f"and {more} more (x)")
    warnings = (status.ended, frame.problem, *map(printable, notes))
    return [
        _header(frame, status, width),
        *alert_lines(*warnings, width=width),
        *fleet_incidents(frame, width, rows),
    ]


def waiting_header(status: FleetStatus, width: int) -> list[Line]:
    """Screen before the first answer."""
    first = line(Span("nftop fleet", Tone.STRONG), f"  waiting for {printable(status.source)}")
    return [crop(first, width), *alert_lines(status.ended, width=width)]


def _header(frame: FleetFrame, status: FleetStatus, width: int) -> Line:
    """Hosts, mode, sums, the source with the age of its answer; what does not fit is left out."""
    states: list[str] = [host.state for host in frame.hosts]
    count = len(states)
    spans = [Span(counted(count, "host"), Tone.STRONG)]
    for state, tone in (("down", Tone.BAD), ("gone", Tone.WARN)):
        if number := states.count(state):
            spans += [Span(", ", Tone.MUTED), Span(f"{number} {state}", tone)]
    badges = sorted({host.badge for host in frame.hosts if host.badge})
    badge = line(Span(f" {printable(badges[0])} ", Tone.BADGE), " ") if badges else BLANK
    left = line(" ", badge, Span("nftop fleet ", Tone.ACCENT), *spans)
    mode = (
        line(Span("\u25cf ", Tone.ACCENT), Span("LIVE", Tone.STRONG), f" {status.interval_s:g}s")
        if _mode(frame, status) == "LIVE"
        else line(Span(f" {_mode(frame, status)} ", Tone.BADGE))
    )
    age_s = max(0.0, (status.now_ns - frame.monotonic_ns) / 1e9)
    age_text = f"{duration_text(age_s)} ago" if frame.evaluated_s else "no answer yet"
    late = _mode(frame, status) in ("LATE", "STALE") or bool(frame.problem)
    age = Span(age_text, Tone.BAD if late else Tone.MUTED)
    source = line(Span(printable(status.source), Tone.MUTED), " ", age)
    totals = line(*_totals(frame))
    lost = line(*_totals(frame)[-1:])
    clock = line(clock_of(frame.wall_ns), " ")
    for right in (
        (totals, source, clock),
        (totals, line(age), clock),
        (totals, line(age)),
        (lost, line(age)),
        (line(age),),
        (),
    ):
        end = line(*(item for shown in right for item in ("  ", shown)))
        start = line(left, "  ", mode)
        if start.width + end.width <= width:
            return line(start, " " * (width - start.width - end.width), end)
    return crop(left, width)


def _mode(frame: FleetFrame, status: FleetStatus) -> str:
    """Badge; `LIVE` only while Prometheus answers: an answer is due after every interval."""
    if status.ended:
        return "STOPPED"
    if status.mode != "LIVE":
        return status.mode
    age_s = (status.now_ns - frame.monotonic_ns) / 1e9
    due_s = status.interval_s + frame.took_s + _GRACE_S
    if frame.problem:
        return "NO ANSWER"
    late = "STALE" if age_s > due_s + status.interval_s else "LATE"
    return late if age_s > due_s else "LIVE"


def _totals(frame: FleetFrame) -> tuple[Span, ...]:
    """Packets sent and lost per second by all network functions that report them."""
    sums = []
    for key in ("tx_packets_per_s", _DROPS):
        readings = [nf.readings[key] for nf in frame.nfs]
        known = [item for item in readings if not isinstance(item, Missing)]
        sums.append(sum(known) if known else None)
    sent, lost = sums
    packets = () if sent is None else (Span(f"{sent / 1e6:,.0f} Mpps  ", Tone.PLAIN),)
    if lost is None:
        return packets
    tone = Tone.BAD if lost > 0 else Tone.MUTED
    return (*packets, Span(f"{si(lost)} drop/s", tone))


def fleet_incidents(frame: FleetFrame, width: int, rows: int) -> list[Line]:
    """The worst incidents of all hosts in exactly `rows` lines; the last one counts the others."""
    harm = [item for item in frame.incidents if item.severity > Severity.INFO]
    notes = [item for item in frame.incidents if item.severity is Severity.INFO]
    shown = [*harm, *notes]
    lines = [] if harm or (notes and not _losing(frame)) else [_well(frame, width)]
    room = rows - len(lines)
    for number, item in enumerate(shown[: max(room, 0)], 1):
        more = len(shown) - number if number == room else 0
        lines.append(_incident_line(frame, item, width, more))
    return [*lines, *[BLANK] * (rows - len(lines))][:rows]


def _losing(frame: FleetFrame) -> list[FleetNf]:
    """Network functions that lose packets."""
    return [
        nf for nf in frame.nfs if not isinstance(lost := nf.readings[_DROPS], Missing) and lost > 0
    ]


def _well(frame: FleetFrame, width: int) -> Line:
    if not frame.evaluated_s:
        return BLANK
    if not frame.hosts:
        text = f"{GLYPHS[Severity.INFO]} no target of this scrape job (--job NAME)"
        return crop(line(" ", Span(text, Tone.MUTED)), width)
    absent = sum(host.state != "up" for host in frame.hosts)
    if losing := _losing(frame):
        count = counted(len(losing), "network function")
        text = f"{GLYPHS[Severity.WARN]} {count} with losses, no incident of them"
        return crop(line(" ", Span(text, Tone.WARN)), width)
    if absent:
        text = f"{GLYPHS[Severity.WARN]} no incident where there are numbers; {absent} without"
        return crop(line(" ", Span(text, Tone.WARN)), width)
    head = Span(f"{WELL} nothing hurts", Tone.GOOD)
    return crop(line(" ", head, Span("  no incident on any host", Tone.MUTED)), width)


def _incident_line(frame: FleetFrame, item: FleetIncident, width: int, more: int) -> Line:
    """Host, culprit, what it is, victims, price, age."""
    tone = TONES[item.severity]
    age = incident_age(frame, item)
    tail = f" {age:>6}" + (f" +{more}" if more else "")
    head = line(
        " ",
        Span(GLYPHS[item.severity], tone),
        " ",
        Span(_cut(item.host.name, _LONGEST_HOST), Tone.STRONG),
        "  ",
    )
    room = max(0, width - head.width - cells(tail))
    cause, effects = _fitting(item, room)
    blank = " " * max(0, room - cells(cause) - cells(effects))
    shown = crop(line(head, cause, blank, Span(effects, tone), Span(tail, Tone.MUTED)), width)
    return Line(shown.spans, shown.fill, Click("host", item.host.instance))


def _fitting(item: FleetIncident, room: int) -> tuple[str, str]:
    """The longest forms of cause and effects that fit side by side; both shrink alike."""
    causes, effects = _causes(item), _effects(item)
    pairs = [(left, right) for left in range(len(causes)) for right in range(len(effects))]
    pairs.sort(key=lambda pair: (sum(pair), pair[1]))
    for left, right in pairs:
        if cells(causes[left]) + cells(effects[right]) + 2 <= room:
            return causes[left], effects[right]
    return fit(causes[-1], room), ""


def _causes(item: FleetIncident) -> list[str]:
    """`tenant (vm gw1): noisy neighbour`, and shorter."""
    culprit, title = item.culprit, cause_title(item.kind)
    facts = item.container or (f"class {item.group}" if item.group and culprit else "")
    texts = [f"{culprit} ({facts}): {title}"] if culprit and facts else []
    texts += [f"{culprit}: {title}"] if culprit else []
    return [printable(text) for text in (*texts, title)]


def _effects(item: FleetIncident) -> list[str]:
    """`-> vpp, ovs  3.8M drop/s`, and shorter."""
    lost = item.drops_per_s
    price = "" if isinstance(lost, Missing) or not lost else f"{si(lost)} drop/s"
    count = len(item.victims)
    texts = [victim_names(item)]
    if count > 1:
        texts += [f"{item.victims[0].name} +{counted(count - 1, 'NF')}", f"{count} NFs"]
    forms = [f"→ {text} {price}".rstrip() for text in texts if text]
    return [printable(text) for text in (*forms, price)]


def victim_names(item: FleetIncident) -> str:
    """Names of its victims (untrusted text)."""
    return ", ".join(victim.name for victim in item.victims)


def incident_age(frame: FleetFrame, item: FleetIncident) -> str:
    """Since when it has been open, by Prometheus' clock; "" if unknown."""
    if item.since_s is None or not frame.evaluated_s > 0:
        return ""
    return duration_text(frame.evaluated_s - item.since_s)


# The table


def fleet_columns(width: int, rows: Sequence[FleetRow]) -> tuple[TableColumn, ...]:
    """Host and network function as wide as their names, then what fits, by priority."""
    wide = width >= _WIDE_FROM
    hosts = max((cells(printable(row.host.name)) for row in rows), default=0)
    nfs = max((cells(_nf_name(row)) for row in rows), default=0)
    names = {
        _HOST.key: min(max(hosts + 1, 8), 28 if wide else 16),
        _NF.key: min(max(nfs + 1, 8), 22 if wide else 15),
    }
    return fit_columns(
        [replace(col, width=names.get(col.key, col.width)) for col in COLUMNS], width, least=2
    )


def _nf_name(row: FleetRow) -> str:
    """Its name, without the word that all DPDK applications have."""
    name = Reason.UNDEFINED.mark if row.nf is None else row.nf.name.replace("/dpdk-", "/")
    return printable(name)


def fleet_order_line(rows: Sequence[FleetRow], order: FleetOrder, width: int) -> Line:
    """Order, filter, and how many rows are sick."""
    labels = {"": "harm"} | {col.key: col.label for col in COLUMNS}
    sick = sum(row.harm >= SICK for row in rows)
    text = f"{labels[order.sort]}{'▼' if order.descending else '▲'}"
    sort, chosen = Click("sort_menu"), Click("ask_filter")
    return crop(
        line(
            Span(" sort ", Tone.MUTED, sort),
            Span(text, Tone.PLAIN, sort),
            Span("  filter ", Tone.MUTED, chosen),
            Span(printable(order.filter) or "-", Tone.PLAIN, chosen),
            Span("  sick ", Tone.MUTED),
            Span(f"{sick} of {len(rows)}", Tone.WARN if sick else Tone.MUTED),
        ),
        width,
    )


def fleet_table_header(columns: Sequence[TableColumn], order: FleetOrder, width: int) -> Line:
    return crop(header_line(columns, order.sort, descending=order.descending), width)


def fleet_lines(
    rows: Sequence[FleetRow], columns: Sequence[TableColumn], frame: FleetFrame, now_ns: int
) -> list[Line]:
    """A line of each row."""
    passed_s = max(0.0, (now_ns - frame.monotonic_ns) / 1e9)

    def drawn(col: TableColumn) -> list[TableCell]:
        if col.metric is not None:
            return [(_metric_cell(row, col, col.metric),) for row in rows]
        if col.key == _AGE.key:
            return [(_age_cell(row.host, col, passed_s),) for row in rows]
        if col.key == _EVENT.key:
            return [(_event_cell(row, col, now_ns),) for row in rows]
        return [(_name_cell(row, col),) for row in rows]

    return body_lines(columns, drawn)


def _name_cell(row: FleetRow, col: TableColumn) -> Span:
    text = _nf_name(row) if col.key == _NF.key else name_of(row, col.key)
    tone = Tone.STRONG if row.harm >= SICK and col.key == "host" else Tone.PLAIN
    return text_cell(text, col.width, tone=tone)


def _metric_cell(row: FleetRow, col: TableColumn, metric: Metric) -> Span:
    nf = row.nf
    if nf is None:
        return mark_cell(Reason.STALE if row.host.state != "up" else Reason.UNDEFINED, col.width)
    reading = nf.readings[metric.id]
    if isinstance(reading, Missing):
        return mark_cell(reading.reason, col.width)
    clock = nf.cpp_clock or None
    return number_cell(
        reading,
        metric.unit,
        col.width,
        bound=is_bound(metric, saturated=nf.saturated, clock=clock),
        estimate=metric.per_clock and is_other(clock),
        tone=value_tone(metric, reading, Tone.PLAIN, saturated=nf.saturated),
    )


def _age_cell(host: FleetHost, col: TableColumn, passed_s: float) -> Span:
    age = host.age_s
    if isinstance(age, Missing):
        return mark_cell(age.reason, col.width)
    age_s = age + passed_s
    tone = Tone.WARN if age_s >= _HURT_AGE_S else Tone.MUTED
    return text_cell(duration_text(age_s), col.width, right=True, tone=tone)


def _event_cell(row: FleetRow, col: TableColumn, now_ns: int) -> Span:
    if row.host.state != "up":
        return text_cell(_since_text(row.host, now_ns), col.width, tone=Tone.BAD)
    nf = row.nf
    if nf is not None and nf.problem is not None:
        return text_cell(nf.problem.message, col.width, tone=Tone.WARN)
    if nf is None:
        events = tuple(cause_title(item.kind) for item in row.incidents)
        severity = row.incidents[0].severity if row.incidents else None
    else:
        events, severity = nf.events, nf.severity
    if not events:
        text = "no network function" if nf is None else ""
        return text_cell(text, col.width, tone=Tone.MUTED)
    more = f" +{len(events) - 1}" if len(events) > 1 else ""
    tone = TONES[severity] if severity is not None else Tone.MUTED
    head = text_cell(events[0], col.width - cells(more)).text.rstrip()
    return text_cell(head + more, col.width, tone=tone)


# Pages


def explain_fleet_lines(frame: FleetFrame, row: FleetRow, width: int) -> list[Line]:
    """All that is known of a row's host, and of its network function."""
    host, nf = row.host, row.nf
    unknown = host.state != "up"
    state = _since_text(host, frame.monotonic_ns) if unknown else "up"
    facts = [
        ("instance", host.instance),
        ("processor", host.model),
        ("nftop", host.version),
        ("state", state),
        ("age", worded_age(host)),
        ("time", date_time_of(frame.wall_ns)),
    ]
    lines = [rule_line(_cut(host.name), _cut(host.badge), width), *_facts(facts, width)]
    if nf is not None:
        lines += [BLANK, rule_line(_cut(nf.name), _cut(f"{nf.kind} {nf.pid}".strip()), width)]
        lines += _facts(
            [("CPUs", nf.cpus), ("cache class", nf.group and class_name(nf.group))], width
        )
        for key in FLEET_METRICS:
            metric, reading = _METRICS[key], nf.readings[key]
            bound = is_bound(metric, saturated=nf.saturated, clock=nf.cpp_clock or None)
            value = (
                reading.message
                if isinstance(reading, Missing)
                else worded(reading, metric.unit, bound=bound)
            )
            lines += _facts([(metric.label, f"{value}: {metric.meaning}")], width)
    incidents = [item for item in frame.incidents if item.host is host]
    lines += [BLANK, rule_line("incidents of this host", "", width)]
    for item in incidents:
        lead = line(Span(GLYPHS[item.severity], TONES[item.severity]), " ")
        victims = f" \u2192 {victim_names(item)}" if item.victims else ""
        age = incident_age(frame, item)
        text = (
            f"{_cut(_causes(item)[0])}{_cut(victims)} [{_cut(item.id)}{f', {age}' if age else ''}]"
        )
        lines += paragraph(text, width, lead=lead)
    none = f"not known: the host is {state}" if unknown else "none is open"
    lines += [] if incidents else paragraph(none, width, tone=Tone.MUTED)
    if unknown and not any(item.host is host for item in frame.findings):
        lines += [BLANK, rule_line("findings of this host", "", width)]
        lines += paragraph(none, width, tone=Tone.MUTED)
    else:
        lines += [BLANK, *_finding_lines(frame, width, host)]
    if frame.notes:
        lines += [BLANK, rule_line("Prometheus' answers", "", width)]
        lines += [item for note in frame.notes for item in paragraph(note, width)]
    return lines


def _since_text(host: FleetHost, now_ns: int) -> str:
    """`down 22s or more`: it was so when first seen so."""
    return f"{host.state} {duration_text(max(0.0, (now_ns - host.since_ns) / 1e9))} or more"


def worded_age(host: FleetHost) -> str:
    """Age of a host's numbers, or why it is unknown."""
    return host.age_s.message if isinstance(host.age_s, Missing) else duration_text(host.age_s)


def _cut(text: str, most: int = _LONGEST) -> str:
    """A label (untrusted text) that is not longer than `most`."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _facts(facts: Sequence[tuple[str, str]], width: int) -> list[Line]:
    return [
        item
        for name, text in facts
        if text
        for item in paragraph(_cut(text), width, lead=line(Span(f"{name:<14}", Tone.MUTED)))
    ]


def fleet_findings_lines(frame: FleetFrame, width: int) -> list[Line]:
    """Findings of all hosts."""
    return _finding_lines(frame, width, None)


def _finding_lines(frame: FleetFrame, width: int, host: FleetHost | None) -> list[Line]:
    rows = [item for item in frame.findings if host is None or item.host is host]
    title = "findings of all hosts" if host is None else "findings of this host"
    lines = [rule_line(title, f"{len(rows)}", width)]
    for item in rows:
        rule = rule_called(item.rule)
        known = "" if rule is not None else " (a rule of another nftop)"
        muted = " (muted there)" if item.muted else ""
        owner = f"{_cut(item.host.name)}: " if host is None else ""
        where, title, rule_id = map(_cut, (item.where, finding_title(item.rule), item.rule))
        text = f"{owner}{where}: {title}{known}{muted} [{rule_id}]"
        lines += paragraph(text, width, tone=Tone.MUTED if item.muted else Tone.PLAIN)
    return lines if rows else [*lines, *paragraph("there is none", width, tone=Tone.MUTED)]


def unmapped_lines(
    host: FleetHost, path: str, to_add: Sequence[str], unread: Sequence[str], width: int
) -> list[Line]:
    """Why a host can't be opened, and what to add to the configuration.

    `unread`: files that may name it and can't be read, with why.
    """
    why = (
        f"{_cut(host.name)} can't be opened: the configuration names no host of ssh for the "
        f"target {_cut(host.instance)}. Names from Prometheus are never given to ssh. Add, with "
        f"the host's name in place of HOST, to the table fleet.hosts of {path}:"
    )
    return [
        *paragraph(why, width),
        BLANK,
        *(crop(line(Span(text, Tone.ACCENT)), max(width, cells(text))) for text in to_add),
        BLANK,
        *paragraph("C copies these lines; nftop reads the file when it starts.", width),
        *(item for text in unread for item in paragraph(f"not read: {text}", width)),
    ]


def fleet_text(frame: FleetFrame, status: FleetStatus, width: int) -> list[Line]:
    """A frame for the batch output: header, all incidents, all rows."""
    order = FleetOrder()
    rows = fleet_rows(frame, order)
    columns = fleet_columns(width, rows)
    return [
        *fleet_header(frame, status, width, max(1, len(frame.incidents))),
        fleet_table_header(columns, order, width),
        *fleet_lines(rows, columns, frame, status.now_ns),
    ]
