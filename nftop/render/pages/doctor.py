"""Report of `nftop doctor` as lines: a summary, what to do first, and every check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nftop.model.check import Check
from nftop.model.missing import Reason
from nftop.model.nf.kinds import NF_ADDRESSES
from nftop.render.base.line import BLANK, Line, Span, Tone, crop, line, paragraph
from nftop.render.base.text import LONGEST, cells, fit, printable

# What is not on this host, or has nothing to do at the moment; nothing is wrong.
_ABSENT = frozenset({Reason.HARDWARE, Reason.SOURCE, Reason.IDLE, Reason.UNDEFINED, Reason.WARMING})
_COUNTERS = ("perf", "uncore")
_NAME_MOST = 24
_STATE = 11


def mark_of(check: Check) -> tuple[str, Tone]:
    """Tick for what works, `▲` for a setting to tune, cross for a fault, `·` for what is absent."""
    if check.reason is Reason.PRESENT:
        return ("✔", Tone.GOOD) if check.advised else ("▲", Tone.WARN)
    return ("·", Tone.MUTED) if check.reason in _ABSENT else ("✘", Tone.BAD)


def next_step(checks: Sequence[Check]) -> Check | None:
    """The check to mend first, by what blocks most; None: none has a fix.

    Faults, absent counters, settings, then what else is absent. While no thread polls, settings
    have no effect, and a network function that is not started comes before them. Among equals the
    first: sources are listed in order of dependence.
    """
    of_nfs = [item for item in checks if item.name.split(" ")[0] in NF_ADDRESSES]
    polls = any(item.reason is Reason.PRESENT for item in of_nfs)
    idle = not polls and any(item.reason is Reason.IDLE for item in checks)

    def rank(item: Check) -> int | None:
        if idle and item in of_nfs and item.reason is Reason.SOURCE:
            return 2
        mark = mark_of(item)[0]
        counts = item.name.split(" ")[0] in _COUNTERS
        return {"✘": 0, "▲": 3, "·": 1 if counts else 4}.get(mark) if item.fix else None

    ranked = [(at, item) for item in checks if (at := rank(item)) is not None]
    return min(ranked, key=lambda pair: pair[0], default=(0, None))[1]


def counts(checks: Sequence[Check]) -> Mapping[str, int]:
    """Number of checks by state in words, all four of them."""
    marks = [mark_of(item)[0] for item in checks]
    words = {"✔": "work", "▲": "to tune", "✘": "fail", "·": "absent"}
    return {word: marks.count(mark) for mark, word in words.items()}


def summary(checks: Sequence[Check]) -> str:
    """`12 work, 2 to tune, 1 fail, 9 absent`, without what there is none of."""
    return ", ".join(f"{count} {word}" for word, count in counts(checks).items() if count)


def doctor_lines(checks: Sequence[Check], caveat: str, width: int) -> list[Line]:
    """The report.

    Args:
        checks: at least one.
        caveat: of a host that is not a real local one; "": none.
        width: cells a line may take, other than that of a fix, which is one line.
    """
    longest = max(cells(printable(check.name)) for check in checks)
    name = min(longest, max(_NAME_MOST, width // 8), width // 3)  # whole where it is no terminal
    lines = paragraph(caveat, width, tone=Tone.WARN) if caveat else []
    lines.append(crop(line(Span(summary(checks), Tone.STRONG)), width))
    first = next_step(checks)
    if first is not None:
        lead = line(Span("first: ", Tone.ACCENT))
        text = first.name if first.fix else f"{first.name}: {first.text}"
        lines += paragraph(text, width, lead=lead)
        lines += [_command(first.fix)] if first.fix else []
    lines.append(BLANK)
    for check in checks:
        mark, tone = mark_of(check)
        lead = line(
            Span(f"{mark} ", tone),
            f"{fit(check.name, name)} ",
            Span(fit(check.state, _STATE), Tone.MUTED),
        )
        lines += paragraph(check.text, width, lead=crop(lead, width // 2))
        indent = line(" " * (name + 3), Span("why: ", Tone.ACCENT))
        lines += paragraph(check.why, width, lead=crop(indent, width // 2)) if check.why else []
        lines += [_command(check.fix)] if check.fix else []
    return lines


def _command(fix: str) -> Line:
    """A command alone on its line, never wrapped: a part of it would be another command."""
    pieces = (fix[at : at + LONGEST] for at in range(0, len(fix), LONGEST))
    return line("  ", *(Span(text, Tone.ACCENT) for text in pieces))
