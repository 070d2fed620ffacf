"""The page that a change is confirmed on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nftop.model.change import Proposal
from nftop.model.rdt.rdt import MbaUnit
from nftop.render.base.line import BLANK, Line, Span, Tone, line, paragraph
from nftop.render.base.text import printable
from nftop.render.editor.change import against, changed

_TONES = {"can't: ": Tone.BAD, "warning: ": Tone.ACCENT, "note: ": Tone.DIM}


def confirm_lines(
    proposal: Proposal,
    writes: Sequence[str],
    width: int,
    *,
    ways: Mapping[str, int],
    unit: MbaUnit,
    obstacle: str,
    keep_within_s: float,
) -> tuple[list[Line], int]:
    """What speaks against it, then what would be different, what is written, and what `y` does.

    Also of how many lines, the first ones, one has to have seen the last to confirm it.

    Args:
        proposal: to be confirmed.
        writes: what would be written, as a shell would do it.
        width: cells a line may take.
        ways: of the masks of each line of schemata.
        unit: of limits on bandwidth.
        obstacle: why it can't be applied now; "" where it can.
        keep_within_s: how long an applied change waits to be kept.
    """
    lines = [row for item in against(proposal) for row in paragraph(item, width, tone=_tone(item))]
    warned = len(lines)
    lines += [BLANK] * bool(warned and proposal.changes)
    said = changed(proposal.changes, ways, unit)
    said += [f"note: {printable(effect)}" for effect in proposal.effects]
    lines += [row for item in said for row in paragraph(item, width, tone=_tone(item))]
    # Several commands are several changes, each with a way back of its own.
    commands = proposal.commands
    for title, texts in (
        ("written", writes),
        ("the same by" if len(commands) < 2 else "by single commands", commands),
    ):
        if texts:
            lines += [BLANK, line(Span(title, Tone.HEADER))]
            lines += [row for text in texts for row in paragraph(text, width, lead=line("  "))]
    lines.append(BLANK)
    if obstacle:
        return [*lines, *paragraph(obstacle, width, tone=Tone.BAD)], warned
    if proposal.final:
        meaning = "final: kept at once, and not taken back when nftop ends"
    else:
        meaning = (
            f"taken back by itself in {keep_within_s:g} s, or when nftop ends, unless K keeps it"
        )
    ask = f"applies it: locked, compared with what is shown here, written, read back; {meaning}"
    return [*lines, *paragraph(ask, width, lead=line(Span("y", Tone.TITLE), " "))], warned


def _tone(text: str) -> Tone:
    return next((tone for head, tone in _TONES.items() if text.startswith(head)), Tone.PLAIN)
