"""Findings as text: below the header, on their page and in the batch output."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from nftop.derive.findings.registry import rule_called
from nftop.model.frame import Finding, Frame
from nftop.model.rule_settings import NO_SETTINGS, RuleSettings, base_name
from nftop.render.base.format import since_text
from nftop.render.base.line import BLANK, Line, Span, Tone, crop, line, paragraph, selected
from nftop.render.base.text import printable
from nftop.render.frame.header import badge_lines, time_of_day
from nftop.render.pages.explain import rule_facts

MARKS = (
    ("!", "finding: a number beyond a published limit for some seconds"),
    ("i", "note: a number that is easily misread"),
)


def finding_text_lines(frame: Frame, width: int) -> list[Line]:
    """All findings, for the batch output."""
    return [
        item
        for finding in frame.findings
        if not finding.is_muted
        for item in paragraph(
            f"{finding.where}: {finding.text} [{finding.rule}, {since_text(finding)}]",
            width,
            lead=_lead(finding),
        )
    ]


def finding_page_lines(
    frame: Frame, width: int, *, settings: RuleSettings = NO_SETTINGS, chosen: Finding | None = None
) -> list[Line]:
    """Page of all findings by rule, with the facts of each rule and what is set of it.

    `chosen`: the finding under the cursor.
    """
    head = f"Findings at {time_of_day(frame)}"
    lines = [*(crop(badge_line, width) for badge_line in badge_lines(frame.host))]
    if not frame.findings:
        none = "No active findings."
        lines += [line(Span(head, Tone.STRONG)), *paragraph(none, width), BLANK]
        return lines
    lines += [line(Span(f"{head}, the most severe first", Tone.STRONG)), BLANK]
    for _, findings in groupby(frame.findings, key=lambda item: item.rule):
        lines += _of_rule(frame, list(findings), width, settings, chosen)
    return lines


def _of_rule(
    frame: Frame,
    findings: Sequence[Finding],
    width: int,
    settings: RuleSettings,
    chosen: Finding | None,
) -> list[Line]:
    rule = rule_called(findings[0].rule)
    title = findings[0].rule if rule is None else f"{rule.title} ({rule.id})"
    lines = [crop(line(_lead(findings[0]), Span(title, Tone.STRONG)), width)]
    for item in findings:
        lead = line("  ", Span(f"{_age(frame, item):>4} ", Tone.MUTED))
        mark = " (muted)" if item.is_muted else ""
        drawn = paragraph(f"{item.where}: {item.text}{mark}", width, lead=lead)
        lines += map(selected, drawn) if item is chosen else drawn
    if own := setting_texts(findings[0].rule, settings, [nf.name for nf in frame.nfs]):
        lead = line("  ", Span("set by you: ", Tone.ACCENT))
        lines += paragraph("; ".join(own), width, lead=lead)
    facts = () if rule is None else rule_facts(rule)
    for name, text in facts:
        lead = line("  ", Span(f"{name}: ", Tone.ACCENT))
        lines += paragraph(text, width, lead=lead, tone=Tone.MUTED)
    return [*lines, BLANK]


def setting_texts(name: str, settings: RuleSettings, nfs: Sequence[str] = ()) -> list[str]:
    """What the operator has set of a rule, for each NF and for all.

    `nfs`: names of those that are here; a setting whose name stands for several is not in effect.
    """
    rule = rule_called(name)
    texts = []
    for row in settings.rows:
        if row.rule == name:
            limit = "" if row.limit is None or rule is None else f"limit {rule.printed(row.limit)}"
            what = ", ".join(filter(None, ("muted" if row.muted else "", limit))) or "as nftop's"
            several = [nf for nf in nfs if nf != row.nf and base_name(nf) == row.nf]
            why = f", not in effect: that are {' and '.join(several)}" if several else ""
            texts.append(printable(f"{what} for {row.nf or 'all'}{why}"))
    return texts


def _lead(finding: Finding) -> Line:
    return line(Span("i ", Tone.ACCENT) if finding.is_note else Span("! ", Tone.BAD))


def _age(frame: Frame, finding: Finding) -> str:
    """Duration: `12s`, `3m`, `5h`, `2d`."""
    seconds = max(frame.monotonic_ns - finding.began_ns, 0) // 10**9
    for size, unit, until in ((1, "s", 120), (60, "m", 7200), (3600, "h", 172_800)):
        if seconds < until:
            return f"{seconds // size}{unit}"
    return f"{seconds // 86_400}d"
