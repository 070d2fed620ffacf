"""Page of the frequency editor: choices, and the effect of the last change."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nftop.model.frame import Frame
from nftop.model.ids import Cpu
from nftop.model.metrics.metric import Unit
from nftop.model.missing import Missing
from nftop.model.struct import dataclass
from nftop.render.base import format as fmt
from nftop.render.base.line import BLANK, Line, Span, Tone, clickable, crop, line, paragraph
from nftop.render.base.table import rule_line
from nftop.render.base.text import fit
from nftop.render.frame.header import alert_lines, badge_lines

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
    lines += [BLANK, *paragraph(
        "Enter previews the writes. High-priority cores (SST-BF) are fixed in silicon.",
        width, tone=Tone.MUTED,
    )]  # fmt: skip
    return [*lines, *_effects(effects, width, stood_s)], spot


def _choice(text: str, distance: int, width: int) -> Line:
    """A setting, so many lines below the selected one."""
    here = not distance
    mark = Span("▸ " if here else "  ", Tone.ACCENT)
    row = line(mark, Span(text, Tone.STRONG if here else Tone.PLAIN),
               fill=Tone.SELECTION if here else Tone.PLAIN)  # fmt: skip
    return clickable(crop(row, width), "move", distance)


_CELL = 9  # cells of a number


def _effects(effects: Sequence[Effect], width: int, stood_s: float | None) -> list[Line]:
    """Table of means before and after the last change."""
    if not effects:
        return []
    ended = "" if stood_s is None else f"taken back after {stood_s:.0f} s; "
    lines = [BLANK, rule_line("LAST CHANGE", f"{ended}means of up to 30 s", width)]
    heads = ["GHz", "after", "change", "Mpps", "after", "change"]
    text = "  CPU " + "".join(fit(head, _CELL, right=True) for head in heads)
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
    texts = ["" if math.isnan(item) else fmt.number(item, unit, _CELL - 2) for item in values]
    both = before > 0 and not math.isnan(after)
    change = fmt.number(after / before - 1, Unit.CHANGE, _CELL - 2) if both else ""
    tones = (Tone.PLAIN, Tone.STRONG, Tone.ACCENT)
    return [
        Span(fit(text, _CELL, right=True), tone)
        for text, tone in zip((*texts, change), tones, strict=True)
    ]
