"""Incidents in few lines of every screen: culprit, what it does, victims, price, age."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nftop.derive.findings.registry import all_rules
from nftop.derive.findings.rule import si
from nftop.derive.incidents.victims import NOISE
from nftop.model.frame import Frame
from nftop.model.ids import format_cpu_list
from nftop.model.incident import Incident, Party, Severity, Victim
from nftop.model.metrics.catalogue import cpu_metric
from nftop.model.metrics.metric import Unit
from nftop.model.missing import Missing, Reading, Reason, number_or
from nftop.model.number_text import NO_CHANGE, counted
from nftop.model.struct import replace
from nftop.render.base import format as fmt
from nftop.render.base.format import duration_text, since_text
from nftop.render.base.line import BLANK, Click, Line, Span, Tone, crop, line, paragraph
from nftop.render.base.text import cells, fit, printable

_ESCAPED = re.compile(r"\\x([0-9a-f]{2})")

GLYPHS = {Severity.BAD: "●", Severity.WARN: "▲", Severity.INFO: "i"}
TONES = {Severity.BAD: Tone.BAD, Severity.WARN: Tone.WARN, Severity.INFO: Tone.MUTED}
WELL = "✔"
# An incident that ended is shown while nothing worse is open.
_RECENT_S = 120
_KEYS = " Tab"
_CLAUSE = re.compile(r", (?![^(]*\))| \(| through ")  # where a title ends that has to be shorter
# Facts of a culprit, and the first of them, which are its machine or process, and its pid.
_MOST_FACTS, _IDENTITY = 5, 2
# Cells of a screen below which the age is short, and of effects that say anything.
_NARROW, _LEAST_EFFECTS = 60, 6


def incident_lines(frame: Frame, width: int, rows: int) -> list[Line]:
    """The worst incidents in exactly `rows` lines; the last one counts the others.

    Open ones that harm come first, acknowledged ones behind the others, then those that ended in
    the last two minutes, then those that are information. Muted ones are not shown.
    """
    if rows <= 0:
        return []
    open_ = [item for item in frame.incidents if not item.muted]
    harm = [item for item in open_ if item.severity > Severity.INFO]
    harm.sort(key=lambda item: item.acknowledged)
    recent = [item for item in frame.past_incidents if _is_recent(frame, item)]
    notes = [item for item in open_ if item.severity is Severity.INFO]
    past_harm = [item for item in recent if item.severity > Severity.INFO]
    past_notes = [item for item in recent if item.severity is Severity.INFO]
    shown = [*harm, *past_harm, *notes, *past_notes]
    # Where there is one line, what ended a moment ago has it.
    lines: list[Line] = [] if harm or (rows == 1 and past_harm) else [_well(frame, width)]
    room = rows - len(lines)
    for number, item in enumerate(shown[:room], 1):
        hidden = len(shown) - number if number == room else 0
        lines.append(incident_line(frame, item, width, more=hidden, first=number == 1))
    muted = sum(item.muted and item.severity > Severity.INFO for item in frame.incidents)
    if muted and harm and lines:  # what is shown may not be the worst
        last = _with_tail(lines[-1], f" {muted} muted", width)
        lines[-1] = replace(last, click=lines[-1].click)
    if not room and shown and lines:
        lines[-1] = _with_tail(lines[-1], f" +{len(shown)}", width)
    return [*lines, *[BLANK] * (rows - len(lines))][:rows]


def incident_line(
    frame: Frame, incident: Incident, width: int, *, more: int = 0, first: bool = True
) -> Line:
    """One incident in a line; `more` others are counted at its end, the `first` has its key."""
    ended = incident.until_ns is not None
    quiet = ended or incident.acknowledged
    tone = Tone.MUTED if quiet else TONES[incident.severity]
    age = incident_age(incident, frame.monotonic_ns)
    age = age.removeprefix("ended ") if width < _NARROW else age
    tail = f" {age:>6}{_KEYS if first else ' ' * len(_KEYS)}"
    tail += f" +{more}" if more else ""
    room = width - 3 - cells(tail)
    if room < 10:
        short = line(" ", Span(GLYPHS[incident.severity], tone), " ", culprit_text(incident))
        return crop(short, width)
    least = cells(printable(f"{culprit_text(incident, 0)} {title_text(incident)}"))
    own = cells(printable(culprit_text(incident, 0)))
    brief = cells(_effect_forms(incident)[0][-1])
    # What identifies the culprit is more than further victims.
    fitting = (cells(text) for text in _cause_forms(incident, _IDENTITY))
    least = next((used for used in fitting if used + brief < room), least)
    right = _effects(incident, room - least - 1, min(room // 2, room - own - 2))
    left = _cause(incident, room - cells(right) - 1)
    blank = " " * max(room - cells(left) - cells(right), 1)
    strong = Tone.MUTED if quiet else Tone.STRONG
    names = (printable(culprit_text(incident, 0)), printable(culprit_name(incident)))
    head = next((name for name in names if left.startswith(name)), "")
    shown = crop(
        line(
            " ",
            Span(GLYPHS[incident.severity], tone),
            " ",
            Span(head, strong),
            Span(left[len(head) :] + blank, Tone.MUTED if quiet else Tone.PLAIN),
            Span(right[: right.find(" ") + 1], Tone.MUTED),
            Span(right[right.find(" ") + 1 :], Tone.MUTED if quiet else tone),
            Span(f" {age:>6}", Tone.MUTED),
            Span(tail[1 + max(6, cells(age)) :], Tone.ACCENT if first else Tone.MUTED),
        ),
        width,
    )
    return replace(shown, click=Click("incident", incident.id))


def incident_text(incident: Incident) -> str:
    """One incident in a sentence of any length, with its id and begin."""
    effects = _effects(incident, 1 << 20, 1 << 20)
    text = f"{culprit_text(incident)} {title_text(incident)} {effects}".rstrip()
    return f"{text} [{incident.id}, {since_text(incident)}]"


def incident_text_lines(frame: Frame, width: int) -> list[Line]:
    """All open incidents that are not muted, for the batch output; wrapped to `width`."""
    lines = []
    for item in frame.incidents:
        if item.muted:
            continue
        lead = line(Span(GLYPHS[item.severity], TONES[item.severity]), " ")
        lines += paragraph(incident_text(item), width, lead=lead)
    return lines


def culprit_name(incident: Incident) -> str:
    """Its class if it is a process that harms by its class, else its name.

    Of an incident without a known culprit the victim, which its title is about.
    """
    culprit = incident.culprit
    if culprit is None:
        return incident.victims[0].party.name if _is_of_victim(incident) else "unknown"
    if incident.kind == "neighbour" and culprit.group:
        return culprit.group
    return culprit.name


def title_text(incident: Incident) -> str:
    """What the culprit does or did; or the victim, of which no cause is known."""
    return f"{incident.title}{', cause not known' if incident.culprit is None else ''}"


def _is_of_victim(incident: Incident) -> bool:
    return incident.culprit is None and len(incident.victims) == 1


def culprit_text(incident: Incident, most: int | None = None) -> str:
    """`tenant (vm gw1, cpu 11-14)`, `burnin (pid 7900, user ci)`; with at most so many facts."""
    culprit = incident.culprit
    name = culprit_name(incident)
    if culprit is None:
        return name
    probably = "probably " if incident.likely else ""
    facts = ", ".join(_facts(culprit, name)[:most])
    return f"{probably}{name}{f' ({facts})' if facts else ''}"


def container_text(party: Party) -> str:
    r"""Its container for display: systemd's escapes of a unit, `\x2d`, as characters."""
    return _ESCAPED.sub(lambda hit: printable(chr(int(hit[1], 16))), party.container)


