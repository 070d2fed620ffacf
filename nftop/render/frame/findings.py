"""Findings as text: on the lines below the header, on their page, and in the batch output."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from nftop.derive.findings.rules import rule_called
from nftop.model.frame import Finding, Frame
from nftop.render.base.line import BLANK, Line, Span, Tone, crop, line, paragraph
from nftop.render.frame.changes import clock_of
from nftop.render.frame.header import badge_lines, time_of_day
from nftop.render.pages.explain import rule_facts

MARKS = (
    ("!", "a finding: a number beyond a limit that somebody has named, for some seconds"),
    ("i", "a finding that is no fault: a number does not mean what it seems to"),
)
KEY = "F"
_LINES_FROM = ((45, 3), (30, 2), (10, 1))  # lines of the screen, and findings' share of them


def lines_for(height: int) -> int:
    """How many lines of a screen findings may take."""
    return next((lines for least, lines in _LINES_FROM if height >= least), 0)


def finding_lines(frame: Frame, width: int, limit: int) -> list[Line]:
    """The most severe, one line a rule: its first place.

    Behind the last line how many more there are, of these rules and others, and how to see them.
    """
    shown = [finding[0] for finding in _by_rule(frame.findings)[:limit]]
    hidden = len(frame.findings) - len(shown)
    lines = []
    for number, finding in enumerate(shown, 1):
        last = number == len(shown)
        more = f" and {hidden} more:" if hidden else ""
        tail = line(
            Span(f" {_age(frame, finding)}{more if last else ''}", Tone.DIM),
            *([Span(f" {KEY} all", Tone.ACCENT)] if last else []),
        )
        lines.append(_fitted(_lead(finding), _text(finding), tail, width))
    return lines


def finding_text_lines(frame: Frame, width: int) -> list[Line]:
    """All of them, for the batch output: since when, where, what, and by which rule."""
    return [
        item
        for finding in frame.findings
        for item in paragraph(
            f"{finding.where}: {finding.text} [{finding.rule}, since {clock_of(finding.since_ns)}]",
            width,
            lead=_lead(finding),
        )
    ]


def finding_page_lines(frame: Frame, width: int) -> list[Line]:
    """All of them, by rule, each rule with what it is about and who says so."""
    head = f"Findings at {time_of_day(frame)}"
    lines = [*(crop(badge_line, width) for badge_line in badge_lines(frame.host))]
    if not frame.findings:
        none = "None: no number was beyond a limit that nftop knows for long enough."
        lines += [line(Span(head, Tone.TITLE)), *paragraph(none, width), BLANK]
        return lines
    lines += [line(Span(f"{head}, the most severe first", Tone.TITLE)), BLANK]
    for finding in _by_rule(frame.findings):
        lines += _of_rule(frame, finding, width)
    return lines


def _of_rule(frame: Frame, findings: Sequence[Finding], width: int) -> list[Line]:
    rule = rule_called(findings[0].rule)
    title = findings[0].rule if rule is None else f"{rule.title} ({rule.id})"
    lines = [crop(line(_lead(findings[0]), Span(title, Tone.TITLE)), width)]
    for item in findings:
        lead = line("  ", Span(f"{_age(frame, item):>4} ", Tone.DIM))
        lines += paragraph(f"{item.where}: {item.text}", width, lead=lead)
    facts = () if rule is None else rule_facts(rule)
    for name, text in facts:
        lead = line("  ", Span(f"{name}: ", Tone.ACCENT))
        lines += paragraph(text, width, lead=lead, tone=Tone.DIM)
    return [*lines, BLANK]


def _by_rule(findings: Sequence[Finding]) -> list[list[Finding]]:
    """Frames have them in the order of rules."""
    return [list(finding) for _, finding in groupby(findings, key=lambda item: item.rule)]


def _lead(finding: Finding) -> Line:
    return line(Span("i ", Tone.ACCENT) if finding.is_note else Span("! ", Tone.BAD))


def _text(finding: Finding) -> Line:
    return line(f"{finding.where}: {finding.text}")


def _age(frame: Frame, finding: Finding) -> str:
    """How long it has been there: `12s`, `3m`, `5h`, `2d`."""
    seconds = max(frame.wall_ns - finding.since_ns, 0) // 10**9
    for size, unit, until in ((1, "s", 120), (60, "m", 7200), (3600, "h", 172_800)):
        if seconds < until:
            return f"{seconds // size}{unit}"
    return f"{seconds // 86_400}d"


def _fitted(lead: Line, text: Line, tail: Line, width: int) -> Line:
    """What is said is cut for what is behind it; that goes where too little would be left."""
    room = width - lead.width - tail.width
    if room < width // 3:
        return crop(line(lead, text), width)
    return line(lead, crop(text, room), tail)