def _facts(culprit: Party, name: str) -> list[str]:
    """What identifies a culprit, the most useful first."""
    is_process = culprit.kind == "process"
    container = "" if culprit.container == f"{culprit.name}.service" else container_text(culprit)
    process = culprit.name if culprit.name != name else ""
    facts = [container or process]
    if is_process and culprit.pid is not None:
        facts.append(f"pid {culprit.pid}")
    if culprit.cpus and process:
        facts.append(f"cpu {format_cpu_list(culprit.cpus)}")
    if is_process and culprit.user not in ("", "root", "libvirt-qemu"):
        facts.append(f"user {culprit.user}")
    if container:
        facts.append(process)
    return [item for item in facts if item]


def incident_age(incident: Incident, now_ns: int) -> str:
    """How long it lasts, or when it ended: `2m10s`, `40s`, `3h05m`; `ended 40s ago`.

    `now_ns`: CLOCK_MONOTONIC.
    """
    if incident.ended_ns is None:
        return duration_text(incident.lasted_s(now_ns))
    return f"ended {duration_text((now_ns - incident.ended_ns) / 1e9)} ago"


def change_text(change: Reading) -> str:
    """`-9%`, `+12%`, `0%`, `x13`, as in cells; "" if unknown."""
    return "" if isinstance(change, Missing) else fmt.number(change, Unit.CHANGE, 8)


def harm_text(victim: Victim) -> str:
    """`change_text` of a change for the worse; "" of another."""
    costs = victim.metric.endswith("cpp")
    worse = not isinstance(victim.change, Missing) and (victim.change > 0) is costs
    return change_text(victim.change) if worse or victim.change == 0 else ""


def cost_label(victim: Victim) -> str:
    """Column header of its cost: `bCPP` where it counts work alone, else `CPP`."""
    return cpu_metric(victim.cost).label


def price_text(incident: Incident) -> str:
    """`7.23M drop/s`, or packets that are not sent; "" if nothing is lost.

    Of an incident that ended at its worst: `dropped up to 7.35M/s`.
    """
    ended = incident.until_ns is not None
    price = incident.worst if ended else incident.price
    drops, lost = price.drops_per_s, price.lost_packets_per_s
    if not isinstance(drops, Missing) and drops > 0:
        return f"dropped up to {si(drops)}/s" if ended else f"{si(drops)} drop/s"
    if not isinstance(lost, Missing) and lost >= 1e4:
        return f"lost up to {si(lost)} pps" if ended else f"{si(lost)} pps lost"
    return ""


def _cause_forms(incident: Incident, most: int = _MOST_FACTS) -> Iterator[str]:
    """Culprit with at most so many facts, and what it does; ever shorter.

    The process of a class is named as long as there is room for the first clause of its title.
    """
    whole = title_text(incident)
    titles = [whole, *(whole[: end.start()] for end in reversed([*_CLAUSE.finditer(whole)]))]
    culprit = incident.culprit
    names = culprit is not None and culprit_name(incident) != culprit.name
    forms = [(facts, whole) for facts in range(most, 0, -1)]
    forms += [(1, title) for title in titles if names]
    for facts, title in (*forms, *((0, title) for title in titles)):
        yield printable(f"{culprit_text(incident, facts)} {title}")


def _cause(incident: Incident, room: int) -> str:
    """Culprit and what it does, in at most `room` cells."""
    for text in _cause_forms(incident):
        if cells(text) <= room:
            return text
    return fit(printable(f"{culprit_name(incident)} {title_text(incident)}"), room).rstrip()


def _effect_forms(incident: Incident) -> tuple[list[str], tuple[str, ...]]:
    """Victims and price, from all with their changes to the first one's name; what is shorter."""
    price = price_text(incident)
    harmed = [item for item in incident.victims if _is_harmed(item)] or incident.victims
    changes = [_change(item) for item in harmed]
    called = [item.party.name for item in harmed]
    victims = [f"{name} {change}".rstrip() for name, change in zip(called, changes, strict=True)]
    own = _is_of_victim(incident) or (
        incident.culprit is not None
        and [item.party.key for item in incident.victims] == [incident.culprit.key]
    )
    if own:  # harms only itself: its name is there already
        victims = changes
    forms = []
    shown = [victims[:count] for count in range(len(victims), 0, -1)]
    if victims and not own:  # the first without its change
        shown.append(called[:1])
    for names_shown in (*shown, []):
        left = len(victims) - len(names_shown)
        rest = f"{'+' * bool(names_shown)}{counted(left, 'NF')}" if left else ""
        text = printable(" ".join(filter(None, (*names_shown, rest, price))))
        forms.append(f"→ {text}" if text else "")
    # The first victim alone is more than a price that is cut.
    short = (f"→ {printable(called[0])}",) if victims and not own else ()
    return forms[:-1] or forms, (*short, forms[-1])


def _effects(incident: Incident, tight: int, room: int) -> str:
    """Victims and price, in `tight` cells if one victim fits there, else in at most `room`."""
    (forms, shorter), most = _effect_forms(incident), max(tight, room)
    for limit, texts in ((tight, forms), (most, (*forms, *shorter[:-1]))):
        fitting = next((text for text in texts if cells(text) <= limit), None)
        if fitting is not None:
            return fitting
    return fit(shorter[-1], most).rstrip() if most >= _LEAST_EFFECTS else ""


def _change(victim: Victim) -> str:
    """`-9%` of packets, `CPP +2%`; "" if unknown or noise."""
    if isinstance(victim.change, Missing) or abs(victim.change) < NO_CHANGE:
        return ""
    if victim.metric.endswith("cpp"):
        return f"{cost_label(victim)} {change_text(victim.change)}"
    # Of an NF that drops while it sends more, only the drops are harm.
    return change_text(victim.change) if victim.change < 0 and _is_harmed(victim) else ""


def _is_harmed(victim: Victim) -> bool:
    """Whether a victim drops, or sends less or costs more by more than noise."""
    if number_or(victim.drops_per_s, 0.0) > 0:
        return True
    if isinstance(victim.change, Missing):
        return False
    costs = victim.metric.endswith("cpp")
    return (victim.change if costs else -victim.change) > NOISE


def _is_recent(frame: Frame, incident: Incident) -> bool:
    if incident.muted or incident.ended_ns is None:
        return False
    return 0 <= frame.monotonic_ns - incident.ended_ns <= _RECENT_S * 1e9


def _well(frame: Frame, width: int) -> Line:
    """That nothing harms; or that packets are lost and no cause is known yet."""
    dropped = sum(number_or(nf.readings["drop_packets_per_s"], 0.0) for nf in frame.nfs)
    muted = sum(item.muted and item.severity > Severity.INFO for item in frame.incidents)
    mutes = f"{counted(muted, 'incident')} muted"
    if dropped > 0:
        text = f"{si(dropped)} drop/s, {mutes if muted else 'cause not known yet'}"
        return crop(line(" ", Span(f"{GLYPHS[Severity.WARN]} {text}", Tone.WARN)), width)
    pollers = sum(nf is not None for nf in frame.cpus.nf)
    rules = len(all_rules())
    why = _not_judged(frame, pollers)
    texts = [why or f"{rules} rules watch {counted(pollers, 'poller')}"]
    texts += [mutes] if muted else []
    notes = sum(item.severity is Severity.INFO for item in frame.incidents)
    texts += [counted(notes, "note")] if notes else []
    if why:
        text = "; ".join(texts)
        return crop(line(" ", Span(f"{GLYPHS[Severity.INFO]} {text}", Tone.MUTED)), width)
    texts.append(_last(frame))
    body = f"  {'; '.join(filter(None, texts))}"
    hurts = "no harm" if frame.incidents or frame.past_incidents else "nothing hurts"
    head = line(" ", Span(f"{WELL} ", Tone.GOOD), hurts)
    return crop(line(head, Span(body, Tone.MUTED)), width)


def _not_judged(frame: Frame, pollers: int) -> str:
    """Why it is not known whether anything harms; "" if it is."""
    if has_no_values(frame):
        return "measuring: no values yet, rates need two readings"
    if not frame.nfs and not pollers:
        return "nothing to watch: no network function or polling CPU found (doctor: F9)"
    readings = [nf.readings["drop_packets_per_s"] for nf in frame.nfs]
    known = [item for item in readings if not isinstance(item, Missing)]
    absent = [item for item in readings if isinstance(item, Missing)]
    return "" if known or not absent else f"drops are not known: {printable(absent[0].message)}"


def has_no_values(frame: Frame) -> bool:
    """Whether nothing can be judged yet: all rates wait for their next reading."""
    columns = [frame.cpus.columns[name] for name in _JUDGED]
    readings = [nf.readings[name] for nf in frame.nfs for name in _JUDGED_OF_NFS]
    if any(column.present.any() for column in columns):
        return False
    if any(not isinstance(item, Missing) for item in readings):
        return False
    waiting = any((column.reasons == int(Reason.WARMING)).any() for column in columns)
    return waiting or any(
        item.reason is Reason.WARMING for item in readings if isinstance(item, Missing)
    )


_JUDGED = ("cpu_time_ratio", "wait_ratio", "ipc", "packets_per_s")
_JUDGED_OF_NFS = ("rx_packets_per_s", "tx_packets_per_s", "drop_packets_per_s")


def _last(frame: Frame) -> str:
    """When the last harm ended; that there was none only where there is no incident at all."""
    past = frame.past_incidents
    ends = [item.ended_ns for item in past if item.ended_ns and item.severity > Severity.INFO]
    if ends:
        return f"no harm for {duration_text((frame.monotonic_ns - max(ends)) / 1e9)}"
    return "" if past or frame.incidents else "no incident so far"


def _with_tail(whole: Line, tail: str, width: int) -> Line:
    return line(crop(whole, width - cells(tail)), Span(tail, Tone.MUTED))
